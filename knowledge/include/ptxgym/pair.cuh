// What pairs of CTAs and dynamic scheduling add on Blackwell.
#pragma once
#include <cuda.h>

#include "cluster.cuh"

namespace ptxgym {

// tma_load_Rd_pair(target, map, barrier, x, ...): a box to this CTA's shared memory whose bytes count at a barrier of
// the *pair*; `barrier` is an address from mapa, usually mapa(&full, cluster_ctarank() & ~1), the even CTA's, which
// announces the bytes of both. _multicast: to every CTA of `mask`, each counting at its own pair's barrier. One thread.
#define PTXGYM_UNPACK(...) __VA_ARGS__
#define PTXGYM_TMA_PAIR(RANK, PARAMETERS, OPERANDS, AT, P, Q, R, S)                                                  \
    PTXGYM_DEVICE void tma_load_##RANK##_pair(void* target, const CUtensorMap* map, uint32_t barrier,                \
                                              PTXGYM_UNPACK PARAMETERS) {                                            \
        asm volatile("cp.async.bulk.tensor." #RANK ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"       \
                     ".cta_group::2 [" P "], [" Q ", {" AT "}], [" R "];"                                            \
                     ::PTXGYM_UNPACK OPERANDS, "r"(shared_address(target)), "l"(map), "r"(barrier) : "memory");      \
    }                                                                                                                \
    PTXGYM_DEVICE void tma_load_##RANK##_pair_multicast(void* target, const CUtensorMap* map, uint32_t barrier,      \
                                                        uint16_t mask, PTXGYM_UNPACK PARAMETERS) {                   \
        asm volatile("cp.async.bulk.tensor." #RANK ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"       \
                     ".multicast::cluster.cta_group::2 [" P "], [" Q ", {" AT "}], [" R "], " S ";"                  \
                     ::PTXGYM_UNPACK OPERANDS, "r"(shared_address(target)), "l"(map), "r"(barrier), "h"(mask)        \
                     : "memory");                                                                                    \
    }
PTXGYM_TMA_PAIR(2d, (int x, int y), ("r"(x), "r"(y)), "%0, %1", "%2", "%3", "%4", "%5")
PTXGYM_TMA_PAIR(3d, (int x, int y, int z), ("r"(x), "r"(y), "r"(z)), "%0, %1, %2", "%3", "%4", "%5", "%6")
PTXGYM_TMA_PAIR(4d, (int x, int y, int z, int w), ("r"(x), "r"(y), "r"(z), "r"(w)), "%0, %1, %2, %3", "%4", "%5",
                "%6", "%7")
#undef PTXGYM_TMA_PAIR

// Cluster launch control: take over the work of a cluster that has not begun. The 16-byte answer arrives at `barrier`,
// which expects 16 bytes. One thread; with _multicast, of one CTA: answer and bytes go to the same places in every CTA.
PTXGYM_DEVICE void clusterlaunchcontrol_try_cancel(uint4* answer, uint64_t* barrier) {
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                 ::"r"(shared_address(answer)), "r"(shared_address(barrier)) : "memory");
}
PTXGYM_DEVICE void clusterlaunchcontrol_try_cancel_multicast(uint4* answer, uint64_t* barrier) {
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
                 ".multicast::cluster::all.b128 [%0], [%1];"
                 ::"r"(shared_address(answer)), "r"(shared_address(barrier)) : "memory");
}

// Whether there was one, and the x of its first CTA. Any thread, after waiting for the barrier.
PTXGYM_DEVICE bool clusterlaunchcontrol_query_cancel(const uint4* answer, uint32_t& first_ctaid_x) {
    uint32_t canceled;
    asm volatile("{ .reg .pred p; .reg .b128 answer;\n"
                 "ld.shared.b128 answer, [%2];\n"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "mov.u32 %1, 0;\n"
                 "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, answer; }"
                 : "=r"(canceled), "=r"(first_ctaid_x) : "r"(shared_address(answer)) : "memory");
    return canceled != 0;
}

}  // namespace ptxgym
