// Warp 0 writes tensor memory that warp 4 reads; they reach the same lanes.
#define BLACKWELL
#include "ptx.cuh"

#define HAND_OVER(name, wait, before, sync, after)                          \
    extern "C" __global__ void name(const uint32_t* in, uint32_t* out) {    \
        __shared__ uint32_t address;                                        \
        if (threadIdx.x < 32) tcgen05_alloc<32>(&address);                  \
        __syncthreads();                                                    \
        uint32_t t = address, r[8];                                         \
        if (threadIdx.x < 32) {                                             \
            for (int i = 0; i < 8; ++i) r[i] = in[threadIdx.x * 8 + i];     \
            tcgen05_st_x8(t, r);                                            \
            wait;                                                           \
            before;                                                         \
        }                                                                   \
        sync;                                                               \
        if (threadIdx.x >= 128) {                                           \
            after;                                                          \
            tcgen05_ld_x8(r, t);                                            \
            tcgen05_wait_ld();                                              \
            for (int i = 0; i < 8; ++i) out[threadIdx.x % 32 * 8 + i] = r[i]; \
        }                                                                   \
        __syncthreads();                                                    \
        if (threadIdx.x < 32) tcgen05_dealloc<32>(t);                       \
    }

HAND_OVER(right, tcgen05_wait_st(), tcgen05_before(), __syncthreads(), tcgen05_after())
HAND_OVER(through_a_named_barrier, tcgen05_wait_st(), tcgen05_before(), bar_sync(1, 160), tcgen05_after())
HAND_OVER(no_wait, , tcgen05_before(), __syncthreads(), tcgen05_after())
HAND_OVER(no_fence_before, tcgen05_wait_st(), , __syncthreads(), tcgen05_after())
HAND_OVER(no_fence_after, tcgen05_wait_st(), tcgen05_before(), __syncthreads(), )
HAND_OVER(no_barrier, tcgen05_wait_st(), tcgen05_before(), , tcgen05_after())

// The four quarters are written in one shape and read in another, each warp on its own.
extern "C" __global__ void private_lanes(const uint32_t* in, uint32_t* out) {
    __shared__ uint32_t address;
    if (threadIdx.x < 32) tcgen05_alloc<32>(&address);
    __syncthreads();
    uint32_t t = address + (threadIdx.x / 32 % 4 * 32 << 16) + threadIdx.x / 128 * 16, r[8];
    for (int i = 0; i < 8; ++i) r[i] = in[i];
    for (int n = 0; n < 2; ++n) {
        tcgen05_st_x8(t + 8 * n, r);
        tcgen05_wait_st();
        tcgen05_ld_x8(r, t + 8 * n);
        tcgen05_wait_ld();
        tcgen05_st_x8(t + 8 * n, r);
    }
    out[threadIdx.x % 32] = r[0];
    __syncthreads();
    if (threadIdx.x < 32) tcgen05_dealloc<32>(address);
}
