// dQ, dK and dV of attention on Hopper (sm_90a): head_dim 128, bf16 in and out, fp32 accumulation.
//
//     S = Q K^T / sqrt(128)   P = exp(S - LSE)   dP = dO V^T   D = rowsum(O * dO)   dS = P * (dP - D)
//     dV = P^T dO             dK = dS^T Q / sqrt(128)          dQ = dS K / sqrt(128)
//
// Three kernels. `prepare` computes D and clears the sums of dQ. `backward` gives each CTA 128 keys, whose dK
// and dV stay in registers while the queries stream past in blocks of 64:
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
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cudaTypedefs.h>

namespace {

// ------------------------------------------------------------------------------------- constants

constexpr bool CAUSAL = false;  // query i sees the keys 0 to i

constexpr int HEAD_DIM = 128;
constexpr int KEYS = 128;    // per CTA
constexpr int QUERIES = 64;  // per block
constexpr int STAGES = 3;    // blocks in shared memory; one is held until the next is under way
constexpr int DS_BUFFERS = 2;

constexpr int WARP = 32, WARPGROUP = 128;
constexpr int CONSUMERS = 2, CONSUMER_WARPS = CONSUMERS * 4;
constexpr int THREADS = WARPGROUP * (1 + CONSUMERS);
constexpr int WARP_ROWS = 16;  // of the 64 rows of a wgmma result

// Each of the 384 threads starts with 168 registers. The producer returns what it does not need and the
// consumers take it; they would wait for ever if 128 * 24 + 256 * 240 were more than 384 * 168.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;

constexpr int SLAB = 64;  // columns of a tile that lie together: 64 bf16 are 128 bytes, a row of the swizzle pattern
constexpr int SLABS = HEAD_DIM / SLAB;

constexpr float LOG2_E = 1.4426950408889634f;

// ----------------------------------------------------------------------------- shared-memory map

// A tile of R rows and 128 columns is two slabs, [2][R][64]. In a slab, the eight 16-byte chunks of each
// 128-byte row are permuted: chunk c of row r lies at c ^ (r % 8), as TMA writes and wgmma reads it. The
// permutation is a function of the *address* and repeats every 1024 bytes, hence the alignment.
template <int ROWS>
struct alignas(1024) Tile {
    __nv_bfloat16 slab[SLABS][ROWS * SLAB];
};

struct Stage {
    Tile<QUERIES> q, d_o;  // 32 KB
    float lse2[QUERIES];   // LSE * log2(e): the exponentials are powers of two
    float delta[QUERIES];  // D
};

struct SharedMemory {
    Tile<KEYS> k, v;                                             // 64 KB; in the end dK and dV
    alignas(1024) __nv_bfloat16 ds[DS_BUFFERS][KEYS * QUERIES];  // 32 KB: dS^T, a row per key
    Stage stage[STAGES];                                         // 99 KB
    uint64_t kv_full, full[STAGES], empty[STAGES];               // mbarriers
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
__device__ void consumers_sync() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS * WARPGROUP) : "memory"); }

// Both sides pass through the stages in the same order. A barrier's phases are told apart by parity, so
// the bit changes once per round.
struct Ring {
    int stage = 0;
    uint32_t parity = 0;
    __device__ void advance() {
        if (++stage < STAGES) return;
        stage = 0;
        parity ^= 1;
    }
};

// ----------------------------------------------------------------------------------- instructions
// One function per PTX instruction. They clobber memory because their order is the algorithm.

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// True in one lane of the warp, always the same. Unlike `lane == 0` it tells ptxas that one lane goes on;
// otherwise each TMA instruction would become a loop over the lanes.
__device__ bool elect_one() {
    uint32_t elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    return elected != 0;
}

__device__ void mbarrier_init(uint64_t& barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
__device__ void mbarrier_arrive(uint64_t& barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
__device__ void mbarrier_arrive_expect_tx(uint64_t& barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(&barrier)), "r"(bytes) : "memory");
}

