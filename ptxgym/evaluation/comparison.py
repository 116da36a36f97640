"""Outputs against the reference, in pieces that fit beside a workload."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ptxgym.errors import InfrastructureError
from ptxgym.evaluation.records import OutputComparison
from ptxgym.tasks import Distribution, Tolerance

if TYPE_CHECKING:
    import torch

_CHUNK = 1 << 25


def compare(
    output: torch.Tensor,
    reference: torch.Tensor,
    tolerance: Tolerance,
    *,
    name: str,
    shape: str,
    distribution: Distribution,
) -> OutputComparison:
    """Hold one output against its reference of the same size, by the rules of :class:`~ptxgym.tasks.Tolerance`.

    A rule holds only where it is seen to: an element passes when its error is under the limit, so NaN never does.

    Raises:
        InfrastructureError: The reference itself is not finite.
    """
    import torch

    absolute, relative = tolerance.pointwise(distribution)
    flat_output, flat_reference = output.reshape(-1), reference.reshape(-1)
    mean = flat_reference.mean(dtype=torch.float64)
    bad = nonfinite = unwritten = 0
    error_square = spread_square = torch.zeros((), dtype=torch.float64, device=output.device)
    worst_excess, worst_at, worst_error = -1.0, 0, 0.0
    for start in range(0, flat_output.numel(), _CHUNK):
        raw = flat_output[start : start + _CHUNK]
        expected = flat_reference[start : start + _CHUNK]
        if not bool(expected.isfinite().all()):
            raise InfrastructureError(f"The reference of {name} is not finite.")
        got = raw.to(expected.dtype)
        error = (got - expected).abs()
        excess = (error / (absolute + relative * expected.abs())).nan_to_num(nan=float("inf"))
        bad += int((~(excess <= 1)).sum())
        nonfinite += int((~got.isfinite()).sum())
        unwritten += int((raw.view(torch.int16 if raw.element_size() == 2 else torch.int32) == -1).sum())
        at = int(excess.argmax())
        if float(excess[at]) > worst_excess:
            worst_excess, worst_at = float(excess[at]), start + at
        worst_error = max(worst_error, float(error.nan_to_num(nan=float("inf")).max()))
        error_square = error_square + error.square().sum(dtype=torch.float64)
        spread_square = spread_square + (expected - mean).square().sum(dtype=torch.float64)
    return OutputComparison(
        output=name,
        shape=shape,
        distribution=distribution,
        elements=flat_output.numel(),
        bad_elements=bad,
        allowed_bad=tolerance.allowed_bad(distribution, flat_output.numel(), worst_excess),
        nonfinite=nonfinite,
        unwritten=unwritten,
        worst_index=_unravel(worst_at, tuple(output.shape)),
        got=float(flat_output[worst_at]),
        expected=float(flat_reference[worst_at]),
        max_absolute_error=worst_error,
        norm_error=float((error_square / spread_square).sqrt()),
        norm_limit=tolerance.norm,
    )


@contextmanager
def full_precision() -> Iterator[None]:
    """Keep TF32 out of the reference's matrix products, whatever the surrounding program has chosen."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _unravel(position: int, size: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for extent in reversed(size):
        position, remainder = divmod(position, extent)
        index.append(remainder)
    return tuple(reversed(index))
