// Thin wrappers of the PTX instructions that the corpus uses, under PTX's own names.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>

#define DEVICE __device__ __forceinline__

DEVICE uint32_t smem(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// ---------------------------------------------------------------------------------------------- mbarrier
DEVICE void mbarrier_init(uint64_t* b, uint32_t n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(b)), "r"(n) : "memory"); }
DEVICE void mbarrier_arrive(uint64_t* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(b)) : "memory"); }
DEVICE void mbarrier_expect_tx(uint64_t* b, uint32_t n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(b)), "r"(n) : "memory"); }
DEVICE void mbarrier_arrive_cluster(uint64_t* b, uint32_t cta) {
    asm volatile("{ .reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r]; }" ::"r"(smem(b)), "r"(cta) : "memory");
}
DEVICE void mbarrier_wait(uint64_t* b, uint32_t parity) {
    asm volatile("{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra WAIT; }" ::"r"(smem(b)), "r"(parity) : "memory");
}
DEVICE bool mbarrier_test(uint64_t* b, uint32_t parity) {
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(smem(b)), "r"(parity) : "memory");
    return done;
}
DEVICE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void cluster_sync() { asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
DEVICE uint32_t cluster_rank() { uint32_t r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
DEVICE void bar_sync(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
DEVICE void bar_arrive(int id, int n) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory"); }
DEVICE bool elect_one() {
    uint32_t r;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(r));
    return r;
}

// --------------------------------------------------------------------------------------- TMA and bulk copies
DEVICE void tma_load_2d(void* d, const CUtensorMap* m, uint64_t* b, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(smem(d)), "l"(m), "r"(smem(b)), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_load_3d(void* d, const CUtensorMap* m, uint64_t* b, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(smem(d)), "l"(m), "r"(smem(b)), "r"(x), "r"(y), "r"(z) : "memory");
}
DEVICE void tma_load_2d_multicast(void* d, const CUtensorMap* m, uint64_t* b, int x, int y, uint16_t mask) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(smem(d)), "l"(m), "r"(smem(b)), "r"(x), "r"(y), "h"(mask) : "memory");
}
DEVICE void tma_store_2d(const CUtensorMap* m, const void* s, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(m), "r"(smem(s)), "r"(x), "r"(y) : "memory");
}
DEVICE void tma_reduce_add_2d(const CUtensorMap* m, const void* s, int x, int y) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(m), "r"(smem(s)), "r"(x), "r"(y) : "memory");
}
DEVICE void bulk_load(void* d, const void* g, uint32_t n, uint64_t* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem(d)), "l"(g), "r"(n), "r"(smem(b)) : "memory");
}
DEVICE void bulk_store(void* g, const void* s, uint32_t n) { asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(g), "r"(smem(s)), "r"(n) : "memory"); }
DEVICE void bulk_reduce_add_f32(void* g, const void* s, uint32_t n) { asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(g), "r"(smem(s)), "r"(n) : "memory"); }
DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> DEVICE void bulk_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }
template <int N> DEVICE void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }

