// Bulk copies of contiguous bytes, without a tensor map. Addresses and sizes are multiples of 16.
//
// Loads signal an mbarrier with their bytes. Stores and reductions belong to the issuing thread's bulk group: commit,
// then wait, by that same thread.
#pragma once
#include "common.cuh"

namespace ptxgym {

// Global to shared memory; `barrier` counts the bytes. One thread.
PTXGYM_DEVICE void bulk_load(void* target, const void* source, uint32_t bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(target)), "l"(source), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// To the same place in every CTA of `mask` (bit r: rank r); each CTA's own barrier counts the bytes. One thread.
PTXGYM_DEVICE void bulk_load_multicast(void* target, const void* source, uint32_t bytes, uint64_t* barrier,
                                       uint16_t mask) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1], %2, [%3], %4;"
                 ::"r"(shared_address(target)), "l"(source), "r"(bytes), "r"(shared_address(barrier)), "h"(mask)
                 : "memory");
}

// Shared memory of this CTA to another's; `target` and `barrier` are addresses there, from mapa. One thread.
PTXGYM_DEVICE void bulk_copy_cluster(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(target), "r"(shared_address(source)), "r"(bytes), "r"(barrier) : "memory");
}

// Shared to global memory. One thread, after the writers' fence_proxy_async and a barrier.
PTXGYM_DEVICE void bulk_store(void* target, const void* source, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(target), "r"(shared_address(source)), "r"(bytes) : "memory");
}

// target[i] += source[i] over floats of global memory, each addition atomic, in no fixed order. As bulk_store.
PTXGYM_DEVICE void bulk_reduce_add_f32(float* target, const float* source, uint32_t bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 ::"l"(target), "r"(shared_address(source)), "r"(bytes) : "memory");
}

// The same for four floats from registers, 16-byte aligned: no shared memory, no group to wait for. Any thread.
PTXGYM_DEVICE void red_add_v4_f32(float* target, float x, float y, float z, float w) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 ::"l"(target), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}

// Bring bytes of global memory into L2. One thread.
PTXGYM_DEVICE void bulk_prefetch_l2(const void* source, uint32_t bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(source), "r"(bytes) : "memory");
}

// Close the group of this thread's stores since the last commit, TMA stores included. The thread that issued them.
PTXGYM_DEVICE void bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Wait until at most PENDING of this thread's groups are unfinished. The read form waits only until shared memory has
// been *read*, so that it may be overwritten, and is cheaper. The thread that committed.
template <int PENDING>
PTXGYM_DEVICE void bulk_wait_group() {
    static_assert(PENDING >= 0, "a number of groups");
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}
template <int PENDING>
PTXGYM_DEVICE void bulk_wait_group_read() {
    static_assert(PENDING >= 0, "a number of groups");
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

}  // namespace ptxgym