// Until the phase of this parity has ended. On a fresh barrier parity 1 counts as ended.
__device__ void mbarrier_wait(uint64_t& barrier, uint32_t parity) {
    asm volatile("{ .reg .pred done;\n"
                 "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra WAIT; }"
                 ::"r"(shared_address(&barrier)), "r"(parity) : "memory");
}

// One slab, from column `col` and row `row` of the matrix.
__device__ void tma_load_slab(void* slab, const CUtensorMap& map, uint64_t& full, int col, int row) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared_address(slab)), "l"(&map), "r"(col), "r"(row), "r"(shared_address(&full)) : "memory");
}

// Consecutive bytes: a multiple of 16, at addresses that are multiples of 16.
__device__ void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t& full) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(&full)) : "memory");
}

__device__ void tma_store_slab(const CUtensorMap& map, const void* slab, int col, int row) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(&map), "r"(col), "r"(row), "r"(shared_address(slab)) : "memory");
}

// Until the stores of this thread have *read* shared memory.
__device__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// What was written to shared memory before becomes visible to TMA and wgmma.
__device__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Four 8x8 matrices of bf16; lane l brings the address of row l % 8 of matrix l / 8.
__device__ void stmatrix_x4(const void* row, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(shared_address(row)), "r"(m0), "r"(m1), "r"(m2), "r"(m3) : "memory");
}

// Adds four floats to global memory without reading them back.
__device__ void reduce_add_x4(float* sum, float a, float b, float c, float d) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 ::"l"(__cvta_generic_to_global(sum)), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

__device__ float exp2_approximate(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ uint32_t pack_bf16(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
}

// How wgmma finds a tile: its address, the distance of groups of eight rows (1024 bytes) and that of slabs, in
// units of 16 bytes, and the swizzle (1 in the top bits: 128 bytes). Only a product over rows that needs more
// than 64 columns of the tile at once uses the distance of slabs.
__device__ uint64_t matrix_descriptor(const void* tile, int slab_bytes) {
    return uint64_t(1) << 62 | uint64_t(1024 / 16) << 32 | uint64_t(slab_bytes / 16) << 16 |
           (shared_address(tile) & 0x3ffff) / 16;
}

// One wgmma sums over 16 columns, or over 16 rows, of a tile. What leads from the first of them to step i is added
// to the descriptor:
__device__ constexpr uint64_t step_over_columns(int i, int rows) {
    constexpr int PER_SLAB = SLAB / 16;
    return i / PER_SLAB * (rows * SLAB * 2 / 16) + i % PER_SLAB * (16 * 2 / 16);
}
__device__ constexpr uint64_t step_over_rows(int i) { return i * (16 * SLAB * 2 / 16); }

__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// The accumulators are operands %0 to %31 or %63. Their lists are built from decimal digits: TEN(F, 3) is
// F(30) F(31) ... F(39). Each item brings the comma before it, so item 0 is written out.
#define TEN(F, t) F(t##0) F(t##1) F(t##2) F(t##3) F(t##4) F(t##5) F(t##6) F(t##7) F(t##8) F(t##9)
#define FROM_1_TO_31(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) TEN(F, 1) TEN(F, 2) F(30) F(31)
#define FROM_1_TO_63(F)                                                                            \
    F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) TEN(F, 1) TEN(F, 2) TEN(F, 3) TEN(F, 4) TEN(F, 5) \
    F(60) F(61) F(62) F(63)
#define OPERAND(i) ", %" #i
#define BINDING(i) , "+f"(d[i])

// d = A[64,16] * B[64,16]^T (+ d) by the whole warpgroup. It only starts here; see wgmma_wait_group.
// OVER_ROWS: the tiles hold A^T and B^T instead, and the product sums over their rows.
template <bool OVER_ROWS>
__device__ void wgmma_m64n64k16(float (&d)[32], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
                 " {%0" FROM_1_TO_31(OPERAND) "}, %32, %33, p, 1, 1, %35, %35; }"
                 : "+f"(d[0]) FROM_1_TO_31(BINDING)
                 : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(OVER_ROWS)) : "memory");
}

