// Two CTAs that need the same tile: each fetches half of it for both. [n] are the numbers of contracts.md.
#include <ptxgym/hopper.cuh>
using namespace ptxgym;

constexpr int ROWS = 32, COLUMNS = 64;  // of the tile; the tensor map's box is half of it, 16 rows

__global__ void __cluster_dims__(2, 1, 1)
column_sums(const __grid_constant__ CUtensorMap map, float* out, int tiles) {
    __shared__ alignas(1024) __nv_bfloat16 tile[ROWS * COLUMNS];
    __shared__ uint64_t full, empty;
    const uint32_t rank = cluster_ctarank();
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&empty, 2 * 2);  // [15] the warps of both CTAs: the copy overwrites both tiles
        fence_mbarrier_init();
    }
    cluster_sync();  // [20] before the first copy or arrival that reaches the peer

    float sum = 0;
    for (int t = 0; t < tiles; ++t) {
        if (threadIdx.x < 32 && elect_sync()) {
            mbarrier_wait_parity(&empty, t % 2 ^ 1);  // [14] a ring of one: the parity flips each time
            mbarrier_arrive_expect_tx(&full, ROWS * COLUMNS * 2);  // [16] all that lands here, the peer's half too
            tma_load_2d_multicast(tile + rank * 16 * COLUMNS, &map, &full, 3, 0, t * ROWS + rank * 16);
        }
        __syncwarp();
        mbarrier_wait_parity(&full, t % 2);
        for (int row = 0; row < ROWS; ++row)
            sum += __bfloat162float(tile[swizzled_offset<Swizzle::B128>(row, threadIdx.x * 2) / 2]);
        __syncwarp();
        if (threadIdx.x % 32 < 2) mbarrier_arrive_remote(&empty, threadIdx.x % 32);  // [18] lane r tells rank r
    }
    out[rank * COLUMNS + threadIdx.x] = sum * (rank + 1);
    cluster_sync();  // [19] the peer may still signal this CTA
}
