// dQ, dK and dV of attention on Hopper (sm_90a), bf16 in and out, fp32 accumulation: head_dim 64.
// Made from mha_backward.cu by generate.py: to change it, change that file and run the script.
//
//     S = Q K^T / sqrt(head_dim)   P = exp(S - LSE)   dP = dO V^T   D = rowsum(O * dO)   dS = P * (dP - D)
//     dV = P^T dO                  dK = dS^T Q / sqrt(head_dim)     dQ = dS K / sqrt(head_dim)
//
// Three kernels. `prepare` computes D and clears the sums of dQ. `backward` gives each CTA 128 keys, whose dK
// and dV stay in registers while the queries stream past in blocks:
//
//   warpgroup 0      producer: one thread copies K and V once, then block after block of Q and dO, by TMA
//   warpgroups 1, 2  consumers: each owns 64 of the keys; all five products run on wgmma
//
// The consumers compute S and dP transposed, keys down and queries across: P^T and dS^T then leave the tensor
// cores in the registers in which the products for dV and dK want their left operand. dS alone goes through
// shared memory, because dQ sums over the keys of both consumers. Every CTA adds its part of dQ to fp32 sums in
// global memory, and `finish` rounds them to bf16.
//
// Not promised: other head dimensions, sequence lengths other than multiples of 128 (both are refused), and
// the same bits on every run, since the sums of dQ are formed in any order.

#include <climits>
#include <cmath>

#include <ptxgym/hopper.cuh>

namespace {

using namespace ptxgym;

// ------------------------------------------------------------------------------------- constants

constexpr bool CAUSAL = false;  // query i sees the keys 0 to i

constexpr int HEAD_DIM = 64;
constexpr int KEYS = 128;    // per CTA
constexpr int QUERIES = 128;  // per block
constexpr int STAGES = 3;    // blocks in shared memory
constexpr int DS_BUFFERS = 2;

// The product for dK may run on until the next block is under way. Its left operand then keeps registers that blocks
// of 128 queries do not have.
constexpr bool DEFER_DK = QUERIES == 64;

constexpr int WARP = 32, WARPGROUP = 128;
constexpr int CONSUMERS = 2, CONSUMER_WARPS = CONSUMERS * 4;
constexpr int THREADS = WARPGROUP * (1 + CONSUMERS);
constexpr int WARP_ROWS = 16;  // of the 64 rows of a wgmma result

// Each of the 384 threads starts with 168 registers. The producer returns what it does not need and the
// consumers take it; they would wait for ever if 128 * 24 + 256 * 240 were more than 384 * 168.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;

constexpr Swizzle SWIZZLE = Swizzle::B128;
constexpr int SLAB = 64;  // columns of a tile that lie together: 64 bf16 are 128 bytes, a row of the swizzle pattern
constexpr int SLABS = (HEAD_DIM + SLAB - 1) / SLAB;  // TMA fills columns past HEAD_DIM with zeros
constexpr int DS_SLABS = QUERIES / SLAB;

// The consumers share the work for dQ: each takes 64 of 128 queries, or one of two slabs of columns.
constexpr bool DQ_BY_ROWS = QUERIES == 128;
constexpr int DQ_COLUMNS = SLAB;
static_assert(DQ_BY_ROWS ? SLABS == 1 : SLABS == 2, "blocks of 128 queries for head_dim 64, of 64 for more");

constexpr float LOG2_E = 1.4426950408889634f;

// ----------------------------------------------------------------------------- shared-memory map

// A tile of R rows is one or two slabs, [SLABS][R][64].
template <int ROWS>
struct alignas(1024) Tile {
    __nv_bfloat16 slab[SLABS][ROWS * SLAB];
};

struct Stage {
    Tile<QUERIES> q, d_o;
    float lse2[QUERIES];   // LSE * log2(e): the exponentials are powers of two
    float delta[QUERIES];  // D
};

struct SharedMemory {
    Tile<KEYS> k, v;                                                    // in the end dK and dV
    alignas(1024) __nv_bfloat16 ds[DS_BUFFERS][DS_SLABS][KEYS * SLAB];  // dS^T, a row per key
    Stage stage[STAGES];
    uint64_t kv_full, full[STAGES], empty[STAGES];  // mbarriers
};
static_assert(sizeof(SharedMemory) <= 232448, "more shared memory than a Hopper CTA can have");

// --------------------------------------------------------------------------------------- barriers

// kv_full and full[s], "the tiles have come": one arrival, by the producer, which also announces the bytes.
constexpr int FULL_ARRIVALS = 1;
constexpr uint32_t KV_BYTES = 2 * sizeof(Tile<KEYS>);
constexpr uint32_t STAGE_BYTES = 2 * sizeof(Tile<QUERIES>) + 2 * QUERIES * sizeof(float);

// empty[s], "stage s may be overwritten": one arrival per consumer warp.
constexpr int EMPTY_ARRIVALS = CONSUMER_WARPS;

// Named barrier 1: both consumers. (Barrier 0 is __syncthreads.)
__device__ void consumers_sync() { barrier_sync<1, CONSUMERS * WARPGROUP>(); }

// ------------------------------------------------------------------------------------------- work

// What a CTA does. Rows are counted through all heads: row = head * seqlen + position.
struct Work {
    int keys;           // first row of its keys
    int queries;        // first row of the queries of its head
    int blocks, first;  // of the head's blocks of queries: how many there are, and where the CTA starts
    int count;          // how many it visits: without the mask all, with it those that see the keys

