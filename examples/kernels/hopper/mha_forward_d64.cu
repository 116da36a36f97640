// O and LSE of attention on Hopper (sm_90a), bf16 in and out, fp32 accumulation: head_dim 64.
// Made from mha_forward.cu by generate.py: to change it, change that file and run the script.
//
//     S = Q K^T / sqrt(head_dim)   P = exp(S - LSE)   O = P V   LSE = log(rowsum(exp(S)))
//
// A persistent, warp-specialised kernel. One CTA runs on each SM and draws tiles of queries from a counter. The O of
// a tile stays in registers while the keys stream past in blocks:
//
//   warpgroup 0       producer: one thread draws tiles, works out where they lie, and copies Q, and block after block
//                     of K and V, by TMA
//   the others        consumers: each owns 64 of the queries; both products run on wgmma
//
// The exponentials take at least half as long as the products, and have to hide behind them. Within a consumer, S of
// the next block is started before O is updated with this one, so that its exponentials overlap the update. Between
// consumers nothing is arranged: to make them take turns at the tensor cores was measured, and is slower. Between two
// tiles a consumer has no product under way, so whatever can be done by the producer, or later, is not done there.
//
// Not promised: other head dimensions, sequence lengths other than multiples of 128 (both are refused), and two
// launches at the same time, which would draw from the same counter.

#include <climits>
#include <cmath>

#include <ptxgym/hopper.cuh>

namespace {

using namespace ptxgym;

// ------------------------------------------------------------------------------------- constants

constexpr bool CAUSAL = false;  // query i sees the keys 0 to i

constexpr int HEAD_DIM = 64;
constexpr int CONSUMERS = 3;
constexpr int KEYS = 128;    // per block
constexpr int STAGES = 3;    // blocks of K, and of V, in shared memory
constexpr int Q_STAGES = 2;  // the next tile's queries come while this one is computed
constexpr int O_SLABS = 1;   // of 64 columns, through which a warp stores its rows of O

// Tiles are drawn head by head, or through several heads at once: with the mask the longest first, so that no CTA
// starts a long one at the end. K and V of those heads have to stay in L2 together.
constexpr int HEAD_GROUP = CAUSAL ? 8 : 1;

constexpr int QUERIES = 64 * CONSUMERS;  // per tile
constexpr int WARP = 32, WARPGROUP = 128;
constexpr int CONSUMER_WARPS = CONSUMERS * 4;
constexpr int THREADS = WARPGROUP * (1 + CONSUMERS);
constexpr int WARP_ROWS = 16;  // of the 64 rows of a wgmma result

// The register file is shared out evenly at launch: 168 for each of 384 threads, 128 for each of 512. The producer
// returns what it does not need and the consumers take it; they would wait for ever for more than there is.
constexpr int PRODUCER_REGISTERS = CONSUMERS == 2 ? 24 : 32, CONSUMER_REGISTERS = CONSUMERS == 2 ? 240 : 160;

constexpr Swizzle SWIZZLE = Swizzle::B128;
constexpr int SLAB = 64;  // columns of a tile that lie together: 64 bf16 are 128 bytes, a row of the swizzle pattern
constexpr int SLABS = (HEAD_DIM + SLAB - 1) / SLAB;  // TMA fills columns past HEAD_DIM with zeros; nobody reads them

constexpr int K_STEPS = HEAD_DIM / 16;  // one wgmma sums over 16 columns of Q and K,
constexpr int P_STEPS = KEYS / 16;      // or 16 rows of V

// In the block of the last keys that a tile sees, some are masked; when blocks and tiles do not line up, in others too.
constexpr bool FIRST_MASKED = CAUSAL || 128 % KEYS, MORE_MASKED = CAUSAL && KEYS % QUERIES;

constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

// ------------------------------------------------------------------------------------------- work

// What there is to know of a tile. To work it out takes two divisions of integers, some 65 instructions of which each
// needs the one before, and a consumer has nothing for the tensor cores while it comes to a tile. So the producer does
// it, a tile ahead, and leaves the result beside the queries, where one load of 16 bytes brings it.
struct alignas(16) Item {
    int head, kv_head;
    int query;   // first of the tile
    int blocks;  // of keys that the tile sees; 0: there are no more tiles
};

__device__ unsigned drawn;  // tiles so far; 0 between launches

struct Work {
    int heads, queries_per_key;  // heads of Q, and how many of them share one head of K and V
    int seqlen, ctas;

