// O = softmax(Q K^T / sqrt(128)) V and LSE: 128 queries per CTA, keys in blocks of 128. Warps 0 to 3: softmax, a row
// per thread; warp 4 copies; warp 5 multiplies. [n] and [Tn] are contracts. Simple, not fast: see the schedule.
#include <ptxgym/blackwell.cuh>
using namespace ptxgym;

constexpr int D = 128, ROWS = 128, STAGES = 2, SLABS = D / 64;
constexpr int S = 0, P = 128, O = 256;  // columns of TMEM; P: 64 columns of bf16 pairs

struct alignas(1024) Tile {  // [2] two slabs of 64 columns
    __nv_bfloat16 slab[SLABS][ROWS * 64];
};
struct Shared {
    Tile q, k[STAGES], v[STAGES];  // O leaves through q
    uint64_t q_full, full[STAGES], empty[STAGES], s_full, p_full, o_full;
    uint32_t tmem;
};

__device__ void load(Tile& tile, const CUtensorMap* map, uint64_t* full, int row) {
    for (int i = 0; i < SLABS; ++i) tma_load_2d(tile.slab[i], map, full, i * 64, row);
}

__global__ void __launch_bounds__(192, 1)
attention(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
          const __grid_constant__ CUtensorMap map_v, const __grid_constant__ CUtensorMap map_o, float* LSE,
          int seqlen) {
    extern __shared__ __align__(1024) uint8_t bytes[];
    Shared& s = *reinterpret_cast<Shared*>(bytes);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    const int head = blockIdx.y * seqlen, query = head + blockIdx.x * ROWS, blocks = seqlen / ROWS;
    if (threadIdx.x == 0) {
        for (uint64_t* b : {&s.q_full, &s.full[0], &s.full[1], &s.empty[0], &s.empty[1], &s.s_full, &s.o_full})
            mbarrier_init(b, 1);
        mbarrier_init(&s.p_full, 128);
        fence_mbarrier_init();  // [11]
    }
    if (warp == 5) {
        tcgen05_alloc<1, 512>(&s.tmem);  // [T1]
        tcgen05_relinquish_alloc_permit<1>();
    }
    tcgen05_fence_before_thread_sync();
    __syncthreads();
    tcgen05_fence_after_thread_sync();
    const uint32_t t = s.tmem;

    Ring<STAGES> ring;
    if (warp == 4) {
        if (elect_sync()) {
            mbarrier_arrive_expect_tx(&s.q_full, sizeof(Tile));
            load(s.q, &map_q, &s.q_full, query);
            for (int n = 0; n < blocks; ++n, ring.advance()) {
                mbarrier_wait_parity(&s.empty[ring.stage], ring.parity ^ 1);
                mbarrier_arrive_expect_tx(&s.full[ring.stage], 2 * sizeof(Tile));  // [16]
                load(s.k[ring.stage], &map_k, &s.full[ring.stage], head + n * ROWS);
                load(s.v[ring.stage], &map_v, &s.full[ring.stage], head + n * ROWS);
            }
        }
    } else if (warp == 5) {
        if (elect_sync()) {
            constexpr uint32_t QK = tcgen05_instruction_descriptor(ROWS, ROWS);
            constexpr uint32_t PV = tcgen05_instruction_descriptor(ROWS, D, Major::K, Major::MN);
            const uint64_t q = tcgen05_descriptor_k_major<Swizzle::B128>(s.q.slab[0]);
            mbarrier_wait_parity(&s.q_full, 0);
            for (int n = 0; n < blocks; ++n, ring.advance()) {
                const uint64_t k = tcgen05_descriptor_k_major<Swizzle::B128>(s.k[ring.stage].slab[0]);
                const uint64_t v =  // [1]
                    tcgen05_descriptor_mn_major<Swizzle::B128>(s.v[ring.stage].slab[0], ROWS * 128);
                mbarrier_wait_parity(&s.full[ring.stage], ring.parity);
                tcgen05_fence_after_thread_sync();
                for (int i = 0; i < D / 16; ++i)  // [3]
                    tcgen05_mma<1>(t + S, q + step_k_major<Swizzle::B128>(i, ROWS * 128),
                                   k + step_k_major<Swizzle::B128>(i, ROWS * 128), QK, i > 0);
                tcgen05_commit<1>(&s.s_full);
                mbarrier_wait_parity(&s.p_full, n & 1);  // P is there, and O has been rescaled
                tcgen05_fence_after_thread_sync();       // [T4]
                for (int i = 0; i < ROWS / 16; ++i)  // [T8]
                    tcgen05_mma_ts<1>(t + O, t + P + 8 * i, v + step_mn_major<Swizzle::B128>(i), PV, n + i > 0);
                tcgen05_commit<1>(&s.empty[ring.stage]);  // [T7]
            }
            tcgen05_commit<1>(&s.o_full);
        }
    } else {
        const float scale_log2 = rsqrtf(D) * 1.4426950408889634f;
        const uint32_t own = tcgen05_address(t, warp * 32, 0);  // [T6] this warp's lanes; lane r holds row r
        float max = -INFINITY, sum = 0;
        for (int n = 0; n < blocks; ++n) {
            uint32_t x[ROWS], p[ROWS / 2];
            mbarrier_wait_parity(&s.s_full, n & 1);  // [T7] S, and before it the last block's product with P
            tcgen05_fence_after_thread_sync();
            tcgen05_ld_32x32b(x, own + S);
            tcgen05_wait_ld();  // [T5]
            const float before = max;
            for (int i = 0; i < ROWS; ++i) max = fmaxf(max, __uint_as_float(x[i]));
            const float shrink = ex2_approx((before - max) * scale_log2);
            sum *= shrink;
            for (int i = 0; i < ROWS; i += 2) {
                const float a = ex2_approx((__uint_as_float(x[i]) - max) * scale_log2);
                const float b = ex2_approx((__uint_as_float(x[i + 1]) - max) * scale_log2);
                sum += a + b;
                p[i / 2] = cvt_bf16x2(a, b);
            }
            if (n > 0) {
                for (int c = 0; c < D; c += 32) {
                    uint32_t o[32];
                    tcgen05_ld_32x32b(o, own + O + c);
                    tcgen05_wait_ld();
                    for (int i = 0; i < 32; ++i) o[i] = __float_as_uint(__uint_as_float(o[i]) * shrink);
                    tcgen05_st_32x32b(own + O + c, o);
                }
            }
            tcgen05_st_32x32b(own + P, p);
            tcgen05_wait_st();                    // [T5]
            tcgen05_fence_before_thread_sync();  // [T4]
            mbarrier_arrive(&s.p_full);
        }
        mbarrier_wait_parity(&s.o_full, 0);
        tcgen05_fence_after_thread_sync();
        LSE[query + threadIdx.x] = (max * scale_log2 + lg2_approx(sum)) * 0.6931471805599453f;
        for (int c = 0; c < D; c += 32) {
            uint32_t o[32];
            tcgen05_ld_32x32b(o, own + O + c);
            tcgen05_wait_ld();
            for (int i = 0; i < 32; i += 8) {
                uint32_t w[4];
                for (int j = 0; j < 4; ++j)
                    w[j] = cvt_bf16x2(__uint_as_float(o[i + 2 * j]) / sum, __uint_as_float(o[i + 2 * j + 1]) / sum);
                const int place = swizzled_offset<Swizzle::B128>(threadIdx.x, (c % 64 + i) * 2);
                *reinterpret_cast<uint4*>(s.q.slab[c / 64] + place / 2) = make_uint4(w[0], w[1], w[2], w[3]);
            }
        }
        tcgen05_fence_before_thread_sync();
        fence_proxy_async();     // [12]
        barrier_sync<1, 128>();  // [28]
        if (warp == 0 && elect_sync()) {
            for (int i = 0; i < SLABS; ++i) tma_store_2d(&map_o, s.q.slab[i], i * 64, query);
            bulk_commit_group();
            bulk_wait_group_read<0>();  // [25]
        }
    }
    __syncthreads();
    if (warp == 5) tcgen05_dealloc<1, 512>(t);  // [T1]
}

extern "C" cudaError_t run(const __nv_bfloat16* Q, const __nv_bfloat16* K, const __nv_bfloat16* V, __nv_bfloat16* O,
                           float* LSE, int batch, int heads, int seqlen, cudaStream_t stream) {
    if (seqlen % ROWS) return cudaErrorInvalidValue;
    const int64_t rows = int64_t(batch) * heads * seqlen;
    CUtensorMap maps[4];  // [22]
    const __nv_bfloat16* tensors[4] = {Q, K, V, O};
    for (int i = 0; i < 4; ++i)
        if (auto error = make_tensor_map(&maps[i], tensors[i], {D, rows}, {64, ROWS}, Swizzle::B128)) return error;
    const cudaError_t error =  // [27]
        cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
    if (error) return error;
    attention<<<dim3(seqlen / ROWS, batch * heads), 192, sizeof(Shared), stream>>>(maps[0], maps[1], maps[2], maps[3],
                                                                                  LSE, seqlen);
    return cudaGetLastError();
}
