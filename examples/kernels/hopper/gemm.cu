// C[M,N] = A[M,K] * B[N,K]^T on Hopper (sm_90a): bf16 in, fp32 accumulation, bf16 out.
//
// A persistent, warp-specialised kernel. One CTA runs on each SM and walks over 128x256 tiles of C:
//
//   warpgroup 0      producer: one thread copies tiles of A and B to shared memory by TMA
//   warpgroups 1, 2  consumers: each multiplies 64x256 of the tile by wgmma, then stores it by TMA
//
// The roles meet only at mbarriers, so the copies for later k-steps, and for the next tile, run while
// the tensor cores work. Two CTAs form a cluster: their tiles lie one above the other and need the same
// rows of B, so each fetches half of them, for both (multicast).
//
// Not promised: shapes other than multiples of 256 (M, N) and 64 (K). They are refused.

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cudaTypedefs.h>

namespace {

// ------------------------------------------------------------------------------------- constants

constexpr int CLUSTER = 2;  // CTAs that share their rows of B; 1 does without multicast
constexpr int STAGES = 4;   // k-steps that the producer may be ahead
constexpr int SLABS = 2;    // store buffers per consumer warp; 3 stages would leave room for 4

constexpr int BM = 128, BN = 256;  // tile of C per CTA
constexpr int BK = 64;             // one k-step: 64 bf16 are 128 bytes, a row of the swizzle pattern
constexpr int WGMMA_M = 64, WGMMA_K = 16;
constexpr int GROUP = 8;  // height of the raster's bands, see Work::tile

constexpr int WARP = 32, WARPGROUP = 128;
constexpr int CONSUMER_WARPS = BM / WGMMA_M * 4;
constexpr int THREADS = WARPGROUP + CONSUMER_WARPS * WARP;
constexpr int ACCUMULATORS = WGMMA_M * BN / WARPGROUP;  // per consumer thread: 128

// Each of the 384 threads starts with 168 registers. The producer returns what it does not need and the
// consumers take it; they would wait for ever if 128 * 40 + 256 * 232 were more than 384 * 168.
constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;

constexpr int SLAB_ROWS = 16, SLAB_COLS = 64;  // a warp's rows of a wgmma result; 128 bytes of columns

static_assert(CLUSTER == 1 || CLUSTER == 2, "a cluster takes CLUSTER * BM rows, and M is a multiple of 256 only");
static_assert(BN / SLAB_COLS % SLABS == 0, "every tile must start at store buffer 0");

// ----------------------------------------------------------------------------- shared-memory map

// TMA writes and wgmma reads rows of 128 bytes whose eight 16-byte chunks are permuted: chunk c of row r
// lies at c ^ (r % 8), which spares both of them bank conflicts. The permutation is a function of the
// *address* and repeats every 1024 bytes, hence the alignment.
struct SharedMemory {
    alignas(1024) __nv_bfloat16 a[STAGES][BM * BK];                               //  64 KB
    alignas(1024) __nv_bfloat16 b[STAGES][BN * BK];                               // 128 KB
    alignas(1024) __nv_bfloat16 c[CONSUMER_WARPS][SLABS][SLAB_ROWS * SLAB_COLS];  //  32 KB
    uint64_t full[STAGES], empty[STAGES];                                         // mbarriers
};
static_assert(sizeof(SharedMemory) <= 232448, "more shared memory than a Hopper CTA can have");

// --------------------------------------------------------------------------------------- barriers

// full[s], "stage s holds data": one arrival, by the producer of the same CTA. It also announces how many
// bytes will land here; the phase ends when they have, whichever CTA's copy brought them.
constexpr int FULL_ARRIVALS = 1;
constexpr uint32_t STAGE_BYTES = (BM + BN) * BK * sizeof(__nv_bfloat16);

// empty[s], "stage s may be overwritten": one arrival per consumer warp of *every* CTA of the cluster, since
// the producer's share of B lands in all of them.
constexpr int EMPTY_ARRIVALS = CLUSTER * CONSUMER_WARPS;

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
__device__ void mbarrier_arrive_expect_tx(uint64_t& barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(&barrier)), "r"(bytes) : "memory");
}

// At the same barrier of CTA `cta` of the cluster. `.release.cluster` is not needed, because this thread hands
// over only what a completed wgmma has read, and would put a fence over the whole GPU into every k-step.
__device__ void mbarrier_arrive_remote(uint64_t& barrier, uint32_t cta) {
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote]; }"
                 ::"r"(shared_address(&barrier)), "r"(cta) : "memory");
}