    __device__ int tiles_per_head() const { return (seqlen + QUERIES - 1) / QUERIES; }
    __device__ int tiles() const { return heads * tiles_per_head(); }

    // The next tile. Each CTA also draws one that does not exist, and stops; the last of all these wraps the counter.
    __device__ int draw() const { return atomicInc(&drawn, tiles() + ctas - 1); }

    __device__ Item item(int index) const {
        const int group = index / (HEAD_GROUP * tiles_per_head()), within = index % (HEAD_GROUP * tiles_per_head());
        const int size = min(HEAD_GROUP, heads - group * HEAD_GROUP);  // the last group may be smaller
        const int head = group * HEAD_GROUP + within % size;
        const int tile = CAUSAL ? tiles_per_head() - 1 - within / size : within / size;
        const int keys = CAUSAL ? min((tile + 1) * QUERIES, seqlen) : seqlen;
        return {head, head / queries_per_key, tile * QUERIES, (keys + KEYS - 1) / KEYS};
    }
};

// ----------------------------------------------------------------------------- shared-memory map

// A tile of R rows is one or two slabs, [SLABS][R][64].
template <int ROWS>
using Slab = __nv_bfloat16[ROWS * SLAB];

template <int ROWS>
struct alignas(1024) Tile {
    Slab<ROWS> slab[SLABS];
};

struct SharedMemory {
    Tile<QUERIES> q[Q_STAGES];
    Tile<KEYS> k[STAGES], v[STAGES];
    alignas(1024) Slab<WARP_ROWS> o[CONSUMER_WARPS][O_SLABS];
    uint64_t q_full[Q_STAGES], q_empty[Q_STAGES];  // mbarriers
    uint64_t k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
    Item item[Q_STAGES];  // the tile whose queries these are
};
static_assert(sizeof(SharedMemory) <= 232448, "more shared memory than a Hopper CTA can have");

// --------------------------------------------------------------------------------------- barriers

// *_full[s], "the tile has come": one arrival, by the producer, which also announces the bytes.
// *_empty[s], "the tile may be overwritten": one arrival per consumer warp.
constexpr int FULL_ARRIVALS = 1, EMPTY_ARRIVALS = CONSUMER_WARPS;

// --------------------------------------------------------------------------------------- producer

template <int ROWS>
__device__ void load_tile(Tile<ROWS>& tile, const CUtensorMap& map, uint64_t& full, int row, int head) {
    mbarrier_arrive_expect_tx(&full, sizeof(tile));
#pragma unroll
    for (int s = 0; s < SLABS; ++s) tma_load_3d(tile.slab[s], &map, &full, s * SLAB, row, head);
}

// One thread. It goes through the keys backwards, so that the block on the diagonal comes first, and brings them in
// the order of their use: a block of V after the next block of K.
__device__ void produce(SharedMemory& shared, const CUtensorMap& map_q, const CUtensorMap& map_k,
                        const CUtensorMap& map_v, const Work& work) {
    Ring<Q_STAGES> q;
    Ring<STAGES> k, v;
    const auto load_k = [&](const Item& item, int n) {
        mbarrier_wait_parity(&shared.k_empty[k.stage], k.parity ^ 1);  // passes in the first round
        load_tile(shared.k[k.stage], map_k, shared.k_full[k.stage], n * KEYS, item.kv_head);
        k.advance();
    };
    const auto load_v = [&](const Item& item, int n) {
        mbarrier_wait_parity(&shared.v_empty[v.stage], v.parity ^ 1);
        load_tile(shared.v[v.stage], map_v, shared.v_full[v.stage], n * KEYS, item.kv_head);
        v.advance();
    };
    const auto await_q = [&](const Item& item) {
        mbarrier_wait_parity(&shared.q_empty[q.stage], q.parity ^ 1);
        shared.item[q.stage] = item;
    };
    const auto load_q = [&](const Item& item) {
        await_q(item);
        load_tile(shared.q[q.stage], map_q, shared.q_full[q.stage], item.query, item.head);
    };
    int tile = work.draw();
#pragma unroll 1
    for (; tile < work.tiles(); q.advance()) {
        const Item item = work.item(tile);
        // A second place for queries has long been empty. A single one is in use until the tile before ends, and the
        // wait for it is better spent with the first keys under way.
        if (Q_STAGES > 1) load_q(item);
        load_k(item, item.blocks - 1);
        if (Q_STAGES == 1) load_q(item);
        tile = work.draw();  // not needed before this tile's blocks are under way
#pragma unroll 1
        for (int n = item.blocks - 1; n >= 0; --n) {
            if (n > 0) load_k(item, n - 1);
            load_v(item, n);
        }
    }
    await_q({});  // no blocks, and no queries will come: the news that there are no more tiles
    mbarrier_arrive(&shared.q_full[q.stage]);
}

// --------------------------------------------------------------------------------------- consumer

using Scores = float[KEYS / 2];         // S, then P, of 64 queries: a thread's part
using Output = float[HEAD_DIM / 2];     // O
using Weights = uint32_t[P_STEPS][4];   // P as the left operand of the product with V

// What a thread knows of its two rows, r and r + 8: the greatest S so far, and its own share of the sum of
// exp(S - max).
struct Rows {
    float max[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
};

// p = exp2(scale_log2 * (s - max)). A new maximum makes all earlier terms smaller, by the factors `shrink`.
__device__ void exponentiate(Scores& p, const Scores& s, Rows& rows, float (&shrink)[2], float scale_log2) {
    float offset[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float max = rows.max[h];
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j) max = fmaxf(max, fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
        max = quad_max(max);
        const float finite = MORE_MASKED && max == -INFINITY ? 0 : max;  // a row that has seen no key yet
        shrink[h] = ex2_approx((rows.max[h] - finite) * scale_log2);
        rows.max[h] = max;
        rows.sum[h] *= shrink[h];
        offset[h] = finite * scale_log2;
    }
#pragma unroll
    for (int i = 0; i < KEYS / 2; ++i) {
        const int h = i / 2 % 2;
        p[i] = ex2_approx(s[i] * scale_log2 - offset[h]);
        rows.sum[h] += p[i];
    }
}

__device__ void to_weights(Weights& w, const Scores& p) {
#pragma unroll
    for (int i = 0; i < P_STEPS; ++i) wgmma_a_operand(w[i], p, i);
}

// Of the 64 queries from `query` and the keys from `key` on: keys after the query, and past the end.
__device__ void mask(Scores& s, int query, int key, int seqlen) {
    const int row = query + wgmma_row(0) - key, end = seqlen - key;
#pragma unroll
    for (int i = 0; i < KEYS / 2; ++i) {
        const int column = wgmma_column(i);
        if ((CAUSAL && column > row + i / 2 % 2 * 8) || (128 % KEYS && column >= end)) s[i] = -INFINITY;
    }
}

// S = Q K^T, over the columns of both.
__device__ void start_s(Scores& s, uint64_t q, uint64_t k) {
#pragma unroll
    for (int i = 0; i < K_STEPS; ++i)
        wgmma_mma_async(s, q + step_k_major<SWIZZLE>(i, QUERIES * SPAN<SWIZZLE>),
                        k + step_k_major<SWIZZLE>(i, KEYS * SPAN<SWIZZLE>), i > 0);
    wgmma_commit_group();
}

// O = P V (+ O), over the rows of V.
__device__ void start_o(Output& o, const Weights& p, uint64_t v, bool accumulate) {
#pragma unroll
    for (int i = 0; i < P_STEPS; ++i)
        wgmma_mma_async<Major::MN>(o, p[i], v + step_mn_major<SWIZZLE>(i), accumulate || i > 0);
    wgmma_commit_group();
}

__device__ void write_lse(float* LSE, const float (&max)[2], const float (&sum)[2], int row, int seqlen,
                          float scale_log2, int lane) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int r = row + lane / 4 + h * 8;
        if (lane % 4 == 0 && r < seqlen) LSE[r] = (max[h] * scale_log2 + lg2_approx(sum[h])) * LN_2;
    }
}

