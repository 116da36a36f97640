"""Mutants of copies by hardware, mbarriers and clusters."""

from tests.corpus.mutants.mutant import FENCE, STALE, SYNC, WAIT, Mutants

MUTANTS = Mutants()
mutant = MUTANTS.add

at = "void tma_round_trip"
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
