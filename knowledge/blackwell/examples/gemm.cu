// C[M,N] = A[M,K] * B[N,K]^T: warp 0 copies, warp 1 multiplies, warps 2 to 5 store. [n] and [Tn] are contracts.
#include <ptxgym/blackwell.cuh>
using namespace ptxgym;

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 4;
constexpr uint32_t STAGE_BYTES = (BM + BN) * BK * sizeof(__nv_bfloat16);

struct alignas(1024) Shared {  // [2]
    __nv_bfloat16 a[STAGES][BM * BK], b[STAGES][BN * BK], c[BN / 64][BM * 64];
    uint64_t full[STAGES], empty[STAGES], done;
    uint32_t tmem;
};

__global__ void __launch_bounds__(192, 1)
gemm(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
     const __grid_constant__ CUtensorMap map_c, int K) {  // [21]
    extern __shared__ __align__(1024) uint8_t bytes[];
    Shared& s = *reinterpret_cast<Shared*>(bytes);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN, steps = K / BK;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(&s.full[i], 1);   // [16]
            mbarrier_init(&s.empty[i], 1);  // [T7] the commit's arrival
        }
        mbarrier_init(&s.done, 1);
        fence_mbarrier_init();  // [11]
    }
    if (warp == 1) {
        tcgen05_alloc<1, BN>(&s.tmem);         // [T1] fp32: a column per column of the tile
        tcgen05_relinquish_alloc_permit<1>();  // [T1]
    }
    tcgen05_fence_before_thread_sync();  // [T4]
    __syncthreads();
    tcgen05_fence_after_thread_sync();
    const uint32_t d = s.tmem;

    Ring<STAGES> ring;  // [14]
    if (warp == 0) {
        if (elect_sync())
            for (int k = 0; k < steps; ++k, ring.advance()) {
                mbarrier_wait_parity(&s.empty[ring.stage], ring.parity ^ 1);
                mbarrier_arrive_expect_tx(&s.full[ring.stage], STAGE_BYTES);
                tma_load_2d(s.a[ring.stage], &map_a, &s.full[ring.stage], k * BK, row);
                tma_load_2d(s.b[ring.stage], &map_b, &s.full[ring.stage], k * BK, col);
            }
    } else if (warp == 1) {
        if (elect_sync()) {  // [T7] one thread issues and commits
            constexpr uint32_t IDESC = tcgen05_instruction_descriptor(BM, BN);  // [T8]
            for (int k = 0; k < steps; ++k, ring.advance()) {
                mbarrier_wait_parity(&s.full[ring.stage], ring.parity);
                tcgen05_fence_after_thread_sync();  // [T4]
                const uint64_t a = tcgen05_descriptor_k_major<Swizzle::B128>(s.a[ring.stage]);  // [1]
                const uint64_t b = tcgen05_descriptor_k_major<Swizzle::B128>(s.b[ring.stage]);
                for (int i = 0; i < BK / 16; ++i)  // [3], [T8] the first product replaces d
                    tcgen05_mma<1>(d, a + step_k_major<Swizzle::B128>(i, 0), b + step_k_major<Swizzle::B128>(i, 0),
                                   IDESC, k + i > 0);
                tcgen05_commit<1>(&s.empty[ring.stage]);  // [T7] frees the stage when its products are done
            }
            tcgen05_commit<1>(&s.done);
        }
    } else {
        mbarrier_wait_parity(&s.done, 0);
        tcgen05_fence_after_thread_sync();  // [T4]
        const int own = warp % 4 * 32;      // [T6]
        for (int c = 0; c < BN; c += 32) {
            uint32_t r[32];
            tcgen05_ld_32x32b(r, tcgen05_address(d, own, c));
            tcgen05_wait_ld();  // [T5]
            for (int i = 0; i < 32; i += 8) {  // eight columns are a chunk of 16 bytes
                uint32_t w[4];
                for (int j = 0; j < 4; ++j)
                    w[j] = cvt_bf16x2(__uint_as_float(r[i + 2 * j]), __uint_as_float(r[i + 2 * j + 1]));
                const int place = swizzled_offset<Swizzle::B128>(own + lane, (c % 64 + i) * 2);
                *reinterpret_cast<uint4*>(s.c[c / 64] + place / 2) = make_uint4(w[0], w[1], w[2], w[3]);
            }
        }
        tcgen05_fence_before_thread_sync();  // [T4] before the deallocation
        fence_proxy_async();                 // [12]
        barrier_sync<1, 128>();              // [28]
        if (warp == 2 && elect_sync()) {
            for (int i = 0; i < BN / 64; ++i) tma_store_2d(&map_c, s.c[i], col + i * 64, row);
            bulk_commit_group();
            bulk_wait_group_read<0>();  // [25]
        }
    }
    __syncthreads();
    if (warp == 1) tcgen05_dealloc<1, BN>(d);  // [T1]
}

extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
    if (M % BM || N % BN || K % BK) return cudaErrorInvalidValue;
    CUtensorMap a, b, c;  // [22]
    cudaError_t error = make_tensor_map(&a, A, {K, M}, {BK, BM}, Swizzle::B128);
    if (!error) error = make_tensor_map(&b, B, {K, N}, {BK, BN}, Swizzle::B128);
    if (!error) error = make_tensor_map(&c, C, {N, M}, {64, BM}, Swizzle::B128);
    if (!error)  // [27]
        error = cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
    if (error) return error;
    gemm<<<dim3(N / BN, M / BM), 192, sizeof(Shared), stream>>>(a, b, c, K);
    return cudaGetLastError();
}