__device__ void divide(Output& o, const float (&sum)[2]) {
    const float inverse[2] = {__fdividef(1, sum[0]), __fdividef(1, sum[1])};
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; ++i) o[i] *= inverse[i / 2 % 2];
}

// One warp stores its 16 rows, through buffers of its own. The stores go on while the next tile is computed. As many
// slabs as there are buffers share one fence.
__device__ void store_rows(const Output& o, Slab<WARP_ROWS> (&buffers)[O_SLABS], const CUtensorMap& map_o, int row,
                           int head, int lane) {
#pragma unroll
    for (int first = 0; first < SLABS; first += O_SLABS) {
        const int end = min(first + O_SLABS, SLABS);
        if (elect_sync()) bulk_wait_group_read<0>();  // the lane that started the last ones
        __syncwarp();
#pragma unroll
        for (int i = first * SLAB / 16; i < min(end * SLAB, HEAD_DIM) / 16; ++i) {
            uint32_t a[4];
            wgmma_a_operand(a, o, i);
            char* const slab = reinterpret_cast<char*>(buffers[i / (SLAB / 16) - first]);
            const int byte = i % (SLAB / 16) * 32 + lane / 16 * 16;
            stmatrix_x4(slab + swizzled_offset<SWIZZLE>(lane % WARP_ROWS, byte), a[0], a[1], a[2], a[3]);
        }
        fence_proxy_async();  // by every lane that has written, and only then
        __syncwarp();
        if (elect_sync()) {
#pragma unroll
            for (int s = first; s < end; ++s) tma_store_3d(&map_o, buffers[s - first], s * SLAB, row, head);
            bulk_commit_group();
        }
    }
}

