// tcgen05: the tensor cores of Blackwell. D[M, N] = A[M, 16] * B[N, 16]^T (+ D), bf16 operands and fp32 sums in tensor
// memory (TMEM): 128 lanes of 512 columns of 32 bits per SM. An address in TMEM is lane << 16 | column.
//
// GROUP is 1, or 2 for a pair of CTAs (ranks 2i and 2i + 1 of a cluster) that multiply together; one kernel uses one
// GROUP throughout. One elected thread issues products, copies and commits; whole warps load, store and allocate.
#pragma once
#include <type_traits>

#include "common.cuh"
#include "swizzle.cuh"
#include "tcgen05_registers.cuh"

namespace ptxgym {

// ----------------------------------------------------------------------------------- tensor memory

// The place `lane` lanes and `column` columns further. Any thread.
PTXGYM_DEVICE uint32_t tcgen05_address(uint32_t address, int lane, int column) {
    return address + (uint32_t(lane) << 16) + column;
}

// Before and after a barrier (__syncthreads, mbarrier) that orders tcgen05 instructions of different threads: before
// by those who issued earlier, after by those who issue later.
PTXGYM_DEVICE void tcgen05_fence_before_thread_sync() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
PTXGYM_DEVICE void tcgen05_fence_after_thread_sync() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// Until this thread's loads have brought their registers, or its stores have arrived. The warp.
PTXGYM_DEVICE void tcgen05_wait_ld() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
PTXGYM_DEVICE void tcgen05_wait_st() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

// Registers to and from TMEM; the size of r chooses the repetitions. Warp w of a warpgroup reaches lanes 32 * (w % 4)
// to 32 * (w % 4) + 31 only: add that lane to the address. Lane t of the warp and register i hold
//   32x32b:   lane t, column i                                     (1 to 128 registers): a row per thread
//   16x64b:   lane t / 4 + 8 * (t % 2), column 2 * i + t % 4 / 2   (1 to 128)
//   16x128b:  lane t / 4 + 8 * (i % 2), column 4 * (i / 2) + t % 4 (2 to 128)
//   16x256b:  lane t / 4 + 8 * (i / 2 % 2), column 8 * (i / 4) + 2 * (t % 4) + i % 2   (4 to 128): as wgmma's results
//   16x32bx2: lane t % 16, column i + SPLIT * (t / 16)             (1 to 128)
// Wait with wait_ld before using r. The warp.
#define PTXGYM_OUT(i) , "=r"(r[i])
#define PTXGYM_IN(i) , "r"(r[i])
#define PTXGYM_NUMBER(i) ", %" #i
#define PTXGYM_LDST(SHAPE, COUNT, N, NEXT)                                                                       \
    PTXGYM_DEVICE void tcgen05_ld_##SHAPE(uint32_t (&r)[N], uint32_t address) {                                  \
        asm volatile("tcgen05.ld.sync.aligned." #SHAPE ".x" #COUNT ".b32"                                        \
                     " {%0" PTXGYM_REGISTERS_##N(PTXGYM_NUMBER) "}, [" NEXT "];"                                 \
                     : "=r"(r[0]) PTXGYM_REGISTERS_##N(PTXGYM_OUT) : "r"(address) : "memory");                   \
    }                                                                                                            \
    PTXGYM_DEVICE void tcgen05_st_##SHAPE(uint32_t address, const uint32_t (&r)[N]) {                            \
        asm volatile("tcgen05.st.sync.aligned." #SHAPE ".x" #COUNT ".b32"                                        \
                     " [" NEXT "], {%0" PTXGYM_REGISTERS_##N(PTXGYM_NUMBER) "};"                                 \
                     ::"r"(r[0]) PTXGYM_REGISTERS_##N(PTXGYM_IN), "r"(address) : "memory");                      \
    }
#define PTXGYM_LDST_SPLIT(SHAPE, COUNT, N, NEXT)                                                                 \
    template <int SPLIT>                                                                                         \
    PTXGYM_DEVICE void tcgen05_ld_##SHAPE(uint32_t (&r)[N], uint32_t address) {                                  \
        asm volatile("tcgen05.ld.sync.aligned." #SHAPE ".x" #COUNT ".b32"                                        \
                     " {%0" PTXGYM_REGISTERS_##N(PTXGYM_NUMBER) "}, [" NEXT "], " PTXGYM_BEHIND_##N ";"               \
                     : "=r"(r[0]) PTXGYM_REGISTERS_##N(PTXGYM_OUT) : "r"(address), "n"(SPLIT) : "memory");       \
    }                                                                                                            \
    template <int SPLIT>                                                                                         \
    PTXGYM_DEVICE void tcgen05_st_##SHAPE(uint32_t address, const uint32_t (&r)[N]) {                            \
        asm volatile("tcgen05.st.sync.aligned." #SHAPE ".x" #COUNT ".b32"                                        \
                     " [" NEXT "], " PTXGYM_BEHIND_##N ", {%0" PTXGYM_REGISTERS_##N(PTXGYM_NUMBER) "};"          \
                     ::"r"(r[0]) PTXGYM_REGISTERS_##N(PTXGYM_IN), "r"(address), "n"(SPLIT) : "memory");          \
    }
PTXGYM_FOR_EACH_COUNT_1(PTXGYM_LDST, 32x32b)
PTXGYM_FOR_EACH_COUNT_1(PTXGYM_LDST, 16x64b)
PTXGYM_FOR_EACH_COUNT_2(PTXGYM_LDST, 16x128b)
PTXGYM_FOR_EACH_COUNT_4(PTXGYM_LDST, 16x256b)
PTXGYM_FOR_EACH_COUNT_1(PTXGYM_LDST_SPLIT, 16x32bx2)
#undef PTXGYM_LDST
#undef PTXGYM_LDST_SPLIT

// ------------------------------------------------------------------------------------ descriptors

// Where a tile lies in shared memory; distances as for wgmma. Any thread.
template <Swizzle SWIZZLE>
PTXGYM_DEVICE uint64_t tcgen05_descriptor(const void* tile, uint32_t leading_bytes, uint32_t stride_bytes) {
    constexpr uint64_t CODE = SWIZZLE == Swizzle::B128  ? 2
                              : SWIZZLE == Swizzle::B64 ? 4
                              : SWIZZLE == Swizzle::B32 ? 6
                                                        : 0;
    return CODE << 61 | uint64_t(1) << 46 | uint64_t(stride_bytes >> 4 & 0x3fff) << 32 |
           uint64_t(leading_bytes >> 4 & 0x3fff) << 16 | (shared_address(tile) >> 4 & 0x3fff);
}

// A slab [rows][SPAN], K contiguous; add step_k_major for the later k-steps. Any thread.
template <Swizzle SWIZZLE>
PTXGYM_DEVICE uint64_t tcgen05_descriptor_k_major(const void* tile) {
    static_assert(SWIZZLE != Swizzle::NONE, "without a swizzle, give both distances to tcgen05_descriptor");
    return tcgen05_descriptor<SWIZZLE>(tile, 16, ATOM<SWIZZLE>);
}

// Slabs [k][SPAN], `slab_bytes` apart, M or N contiguous; add step_mn_major for the later k-steps. Any thread.
template <Swizzle SWIZZLE>
PTXGYM_DEVICE uint64_t tcgen05_descriptor_mn_major(const void* tile, uint32_t slab_bytes) {
    static_assert(SWIZZLE != Swizzle::NONE, "without a swizzle, give both distances to tcgen05_descriptor");
    return tcgen05_descriptor<SWIZZLE>(tile, slab_bytes, ATOM<SWIZZLE>);
}

// Types, shape and layouts of a product of bf16 with fp32 sums. M is of the whole product: 64 or 128 for one CTA, 256
// for a pair. N: multiples of 16 up to 256, of 8 with M = 64, of 32 for a pair. Any thread.
__host__ __device__ constexpr uint32_t tcgen05_instruction_descriptor(int m, int n, Major a = Major::K,
                                                                      Major b = Major::K) {
    return 1u << 4 | 1u << 7 | 1u << 10 | uint32_t(a) << 15 | uint32_t(b) << 16 | uint32_t(n / 8) << 17 |
           uint32_t(m / 16) << 24;
}

// --------------------------------------------------------------- products, copies, commits, allocation

// tcgen05_alloc<GROUP, COLUMNS>(slot): a power of two from 32 to 512; the address goes to shared memory. The warp; in a
//   pair, the same warp of both CTAs. tcgen05_dealloc<GROUP, COLUMNS>(address): before the kernel ends. The warp.
//   tcgen05_relinquish_alloc_permit<GROUP>(): no more allocations by this CTA. The warp.
// tcgen05_mma<GROUP>(d, a, b, idesc, accumulate): a and b are descriptors, d an address in TMEM. Row r of D lies in
//   lane r; with M = 64, in lane r / 16 * 32 + r % 16. In a pair, the even CTA's thread issues; each CTA holds its
//   half of A's rows and of B's rows, and gets its half of D's rows. One thread.
// tcgen05_mma_ts<GROUP>(d, a, ...): A in TMEM, eight columns of bf16 pairs per k-step, a row per lane. One thread.
// tcgen05_commit<GROUP>(barrier): one arrival at an mbarrier once all that this thread issued before is done; that also
//   frees the operands' shared memory. _multicast: at that barrier in every CTA of `mask`. The issuing thread.
// tcgen05_cp_SHAPE<GROUP>(address, descriptor): shared memory to TMEM, in order with later products. One thread.
#define PTXGYM_CP(GROUP, NAME, SHAPE)                                                                            \
    template <int G>                                                                                             \
    PTXGYM_DEVICE std::enable_if_t<G == GROUP> tcgen05_cp_##NAME(uint32_t address, uint64_t descriptor) {        \
        asm volatile("tcgen05.cp.cta_group::" #GROUP "." SHAPE " [%0], %1;" ::"r"(address), "l"(descriptor)      \
                     : "memory");                                                                                \
    }