// d = A[64,16] * B[16,128] (+ d), A in registers. They must keep their values until the product is done.
__device__ void wgmma_m64n128k16(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
                 " {%0" FROM_1_TO_63(OPERAND) "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1; }"
                 : "+f"(d[0]) FROM_1_TO_63(BINDING)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)) : "memory");
}

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
    for (int s = 0; s < SLABS; ++s) tma_load_slab(tile.slab[s], map, full, s * SLAB, row);
}

// One thread.
__device__ void produce(SharedMemory& shared, const CUtensorMap& map_q, const CUtensorMap& map_k,
                        const CUtensorMap& map_v, const CUtensorMap& map_do, const float* lse2, const float* delta,
                        const Work& work) {
    mbarrier_arrive_expect_tx(shared.kv_full, KV_BYTES);
    load_tile(shared.k, map_k, shared.kv_full, work.keys);
    load_tile(shared.v, map_v, shared.kv_full, work.keys);
    Ring ring;
#pragma unroll 1
    for (int i = 0; i < work.count; ++i, ring.advance()) {
        Stage& stage = shared.stage[ring.stage];
        uint64_t& full = shared.full[ring.stage];
        const int row = work.query_row(i);
        mbarrier_wait(shared.empty[ring.stage], ring.parity ^ 1);  // passes in the first round
        mbarrier_arrive_expect_tx(full, STAGE_BYTES);
        load_tile(stage.q, map_q, full, row);
        bulk_load(stage.lse2, lse2 + row, sizeof(stage.lse2), full);
        load_tile(stage.d_o, map_do, full, row);
        bulk_load(stage.delta, delta + row, sizeof(stage.delta), full);
    }
}

// --------------------------------------------------------------------------------------- consumer

// Where a wgmma result lies: of every eight columns 8j to 8j + 7, a thread holds d[4j] to d[4j + 3], which are
// columns 8j + c and 8j + c + 1 of row r, then the same columns of row r + 8. Sixteen columns of it, in pairs of
// bf16, are the left operand of one wgmma, and also what stmatrix needs for 16 rows and two chunks.
__device__ int fragment_row(int lane) { return lane / 4; }
__device__ int fragment_column(int lane) { return lane % 4 * 2; }

template <int N>
__device__ void to_operand(uint32_t (&a)[N / 8][4], const float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) a[i / 4][i % 4] = pack_bf16(d[2 * i], d[2 * i + 1]);
}

// 16 rows and 64 columns into a slab.
__device__ void store_fragments(__nv_bfloat16* rows, const uint32_t (*a)[4], int lane) {
    const int r = lane % WARP_ROWS;
#pragma unroll
    for (int i = 0; i < SLAB / 16; ++i) {
        const int chunk = (2 * i + lane / 16) ^ (r % 8);
        stmatrix_x4(rows + r * SLAB + chunk * 8, a[i][0], a[i][1], a[i][2], a[i][3]);
    }
}

// P^T = exp2(S^T * scale * log2(e) - LSE * log2(e)). `hidden` columns at the left of row 0 do not see its key, one
// more in each row below.
__device__ void exponentiate(float (&p)[32], const float (&s)[32], const float* lse2, float scale_log2, bool masked,
                             int hidden, int lane) {
    const int c = fragment_column(lane);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        const float2 lse = *reinterpret_cast<const float2*>(lse2 + 8 * j + c);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            p[4 * j + i] = exp2_approximate(s[4 * j + i] * scale_log2 - (i % 2 ? lse.y : lse.x));
    }
    if (CAUSAL && masked) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const int row = fragment_row(lane) + i % 4 / 2 * 8, col = i / 4 * 8 + c + i % 2;
            if (col < hidden + row) p[i] = 0;
        }
    }
}

// dS^T = P^T * (dP^T - D).
__device__ void differentiate(float (&ds)[32], const float (&p)[32], const float (&dp)[32], const float* delta,
                              int lane) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        const float2 d = *reinterpret_cast<const float2*>(delta + 8 * j + fragment_column(lane));