// ------------------------------------------------------------------------------------------- Ampere
DEVICE void cp_async_16(void* d, const void* g) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(d)), "l"(g) : "memory"); }
DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEVICE void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
DEVICE void ldmatrix_x4(uint32_t (&r)[4], const void* p) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem(p)) : "memory"); }
DEVICE void ldmatrix_x2(uint32_t (&r)[2], const void* p) { asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(smem(p)) : "memory"); }
DEVICE void stmatrix_x4(void* p, uint32_t a, uint32_t b, uint32_t c, uint32_t d) { asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(smem(p)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }
DEVICE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// ------------------------------------------------------------------------------------------- wgmma
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// Start, leading and stride byte offsets, swizzle: 0 none, 1 = 128B, 2 = 64B, 3 = 32B.
DEVICE uint64_t descriptor(const void* p, uint32_t lbo, uint32_t sbo, uint64_t swizzle) {
    return (uint64_t)((smem(p) & 0x3ffff) >> 4) | (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 | swizzle << 62;
}
#define R8(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define D32 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define WGMMA_N64(name, op, tail)                                                                                             \
    DEVICE void name(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {                                              \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned." op " " D32 ", %32, %33, p, " tail "; }" \
                     : R8(d, 0), R8(d, 8), R8(d, 16), R8(d, 24) : "l"(a), "l"(b), "r"(accumulate));                         \
    }
WGMMA_N64(wgmma_bf16, "m64n64k16.f32.bf16.bf16", "1, 1, 0, 0")
WGMMA_N64(wgmma_bf16_tb, "m64n64k16.f32.bf16.bf16", "1, 1, 0, 1")
WGMMA_N64(wgmma_bf16_tab, "m64n64k16.f32.bf16.bf16", "1, 1, 1, 1")
WGMMA_N64(wgmma_f16, "m64n64k16.f32.f16.f16", "1, 1, 0, 0")
WGMMA_N64(wgmma_tf32, "m64n64k8.f32.tf32.tf32", "1, 1")
WGMMA_N64(wgmma_e4m3, "m64n64k32.f32.e4m3.e4m3", "1, 1")
DEVICE void wgmma_s8(int (&d)[32], uint64_t a, uint64_t b, int accumulate) {
#define I8(d, i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 " D32 ", %32, %33, p; }"
                 : I8(d, 0), I8(d, 8), I8(d, 16), I8(d, 24) : "l"(a), "l"(b), "r"(accumulate));
}
DEVICE void wgmma_rs_bf16(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " D32 ", {%32,%33,%34,%35}, %36, p, 1, 1, 1; }"
                 : R8(d, 0), R8(d, 8), R8(d, 16), R8(d, 24) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}
DEVICE uint32_t pack_bf16(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return reinterpret_cast<uint32_t&>(v);
}

// ------------------------------------------------------------------------------------------- tcgen05
DEVICE uint64_t descriptor_sm100(const void* p, uint32_t lbo, uint32_t sbo, uint64_t swizzle) {
    return (uint64_t)((smem(p) & 0x3ffff) >> 4) | (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 | (uint64_t)1 << 46 | swizzle << 61;
}
#ifdef BLACKWELL
template <int C> DEVICE void tcgen05_alloc(uint32_t* s) { asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(smem(s)), "n"(C) : "memory"); }
template <int C> DEVICE void tcgen05_dealloc(uint32_t t) { asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(t), "n"(C)); }
template <int C> DEVICE void tcgen05_alloc2(uint32_t* s) { asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(smem(s)), "n"(C) : "memory"); }
template <int C> DEVICE void tcgen05_dealloc2(uint32_t t) { asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(t), "n"(C)); }
#define TCGEN05_MMA(name, group, kind)                                                                                            \
    DEVICE void name(uint32_t d, uint64_t a, uint64_t b, uint32_t idesc, uint32_t accumulate) {                                 \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::" group ".kind::" kind " [%0], %1, %2, %3, p; }" \
                     ::"r"(d), "l"(a), "l"(b), "r"(idesc), "r"(accumulate) : "memory");                                         \
    }
TCGEN05_MMA(tcgen05_mma_f16, "1", "f16")
TCGEN05_MMA(tcgen05_mma_tf32, "1", "tf32")
TCGEN05_MMA(tcgen05_mma_f8, "1", "f8f6f4")
TCGEN05_MMA(tcgen05_mma_i8, "1", "i8")
TCGEN05_MMA(tcgen05_mma2_f16, "2", "f16")
DEVICE void tcgen05_mma_ts_f16(uint32_t d, uint32_t a, uint64_t b, uint32_t idesc, uint32_t accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p; }" ::"r"(d), "r"(a), "l"(b), "r"(idesc), "r"(accumulate) : "memory");
}
DEVICE void tcgen05_commit(uint64_t* b) { asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(smem(b)) : "memory"); }
DEVICE void tcgen05_commit2(uint64_t* b, uint16_t mask) { asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(smem(b)), "h"(mask) : "memory"); }
DEVICE void tcgen05_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
DEVICE void tcgen05_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
DEVICE void tcgen05_wait_ld() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
DEVICE void tcgen05_wait_st() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
DEVICE void tcgen05_ld_x8(uint32_t (&r)[8], uint32_t t) { asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) : "r"(t)); }
DEVICE void tcgen05_st_x8(uint32_t t, const uint32_t (&r)[8]) { asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8};" ::"r"(t), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7]) : "memory"); }
DEVICE void tcgen05_ld_16x256_x1(uint32_t (&r)[4], uint32_t t) { asm volatile("tcgen05.ld.sync.aligned.16x256b.x1.b32 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(t)); }
// D in f32: type codes of A and B (f16 kind: 0 f16, 1 bf16; tf32: 2; f8: 0 e4m3, 1 e5m2).
DEVICE uint32_t instruction_descriptor(uint32_t result, uint32_t a, uint32_t b, uint32_t m, uint32_t n) { return result << 4 | a << 7 | b << 10 | (n >> 3) << 17 | (m >> 4) << 24; }
#endif