// Until the phase of this parity has ended. On a fresh barrier parity 1 counts as ended.
__device__ void mbarrier_wait(uint64_t& barrier, uint32_t parity) {
    asm volatile("{ .reg .pred done;\n"
                 "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra WAIT; }"
                 ::"r"(shared_address(&barrier)), "r"(parity) : "memory");
}

__device__ void cluster_sync() {  // all threads of all CTAs of the cluster
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// From column k and row `row` of the matrix. MULTICAST: into every CTA of the cluster, at the same offsets of
// tile and barrier.
template <bool MULTICAST>
__device__ void tma_load(void* tile, const CUtensorMap& map, uint64_t& full, int k, int row) {
    if constexpr (MULTICAST)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                     ::"r"(shared_address(tile)), "l"(&map), "r"(k), "r"(row), "r"(shared_address(&full)),
                     "h"(uint16_t((1 << CLUSTER) - 1)) : "memory");
    else
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(shared_address(tile)), "l"(&map), "r"(k), "r"(row), "r"(shared_address(&full)) : "memory");
}

__device__ void tma_store(const CUtensorMap& map, const void* tile, int col, int row, uint64_t policy) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint"
                 " [%0, {%1, %2}], [%3], %4;\n"
                 "cp.async.bulk.commit_group;"
                 ::"l"(&map), "r"(col), "r"(row), "r"(shared_address(tile)), "l"(policy) : "memory");
}

// Until all but the last PENDING stores of this thread have *read* shared memory.
template <int PENDING>
__device__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// C is not read again: it may leave L2 before the tiles of A and B that other CTAs are about to read.
__device__ uint64_t evict_first_policy() {
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// What was written to shared memory before becomes visible to TMA.
__device__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Four 8x8 matrices of bf16; lane l brings the address of row l % 8 of matrix l / 8.
__device__ void stmatrix_x4(const void* row, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(shared_address(row)), "r"(m0), "r"(m1), "r"(m2), "r"(m3) : "memory");
}

__device__ uint32_t pack_bf16(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
}

// How wgmma finds a tile: its address and the distance of groups of eight rows (1024 bytes), in units of
// 16 bytes, and the swizzle (1 in the top bits: 128 bytes). This layout uses no other distance.
__device__ uint64_t matrix_descriptor(const void* tile) {
    return uint64_t(1) << 62 | uint64_t(1024 / 16) << 32 | (shared_address(tile) & 0x3ffff) / 16;
}
constexpr uint64_t NEXT_K = WGMMA_K * sizeof(__nv_bfloat16) / 16;  // added: the next 16 columns of the same tile

__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// The accumulators are operands %0 to %127. Their lists are built from decimal digits: TEN(F, 3) is
// F(30) F(31) ... F(39). Each item brings the comma before it, so item 0 is written out.
#define TEN(F, t) F(t##0) F(t##1) F(t##2) F(t##3) F(t##4) F(t##5) F(t##6) F(t##7) F(t##8) F(t##9)
#define FROM_1_TO_127(F)                                                                      \
    F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9)                                              \
    TEN(F, 1) TEN(F, 2) TEN(F, 3) TEN(F, 4) TEN(F, 5) TEN(F, 6) TEN(F, 7) TEN(F, 8) TEN(F, 9) \
    TEN(F, 10) TEN(F, 11) F(120) F(121) F(122) F(123) F(124) F(125) F(126) F(127)
#define OPERAND(i) ", %" #i
#define BINDING(i) , "+f"(d[i])

// d = A[64,16] * B[256,16]^T (+ d) by the whole warpgroup. It only starts here; see wgmma_wait_group.
__device__ void wgmma_m64n256k16(float (&d)[ACCUMULATORS], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
                 " {%0" FROM_1_TO_127(OPERAND) "}, %128, %129, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]) FROM_1_TO_127(BINDING) : "l"(a), "l"(b), "r"(int(accumulate)) : "memory");
}

// ----------------------------------------------------------------------------------------- raster

struct Tile {
    int row, col;  // first element of this CTA's tile
};

// Which tiles a CTA computes. Producer and consumers walk over the same list.
struct Work {
    int tiles_m, tiles_n;  // C in cluster tiles, of CLUSTER * BM rows and BN columns
    int k_steps;
    int first, stride;     // this cluster's tiles: first, first + stride, ...
    int rank;              // of this CTA in its cluster

