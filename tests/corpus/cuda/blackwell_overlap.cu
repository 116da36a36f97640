// out[t] = A[t] B^T for several tiles t of 128 x 64: products fill one accumulator while the other is stored.
#define BLACKWELL
#include "ptx.cuh"

constexpr int ROWS = 128, N = 64, K = 64, STAGES = 2;

// Warp 0 copies, warp 1 multiplies, warps 2 to 5 store.
extern "C" __global__ void __launch_bounds__(192, 1)
overlapped_products(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* out, int tiles) {
    __shared__ alignas(1024) __nv_bfloat16 a[STAGES][ROWS * K], b[N * K];
    __shared__ uint64_t b_full, full[STAGES], empty[STAGES], ready[2], stored[2];
    __shared__ uint32_t address;
    int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        mbarrier_init(&b_full, 1);
        for (int s = 0; s < 2; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 1);
            mbarrier_init(&ready[s], 1);
            mbarrier_init(&stored[s], 128);
        }
        fence_mbarrier_init();
    }
    if (warp == 1) tcgen05_alloc<128>(&address);
    tcgen05_before();
    __syncthreads();
    tcgen05_after();
    uint32_t t = address;
    if (warp == 0) {
        if (elect_one()) {
            mbarrier_expect_tx(&b_full, sizeof(b));
            tma_load_2d(b, &mb, &b_full, 0, 0);
            for (int i = 0; i < tiles; ++i) {
                mbarrier_wait(&empty[i % 2], i / 2 & 1 ^ 1);
                mbarrier_expect_tx(&full[i % 2], sizeof(a[0]));
                tma_load_2d(a[i % 2], &ma, &full[i % 2], 0, i * ROWS);
            }
        }
    } else if (warp == 1) {
        if (elect_one()) {
            mbarrier_wait(&b_full, 0);
            for (int i = 0; i < tiles; ++i) {
                mbarrier_wait(&full[i % 2], i / 2 & 1);
                mbarrier_wait(&stored[i % 2], i / 2 & 1 ^ 1);
                tcgen05_after();
                for (int k = 0; k < K / 16; ++k)
                    tcgen05_mma_f16(t + i % 2 * N, descriptor_sm100(a[i % 2] + k * 16, 16, 1024, 2), descriptor_sm100(b + k * 16, 16, 1024, 2),
                                    instruction_descriptor(1, 1, 1, ROWS, N), k != 0);
                tcgen05_commit(&empty[i % 2]);
                tcgen05_commit(&ready[i % 2]);
            }
        }
    } else {
        int row = warp % 4 * 32 + threadIdx.x % 32;
        for (int i = 0; i < tiles; ++i) {
            uint32_t r[N / 8][8];
            mbarrier_wait(&ready[i % 2], i / 2 & 1);
            tcgen05_after();
            for (int c = 0; c < N / 8; ++c) tcgen05_ld_x8(r[c], t + i % 2 * N + (uint32_t)(warp % 4 * 32 << 16) + c * 8);
            tcgen05_wait_ld();
            tcgen05_before();
            mbarrier_arrive(&stored[i % 2]);
            for (int c = 0; c < N; ++c) out[(i * ROWS + row) * N + c] = __uint_as_float(r[c / 8][c % 8]);
        }
    }
    __syncthreads();
    if (warp == 1) tcgen05_dealloc<128>(t);
}
