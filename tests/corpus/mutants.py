"""Mutants of the good kernels: each breaks one contract and must be found under one of the codes named.

A mutant replaces text of the kernel's source; ``count`` says which occurrence (0 for all).
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.corpus.kernels import GOOD


@dataclass(frozen=True)
class Mutant:
    name: str
    kernel: str
    old: str
    new: str
    codes: tuple[str, ...]
    count: int = 0
    within: str = ""
    """Only after this text, which names the kernel in files that hold several."""

    @property
    def source(self) -> str:
        text = GOOD[self.kernel].source
        start = text.index(self.within) if self.within else 0
        head, body = text[:start], text[start:]
        assert self.old in body, f"{self.name}: {self.old!r} is not in the source"
        if self.count == 0:
            return (
                head + body.replace(self.old, self.new)
                if not self.within
                else head + body.replace(self.old, self.new, 1)
            )
        parts = body.split(self.old)
        return head + self.old.join(parts[: self.count]) + self.new + self.old.join(parts[self.count :])


MUTANTS: list[Mutant] = []


def mutant(kernel: str, name: str, old: str, new: str, *codes: str, count: int = 0, within: str = "") -> None:
    MUTANTS.append(Mutant(f"{kernel}: {name}", kernel, old, new, codes, count, within))


STALE = ("read-before-arrival",)
SYNC = "__syncthreads();"

# -- plain CUDA ----------------------------------------------------------------------------------------
at = "void vector_add"
mutant("vector_add", "no bounds check", "if (i < n) c[i]", "c[i]", "out-of-bounds", within=at)
mutant("vector_add", "off by one element", "c[i] = a[i]", "c[i + 1] = a[i]", "out-of-bounds", within=at)
mutant("vector_add", "address in bytes", "c[i] = a[i]", "*(float*)((char*)c + i) = a[i]", "misaligned", within=at)
mutant("vector_add", "null pointer", "c[i] = a[i]", "((float*)((size_t)c & 255))[i] = a[i]", "out-of-bounds", within=at)
mutant("vector_add", "negative index", "c[i] = a[i]", "c[i] = a[i - 900000]", "out-of-bounds", within=at)
mutant(
    "vector_add",
    "endless loop",
    "c[i] = a[i] + b[i];",
    "while (((volatile float*)a)[0] != 1e30f); if (i < n) c[i] = a[i] + b[i];",
    "endless-loop",
    within=at,
)
mutant("vector_add", "trap", "c[i] = a[i]", 'asm volatile("trap;"); c[i] = a[i]', "trap", within=at)
at = "void tiled_gemm"
mutant("tiled_gemm", "no barrier after the fill", f"{SYNC}  // tile is complete", "", "shared-race", within=at)
mutant("tiled_gemm", "no barrier before the next fill", f"{SYNC}  // tile is used up", "", "shared-race", within=at)
mutant("tiled_gemm", "barrier of one warp", f"{SYNC}  // tile is complete", "__syncwarp();", "shared-race", within=at)
mutant(
    "tiled_gemm",
    "half the threads at the barrier",
    f"{SYNC}  // tile is used up",
    'if (y < 8) asm volatile("bar.sync 0, 256;");',
    "deadlock",
    within=at,
)
mutant("tiled_gemm", "a tile too narrow", "a[16][16], b[16][16]", "a[16][16], b[8][16]", "out-of-bounds", within=at)
mutant(
    "tiled_gemm", "one operand is not filled", "b[y][x] = B[(k0 + y) * N + col];", "", "uninitialised-shared", within=at
)
at = "void softmax"
mutant(
    "softmax",
    "no barrier after the maxima",
    "if (lane == 0) part[warp] = top;\n    __syncthreads();",
    "if (lane == 0) part[warp] = top;",
    "shared-race",
    "uninitialised-shared",
    within=at,
)
mutant(
    "softmax",
    "buffer reused too early",
    "top = fmaxf(top, part[i]);\n    __syncthreads();",
    "top = fmaxf(top, part[i]);",
    "shared-race",
    within=at,
)
mutant(
    "softmax",
    "no barrier after the sums",
    "if (lane == 0) part[warp] = sum;\n    __syncthreads();",
    "if (lane == 0) part[warp] = sum;",
    "shared-race",
    within=at,
)
at = "void histogram"
mutant(
    "histogram",
    "bins are not cleared",
    "if (threadIdx.x < 64) local[threadIdx.x] = 0;",
    "",
    "uninitialised-shared",
    within=at,
)
mutant("histogram", "bin outside of the table", "x[i] & 63", "x[i] & 1023", "out-of-bounds", within=at)
at = "void transpose"
mutant("transpose", "no barrier", f"{SYNC}", "", "shared-race", "uninitialised-shared", within=at)
mutant("transpose", "tile too small", "tile[32][33]", "tile[31][33]", "out-of-bounds", within=at)
at = "fibonacci"
mutant(
    "calls",
    "endless recursion",
    "n < 2 ? n : fibonacci(n - 1)",
    "n > 99 ? n : fibonacci(n - 1)",
    "stack-overflow",
    within=at,
)
at = "void constants_and_locals"
mutant(
    "constants_and_locals",
    "local array overrun",
    "stack[index[i] & 31]",
    "stack[(index[i] & 31) + 400000]",
    "out-of-bounds",
    within=at,
)
at = "void named_barriers"
mutant(
    "named_barriers",
    "full is never signalled",
    'asm volatile("bar.arrive %0, 128;" ::"r"(1 + s % 2) : "memory");',
    "",
    "deadlock",
    within=at,
)
mutant(
    "named_barriers",
    "free is never signalled",
    'if (s + 2 < steps) asm volatile("bar.arrive %0, 128;" ::"r"(3 + s % 2) : "memory");',
    "",
    "deadlock",
    within=at,
)
mutant(
    "named_barriers",
    "count of one side",
    '"bar.sync %0, 128;" ::"r"(1 + s % 2)',
    '"bar.sync %0, 160;" ::"r"(1 + s % 2)',
    "deadlock",
    "barrier-count",
    within=at,
)
at = "void grid_barrier"
mutant("grid_barrier", "one block too many is awaited", "< gridDim.x)", "< gridDim.x + 1)", "endless-loop", within=at)

# -- Ampere --------------------------------------------------------------------------------------------
at = "void __launch_bounds__(128) mma_gemm"
mutant(
    "mma_gemm", "waits for the wrong group", "cp_async_wait<1>()", "cp_async_wait<2>()", "cp-async-in-flight", within=at
)
mutant("mma_gemm", "does not wait at the end", "else cp_async_wait<0>();", "", "cp-async-in-flight", within=at)
mutant(
    "mma_gemm",
    "no barrier after the wait",
    f"{SYNC}  // stage is here",
    "",
    "shared-race",
    "cp-async-in-flight",
    within=at,
)
mutant("mma_gemm", "no barrier before the next copy", f"{SYNC}  // stage is free", "", "shared-race", within=at)
mutant("mma_gemm", "no commit", "cp_async_commit();\n    };", "};", "cp-async-in-flight", within=at)
mutant("mma_gemm", "copy to an unaligned place", "PAD = 8", "PAD = 4", "misaligned")
mutant(
    "mma_gemm",
    "reads past A",
    "A + (size_t)(row0 + r) * K + k + c",
    "A + (size_t)(row0 + r + 8) * K + k + c",
    "out-of-bounds",
    within=at,
)

# -- copies and clusters -------------------------------------------------------------------------------
at = "void tma_round_trip"
WAIT, FENCE = "mbarrier_wait(&bar, 0);", "fence_proxy_async();"
mutant("tma_round_trip", "no wait", WAIT, "", *STALE, within=at)
mutant("tma_round_trip", "no proxy fence", FENCE, "", "missing-proxy-fence", within=at)
mutant("tma_round_trip", "no barrier before the store", f"{FENCE}\n    {SYNC}", FENCE, "shared-race", within=at)
mutant(
    "tma_round_trip",
    "fence by one thread only",
    f"{FENCE}\n    {SYNC}\n    if (threadIdx.x == 0) {{",
    f"if (threadIdx.x == 0) {FENCE}\n    {SYNC}\n    if (threadIdx.x == 0) {{",
    "missing-proxy-fence",
    within=at,
)
mutant("tma_round_trip", "does not wait for the store", "bulk_wait<0>();", "", "bulk-not-waited", within=at)
mutant("tma_round_trip", "does not commit the store", "bulk_commit();", "", "bulk-not-waited", within=at)
mutant(
    "tma_round_trip", "expects too many bytes", "sizeof(tile)); tma", "sizeof(tile) + 16); tma", "deadlock", within=at
)
mutant("tma_round_trip", "expects nothing", "mbarrier_expect_tx(&bar, sizeof(tile)); tma", "tma", "deadlock", within=at)
mutant(
    "tma_round_trip",
    "arrives before it expects",
    "mbarrier_expect_tx(&bar, sizeof(tile)); tma",
    "mbarrier_arrive(&bar); tma",
    *STALE,
    "deadlock",
    "tx-count",
    within=at,
)
mutant(
    "tma_round_trip", "two arrivals needed", "mbarrier_init(&bar, 1)", "mbarrier_init(&bar, 2)", "deadlock", within=at
)
mutant("tma_round_trip", "waits for the other parity", WAIT, "mbarrier_wait(&bar, 1);", *STALE, within=at)
mutant(
    "tma_round_trip", "barrier is not initialised", "mbarrier_init(&bar, 1);", "", "mbarrier-uninitialised", within=at
)
mutant(
    "tma_round_trip",
    "no barrier after the initialisation",
    f"fence_mbarrier_init(); }}\n    {SYNC}",
    "fence_mbarrier_init(); }",
    "mbarrier-init-race",
    "mbarrier-uninitialised",
    within=at,
)
mutant(
    "tma_round_trip", "unaligned tile", "tma_load_2d(tile, &in", "tma_load_2d(&tile[0][4], &in", "misaligned", within=at
)
mutant(
    "tma_round_trip",
    "tile too small",
    "float tile[32][32]",
    "float tile[32][31]",
    "out-of-bounds",
    "deadlock",
    within=at,
)
mutant(
    "tma_round_trip",
    "map and pointer confused",
    "tma_load_2d(tile, &in",
    "tma_load_2d(tile, (const CUtensorMap*)((const char*)&in + 64)",
    "not-a-tensor-map",
    within=at,
)
mutant(
    "tma_round_trip",
    "wrong rank",
    "tma_load_2d(tile, &in, &bar, x, y)",
    "tma_load_3d(tile, &in, &bar, x, y, 0)",
    "tensor-rank",
    within=at,
)
at = "void tma_reduce"
mutant("tma_reduce", "no proxy fence", FENCE, "", "missing-proxy-fence", within=at)
mutant("tma_reduce", "no barrier", f"{FENCE}\n    {SYNC}", FENCE, "shared-race", within=at)
mutant("tma_reduce", "begins outside", "tile, 0, 0);", "tile, 0, -1);", "tensor-coordinate", within=at)
mutant("tma_reduce", "begins between", "tile, 0, 0);", "tile, 1, 0);", "tensor-coordinate", within=at)
mutant(
    "tma_reduce",
    "maximum of floats",
    "tma_reduce_add_2d(&out, tile, 0, 0);",
    'asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group [%0, {%2, %2}], [%1];" '
    '::"l"(&out), "r"(smem(tile)), "r"(0) : "memory");',
    "tensor-reduction",
    within=at,
)
mutant("tma_reduce", "does not wait", "bulk_wait<0>();", "", "bulk-not-waited", within=at)
at = "void bulk_copies"
mutant("bulk_copies", "no wait", WAIT, "", *STALE, within=at)
mutant("bulk_copies", "no proxy fence", FENCE, "", "missing-proxy-fence", within=at)
mutant("bulk_copies", "no barrier before the store", f"{FENCE}\n    {SYNC}", FENCE, "shared-race", within=at)
mutant(
    "bulk_copies",
    "size is no multiple of 16",
    "in + blockIdx.x * 256, sizeof(tile), &bar",
    "in + blockIdx.x * 256, sizeof(tile) - 4, &bar",
    "bulk-size",
    within=at,
)
mutant(
    "bulk_copies",
    "source is not aligned",
    "in + blockIdx.x * 256, sizeof(tile)",
    "in + blockIdx.x * 256 + 1, sizeof(tile)",
    "misaligned",
    within=at,
)
mutant(
    "bulk_copies",
    "source out of bounds",
    "in + blockIdx.x * 256, sizeof(tile)",
    "in + blockIdx.x * 512, sizeof(tile)",
    "out-of-bounds",
    within=at,
)
mutant(
    "bulk_copies",
    "store out of bounds",
    "out + blockIdx.x * 256",
    "out + blockIdx.x * 1024",
    "out-of-bounds",
    within=at,
)
mutant("bulk_copies", "does not wait", "bulk_wait<0>();", "", "bulk-not-waited", within=at)
at = "void ring_sum"
_READ, _RELEASE = "sum += stage[s][127 - threadIdx.x];", "if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[s]);"
mutant(
    "ring_sum",
    "empty is never signalled",
    "if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[s]);",
    "",
    "deadlock",
    within=at,
)
mutant(
    "ring_sum", "producer does not wait", "mbarrier_wait(&empty[s], i / STAGES & 1 ^ 1);", "", "stage-reuse", within=at
)
mutant("ring_sum", "consumer does not wait", "mbarrier_wait(&full[s], i / STAGES & 1);", "", *STALE, within=at)
mutant(
    "ring_sum",
    "one arrival too few",
    "mbarrier_init(&empty[s], 4)",
    "mbarrier_init(&empty[s], 3)",
    "stage-reuse",
    "mbarrier-over-arrival",
    within=at,
)
mutant(
    "ring_sum",
    "one arrival too many",
    "mbarrier_init(&empty[s], 4)",
    "mbarrier_init(&empty[s], 5)",
    "deadlock",
    within=at,
)
mutant(
    "ring_sum",
    "released before it is read",
    f"{_READ}\n            __syncwarp();\n            {_RELEASE}",
    f"{_RELEASE}\n            __syncwarp();\n            {_READ}",
    "stage-reuse",
    *STALE,
    within=at,
)
mutant("ring_sum", "producer's first wait", "i / STAGES & 1 ^ 1);", "i / STAGES & 1);", "deadlock", within=at)
mutant(
    "ring_sum",
    "parity never flips",
    "mbarrier_wait(&full[s], i / STAGES & 1);",
    "mbarrier_wait(&full[s], 0);",
    *STALE,
    "stage-reuse",
    "deadlock",
    within=at,
)
mutant(
    "ring_sum",
    "waits for the neighbouring stage",
    "mbarrier_wait(&full[s], i / STAGES & 1);",
    "mbarrier_wait(&full[(s + 2) % STAGES], (i + 2) / STAGES - 1 & 1);",
    *STALE,
    "deadlock",
    within=at,
)
mutant(
    "ring_sum",
    "one warp does not release",
    "if (threadIdx.x % 32 == 0) mbarrier_arrive",
    "if (threadIdx.x % 32 == 0 && threadIdx.x != 96) mbarrier_arrive",
    "deadlock",
    within=at,
)
at = "void __cluster_dims__(4, 1, 1) cluster_exchange"
mutant(
    "cluster_exchange",
    "no barrier before the read",
    "cluster_sync();  // all values are there",
    "",
    "uninitialised-shared",
    "shared-race",
    within=at,
)
mutant(
    "cluster_exchange",
    "leaves too early",
    "cluster_sync();  // nobody leaves before it was read",
    "",
    "remote-after-exit",
    within=at,
)
mutant(
    "cluster_exchange",
    "rank outside of the cluster",
    "(cluster_rank() + 1) % 4",
    "cluster_rank() + 1",
    "out-of-bounds",
    within=at,
)
at = "void __cluster_dims__(2, 1, 1) send_async"
mutant(
    "send_async",
    "peer may not be ready",
    "mbarrier_expect_tx(&bar, sizeof(inbox)); }\n    cluster_sync();",
    "mbarrier_expect_tx(&bar, sizeof(inbox)); }\n    __syncthreads();",
    "mbarrier-uninitialised",
    "mbarrier-init-race",
    within=at,
)
mutant("send_async", "expects too much", "sizeof(inbox))", "sizeof(inbox) + 4)", "deadlock", within=at)
mutant("send_async", "no wait", WAIT, "", *STALE, within=at)
at = "void __cluster_dims__(2, 1, 1) multicast"
mutant("multicast", "mask names a CTA that is not there", "rank * 16, 3)", "rank * 16, 7)", "multicast-mask", within=at)
mutant("multicast", "mask without the peer", "rank * 16, 3)", "rank * 16, 1 << rank)", "deadlock", within=at)
mutant(
    "multicast",
    "expects its own half only",
    "sizeof(tile)); tma",
    "sizeof(tile) / 2); tma",
    *STALE,
    "deadlock",
    within=at,
)
mutant(
    "multicast",
    "peer's barrier is not initialised yet",
    "fence_mbarrier_init(); }\n    cluster_sync();",
    "fence_mbarrier_init(); }\n    __syncthreads();",
    "mbarrier-uninitialised",
    "mbarrier-init-race",
    within=at,
)

# -- wgmma ---------------------------------------------------------------------------------------------
at = "void wgmma_s8_plain"
mutant("wgmma_s8_plain", "no proxy fence", FENCE, "", "missing-proxy-fence", within=at)
mutant("wgmma_s8_plain", "no barrier", f"{FENCE}\n    {SYNC}", FENCE, "shared-race", within=at)
mutant("wgmma_s8_plain", "no wait", "wgmma_wait<0>();", "", "wgmma-in-flight", within=at)
mutant("wgmma_s8_plain", "no commit", "wgmma_commit();", "", "wgmma-in-flight", within=at)
mutant("wgmma_s8_plain", "no fence", "wgmma_fence();", "", "wgmma-fence", within=at)
mutant(
    "wgmma_s8_plain",
    "descriptor beyond shared memory",
    "descriptor(b, 1024, 128, 0)",
    "descriptor(b, 16384, 128, 0)",
    "descriptor",
    within=at,
)
at = "void wgmma_rs_transposed"
mutant("wgmma_rs_transposed", "no wait for B", WAIT, "", *STALE, within=at)
mutant(
    "wgmma_rs_transposed",
    "swizzle of the descriptor",
    "8192, 1024, 1), k > 0",
    "8192, 1024, 2), k > 0",
    "swizzle-mismatch",
    "descriptor",
    within=at,
)
at = "void __launch_bounds__(256, 1)\ngemm" if False else ""
mutant("gemm", "expects 16 bytes too many", "(BM + BN) * BK * 2);", "(BM + BN) * BK * 2 + 16);", "deadlock")
mutant("gemm", "expects one tile only", "(BM + BN) * BK * 2);", "BM * BK * 2);", *STALE, "deadlock")
mutant("gemm", "empty is never signalled", "if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[s]);", "", "deadlock")
mutant(
    "gemm",
    "empty needs too few arrivals",
    "mbarrier_init(&empty[s], 4)",
    "mbarrier_init(&empty[s], 2)",
    "mbarrier-over-arrival",
    "stage-reuse",
    "deadlock",
)
mutant(
    "gemm", "empty needs too many arrivals", "mbarrier_init(&empty[s], 4)", "mbarrier_init(&empty[s], 8)", "deadlock"
)
mutant("gemm", "consumer does not wait", "mbarrier_wait(&full[s], i / STAGES & 1);", "", *STALE)
mutant("gemm", "producer does not wait", "mbarrier_wait(&empty[s], i / STAGES & 1 ^ 1);", "", "stage-reuse")
mutant("gemm", "producer's parity", "i / STAGES & 1 ^ 1);", "i / STAGES & 1);", "deadlock")
mutant(
    "gemm",
    "consumer's parity",
    "mbarrier_wait(&full[s], i / STAGES & 1);",
    "mbarrier_wait(&full[s], i / STAGES & 1 ^ 1);",
    *STALE,
    "deadlock",
)
mutant(
    "gemm",
    "swizzle of A's descriptor",
    "k * 16, 16, 1024, 1), descriptor(b",
    "k * 16, 16, 1024, 2), descriptor(b",
    "swizzle-mismatch",
)
mutant(
    "gemm",
    "no swizzle in B's descriptor",
    "BN * BK + k * 16, 16, 1024, 1), 1)",
    "BN * BK + k * 16, 16, 1024, 0), 1)",
    "swizzle-mismatch",
)
mutant("gemm", "no proxy fence in the epilogue", FENCE, "", "missing-proxy-fence")
mutant("gemm", "no barrier in the epilogue", "bar_sync(1, 128);", "", "shared-race")
mutant("gemm", "barrier counts the producer", "bar_sync(1, 128);", "bar_sync(1, 256);", "deadlock")
mutant("gemm", "no wgmma wait", "wgmma_wait<0>();", "", "wgmma-in-flight", "stage-reuse")
mutant("gemm", "waits for one group too few", "wgmma_wait<0>();", "wgmma_wait<1>();", "stage-reuse", "wgmma-in-flight")
mutant("gemm", "no commit", "wgmma_commit();", "", "wgmma-in-flight", "stage-reuse")
mutant("gemm", "no wgmma fence", "wgmma_fence();", "", "wgmma-fence")
mutant("gemm", "store is not waited for", "bulk_wait_read<0>();", "", "bulk-not-waited")
mutant("gemm", "barriers are not initialised", "mbarrier_init(&full[s], 1);", "", "mbarrier-uninitialised")
mutant(
    "gemm",
    "no barrier after the initialisation",
    f"    }}\n    {SYNC}\n    if (threadIdx.x >= 128) {{",
    "    }\n    if (threadIdx.x >= 128) {",
    "mbarrier-init-race",
    "mbarrier-uninitialised",
)
mutant(
    "gemm",
    "tile at an odd address",
    "tma_load_2d(a + s * BM * BK, &ma",
    "tma_load_2d(a + s * BM * BK + 8, &ma",
    "misaligned",
)
mutant(
    "gemm",
    "B lands in the next stage",
    "tma_load_2d(b + s * BN * BK, &mb",
    "tma_load_2d(b + (s + 1) % STAGES * BN * BK, &mb",
    *STALE,
    "stage-reuse",
)
mutant(
    "gemm",
    "A signals the wrong barrier",
    "tma_load_2d(a + s * BM * BK, &ma, &full[s]",
    "tma_load_2d(a + s * BM * BK, &ma, &full[(s + 1) % STAGES]",
    *STALE,
    "deadlock",
)
mutant(
    "gemm",
    "releases before the product is done",
    "wgmma_wait<0>();\n            if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[s]);",
    "if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[s]);\n            wgmma_wait<0>();",
    "stage-reuse",
)
mutant(
    "gemm",
    "fewer threads at a warpgroup instruction",
    "wgmma_commit();",
    "if (threadIdx.x < 96) wgmma_commit();",
    "deadlock",
)
mutant(
    "gemm",
    "consumer ends one step early",
    "for (int i = 0; i < steps; ++i) {\n            int s = i % STAGES;\n            mbarrier_wait(&full",
    "for (int i = 0; i < steps - 5; ++i) {\n            int s = i % STAGES;\n            mbarrier_wait(&full",
    "deadlock",
)
mutant(
    "attention",
    "buffer reused while others read it",
    f"{SYNC}  // everyone is done with this buffer",
    "",
    "stage-reuse",
)
mutant("attention", "no wait for Q", "mbarrier_wait(&full_q, 0);", "", *STALE)
mutant("attention", "no wait for K and V", "mbarrier_wait(&full[i % 2], i / 2 & 1);", "", *STALE)
mutant("attention", "wrong parity", "i / 2 & 1);", "i & 1);", *STALE, "deadlock")
mutant("attention", "V is not expected", "2 * BLOCK * D * 2);", "BLOCK * D * 2);", *STALE, "deadlock", "stage-reuse")
mutant(
    "attention",
    "fetches two ahead",
    "fetch(i + 1);",
    "fetch(i + 2 < steps ? i + 2 : i + 1);",
    "stage-reuse",
    "deadlock",
    *STALE,
)
mutant(
    "attention",
    "first wgmma is not waited for",
    "wgmma_wait<0>();\n        uint32_t p[16];",
    "uint32_t p[16];",
    "wgmma-in-flight",
)
mutant(
    "attention",
    "second wgmma is not waited for",
    f"wgmma_wait<0>();\n        {SYNC}",
    SYNC,
    "wgmma-in-flight",
    "stage-reuse",
)
mutant("attention", "swizzle of V", "8192, 1024, 1), 1)", "8192, 1024, 3), 1)", "swizzle-mismatch", "descriptor")

# -- tcgen05 -------------------------------------------------------------------------------------------
at = "gemm_tcgen05"
mutant("gemm_tcgen05", "empty is never signalled", "tcgen05_commit(&empty[s]);", "", "deadlock", within=at)
mutant("gemm_tcgen05", "done is never signalled", "tcgen05_commit(&done);", "", "deadlock", within=at)
mutant(
    "gemm_tcgen05",
    "epilogue does not wait",
    "mbarrier_wait(&done, 0);",
    "",
    "tmem-in-flight",
    "tmem-uninitialised",
    within=at,
)
mutant("gemm_tcgen05", "no deallocation", "if (warp == 1) tcgen05_dealloc<128>(t);", "", "tmem-leak", within=at)
mutant(
    "gemm_tcgen05",
    "allocates after giving up the right",
    "if (warp == 1) tcgen05_alloc<128>(&address);",
    'if (warp == 1) { asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"); '
    "tcgen05_alloc<128>(&address); }",
    "tmem-alloc",
    within=at,
)
mutant("gemm_tcgen05", "too few columns", "tcgen05_alloc<128>", "tcgen05_alloc<64>", "tmem-out-of-bounds", within=at)
mutant("gemm_tcgen05", "accumulates from the first step", "(i | k) != 0)", "1)", "tmem-uninitialised", within=at)
mutant("gemm_tcgen05", "no wait for the tiles", "mbarrier_wait(&full[s], i / STAGES & 1);", "", *STALE, within=at)
mutant(
    "gemm_tcgen05",
    "no wait for free stages",
    "mbarrier_wait(&empty[s], i / STAGES & 1 ^ 1);",
    "",
    "stage-reuse",
    within=at,
)
mutant(
    "gemm_tcgen05",
    "swizzle of A's descriptor",
    "k * 16, 16, 1024, 2), descriptor_sm100(b",
    "k * 16, 16, 1024, 4), descriptor_sm100(b",
    "swizzle-mismatch",
    within=at,
)
mutant(
    "gemm_tcgen05",
    "shape that does not exist",
    "instruction_descriptor(1, 1, 1, BM, BN)",
    "instruction_descriptor(1, 1, 1, BM + 16, BN)",
    "instruction-descriptor",
    within=at,
)
mutant("gemm_tcgen05", "expects too much", "(BM + BN) * BK * 2);", "(BM + BN) * BK * 2 + 32);", "deadlock", within=at)
mutant(
    "gemm_tcgen05",
    "reserved swizzle mode",
    "k * 16, 16, 1024, 2), descriptor_sm100(b",
    "k * 16, 16, 1024, 3), descriptor_sm100(b",
    "descriptor",
    within=at,
)
mutant("gemm_tcgen05", "wrong lanes", "t + (uint32_t)(warp * 32 << 16) + c", "t + c", "tmem-lane")
mutant(
    "gemm_tcgen05",
    "deallocates twice",
    "if (warp == 1) tcgen05_dealloc<128>(t);",
    "if (warp == 1) { tcgen05_dealloc<128>(t); tcgen05_dealloc<128>(t); }",
    "tmem-dealloc",
    within=at,
)
mutant("gemm_tcgen05", "registers are used before the load is complete", "tcgen05_wait_ld();", "", "tcgen05-wait-ld")
at = "mma_pair"
mutant(
    "mma_pair", "peer's operands may not be there", "cluster_sync();  // both halves are there", "", *STALE, within=at
)
mutant(
    "mma_pair",
    "commit reaches one CTA only",
    "tcgen05_commit2(&done, 3)",
    "tcgen05_commit2(&done, 1)",
    "deadlock",
    within=at,
)
at = "void mma_ts"
mutant("mma_ts", "no wait for B", WAIT, "", *STALE, within=at)
mutant("mma_ts", "too few columns", "tcgen05_alloc<128>", "tcgen05_alloc<64>", "tmem-out-of-bounds", within=at)
mutant("mma_ts", "A is elsewhere", "t + 64 + lane + c, r", "t + 96 + lane + c, r", "tmem-uninitialised", within=at)
mutant("mma_mxf8", "no scales of B", "tcgen05_cp_scales(t + 96 + 4 * i, sb + 32 * i);", "", "tmem-uninitialised")

# -- cluster launch control ----------------------------------------------------------------------------
at = "steal_tiles(const"
ASKS, TOLD = "mbarrier_expect_tx(&told, sizeof(answer));", "mbarrier_wait(&told, parity);"
mutant("steal_tiles", "expects no bytes", ASKS, "mbarrier_arrive(&told);", "deadlock", within=at)
mutant("steal_tiles", "expects two answers", ASKS, ASKS.replace("sizeof", "2 * sizeof"), "deadlock", within=at)
mutant("steal_tiles", "does not wait for the answer", TOLD, "", *STALE, within=at)
mutant("steal_tiles", "waits for the other phase", TOLD, TOLD.replace("ty", "ty ^ 1"), "deadlock", within=at)
mutant("steal_tiles", "answer between two multiples of 16", "alignas(16) uint4 answer;",
       "alignas(16) struct { uint64_t pad; int x[4]; } s; uint4& answer = *(uint4*)s.x;", "misaligned",
       within=at)  # fmt: skip
mutant("steal_tiles", "asks again while others read the answer", "__syncthreads();  // answer and tile have been read",
       "", "stage-reuse", within=at)  # fmt: skip
mutant("steal_tiles", "asks again after a refusal", "if (!more) return;",
       "if (!more) { if (at.x == 99) return; at.x = 99; }", "cancel-after-refusal", within=at)  # fmt: skip
mutant("steal_tiles", "believes a refusal", "if (more) at =", "at =", "cancel-refused", within=at)
mutant("steal_tiles", "leaves with a tile that it was given", "if (more) at =", "if (more) return; at =",
       "cancel-unread", within=at)  # fmt: skip
mutant("steal_tiles", "leaves before the answer", TOLD, "return;", "cancel-unread", within=at)
mutant("steal_tiles", "asks in the first round only", "try_cancel(&answer, &told);",
       "if (parity == 0) try_cancel(&answer, &told);", "deadlock", within=at)  # fmt: skip
at = "steal_clusters"
mutant("steal_clusters", "one block expects the answer", "if (threadIdx.x == 0) mbarrier_expect_tx",
       "if (threadIdx.x == 0 && rank == 0) mbarrier_expect_tx", "deadlock", within=at)  # fmt: skip
mutant("steal_clusters", "every block asks", "threadIdx.x == 0 && rank == 0", "threadIdx.x == 0", "stage-reuse",
       within=at)  # fmt: skip
mutant("steal_clusters", "asks again while other blocks read", "cluster_sync();  // all have read their answers", "",
       "stage-reuse", within=at)  # fmt: skip
mutant("steal_clusters", "a block leaves early", "if (!is_canceled(&answer)) break;",
       "if (!is_canceled(&answer) || rank == 3) return;", "remote-after-exit", "deadlock", within=at)  # fmt: skip
mutant("steal_clusters", "answer in another block", '::"l"(answer), "l"(b)',
       '::"l"(__cluster_map_shared_rank(answer, 1)), "l"(b)', "wrong-space")  # fmt: skip

mutant(
    "gemm",
    "B is never loaded",
    "(BM + BN) * BK * 2);\n                tma_load_2d(a + s * BM * BK, &ma, &full[s], i * BK, row);\n"
    "                tma_load_2d(b + s * BN * BK, &mb, &full[s], i * BK, col);",
    "BM * BK * 2);\n                tma_load_2d(a + s * BM * BK, &ma, &full[s], i * BK, row);",
    "uninitialised-shared",
)

mutant(
    "wgmma_rs_transposed",
    "tile is not aligned to the swizzle",
    "__shared__ alignas(1024) __nv_bfloat16 b[64 * 64];  // [K, N]",
    "__shared__ alignas(1024) struct { __nv_bfloat16 pad[64], b[64 * 64]; } s; auto& b = s.b;",
    "descriptor-alignment",
    within="void wgmma_rs_transposed",
)

# -- phases --------------------------------------------------------------------------------------------
SLIP = "phase-slip"
EMPTY_WAIT, FULL_WAIT = "mbarrier_wait(&empty[s], i / STAGES & 1 ^ 1);", "mbarrier_wait(&full[s], i / STAGES & 1);"
RELEASE = "if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[s]);"
at = "void tma_round_trip"
mutant("tma_round_trip", "parity of the phase before the first", WAIT, "mbarrier_wait(&bar, 1);", SLIP, within=at)
at = "void ring_sum"
mutant("ring_sum", "consumer flips at every step", FULL_WAIT, "mbarrier_wait(&full[s], i & 1);", SLIP, within=at)
mutant("ring_sum", "consumer never flips", FULL_WAIT, "mbarrier_wait(&full[s], 0);", SLIP, within=at)
mutant("ring_sum", "producer never flips", EMPTY_WAIT, "mbarrier_wait(&empty[s], 1);", SLIP, within=at)
mutant(
    "ring_sum",
    "one warp releases for all",
    RELEASE,
    "if (threadIdx.x == 0) for (int n = 0; n < 4; ++n) mbarrier_arrive(&empty[s]);",
    SLIP,
    within=at,
)
mutant("gemm", "consumer starts with parity 1", FULL_WAIT, "mbarrier_wait(&full[s], i / STAGES & 1 ^ 1);", SLIP)
mutant("gemm", "consumer never flips", FULL_WAIT, "mbarrier_wait(&full[s], 0);", SLIP)
mutant("gemm", "producer never flips", EMPTY_WAIT, "mbarrier_wait(&empty[s], 1);", SLIP)
mutant("attention", "parity flips at every step", "i / 2 & 1);", "i & 1);", SLIP)
mutant("attention", "parity never flips", "i / 2 & 1);", "0);", SLIP)
at = "gemm_tcgen05"
mutant("gemm_tcgen05", "consumer never flips", FULL_WAIT, "mbarrier_wait(&full[s], 0);", SLIP, within=at)
mutant("gemm_tcgen05", "producer never flips", EMPTY_WAIT, "mbarrier_wait(&empty[s], 1);", SLIP, within=at)
mutant("gemm_tcgen05", "epilogue's parity", "mbarrier_wait(&done, 0);", "mbarrier_wait(&done, 1);", SLIP, within=at)
mutant("mma_pair", "epilogue's parity", "mbarrier_wait(&done, 0);", "mbarrier_wait(&done, 1);", SLIP, within="mma_pair")

# -- order in tensor memory ----------------------------------------------------------------------------
DONE, AFTER, BEFORE = "mbarrier_wait(&done, 0);", "tcgen05_after();", "tcgen05_before();"
at = "gemm_tcgen05"
mutant("gemm_tcgen05", "no fence after the wait", f"{DONE}\n        {AFTER}", DONE, "tcgen05-fence", within=at)
mutant(
    "gemm_tcgen05",
    "fence before the wait",
    f"{DONE}\n        {AFTER}",
    f"{AFTER}\n        {DONE}",
    "tcgen05-fence",
    within=at,
)
mutant("mma_pair", "no fence after the wait", f"{DONE}\n    {AFTER}", DONE, "tcgen05-fence", within="mma_pair")
at = "void mma_ts"
mutant("mma_ts", "stores are not waited for", "tcgen05_wait_st();", "", "tcgen05-wait-st", within=at)
mutant("mma_ts", "no fence after the stores", f"{BEFORE}\n    {SYNC}", SYNC, "tcgen05-fence", within=at)
mutant("mma_ts", "no fence before the product", f"{AFTER}\n        for", "for", "tcgen05-fence", within=at)
mutant("mma_ts", "no fence after the commit", f"{DONE}\n    {AFTER}", DONE, "tcgen05-fence", within=at)
mutant(
    "mma_ts",
    "waits for the stores behind the fence",
    f"tcgen05_wait_st();\n    {BEFORE}",
    f"{BEFORE}\n    tcgen05_wait_st();",
    "tcgen05-fence",
    within=at,
)
mutant("mma_ts", "no barrier after the stores", f"{BEFORE}\n    {SYNC}", BEFORE, "tmem-in-flight", within=at)
READY, STORED = "mbarrier_wait(&ready[i % 2], i / 2 & 1);", "mbarrier_wait(&stored[i % 2], i / 2 & 1 ^ 1);"
LOADED = f"tcgen05_wait_ld();\n            {BEFORE}\n            "
at = "overlapped_products"
mutant(at, "no fence after the commit", f"{READY}\n            {AFTER}", READY, "tcgen05-fence")
mutant(at, "no fence before the release", f"{BEFORE}\n            mbarrier_arrive", "mbarrier_arrive", "tcgen05-fence")
mutant(at, "no fence after the release", f"{STORED}\n                {AFTER}", STORED, "tcgen05-fence")
mutant(
    at,
    "releases before the loads are complete",
    f"{LOADED}mbarrier_arrive(&stored[i % 2]);",
    f"{BEFORE} mbarrier_arrive(&stored[i % 2]); tcgen05_wait_ld();",
    "tcgen05-fence",
)
mutant(at, "loads are not waited for", LOADED, BEFORE, "tcgen05-wait-ld")
mutant(at, "no wait for the stored accumulator", STORED, "", "tmem-in-flight")
mutant(at, "accumulator's parity never flips", STORED, "mbarrier_wait(&stored[i % 2], 1);", SLIP)
mutant(at, "storing warps never flip", READY, "mbarrier_wait(&ready[i % 2], 0);", SLIP)
mutant(at, "storing warps flip at every step", READY, "mbarrier_wait(&ready[i % 2], i & 1);", SLIP)
at = "void tmem_shapes"
mutant("tmem_shapes", "stores are not waited for", "tcgen05_wait_st();", "", "tcgen05-wait-st", within=at)
mutant(
    "tmem_shapes",
    "no barrier before the deallocation",
    f"{SYNC}\n    if (threadIdx.x < 32) tcgen05_dealloc",
    "if (threadIdx.x < 32) tcgen05_dealloc",
    "tmem-in-flight",
    within=at,
)

UNCAUGHT: dict[str, str] = {
    "attention: buffer reused while others read it": "wgmma.wait_group counts for the whole warpgroup, as CUTLASS's "
    "pipelines take it (one arrival per warpgroup); only a slower warp's own wait would show the difference",
}
"""Mutants that are not found, each with the reason."""
