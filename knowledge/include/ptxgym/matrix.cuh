// ldmatrix and stmatrix: 8x8 matrices of 16-bit elements between shared memory and registers.
//
// Lane l brings the address of row l % 8 of matrix l / 8 (x1 uses lanes 0 to 7, x2 lanes 0 to 15); a row is 16
// contiguous bytes, 16-byte aligned. Afterwards, or before, lane l holds elements 2 * (l % 4) and the next of row
// l / 4 of each matrix; with trans, of the transposed matrix. The warp.
#pragma once
#include "common.cuh"

namespace ptxgym {

#define PTXGYM_MATRIX(SUFFIX, TRANS)                                                                               \
    PTXGYM_DEVICE void ldmatrix_x1##SUFFIX(uint32_t (&r)[1], const void* row) {                                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x1" TRANS ".shared.b16 {%0}, [%1];"                               \
                     : "=r"(r[0]) : "r"(shared_address(row)) : "memory");                                          \
    }                                                                                                              \
    PTXGYM_DEVICE void ldmatrix_x2##SUFFIX(uint32_t (&r)[2], const void* row) {                                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" TRANS ".shared.b16 {%0, %1}, [%2];"                           \
                     : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(row)) : "memory");                              \
    }                                                                                                              \
    PTXGYM_DEVICE void ldmatrix_x4##SUFFIX(uint32_t (&r)[4], const void* row) {                                    \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 {%0, %1, %2, %3}, [%4];"                   \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");      \
    }                                                                                                              \
    PTXGYM_DEVICE void stmatrix_x1##SUFFIX(void* row, uint32_t r0) {                                               \
        asm volatile("stmatrix.sync.aligned.m8n8.x1" TRANS ".shared.b16 [%0], {%1};"                               \
                     ::"r"(shared_address(row)), "r"(r0) : "memory");                                              \
    }                                                                                                              \
    PTXGYM_DEVICE void stmatrix_x2##SUFFIX(void* row, uint32_t r0, uint32_t r1) {                                  \
        asm volatile("stmatrix.sync.aligned.m8n8.x2" TRANS ".shared.b16 [%0], {%1, %2};"                           \
                     ::"r"(shared_address(row)), "r"(r0), "r"(r1) : "memory");                                     \
    }                                                                                                              \
    PTXGYM_DEVICE void stmatrix_x4##SUFFIX(void* row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {        \
        asm volatile("stmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 [%0], {%1, %2, %3, %4};"                   \
                     ::"r"(shared_address(row)), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");                   \
    }

PTXGYM_MATRIX(, "")
PTXGYM_MATRIX(_trans, ".trans")
#undef PTXGYM_MATRIX

}  // namespace ptxgym
