// O and LSE of attention on Hopper (sm_90a): head_dim 128, bf16 in and out, fp32 accumulation.
//
//     S = Q K^T / sqrt(128)   P = exp(S - LSE)   O = P V   LSE = log(rowsum(exp(S)))
//
// A persistent, warp-specialised kernel. One CTA runs on each SM and walks over tiles of 128 queries, whose O stays
// in registers while the keys stream past in blocks of 128:
//
//   warpgroup 0      producer: one thread copies Q, and block after block of K and V, by TMA
//   warpgroups 1, 2  consumers: each owns 64 of the queries; both products run on wgmma
//
// The exponentials take half as long as the products, and have to hide behind them in two ways. Within a consumer,
// S of the next block is started before O is updated with this one, so that its exponentials overlap the update.
// And the consumers take turns to start their products: while one computes exponentials, the other multiplies.
//
// Not promised: other head dimensions, and sequence lengths other than multiples of 128. Both are refused.

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
constexpr int QUERIES = 128;  // per tile
constexpr int KEYS = 128;     // per block
constexpr int STAGES = 2;     // blocks of K, and of V, in shared memory
constexpr int Q_STAGES = 2;   // the next tile's queries come while this one is computed

constexpr int WARP = 32, WARPGROUP = 128;
constexpr int CONSUMERS = 2, CONSUMER_WARPS = CONSUMERS * 4;
constexpr int THREADS = WARPGROUP * (1 + CONSUMERS);
constexpr int WARP_ROWS = 16;  // of the 64 rows of a wgmma result

// Each of the 384 threads starts with 168 registers. The producer returns what it does not need and the
// consumers take it; they would wait for ever if 128 * 24 + 256 * 240 were more than 384 * 168.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;

constexpr int SLAB = 64;  // columns of a tile that lie together: 64 bf16 are 128 bytes, a row of the swizzle pattern
constexpr int SLABS = HEAD_DIM / SLAB;

// With the mask, later queries take longer. Tiles are then taken longest first, through as many heads at once as
// have their K and V in L2 together; without it, head by head.
constexpr int HEAD_GROUP = CAUSAL ? 16 : 1;

constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

// ----------------------------------------------------------------------------- shared-memory map

// A tile of R rows and 128 columns is two slabs, [2][R][64]. In a slab, the eight 16-byte chunks of each
// 128-byte row are permuted: chunk c of row r lies at c ^ (r % 8), as TMA writes and wgmma reads it. The
// permutation is a function of the *address* and repeats every 1024 bytes, hence the alignment.
template <int ROWS>
struct alignas(1024) Tile {
    __nv_bfloat16 slab[SLABS][ROWS * SLAB];
};

struct SharedMemory {
    Tile<QUERIES> q[Q_STAGES];                     //  64 KB
    Tile<KEYS> k[STAGES], v[STAGES];               // 128 KB
    Tile<WARP_ROWS> o[CONSUMER_WARPS];             //  32 KB
    uint64_t q_full[Q_STAGES], q_empty[Q_STAGES];  // mbarriers
    uint64_t k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
};
static_assert(sizeof(SharedMemory) <= 232448, "more shared memory than a Hopper CTA can have");

// --------------------------------------------------------------------------------------- barriers

// *_full[s], "the tile has come": one arrival, by the producer, which also announces the bytes.
// *_empty[s], "the tile may be overwritten": one arrival per consumer warp.
constexpr int FULL_ARRIVALS = 1, EMPTY_ARRIVALS = CONSUMER_WARPS;

// Both sides pass through the stages in the same order. A barrier's phases are told apart by parity, so
// the bit changes once per round.
template <int DEPTH>
struct Ring {
    int stage = 0;
    uint32_t parity = 0;
    __device__ void advance() {
        if (++stage < DEPTH) return;
        stage = 0;
        parity ^= 1;
    }
};