    __device__ int tiles() const { return tiles_m * tiles_n; }

    // C is cut into bands of GROUP cluster tiles, numbered column by column within a band. The 66 clusters of
    // 132 SMs then work on about a square: few distinct rows of A and B, which they find in L2 for each other.
    __device__ Tile tile(int index) const {
        const int band = index / (GROUP * tiles_n), within = index % (GROUP * tiles_n);
        const int height = min(GROUP, tiles_m - band * GROUP);  // the last band may be lower
        const int row = band * GROUP + within % height;
        return {(row * CLUSTER + rank) * BM, within / height * BN};
    }
};

// --------------------------------------------------------------------------------------- producer

// One thread.
__device__ void produce(SharedMemory& shared, const CUtensorMap& map_a, const CUtensorMap& map_b, const Work& work) {
    constexpr int SHARE = BN / CLUSTER;  // rows of B that this CTA fetches, for all
    const int share = work.rank * SHARE;
    Ring ring;
    for (int t = work.first; t < work.tiles(); t += work.stride) {
        const Tile tile = work.tile(t);
#pragma unroll 1
        for (int k = 0; k < work.k_steps; ++k, ring.advance()) {
            const int s = ring.stage;
            mbarrier_wait(shared.empty[s], ring.parity ^ 1);  // passes in the first round
            // The peer's share may land before this announcement: without the arrival the phase cannot end.
            mbarrier_arrive_expect_tx(shared.full[s], STAGE_BYTES);
            tma_load<false>(shared.a[s], map_a, shared.full[s], k * BK, tile.row);
            tma_load<(CLUSTER > 1)>(shared.b[s] + share * BK, map_b, shared.full[s], k * BK, tile.col + share);
        }
    }
}

// --------------------------------------------------------------------------------------- consumer

// One warp stores its 16 rows of the tile, 64 columns at a time, through buffers of its own: nothing wider
// than the warp has to be synchronised. The stores go on while the next tile is multiplied; a buffer only
// has to be read before it is filled again.
__device__ void store_rows(const float (&d)[ACCUMULATORS], __nv_bfloat16 (&buffers)[SLABS][SLAB_ROWS * SLAB_COLS],
                           const CUtensorMap& map_c, Tile tile, int lane, uint64_t policy) {
    const int r = lane % SLAB_ROWS;
#pragma unroll
    for (int slab = 0; slab < BN / SLAB_COLS; ++slab) {
        __nv_bfloat16* buffer = buffers[slab % SLABS];
        if (elect_one()) tma_store_wait_read<SLABS - 1>();  // the lane that started the stores
        __syncwarp();
        // d[4j] to d[4j + 3] are two columns each of rows lane / 4 and lane / 4 + 8, in columns 8j to 8j + 7.
        // Eight of them in order are what stmatrix needs for 16 rows and two chunks of eight columns.
#pragma unroll
        for (int i = 0; i < SLAB_COLS / 16; ++i) {
            const float* v = d + (slab * SLAB_COLS + i * 16) / 2;
            const int chunk = (2 * i + lane / 16) ^ (r % 8);  // swizzled, as TMA expects it
            stmatrix_x4(buffer + r * SLAB_COLS + chunk * 8, pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]),
                        pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7]));
        }
        fence_proxy_async();  // by every lane that has written, and only then
        __syncwarp();
        if (elect_one()) tma_store(map_c, buffer, tile.col + slab * SLAB_COLS, tile.row, policy);
    }
}

