// C[M,N] = A[M,K] * B[N,K]^T in plain CUDA: bf16 in, fp32 FMA, bf16 out. No tensor cores, no PTX.
//
// The numbers are right and the time is not: the tensor cores of gemm.cu have about fifteen times this
// kernel's peak. It is here as the example that passes correctness and fails the instruction check.
//
// Not promised: shapes other than multiples of 128 (M, N) and 16 (K). They are refused.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int TILE = 128;  // a block computes TILE x TILE of C
constexpr int STEP = 16;   // depth of one pass through shared memory
constexpr int THREADS = 256;
constexpr int LOAD = 8;    // bf16 per 16-byte load; a thread loads one such piece of A and one of B per step

static_assert(TILE * STEP == THREADS * LOAD, "one load per operand and thread");

// Shared tiles are transposed, k first, and already fp32: the inner loop then reads rows as float4.
using Panel = float[STEP][TILE];

struct Piece {
    __nv_bfloat162 pair[LOAD / 2];
};

// Consecutive threads take consecutive rows, so that the transposed write below has no bank conflicts.
__device__ Piece load(const __nv_bfloat16* matrix, int K, int k) {
    const int row = threadIdx.x % TILE, piece = threadIdx.x / TILE;
    Piece result;
    *reinterpret_cast<uint4*>(&result) = *reinterpret_cast<const uint4*>(matrix + size_t(row) * K + k + piece * LOAD);
    return result;
}

__device__ void put(Panel& panel, const Piece& piece) {
    const int row = threadIdx.x % TILE, first = threadIdx.x / TILE * LOAD;
#pragma unroll
    for (int i = 0; i < LOAD / 2; ++i) {
        const float2 value = __bfloat1622float2(piece.pair[i]);
        panel[first + 2 * i][row] = value.x;
        panel[first + 2 * i + 1][row] = value.y;
    }
}

// A thread's eight rows (or columns) are two runs of four, half a tile apart: neighbouring threads then
// read neighbouring float4.
__device__ void fetch(float (&fragment)[8], const float (&row)[TILE], int index) {
    *reinterpret_cast<float4*>(&fragment[0]) = *reinterpret_cast<const float4*>(&row[4 * index]);
    *reinterpret_cast<float4*>(&fragment[4]) = *reinterpret_cast<const float4*>(&row[TILE / 2 + 4 * index]);
}

__global__ void __launch_bounds__(THREADS, 2)
gemm_plain(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
    __shared__ alignas(16) Panel a[2], b[2];  // one is read while the other is filled
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    A += size_t(blockIdx.y) * TILE * K;
    B += size_t(blockIdx.x) * TILE * K;
    C += size_t(blockIdx.y) * TILE * N + size_t(blockIdx.x) * TILE;

    float sum[8][8] = {};
    put(a[0], load(A, K, 0));
    put(b[0], load(B, K, 0));
    __syncthreads();
    for (int k = 0, now = 0; k < K; k += STEP, now ^= 1) {
        const bool more = k + STEP < K;
        Piece next_a, next_b;
        if (more) {  // the loads travel while this step is multiplied
            next_a = load(A, K, k + STEP);
            next_b = load(B, K, k + STEP);
        }
#pragma unroll
        for (int i = 0; i < STEP; ++i) {
            float x[8], y[8];
            fetch(x, a[now][i], ty);
            fetch(y, b[now][i], tx);
#pragma unroll
            for (int r = 0; r < 8; ++r)
#pragma unroll
                for (int c = 0; c < 8; ++c) sum[r][c] = fmaf(x[r], y[c], sum[r][c]);
        }
        if (more) {
            put(a[now ^ 1], next_a);
            put(b[now ^ 1], next_b);
        }
        __syncthreads();  // the filled half is complete, and everyone has left the other one
    }

#pragma unroll
    for (int r = 0; r < 8; ++r) {
        const size_t row = r / 4 * (TILE / 2) + 4 * ty + r % 4;
#pragma unroll
        for (int c = 0; c < 8; c += 2)
            *reinterpret_cast<__nv_bfloat162*>(C + row * N + c / 4 * (TILE / 2) + 4 * tx + c % 4) =
                __floats2bfloat162_rn(sum[r][c], sum[r][c + 1]);
    }
}

}  // namespace

extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
    if (M <= 0 || N <= 0 || K <= 0 || M % TILE || N % TILE || K % STEP) return cudaErrorInvalidValue;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(N / TILE, M / TILE);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    return cudaLaunchKernelEx(&config, gemm_plain, A, B, C, N, K);
}
