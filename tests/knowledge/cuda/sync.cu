// mbarriers, fences, clusters, elections, registers, named barriers.
#include <ptxgym/bulk.cuh>
#include <ptxgym/cluster.cuh>
#include <ptxgym/fence.cuh>
#include <ptxgym/mbarrier.cuh>
#include <ptxgym/warp.cuh>
using namespace ptxgym;

// 64 threads. Two phases, the first by single arrivals, the second by halves of them that count twice.
extern "C" __global__ void arrivals(const int* in, int* out, int* flags) {
    __shared__ uint64_t barrier;
    __shared__ int values[64];
    const int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&barrier, 64);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (t == 0) {
        flags[0] = mbarrier_test_wait_parity(&barrier, 1);  // a fresh barrier: parity 1 is over
        flags[1] = mbarrier_test_wait_parity(&barrier, 0);
        flags[2] = mbarrier_try_wait_parity(&barrier, 1);
    }
    values[t] = in[t];
    mbarrier_arrive(&barrier);
    mbarrier_wait_parity(&barrier, 0);
    const int sum = values[t] + values[63 - t];
    __syncwarp();
    if (t % 2) mbarrier_arrive_count(&barrier, 2);  // of both warps: one that was late would miss the first phase
    mbarrier_wait_parity(&barrier, 1);
    values[63 - t] = sum;
    __syncthreads();
    out[t] = values[t];
    if (t == 0) mbarrier_inval(&barrier);
}

// 32 threads. Bytes announced with the arrival, then without it.
extern "C" __global__ void transactions(const int* in, int* out) {
    __shared__ uint64_t barrier;
    __shared__ alignas(128) int tile[64];
    const int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&barrier, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&barrier, sizeof(tile));
        bulk_load(tile, in, sizeof(tile), &barrier);
    }
    mbarrier_wait_parity(&barrier, 0);
    out[t] = tile[t] + tile[t + 32];
    __syncthreads();
    if (t == 0) {
        mbarrier_expect_tx(&barrier, 128);
        bulk_load(tile, in + 64, 128, &barrier);
        mbarrier_arrive(&barrier);
    }
    mbarrier_wait_parity(&barrier, 1);
    out[32 + t] = tile[t];
}

// 64 threads: warp 1 fetches blocks of 32 integers into a ring of three, warp 0 adds them up.
extern "C" __global__ void ring(const int* in, int* out, int blocks) {
    constexpr int STAGES = 3;
    __shared__ uint64_t full[STAGES], empty[STAGES];
    __shared__ alignas(128) int tile[STAGES][32];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 32);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    Ring<STAGES> ring;
    if (threadIdx.x >= 32) {
        if (elect_sync())
            for (int i = 0; i < blocks; ++i, ring.advance()) {
                mbarrier_wait_parity(&empty[ring.stage], ring.parity ^ 1);
                mbarrier_arrive_expect_tx(&full[ring.stage], 128);
                bulk_load(tile[ring.stage], in + 32 * i, 128, &full[ring.stage]);
            }
    } else {
        int sum = 0;
        for (int i = 0; i < blocks; ++i, ring.advance()) {
            mbarrier_wait_parity(&full[ring.stage], ring.parity);
            sum += tile[ring.stage][lane];
            mbarrier_arrive(&empty[ring.stage]);
        }
        out[lane] = sum;
    }
}