    __device__ Work(int key_block, int head, int seqlen) {
        queries = head * seqlen;
        keys = queries + key_block * KEYS;
        blocks = seqlen / QUERIES;
        first = key_block * (KEYS / QUERIES);
        count = CAUSAL ? blocks - first : blocks;
    }

    // Each CTA starts at its own keys, the diagonal, and goes round. The CTAs of a head run side by side and
    // would otherwise all add to the same part of dQ at the same time.
    __device__ int query_row(int i) const {
        const int block = first + i;
        return queries + (block < blocks ? block : block - blocks) * QUERIES;
    }
};

// --------------------------------------------------------------------------------------- producer

template <int ROWS>
__device__ void load_tile(Tile<ROWS>& tile, const CUtensorMap& map, uint64_t& full, int row) {
#pragma unroll
    for (int s = 0; s < SLABS; ++s) tma_load_2d(tile.slab[s], &map, &full, s * SLAB, row);
}

// One thread.
__device__ void produce(SharedMemory& shared, const CUtensorMap& map_q, const CUtensorMap& map_k,
                        const CUtensorMap& map_v, const CUtensorMap& map_do, const float* lse2, const float* delta,
                        const Work& work) {
    mbarrier_arrive_expect_tx(&shared.kv_full, KV_BYTES);
    load_tile(shared.k, map_k, shared.kv_full, work.keys);
    load_tile(shared.v, map_v, shared.kv_full, work.keys);
    Ring<STAGES> ring;
#pragma unroll 1
    for (int i = 0; i < work.count; ++i, ring.advance()) {
        Stage& stage = shared.stage[ring.stage];
        uint64_t& full = shared.full[ring.stage];
        const int row = work.query_row(i);
        mbarrier_wait_parity(&shared.empty[ring.stage], ring.parity ^ 1);  // passes in the first round
        mbarrier_arrive_expect_tx(&full, STAGE_BYTES);
        load_tile(stage.q, map_q, full, row);
        bulk_load(stage.lse2, lse2 + row, sizeof(stage.lse2), &full);
        load_tile(stage.d_o, map_do, full, row);
        bulk_load(stage.delta, delta + row, sizeof(stage.delta), &full);
    }
}

// --------------------------------------------------------------------------------------- consumer

using Scores = float[QUERIES / 2];            // S^T, P^T, dP^T or dS^T of 64 keys: a thread's part
using Weights = uint32_t[QUERIES / 16][4];    // P^T or dS^T as the left operand of a product
using Gradient = float[HEAD_DIM / 2];         // dK or dV of 64 keys
using QueryGradient = float[DQ_COLUMNS / 2];  // dQ of 64 queries

__device__ void to_weights(Weights& w, const Scores& s) {
#pragma unroll
    for (int i = 0; i < QUERIES / 16; ++i) wgmma_a_operand(w[i], s, i);
}

// Sixteen columns, from `column` of a slab's 64, into the warp's 16 rows.
__device__ void store_columns(__nv_bfloat16* rows, int column, const uint32_t (&a)[4], int lane) {
    const int offset = swizzled_offset<SWIZZLE>(lane % WARP_ROWS, column * 2 + lane / 16 * 16);
    stmatrix_x4(reinterpret_cast<char*>(rows) + offset, a[0], a[1], a[2], a[3]);
}

// P^T = exp2(S^T * scale * log2(e) - LSE * log2(e)). `hidden` columns at the left of row 0 do not see its
// key, one more in each row below.
__device__ void exponentiate(Scores& p, const Scores& s, const float* lse2, float scale_log2, bool masked, int hidden,
                             int lane) {
#pragma unroll
    for (int j = 0; j < QUERIES / 8; ++j) {
        const float2 lse = *reinterpret_cast<const float2*>(lse2 + wgmma_column(4 * j));
#pragma unroll
        for (int i = 0; i < 4; ++i) p[4 * j + i] = ex2_approx(s[4 * j + i] * scale_log2 - (i % 2 ? lse.y : lse.x));
    }
    if (CAUSAL && masked) {
#pragma unroll
        for (int i = 0; i < QUERIES / 2; ++i)
            if (wgmma_column(i) < hidden + lane / 4 + i / 2 % 2 * 8) p[i] = 0;
    }
}

// dS^T = P^T * (dP^T - D).
__device__ void differentiate(Scores& ds, const Scores& p, const Scores& dp, const float* delta) {
#pragma unroll
    for (int j = 0; j < QUERIES / 8; ++j) {
        const float2 d = *reinterpret_cast<const float2*>(delta + wgmma_column(4 * j));
#pragma unroll
        for (int i = 0; i < 4; ++i) ds[4 * j + i] = p[4 * j + i] * (dp[4 * j + i] - (i % 2 ? d.y : d.x));
    }
}

// A tile of 64 queries has 64 * HEAD_DIM sums of dQ, kept in the order in which the threads hold them:
// [group of eight columns][thread][4]. A warp then adds 512 consecutive bytes per instruction.
constexpr int DQ_ROWS = 64, DQ_TILE = DQ_ROWS * HEAD_DIM, DQ_GROUP = WARPGROUP * 4, DQ_GROUPS = HEAD_DIM / 8;

__device__ void add_to_dq(float* sums, const QueryGradient& dq, int query_row, int consumer, int thread) {
    const int row = query_row + (DQ_BY_ROWS ? consumer * DQ_ROWS : 0);
    const int first = DQ_BY_ROWS ? 0 : consumer * (DQ_COLUMNS / 8);
    float* const to = sums + int64_t(row) * HEAD_DIM + first * DQ_GROUP + thread * 4;
#pragma unroll
    for (int j = 0; j < DQ_COLUMNS / 8; ++j)
        if (first + j < DQ_GROUPS)
            red_add_v4_f32(to + j * DQ_GROUP, dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
}

// One warp stores its 16 rows of a result, by way of the same rows of `tile`.
__device__ void store_rows(const Gradient& d, Tile<KEYS>& tile, const CUtensorMap& map, int row, int warp, int lane) {
    const int first = warp * WARP_ROWS;
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 16; ++i) {
        uint32_t a[4];
        wgmma_a_operand(a, d, i);
        store_columns(tile.slab[i * 16 / SLAB] + first * SLAB, i * 16 % SLAB, a, lane);
    }
    fence_proxy_async();  // by every lane that has written, and only then
    __syncwarp();
    if (elect_sync()) {
#pragma unroll
        for (int s = 0; s < SLABS; ++s) tma_store_2d(&map, tile.slab[s] + first * SLAB, s * SLAB, row + first);
    }
}

// The products of a block. Each is one group of wgmma.

// S^T = K Q^T or dP^T = V dO^T: 64 keys, all queries, over the columns of both tiles.
__device__ void start_transposed(Scores& d, uint64_t keys, uint64_t queries) {
#pragma unroll
    for (int k = 0; k < HEAD_DIM / 16; ++k)
        wgmma_mma_async(d, keys + step_k_major<SWIZZLE>(k, KEYS * SPAN<SWIZZLE>),
                        queries + step_k_major<SWIZZLE>(k, QUERIES * SPAN<SWIZZLE>), k > 0);
    wgmma_commit_group();
}

// dV += P^T dO or dK += dS^T Q: 64 keys, all columns, over the queries. The first block replaces what d held:
// if zeros were written to d, ptxas would run one wgmma at a time (C7515).
__device__ void start_gradient(Gradient& d, const Weights& a, uint64_t queries, bool accumulate) {
#pragma unroll
    for (int k = 0; k < QUERIES / 16; ++k)
        wgmma_mma_async<Major::MN>(d, a[k], queries + step_mn_major<SWIZZLE>(k), accumulate || k > 0);
    wgmma_commit_group();
}

// dQ = dS K: 64 queries, this consumer's columns, over all keys.
__device__ void start_dq(QueryGradient& dq, uint64_t ds, uint64_t keys) {
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k)
        wgmma_mma_async<Major::MN, Major::MN>(dq, ds + step_mn_major<SWIZZLE>(k), keys + step_mn_major<SWIZZLE>(k),
                                              k > 0);
    wgmma_commit_group();
}

