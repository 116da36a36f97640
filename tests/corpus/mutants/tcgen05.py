"""Mutants of kernels that multiply by tcgen05, and of those that take work by cluster launch control."""

from tests.corpus.mutants.mutant import STALE, WAIT, Mutants

MUTANTS = Mutants()
mutant = MUTANTS.add

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
