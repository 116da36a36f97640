// O = softmax(Q K^T / sqrt(128)) V and LSE: 64 queries per CTA, keys in blocks of 64; one warpgroup multiplies, one
// warp copies. [n] are the numbers of contracts.md. Simple, not fast: see the schedule for the overlaps.
#include <ptxgym/hopper.cuh>
using namespace ptxgym;

constexpr int D = 128, QUERIES = 64, KEYS = 64, STAGES = 2, SLABS = D / 64;

template <int ROWS>
struct alignas(1024) Tile {  // [2] 128 columns are two slabs of 64
    __nv_bfloat16 slab[SLABS][ROWS * 64];
};
struct Shared {
    Tile<QUERIES> q;  // O leaves through it
    Tile<KEYS> k[STAGES], v[STAGES];
    uint64_t q_full, full[STAGES], empty[STAGES];
};

template <int ROWS>
__device__ void load(Tile<ROWS>& tile, const CUtensorMap* map, uint64_t* full, int row) {
    for (int i = 0; i < SLABS; ++i) tma_load_2d(tile.slab[i], map, full, i * 64, row);
}

__global__ void __launch_bounds__(160, 1)
attention(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
          const __grid_constant__ CUtensorMap map_v, const __grid_constant__ CUtensorMap map_o, float* LSE,
          int seqlen) {
    extern __shared__ __align__(1024) uint8_t bytes[];
    Shared& s = *reinterpret_cast<Shared*>(bytes);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int head = blockIdx.y * seqlen, query = head + blockIdx.x * QUERIES, blocks = seqlen / KEYS;

    if (threadIdx.x == 0) {
        mbarrier_init(&s.q_full, 1);
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(&s.full[i], 1);   // [16]
            mbarrier_init(&s.empty[i], 4);  // [15]
        }
        fence_mbarrier_init();  // [11]
    }
    __syncthreads();

    Ring<STAGES> ring;  // [14]
    if (warp == 4) {
        if (elect_sync()) {
            mbarrier_arrive_expect_tx(&s.q_full, sizeof(s.q));
            load(s.q, &map_q, &s.q_full, query);
            for (int n = 0; n < blocks; ++n, ring.advance()) {
                mbarrier_wait_parity(&s.empty[ring.stage], ring.parity ^ 1);
                mbarrier_arrive_expect_tx(&s.full[ring.stage], sizeof(s.k[0]) + sizeof(s.v[0]));
                load(s.k[ring.stage], &map_k, &s.full[ring.stage], head + n * KEYS);
                load(s.v[ring.stage], &map_v, &s.full[ring.stage], head + n * KEYS);
            }
        }
        return;
    }

    const float scale_log2 = rsqrtf(D) * 1.4426950408889634f;  // exp(x / sqrt(d)) = exp2(x * scale_log2)
    float o[D / 2] = {}, max[2] = {-INFINITY, -INFINITY}, sum[2] = {};  // of rows r and r + 8; sum: this thread's share
    mbarrier_wait_parity(&s.q_full, 0);
    const uint64_t q = wgmma_descriptor_k_major<Swizzle::B128>(s.q.slab[0]);
    for (int n = 0; n < blocks; ++n, ring.advance()) {
        float p[KEYS / 2] = {};
        mbarrier_wait_parity(&s.full[ring.stage], ring.parity);
        const uint64_t k = wgmma_descriptor_k_major<Swizzle::B128>(s.k[ring.stage].slab[0]);
        const uint64_t v = wgmma_descriptor_mn_major<Swizzle::B128>(s.v[ring.stage].slab[0], KEYS * 128);  // [1]
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < D / 16; ++i)  // [3] the fifth step enters the second slab
            wgmma_mma_async(p, q + step_k_major<Swizzle::B128>(i, QUERIES * 128),
                            k + step_k_major<Swizzle::B128>(i, KEYS * 128), i > 0);
        wgmma_commit_group();
        wgmma_wait_group<0>();  // [5]
        float shrink[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float top = max[h];
            for (int i = 0; i < KEYS / 2; ++i)
                if (i / 2 % 2 == h) top = fmaxf(top, p[i]);
            top = quad_max(top);
            shrink[h] = ex2_approx((max[h] - top) * scale_log2);
            max[h] = top;
            sum[h] *= shrink[h];
        }