// Two CTAs of 32 threads that write to, signal and read each other.
extern "C" __global__ void __cluster_dims__(2, 1, 1) neighbours(const int* in, int* out, int* sizes) {
    __shared__ uint64_t barrier;
    __shared__ alignas(16) uint32_t stored[32], sent[32];
    const uint32_t rank = cluster_ctarank(), peer = rank ^ 1, t = threadIdx.x;
    if (t == 0) {
        sizes[rank] = cluster_nctarank();
        mbarrier_init(&barrier, 1);
        fence_mbarrier_init();
    }
    cluster_sync();
    st_shared_cluster(mapa(&stored[t], peer), in[32 * rank + t]);
    cluster_sync();
    const uint32_t own = stored[t], theirs = ld_shared_cluster(mapa(&stored[t], peer));
    if (t == 0) mbarrier_arrive_expect_tx_remote(&barrier, peer, sizeof(sent));
    __syncwarp();
    st_async(mapa(&sent[t], peer), in[32 * rank + t] * 3, mapa(&barrier, peer));
    mbarrier_wait_parity(&barrier, 0);
    const uint32_t received = sent[t];
    cluster_sync();  // both have seen the first phase
    if (t == 0) mbarrier_arrive_remote(&barrier, peer);
    mbarrier_wait_parity(&barrier, 1);
    out[(rank * 32 + t) * 3] = own;
    out[(rank * 32 + t) * 3 + 1] = theirs;
    out[(rank * 32 + t) * 3 + 2] = received;
    cluster_arrive_relaxed();  // nobody leaves before it was read
    cluster_wait();
}

// Two CTAs: rank 0 publishes through global memory, rank 1 waits for the flag.
extern "C" __global__ void __cluster_dims__(2, 1, 1) publish(const int* in, int* data, int* flags, int* out) {
    if (cluster_ctarank() == 0) {
        data[threadIdx.x] = in[threadIdx.x] + 1;
        fence_acq_rel_cluster();
        fence_acq_rel_gpu();
        __syncwarp();
        if (threadIdx.x == 0) atomicExch(flags, 1);
    } else {
        if (threadIdx.x == 0)
            while (atomicAdd(flags, 0) == 0) {}
        __syncwarp();
        fence_acq_rel_gpu();
        fence_acq_rel_cluster();
        out[threadIdx.x] = *const_cast<volatile int*>(data + threadIdx.x);
    }
}

// 32 threads: ordinary stores to global memory, read back by a bulk copy; ordinary stores to shared, written by one.
extern "C" __global__ void proxies(const int* in, int* scratch, int* out) {
    __shared__ uint64_t barrier;
    __shared__ alignas(128) int tile[32];
    const int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&barrier, 1);
        fence_mbarrier_init();
    }
    scratch[t] = in[t] * 5;
    fence_proxy_async_global();
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&barrier, 128);
        bulk_load(tile, scratch, 128, &barrier);
    }
    mbarrier_wait_parity(&barrier, 0);
    tile[t] += 1;
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        bulk_store(out, tile, 128);
        bulk_commit_group();
        bulk_wait_group<0>();
    }
}

// 64 threads: how many lanes of each warp were elected, and whether it is the same lane twice.
extern "C" __global__ void elections(int* out) {
    const int warp = threadIdx.x / 32;
    const bool first = elect_sync(), second = elect_sync();
    if (first) atomicAdd(&out[warp], 1);
    if (first == second) atomicAdd(&out[2 + warp], 1);
}

// Three warpgroups: 168 registers each at the start, then 40 and twice 232.
extern "C" __global__ void __launch_bounds__(384, 1) budgets(const float* in, float* out) {
    if (threadIdx.x < 128) {
        setmaxnreg_dec<40>();
    } else {
        setmaxnreg_inc<232>();
        out[threadIdx.x - 128] = in[threadIdx.x - 128] * 2;
    }
}

// Two warps each way. Each side first arrives at the other's barrier and then waits at its own: if an arrival waited,
// both would wait for ever. Immediate and register forms.
extern "C" __global__ void named(const int* in, int* out, int id) {
    __shared__ int values[2][64];
    const int t = threadIdx.x, lane = t % 64;
    values[t / 64][lane] = in[t];
    if (t < 64) {
        barrier_arrive<1, 128>();
        barrier_sync(id, 128);
    } else {
        barrier_arrive(id, 128);
        barrier_sync<1, 128>();
    }
    out[t] = values[1 - t / 64][63 - lane];
}