#define PTXGYM_TCGEN05(GROUP)                                                                                    \
    template <int G, int COLUMNS>                                                                                \
    PTXGYM_DEVICE std::enable_if_t<G == GROUP> tcgen05_alloc(uint32_t* slot) {                                   \
        static_assert(COLUMNS >= 32 && COLUMNS <= 512 && (COLUMNS & (COLUMNS - 1)) == 0,                         \
                      "a power of two of columns, 32 to 512");                                                   \
        asm volatile("tcgen05.alloc.cta_group::" #GROUP ".sync.aligned.shared::cta.b32 [%0], %1;"                \
                     ::"r"(shared_address(slot)), "n"(COLUMNS) : "memory");                                      \
    }                                                                                                            \
    template <int G, int COLUMNS>                                                                                \
    PTXGYM_DEVICE std::enable_if_t<G == GROUP> tcgen05_dealloc(uint32_t address) {                               \
        asm volatile("tcgen05.dealloc.cta_group::" #GROUP ".sync.aligned.b32 %0, %1;"                            \
                     ::"r"(address), "n"(COLUMNS) : "memory");                                                   \
    }                                                                                                            \
    template <int G>                                                                                             \
    PTXGYM_DEVICE std::enable_if_t<G == GROUP> tcgen05_relinquish_alloc_permit() {                               \
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::" #GROUP ".sync.aligned;" ::: "memory");        \
    }                                                                                                            \
    template <int G>                                                                                             \
    PTXGYM_DEVICE std::enable_if_t<G == GROUP> tcgen05_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc,   \
                                                           bool accumulate) {                                    \
        asm volatile("{ .reg .pred p;\n"                                                                         \
                     "setp.ne.b32 p, %4, 0;\n"                                                                   \
                     "tcgen05.mma.cta_group::" #GROUP ".kind::f16 [%0], %1, %2, %3, p; }"                        \
                     ::"r"(d), "l"(a), "l"(b), "r"(idesc), "r"(int(accumulate)) : "memory");                     \
    }                                                                                                            \
    template <int G>                                                                                             \
    PTXGYM_DEVICE std::enable_if_t<G == GROUP> tcgen05_mma_ts(uint32_t d, uint32_t a, uint64_t b, uint32_t idesc,\
                                                              bool accumulate) {                                 \
        asm volatile("{ .reg .pred p;\n"                                                                         \
                     "setp.ne.b32 p, %4, 0;\n"                                                                   \
                     "tcgen05.mma.cta_group::" #GROUP ".kind::f16 [%0], [%1], %2, %3, p; }"                      \
                     ::"r"(d), "r"(a), "l"(b), "r"(idesc), "r"(int(accumulate)) : "memory");                     \
    }                                                                                                            \
    template <int G>                                                                                             \
    PTXGYM_DEVICE std::enable_if_t<G == GROUP> tcgen05_commit(uint64_t* barrier) {                               \
        asm volatile("tcgen05.commit.cta_group::" #GROUP ".mbarrier::arrive::one.shared::cluster.b64 [%0];"      \
                     ::"r"(shared_address(barrier)) : "memory");                                                 \
    }                                                                                                            \
    template <int G>                                                                                             \
    PTXGYM_DEVICE std::enable_if_t<G == GROUP> tcgen05_commit_multicast(uint64_t* barrier, uint16_t mask) {      \
        asm volatile("tcgen05.commit.cta_group::" #GROUP ".mbarrier::arrive::one.shared::cluster"                \
                     ".multicast::cluster.b64 [%0], %1;" ::"r"(shared_address(barrier)), "h"(mask) : "memory");  \
    }                                                                                                            \
    PTXGYM_CP(GROUP, 128x256b, "128x256b")                                                                       \
    PTXGYM_CP(GROUP, 128x128b, "128x128b")                                                                       \
    PTXGYM_CP(GROUP, 4x256b, "4x256b")                                                                           \
    PTXGYM_CP(GROUP, 64x128b_02_13, "64x128b.warpx2::02_13")                                                     \
    PTXGYM_CP(GROUP, 64x128b_01_23, "64x128b.warpx2::01_23")                                                     \
    PTXGYM_CP(GROUP, 32x128b, "32x128b.warpx4")

PTXGYM_TCGEN05(1)
PTXGYM_TCGEN05(2)
#undef PTXGYM_TCGEN05
#undef PTXGYM_CP

}  // namespace ptxgym
