// Fast arithmetic around the tensor cores.
#pragma once
#include "common.cuh"

namespace ptxgym {

// 2^x and log2(x) to about 2 ulp, one instruction each; -INFINITY gives 0. Any thread.
PTXGYM_DEVICE float ex2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
PTXGYM_DEVICE float lg2_approx(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two floats to a pair of bf16, rounded to nearest even; `low` lies at the lower address. Any thread.
PTXGYM_DEVICE uint32_t cvt_bf16x2(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Maximum and sum over the four lanes that hold a row of a wgmma result. The warp.
PTXGYM_DEVICE float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
PTXGYM_DEVICE float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

}  // namespace ptxgym
