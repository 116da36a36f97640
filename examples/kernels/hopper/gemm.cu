// C[M,N] = A[M,K] * B[N,K]^T on Hopper (sm_90a): bf16 in, fp32 accumulation, bf16 out.
//
// A persistent, warp-specialised kernel. One CTA runs on each SM and walks over 256x176 tiles of C:
//
//   warpgroup 0      producer: one thread works out where the tiles lie, and copies those of A and B by TMA
//   warpgroups 1, 2  consumers: each multiplies 128x176 of the tile by wgmma, then stores it by TMA
//
// The roles meet only at mbarriers, so the copies for later k-steps, and for the next tile, run while the tensor cores
// work. Two CTAs form a cluster: their tiles lie one above the other and need the same rows of B, so each fetches half
// of them, for both (multicast).
//
// A consumer's 128 rows are two wgmma results, an upper and a lower one. While its warps store one of them they start
// no products, so the tensor cores are given some of the other one first:
//
//   k-step          the last of a tile         the first of the next tile
//   tensor cores    upper      lower           upper          lower
//   warps                      store upper     store lower
//
// The tile is chosen to fill the last wave. 8192 x 7168 are 32 x 41 = 1312 tiles, 9.94 waves of 132 CTAs, and 98.7 % of
// what ten full waves compute is in C; 41 tiles are 48 columns wider than it. (128x256: 13.6 waves, 97.0 %, and per
// product 22 % more bytes to copy into shared memory.)
//
//   shared memory of a CTA   all 227 KB: A 3 x 32, B 3 x 22, buffers for C 64, barriers 1
//   registers of a thread    24 in the producer; 240 in a consumer, of which 176 are sums
//
// Not promised: N or K that are not multiples of 8 (TMA needs rows of whole 16 bytes). They are refused. Tiles may
// stick out of C: TMA loads zeros there and stores nothing.

#include <climits>

#include <ptxgym/hopper.cuh>

namespace {

using namespace ptxgym;

// ------------------------------------------------------------------------------------- constants

constexpr int CLUSTER = 2;  // CTAs that share their rows of B
constexpr int STAGES = 3;   // k-steps that the producer may be ahead
constexpr int SLABS = 4;    // store buffers per consumer warp

constexpr int BM = 256, BN = 176;  // tile of C per CTA
constexpr int BK = 64;             // one k-step: 64 bf16 are 128 bytes, a row of the swizzle pattern
constexpr int WGMMA_M = 64, WGMMA_K = 16;
constexpr int GROUP = 4;  // height of the raster's bands in cluster tiles, see Work::tile

constexpr int WARP = 32, WARPGROUP = 128;
constexpr int CONSUMERS = 2;
constexpr int CONSUMER_ROWS = BM / CONSUMERS;
constexpr int CONSUMER_WARPS = CONSUMERS * 4;
constexpr int THREADS = WARPGROUP * (1 + CONSUMERS);

// Each of the 384 threads starts with 168 registers. The producer returns what it does not need and the consumers
// take it; they would wait for ever if 128 * 24 + 256 * 240 were more than 384 * 168.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;

constexpr Swizzle SWIZZLE = Swizzle::B128;
constexpr int SLAB_ROWS = 16, SLAB_COLS = 64;  // a warp's rows of a wgmma result; 128 bytes of columns
constexpr int RESULT_SLABS = (BN + SLAB_COLS - 1) / SLAB_COLS;

static_assert(CONSUMER_ROWS == 2 * WGMMA_M, "a consumer has an upper and a lower result");
static_assert(BN % 8 == 0 && BN >= SLAB_COLS && BN <= 256, "columns that wgmma or store_rows cannot do");

// The rows of B that each CTA of a cluster fetches, for both: whole groups of eight, see SharedMemory. Here both fetch
// 88; in a tile of 184 columns they would be 96 and 88, and so each share has a tensor map of its own.
constexpr int B_ROWS[CLUSTER] = {(BN / 8 + 1) / 2 * 8, BN / 8 / 2 * 8};

struct Maps {
    CUtensorMap a, b[CLUSTER], c;
};

// ----------------------------------------------------------------------------- shared-memory map

struct Tile {
    int row, col;  // first element of this CTA's tile
};

// TMA writes and wgmma reads rows of 128 bytes whose eight 16-byte chunks are permuted: chunk c of row r lies at
// c ^ (r % 8), which spares both of them bank conflicts. The permutation is a function of the *address* and repeats
// every eight rows, 1024 bytes, hence the alignment.
struct SharedMemory {
    alignas(1024) __nv_bfloat16 a[STAGES][BM * BK];                               // 96 KB
    alignas(1024) __nv_bfloat16 b[STAGES][BN * BK];                               // 66 KB
    alignas(1024) __nv_bfloat16 c[CONSUMER_WARPS][SLABS][SLAB_ROWS * SLAB_COLS];  // 64 KB
    uint64_t full[STAGES], empty[STAGES];                                         // mbarriers
    Tile tile[STAGES];                                                            // where its first k-step is here
};
static_assert(sizeof(SharedMemory) <= 232448, "more shared memory than a Hopper CTA can have");

// --------------------------------------------------------------------------------------- barriers

// full[s], "stage s holds data": one arrival, by the producer of the same CTA. It also announces how many bytes will
// land here; the phase ends when they have, whichever CTA's copy brought them.
constexpr int FULL_ARRIVALS = 1;
constexpr uint32_t STAGE_BYTES = (BM + BN) * BK * sizeof(__nv_bfloat16);

// empty[s], "stage s may be overwritten": one arrival per consumer warp of *every* CTA of the cluster, since the
// producer's share of B lands in all of them.
constexpr int EMPTY_ARRIVALS = CLUSTER * CONSUMER_WARPS;

// ----------------------------------------------------------------------------------------- raster

// Which tiles a CTA computes. Producer and consumers walk over the same list.
struct Work {
    int tiles_m, tiles_n;  // C in cluster tiles, of CLUSTER * BM rows and BN columns
    int k_steps;
    int first, stride;     // this cluster's tiles: first, first + stride, ...
    int rank;              // of this CTA in its cluster

