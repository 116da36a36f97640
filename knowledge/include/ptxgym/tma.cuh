// TMA: copies of 1-D to 5-D boxes between global and shared memory, described by a tensor map (tensor_map.cuh).
//
// Coordinates count elements from the tensor's origin, innermost first; they may be negative or past the end: such
// elements load as zero and are not stored. A load always counts the whole box's bytes at `barrier`. Shared addresses
// are multiples of 128, of 1024 for a 128-byte swizzle. `map` points to a const __grid_constant__ parameter.
// Stores and reductions belong to bulk groups (bulk.cuh). All of it: one thread, elected by elect_sync.
#pragma once
#include <cuda.h>

#include "common.cuh"

namespace ptxgym {

// Fetch the tensor map itself before it is needed.
PTXGYM_DEVICE void prefetch_tensormap(const CUtensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// What L2 should do with the lines: leave early (streamed once), or stay (read again by other CTAs).
PTXGYM_DEVICE uint64_t createpolicy_evict_first() {
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
PTXGYM_DEVICE uint64_t createpolicy_evict_last() {
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// For each rank R from 1d to 5d, with coordinates x, y, z, w, v:
//
//   tma_load_R(target, map, barrier, x, ...)                                box to shared memory
//   tma_load_R_hint(target, map, barrier, policy, x, ...)                   ... with an L2 policy
//   tma_load_R_multicast(target, map, barrier, mask, x, ...)                ... to every CTA of `mask`, same offsets
//   tma_load_R_multicast_hint(target, map, barrier, mask, policy, x, ...)   ... and both
//   tma_store_R(map, source, x, ...), tma_store_R_hint(map, source, policy, x, ...)      shared memory to the tensor
//   tma_reduce_add_R, _min_R, _max_R(map, source, x, ...)                   tensor = tensor op box, atomic per element
//                                                                           (min, max: integers and 16-bit floats only)
//   tma_prefetch_R(map, x, ...)                                             box into L2 only
//
// The arguments after the rank: its parameters, their operands (%0 and on), and the numbers of the operands behind.
#define PTXGYM_UNPACK(...) __VA_ARGS__
#define PTXGYM_TMA_LOAD(RANK) "cp.async.bulk.tensor." RANK ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"
#define PTXGYM_TMA(RANK, PARAMETERS, OPERANDS, AT, P, Q, R, S, T)                                                    \
    PTXGYM_DEVICE void tma_load_##RANK(void* target, const CUtensorMap* map, uint64_t* barrier,                      \
                                       PTXGYM_UNPACK PARAMETERS) {                                                   \
        asm volatile(PTXGYM_TMA_LOAD(#RANK)                                                                          \
                     " [" P "], [" Q ", {" AT "}], [" R "];"                                                         \
                     ::PTXGYM_UNPACK OPERANDS, "r"(shared_address(target)), "l"(map), "r"(shared_address(barrier))   \
                     : "memory");                                                                                    \
    }                                                                                                                \
    PTXGYM_DEVICE void tma_load_##RANK##_hint(void* target, const CUtensorMap* map, uint64_t* barrier,               \
                                              uint64_t policy, PTXGYM_UNPACK PARAMETERS) {                           \
        asm volatile(PTXGYM_TMA_LOAD(#RANK)                                                                          \
                     ".L2::cache_hint [" P "], [" Q ", {" AT "}], [" R "], " S ";"                                   \
                     ::PTXGYM_UNPACK OPERANDS, "r"(shared_address(target)), "l"(map), "r"(shared_address(barrier)),  \
                     "l"(policy) : "memory");                                                                        \
    }                                                                                                                \
    PTXGYM_DEVICE void tma_load_##RANK##_multicast(void* target, const CUtensorMap* map, uint64_t* barrier,          \
                                                   uint16_t mask, PTXGYM_UNPACK PARAMETERS) {                        \
        asm volatile(PTXGYM_TMA_LOAD(#RANK)                                                                          \
                     ".multicast::cluster [" P "], [" Q ", {" AT "}], [" R "], " S ";"                               \
                     ::PTXGYM_UNPACK OPERANDS, "r"(shared_address(target)), "l"(map), "r"(shared_address(barrier)),  \
                     "h"(mask) : "memory");                                                                          \
    }                                                                                                                \
    PTXGYM_DEVICE void tma_load_##RANK##_multicast_hint(void* target, const CUtensorMap* map, uint64_t* barrier,     \
                                                        uint16_t mask, uint64_t policy,                              \
                                                        PTXGYM_UNPACK PARAMETERS) {                                  \
        asm volatile(PTXGYM_TMA_LOAD(#RANK)                                                                          \
                     ".multicast::cluster.L2::cache_hint [" P "], [" Q ", {" AT "}], [" R "], " S ", " T ";"         \
                     ::PTXGYM_UNPACK OPERANDS, "r"(shared_address(target)), "l"(map), "r"(shared_address(barrier)),  \
                     "h"(mask), "l"(policy) : "memory");                                                             \
    }                                                                                                                \
    PTXGYM_DEVICE void tma_store_##RANK(const CUtensorMap* map, const void* source, PTXGYM_UNPACK PARAMETERS) {      \
        asm volatile("cp.async.bulk.tensor." #RANK ".global.shared::cta.tile.bulk_group"                             \
                     " [" P ", {" AT "}], [" Q "];"                                                                  \
                     ::PTXGYM_UNPACK OPERANDS, "l"(map), "r"(shared_address(source)) : "memory");                    \
    }                                                                                                                \
    PTXGYM_DEVICE void tma_store_##RANK##_hint(const CUtensorMap* map, const void* source, uint64_t policy,          \
                                               PTXGYM_UNPACK PARAMETERS) {                                           \
        asm volatile("cp.async.bulk.tensor." #RANK ".global.shared::cta.tile.bulk_group.L2::cache_hint"              \
                     " [" P ", {" AT "}], [" Q "], " R ";"                                                           \
                     ::PTXGYM_UNPACK OPERANDS, "l"(map), "r"(shared_address(source)), "l"(policy) : "memory");       \
    }                                                                                                                \
    PTXGYM_TMA_REDUCE(add, RANK, PARAMETERS, OPERANDS, AT, P, Q)                                                     \
    PTXGYM_TMA_REDUCE(min, RANK, PARAMETERS, OPERANDS, AT, P, Q)                                                     \
    PTXGYM_TMA_REDUCE(max, RANK, PARAMETERS, OPERANDS, AT, P, Q)                                                     \
    PTXGYM_DEVICE void tma_prefetch_##RANK(const CUtensorMap* map, PTXGYM_UNPACK PARAMETERS) {                       \
        asm volatile("cp.async.bulk.prefetch.tensor." #RANK ".L2.global.tile [" P ", {" AT "}];"                     \
                     ::PTXGYM_UNPACK OPERANDS, "l"(map) : "memory");                                                 \
    }
#define PTXGYM_TMA_REDUCE(OP, RANK, PARAMETERS, OPERANDS, AT, P, Q)                                                  \
    PTXGYM_DEVICE void tma_reduce_##OP##_##RANK(const CUtensorMap* map, const void* source,                          \
                                                PTXGYM_UNPACK PARAMETERS) {                                          \
        asm volatile("cp.reduce.async.bulk.tensor." #RANK ".global.shared::cta." #OP ".tile.bulk_group"              \
                     " [" P ", {" AT "}], [" Q "];"                                                                  \
                     ::PTXGYM_UNPACK OPERANDS, "l"(map), "r"(shared_address(source)) : "memory");                    \
    }

PTXGYM_TMA(1d, (int x), ("r"(x)), "%0", "%1", "%2", "%3", "%4", "%5")
PTXGYM_TMA(2d, (int x, int y), ("r"(x), "r"(y)), "%0, %1", "%2", "%3", "%4", "%5", "%6")
PTXGYM_TMA(3d, (int x, int y, int z), ("r"(x), "r"(y), "r"(z)), "%0, %1, %2", "%3", "%4", "%5", "%6", "%7")
PTXGYM_TMA(4d, (int x, int y, int z, int w), ("r"(x), "r"(y), "r"(z), "r"(w)), "%0, %1, %2, %3", "%4", "%5", "%6",
           "%7", "%8")
PTXGYM_TMA(5d, (int x, int y, int z, int w, int v), ("r"(x), "r"(y), "r"(z), "r"(w), "r"(v)), "%0, %1, %2, %3, %4",
           "%5", "%6", "%7", "%8", "%9")
#undef PTXGYM_TMA
#undef PTXGYM_TMA_LOAD
#undef PTXGYM_TMA_REDUCE

}  // namespace ptxgym
