// TMA, bulk copies, clusters and wgmma in small kernels: one idea each.
#include "ptx.cuh"

// ---- copies ------------------------------------------------------------------------------------------

// Load a box by TMA, double it, store it by TMA. Threads beyond the first wait on the barrier.
extern "C" __global__ void tma_round_trip(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
    __shared__ alignas(1024) float tile[32][32];
    __shared__ uint64_t bar;
    int x = blockIdx.x * 32, y = blockIdx.y * 32;
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); }
    __syncthreads();
    if (threadIdx.x == 0) { mbarrier_expect_tx(&bar, sizeof(tile)); tma_load_2d(tile, &in, &bar, x, y); }
    mbarrier_wait(&bar, 0);
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) (&tile[0][0])[i] *= 2;
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) { tma_store_2d(&out, tile, x, y); bulk_commit(); bulk_wait<0>(); }
}

// A box that reaches out of the tensor on every side, through a 3-D map.
extern "C" __global__ void tma_out_of_bounds(const __grid_constant__ CUtensorMap in, uint32_t* out, int x, int y, int z, int words) {
    extern __shared__ __align__(1024) uint32_t tile[];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); mbarrier_expect_tx(&bar, words * 4); tma_load_3d(tile, &in, &bar, x, y, z); }
    __syncthreads();
    mbarrier_wait(&bar, 0);
    for (int i = threadIdx.x; i < words; i += blockDim.x) out[i] = tile[i];
}

// Add tiles of all blocks into one, in memory.
extern "C" __global__ void tma_reduce(const __grid_constant__ CUtensorMap out) {
    __shared__ alignas(128) float tile[16][32];
    for (int i = threadIdx.x; i < 512; i += blockDim.x) (&tile[0][0])[i] = i + blockIdx.x;
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) { tma_reduce_add_2d(&out, tile, 0, 0); bulk_commit(); bulk_wait<0>(); }
}

extern "C" __global__ void bulk_copies(const float* in, float* out, float* sum) {
    __shared__ alignas(128) float tile[256];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); }
    __syncthreads();
    if (threadIdx.x == 0) { mbarrier_expect_tx(&bar, sizeof(tile)); bulk_load(tile, in + blockIdx.x * 256, sizeof(tile), &bar); }
    mbarrier_wait(&bar, 0);
    tile[threadIdx.x] += 1;
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) { bulk_store(out + blockIdx.x * 256, tile, sizeof(tile)); bulk_reduce_add_f32(sum, tile, sizeof(tile)); bulk_commit(); bulk_wait<0>(); }
}

// A ring of stages: one warp copies, the others add up.
constexpr int STAGES = 3;
extern "C" __global__ void ring_sum(const float* in, float* out, int steps) {
    __shared__ alignas(128) float stage[STAGES][128];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) { mbarrier_init(&full[s], 1); mbarrier_init(&empty[s], 4); }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= 128) {
        if (threadIdx.x == 128)
            for (int i = 0; i < steps; ++i) {
                int s = i % STAGES;
                mbarrier_wait(&empty[s], i / STAGES & 1 ^ 1);
                mbarrier_expect_tx(&full[s], sizeof(stage[0]));
                bulk_load(stage[s], in + i * 128, sizeof(stage[0]), &full[s]);
            }
    } else {
        float sum = 0;
        for (int i = 0; i < steps; ++i) {
            int s = i % STAGES;
            mbarrier_wait(&full[s], i / STAGES & 1);
            sum += stage[s][127 - threadIdx.x];
            __syncwarp();
            if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[s]);
        }
        out[threadIdx.x] = sum;
    }
}

extern "C" __global__ void polling(const float* in, float* out) {
    __shared__ alignas(128) float tile[64];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); mbarrier_expect_tx(&bar, sizeof(tile)); bulk_load(tile, in, sizeof(tile), &bar); }
    __syncthreads();
    while (!mbarrier_test(&bar, 0)) __nanosleep(20);
    out[threadIdx.x] = tile[threadIdx.x];
}

// ---- clusters ----------------------------------------------------------------------------------------