// Two warpgroups; `warp` counts their eight warps.
__device__ void consume(SharedMemory& shared, const CUtensorMap& map_dk, const CUtensorMap& map_dv, float* dq_sums,
                        const Work& work, int warp, int lane) {
    constexpr int OWN = KEYS / CONSUMERS;  // keys of one consumer
    const float scale = rsqrtf(HEAD_DIM);
    const int consumer = warp / 4, thread = warp % 4 * WARP + lane;
    const uint64_t own_k = wgmma_descriptor_k_major<SWIZZLE>(shared.k.slab[0] + consumer * OWN * SLAB);
    const uint64_t own_v = wgmma_descriptor_k_major<SWIZZLE>(shared.v.slab[0] + consumer * OWN * SLAB);
    // Its part of dQ needs all keys, and of two slabs its own.
    const uint64_t all_k = wgmma_descriptor_mn_major<SWIZZLE>(shared.k.slab[DQ_BY_ROWS ? 0 : consumer], 0);
    const auto release = [&](int stage) {
        __syncwarp();  // the other lanes have read lse2 and delta
        if (elect_sync()) mbarrier_arrive(&shared.empty[stage]);
    };

    Gradient dk, dv;
    mbarrier_wait_parity(&shared.kv_full, 0);
    Ring<STAGES> ring;
    int previous = 0;
#pragma unroll 1
    for (int i = 0; i < work.count; ++i, ring.advance()) {
        Stage& stage = shared.stage[ring.stage];
        // Products over columns do not look at the distance of slabs, so one descriptor serves both kinds.
        const uint64_t q = wgmma_descriptor_mn_major<SWIZZLE>(stage.q.slab, sizeof(stage.q.slab[0]));
        const uint64_t d_o = wgmma_descriptor_mn_major<SWIZZLE>(stage.d_o.slab, sizeof(stage.d_o.slab[0]));
        mbarrier_wait_parity(&shared.full[ring.stage], ring.parity);

        Scores s, dp;
        wgmma_fence();
        start_transposed(s, own_k, q);
        start_transposed(dp, own_v, d_o);
        if (DEFER_DK) {
            wgmma_wait_group<2>();  // the last block's product for dK, which has run on until here
            if (i > 0) release(previous);
            previous = ring.stage;
        }

        wgmma_wait_group<1>();  // s; dp is still running
        const bool masked = i < KEYS / QUERIES;
        Scores p;
        exponentiate(p, s, stage.lse2, scale * LOG2_E, masked, warp * WARP_ROWS - i * QUERIES, lane);
        Weights p_weights;
        to_weights(p_weights, p);
        wgmma_fence();
        start_gradient(dv, p_weights, d_o, i > 0);

        wgmma_wait_group<1>();  // dp; the product for dV is still running
        Scores d_s;
        differentiate(d_s, p, dp, stage.delta);
        Weights ds_weights;
        to_weights(ds_weights, d_s);
        // The other consumer read this buffer two blocks ago, and was done before it came to the last barrier.
        auto& ds = shared.ds[i % DS_BUFFERS];
#pragma unroll
        for (int k = 0; k < QUERIES / 16; ++k)
            store_columns(ds[k * 16 / SLAB] + warp * WARP_ROWS * SLAB, k * 16 % SLAB, ds_weights[k], lane);
        fence_proxy_async();
        consumers_sync();

        QueryGradient dq;
        wgmma_fence();
        start_dq(dq, wgmma_descriptor_mn_major<SWIZZLE>(ds[DQ_BY_ROWS ? consumer : 0], 0), all_k);
        start_gradient(dk, ds_weights, q, i > 0);
        wgmma_wait_group<1>();  // dq, and before it dV
        add_to_dq(dq_sums, dq, work.query_row(i), consumer, thread);
        if (!DEFER_DK) {
            wgmma_wait_group<0>();
            release(ring.stage);
        }
    }
    wgmma_wait_group<0>();

#pragma unroll
    for (float& x : dk) x *= scale;
    consumers_sync();  // nobody reads K and V any more
    store_rows(dv, shared.v, map_dv, work.keys, warp, lane);
    store_rows(dk, shared.k, map_dk, work.keys, warp, lane);
    if (elect_sync()) {  // shared memory ends with the CTA
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}

// ---------------------------------------------------------------------------------------- kernels

constexpr int SIDE_THREADS = 256;                     // of a CTA of prepare and finish
constexpr int ROW_LANES = HEAD_DIM <= 64 ? 16 : 32;  // that share a row in prepare, four columns each
constexpr int ROWS_PER_CTA = SIDE_THREADS / ROW_LANES;

__global__ void __launch_bounds__(SIDE_THREADS)
prepare(const uint2* O, const uint2* dO, const float* LSE, float4* dq_sums, float* lse2, float* delta) {
    const int row = blockIdx.x * ROWS_PER_CTA + threadIdx.x / ROW_LANES, lane = threadIdx.x % ROW_LANES;
    const int64_t at = int64_t(row) * (HEAD_DIM / 4) + lane;
    const auto dot = [](uint32_t a, uint32_t b) {
        const float2 x = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(a));
        const float2 y = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(b));
        return x.x * y.x + x.y * y.y;
    };
    float sum = 0;
    if (lane < HEAD_DIM / 4) {
        const uint2 o = O[at], d_o = dO[at];
        sum = dot(o.x, d_o.x) + dot(o.y, d_o.y);
        dq_sums[at] = make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int distance = ROW_LANES / 2; distance; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
    if (lane == 0) {
        delta[row] = sum;
        lse2[row] = LSE[row] * LOG2_E;
    }
}

