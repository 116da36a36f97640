// Tensor copies of every rank, by clusters of two; bulk copies.
#include <ptxgym/bulk.cuh>
#include <ptxgym/cluster.cuh>
#include <ptxgym/fence.cuh>
#include <ptxgym/mbarrier.cuh>
#include <ptxgym/tma.cuh>
#include <ptxgym/warp.cuh>
using namespace ptxgym;

constexpr int BOX_BYTES = 128;  // 32 floats, whatever the rank

struct Maps {
    CUtensorMap in, stored, hinted, shared, both, added, least, most;
};

// Each CTA copies its box five ways: alone, with a hint, rank 0's to both, rank 1's to both with a hint. Then it
// stores each copy at its own coordinates, and combines the first with three tensors.
#define TMA_KERNEL(R, SHIFT, ...)                                                                        \
    extern "C" __global__ void __cluster_dims__(2, 1, 1) tma_##R(const __grid_constant__ Maps maps,      \
                                                                 int c, int x, int y, int z, int w) {    \
        __shared__ alignas(128) float tile[4][32];                                                       \
        __shared__ uint64_t barrier;                                                                     \
        const uint32_t rank = cluster_ctarank();                                                         \
        c += SHIFT * rank;                                                                               \
        if (threadIdx.x == 0) {                                                                          \
            prefetch_tensormap(&maps.in);                                                                \
            mbarrier_init(&barrier, 1);                                                                  \
            fence_mbarrier_init();                                                                       \
            tma_prefetch_##R(&maps.in, __VA_ARGS__);                                                     \
        }                                                                                                \
        cluster_sync();                                                                                  \
        const uint64_t once = createpolicy_evict_first(), often = createpolicy_evict_last();             \
        const bool elected = elect_sync();                                                               \
        if (elected) {                                                                                   \
            mbarrier_arrive_expect_tx(&barrier, 4 * BOX_BYTES);                                          \
            tma_load_##R(tile[0], &maps.in, &barrier, __VA_ARGS__);                                      \
            tma_load_##R##_hint(tile[1], &maps.in, &barrier, often, __VA_ARGS__);                        \
            if (rank == 0)                                                                               \
                tma_load_##R##_multicast(tile[2], &maps.in, &barrier, 3, __VA_ARGS__);                   \
            else                                                                                         \
                tma_load_##R##_multicast_hint(tile[3], &maps.in, &barrier, 3, often, __VA_ARGS__);       \
        }                                                                                                \
        mbarrier_wait_parity(&barrier, 0);                                                               \
        if (elected) {                                                                                   \
            tma_store_##R(&maps.stored, tile[0], __VA_ARGS__);                                           \
            tma_store_##R##_hint(&maps.hinted, tile[1], once, __VA_ARGS__);                              \
            tma_store_##R(&maps.shared, tile[2], __VA_ARGS__);                                           \
            tma_store_##R(&maps.both, tile[3], __VA_ARGS__);                                             \
            bulk_commit_group();                                                                         \
            tma_reduce_add_##R(&maps.added, tile[0], __VA_ARGS__);                                       \
            tma_reduce_min_##R(&maps.least, tile[0], __VA_ARGS__);                                       \
            tma_reduce_max_##R(&maps.most, tile[0], __VA_ARGS__);                                        \
            bulk_commit_group();                                                                         \
            bulk_wait_group_read<1>();                                                                   \
            bulk_wait_group<0>();                                                                        \
        }                                                                                                \
        __syncwarp();                                                                                    \
        cluster_sync();                                                                                  \
    }
TMA_KERNEL(1d, 32, c)
TMA_KERNEL(2d, 8, c, x)
TMA_KERNEL(3d, 4, c, x, y)
TMA_KERNEL(4d, 4, c, x, y, z)
TMA_KERNEL(5d, 4, c, x, y, z, w)

// Two CTAs: rank 0 fetches for both, each passes its own tile on to the other, and both store and add.
extern "C" __global__ void __cluster_dims__(2, 1, 1) bulk(const float* in, float* out, float* sums) {
    __shared__ alignas(128) float common[32], own[32], passed[32];
    __shared__ uint64_t barrier;
    const uint32_t rank = cluster_ctarank();
    if (threadIdx.x == 0) {
        bulk_prefetch_l2(in, 384);
        mbarrier_init(&barrier, 1);
        fence_mbarrier_init();
    }
    cluster_sync();
    const bool elected = elect_sync();
    if (elected) {
        mbarrier_arrive_expect_tx(&barrier, 256);
        if (rank == 0) bulk_load_multicast(common, in, 128, &barrier, 3);
        bulk_load(own, in + 32 + 32 * rank, 128, &barrier);
    }
    mbarrier_wait_parity(&barrier, 0);
    cluster_sync();
    if (elected) {
        mbarrier_arrive_expect_tx(&barrier, 128);
        bulk_copy_cluster(mapa(passed, rank ^ 1), own, 128, mapa(&barrier, rank ^ 1));
    }
    mbarrier_wait_parity(&barrier, 1);
    common[threadIdx.x] += passed[threadIdx.x];
    fence_proxy_async();
    __syncwarp();
    if (elected) {
        bulk_store(out + 32 * rank, common, 128);
        bulk_reduce_add_f32(sums, common, 128);
        bulk_commit_group();
        bulk_wait_group<0>();
    }
    __syncwarp();
    cluster_sync();
}

extern "C" __global__ void registers(const float4* in, float* sums) {
    const float4 v = in[threadIdx.x];
    red_add_v4_f32(sums + threadIdx.x % 8 * 4, v.x, v.y, v.z, v.w);
}