#pragma unroll
        for (int i = 0; i < 4; ++i) ds[4 * j + i] = p[4 * j + i] * (dp[4 * j + i] - (i % 2 ? d.y : d.x));
    }
}

// A tile of 64 queries has 64 * 128 sums of dQ, kept in the order in which the threads hold them:
// [consumer][group of eight columns][thread][4]. A warp then adds 512 consecutive bytes per instruction.
constexpr int DQ_TILE = QUERIES * HEAD_DIM, DQ_GROUP = WARPGROUP * 4, DQ_GROUPS = HEAD_DIM / 8;

__device__ void add_to_dq(float* tile, const float (&dq)[32], int consumer, int thread) {
#pragma unroll
    for (int j = 0; j < DQ_GROUPS / CONSUMERS; ++j)
        reduce_add_x4(tile + (consumer * (DQ_GROUPS / CONSUMERS) + j) * DQ_GROUP + thread * 4, dq[4 * j],
                      dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
}

// One warp stores its 16 rows of a result, by way of the same rows of `tile`.
__device__ void store_rows(const float (&d)[64], Tile<KEYS>& tile, const CUtensorMap& map, int row, int warp,
                           int lane) {
    uint32_t a[HEAD_DIM / 16][4];
    to_operand(a, d);
#pragma unroll
    for (int s = 0; s < SLABS; ++s)
        store_fragments(tile.slab[s] + warp * WARP_ROWS * SLAB, a + s * (SLAB / 16), lane);
    fence_proxy_async();  // by every lane that has written, and only then
    __syncwarp();
    if (elect_one()) {
#pragma unroll
        for (int s = 0; s < SLABS; ++s)
            tma_store_slab(map, tile.slab[s] + warp * WARP_ROWS * SLAB, s * SLAB, row + warp * WARP_ROWS);
    }
}

// The products of a block. Each is one group of wgmma.

// S^T = K Q^T or dP^T = V dO^T: 64 keys, 64 queries, over the columns of both tiles.
__device__ void start_transposed(float (&d)[32], uint64_t keys, uint64_t queries) {
#pragma unroll
    for (int k = 0; k < HEAD_DIM / 16; ++k)
        wgmma_m64n64k16<false>(d, keys + step_over_columns(k, KEYS), queries + step_over_columns(k, QUERIES), k > 0);
    wgmma_commit_group();
}

// dV += P^T dO or dK += dS^T Q: 64 keys, 128 columns, over the queries. The first block replaces what d held:
// if zeros were written to d, ptxas would run one wgmma at a time (C7515).
__device__ void start_gradient(float (&d)[64], const uint32_t (&a)[QUERIES / 16][4], uint64_t queries,
                               bool accumulate) {
#pragma unroll
    for (int k = 0; k < QUERIES / 16; ++k)
        wgmma_m64n128k16(d, a[k], queries + step_over_rows(k), accumulate || k > 0);
    wgmma_commit_group();
}

// dQ = dS K: 64 queries, 64 columns, over all keys.
__device__ void start_dq(float (&dq)[32], uint64_t ds, uint64_t keys) {
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k)
        wgmma_m64n64k16<true>(dq, ds + step_over_rows(k), keys + step_over_rows(k), k > 0);
    wgmma_commit_group();
}

