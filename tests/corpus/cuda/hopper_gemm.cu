// C[M,N] = A[M,K] B[N,K]^T: warp-specialised, three stages, epilogue through stmatrix and a TMA store.
#include "ptx.cuh"

constexpr int BM = 64, BN = 64, BK = 64, STAGES = 3;

extern "C" __global__ void __launch_bounds__(256, 1)
gemm(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, const __grid_constant__ CUtensorMap mc, int K) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    __nv_bfloat16* a = (__nv_bfloat16*)bytes;
    __nv_bfloat16* b = a + STAGES * BM * BK;
    __nv_bfloat16* c = b + STAGES * BN * BK;
    __shared__ uint64_t full[STAGES], empty[STAGES];
    int steps = K / BK, row = blockIdx.y * BM, col = blockIdx.x * BN;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) { mbarrier_init(&full[s], 1); mbarrier_init(&empty[s], 4); }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= 128) {  // producer
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 128)
            for (int i = 0; i < steps; ++i) {
                int s = i % STAGES;
                mbarrier_wait(&empty[s], i / STAGES & 1 ^ 1);
                mbarrier_expect_tx(&full[s], (BM + BN) * BK * 2);
                tma_load_2d(a + s * BM * BK, &ma, &full[s], i * BK, row);
                tma_load_2d(b + s * BN * BK, &mb, &full[s], i * BK, col);
            }
    } else {  // consumer
        asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
        float d[32];
        for (int i = 0; i < 32; ++i) d[i] = 0;
        for (int i = 0; i < steps; ++i) {
            int s = i % STAGES;
            mbarrier_wait(&full[s], i / STAGES & 1);
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < BK / 16; ++k)
                wgmma_bf16(d, descriptor(a + s * BM * BK + k * 16, 16, 1024, 1), descriptor(b + s * BN * BK + k * 16, 16, 1024, 1), 1);
            wgmma_commit();
            wgmma_wait<0>();
            if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[s]);
        }
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane % 16;
#pragma unroll
        for (int j = 0; j < BN / 16; ++j) {
            int chunk = (2 * j + lane / 16) ^ (r % 8);
            stmatrix_x4(c + (warp * 16 + r) * BN + chunk * 8, pack_bf16(d[8 * j], d[8 * j + 1]), pack_bf16(d[8 * j + 2], d[8 * j + 3]),
                        pack_bf16(d[8 * j + 4], d[8 * j + 5]), pack_bf16(d[8 * j + 6], d[8 * j + 7]));
        }
        fence_proxy_async();
        bar_sync(1, 128);
        if (threadIdx.x == 0) { tma_store_2d(&mc, c, col, row); bulk_commit(); bulk_wait_read<0>(); }
    }
}