// Every CTA reads its neighbour's shared memory.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_exchange(const float* in, float* out) {
    __shared__ float mine[64];
    mine[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    cluster_sync();  // all values are there
    uint32_t remote, address = smem(&mine[threadIdx.x]);
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"((cluster_rank() + 1) % 4));
    float v;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(remote) : "memory");
    out[blockIdx.x * 64 + threadIdx.x] = v;
    cluster_sync();  // nobody leaves before it was read
}

// CTA 0 adds what the others send by st.async.
extern "C" __global__ void __cluster_dims__(2, 1, 1) send_async(const float* in, float* out) {
    __shared__ float inbox[64];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); mbarrier_expect_tx(&bar, sizeof(inbox)); }
    cluster_sync();
    uint32_t remote, remote_bar, peer = cluster_rank() ^ 1;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(smem(&inbox[threadIdx.x])), "r"(peer));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote_bar) : "r"(smem(&bar)), "r"(peer));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(remote), "f"(in[blockIdx.x * 64 + threadIdx.x]), "r"(remote_bar) : "memory");
    mbarrier_wait(&bar, 0);
    out[blockIdx.x * 64 + threadIdx.x] = inbox[threadIdx.x];
    cluster_sync();
}

// Each CTA fetches half of a tile for both.
extern "C" __global__ void __cluster_dims__(2, 1, 1) multicast(const __grid_constant__ CUtensorMap in, float* out) {
    __shared__ alignas(1024) float tile[32][32];
    __shared__ uint64_t bar;
    uint32_t rank = cluster_rank();
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); }
    cluster_sync();
    if (threadIdx.x == 0) { mbarrier_expect_tx(&bar, sizeof(tile)); tma_load_2d_multicast(tile[rank * 16], &in, &bar, 0, rank * 16, 3); }
    mbarrier_wait(&bar, 0);
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) out[blockIdx.x * 1024 + i] = (&tile[0][0])[i];
    cluster_sync();
}

// ---- wgmma -------------------------------------------------------------------------------------------

DEVICE void store_accumulators(const float (&d)[32], float* out, int n) {
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;
    for (int i = 0; i < 32; ++i) out[(row + i / 2 % 2 * 8) * n + i / 4 * 8 + col + i % 2] = d[i];
}

// D[64,64] = A[64,K] B[64,K]^T with one row of the swizzle atom per K block, for several element types.
#define WGMMA_KERNEL(name, type, mma, k_bytes, sw, sw_code)                                                     \
    extern "C" __global__ void name(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* out) { \
        __shared__ alignas(1024) unsigned char a[64 * sw], b[64 * sw];                                          \
        __shared__ uint64_t bar;                                                                                \
        if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); }                                \
        __syncthreads();                                                                                        \
        if (threadIdx.x == 0) {                                                                                 \
            mbarrier_expect_tx(&bar, 2 * 64 * sw);                                                              \
            tma_load_2d(a, &ma, &bar, 0, 0);                                                                    \
            tma_load_2d(b, &mb, &bar, 0, 0);                                                                    \
        }                                                                                                       \
        mbarrier_wait(&bar, 0);                                                                                 \
        float d[32];                                                                                            \
        wgmma_fence();                                                                                          \
        for (int k = 0; k < sw / 32; ++k) mma(d, descriptor(a + 32 * k, 16, 8 * sw, sw_code), descriptor(b + 32 * k, 16, 8 * sw, sw_code), k > 0); \
        wgmma_commit();                                                                                         \
        wgmma_wait<0>();                                                                                        \
        store_accumulators(d, out, 64);                                                                         \
    }
WGMMA_KERNEL(wgmma_bf16_128, __nv_bfloat16, wgmma_bf16, 32, 128, 1)
WGMMA_KERNEL(wgmma_f16_64, __half, wgmma_f16, 32, 64, 2)
WGMMA_KERNEL(wgmma_tf32_32, float, wgmma_tf32, 32, 32, 3)
WGMMA_KERNEL(wgmma_e4m3_128, unsigned char, wgmma_e4m3, 32, 128, 1)

