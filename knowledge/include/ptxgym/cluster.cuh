// Thread-block clusters: up to 8 CTAs that can reach each other's shared memory.
#pragma once
#include "common.cuh"

namespace ptxgym {

// This CTA's number in its cluster, and how many there are. Any thread.
PTXGYM_DEVICE uint32_t cluster_ctarank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
PTXGYM_DEVICE uint32_t cluster_nctarank() {
    uint32_t size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

// A barrier of all threads of the cluster, in two halves: every thread arrives, does other work, and waits. The plain
// arrive publishes the thread's stores to the cluster; the relaxed one publishes nothing and is cheaper. All lanes of
// a warp together.
PTXGYM_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
PTXGYM_DEVICE void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
PTXGYM_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
PTXGYM_DEVICE void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// The address of the same variable in CTA `rank`, for the three functions below. Any thread.
PTXGYM_DEVICE uint32_t mapa(const void* pointer, uint32_t rank) {
    uint32_t address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(rank));
    return address;
}

// Read or write 4 bytes of another CTA's shared memory. Any thread; a cluster barrier orders them.
PTXGYM_DEVICE uint32_t ld_shared_cluster(uint32_t address) {
    uint32_t value;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}
PTXGYM_DEVICE void st_shared_cluster(uint32_t address, uint32_t value) {
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// Write 4 bytes there and count them at a barrier of *that* CTA (`barrier` from mapa). Any thread.
PTXGYM_DEVICE void st_async(uint32_t address, uint32_t value, uint32_t barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                 ::"r"(address), "r"(value), "r"(barrier) : "memory");
}

}  // namespace ptxgym
