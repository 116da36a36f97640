// wgmma of every N, from shared memory and from registers, in every layout; descriptors.
#include <ptxgym/fence.cuh>
#include <ptxgym/wgmma.cuh>
using namespace ptxgym;

constexpr int M = 64, K = 64;

// A row-major matrix of K columns, [rows][K] in global memory, as an operand's tile.
template <Swizzle SWIZZLE, Major MAJOR>
__device__ void place(__nv_bfloat16* tile, const __nv_bfloat16* matrix, int rows) {
    for (int i = threadIdx.x; i < rows * K; i += blockDim.x) {
        const int mn = i / K, k = i % K;
        const int row = MAJOR == Major::K ? mn : k, column = MAJOR == Major::K ? k : mn;
        const int slab_rows = MAJOR == Major::K ? rows : K, per_slab = SPAN<SWIZZLE> / 2;
        const int offset = swizzled_offset<SWIZZLE>(row, column % per_slab * 2);
        tile[column / per_slab * slab_rows * per_slab + offset / 2] = matrix[i];
    }
}

template <Swizzle SWIZZLE, Major MAJOR>
__device__ uint64_t step(const __nv_bfloat16* tile, int rows, int i) {
    if constexpr (SWIZZLE == Swizzle::NONE) {  // slabs of 16 bytes: blocks of eight rows follow each other
        constexpr uint32_t BLOCK = 128;
        if constexpr (MAJOR == Major::K)
            return wgmma_descriptor<SWIZZLE>(tile + i * 2 * rows * 8, rows * 16, BLOCK);
        else
            return wgmma_descriptor<SWIZZLE>(tile + i * 16 * 8, BLOCK, K * 16);
    } else if constexpr (MAJOR == Major::K) {
        return wgmma_descriptor_k_major<SWIZZLE>(tile) + step_k_major<SWIZZLE>(i, rows * SPAN<SWIZZLE>);
    } else {
        return wgmma_descriptor_mn_major<SWIZZLE>(tile, K * SPAN<SWIZZLE>) + step_mn_major<SWIZZLE>(i);
    }
}

template <int N, Swizzle SWIZZLE, Major A, Major B, bool REGISTERS>
__device__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out) {
    __shared__ alignas(1024) __nv_bfloat16 tile_a[M * K], tile_b[(N + 63) / 64 * 64 * K];
    place<SWIZZLE, A>(tile_a, a, M);
    place<SWIZZLE, B>(tile_b, b, N);
    fence_proxy_async();
    __syncthreads();
    float d[N / 2];
    for (float& x : d) x = __int_as_float(0x7fc00000);  // the first product must replace it
    uint32_t operand[K / 16][4];
    if constexpr (REGISTERS) {
        float row[K / 2];
        for (int i = 0; i < K / 2; ++i) row[i] = __bfloat162float(a[wgmma_row(i) * K + wgmma_column(i)]);
        for (int i = 0; i < K / 16; ++i) wgmma_a_operand(operand[i], row, i);
    }
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < K / 16; ++i) {
        if constexpr (REGISTERS)
            wgmma_mma_async<B>(d, operand[i], step<SWIZZLE, B>(tile_b, N, i), i > 0);
        else
            wgmma_mma_async<A, B>(d, step<SWIZZLE, A>(tile_a, M, i), step<SWIZZLE, B>(tile_b, N, i), i > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
#pragma unroll
    for (int i = 0; i < N / 2; ++i) out[wgmma_row(i) * N + wgmma_column(i)] = d[i];
}

#define KERNEL(NAME, ...)                                                                                     \
    extern "C" __global__ void __launch_bounds__(128)                                                         \
    NAME(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out) { product<__VA_ARGS__>(a, b, out); }
#define EVERY_N(N, ...)                                                      \
    KERNEL(ss_##N, N, Swizzle::B128, Major::K, Major::K, false)              \
    KERNEL(rs_##N, N, Swizzle::B128, Major::K, Major::K, true)
PTXGYM_FOR_EACH_N(EVERY_N)

#define EVERY_MAJOR(S)                                                       \
    KERNEL(ss_##S##_k_k, 96, Swizzle::S, Major::K, Major::K, false)          \
    KERNEL(ss_##S##_k_mn, 96, Swizzle::S, Major::K, Major::MN, false)        \
    KERNEL(ss_##S##_mn_k, 96, Swizzle::S, Major::MN, Major::K, false)        \
    KERNEL(ss_##S##_mn_mn, 96, Swizzle::S, Major::MN, Major::MN, false)      \
    KERNEL(rs_##S##_mn, 96, Swizzle::S, Major::K, Major::MN, true)
EVERY_MAJOR(B128)
EVERY_MAJOR(B64)
EVERY_MAJOR(B32)
EVERY_MAJOR(NONE)

// Every swizzle with a number of distances; the raw bits.
template <Swizzle SWIZZLE>
__device__ void describe(const char* tile, unsigned long long*& out) {
    for (int leading = 16; leading < 262144; leading *= 2)
        for (int stride = 16; stride < 262144; stride *= 2) *out++ = wgmma_descriptor<SWIZZLE>(tile, leading, stride);
}
extern "C" __global__ void descriptors(unsigned long long* out, uint32_t* start) {
    extern __shared__ __align__(1024) char tile[];
    *start = shared_address(tile + 1024);
    describe<Swizzle::NONE>(tile + 1024, out);
    describe<Swizzle::B32>(tile + 1024, out);
    describe<Swizzle::B64>(tile + 1024, out);
    describe<Swizzle::B128>(tile + 1024, out);
}
