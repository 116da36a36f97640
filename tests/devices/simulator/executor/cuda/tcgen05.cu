// Every kernel fills tensor memory, executes the instructions under test, and gives back all of tensor memory.
#define BLACKWELL
#include "ptx.cuh"

constexpr int COLUMNS = 512;

DEVICE void tcgen05_ld_x64(uint32_t* out, uint32_t t) {
    for (int c = 0; c < 64; c += 8) {
        uint32_t r[8];
        tcgen05_ld_x8(r, t + c);
        tcgen05_wait_ld();
        for (int i = 0; i < 8; ++i) out[c + i] = r[i];
    }
}
DEVICE void fill(uint32_t t, const uint32_t* words, int columns) {
    uint32_t lane = threadIdx.x % 128 / 32 * 32;
    for (int c = 0; c < columns; c += 8) {
        uint32_t r[8];
        for (int i = 0; i < 8; ++i) r[i] = words[threadIdx.x % 128 * columns + c + i];
        tcgen05_st_x8(t + (lane << 16) + c, r);
    }
    tcgen05_wait_st();
}
DEVICE void dump(uint32_t t, uint32_t* words, int columns) {
    uint32_t lane = threadIdx.x % 128 / 32 * 32;
    for (int c = 0; c < columns; c += 64) tcgen05_ld_x64(words + threadIdx.x % 128 * columns + c, t + (lane << 16) + c);
}

