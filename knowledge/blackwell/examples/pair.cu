// out[256,128] (fp32) = A[256,K] * B[128,K]^T by a pair: each CTA brings 128 rows of A and 64 of B. [n] and [Tn] are
// contracts.
#include <ptxgym/blackwell.cuh>
using namespace ptxgym;

constexpr int N = 128, BK = 64, STAGES = 3;

struct alignas(1024) Shared {
    __nv_bfloat16 a[STAGES][128 * BK], b[STAGES][N / 2 * BK];
    uint64_t full[STAGES], empty[STAGES], done;
    uint32_t tmem;
};

__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128, 1)
pair_product(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, float* out, int K) {
    extern __shared__ __align__(1024) uint8_t bytes[];
    Shared& s = *reinterpret_cast<Shared*>(bytes);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), rank = cluster_ctarank(), steps = K / BK;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(&s.full[i], 1);
            mbarrier_init(&s.empty[i], 1);
        }
        mbarrier_init(&s.done, 1);
        fence_mbarrier_init();
    }
    if (warp == 2) tcgen05_alloc<2, N>(&s.tmem);  // [T2] in both CTAs
    tcgen05_fence_before_thread_sync();
    cluster_sync();  // [20]
    tcgen05_fence_after_thread_sync();

    Ring<STAGES> ring;
    if (warp == 0 && elect_sync()) {
        for (int k = 0; k < steps; ++k, ring.advance()) {
            mbarrier_wait_parity(&s.empty[ring.stage], ring.parity ^ 1);
            if (rank == 0)  // [T9] the even CTA's barrier counts the bytes of both
                mbarrier_arrive_expect_tx(&s.full[ring.stage], 2 * (sizeof(s.a[0]) + sizeof(s.b[0])));
            const uint32_t full = mapa(&s.full[ring.stage], 0);
            tma_load_2d_pair(s.a[ring.stage], &map_a, full, k * BK, rank * 128);
            tma_load_2d_pair(s.b[ring.stage], &map_b, full, k * BK, rank * N / 2);
        }
    } else if (warp == 1 && rank == 0 && elect_sync()) {  // [T7] the even CTA issues for both
        for (int k = 0; k < steps; ++k, ring.advance()) {
            mbarrier_wait_parity(&s.full[ring.stage], ring.parity);
            tcgen05_fence_after_thread_sync();
            const uint64_t a = tcgen05_descriptor_k_major<Swizzle::B128>(s.a[ring.stage]);
            const uint64_t b = tcgen05_descriptor_k_major<Swizzle::B128>(s.b[ring.stage]);
            for (int i = 0; i < BK / 16; ++i)
                tcgen05_mma<2>(s.tmem, a + step_k_major<Swizzle::B128>(i, 0), b + step_k_major<Swizzle::B128>(i, 0),
                               tcgen05_instruction_descriptor(256, N), k + i > 0);  // [T3] [T8]
            tcgen05_commit_multicast<2>(&s.empty[ring.stage], 3);  // [T9] both producers wait for it
        }
        tcgen05_commit_multicast<2>(&s.done, 3);
    }
    __syncwarp();
    mbarrier_wait_parity(&s.done, 0);
    tcgen05_fence_after_thread_sync();
    for (int c = 0; c < N; c += 32) {
        uint32_t r[32];
        tcgen05_ld_32x32b(r, tcgen05_address(s.tmem, warp * 32, c));
        tcgen05_wait_ld();
        for (int i = 0; i < 32; ++i) out[(rank * 128 + threadIdx.x) * N + c + i] = __uint_as_float(r[i]);
    }
    tcgen05_fence_before_thread_sync();
    cluster_sync();  // [T2] [19]
    if (warp == 2) {
        tcgen05_relinquish_alloc_permit<2>();
        tcgen05_dealloc<2, N>(s.tmem);
    }
}
