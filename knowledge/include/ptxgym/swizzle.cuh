// Where an element of a swizzled tile lies. TMA writes tiles like this, and wgmma and tcgen05 read them.
//
// A swizzled tile has rows of SPAN bytes (128, 64 or 32: the swizzle's name) and begins at a multiple of 8 * SPAN
// bytes. Within each group of eight rows the 16-byte chunks of a row are permuted by the row's number. A matrix with
// wider rows is cut into slabs of SPAN bytes; a slab holds all rows: [slabs][rows][SPAN].
#pragma once
#include "common.cuh"

namespace ptxgym {

// By its span in bytes; NONE has rows of one 16-byte chunk.
enum class Swizzle : int { NONE = 16, B32 = 32, B64 = 64, B128 = 128 };

template <Swizzle SWIZZLE>
constexpr int SPAN = static_cast<int>(SWIZZLE);

// The alignment that a tile of this swizzle needs, and the size of its smallest piece: eight rows.
template <Swizzle SWIZZLE>
constexpr int ATOM = SWIZZLE == Swizzle::NONE ? 128 : 8 * SPAN<SWIZZLE>;

// Byte offset, from the tile's start, of byte `byte` of row `row` of a slab. Any thread; for ordinary loads and
// stores, ldmatrix and stmatrix. Multiples of 16 stay multiples of 16.
template <Swizzle SWIZZLE>
__host__ __device__ constexpr int swizzled_offset(int row, int byte) {
    const int offset = row * SPAN<SWIZZLE> + byte;
    return offset ^ (offset >> 3 & (SPAN<SWIZZLE> - 16));
}

// Which dimension of an operand is contiguous: K, or the other one (M of A, N of B).
enum class Major : int { K = 0, MN = 1 };

// A tensor-core instruction multiplies K = 16 columns of bf16. What leads from its first k-step to step i is added to
// the *descriptor* of the tile (which counts in 16 bytes); the base must stay aligned to the atom.
// K contiguous: 32 bytes per step within a slab, then the next slab, `slab_bytes` further.
template <Swizzle SWIZZLE>
__host__ __device__ constexpr uint64_t step_k_major(int i, int slab_bytes) {
    constexpr int PER_SLAB = SPAN<SWIZZLE> / 32;
    static_assert(PER_SLAB > 0, "without a swizzle, write the offsets out");
    return uint64_t(i / PER_SLAB * (slab_bytes / 16) + i % PER_SLAB * 2);
}
// M or N contiguous: sixteen rows of the slab per step.
template <Swizzle SWIZZLE>
__host__ __device__ constexpr uint64_t step_mn_major(int i) {
    return uint64_t(i * SPAN<SWIZZLE>);
}

}  // namespace ptxgym
