"""Mutants of kernels that multiply by wgmma."""

from tests.corpus.mutants.mutant import FENCE, STALE, SYNC, WAIT, Mutants

MUTANTS = Mutants()
mutant = MUTANTS.add

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