// Two warpgroups; `warp` counts their eight warps.
__device__ void consume(SharedMemory& shared, const CUtensorMap& map_dk, const CUtensorMap& map_dv, float* dq_sums,
                        const Work& work, int warp, int lane) {
    constexpr int OWN = KEYS / CONSUMERS;  // keys of one consumer
    const float scale = rsqrtf(HEAD_DIM);
    const int consumer = warp / 4, thread = warp % 4 * WARP + lane;
    const uint64_t own_k = matrix_descriptor(shared.k.slab[0] + consumer * OWN * SLAB, 0);
    const uint64_t own_v = matrix_descriptor(shared.v.slab[0] + consumer * OWN * SLAB, 0);
    const uint64_t all_k = matrix_descriptor(shared.k.slab[consumer], 0);  // its 64 columns of dQ need all keys
    const auto release = [&](int stage) {
        __syncwarp();  // the other lanes have read lse2 and delta
        if (elect_one()) mbarrier_arrive(shared.empty[stage]);
    };

    float dk[64], dv[64];
    mbarrier_wait(shared.kv_full, 0);
    Ring ring;
    int previous = 0;
#pragma unroll 1
    for (int i = 0; i < work.count; ++i, ring.advance()) {
        Stage& stage = shared.stage[ring.stage];
        const uint64_t q = matrix_descriptor(stage.q.slab, sizeof(stage.q.slab[0]));
        const uint64_t d_o = matrix_descriptor(stage.d_o.slab, sizeof(stage.d_o.slab[0]));
        mbarrier_wait(shared.full[ring.stage], ring.parity);

        float s[32], dp[32];
        wgmma_fence();
        start_transposed(s, own_k, q);
        start_transposed(dp, own_v, d_o);
        wgmma_wait_group<2>();  // the last block's product for dK, which has run on until here
        if (i > 0) release(previous);
        previous = ring.stage;

        wgmma_wait_group<1>();  // s; dp is still running
        float p[32];
        const bool masked = i < KEYS / QUERIES;
        exponentiate(p, s, stage.lse2, scale * LOG2_E, masked, warp * WARP_ROWS - i * QUERIES, lane);
        uint32_t p_operand[QUERIES / 16][4];
        to_operand(p_operand, p);
        wgmma_fence();
        start_gradient(dv, p_operand, d_o, i > 0);

        wgmma_wait_group<1>();  // dp; the product for dV is still running
        float d_s[32];
        differentiate(d_s, p, dp, stage.delta, lane);
        uint32_t ds_operand[QUERIES / 16][4];
        to_operand(ds_operand, d_s);
        // The other consumer read this buffer two blocks ago, and was done before it came to the last barrier.
        __nv_bfloat16* const ds = shared.ds[i % DS_BUFFERS];
        store_fragments(ds + warp * WARP_ROWS * QUERIES, ds_operand, lane);
        fence_proxy_async();
        consumers_sync();

        float dq[32];
        wgmma_fence();
        start_dq(dq, matrix_descriptor(ds, 0), all_k);
        start_gradient(dk, ds_operand, q, i > 0);
        wgmma_wait_group<1>();  // dq, and before it dV
        add_to_dq(dq_sums + int64_t(work.query_row(i)) * HEAD_DIM, dq, consumer, thread);
    }
    wgmma_wait_group<0>();

#pragma unroll
    for (float& x : dk) x *= scale;
    consumers_sync();  // nobody reads K and V any more
    store_rows(dv, shared.v, map_dv, work.keys, warp, lane);
    store_rows(dk, shared.k, map_dk, work.keys, warp, lane);
    if (elect_one()) tma_store_wait_read();  // shared memory ends with the CTA
}

// ---------------------------------------------------------------------------------------- kernels

constexpr int SIDE_THREADS = 256;  // of a CTA of prepare and finish

// One warp per row, four columns per lane.
__global__ void __launch_bounds__(SIDE_THREADS)
prepare(const uint2* O, const uint2* dO, const float* LSE, float4* dq_sums, float* lse2, float* delta) {
    const int row = blockIdx.x * (SIDE_THREADS / WARP) + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int64_t at = int64_t(row) * (HEAD_DIM / 4) + lane;
    const uint2 o = O[at], d_o = dO[at];
    const auto dot = [](uint32_t a, uint32_t b) {
        const float2 x = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(a));
        const float2 y = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(b));
        return x.x * y.x + x.y * y.y;
    };
    float sum = dot(o.x, d_o.x) + dot(o.y, d_o.y);
