"""Mutants of the good kernels: each breaks one contract and must be found under one of the codes named."""

from tests.corpus.mutants import copies, phases, plain, tcgen05, tensor_memory, wgmma
from tests.corpus.mutants.mutant import Mutant

__all__ = ["MUTANTS", "UNCAUGHT", "Mutant"]

MUTANTS: list[Mutant] = [
    mutant for group in (plain, copies, wgmma, tcgen05, phases, tensor_memory) for mutant in group.MUTANTS
]

UNCAUGHT: dict[str, str] = {
    "attention: buffer reused while others read it": "wgmma.wait_group counts for the whole warpgroup, as CUTLASS's "
    "pipelines take it (one arrival per warpgroup); only a slower warp's own wait would show the difference",
}
"""Mutants that are not found, each with the reason."""
