// C[M,N] = A[M,K] * B[N,K]^T: one warpgroup copies, two multiply 64 rows each. [n] are the numbers of contracts.md.
#include <ptxgym/hopper.cuh>
using namespace ptxgym;

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 4;
constexpr uint32_t STAGE_BYTES = (BM + BN) * BK * sizeof(__nv_bfloat16);

struct alignas(1024) Shared {                              // [2] tiles first, each a multiple of 1024 bytes
    __nv_bfloat16 a[STAGES][BM * BK], b[STAGES][BN * BK];  // 64 columns of bf16 are one 128-byte row
    __nv_bfloat16 c[2][BN / 64][64 * 64];                  // per warpgroup, slabs of 64 columns
    uint64_t full[STAGES], empty[STAGES];
};

__global__ void __launch_bounds__(384, 1)  // [9] the 1 fixes the register count at launch
gemm(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
     const __grid_constant__ CUtensorMap map_c, int K) {  // [21]
    extern __shared__ __align__(1024) uint8_t bytes[];
    Shared& s = *reinterpret_cast<Shared*>(bytes);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN, steps = K / BK;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(&s.full[i], 1);   // [16] one arrival, the producer's; the bytes are counted apart
            mbarrier_init(&s.empty[i], 8);  // [15] one arrival per consumer warp
        }
        fence_mbarrier_init();  // [11]
    }
    __syncthreads();  // [11]

    Ring<STAGES> ring;  // [14] both sides begin at stage 0, parity 0
    if (warp < 4) {
        setmaxnreg_dec<40>();  // [10] 128 * 40 + 256 * 232 = 384 * 168
        if (warp == 0 && elect_sync())
            for (int k = 0; k < steps; ++k, ring.advance()) {
                mbarrier_wait_parity(&s.empty[ring.stage], ring.parity ^ 1);  // [14]
                mbarrier_arrive_expect_tx(&s.full[ring.stage], STAGE_BYTES);  // [16]
                tma_load_2d(s.a[ring.stage], &map_a, &s.full[ring.stage], k * BK, row);  // [23]
                tma_load_2d(s.b[ring.stage], &map_b, &s.full[ring.stage], k * BK, col);
            }
        return;
    }

    setmaxnreg_inc<232>();  // [9] before anything that needs the registers
    const int consumer = warp / 4 - 1;
    float d[BN / 2] = {};
    for (int k = 0; k < steps; ++k, ring.advance()) {
        mbarrier_wait_parity(&s.full[ring.stage], ring.parity);
        const uint64_t a = wgmma_descriptor_k_major<Swizzle::B128>(s.a[ring.stage] + consumer * 64 * BK);  // [1]
        const uint64_t b = wgmma_descriptor_k_major<Swizzle::B128>(s.b[ring.stage]);
        wgmma_fence();  // [4]
#pragma unroll
        for (int i = 0; i < BK / 16; ++i)  // [3]
            wgmma_mma_async(d, a + step_k_major<Swizzle::B128>(i, 0), b + step_k_major<Swizzle::B128>(i, 0), k + i > 0);
        wgmma_commit_group();
        wgmma_wait_group<0>();  // [5]
        if (elect_sync()) mbarrier_arrive(&s.empty[ring.stage]);  // [15]
    }

    for (int i = 0; i < BN / 16; ++i) {  // 16 columns at a time: four 8x8 matrices of this warp's 16 rows
        uint32_t r[4];
        wgmma_a_operand(r, d, i);
        const int place = swizzled_offset<Swizzle::B128>(warp % 4 * 16 + lane % 16, i % 4 * 32 + lane / 16 * 16);
        stmatrix_x4(s.c[consumer][i / 4] + place / 2, r[0], r[1], r[2], r[3]);
    }
    fence_proxy_async();  // [12] every thread that wrote
    consumer ? barrier_sync<2, 128>() : barrier_sync<1, 128>();  // [12] then the barrier, [28] of these 128 threads
    if (warp % 4 == 0 && elect_sync()) {
        for (int i = 0; i < BN / 64; ++i)
            tma_store_2d(&map_c, s.c[consumer][i], col + i * 64, row + consumer * 64);
        bulk_commit_group();
        bulk_wait_group_read<0>();  // [25]
    }
}

extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
    if (M % BM || N % BN || K % BK) return cudaErrorInvalidValue;
    CUtensorMap a, b, c;  // [22]
    cudaError_t error = make_tensor_map(&a, A, {K, M}, {BK, BM}, Swizzle::B128);
    if (!error) error = make_tensor_map(&b, B, {K, N}, {BK, BN}, Swizzle::B128);
    if (!error) error = make_tensor_map(&c, C, {N, M}, {64, 64}, Swizzle::B128);
    if (!error)  // [27]
        error = cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
    if (error) return error;
    gemm<<<dim3(N / BN, M / BM), 384, sizeof(Shared), stream>>>(a, b, c, K);
    return cudaGetLastError();
}
