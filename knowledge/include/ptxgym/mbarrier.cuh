// mbarrier: a 64-bit object in shared memory, 8-byte aligned, that counts arrivals and bytes.
//
// A phase ends when all announced arrivals have come *and* all announced bytes have landed; the next begins at once
// with the same count. A wait names the parity of the phase it waits for: 0 the first phase, 1 the second, 0 the third.
// On a fresh barrier parity 1 counts as over, which lets a producer start into empty stages.
#pragma once
#include "common.cuh"

namespace ptxgym {

// Start at phase 0 with this many arrivals per phase (1 to 2^20 - 1). Follow with fence_mbarrier_init and a barrier of
// everybody who uses it. One thread.
PTXGYM_DEVICE void mbarrier_init(uint64_t* barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Make the initialisation visible to the other CTAs of the cluster and to TMA. The initialising thread, once, after
// all mbarrier_init; then __syncthreads, or cluster_sync in a cluster.
PTXGYM_DEVICE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Free the 8 bytes for other use. One thread, when nobody waits or signals any more.
PTXGYM_DEVICE void mbarrier_inval(uint64_t* barrier) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// One arrival, or several at once. Each calling thread arrives.
PTXGYM_DEVICE void mbarrier_arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
PTXGYM_DEVICE void mbarrier_arrive_count(uint64_t* barrier, uint32_t count) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

// Announce bytes, then arrive: the producer's call before its copies. At most 2^20 - 1 bytes per phase. One thread.
PTXGYM_DEVICE void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Announce bytes without arriving: somebody else must still arrive. One thread.
PTXGYM_DEVICE void mbarrier_expect_tx(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// The barrier at the same place in CTA `rank` of the cluster, this CTA included. The default form is cheap; it hands
// over stages that TMA fills, and does not publish ordinary stores to the other CTA (see cluster_arrive for that).
// Each calling thread arrives.
PTXGYM_DEVICE void mbarrier_arrive_remote(uint64_t* barrier, uint32_t rank) {
    asm volatile("{ .reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote]; }"
                 ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}
PTXGYM_DEVICE void mbarrier_arrive_expect_tx_remote(uint64_t* barrier, uint32_t rank, uint32_t bytes) {
    asm volatile("{ .reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [remote], %2; }"
                 ::"r"(shared_address(barrier)), "r"(rank), "r"(bytes) : "memory");
}

// Is the phase of this parity over? test asks once; try may sleep for a moment first. Any thread.
PTXGYM_DEVICE bool mbarrier_test_wait_parity(uint64_t* barrier, uint32_t parity) {
    uint32_t done;
    asm volatile("{ .reg .pred p;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    return done != 0;
}
PTXGYM_DEVICE bool mbarrier_try_wait_parity(uint64_t* barrier, uint32_t parity) {
    uint32_t done;
    asm volatile("{ .reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    return done != 0;
}

// Wait until the phase of this parity is over; what its arrivals released and its copies brought is then visible.
// Every thread that reads the data.
PTXGYM_DEVICE void mbarrier_wait_parity(uint64_t* barrier, uint32_t parity) {
    asm volatile("{ .reg .pred p;\n"
                 "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra WAIT; }" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

// A place in a ring of STAGES barriers. Producer and consumers each keep one and advance it after every stage:
// the parity flips when the ring wraps. Consumers wait full[stage] with `parity`, producers empty[stage] with
// `parity ^ 1`.
template <int STAGES>
struct Ring {
    static_assert(STAGES > 0, "a ring needs a stage");
    int stage = 0;
    uint32_t parity = 0;
    PTXGYM_DEVICE void advance() {
        if (++stage < STAGES) return;
        stage = 0;
        parity ^= 1;
    }
};

}  // namespace ptxgym