// ---------------------------------------------------------------- packed loads, unpacking stores
#define R2 "{%0, %1}"
#define R4 "{%0, %1, %2, %3}"
#define MOVE(name, shape, load, store, half)                                                                           \
    extern "C" __global__ void name(const uint32_t* before, const uint32_t* values, uint32_t* loaded, uint32_t* after) { \
        __shared__ uint32_t address;                                                                                   \
        if (threadIdx.x < 32) tcgen05_alloc<64>(&address);                                                             \
        __syncthreads();                                                                                               \
        uint32_t t = address, mine = t + ((threadIdx.x / 32 * 32u + half) << 16), r[4];                                \
        fill(t, before, 64);                                                                                           \
        asm volatile("tcgen05.ld.sync.aligned." shape ".pack::16b.b32 {%0, %1, %2, %3}, [%4]" load ";"                 \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(mine));                                    \
        tcgen05_wait_ld();                                                                                             \
        for (int i = 0; i < 4; ++i) loaded[threadIdx.x * 4 + i] = r[i];                                                \
        for (int i = 0; i < 4; ++i) r[i] = values[threadIdx.x * 4 + i];                                                \
        asm volatile("tcgen05.st.sync.aligned." shape ".unpack::16b.b32 [%4]" store ", {%0, %1, %2, %3};"              \
                     ::"r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(mine + 32) : "memory");                         \
        tcgen05_wait_st();                                                                                             \
        dump(t, after, 64);                                                                                            \
        __syncthreads();                                                                                               \
        if (threadIdx.x < 32) tcgen05_dealloc<64>(t);                                                                  \
    }
MOVE(move_32x32b, "32x32b.x4", "", "", 0)
MOVE(move_16x64b, "16x64b.x4", "", "", 16)
MOVE(move_16x128b, "16x128b.x2", "", "", 0)
MOVE(move_16x256b, "16x256b.x1", "", "", 16)
MOVE(move_16x32bx2, "16x32bx2.x4", ", 12", ", 12", 0)

// ---------------------------------------------------------------- copies and products
// Shared memory holds an image that the host laid out; descriptors come without its address.
struct Operands {
    unsigned long long a, b;
    uint32_t d, idesc, enable, scale_a, scale_b, a_tmem, mask[8];
};
#define OPERANDS                                                                                                   \
    ::"r"(t + o.d), "l"(a), "l"(b), "r"(o.idesc), "r"(o.enable), "r"(t + o.scale_a), "r"(t + o.scale_b),           \
        "r"(t + o.a_tmem), "r"(o.mask[0]), "r"(o.mask[1]), "r"(o.mask[2]), "r"(o.mask[3]), "r"(o.mask[4]),         \
        "r"(o.mask[5]), "r"(o.mask[6]), "r"(o.mask[7]) : "memory"
#define KERNEL(name, text, group, allocate, deallocate, commit, meet)                                              \
    extern "C" __global__ void group name(const uint4* image, int chunks, const uint32_t* before, uint32_t* after, const Operands* operands) { \
        extern __shared__ __align__(1024) uint4 bytes[];                                                           \
        __shared__ uint64_t done;                                                                                  \
        __shared__ uint32_t address;                                                                               \
        Operands o = *operands;                                                                                    \
        if (threadIdx.x == 0) { mbarrier_init(&done, 1); fence_mbarrier_init(); }                                  \
        if (threadIdx.x < 32) allocate<COLUMNS>(&address);                                                         \
        image += blockIdx.x * chunks; before += blockIdx.x * 128 * COLUMNS; after += blockIdx.x * 128 * COLUMNS;   \
        for (int i = threadIdx.x; i < chunks; i += 128) bytes[i] = image[i];                                       \
        fence_proxy_async();                                                                                       \
        __syncthreads();                                                                                           \
        uint32_t t = address;                                                                                      \
        fill(t, before, COLUMNS);                                                                                  \
        tcgen05_before();                                                                                          \
        meet;                                                                                                      \
        tcgen05_after();                                                                                           \
        unsigned long long a = o.a + (smem(bytes) >> 4), b = o.b + (smem(bytes) >> 4);                             \
        if (threadIdx.x == 0 && blockIdx.x == 0) {                                                                 \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; " text " }" OPERANDS);                             \
            commit;                                                                                                \
        }                                                                                                          \
        __syncwarp();                                                                                              \
        mbarrier_wait(&done, 0);                                                                                   \
        tcgen05_after();                                                                                           \
        dump(t, after, COLUMNS);                                                                                   \
        tcgen05_before();                                                                                          \
        meet;                                                                                                      \
        if (threadIdx.x < 32) deallocate<COLUMNS>(t);                                                              \
    }
#define ONE(name, text) KERNEL(name, text, , tcgen05_alloc, tcgen05_dealloc, tcgen05_commit(&done), __syncthreads())
#define PAIR(name, text) KERNEL(name, text, __cluster_dims__(2, 1, 1), tcgen05_alloc2, tcgen05_dealloc2, tcgen05_commit2(&done, 3), cluster_sync())
#define MMA "tcgen05.mma.cta_group::1.kind::"
#define MMA2 "tcgen05.mma.cta_group::2.kind::"
#define WS "tcgen05.mma.ws.cta_group::1.kind::"

ONE(shift, "tcgen05.shift.cta_group::1.down [%0];")
ONE(shift_and_refresh, "tcgen05.shift.cta_group::1.down [%0]; tcgen05.cp.cta_group::1.4x256b [%7], %1;")
ONE(unpack_4bit, "tcgen05.cp.cta_group::1.128x256b.b8x16.b4x16_p64 [%0], %1;")
ONE(unpack_6bit, "tcgen05.cp.cta_group::1.128x128b.b8x16.b6x16_p32 [%0], %1;")
ONE(f16, MMA "f16 [%0], %1, %2, %3, p;")
ONE(f16_ashift, MMA "f16.ashift.collector::a::lastuse [%0], [%7], %2, %3, p;")
ONE(f16_masked, MMA "f16 [%0], %1, %2, %3, {%8, %9, %10, %11}, p;")
ONE(f16_scaled, MMA "f16 [%0], %1, %2, %3, p, 3;")
ONE(f16_masked_scaled, MMA "f16.collector::a::fill [%0], %1, %2, %3, {%8, %9, %10, %11}, p, 1;")
ONE(tf32, MMA "tf32 [%0], %1, %2, %3, p;")
ONE(f8f6f4, MMA "f8f6f4 [%0], %1, %2, %3, p;")
ONE(f8f6f4_ts, MMA "f8f6f4 [%0], [%7], %2, %3, p;")
ONE(i8, MMA "i8 [%0], %1, %2, %3, p;")
ONE(mxf8f6f4, MMA "mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%5], [%6], p;")
ONE(mxf8f6f4_ts, MMA "mxf8f6f4.block_scale.block32 [%0], [%7], %2, %3, [%5], [%6], p;")
ONE(mxf4, MMA "mxf4.block_scale [%0], %1, %2, %3, [%5], [%6], p;")
ONE(mxf4_ts, MMA "mxf4.block_scale.scale_vec::2X [%0], [%7], %2, %3, [%5], [%6], p;")
ONE(mxf4nvf4_2x, MMA "mxf4nvf4.block_scale.scale_vec::2X [%0], %1, %2, %3, [%5], [%6], p;")
ONE(mxf4nvf4_4x, MMA "mxf4nvf4.block_scale.block16 [%0], %1, %2, %3, [%5], [%6], p;")
ONE(ws_f16, WS "f16.collector::b1::fill [%0], %1, %2, %3, p;")
ONE(ws_f16_ts, WS "f16 [%0], [%7], %2, %3, p;")
ONE(ws_f16_zeros, "{ .reg .b64 m; mov.b64 m, {%8, %9}; " WS "f16 [%0], %1, %2, %3, p, m; }")
ONE(ws_i8, WS "i8 [%0], %1, %2, %3, p;")
PAIR(pair_shift, "tcgen05.shift.cta_group::2.down [%0];")
PAIR(pair_f16, MMA2 "f16 [%0], %1, %2, %3, {%8, %9, %10, %11, %12, %13, %14, %15}, p;")
PAIR(pair_f16_ts, MMA2 "f16 [%0], [%7], %2, %3, p;")
PAIR(pair_mxf8f6f4, MMA2 "mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%5], [%6], p;")

// ---------------------------------------------------------------- without a row
ONE(sparse, "tcgen05.mma.sp.cta_group::1.kind::f16 [%0], %1, %2, [%7], %3, p;")
ONE(sparse_ws, "tcgen05.mma.ws.sp.cta_group::1.kind::f16 [%0], %1, %2, [%7], %3, p;")

// ---------------------------------------------------------------- packed tensor maps
// A tile of 8 rows to shared memory, its bytes to global memory, and bytes from there through the map again.
extern "C" __global__ void packed_tile(const __grid_constant__ CUtensorMap from, int bytes, int x, int y, uint4* tile) {
    __shared__ alignas(1024) uint4 rows[64];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_expect_tx(&full, bytes);
        tma_load_2d(rows, &from, &full, x, y);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    tile[threadIdx.x] = rows[threadIdx.x];
}
extern "C" __global__ void packed_store(const __grid_constant__ CUtensorMap to, const uint4* tile, int x, int y) {
    __shared__ alignas(1024) uint4 rows[64];
    rows[threadIdx.x] = tile[threadIdx.x];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        tma_store_2d(&to, rows, x, y);
        bulk_commit();
        bulk_wait<0>();
    }
}
