// Tensor memory, products, copies, commits, by one CTA and by pairs.
#include <ptxgym/blackwell.cuh>
using namespace ptxgym;

constexpr int K = 64;

// The first 128 threads: `columns` columns of TMEM to out[128][columns].
__device__ void dump(uint32_t t, uint32_t* out, int columns) {
    if (threadIdx.x >= 128) return;
    const uint32_t row = tcgen05_address(t, threadIdx.x / 32 * 32, 0);
    for (int c = 0; c < columns; ++c) {
        uint32_t r[1];
        tcgen05_ld_32x32b(r, row + c);
        tcgen05_wait_ld();
        out[threadIdx.x * columns + c] = r[0];
    }
}

// ------------------------------------------------------------------------------- loads and stores
// 128 threads. Registers to TMEM in a shape, all of it as rows, and back in the shape.
#define SHAPE_KERNEL(SHAPE, COUNT, N, SPLIT, HALVES, COLUMNS)                                          \
    extern "C" __global__ void shape_##SHAPE##_##COUNT(const uint32_t* in, uint32_t* rows, uint32_t* out) { \
        __shared__ uint32_t slot;                                                                      \
        if (threadIdx.x < 32) {                                                                        \
            tcgen05_alloc<1, 256>(&slot);                                                              \
            tcgen05_relinquish_alloc_permit<1>();                                                      \
        }                                                                                              \
        tcgen05_fence_before_thread_sync();                                                            \
        __syncthreads();                                                                               \
        tcgen05_fence_after_thread_sync();                                                             \
        uint32_t r[N];                                                                                 \
        for (int h = 0; h < HALVES; ++h) {                                                             \
            for (int i = 0; i < N; ++i) r[i] = in[(h * 128 + threadIdx.x) * N + i];                    \
            tcgen05_st_##SHAPE SPLIT(tcgen05_address(slot, threadIdx.x / 32 * 32 + 16 * h, 0), r);       \
        }                                                                                              \
        tcgen05_wait_st();                                                                             \
        dump(slot, rows, COLUMNS);                                                                     \
        for (int h = 0; h < HALVES; ++h) {                                                             \
            tcgen05_ld_##SHAPE SPLIT(r, tcgen05_address(slot, threadIdx.x / 32 * 32 + 16 * h, 0));       \
            tcgen05_wait_ld();                                                                         \
            for (int i = 0; i < N; ++i) out[(h * 128 + threadIdx.x) * N + i] = r[i];                   \
        }                                                                                              \
        __syncthreads();                                                                               \
        if (threadIdx.x < 32) tcgen05_dealloc<1, 256>(slot);                                           \
    }
#define ROWS(SHAPE, COUNT, N, NEXT) SHAPE_KERNEL(SHAPE, COUNT, N, , 1, COUNT)
#define NARROW(SHAPE, COUNT, N, NEXT) SHAPE_KERNEL(SHAPE, COUNT, N, , 2, 2 * COUNT)
#define WIDE(SHAPE, COUNT, N, NEXT) SHAPE_KERNEL(SHAPE, COUNT, N, , 2, 4 * COUNT)
#define WIDEST(SHAPE, COUNT, N, NEXT) SHAPE_KERNEL(SHAPE, COUNT, N, , 2, 8 * COUNT)
#define TWICE(SHAPE, COUNT, N, NEXT) SHAPE_KERNEL(SHAPE, COUNT, N, <COUNT>, 2, 2 * COUNT)
PTXGYM_FOR_EACH_COUNT_1(ROWS, 32x32b)
PTXGYM_FOR_EACH_COUNT_1(NARROW, 16x64b)
PTXGYM_FOR_EACH_COUNT_2(WIDE, 16x128b)
PTXGYM_FOR_EACH_COUNT_4(WIDEST, 16x256b)
PTXGYM_FOR_EACH_COUNT_1(TWICE, 16x32bx2)

// ---------------------------------------------------------------------------------------- products
// A row-major matrix [rows][K] in global memory, as an operand's tile.
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
    if constexpr (SWIZZLE == Swizzle::NONE) {
        if constexpr (MAJOR == Major::K)
            return tcgen05_descriptor<SWIZZLE>(tile + i * 2 * rows * 8, rows * 16, 128);
        else
            return tcgen05_descriptor<SWIZZLE>(tile + i * 16 * 8, 128, K * 16);
    } else if constexpr (MAJOR == Major::K) {
        return tcgen05_descriptor_k_major<SWIZZLE>(tile) + step_k_major<SWIZZLE>(i, rows * SPAN<SWIZZLE>);
    } else {
        return tcgen05_descriptor_mn_major<SWIZZLE>(tile, K * SPAN<SWIZZLE>) + step_mn_major<SWIZZLE>(i);
    }
}