// Named barrier 1 + c, "it is consumer c's turn": c waits at it, and the other arrives. (Barrier 0 is
// __syncthreads.)
__device__ void await_turn(int consumer) {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + consumer), "n"(CONSUMERS * WARPGROUP) : "memory");
}
__device__ void pass_turn(int consumer) {
    asm volatile("bar.arrive %0, %1;" ::"r"(1 + (1 - consumer)), "n"(CONSUMERS * WARPGROUP) : "memory");
}

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

__device__ void tma_store_slab(const CUtensorMap& map, const void* slab, int col, int row) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(&map), "r"(col), "r"(row), "r"(shared_address(slab)) : "memory");
}
__device__ void tma_store_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until all stores of this thread have *read* shared memory.
__device__ void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// What was written to shared memory before becomes visible to TMA and wgmma.
__device__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Four 8x8 matrices of bf16; lane l brings the address of row l % 8 of matrix l / 8.
__device__ void stmatrix_x4(const void* row, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(shared_address(row)), "r"(m0), "r"(m1), "r"(m2), "r"(m3) : "memory");
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

// The accumulators are operands %0 to %63. Their lists are built from decimal digits: TEN(F, 3) is
// F(30) F(31) ... F(39). Each item brings the comma before it, so item 0 is written out.
#define TEN(F, t) F(t##0) F(t##1) F(t##2) F(t##3) F(t##4) F(t##5) F(t##6) F(t##7) F(t##8) F(t##9)
#define FROM_1_TO_63(F)                                                                            \
    F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) TEN(F, 1) TEN(F, 2) TEN(F, 3) TEN(F, 4) TEN(F, 5) \
    F(60) F(61) F(62) F(63)
#define OPERAND(i) ", %" #i
#define BINDING(i) , "+f"(d[i])

