// Tensor memory and tcgen05.mma.
#define BLACKWELL
#include "ptx.cuh"

DEVICE void store_rows(uint32_t t, float* out, int n, int columns) {
    int warp = threadIdx.x / 32 % 4;
    for (int c = 0; c < columns; c += 8) {
        uint32_t r[8];
        tcgen05_ld_x8(r, t + (uint32_t)(warp * 32 << 16) + c);
        tcgen05_wait_ld();
        for (int i = 0; i < 8; ++i) out[(warp * 32 + threadIdx.x % 32) * n + c + i] = __uint_as_float(r[i]);
    }
}

// C[M,N] = A[M,K] B[N,K]^T, bf16; warp 0 copies, warp 1 multiplies, warps 2 to 5 store.
constexpr int BM = 128, BN = 128, BK = 64, STAGES = 3;
extern "C" __global__ void __launch_bounds__(192, 1)
gemm_tcgen05(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* C, int N, int K) {
    extern __shared__ __align__(1024) unsigned char bytes[];
    __nv_bfloat16 *a = (__nv_bfloat16*)bytes, *b = a + STAGES * BM * BK;
    __shared__ uint64_t full[STAGES], empty[STAGES], done;
    __shared__ uint32_t address;
    int warp = threadIdx.x / 32, steps = K / BK, row = blockIdx.y * BM, col = blockIdx.x * BN;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) { mbarrier_init(&full[s], 1); mbarrier_init(&empty[s], 1); }
        mbarrier_init(&done, 1);
        fence_mbarrier_init();
    }
    if (warp == 1) tcgen05_alloc<128>(&address);
    tcgen05_before();
    __syncthreads();
    tcgen05_after();
    uint32_t t = address;
    if (warp == 0) {
        if (elect_one())
            for (int i = 0; i < steps; ++i) {
                int s = i % STAGES;
                mbarrier_wait(&empty[s], i / STAGES & 1 ^ 1);
                mbarrier_expect_tx(&full[s], (BM + BN) * BK * 2);
                tma_load_2d(a + s * BM * BK, &ma, &full[s], i * BK, row);
                tma_load_2d(b + s * BN * BK, &mb, &full[s], i * BK, col);
            }
    } else if (warp == 1) {
        if (elect_one()) {
            uint32_t idesc = instruction_descriptor(1, 1, 1, BM, BN);
            for (int i = 0; i < steps; ++i) {
                int s = i % STAGES;
                mbarrier_wait(&full[s], i / STAGES & 1);
                tcgen05_after();
                for (int k = 0; k < BK / 16; ++k)
                    tcgen05_mma_f16(t, descriptor_sm100(a + s * BM * BK + k * 16, 16, 1024, 2), descriptor_sm100(b + s * BN * BK + k * 16, 16, 1024, 2), idesc, (i | k) != 0);
                tcgen05_commit(&empty[s]);
            }
            tcgen05_commit(&done);
        }
    } else {
        mbarrier_wait(&done, 0);
        tcgen05_after();
        store_rows(t, C + (size_t)row * N + col, N, BN);
        tcgen05_before();
    }
    __syncthreads();
    if (warp == 1) tcgen05_dealloc<128>(t);
}

// One product of 128x64 per kind, operands of one swizzle row.
#define MMA_KERNEL(name, mma, result, type_code)                                                                 \
    extern "C" __global__ void name(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* out) { \
        __shared__ alignas(1024) unsigned char a[128 * 128], b[64 * 128];                                      \
        __shared__ uint64_t bar, done;                                                                          \
        __shared__ uint32_t address;                                                                            \
        if (threadIdx.x == 0) { mbarrier_init(&bar, 1); mbarrier_init(&done, 1); fence_mbarrier_init(); }       \
        if (threadIdx.x < 32) tcgen05_alloc<64>(&address);                                                      \
        __syncthreads();                                                                                        \
        uint32_t t = address;                                                                                   \
        if (threadIdx.x == 0) {                                                                                 \
            mbarrier_expect_tx(&bar, sizeof(a) + sizeof(b));                                                    \
            tma_load_2d(a, &ma, &bar, 0, 0);                                                                    \
            tma_load_2d(b, &mb, &bar, 0, 0);                                                                    \
            mbarrier_wait(&bar, 0);                                                                             \
            for (int k = 0; k < 4; ++k) mma(t, descriptor_sm100(a + 32 * k, 16, 1024, 2), descriptor_sm100(b + 32 * k, 16, 1024, 2), instruction_descriptor(result, type_code, type_code, 128, 64), k > 0); \
            tcgen05_commit(&done);                                                                              \
        }                                                                                                       \
        __syncwarp();                                                                                           \
        mbarrier_wait(&done, 0);                                                                                \
        tcgen05_after();                                                                                        \
        store_rows(t, out, 64, 64);                                                                             \
        tcgen05_before();                                                                                       \
        __syncthreads();                                                                                        \
        if (threadIdx.x < 32) tcgen05_dealloc<64>(t);                                                           \
    }
