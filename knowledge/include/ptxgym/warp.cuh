// Warps and warpgroups: election, register budgets, named barriers.
#pragma once
#include "common.cuh"

namespace ptxgym {

// True in exactly one lane, always the same. ptxas knows that one lane goes on; behind `lane == 0` it would turn every
// TMA or barrier instruction into a loop over the lanes. The warp.
PTXGYM_DEVICE bool elect_sync() {
    uint32_t elected;
    asm volatile("{ .reg .pred p;\n"
                 "elect.sync _|p, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, p; }" : "=r"(elected) :: "memory");
    return elected != 0;
}

// Give registers back to the CTA's pool, or take from it and wait until there are enough. REGISTERS is per thread.
// Needs __launch_bounds__(THREADS, 1). The warpgroup, once, before anything that needs the registers.
template <int REGISTERS>
PTXGYM_DEVICE void setmaxnreg_dec() {
    static_assert(REGISTERS >= 24 && REGISTERS <= 256 && REGISTERS % 8 == 0, "24 to 256 registers, in steps of 8");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS) : "memory");
}
template <int REGISTERS>
PTXGYM_DEVICE void setmaxnreg_inc() {
    static_assert(REGISTERS >= 24 && REGISTERS <= 256 && REGISTERS % 8 == 0, "24 to 256 registers, in steps of 8");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS) : "memory");
}

// Hardware barriers 0 to 15 of a CTA; 0 is __syncthreads. sync waits, arrive does not; both count towards `threads`,
// a multiple of 32. The template form costs one barrier; a number in a register makes ptxas reserve all 16. Whole
// warps.
template <int ID, int THREADS>
PTXGYM_DEVICE void barrier_sync() {
    static_assert(ID >= 0 && ID < 16, "a CTA has the barriers 0 to 15");
    static_assert(THREADS > 0 && THREADS % 32 == 0, "barriers count whole warps");
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
template <int ID, int THREADS>
PTXGYM_DEVICE void barrier_arrive() {
    static_assert(ID >= 0 && ID < 16, "a CTA has the barriers 0 to 15");
    static_assert(THREADS > 0 && THREADS % 32 == 0, "barriers count whole warps");
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
PTXGYM_DEVICE void barrier_sync(int id, int threads) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
PTXGYM_DEVICE void barrier_arrive(int id, int threads) {
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace ptxgym