// d = A[64,16] * B[128,16]^T (+ d) by the whole warpgroup. It only starts here; see wgmma_wait_group.
__device__ void wgmma_m64n128k16(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
                 " {%0" FROM_1_TO_63(OPERAND) "}, %64, %65, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]) FROM_1_TO_63(BINDING) : "l"(a), "l"(b), "r"(int(accumulate)) : "memory");
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

struct Item {
    int queries;  // first row of the tile; rows are counted through all heads: row = head * seqlen + position
    int keys;     // first row of the head's keys
    int blocks;   // of keys that the tile sees
};

// Which tiles a CTA computes. Producer and consumers walk over the same list.
struct Work {
    int heads, seqlen, cta, ctas;

    __device__ int tiles() const { return heads * (seqlen / QUERIES); }

    // The CTA's tile in this round. Its place among the CTAs is turned round every second time: of a list that
    // goes from long to short, all then get the same.
    __device__ int index(int round) const { return round * ctas + (round % 2 ? ctas - 1 - cta : cta); }

    __device__ Item item(int index) const {
        const int tiles_per_head = seqlen / QUERIES;
        const int group = index / (HEAD_GROUP * tiles_per_head), within = index % (HEAD_GROUP * tiles_per_head);
        const int size = min(HEAD_GROUP, heads - group * HEAD_GROUP);  // the last group may be smaller
        const int head = group * HEAD_GROUP + within % size;
        const int tile = CAUSAL ? tiles_per_head - 1 - within / size : within / size;
        return {head * seqlen + tile * QUERIES, head * seqlen, CAUSAL ? tile + 1 : seqlen / KEYS};
    }
};
static_assert(QUERIES == KEYS, "the mask cuts only the block on the diagonal");

// --------------------------------------------------------------------------------------- producer

template <int ROWS>
__device__ void load_tile(Tile<ROWS>& tile, const CUtensorMap& map, uint64_t& full, uint64_t& empty, uint32_t parity,
                          int row) {
    mbarrier_wait(empty, parity ^ 1);  // passes in the first round
    mbarrier_arrive_expect_tx(full, sizeof(tile));
#pragma unroll
    for (int s = 0; s < SLABS; ++s) tma_load_slab(tile.slab[s], map, full, s * SLAB, row);
}

// One thread. It goes through the keys backwards, so that the block on the diagonal comes first, and brings them in
// the order of their use: a block of V after the next block of K.
__device__ void produce(SharedMemory& shared, const CUtensorMap& map_q, const CUtensorMap& map_k,
                        const CUtensorMap& map_v, const Work& work) {
    Ring<Q_STAGES> q;
    Ring<STAGES> k, v;
#pragma unroll 1
    for (int round = 0, t; (t = work.index(round)) < work.tiles(); ++round, q.advance()) {
        const Item item = work.item(t);
        load_tile(shared.q[q.stage], map_q, shared.q_full[q.stage], shared.q_empty[q.stage], q.parity, item.queries);
#pragma unroll 1
        for (int n = item.blocks; n >= 0; --n) {
            if (n > 0) {
                load_tile(shared.k[k.stage], map_k, shared.k_full[k.stage], shared.k_empty[k.stage], k.parity,
                          item.keys + (n - 1) * KEYS);
                k.advance();
            }
            if (n < item.blocks) {
                load_tile(shared.v[v.stage], map_v, shared.v_full[v.stage], shared.v_empty[v.stage], v.parity,
                          item.keys + n * KEYS);
                v.advance();
            }
        }
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

// What a thread knows of its two rows, r and r + 8: the greatest S so far, and its own share of the sum of
// exp(S - max).
struct Rows {
    float max[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
};

// Over the four threads that hold a row.
__device__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
__device__ float row_sum(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

// p = exp2(scale_log2 * (s - max)). A new maximum makes all earlier terms smaller, by the factors `shrink`.
__device__ void exponentiate(float (&p)[64], const float (&s)[64], Rows& rows, float (&shrink)[2], float scale_log2) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float max = rows.max[h];
#pragma unroll
        for (int j = 0; j < 16; ++j) max = fmaxf(max, fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
        max = row_max(max);
        shrink[h] = exp2_approximate((rows.max[h] - max) * scale_log2);
        rows.max[h] = max;
        rows.sum[h] *= shrink[h];
    }
    const float offset[2] = {rows.max[0] * scale_log2, rows.max[1] * scale_log2};
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        const int h = i / 2 % 2;
        p[i] = exp2_approximate(s[i] * scale_log2 - offset[h]);
        rows.sum[h] += p[i];
    }
}

// On the diagonal: keys after the query of row r or r + 8.
__device__ void mask(float (&s)[64], int first_row, int lane) {
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        const int row = first_row + fragment_row(lane) + i / 2 % 2 * 8;
        if (i / 4 * 8 + fragment_column(lane) + i % 2 > row) s[i] = -INFINITY;
    }
}

// S = Q K^T, over the columns of both.
__device__ void start_s(float (&s)[64], uint64_t q, uint64_t k) {
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 16; ++i)
        wgmma_m64n128k16(s, q + step_over_columns(i, QUERIES), k + step_over_columns(i, KEYS), i > 0);
    wgmma_commit_group();
}

// O = P V (+ O), over the rows of V.
__device__ void start_o(float (&o)[64], const uint32_t (&p)[KEYS / 16][4], uint64_t v, bool accumulate) {
#pragma unroll
    for (int i = 0; i < KEYS / 16; ++i) wgmma_m64n128k16(o, p[i], v + step_over_rows(i), accumulate || i > 0);
    wgmma_commit_group();
}

// One warp stores its 16 rows, through a buffer of its own. The store goes on while the next tile is computed.
__device__ void store_rows(const float (&o)[64], Tile<WARP_ROWS>& buffer, const CUtensorMap& map_o, int row, int lane) {
    uint32_t a[HEAD_DIM / 16][4];
    to_operand(a, o);
    if (elect_one()) tma_store_wait_read();  // the lane that started the last ones
    __syncwarp();
#pragma unroll
    for (int s = 0; s < SLABS; ++s) store_fragments(buffer.slab[s], a + s * (SLAB / 16), lane);
    fence_proxy_async();  // by every lane that has written, and only then
    __syncwarp();
    if (elect_one()) {
#pragma unroll
        for (int s = 0; s < SLABS; ++s) tma_store_slab(map_o, buffer.slab[s], s * SLAB, row);
        tma_store_commit_group();
    }
}

// Two warpgroups; `warp` counts their eight warps.
__device__ void consume(SharedMemory& shared, const CUtensorMap& map_o, float* LSE, const Work& work, int warp,
                        int lane) {
    const float scale_log2 = rsqrtf(HEAD_DIM) * LOG2_E;
    const int consumer = warp / 4;
    // Every warp speaks for itself. One arrival per warpgroup could end a phase that a slower warp has yet to see
    // ending.
    const auto release = [&](uint64_t& empty) {
        if (elect_one()) mbarrier_arrive(empty);
    };
    const auto k_tile = [&](int stage) { return matrix_descriptor(shared.k[stage].slab, 0); };
    const auto v_tile = [&](int stage) { return matrix_descriptor(shared.v[stage].slab, sizeof(shared.v[0].slab[0])); };

    Ring<Q_STAGES> ring_q;
    Ring<STAGES> ring_k, ring_v;
    if (consumer == 1) pass_turn(consumer);  // consumer 0 has the first
#pragma unroll 1
    for (int round = 0, t; (t = work.index(round)) < work.tiles(); ++round, ring_q.advance()) {
        const Item item = work.item(t);
        const uint64_t q =
            matrix_descriptor(shared.q[ring_q.stage].slab[0] + consumer * (QUERIES / CONSUMERS) * SLAB, 0);
        Rows rows;
        float s[64], o[64], p[64], shrink[2];
        uint32_t p_operand[KEYS / 16][4];

        mbarrier_wait(shared.q_full[ring_q.stage], ring_q.parity);
        mbarrier_wait(shared.k_full[ring_k.stage], ring_k.parity);
        wgmma_fence();
        start_s(s, q, k_tile(ring_k.stage));
        wgmma_wait_group<0>();
        release(shared.k_empty[ring_k.stage]);
        ring_k.advance();
        if (CAUSAL) mask(s, warp * WARP_ROWS, lane);
        exponentiate(p, s, rows, shrink, scale_log2);
        to_operand(p_operand, p);

        // Here and at the end of each step: P of the last block is ready, and O lacks it.
#pragma unroll 1
        for (int n = 1; n < item.blocks; ++n) {
            mbarrier_wait(shared.k_full[ring_k.stage], ring_k.parity);
            mbarrier_wait(shared.v_full[ring_v.stage], ring_v.parity);
            await_turn(consumer);
            wgmma_fence();
            start_s(s, q, k_tile(ring_k.stage));
            start_o(o, p_operand, v_tile(ring_v.stage), n > 1);
            pass_turn(consumer);
            wgmma_wait_group<1>();  // s; o is still running
            release(shared.k_empty[ring_k.stage]);
            ring_k.advance();
            exponentiate(p, s, rows, shrink, scale_log2);
            // The next block of K is not needed before the next step. But ptxas does not move instructions over this
            // loop, and would otherwise leave most of the exponentials until o is done.
            if (n + 1 < item.blocks) mbarrier_wait(shared.k_full[ring_k.stage], ring_k.parity);
            wgmma_wait_group<0>();  // o
            release(shared.v_empty[ring_v.stage]);
            ring_v.advance();
#pragma unroll
            for (int i = 0; i < 64; ++i) o[i] *= shrink[i / 2 % 2];
            to_operand(p_operand, p);
        }
        release(shared.q_empty[ring_q.stage]);

        mbarrier_wait(shared.v_full[ring_v.stage], ring_v.parity);
        wgmma_fence();
        start_o(o, p_operand, v_tile(ring_v.stage), item.blocks > 1);
        wgmma_wait_group<0>();
        release(shared.v_empty[ring_v.stage]);
        ring_v.advance();

        const int row = item.queries + warp * WARP_ROWS;
        float inverse[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float sum = row_sum(rows.sum[h]);
            inverse[h] = 1 / sum;
            if (lane % 4 == 0)
                LSE[row + fragment_row(lane) + h * 8] = (rows.max[h] * scale_log2 + log2f(sum)) * LN_2;
        }
#pragma unroll
        for (int i = 0; i < 64; ++i) o[i] *= inverse[i / 2 % 2];
        store_rows(o, shared.o[warp], map_o, row, lane);
    }
    if (consumer == 0) await_turn(consumer);  // takes the turn that is left over
    if (elect_one()) tma_store_wait_read();   // shared memory ends with the CTA
}

// ----------------------------------------------------------------------------------------- kernel

// Without the 1 (CTAs per SM) ptxas does not know the register count at launch and ignores setmaxnreg.
__global__ void __launch_bounds__(THREADS, 1)
forward(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
        const __grid_constant__ CUtensorMap map_v, const __grid_constant__ CUtensorMap map_o, float* LSE, int heads,
        int seqlen) {
    extern __shared__ __align__(1024) uint8_t shared_bytes[];
    SharedMemory& shared = *reinterpret_cast<SharedMemory*>(shared_bytes);

    // The shuffle tells ptxas that the number is the same in the whole warp.
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    const Work work = {heads, seqlen, int(blockIdx.x), int(gridDim.x)};

    if (warp == 0 && elect_one()) {
        for (int s = 0; s < Q_STAGES; ++s) {
            mbarrier_init(shared.q_full[s], FULL_ARRIVALS);
            mbarrier_init(shared.q_empty[s], EMPTY_ARRIVALS);
        }
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(shared.k_full[s], FULL_ARRIVALS);
            mbarrier_init(shared.k_empty[s], EMPTY_ARRIVALS);
            mbarrier_init(shared.v_full[s], FULL_ARRIVALS);
            mbarrier_init(shared.v_empty[s], EMPTY_ARRIVALS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        fence_proxy_async();
    }
    __syncthreads();

    if (warp < 4) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        if (warp == 0 && elect_one()) produce(shared, map_q, map_k, map_v, work);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
        consume(shared, map_o, LSE, work, warp - 4, lane);
    }
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

}  // namespace

extern "C" cudaError_t run(const __nv_bfloat16* Q, const __nv_bfloat16* K, const __nv_bfloat16* V, __nv_bfloat16* O,
                           float* LSE, int batch, int heads, int seqlen, cudaStream_t stream) {
    if (batch <= 0 || heads <= 0 || seqlen <= 0 || seqlen % QUERIES) return cudaErrorInvalidValue;
    const int64_t rows = int64_t(batch) * heads * seqlen;
    if (rows > INT_MAX) return cudaErrorInvalidValue;  // TMA counts rows in 32 bits

    int device, sms;
    RETURN_IF_ERROR(cudaGetDevice(&device));
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    RETURN_IF_ERROR(cudaFuncSetAttribute(forward, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SharedMemory)));

    // The encoder lives in the driver's library; asking the runtime for it saves linking with -lcuda.
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    RETURN_IF_ERROR(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
    const auto encode = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);

    CUtensorMap map_q, map_k, map_v, map_o;
    RETURN_IF_ERROR(make_map(encode, &map_q, Q, rows, QUERIES));
    RETURN_IF_ERROR(make_map(encode, &map_k, K, rows, KEYS));
    RETURN_IF_ERROR(make_map(encode, &map_v, V, rows, KEYS));
    RETURN_IF_ERROR(make_map(encode, &map_o, O, rows, WARP_ROWS));

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(min(int64_t(sms), rows / QUERIES));
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = sizeof(SharedMemory);
    config.stream = stream;
    return cudaLaunchKernelEx(&config, forward, map_q, map_k, map_v, map_o, LSE, batch * heads, seqlen);
}