// Two warpgroups; `warp` counts their eight warps.
__device__ void consume(SharedMemory& shared, const CUtensorMap& map_c, const Work& work, int warp, int lane) {
    const int warpgroup_row = warp / 4 * WGMMA_M;
    const uint64_t policy = evict_first_policy();
    // Every warp speaks for itself, to each CTA with one lane. One arrival per warpgroup could end a phase that
    // a slower warp has yet to see ending.
    const auto release = [&](int stage) {
        if (lane < CLUSTER) mbarrier_arrive_remote(shared.empty[stage], lane);
    };

    float d[ACCUMULATORS] = {};
    Ring ring;
    for (int t = work.first; t < work.tiles(); t += work.stride) {
        Tile tile = work.tile(t);
        tile.row += warp * SLAB_ROWS;
        int previous = 0;
#pragma unroll 1
        for (int k = 0; k < work.k_steps; ++k, ring.advance()) {
            mbarrier_wait(shared.full[ring.stage], ring.parity);
            const uint64_t a = matrix_descriptor(shared.a[ring.stage] + warpgroup_row * BK);
            const uint64_t b = matrix_descriptor(shared.b[ring.stage]);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < BK / WGMMA_K; ++i)  // the first product of a tile replaces the last tile's sums
                wgmma_m64n256k16(d, a + i * NEXT_K, b + i * NEXT_K, k + i > 0);
            wgmma_commit_group();
            // This step stays in flight while the next is prepared. The one before it has then been read.
            wgmma_wait_group<1>();
            if (k > 0) release(previous);
            previous = ring.stage;
        }
        wgmma_wait_group<0>();
        release(previous);
        store_rows(d, shared.c[warp], map_c, tile, lane, policy);
    }
    if (elect_one()) tma_store_wait_read<0>();  // shared memory ends with the CTA
}

// ----------------------------------------------------------------------------------------- kernel

// Without the 1 (CTAs per SM) ptxas does not know the register count at launch and ignores setmaxnreg.
__global__ void __launch_bounds__(THREADS, 1)
gemm(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
     const __grid_constant__ CUtensorMap map_c, int M, int N, int K) {
    extern __shared__ __align__(1024) uint8_t shared_bytes[];
    SharedMemory& shared = *reinterpret_cast<SharedMemory*>(shared_bytes);

    // The shuffle tells ptxas that the number is the same in the whole warp.
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / WARP, 0), lane = threadIdx.x % WARP;
    const Work work = {M / (CLUSTER * BM), N / BN, K / BK, int(blockIdx.x / CLUSTER), int(gridDim.x / CLUSTER),
                       int(blockIdx.x % CLUSTER)};

    if (warp == 0 && elect_one()) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(shared.full[s], FULL_ARRIVALS);
            mbarrier_init(shared.empty[s], EMPTY_ARRIVALS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // for the peer
        fence_proxy_async();
    }
    __syncwarp();
    cluster_sync();  // before it, no CTA may copy to its peer or signal it

    if (warp < 4) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        if (warp == 0 && elect_one()) produce(shared, map_a, map_b, work);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
        consume(shared, map_c, work, warp - 4, lane);
    }
    __syncwarp();
    // The peer's consumers signal this CTA's empty barriers to the end, so it must not leave before them. What
    // the peer's producer sends here has landed by then: this CTA's consumers have waited for all of it.
    cluster_sync();
}

// ------------------------------------------------------------------------------------------- host

#define RETURN_IF_ERROR(call) \
    if (const cudaError_t error = (call); error != cudaSuccess) return error

// A row-major matrix that TMA moves in boxes of box_rows x 64, swizzled.
cudaError_t make_map(PFN_cuTensorMapEncodeTiled_v12000 encode, CUtensorMap* map, const __nv_bfloat16* matrix, int rows,
                     int cols, int box_rows) {
    const cuuint64_t size[] = {cuuint64_t(cols), cuuint64_t(rows)}, row_bytes[] = {cols * sizeof(__nv_bfloat16)};
    const cuuint32_t box[] = {BK, cuuint32_t(box_rows)}, step[] = {1, 1};
    const CUresult result =
        encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<__nv_bfloat16*>(matrix), size, row_bytes, box, step,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
    if (M <= 0 || N <= 0 || K <= 0 || M % (CLUSTER * BM) || N % BN || K % BK) return cudaErrorInvalidValue;

    int device, sms;
    RETURN_IF_ERROR(cudaGetDevice(&device));
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    RETURN_IF_ERROR(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SharedMemory)));

    // The encoder lives in the driver's library; asking the runtime for it saves linking with -lcuda.
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    RETURN_IF_ERROR(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
    const auto encode = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);

    CUtensorMap map_a, map_b, map_c;
    RETURN_IF_ERROR(make_map(encode, &map_a, A, M, K, BM));
    RETURN_IF_ERROR(make_map(encode, &map_b, B, N, K, BN / CLUSTER));
    RETURN_IF_ERROR(make_map(encode, &map_c, C, M, N, SLAB_ROWS));

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
    return cudaLaunchKernelEx(&config, gemm, map_a, map_b, map_c, M, N, K);
}