MMA_KERNEL(mma_tf32, tcgen05_mma_tf32, 1, 2)
MMA_KERNEL(mma_e4m3, tcgen05_mma_f8, 1, 0)
MMA_KERNEL(mma_s8, tcgen05_mma_i8, 2, 1)

// Two CTAs share a product of 256x64: each brings half of A and half of B.
extern "C" __global__ void __cluster_dims__(2, 1, 1) mma_pair(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* out) {
    __shared__ alignas(1024) __nv_bfloat16 a[128 * 64], b[32 * 64];
    __shared__ uint64_t bar, done;
    __shared__ uint32_t address;
    uint32_t rank = cluster_rank();
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); mbarrier_init(&done, 1); fence_mbarrier_init(); }
    if (threadIdx.x < 32) tcgen05_alloc2<64>(&address);
    tcgen05_before();
    cluster_sync();
    tcgen05_after();
    uint32_t t = address;
    if (threadIdx.x == 0) { mbarrier_expect_tx(&bar, sizeof(a) + sizeof(b)); tma_load_2d(a, &ma, &bar, 0, rank * 128); tma_load_2d(b, &mb, &bar, 0, rank * 32); }
    mbarrier_wait(&bar, 0);
    cluster_sync();  // both halves are there
    if (rank == 0 && threadIdx.x == 0) {
        tcgen05_after();
        for (int k = 0; k < 4; ++k) tcgen05_mma2_f16(t, descriptor_sm100(a + 16 * k, 16, 1024, 2), descriptor_sm100(b + 16 * k, 16, 1024, 2), instruction_descriptor(1, 1, 1, 256, 64), k > 0);
        tcgen05_commit2(&done, 3);
    }
    __syncwarp();
    mbarrier_wait(&done, 0);
    tcgen05_after();
    store_rows(t, out + rank * 128 * 64, 64, 64);
    tcgen05_before();
    cluster_sync();
    if (threadIdx.x < 32) tcgen05_dealloc2<64>(t);
}

// A in tensor memory: written by tcgen05.st, multiplied with B from shared memory.
extern "C" __global__ void mma_ts(const uint32_t* A, const __grid_constant__ CUtensorMap mb, float* out) {
    __shared__ alignas(1024) __nv_bfloat16 b[64 * 64];
    __shared__ uint64_t bar, done;
    __shared__ uint32_t address;
    if (threadIdx.x == 0) { mbarrier_init(&bar, 1); mbarrier_init(&done, 1); fence_mbarrier_init(); mbarrier_expect_tx(&bar, sizeof(b)); tma_load_2d(b, &mb, &bar, 0, 0); }
    if (threadIdx.x < 32) tcgen05_alloc<128>(&address);
    __syncthreads();
    uint32_t t = address, lane = (uint32_t)(threadIdx.x / 32 * 32) << 16;
    for (int c = 0; c < 32; c += 8) {
        uint32_t r[8];
        for (int i = 0; i < 8; ++i) r[i] = A[threadIdx.x * 32 + c + i];
        tcgen05_st_x8(t + 64 + lane + c, r);
    }
    tcgen05_wait_st();
    tcgen05_before();
    __syncthreads();
    mbarrier_wait(&bar, 0);
    if (threadIdx.x == 0) {
        tcgen05_after();
        for (int k = 0; k < 4; ++k) tcgen05_mma_ts_f16(t, t + 64 + k * 8, descriptor_sm100(b + 16 * k, 16, 1024, 2), instruction_descriptor(1, 1, 1, 128, 64), k > 0);
        tcgen05_commit(&done);
    }
    __syncwarp();
    mbarrier_wait(&done, 0);
    tcgen05_after();
    store_rows(t, out, 64, 64);
    tcgen05_before();
    __syncthreads();
    if (threadIdx.x < 32) tcgen05_dealloc<128>(t);
}