// Without the 1 (CTAs per SM) ptxas does not know the register count at launch and ignores setmaxnreg.
__global__ void __launch_bounds__(THREADS, 1)
backward(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
         const __grid_constant__ CUtensorMap map_v, const __grid_constant__ CUtensorMap map_do,
         const __grid_constant__ CUtensorMap map_dk, const __grid_constant__ CUtensorMap map_dv, const float* lse2,
         const float* delta, float* dq_sums, int seqlen) {
    extern __shared__ __align__(1024) uint8_t shared_bytes[];
    SharedMemory& shared = *reinterpret_cast<SharedMemory*>(shared_bytes);

    // The shuffle tells ptxas that the number is the same in the whole warp.
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    const Work work(blockIdx.x, blockIdx.y, seqlen);

    if (warp == 0 && elect_sync()) {
        mbarrier_init(&shared.kv_full, FULL_ARRIVALS);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&shared.full[s], FULL_ARRIVALS);
            mbarrier_init(&shared.empty[s], EMPTY_ARRIVALS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();

    if (warp < 4) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (warp == 0 && elect_sync()) produce(shared, map_q, map_k, map_v, map_do, lse2, delta, work);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume(shared, map_dk, map_dv, dq_sums, work, warp - 4, lane);
    }
}

// One thread per eight columns of rows r and r + 8: the sums of the four threads that hold those rows.
__global__ void __launch_bounds__(SIDE_THREADS) finish(const float4* dq_sums, uint4* dQ) {
    constexpr int TILE_THREADS = DQ_TILE / 16;
    const int64_t at = int64_t(blockIdx.x) * SIDE_THREADS + threadIdx.x;
    const int64_t tile = at / TILE_THREADS;
    const int t = at % TILE_THREADS, group = t % DQ_GROUPS, r = t / DQ_GROUPS % 8, warp = t / DQ_GROUPS / 8;
    const float4* from = dq_sums + (tile * DQ_TILE + group * DQ_GROUP) / 4 + warp * WARP + r * 4;
    const float scale = rsqrtf(HEAD_DIM);
    uint32_t upper[4], lower[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float4 v = from[i];
        upper[i] = cvt_bf16x2(v.x * scale, v.y * scale);
        lower[i] = cvt_bf16x2(v.z * scale, v.w * scale);
    }
    uint4* to = dQ + (tile * DQ_ROWS + warp * WARP_ROWS + r) * DQ_GROUPS + group;
    to[0] = make_uint4(upper[0], upper[1], upper[2], upper[3]);
    to[8 * DQ_GROUPS] = make_uint4(lower[0], lower[1], lower[2], lower[3]);
}