// 128 threads, GROUP CTAs. m and n are of the whole product; each CTA brings its halves of A and of B.
template <int GROUP, Swizzle SWIZZLE, Major A, Major B, bool TMEM>
__device__ void product(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out, int m, int n) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    __nv_bfloat16 *tile_a = reinterpret_cast<__nv_bfloat16*>(bytes), *tile_b = tile_a + 128 * K;
    __shared__ uint64_t done;
    __shared__ uint32_t slot;
    const int rank = GROUP == 2 ? cluster_ctarank() : 0, rows = m / GROUP, columns = n / GROUP, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        mbarrier_init(&done, 1);
        fence_mbarrier_init();
    }
    if (warp == 0) tcgen05_alloc<GROUP, 512>(&slot);
    place<SWIZZLE, A>(tile_a, a + rank * rows * K, rows);
    place<SWIZZLE, B>(tile_b, b + rank * columns * K, columns);
    fence_proxy_async();
    tcgen05_fence_before_thread_sync();
    GROUP == 2 ? cluster_sync() : __syncthreads();
    tcgen05_fence_after_thread_sync();
    const uint32_t t = slot;
    if (rows == 64) {  // only sixteen lanes of each warp will be written
        for (int c = 0; c < n; ++c) {
            const uint32_t zero[1] = {};
            tcgen05_st_32x32b(tcgen05_address(t, warp * 32, c), zero);
        }
        tcgen05_wait_st();
        tcgen05_fence_before_thread_sync();
        __syncthreads();
        tcgen05_fence_after_thread_sync();
    }
    if constexpr (TMEM) {  // row r's bf16 pairs in lane r, columns 256 and on
        const uint32_t* words = reinterpret_cast<const uint32_t*>(a + (rank * rows + threadIdx.x) * K);
        uint32_t r[K / 2];
        for (int i = 0; i < K / 2; ++i) r[i] = words[i];
        tcgen05_st_32x32b(tcgen05_address(t, warp * 32, 256), r);
        tcgen05_wait_st();
        tcgen05_fence_before_thread_sync();
        GROUP == 2 ? cluster_sync() : __syncthreads();
        tcgen05_fence_after_thread_sync();
    }
    if (rank == 0 && warp == 0 && elect_sync()) {
        const uint32_t idesc = tcgen05_instruction_descriptor(m, n, A, B);
        for (int i = 0; i < K / 16; ++i) {
            const uint64_t right = step<SWIZZLE, B>(tile_b, columns, i);
            if constexpr (TMEM)
                tcgen05_mma_ts<GROUP>(t, tcgen05_address(t, 0, 256 + 8 * i), right, idesc, i > 0);
            else
                tcgen05_mma<GROUP>(t, step<SWIZZLE, A>(tile_a, rows, i), right, idesc, i > 0);
        }
        if constexpr (GROUP == 2)
            tcgen05_commit_multicast<GROUP>(&done, 3);
        else
            tcgen05_commit<GROUP>(&done);
    }
    __syncwarp();
    mbarrier_wait_parity(&done, 0);
    tcgen05_fence_after_thread_sync();
    dump(t, reinterpret_cast<uint32_t*>(out) + rank * 128 * n, n);
    tcgen05_fence_before_thread_sync();
    GROUP == 2 ? cluster_sync() : __syncthreads();
    if (warp == 0) tcgen05_dealloc<GROUP, 512>(t);
}

#define ONE(NAME, ...)                                                                                               \
    extern "C" __global__ void __launch_bounds__(128)                                                                \
    one_##NAME(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out, int m, int n) {                             \
        product<1, __VA_ARGS__>(a, b, out, m, n);                                                                    \
    }
#define TWO(NAME, ...)                                                                                               \
    extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)                                      \
    two_##NAME(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out, int m, int n) {                             \
        product<2, __VA_ARGS__>(a, b, out, m, n);                                                                    \
    }
