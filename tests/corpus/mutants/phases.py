"""Mutants that miss a phase of an mbarrier."""

from tests.corpus.mutants.mutant import EMPTY_WAIT, FULL_WAIT, SLIP, WAIT, Mutants

MUTANTS = Mutants()
mutant = MUTANTS.add

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