#pragma unroll
    for (int distance = WARP / 2; distance; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
    dq_sums[at] = make_float4(0, 0, 0, 0);
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

    if (warp == 0 && elect_one()) {
        mbarrier_init(shared.kv_full, FULL_ARRIVALS);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(shared.full[s], FULL_ARRIVALS);
            mbarrier_init(shared.empty[s], EMPTY_ARRIVALS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        fence_proxy_async();
    }
    __syncthreads();

    if (warp < 4) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        if (warp == 0 && elect_one()) produce(shared, map_q, map_k, map_v, map_do, lse2, delta, work);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
        consume(shared, map_dk, map_dv, dq_sums, work, warp - 4, lane);
    }
}

// One thread per eight columns of rows r and r + 8: the sums of the four threads that hold those rows.
__global__ void __launch_bounds__(SIDE_THREADS) finish(const float4* dq_sums, uint4* dQ) {
    constexpr int TILE_THREADS = DQ_TILE / 16;
    const int64_t tile = int64_t(blockIdx.x) * (SIDE_THREADS / WARP * WARP) / TILE_THREADS;
    const int t = (blockIdx.x * SIDE_THREADS + threadIdx.x) % TILE_THREADS;
    const int group = t % DQ_GROUPS, r = t / DQ_GROUPS % 8, warp = t / DQ_GROUPS / 8;
    const float4* from = dq_sums + (tile * DQ_TILE + group * DQ_GROUP) / 4 + warp * WARP + r * 4;
    const float scale = rsqrtf(HEAD_DIM);
    uint32_t upper[4], lower[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float4 v = from[i];
        upper[i] = pack_bf16(v.x * scale, v.y * scale);
        lower[i] = pack_bf16(v.z * scale, v.w * scale);
    }
    uint4* to = dQ + (tile * QUERIES + warp * WARP_ROWS + r) * DQ_GROUPS + group;
    to[0] = make_uint4(upper[0], upper[1], upper[2], upper[3]);
    to[8 * DQ_GROUPS] = make_uint4(lower[0], lower[1], lower[2], lower[3]);
}

// ------------------------------------------------------------------------------------------- host

#define RETURN_IF_ERROR(call) \
    if (const cudaError_t error = (call); error != cudaSuccess) return error

// A row-major matrix of 128 columns that TMA moves in boxes of box_rows x 64, swizzled.
cudaError_t make_map(PFN_cuTensorMapEncodeTiled_v12000 encode, CUtensorMap* map, const __nv_bfloat16* matrix,
                     int64_t rows, int box_rows) {
    const cuuint64_t size[] = {HEAD_DIM, cuuint64_t(rows)}, row_bytes[] = {HEAD_DIM * sizeof(__nv_bfloat16)};
    const cuuint32_t box[] = {SLAB, cuuint32_t(box_rows)}, step[] = {1, 1};
    const CUresult result =
        encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<__nv_bfloat16*>(matrix), size, row_bytes, box, step,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

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

    // The encoder lives in the driver's library; asking the runtime for it saves linking with -lcuda.
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    RETURN_IF_ERROR(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
    const auto encode = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);

    CUtensorMap map_q, map_k, map_v, map_do, map_dk, map_dv;
    RETURN_IF_ERROR(make_map(encode, &map_q, Q, rows, QUERIES));
    RETURN_IF_ERROR(make_map(encode, &map_k, K, rows, KEYS));
    RETURN_IF_ERROR(make_map(encode, &map_v, V, rows, KEYS));
    RETURN_IF_ERROR(make_map(encode, &map_do, dO, rows, QUERIES));
    RETURN_IF_ERROR(make_map(encode, &map_dk, dK, rows, WARP_ROWS));
    RETURN_IF_ERROR(make_map(encode, &map_dv, dV, rows, WARP_ROWS));

    float* const dq_sums = workspace;
    float* const lse2 = workspace + rows * HEAD_DIM;
    float* const delta = lse2 + rows;

    const cudaLaunchConfig_t before = launch_config(dim3(rows / (SIDE_THREADS / WARP)), SIDE_THREADS, 0, stream);
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
