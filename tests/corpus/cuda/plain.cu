// CUDA without tensor cores: what every kernel writer begins with.
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void naive_gemm(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += __bfloat162float(A[row * K + k]) * __bfloat162float(B[k * N + col]);
    C[row * N + col] = sum;
}

extern "C" __global__ void tiled_gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][16], b[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        a[y][x] = A[row * K + k0 + x];
        b[y][x] = B[(k0 + y) * N + col];
        __syncthreads();  // tile is complete
        for (int k = 0; k < 16; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();  // tile is used up
    }
    C[row * N + col] = sum;
}

extern "C" __global__ void softmax(const float* x, float* y, int n) {
    __shared__ float part[32];
    const float* row = x + blockIdx.x * n;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, row[i]);
    for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
    if (lane == 0) part[warp] = top;
    __syncthreads();
    top = part[0];
    for (int i = 1; i < warps; ++i) top = fmaxf(top, part[i]);
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(row[i] - top);
    for (int o = 16; o; o /= 2) sum += __shfl_down_sync(~0u, sum, o);
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < warps; ++i) sum += part[i];
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = __expf(row[i] - top) / sum;
}

extern "C" __global__ void histogram(const int* x, unsigned* h, int n) {
    __shared__ unsigned local[64];
    if (threadIdx.x < 64) local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i] & 63], 1u);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&h[threadIdx.x], local[threadIdx.x]);
}

extern "C" __global__ void warp_scan(const int* x, int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    for (int o = 1; o < 32; o *= 2) {
        int other = __shfl_up_sync(~0u, v, o);
        if (threadIdx.x % 32 >= o) v += other;
    }
    y[i] = v;
}

extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32;
    for (int i = threadIdx.y; i < 32; i += blockDim.y) tile[i][threadIdx.x] = in[(y + i) * cols + x];
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += blockDim.y) out[(blockIdx.x * 32 + i) * rows + y + threadIdx.x] = tile[threadIdx.x][i];
}

__device__ unsigned arrived = 0;
// The last block to finish adds up the others' sums.
extern "C" __global__ void last_block_sum(const float* x, volatile float* partial, float* out, int n) {
    __shared__ float part[8];
    __shared__ bool last;
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int i = 0; i < blockDim.x / 32; ++i) sum += part[i];
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(&arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float total = 0;
        for (int i = 0; i < gridDim.x; ++i) total += partial[i];
        *out = total;
        arrived = 0;
    }
}

// Blocks wait for each other through global memory.
__device__ unsigned gate = 0;
extern "C" __global__ void grid_barrier(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] * 2;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&gate, 1u);
        while (atomicAdd(&gate, 0u) < gridDim.x) __nanosleep(100);
    }
    __syncthreads();
    y[n + i] = ((volatile int*)y)[n - 1 - i];
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ float twice(float v) { return 2 * v; }
__device__ __noinline__ float half_of(float v) { return v / 2; }
extern "C" __global__ void calls(float* x, int* fib) {
    float (*choose)(float) = threadIdx.x & 1 ? twice : half_of;
    x[threadIdx.x] = choose(x[threadIdx.x]);
    if (threadIdx.x < 10) fib[threadIdx.x] = fibonacci(threadIdx.x);
}

__constant__ float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
extern "C" __global__ void constants_and_locals(const int* index, float* out, int n) {
    float stack[32];
    for (int i = 0; i < 32; ++i) stack[i] = weights[i % 8] * (threadIdx.x + 1);
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += stack[index[i] & 31];
    out[threadIdx.x] = sum;
    if (threadIdx.x == 3) printf("thread %d: %.2f %s 0x%llx\n", threadIdx.x, sum, "ok", 0x123456789abULL);
}

extern "C" __global__ void switch_table(const int* x, int* y) {
    int v = x[threadIdx.x];
    switch (v & 7) {
        case 0: v += 11; break;
        case 1: v *= 3; break;
        case 2: v -= 5; break;
        case 3: v ^= 0x55; break;
        case 4: v = v * v; break;
        case 5: v = -v; break;
        case 6: v <<= 3; break;
        default: v = ~v;
    }
    y[threadIdx.x] = v;
}

extern "C" __global__ void math_functions(const float* x, float* y, double* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = tanhf(v) + erff(v) + sinf(v * 100) * cosf(v) + powf(fabsf(v), 0.3f) + log1pf(fabsf(v)) + rsqrtf(fabsf(v) + 1) + fmodf(v, 1.5f) + copysignf(1.f, v) + rintf(v);
    z[i] = exp((double)v) + sqrt((double)v * v) + 1.0 / (1.0 + (double)v * v) + sin((double)v);
}

extern "C" __global__ void number_formats(const float* x, unsigned char* e4m3, __nv_bfloat16* bf, __half* h, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    e4m3[i] = __nv_fp8_e4m3(x[i]).__x;
    bf[i] = __hfma(__float2bfloat16(x[i]), __float2bfloat16(3.f), __float2bfloat16(1.f));
    h[i] = __hadd(__hmul(__float2half(x[i]), __float2half(0.5f)), __float2half(1.f));
}

extern "C" __global__ void named_barriers(const float* in, float* out, int steps) {
    __shared__ float buffer[2][64];
    if (threadIdx.x < 64) {  // producers
        for (int s = 0; s < steps; ++s) {
            if (s >= 2) asm volatile("bar.sync %0, 128;" ::"r"(3 + s % 2) : "memory");  // buffer is free
            buffer[s % 2][threadIdx.x] = in[s * 64 + threadIdx.x] * 2;
            asm volatile("bar.arrive %0, 128;" ::"r"(1 + s % 2) : "memory");
        }
    } else {
        for (int s = 0; s < steps; ++s) {
            asm volatile("bar.sync %0, 128;" ::"r"(1 + s % 2) : "memory");  // buffer is full
            out[s * 64 + threadIdx.x - 64] = buffer[s % 2][127 - threadIdx.x];
            if (s + 2 < steps) asm volatile("bar.arrive %0, 128;" ::"r"(3 + s % 2) : "memory");
        }
    }
}

extern "C" __global__ void warp_votes(const int* x, unsigned* y) {
    int v = x[threadIdx.x];
    unsigned ballot = __ballot_sync(~0u, v & 1), same = __match_any_sync(~0u, v & 3);
    unsigned sum = __reduce_add_sync(~0u, v);
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int share = tile.shfl(v, 3);
    y[threadIdx.x] = ballot ^ same ^ sum ^ share;
    if (v & 4) y[threadIdx.x] += __popc(__activemask());
    if (__syncthreads_or(v == 17)) y[threadIdx.x] += 1;
    y[threadIdx.x] += __syncthreads_count(v & 1);
}