// Registers to tensor memory and back in another shape.
extern "C" __global__ void tmem_shapes(const uint32_t* in, uint32_t* out) {
    __shared__ uint32_t address;
    if (threadIdx.x < 32) tcgen05_alloc<32>(&address);
    __syncthreads();
    uint32_t t = address + ((uint32_t)(threadIdx.x / 32 * 32) << 16), r[8], q[4];
    for (int i = 0; i < 8; ++i) r[i] = in[threadIdx.x * 8 + i];
    tcgen05_st_x8(t, r);
    tcgen05_wait_st();
    for (int h = 0; h < 2; ++h) {
        tcgen05_ld_16x256_x1(q, t + ((uint32_t)(h * 16) << 16));
        tcgen05_wait_ld();
        int row = threadIdx.x / 32 * 32 + h * 16 + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;
        for (int i = 0; i < 4; ++i) out[(row + i / 2 * 8) * 8 + col + i % 2] = q[i];
    }
    __syncthreads();
    if (threadIdx.x < 32) tcgen05_dealloc<32>(address);
}

extern "C" __global__ void packed_floats(const float2* a, const float2* b, float2* c) {
    unsigned long long x = reinterpret_cast<const unsigned long long&>(a[threadIdx.x]), y = reinterpret_cast<const unsigned long long&>(b[threadIdx.x]), z;
    asm("fma.rn.f32x2 %0, %1, %2, %1;" : "=l"(z) : "l"(x), "l"(y));
    c[threadIdx.x] = reinterpret_cast<float2&>(z);
}

// Block-scaled products of 128x64: four k-steps, scales copied to tensor memory by tcgen05.cp. The scales of 128
// rows are 32 lines of 16 bytes: line r % 32, word r / 32, one byte per block of K.
DEVICE void tcgen05_cp_scales(uint32_t t, const void* s) {
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(t), "l"(descriptor_sm100(s, 16, 128, 0)) : "memory");
}
#define SCALED_KERNEL(name, kind, idesc, atoms, column)                                                            \
    extern "C" __global__ void name(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, const uint4* scales_a, const uint4* scales_b, float* out) { \
        __shared__ alignas(1024) unsigned char a[128 * 128], b[64 * 128];                                        \
        __shared__ alignas(128) uint4 sa[atoms * 32], sb[atoms * 32];                                             \
        __shared__ uint64_t bar, done;                                                                            \
        __shared__ uint32_t address;                                                                              \
        if (threadIdx.x == 0) { mbarrier_init(&bar, 1); mbarrier_init(&done, 1); fence_mbarrier_init(); }         \
        if (threadIdx.x < 32) tcgen05_alloc<128>(&address);                                                       \
        for (int i = threadIdx.x; i < atoms * 32; i += blockDim.x) { sa[i] = scales_a[i]; sb[i] = scales_b[i]; }  \
        fence_proxy_async();                                                                                      \
        __syncthreads();                                                                                          \
        uint32_t t = address;                                                                                     \
        if (threadIdx.x == 0) {                                                                                   \
            mbarrier_expect_tx(&bar, sizeof(a) + sizeof(b));                                                      \
            tma_load_2d(a, &ma, &bar, 0, 0);                                                                      \
            tma_load_2d(b, &mb, &bar, 0, 0);                                                                      \
            mbarrier_wait(&bar, 0);                                                                               \
            for (int i = 0; i < atoms; ++i) { tcgen05_cp_scales(t + 64 + 4 * i, sa + 32 * i); tcgen05_cp_scales(t + 96 + 4 * i, sb + 32 * i); } \
            for (int k = 0; k < 4; ++k)                                                                           \
                asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0; tcgen05.mma.cta_group::1.kind::" kind " [%0], %1, %2, %3, [%4], [%5], p; }" \
                             ::"r"(t), "l"(descriptor_sm100(a + 32 * k, 16, 1024, 2)), "l"(descriptor_sm100(b + 32 * k, 16, 1024, 2)), "r"(idesc), \
                             "r"(t + 64 + column * k), "r"(t + 96 + column * k), "r"(k) : "memory");               \
            tcgen05_commit(&done);                                                                                \
        }                                                                                                         \
        __syncwarp();                                                                                             \
        mbarrier_wait(&done, 0);                                                                                  \
        tcgen05_after();                                                                                          \
        store_rows(t, out, 64, 64);                                                                               \
        tcgen05_before();                                                                                         \
        __syncthreads();                                                                                          \
        if (threadIdx.x < 32) tcgen05_dealloc<128>(t);                                                            \
    }
SCALED_KERNEL(mma_mxf8, "mxf8f6f4.block_scale.scale_vec::1X", k << 4 | 64 >> 3 << 17 | 1 << 23 | 1 << 27 | k << 29, 1, 0)
SCALED_KERNEL(mma_nvf4, "mxf4nvf4.block_scale.scale_vec::4X", 1 << 7 | 1 << 10 | 64 >> 3 << 17 | 1 << 27, 4, 4)
