// Ways to wait for mbarriers: right ones that look odd, and wrong ones.
#include "ptx.cuh"

// One stage of 128 bytes; thread 64 fills it, warps 0 and 1 read it. Every wait is made twice.
extern "C" __global__ void looks_twice(const float* in, float* out, int steps) {
    __shared__ alignas(128) float stage[32];
    __shared__ uint64_t full, empty;
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); mbarrier_init(&empty, 2); fence_mbarrier_init(); }
    __syncthreads();
    if (threadIdx.x == 64)
        for (int i = 0; i < steps; ++i) {
            mbarrier_wait(&empty, i & 1 ^ 1);
            mbarrier_wait(&empty, i & 1 ^ 1);
            mbarrier_expect_tx(&full, sizeof(stage));
            bulk_load(stage, in + i * 32, sizeof(stage), &full);
        }
    if (threadIdx.x < 64)
        for (int i = 0; i < steps; ++i) {
            mbarrier_wait(&full, i & 1);
            while (!mbarrier_test(&full, i & 1)) {}
            out[i * 64 + threadIdx.x] = stage[threadIdx.x % 32];
            __syncwarp();
            if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty);
        }
}

// The same, but each of the warps 0 and 1 takes every other step and does not look at the steps between.
extern "C" __global__ void takes_turns(const float* in, float* out, int steps) {
    __shared__ alignas(128) float stage[32];
    __shared__ uint64_t full, empty;
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); mbarrier_init(&empty, 1); fence_mbarrier_init(); }
    __syncthreads();
    if (threadIdx.x == 64)
        for (int i = 0; i < steps; ++i) {
            mbarrier_wait(&empty, i & 1 ^ 1);
            mbarrier_expect_tx(&full, sizeof(stage));
            bulk_load(stage, in + i * 32, sizeof(stage), &full);
        }
    if (threadIdx.x < 64)
        for (int i = threadIdx.x / 32; i < steps; i += 2) {
            mbarrier_wait(&full, i & 1);
            out[i * 64 + threadIdx.x] = stage[threadIdx.x % 32];
            __syncwarp();
            if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty);
        }
}

// Thread 0 starts every round; all warps wait for it.
extern "C" __global__ void rounds(const float* in, float* out, int steps) {
    __shared__ uint64_t start;
    if (threadIdx.x == 0) { mbarrier_init(&start, 1); fence_mbarrier_init(); }
    __syncthreads();
    for (int i = 0; i < steps; ++i) {
        if (threadIdx.x == 0) mbarrier_arrive(&start);
        mbarrier_wait(&start, i & 1);
        if (in == nullptr) __syncthreads();
    }
    out[threadIdx.x] = 0;
}

extern "C" __global__ void misses_phases(const float* in, float* out, int steps) {
    __shared__ uint64_t start;
    if (threadIdx.x == 0) { mbarrier_init(&start, 1); fence_mbarrier_init(); mbarrier_arrive(&start); }
    __syncthreads();
    if (threadIdx.x == 32) mbarrier_wait(&start, 0);
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < steps; ++i) mbarrier_arrive(&start);
    __syncthreads();
    if (threadIdx.x == 32) mbarrier_wait(&start, steps - 1 & 1);
}
