// O = softmax(Q K^T / 8) V for one head of width 64: 64 rows per block, keys in blocks of 64, double buffered.
#include "ptx.cuh"

constexpr int D = 64, BLOCK = 64;

extern "C" __global__ void __launch_bounds__(128, 1)
attention(const __grid_constant__ CUtensorMap mq, const __grid_constant__ CUtensorMap mk, const __grid_constant__ CUtensorMap mv, __nv_bfloat16* O, float* LSE, int length) {
    extern __shared__ __align__(1024) __nv_bfloat16 tiles[];
    __nv_bfloat16 *q = tiles, *k = q + BLOCK * D, *v = k + 2 * BLOCK * D;
    __shared__ uint64_t full_q, full[2];
    int steps = length / BLOCK, row0 = blockIdx.x * BLOCK;
    if (threadIdx.x == 0) { mbarrier_init(&full_q, 1); mbarrier_init(&full[0], 1); mbarrier_init(&full[1], 1); fence_mbarrier_init(); }
    __syncthreads();
    auto fetch = [&](int i) {
        mbarrier_expect_tx(&full[i % 2], 2 * BLOCK * D * 2);
        tma_load_2d(k + i % 2 * BLOCK * D, &mk, &full[i % 2], 0, i * BLOCK);
        tma_load_2d(v + i % 2 * BLOCK * D, &mv, &full[i % 2], 0, i * BLOCK);
    };
    if (threadIdx.x == 0) { mbarrier_expect_tx(&full_q, BLOCK * D * 2); tma_load_2d(q, &mq, &full_q, 0, row0); fetch(0); }
    float o[32] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    mbarrier_wait(&full_q, 0);
    for (int i = 0; i < steps; ++i) {
        if (threadIdx.x == 0 && i + 1 < steps) fetch(i + 1);
        mbarrier_wait(&full[i % 2], i / 2 & 1);
        __nv_bfloat16 *ki = k + i % 2 * BLOCK * D, *vi = v + i % 2 * BLOCK * D;
        float s[32];
        wgmma_fence();
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk) wgmma_bf16(s, descriptor(q + kk * 16, 16, 1024, 1), descriptor(ki + kk * 16, 16, 1024, 1), kk > 0);
        wgmma_commit();
        wgmma_wait<0>();
        uint32_t p[16];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float m = top[h];
            for (int j = 0; j < 16; ++j) m = fmaxf(m, s[j / 2 * 4 + h * 2 + j % 2] * 0.125f);
            m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
            m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
            float scale = __expf(top[h] - m), part = 0;
            top[h] = m;
            for (int j = 0; j < 16; ++j) { float& e = s[j / 2 * 4 + h * 2 + j % 2]; e = __expf(e * 0.125f - m); part += e; }
            part += __shfl_xor_sync(~0u, part, 1);
            part += __shfl_xor_sync(~0u, part, 2);
            sum[h] = sum[h] * scale + part;
            for (int j = 0; j < 16; ++j) o[j / 2 * 4 + h * 2 + j % 2] *= scale;
        }
#pragma unroll
        for (int j = 0; j < 16; ++j) p[j] = pack_bf16(s[2 * j], s[2 * j + 1]);
        wgmma_fence();
#pragma unroll
        for (int kk = 0; kk < BLOCK / 16; ++kk) {
            uint32_t a[4] = {p[4 * kk], p[4 * kk + 1], p[4 * kk + 2], p[4 * kk + 3]};
            wgmma_rs_bf16(o, a, descriptor(vi + kk * 16 * D, 8192, 1024, 1), 1);
        }
        wgmma_commit();
        wgmma_wait<0>();
        __syncthreads();  // everyone is done with this buffer
    }
    int row = row0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;
    for (int i = 0; i < 32; i += 2) *(uint32_t*)&O[(row + i / 2 % 2 * 8) * D + i / 4 * 8 + col] = pack_bf16(o[i] / sum[i / 2 % 2], o[i + 1] / sum[i / 2 % 2]);
    if (threadIdx.x % 4 == 0) { LSE[row] = top[0] + logf(sum[0]); LSE[row + 8] = top[1] + logf(sum[1]); }
}
