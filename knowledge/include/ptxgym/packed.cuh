// Two fp32 operations in one instruction, and maxima of three: twice the rate of the FMA units on Blackwell.
#pragma once
#include "common.cuh"

namespace ptxgym {

// Element-wise a * b + c, a + b, a * b, rounded to nearest. Any thread.
PTXGYM_DEVICE float2 fma_f32x2(float2 a, float2 b, float2 c) {
    float2 d;
    asm("{ .reg .b64 a, b, c, d;\n"
        "mov.b64 a, {%2, %3}; mov.b64 b, {%4, %5}; mov.b64 c, {%6, %7};\n"
        "fma.rn.f32x2 d, a, b, c;\n"
        "mov.b64 {%0, %1}, d; }"
        : "=f"(d.x), "=f"(d.y) : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y), "f"(c.x), "f"(c.y));
    return d;
}
#define PTXGYM_F32X2(OP)                                                                                         \
    PTXGYM_DEVICE float2 OP##_f32x2(float2 a, float2 b) {                                                        \
        float2 d;                                                                                                \
        asm("{ .reg .b64 a, b, d;\n"                                                                             \
            "mov.b64 a, {%2, %3}; mov.b64 b, {%4, %5};\n" #OP ".rn.f32x2 d, a, b;\n"                             \
            "mov.b64 {%0, %1}, d; }" : "=f"(d.x), "=f"(d.y) : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y));           \
        return d;                                                                                                \
    }
PTXGYM_F32X2(add)
PTXGYM_F32X2(mul)
#undef PTXGYM_F32X2

// The greatest of three. Any thread.
PTXGYM_DEVICE float max3(float a, float b, float c) {
    float d;
    asm("max.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}

}  // namespace ptxgym