#define EVERY_MAJOR(S)                                             \
    ONE(S##_k_k, Swizzle::S, Major::K, Major::K, false)              \
    ONE(S##_k_mn, Swizzle::S, Major::K, Major::MN, false)            \
    ONE(S##_mn_k, Swizzle::S, Major::MN, Major::K, false)            \
    ONE(S##_mn_mn, Swizzle::S, Major::MN, Major::MN, false)
EVERY_MAJOR(B128)
EVERY_MAJOR(B64)
EVERY_MAJOR(B32)
EVERY_MAJOR(NONE)
ONE(ts, Swizzle::B128, Major::K, Major::MN, true)
TWO(k_k, Swizzle::B128, Major::K, Major::K, false)
TWO(mn_mn, Swizzle::B128, Major::MN, Major::MN, false)
TWO(ts, Swizzle::B128, Major::K, Major::K, true)

// ------------------------------------------------------------------------------------------ copies
// Rows of 32 or 16 bytes, unswizzled: blocks of eight rows of 16 bytes, the halves of a row `half` bytes apart.
template <int GROUP>
__device__ void copies(const uint4* in, uint32_t* out) {
    extern __shared__ __align__(1024) uint4 lines[];
    __shared__ uint64_t done;
    __shared__ uint32_t slot;
    for (int i = threadIdx.x; i < 256; i += blockDim.x) lines[i] = in[i];
    if (threadIdx.x == 0) {
        mbarrier_init(&done, 1);
        fence_mbarrier_init();
    }
    if (threadIdx.x < 32) tcgen05_alloc<GROUP, 64>(&slot);
    fence_proxy_async();
    tcgen05_fence_before_thread_sync();
    GROUP == 2 ? cluster_sync() : __syncthreads();
    tcgen05_fence_after_thread_sync();
    const uint32_t t = slot, warp = threadIdx.x / 32;
    uint32_t zeros[32] = {};
    tcgen05_st_32x32b(tcgen05_address(t, warp * 32, 0), zeros);
    tcgen05_wait_st();
    tcgen05_fence_before_thread_sync();
    GROUP == 2 ? cluster_sync() : __syncthreads();
    tcgen05_fence_after_thread_sync();
    const bool leads = GROUP == 1 || cluster_ctarank() == 0;
    if (leads && warp == 0 && elect_sync()) {
        const uint64_t tile = tcgen05_descriptor<Swizzle::NONE>(lines, 2048, 128);
        tcgen05_cp_128x256b<GROUP>(t, tile);
        tcgen05_cp_128x128b<GROUP>(t + 8, tile);
        tcgen05_cp_4x256b<GROUP>(t + 12, tile);
        tcgen05_cp_64x128b_02_13<GROUP>(t + 20, tile);
        tcgen05_cp_64x128b_01_23<GROUP>(t + 24, tile);
        tcgen05_cp_32x128b<GROUP>(t + 28, tile);
        if constexpr (GROUP == 2)
            tcgen05_commit_multicast<GROUP>(&done, 3);
        else
            tcgen05_commit_multicast<GROUP>(&done, 1);
    }
    __syncwarp();
    mbarrier_wait_parity(&done, 0);
    tcgen05_fence_after_thread_sync();
    dump(t, out + (GROUP == 2 ? cluster_ctarank() : 0) * 128 * 32, 32);
    tcgen05_fence_before_thread_sync();
    GROUP == 2 ? cluster_sync() : __syncthreads();
    if (warp == 0) {
        tcgen05_relinquish_alloc_permit<GROUP>();
        tcgen05_dealloc<GROUP, 64>(t);
    }
}
extern "C" __global__ void one_copies(const uint4* in, uint32_t* out) { copies<1>(in, out); }
extern "C" __global__ void __cluster_dims__(2, 1, 1) two_copies(const uint4* in, uint32_t* out) { copies<2>(in, out); }

// A commit of a pair that tells one CTA only.
extern "C" __global__ void __cluster_dims__(2, 1, 1) two_commit(int* out) {
    __shared__ uint64_t done;
    if (threadIdx.x == 0) {
        mbarrier_init(&done, 1);
        fence_mbarrier_init();
    }
    cluster_sync();
    if (elect_sync()) tcgen05_commit<2>(&done);
    __syncwarp();
    mbarrier_wait_parity(&done, 0);
    out[cluster_ctarank()] = 1;
    cluster_sync();
}

// --------------------------------------------------------------------------------- pairs and others
struct PairMaps {
    CUtensorMap in[3];  // of rank 2, 3 and 4: the same 16 x 32 floats
};

// Two CTAs: each copies a box of 16 x 8 floats, both counted by rank 0; rank 0 then copies one for both.
extern "C" __global__ void __cluster_dims__(2, 1, 1) pair_loads(const __grid_constant__ PairMaps maps, float* out) {
    __shared__ alignas(128) float tile[6][8 * 4];
    __shared__ uint64_t full;
    const uint32_t rank = cluster_ctarank();
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    cluster_sync();
    if (elect_sync()) {
        const uint32_t leader = mapa(&full, 0);
        if (rank == 0) mbarrier_arrive_expect_tx(&full, 2 * 3 * 128 + 2 * 3 * 128);
        tma_load_2d_pair(tile[0], &maps.in[0], leader, 8 * rank, 0);
        tma_load_3d_pair(tile[1], &maps.in[1], leader, 8 * rank, 4, 0);
        tma_load_4d_pair(tile[2], &maps.in[2], leader, 8 * rank, 8, 0, 0);
    }
    __syncwarp();
    out += rank * 6 * 32;
    if (rank == 0 && elect_sync()) {
        tma_load_2d_pair_multicast(tile[3], &maps.in[0], mapa(&full, 0), 1, 16, 0);
        tma_load_3d_pair_multicast(tile[4], &maps.in[1], mapa(&full, 0), 1, 16, 4, 0);
        tma_load_4d_pair_multicast(tile[5], &maps.in[2], mapa(&full, 0), 1, 16, 8, 0, 0);
    }
    if (rank == 1 && elect_sync()) {
        tma_load_2d_pair(tile[3], &maps.in[0], mapa(&full, 0), 24, 0);
        tma_load_2d_pair(tile[4], &maps.in[0], mapa(&full, 0), 24, 4);
        tma_load_2d_pair(tile[5], &maps.in[0], mapa(&full, 0), 24, 8);
    }
    __syncwarp();
    if (rank == 0) mbarrier_wait_parity(&full, 0);
    cluster_sync();
    for (int i = 0; i < 6; ++i) out[i * 32 + threadIdx.x] = tile[i][threadIdx.x];
    cluster_sync();
}

extern "C" __global__ void pairs(const float2* a, const float2* b, float2* fma, float2* add, float2* mul, float* max) {
    const int t = threadIdx.x;
    fma[t] = fma_f32x2(a[t], b[t], a[t ^ 1]);
    add[t] = add_f32x2(a[t], b[t]);
    mul[t] = mul_f32x2(a[t], b[t]);
    max[t] = max3(a[t].x, a[t].y, b[t].x);
}

extern "C" __global__ void take_over(int* out) {
    __shared__ alignas(16) uint4 answer;
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        mbarrier_init(&barrier, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    uint32_t tile = blockIdx.x;
    for (uint32_t parity = 0;; parity ^= 1) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(&barrier, 16);
            clusterlaunchcontrol_try_cancel(&answer, &barrier);
            atomicAdd(&out[tile], blockIdx.x + 1);
        }
        mbarrier_wait_parity(&barrier, parity);
        const bool more = clusterlaunchcontrol_query_cancel(&answer, tile);
        fence_proxy_async();
        __syncthreads();
        if (!more) break;
    }
}

extern "C" __global__ void take_over_pairs(int* out) {
    __shared__ alignas(16) uint4 answer;
    __shared__ uint64_t barrier;
    const uint32_t rank = cluster_ctarank();
    if (threadIdx.x == 0) {
        mbarrier_init(&barrier, 1);
        fence_mbarrier_init();
    }
    cluster_sync();
    uint32_t first = blockIdx.x - rank;
    for (uint32_t parity = 0;; parity ^= 1) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(&barrier, 16);
            if (rank == 1) clusterlaunchcontrol_try_cancel_multicast(&answer, &barrier);
            atomicAdd(&out[first + rank], blockIdx.x + 1);
        }
        mbarrier_wait_parity(&barrier, parity);
        const bool more = clusterlaunchcontrol_query_cancel(&answer, first);
        fence_proxy_async();
        cluster_sync();
        if (!more) break;
    }
}

template <Swizzle SWIZZLE>
__device__ void describe(const char* tile, unsigned long long*& out) {
    for (int leading = 16; leading < 262144; leading *= 2)
        for (int stride = 16; stride < 262144; stride *= 2) *out++ = tcgen05_descriptor<SWIZZLE>(tile, leading, stride);
}
extern "C" __global__ void descriptors(unsigned long long* out, uint32_t* start, uint32_t* instructions) {
    extern __shared__ __align__(1024) char tile[];
    *start = shared_address(tile + 1024);
    describe<Swizzle::NONE>(tile + 1024, out);
    describe<Swizzle::B32>(tile + 1024, out);
    describe<Swizzle::B64>(tile + 1024, out);
    describe<Swizzle::B128>(tile + 1024, out);
    for (int m = 64; m <= 256; m *= 2)
        for (int n = 8; n <= 256; n += 8)
            for (int majors = 0; majors < 4; ++majors)
                *instructions++ = tcgen05_instruction_descriptor(m, n, Major(majors / 2), Major(majors % 2));
}