// ------------------------------------------------------------------------------------------- host

#define RETURN_IF_ERROR(call) \
    if (const cudaError_t error = (call); error != cudaSuccess) return error

cudaLaunchConfig_t launch_config(dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    return config;
}

}  // namespace

extern "C" cudaError_t run(const __nv_bfloat16* Q, const __nv_bfloat16* K, const __nv_bfloat16* V,
                           const __nv_bfloat16* O, const __nv_bfloat16* dO, const float* LSE, __nv_bfloat16* dQ,
                           __nv_bfloat16* dK, __nv_bfloat16* dV, float* workspace, int batch, int heads, int seqlen,
                           cudaStream_t stream) {
    if (batch <= 0 || heads <= 0 || seqlen <= 0 || seqlen % KEYS) return cudaErrorInvalidValue;
    const int64_t rows = int64_t(batch) * heads * seqlen;
    if (rows > INT_MAX) return cudaErrorInvalidValue;  // TMA counts rows in 32 bits

    RETURN_IF_ERROR(cudaFuncSetAttribute(backward, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SharedMemory)));

    CUtensorMap map_q, map_k, map_v, map_do, map_dk, map_dv;
    RETURN_IF_ERROR(make_tensor_map(&map_q, Q, {HEAD_DIM, rows}, {SLAB, QUERIES}, SWIZZLE));
    RETURN_IF_ERROR(make_tensor_map(&map_k, K, {HEAD_DIM, rows}, {SLAB, KEYS}, SWIZZLE));
    RETURN_IF_ERROR(make_tensor_map(&map_v, V, {HEAD_DIM, rows}, {SLAB, KEYS}, SWIZZLE));
    RETURN_IF_ERROR(make_tensor_map(&map_do, dO, {HEAD_DIM, rows}, {SLAB, QUERIES}, SWIZZLE));
    RETURN_IF_ERROR(make_tensor_map(&map_dk, dK, {HEAD_DIM, rows}, {SLAB, WARP_ROWS}, SWIZZLE));
    RETURN_IF_ERROR(make_tensor_map(&map_dv, dV, {HEAD_DIM, rows}, {SLAB, WARP_ROWS}, SWIZZLE));

    float* const dq_sums = workspace;
    float* const lse2 = workspace + rows * HEAD_DIM;
    float* const delta = lse2 + rows;

    const cudaLaunchConfig_t before = launch_config(dim3(rows / ROWS_PER_CTA), SIDE_THREADS, 0, stream);
    RETURN_IF_ERROR(cudaLaunchKernelEx(&before, prepare, reinterpret_cast<const uint2*>(O),
                                       reinterpret_cast<const uint2*>(dO), LSE, reinterpret_cast<float4*>(dq_sums),
                                       lse2, delta));

    const cudaLaunchConfig_t main = launch_config(dim3(seqlen / KEYS, batch * heads), THREADS, sizeof(SharedMemory),
                                                  stream);
    RETURN_IF_ERROR(cudaLaunchKernelEx(&main, backward, map_q, map_k, map_v, map_do, map_dk, map_dv,
                                       static_cast<const float*>(lse2), static_cast<const float*>(delta), dq_sums,
                                       seqlen));

    const cudaLaunchConfig_t after = launch_config(dim3(rows * HEAD_DIM / 16 / SIDE_THREADS), SIDE_THREADS, 0, stream);
    return cudaLaunchKernelEx(&after, finish, reinterpret_cast<const float4*>(dq_sums), reinterpret_cast<uint4*>(dQ));
}