// Two or three warpgroups; `warp` counts their warps.
__device__ void consume(SharedMemory& shared, const CUtensorMap& map_o, float* LSE, const Work& work, int warp,
                        int lane) {
    const float scale_log2 = rsqrtf(HEAD_DIM) * LOG2_E;
    const int consumer = warp / 4;
    // Every warp speaks for itself. One arrival per warpgroup could end a phase that a slower warp has yet to see
    // ending.
    const auto release = [&](uint64_t& empty) {
        if (elect_sync()) mbarrier_arrive(&empty);
    };
    const auto k_tile = [&](int stage) { return wgmma_descriptor_k_major<SWIZZLE>(shared.k[stage].slab); };
    const auto v_tile = [&](int stage) {
        return wgmma_descriptor_mn_major<SWIZZLE>(shared.v[stage].slab, sizeof(shared.v[0].slab[0]));
    };

    Ring<Q_STAGES> ring_q;
    Ring<STAGES> ring_k, ring_v;
#pragma unroll 1
    for (;; ring_q.advance()) {
        mbarrier_wait_parity(&shared.q_full[ring_q.stage], ring_q.parity);
        const Item item = shared.item[ring_q.stage];
        const int blocks = __shfl_sync(0xffffffff, item.blocks, 0);  // the same in the whole warp, and ptxas knows it
        if (blocks == 0) break;
        const int query = item.query + consumer * 64;
        const uint64_t q = wgmma_descriptor_k_major<SWIZZLE>(shared.q[ring_q.stage].slab[0] + consumer * 64 * SLAB);
        Rows rows;
        float shrink[2];
        Scores s, p;
        Output o;
        Weights weights;

        mbarrier_wait_parity(&shared.k_full[ring_k.stage], ring_k.parity);
        wgmma_fence();
        start_s(s, q, k_tile(ring_k.stage));
        wgmma_wait_group<0>();
        release(shared.k_empty[ring_k.stage]);
        ring_k.advance();
        if (FIRST_MASKED) mask(s, query, (blocks - 1) * KEYS, work.seqlen);
        exponentiate(p, s, rows, shrink, scale_log2);
        to_weights(weights, p);

        // Here and at the end of each step: P of the last block is ready, and O lacks it.
#pragma unroll 1
        for (int n = blocks - 2; n >= 0; --n) {
            mbarrier_wait_parity(&shared.k_full[ring_k.stage], ring_k.parity);
            mbarrier_wait_parity(&shared.v_full[ring_v.stage], ring_v.parity);
            wgmma_fence();
            start_s(s, q, k_tile(ring_k.stage));
            start_o(o, weights, v_tile(ring_v.stage), n < blocks - 2);
            wgmma_wait_group<1>();  // s; o is still running
            release(shared.k_empty[ring_k.stage]);
            ring_k.advance();
            if (MORE_MASKED && (n + 1) * KEYS > query + 1) mask(s, query, n * KEYS, work.seqlen);
            exponentiate(p, s, rows, shrink, scale_log2);
            // The next block of K is not needed before the next step. But ptxas does not move instructions over this
            // loop, and would otherwise leave most of the exponentials until o is done.
            if (n > 0) mbarrier_wait_parity(&shared.k_full[ring_k.stage], ring_k.parity);
            wgmma_wait_group<0>();  // o
            release(shared.v_empty[ring_v.stage]);
            ring_v.advance();
#pragma unroll
            for (int i = 0; i < HEAD_DIM / 2; ++i) o[i] *= shrink[i / 2 % 2];
            to_weights(weights, p);
        }
        release(shared.q_empty[ring_q.stage]);

        mbarrier_wait_parity(&shared.v_full[ring_v.stage], ring_v.parity);
        wgmma_fence();
        start_o(o, weights, v_tile(ring_v.stage), blocks > 1);
        wgmma_wait_group<0>();
        release(shared.v_empty[ring_v.stage]);
        ring_v.advance();

        const int first = query + warp % 4 * WARP_ROWS;
        const float sum[2] = {quad_sum(rows.sum[0]), quad_sum(rows.sum[1])};
        divide(o, sum);
        store_rows(o, shared.o[warp], map_o, first, item.head, lane);
        // Last, so that the fence in store_rows has no stores to global memory to wait for.
        write_lse(LSE + int64_t(item.head) * work.seqlen, rows.max, sum, first, work.seqlen, scale_log2, lane);
    }
    if (elect_sync()) bulk_wait_group_read<0>();  // shared memory ends with the CTA
}

