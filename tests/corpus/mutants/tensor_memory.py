"""Mutants that break the order of accesses to tensor memory."""

from tests.corpus.mutants.mutant import SLIP, SYNC, Mutants

MUTANTS = Mutants()
mutant = MUTANTS.add

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