    __device__ int tiles() const { return tiles_m * tiles_n; }

    // C is cut into bands of GROUP cluster tiles, numbered column by column within a band. The 66 clusters of 132 SMs
    // then work on about a square: few distinct rows of A and B, which they find in L2 for each other.
    __device__ Tile tile(int index) const {
        const int band = index / (GROUP * tiles_n), within = index % (GROUP * tiles_n);
        const int height = min(GROUP, tiles_m - band * GROUP);  // the last band may be lower
        const int row = band * GROUP + within % height;
        return {(row * CLUSTER + rank) * BM, within / height * BN};
    }
};

// --------------------------------------------------------------------------------------- producer

// One thread.
__device__ void produce(SharedMemory& shared, const Maps& maps, const Work& work) {
    const CUtensorMap* const map_b = &maps.b[work.rank];
    const int share = work.rank * B_ROWS[0];  // where this CTA's rows begin, of the tile's rows of B
    constexpr uint16_t ALL = (1 << CLUSTER) - 1;
    Ring<STAGES> ring;
    for (int t = work.first; t < work.tiles(); t += work.stride) {
        const Tile tile = work.tile(t);
#pragma unroll 1
        for (int k = 0; k < work.k_steps; ++k, ring.advance()) {
            const int s = ring.stage;
            mbarrier_wait_parity(&shared.empty[s], ring.parity ^ 1);  // passes in the first round
            // For the consumers: the two divisions in Work::tile, some 65 instructions of which each needs the one
            // before, would come between two of their tiles. Here they are done ahead.
            if (k == 0) shared.tile[s] = tile;
            // The peer's share may land before this announcement: without the arrival the phase cannot end.
            mbarrier_arrive_expect_tx(&shared.full[s], STAGE_BYTES);
            tma_load_2d(shared.a[s], &maps.a, &shared.full[s], k * BK, tile.row);
            tma_load_2d_multicast(shared.b[s] + share * BK, map_b, &shared.full[s], ALL, k * BK, tile.col + share);
        }
    }
}

// --------------------------------------------------------------------------------------- consumer

using Sums = float[BN / 2];  // a thread's part of a wgmma result, 64 rows of the tile

// One warp stores its 16 rows of the upper (0) or lower (1) result, 64 columns at a time, through buffers of its own:
// nothing wider than the warp has to be synchronised. The stores go on in the background; a buffer only has to be read
// before it is filled again. 176 columns are not whole slabs: the last begins where it still fits, and 16 columns are
// stored twice.
template <int RESULT>
__device__ void store_rows(const Sums& d, __nv_bfloat16 (&buffers)[SLABS][SLAB_ROWS * SLAB_COLS],
                           const CUtensorMap& map_c, Tile tile, int lane, uint64_t policy) {
#pragma unroll
    for (int slab = 0; slab < RESULT_SLABS; ++slab) {
        const int nth = RESULT * RESULT_SLABS + slab;  // store of this tile
        __nv_bfloat16* const buffer = buffers[nth % SLABS];
        const int column = min(slab * SLAB_COLS, BN - SLAB_COLS);
        if (elect_sync()) {  // the lane that started the stores
            // A tile begins with buffer 0, whichever the last one ended with; its stores have long been read.
            if (nth == 0)
                bulk_wait_group_read<0>();
            else
                bulk_wait_group_read<SLABS - 1>();
        }
        __syncwarp();
        // d[4j] to d[4j + 3] are two columns each of rows lane / 4 and lane / 4 + 8, in columns 8j to 8j + 7. Eight of
        // them in order are what stmatrix needs for 16 rows and two chunks of eight columns.
#pragma unroll
        for (int i = 0; i < SLAB_COLS / 16; ++i) {
            const float* const v = d + (column + i * 16) / 2;
            const int at = swizzled_offset<SWIZZLE>(lane % SLAB_ROWS, i * 32 + lane / 16 * 16);  // as TMA expects it
            stmatrix_x4(reinterpret_cast<char*>(buffer) + at, cvt_bf16x2(v[0], v[1]), cvt_bf16x2(v[2], v[3]),
                        cvt_bf16x2(v[4], v[5]), cvt_bf16x2(v[6], v[7]));
        }
        fence_proxy_async();  // by every lane that has written, and only then
        __syncwarp();
        if (elect_sync()) {
            tma_store_2d_hint(&map_c, buffer, policy, tile.col + column, tile.row + RESULT * WGMMA_M);
            bulk_commit_group();
        }
    }
}

// Two warpgroups; `warp` counts their eight warps.
__device__ void consume(SharedMemory& shared, const CUtensorMap& map_c, const Work& work, int warp, int lane) {
    const int consumer_row = warp / 4 * CONSUMER_ROWS;
    // C is not read again: it may leave L2 before the tiles of A and B that other CTAs are about to read.
    const uint64_t policy = createpolicy_evict_first();
    // Every warp speaks for itself, to each CTA with one lane. One arrival per warpgroup could end a phase that a
    // slower warp has yet to see ending.
    const auto release = [&](int stage) {
        if (lane < CLUSTER) mbarrier_arrive_remote(&shared.empty[stage], lane);
    };
    // One group of products: a k-step of the upper (0) or lower (1) result.
    const auto multiply = [&](Sums& d, int result, int stage, bool accumulate) {
        const __nv_bfloat16* const rows = shared.a[stage] + (consumer_row + result * WGMMA_M) * BK;
        const uint64_t a = wgmma_descriptor_k_major<SWIZZLE>(rows);
        const uint64_t b = wgmma_descriptor_k_major<SWIZZLE>(shared.b[stage]);
#pragma unroll
        for (int i = 0; i < BK / WGMMA_K; ++i)
            wgmma_mma_async(d, a + step_k_major<SWIZZLE>(i, 0), b + step_k_major<SWIZZLE>(i, 0), accumulate || i > 0);
        wgmma_commit_group();
    };

    Sums upper = {}, lower = {};
    Tile last = {};  // whose lower result is still to be stored
    Ring<STAGES> ring;
    for (int t = work.first; t < work.tiles(); t += work.stride) {
        mbarrier_wait_parity(&shared.full[ring.stage], ring.parity);
        Tile tile = shared.tile[ring.stage];
        tile.row += consumer_row + warp % 4 * SLAB_ROWS;

        // The first k-step replaces the last tile's sums: the upper ones are stored, the lower ones are now.
        wgmma_fence();
        multiply(upper, 0, ring.stage, false);
        wgmma_wait_group<1>();  // all but the products just started: lower has long been done, which ptxas must see
        if (t != work.first) store_rows<1>(lower, shared.c[warp], map_c, last, lane, policy);
        wgmma_fence();
        multiply(lower, 1, ring.stage, false);
        int previous = ring.stage;
        ring.advance();

#pragma unroll 1
        for (int k = 1; k < work.k_steps; ++k, ring.advance()) {
            mbarrier_wait_parity(&shared.full[ring.stage], ring.parity);
            wgmma_fence();
            multiply(upper, 0, ring.stage, true);
            multiply(lower, 1, ring.stage, true);
            // This step stays in flight while the next is prepared. The one before it has then been read.
            wgmma_wait_group<2>();
            release(previous);
            previous = ring.stage;
        }

        wgmma_wait_group<1>();  // upper; lower is still running
        store_rows<0>(upper, shared.c[warp], map_c, tile, lane, policy);
        wgmma_wait_group<0>();
        release(previous);
        last = tile;
    }
    if (work.first < work.tiles()) store_rows<1>(lower, shared.c[warp], map_c, last, lane, policy);
    if (elect_sync()) bulk_wait_group_read<0>();  // shared memory ends with the CTA
}

// ----------------------------------------------------------------------------------------- kernel

// Without the 1 (CTAs per SM) ptxas does not know the register count at launch and ignores setmaxnreg.
__global__ void __launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ Maps maps, int M, int N, int K) {
    extern __shared__ __align__(1024) uint8_t shared_bytes[];
    SharedMemory& shared = *reinterpret_cast<SharedMemory*>(shared_bytes);

    // The shuffle tells ptxas that the number is the same in the whole warp.
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    const Work work = {(M + CLUSTER * BM - 1) / (CLUSTER * BM), (N + BN - 1) / BN, (K + BK - 1) / BK,
                       int(blockIdx.x / CLUSTER), int(gridDim.x / CLUSTER), int(blockIdx.x % CLUSTER)};

    if (warp == 0 && elect_sync()) {
        prefetch_tensormap(&maps.a);
        prefetch_tensormap(&maps.b[work.rank]);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&shared.full[s], FULL_ARRIVALS);
            mbarrier_init(&shared.empty[s], EMPTY_ARRIVALS);
        }
        fence_mbarrier_init();  // for the peer
        fence_proxy_async();
    }
    __syncwarp();
    cluster_sync();  // before it, no CTA may copy to its peer or signal it

    if (warp < 4) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (warp == 0 && elect_sync()) produce(shared, maps, work);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume(shared, maps.c, work, warp - 4, lane);
    }
    __syncwarp();
    // The peer's consumers signal this CTA's empty barriers to the end, so it must not leave before them. What the
    // peer's producer sends here has landed by then: this CTA's consumers have waited for all of it.
    cluster_sync();
}

// ------------------------------------------------------------------------------------------- host

#define RETURN_IF_ERROR(call) \
    if (const cudaError_t error = (call); error != cudaSuccess) return error

}  // namespace

extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
    if (M <= 0 || N <= 0 || K <= 0 || N % 8 || K % 8 || M > INT_MAX - CLUSTER * BM || N > INT_MAX - BN)
        return cudaErrorInvalidValue;

    int device, sms;
    RETURN_IF_ERROR(cudaGetDevice(&device));
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    RETURN_IF_ERROR(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SharedMemory)));

    Maps maps;
    RETURN_IF_ERROR(make_tensor_map(&maps.a, A, {K, M}, {BK, BM}, SWIZZLE));
    for (int rank = 0; rank < CLUSTER; ++rank)
        RETURN_IF_ERROR(make_tensor_map(&maps.b[rank], B, {K, N}, {BK, B_ROWS[rank]}, SWIZZLE));
    RETURN_IF_ERROR(make_tensor_map(&maps.c, C, {N, M}, {SLAB_COLS, SLAB_ROWS}, SWIZZLE));

    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {CLUSTER, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(sms / CLUSTER * CLUSTER);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = sizeof(SharedMemory);
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, gemm, maps, M, N, K);
}