#pragma unroll
        for (int i = 0; i < KEYS / 2; ++i) {
            p[i] = ex2_approx((p[i] - max[i / 2 % 2]) * scale_log2);
            sum[i / 2 % 2] += p[i];
        }
#pragma unroll
        for (int i = 0; i < D / 2; ++i) o[i] *= shrink[i / 2 % 2];
        uint32_t a[KEYS / 16][4];
        for (int i = 0; i < KEYS / 16; ++i) wgmma_a_operand(a[i], p, i);
        wgmma_fence();  // [4] o and a were written
#pragma unroll
        for (int i = 0; i < KEYS / 16; ++i)
            wgmma_mma_async<Major::MN>(o, a[i], v + step_mn_major<Swizzle::B128>(i), true);
        wgmma_commit_group();
        wgmma_wait_group<0>();  // [6] before a is written again
        if (elect_sync()) mbarrier_arrive(&s.empty[ring.stage]);
    }

    for (int h = 0; h < 2; ++h) {
        sum[h] = quad_sum(sum[h]);
        if (lane % 4 == 0)  // natural logarithm: max * scale + ln(sum)
            LSE[query + wgmma_row(2 * h)] = (max[h] * scale_log2 + lg2_approx(sum[h])) * 0.6931471805599453f;
    }
    for (int i = 0; i < D / 2; ++i) o[i] /= sum[i / 2 % 2];
    barrier_sync<1, 128>();  // Q's last reader may be another warp
    for (int i = 0; i < D / 16; ++i) {  // over Q, whose products are done
        uint32_t r[4];
        wgmma_a_operand(r, o, i);
        const int place = swizzled_offset<Swizzle::B128>(warp * 16 + lane % 16, i % 4 * 32 + lane / 16 * 16);
        stmatrix_x4(s.q.slab[i / 4] + place / 2, r[0], r[1], r[2], r[3]);
    }
    fence_proxy_async();     // [12]
    barrier_sync<1, 128>();  // [12] [28]
    if (warp == 0 && elect_sync()) {
        for (int i = 0; i < SLABS; ++i) tma_store_2d(&map_o, s.q.slab[i], i * 64, query);
        bulk_commit_group();
        bulk_wait_group_read<0>();  // [25]
    }
}

extern "C" cudaError_t run(const __nv_bfloat16* Q, const __nv_bfloat16* K, const __nv_bfloat16* V, __nv_bfloat16* O,
                           float* LSE, int batch, int heads, int seqlen, cudaStream_t stream) {
    if (seqlen % KEYS) return cudaErrorInvalidValue;
    const int64_t rows = int64_t(batch) * heads * seqlen;
    CUtensorMap q, k, v, o;  // [22]
    cudaError_t error = make_tensor_map(&q, Q, {D, rows}, {64, QUERIES}, Swizzle::B128);
    if (!error) error = make_tensor_map(&k, K, {D, rows}, {64, KEYS}, Swizzle::B128);
    if (!error) error = make_tensor_map(&v, V, {D, rows}, {64, KEYS}, Swizzle::B128);
    if (!error) error = make_tensor_map(&o, O, {D, rows}, {64, QUERIES}, Swizzle::B128);
    if (!error)
        error = cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));  // [27]
    if (error) return error;
    attention<<<dim3(seqlen / QUERIES, batch * heads), 160, sizeof(Shared), stream>>>(q, k, v, o, LSE, seqlen);
    return cudaGetLastError();
}