// int8, operands written by the threads in the layout without swizzle (8x16-byte core matrices).
extern "C" __global__ void wgmma_s8_plain(const int8_t* A, const int8_t* B, int* out) {
    __shared__ alignas(128) int8_t a[64 * 32], b[64 * 32];
    for (int i = threadIdx.x; i < 64 * 32; i += 128) {
        int r = i / 32, k = i % 32, at = (k / 16) * 1024 + (r / 8) * 128 + (r % 8) * 16 + k % 16;
        a[at] = A[i];
        b[at] = B[i];
    }
    fence_proxy_async();
    __syncthreads();
    int d[32];
    wgmma_fence();
    wgmma_s8(d, descriptor(a, 1024, 128, 0), descriptor(b, 1024, 128, 0), 0);
    wgmma_commit();
    wgmma_wait<0>();
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;
    for (int i = 0; i < 32; ++i) out[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + col + i % 2] = d[i];
}

// A from registers, B stored with N contiguous: the second product of attention.
extern "C" __global__ void wgmma_rs_transposed(const __nv_bfloat16* A, const __grid_constant__ CUtensorMap mb, float* out) {
    __shared__ alignas(1024) __nv_bfloat16 b[64 * 64];  // [K, N]
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); }
    __syncthreads();
    if (threadIdx.x == 0) { mbarrier_expect_tx(&bar, sizeof(b)); tma_load_2d(b, &mb, &bar, 0, 0); }
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;
    uint32_t a[4][4];
    for (int k = 0; k < 4; ++k)
        for (int i = 0; i < 4; ++i) a[k][i] = *(const uint32_t*)&A[(row + i % 2 * 8) * 64 + k * 16 + i / 2 * 8 + col];
    mbarrier_wait(&bar, 0);
    float d[32];
    wgmma_fence();
    for (int k = 0; k < 4; ++k) wgmma_rs_bf16(d, a[k], descriptor(b + k * 16 * 64, 8192, 1024, 1), k > 0);
    wgmma_commit();
    wgmma_wait<0>();
    store_accumulators(d, out, 64);
}

// Both operands MN-major.
extern "C" __global__ void wgmma_both_transposed(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* out) {
    __shared__ alignas(1024) __nv_bfloat16 a[64 * 64], b[64 * 64];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); }
    __syncthreads();
    if (threadIdx.x == 0) { mbarrier_expect_tx(&bar, 2 * sizeof(a)); tma_load_2d(a, &ma, &bar, 0, 0); tma_load_2d(b, &mb, &bar, 0, 0); }
    mbarrier_wait(&bar, 0);
    float d[32];
    wgmma_fence();
    for (int k = 0; k < 4; ++k) wgmma_bf16_tab(d, descriptor(a + k * 1024, 8192, 1024, 1), descriptor(b + k * 1024, 8192, 1024, 1), k > 0);
    wgmma_commit();
    wgmma_wait<0>();
    store_accumulators(d, out, 64);
}

// ---- tensor maps that the kernel changes -------------------------------------------------------------

// Point a map at other rows, and at fewer of them; publish it; load through it.
extern "C" __global__ void tensormap_replace(const __grid_constant__ CUtensorMap base, const float* rows, CUtensorMap* scratch, float* out) {
    __shared__ alignas(128) unsigned char map[128];
    __shared__ alignas(128) float tile[16][32];
    __shared__ uint64_t bar;
    ((uint32_t*)map)[threadIdx.x] = ((const uint32_t*)&base)[threadIdx.x];
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); fence_mbarrier_init(); }
    __syncwarp();
    if (threadIdx.x == 0) {
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(smem(map)), "l"(rows) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(smem(map)), "r"(10) : "memory");
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(scratch), "r"(smem(map)) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(scratch) : "memory");
    if (threadIdx.x == 0) { mbarrier_expect_tx(&bar, sizeof(tile)); tma_load_2d(tile, scratch, &bar, 0, 0); }
    mbarrier_wait(&bar, 0);
    for (int i = threadIdx.x; i < 512; i += 32) out[i] = (&tile[0][0])[i];
}
