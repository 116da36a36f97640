// Cluster launch control: blocks that have work left to take from those that have not begun.
#include "ptx.cuh"

DEVICE void try_cancel(uint4* answer, uint64_t* b) {
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(smem(answer)), "r"(smem(b)) : "memory");
}
DEVICE void try_cancel_for_all(uint4* answer, uint64_t* b) {  // generic addresses
    asm volatile("clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];" ::"l"(answer), "l"(b) : "memory");
}
DEVICE bool is_canceled(const uint4* answer) {
    uint32_t r;
    asm volatile("{ .reg .pred p; .reg .b128 a; ld.shared.b128 a, [%1]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, a; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "r"(smem(answer)) : "memory");
    return r;
}
#define FIRST_CTAID(axis)                                                                                                \
    DEVICE uint32_t first_##axis(const uint4* answer) {                                                                  \
        uint32_t r;                                                                                                      \
        asm volatile("{ .reg .b128 a; ld.shared.b128 a, [%1]; clusterlaunchcontrol.query_cancel.get_first_ctaid::" #axis ".b32.b128 %0, a; }" \
                     : "=r"(r) : "r"(smem(answer)) : "memory");                                                          \
        return r;                                                                                                        \
    }
FIRST_CTAID(x)
FIRST_CTAID(y)
FIRST_CTAID(z)
DEVICE dim3 first_ctaid(const uint4* answer) {
    dim3 r;
    asm volatile("{ .reg .b128 a; ld.shared.b128 a, [%3]; clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, %1, %2, _}, a; }"
                 : "=r"(r.x), "=r"(r.y), "=r"(r.z) : "r"(smem(answer)) : "memory");
    return r;
}

// out[t] += the sum of tile t of `in`, for a tile per block of the grid, with a load and a request in flight while adding.
constexpr int TILE = 256;
extern "C" __global__ void __launch_bounds__(TILE) steal_tiles(const int* in, int* out, int* begun) {
    __shared__ alignas(16) uint4 answer;
    __shared__ alignas(16) int tile[TILE];
    __shared__ uint64_t full, told;
    __shared__ int total;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&told, 1);
        fence_mbarrier_init();
        atomicAdd(begun, 1);
    }
    __syncthreads();
    dim3 at = blockIdx;
    for (uint32_t parity = 0;; parity ^= 1) {
        const int t = (at.z * gridDim.y + at.y) * gridDim.x + at.x;
        if (threadIdx.x == 0) {
            mbarrier_expect_tx(&told, sizeof(answer));
            try_cancel(&answer, &told);
            mbarrier_expect_tx(&full, sizeof(tile));
            bulk_load(tile, in + t * TILE, sizeof(tile), &full);
            total = 0;
        }
        __syncthreads();  // total is zero
        mbarrier_wait(&full, parity);
        atomicAdd(&total, tile[threadIdx.x]);
        mbarrier_wait(&told, parity);
        const bool more = is_canceled(&answer);
        if (more) at = dim3(first_x(&answer), first_y(&answer), first_z(&answer));
        fence_proxy_async();
        __syncthreads();  // answer and tile have been read
        if (threadIdx.x == 0) atomicAdd(&out[t], total);
        if (!more) return;
    }
}

// out[y][x] += worker, the linear number of the cluster that did it: one block asks for its whole cluster.
extern "C" __global__ void steal_clusters(int* out) {
    __shared__ alignas(16) uint4 answer;
    __shared__ uint64_t told;
    const uint32_t rank = cluster_rank(), width = 2;
    const int worker = blockIdx.y / 2 * (gridDim.x / 2) + blockIdx.x / 2 + 1;
    if (threadIdx.x == 0) {
        mbarrier_init(&told, 1);
        fence_mbarrier_init();
    }
    cluster_sync();
    dim3 first(blockIdx.x / 2 * 2, blockIdx.y / 2 * 2);
    for (uint32_t parity = 0;; parity ^= 1) {
        if (threadIdx.x == 0) mbarrier_expect_tx(&told, sizeof(answer));
        if (threadIdx.x == 0 && rank == 0) try_cancel_for_all(&answer, &told);
        if (threadIdx.x == 0) atomicAdd(&out[(first.y + rank / width) * gridDim.x + first.x + rank % width], worker);
        mbarrier_wait(&told, parity);
        if (!is_canceled(&answer)) break;
        first = first_ctaid(&answer);
        fence_proxy_async();
        cluster_sync();  // all have read their answers
    }
    cluster_sync();
}
