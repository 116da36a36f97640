// wgmma: D[64, N] = A[64, 16] * B[N, 16]^T (+ D), bf16 operands and fp32 sums, by one warpgroup of 128 threads.
//
// A and B come from shared memory through descriptors, or A from registers. D lies in registers. The products run
// asynchronously, in order: wgmma_fence, the products, wgmma_commit_group, later wgmma_wait_group. Between the
// products and the wait nobody may touch d, nor the registers of A. All of it: the warpgroup, converged, inlined.
#pragma once
#include "common.cuh"
#include "math.cuh"
#include "swizzle.cuh"
#include "wgmma_operands.cuh"

namespace ptxgym {

// Before the first product, and whenever d or a register operand was written since the last fence.
PTXGYM_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Close the group of products since the last commit.
PTXGYM_DEVICE void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Wait until at most PENDING groups are unfinished, oldest first.
template <int PENDING>
PTXGYM_DEVICE void wgmma_wait_group() {
    static_assert(PENDING >= 0 && PENDING <= 7, "0 to 7 groups may stay in flight");
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// ------------------------------------------------------------------------------------ descriptors

// Where a tile lies: start, two distances, swizzle. Fields count in 16 bytes. Any thread.
//   swizzled, K contiguous:  stride  = from eight rows to the next eight; leading is not used
//   swizzled, MN contiguous: stride  = from eight rows of k to the next eight; leading = from slab to slab
//   no swizzle, K contiguous:  8x16-byte blocks: stride along M or N, leading along K
//   no swizzle, MN contiguous: 8x16-byte blocks: stride along M or N, leading along K, a block being eight rows of k
template <Swizzle SWIZZLE>
PTXGYM_DEVICE uint64_t wgmma_descriptor(const void* tile, uint32_t leading_bytes, uint32_t stride_bytes) {
    constexpr uint64_t CODE = SWIZZLE == Swizzle::B128  ? 1
                              : SWIZZLE == Swizzle::B64 ? 2
                              : SWIZZLE == Swizzle::B32 ? 3
                                                        : 0;
    return CODE << 62 | uint64_t(stride_bytes >> 4 & 0x3fff) << 32 | uint64_t(leading_bytes >> 4 & 0x3fff) << 16 |
           (shared_address(tile) >> 4 & 0x3fff);
}

// A slab [rows][SPAN], K contiguous. Any thread. Add step_k_major for the later k-steps.
template <Swizzle SWIZZLE>
PTXGYM_DEVICE uint64_t wgmma_descriptor_k_major(const void* tile) {
    static_assert(SWIZZLE != Swizzle::NONE, "without a swizzle, give both distances to wgmma_descriptor");
    return wgmma_descriptor<SWIZZLE>(tile, 16, ATOM<SWIZZLE>);
}

// Slabs [k][SPAN], `slab_bytes` apart, M or N contiguous. Any thread. Add step_mn_major for the later k-steps.
template <Swizzle SWIZZLE>
PTXGYM_DEVICE uint64_t wgmma_descriptor_mn_major(const void* tile, uint32_t slab_bytes) {
    static_assert(SWIZZLE != Swizzle::NONE, "without a swizzle, give both distances to wgmma_descriptor");
    return wgmma_descriptor<SWIZZLE>(tile, slab_bytes, ATOM<SWIZZLE>);
}

// --------------------------------------------------------------------------------------- products

// N is 8, 16, ... 256 and follows from the size of d, which is N / 2. Where `accumulate` is false, d is replaced.
//
//   wgmma_mma_async<A, B>(d, a, b, accumulate)    a, b: descriptors; A, B: what is contiguous, Major::K or Major::MN
//   wgmma_mma_async<B>(d, a, b, accumulate)       a: four registers of bf16 pairs, see wgmma_a_operand; b: descriptor
#define PTXGYM_OPERAND(i) ", %" #i
#define PTXGYM_BINDING(i) , "+f"(d[i])
#define PTXGYM_WGMMA(N, P, Q, R, S, T, U, V)                                                                         \
    template <Major A = Major::K, Major B = Major::K>                                                                \
    PTXGYM_DEVICE void wgmma_mma_async(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {                 \
        asm volatile("{ .reg .pred p;\n"                                                                             \
                     "setp.ne.b32 p, " R ", 0;\n"                                                                    \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16"                                      \
                     " {%0" PTXGYM_ACCUMULATORS_##N(PTXGYM_OPERAND) "}, " P ", " Q ", p, 1, 1, " S ", " T "; }"      \
                     : "+f"(d[0]) PTXGYM_ACCUMULATORS_##N(PTXGYM_BINDING)                                            \
                     : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(A)), "n"(int(B)) : "memory");                   \
    }                                                                                                                \
    template <Major B = Major::K>                                                                                    \
    PTXGYM_DEVICE void wgmma_mma_async(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate) {     \
        asm volatile("{ .reg .pred p;\n"                                                                             \
                     "setp.ne.b32 p, " U ", 0;\n"                                                                    \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16"                                      \
                     " {%0" PTXGYM_ACCUMULATORS_##N(PTXGYM_OPERAND) "}, {" P ", " Q ", " R ", " S "}, " T            \
                     ", p, 1, 1, " V "; }"                                                                           \
                     : "+f"(d[0]) PTXGYM_ACCUMULATORS_##N(PTXGYM_BINDING)                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)), "n"(int(B))         \
                     : "memory");                                                                                    \
    }

PTXGYM_FOR_EACH_N(PTXGYM_WGMMA)
#undef PTXGYM_WGMMA
#undef PTXGYM_OPERAND
#undef PTXGYM_BINDING

// -------------------------------------------------------------------------------------- fragments

// Row, 0 to 63, and column of d[i] in this thread. Any thread of the warpgroup.
PTXGYM_DEVICE int wgmma_row(int i) { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8; }
PTXGYM_DEVICE int wgmma_column(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

// Columns 16 * k to 16 * k + 15 of a result as the A operand of the next product. Each thread, no exchange. An A
// operand that comes from elsewhere: a[r] holds two neighbours, row wgmma_row(2 * r), column wgmma_column(2 * r).
template <int SIZE>
PTXGYM_DEVICE void wgmma_a_operand(uint32_t (&a)[4], const float (&d)[SIZE], int k) {
#pragma unroll
    for (int r = 0; r < 4; ++r) a[r] = cvt_bf16x2(d[8 * k + 2 * r], d[8 * k + 2 * r + 1]);
}

}  // namespace ptxgym
