// sums[t][c] over the 32 rows of tile t, for a grid with a block per tile: blocks that run take over the tiles of those
// that have not begun. [n] and [Tn] are contracts.
#include <ptxgym/blackwell.cuh>
using namespace ptxgym;

constexpr int ROWS = 32, COLUMNS = 32;

__global__ void __launch_bounds__(64) tile_sums(const __grid_constant__ CUtensorMap map, float* sums) {
    __shared__ alignas(128) float tile[ROWS * COLUMNS];
    __shared__ alignas(16) uint4 answer;
    __shared__ uint64_t full, told, empty;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&told, 1);
        mbarrier_init(&empty, 1);
        fence_mbarrier_init();
    }
    __syncthreads();  // [11]

    uint32_t t = blockIdx.x;
    bool more = true;
    if (threadIdx.x < 32 && elect_sync()) {
        for (uint32_t parity = 0; more; parity ^= 1) {
            mbarrier_wait_parity(&empty, parity ^ 1);  // [T11] the others have read tile and answer
            mbarrier_arrive_expect_tx(&full, sizeof(tile));
            tma_load_2d(tile, &map, &full, 0, t * ROWS);
            mbarrier_arrive_expect_tx(&told, sizeof(answer));
            clusterlaunchcontrol_try_cancel(&answer, &told);  // answered while the others work
            mbarrier_wait_parity(&told, parity);
            more = clusterlaunchcontrol_query_cancel(&answer, t);
            fence_proxy_async();
        }
    } else if (threadIdx.x >= 32) {
        const int column = threadIdx.x - 32;
        for (uint32_t parity = 0; more; parity ^= 1) {
            float sum = 0;
            mbarrier_wait_parity(&full, parity);
            for (int row = 0; row < ROWS; ++row) sum += tile[row * COLUMNS + column];
            sums[t * COLUMNS + column] = sum;
            mbarrier_wait_parity(&told, parity);  // [T11]
            more = clusterlaunchcontrol_query_cancel(&answer, t);
            fence_proxy_async();  // [T11] read, fence, arrive
            __syncwarp();
            if (column == 0) mbarrier_arrive(&empty);  // [15]
        }
    }
}
