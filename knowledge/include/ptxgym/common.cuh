// What every header of this folder shares. Conventions of all of them:
//
//   * one function per PTX instruction, under the instruction's own name, in namespace ptxgym;
//   * tiles and barriers are ordinary pointers to shared memory of *this* CTA; sizes are in bytes, coordinates in
//     elements, innermost first;
//   * every instruction that orders something clobbers "memory", so that the compiler moves no access across it;
//   * a comment's last sentence says who calls: "One thread", "The warp", "The warpgroup" (all lanes, converged).
#pragma once
#include <cstdint>
#include <cuda_bf16.h>

#define PTXGYM_DEVICE __device__ __forceinline__

namespace ptxgym {

// The 32-bit address that PTX uses in the shared window. Any thread.
PTXGYM_DEVICE uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace ptxgym