// ----------------------------------------------------------------------------------------- kernel

// Without the 1 (CTAs per SM) ptxas does not know the register count at launch and ignores setmaxnreg.
__global__ void __launch_bounds__(THREADS, 1)
forward(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
        const __grid_constant__ CUtensorMap map_v, const __grid_constant__ CUtensorMap map_o, float* LSE, int heads,
        int queries_per_key, int seqlen) {
    extern __shared__ __align__(1024) uint8_t shared_bytes[];
    SharedMemory& shared = *reinterpret_cast<SharedMemory*>(shared_bytes);

    // The shuffle tells ptxas that the number is the same in the whole warp.
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    const Work work = {heads, queries_per_key, seqlen, int(gridDim.x)};

    if (warp == 0 && elect_sync()) {
        for (int s = 0; s < Q_STAGES; ++s) {
            mbarrier_init(&shared.q_full[s], FULL_ARRIVALS);
            mbarrier_init(&shared.q_empty[s], EMPTY_ARRIVALS);
        }
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&shared.k_full[s], FULL_ARRIVALS);
            mbarrier_init(&shared.k_empty[s], EMPTY_ARRIVALS);
            mbarrier_init(&shared.v_full[s], FULL_ARRIVALS);
            mbarrier_init(&shared.v_empty[s], EMPTY_ARRIVALS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();

    if (warp < 4) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (warp == 0 && elect_sync()) produce(shared, map_q, map_k, map_v, work);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume(shared, map_o, LSE, work, warp - 4, lane);
    }
}

// ------------------------------------------------------------------------------------------- host

#define RETURN_IF_ERROR(call) \
    if (const cudaError_t error = (call); error != cudaSuccess) return error

}  // namespace

extern "C" cudaError_t run(const __nv_bfloat16* Q, const __nv_bfloat16* K, const __nv_bfloat16* V, __nv_bfloat16* O,
                           float* LSE, int batch, int heads, int seqlen, cudaStream_t stream) {
    const int kv_heads = heads;
    if (batch <= 0 || kv_heads <= 0 || heads <= 0 || heads % kv_heads) return cudaErrorInvalidValue;
    if (seqlen <= 0 || seqlen % 128) return cudaErrorInvalidValue;
    const int64_t all_heads = int64_t(batch) * heads, all_kv_heads = int64_t(batch) * kv_heads;
    const int64_t tiles = all_heads * ((seqlen + QUERIES - 1) / QUERIES);
    if (tiles > INT_MAX / 2) return cudaErrorInvalidValue;

    int device, sms;
    RETURN_IF_ERROR(cudaGetDevice(&device));
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    RETURN_IF_ERROR(cudaFuncSetAttribute(forward, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SharedMemory)));

    CUtensorMap map_q, map_k, map_v, map_o;
    RETURN_IF_ERROR(make_tensor_map(&map_q, Q, {HEAD_DIM, seqlen, all_heads}, {SLAB, QUERIES, 1}, SWIZZLE));
    RETURN_IF_ERROR(make_tensor_map(&map_k, K, {HEAD_DIM, seqlen, all_kv_heads}, {SLAB, KEYS, 1}, SWIZZLE));
    RETURN_IF_ERROR(make_tensor_map(&map_v, V, {HEAD_DIM, seqlen, all_kv_heads}, {SLAB, KEYS, 1}, SWIZZLE));
    RETURN_IF_ERROR(make_tensor_map(&map_o, O, {HEAD_DIM, seqlen, all_heads}, {SLAB, WARP_ROWS, 1}, SWIZZLE));

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(min(int64_t(sms), tiles));
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = sizeof(SharedMemory);
    config.stream = stream;
    return cudaLaunchKernelEx(&config, forward, map_q, map_k, map_v, map_o, LSE, int(all_heads), heads / kv_heads,
                              seqlen);
}
