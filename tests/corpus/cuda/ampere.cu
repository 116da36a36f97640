// cp.async, ldmatrix, mma.sync and wmma.
#include <mma.h>
#include "ptx.cuh"

// C[M,N] = A[M,K] B[N,K]^T; 64x64 tiles, four warps of 16 rows, two stages.
constexpr int BM = 64, BN = 64, BK = 32, PAD = 8;
extern "C" __global__ void __launch_bounds__(128) mma_gemm(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) __nv_bfloat16 a[2][BM][BK + PAD], b[2][BN][BK + PAD];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float d[BN / 8][4] = {};
    auto fetch = [&](int stage, int k) {
        for (int i = threadIdx.x; i < BM * BK / 8; i += 128) {
            int r = i / (BK / 8), c = i % (BK / 8) * 8;
            cp_async_16(&a[stage][r][c], A + (size_t)(row0 + r) * K + k + c);
            cp_async_16(&b[stage][r][c], B + (size_t)(col0 + r) * K + k + c);
        }
        cp_async_commit();
    };
    fetch(0, 0);
    for (int k = 0, s = 0; k < K; k += BK, s ^= 1) {
        if (k + BK < K) { fetch(s ^ 1, k + BK); cp_async_wait<1>(); } else cp_async_wait<0>();
        __syncthreads();  // stage is here
        for (int kk = 0; kk < BK; kk += 16) {
            uint32_t fa[4];
            ldmatrix_x4(fa, &a[s][warp * 16 + lane % 16][kk + lane / 16 * 8]);
            for (int j = 0; j < BN / 8; ++j) {
                uint32_t fb[2];
                ldmatrix_x2(fb, &b[s][j * 8 + lane % 8][kk + lane / 8 % 2 * 8]);
                mma_bf16(d[j], fa, fb);
            }
        }
        __syncthreads();  // stage is free
    }
    for (int j = 0; j < BN / 8; ++j)
        for (int i = 0; i < 4; ++i) C[(size_t)(row0 + warp * 16 + lane / 4 + i / 2 * 8) * N + col0 + j * 8 + lane % 4 * 2 + i % 2] = d[j][i];
}

using namespace nvcuda;
extern "C" __global__ void wmma_gemm(const __half* A, const __half* B, float* C, int M, int N, int K) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + (size_t)blockIdx.y * 16 * K + k, K);
        wmma::load_matrix_sync(b, B + (size_t)blockIdx.x * 16 * K + k, K);
        wmma::mma_sync(c, a, b, c);
    }
    for (int i = 0; i < c.num_elements; ++i) c.x[i] *= 2;
    wmma::store_matrix_sync(C + (size_t)blockIdx.y * 16 * N + blockIdx.x * 16, c, N, wmma::mem_row_major);
}

// One warp, one instruction each: int8, tf32, fp16 with half accumulators, fp64.
extern "C" __global__ void mma_shapes(const int8_t* a8, const int8_t* b8, int* c8, const float* at, const float* bt, float* ct, const __half* ah, const __half* bh, __half* ch) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    {
        const int *a = (const int*)a8, *b = (const int*)b8;  // 16x32, 8x32 bytes
        int d[4];
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                     : "r"(a[g * 8 + t]), "r"(a[(g + 8) * 8 + t]), "r"(a[g * 8 + t + 4]), "r"(a[(g + 8) * 8 + t + 4]), "r"(b[g * 8 + t]), "r"(b[g * 8 + t + 4]), "r"(7));
        for (int i = 0; i < 4; ++i) c8[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
    }
    {
        const unsigned *a = (const unsigned*)at, *b = (const unsigned*)bt;  // 16x8, 8x8
        float d[4];
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                     : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                     : "r"(a[g * 8 + t]), "r"(a[(g + 8) * 8 + t]), "r"(a[g * 8 + t + 4]), "r"(a[(g + 8) * 8 + t + 4]), "r"(b[g * 8 + t]), "r"(b[g * 8 + t + 4]), "f"(0.f));
        for (int i = 0; i < 4; ++i) ct[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
    }
    {
        const unsigned *a = (const unsigned*)ah, *b = (const unsigned*)bh;  // 16x16, 8x16 halves
        unsigned d[2];
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%8};"
                     : "=r"(d[0]), "=r"(d[1]) : "r"(a[g * 8 + t]), "r"(a[(g + 8) * 8 + t]), "r"(a[g * 8 + t + 4]), "r"(a[(g + 8) * 8 + t + 4]), "r"(b[g * 8 + t]), "r"(b[g * 8 + t + 4]), "r"(0));
        ((unsigned*)ch)[g * 4 + t] = d[0];
        ((unsigned*)ch)[(g + 8) * 4 + t] = d[1];
    }
}
