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
    integers = torch.int16 if output.element_size() == 2 else torch.int32
    pieces = []
    for start in range(0, flat_output.numel(), _CHUNK):
        raw = flat_output[start : start + _CHUNK]
        expected = flat_reference[start : start + _CHUNK]
        got = raw.to(expected.dtype)
        error = (got - expected).abs()
        excess = (error / (absolute + relative * expected.abs())).nan_to_num(nan=float("inf"))
        at = excess.argmax()
        figures = (
            (~expected.isfinite()).sum(),
            (~(excess <= 1)).sum(),
            (~got.isfinite()).sum(),
            (raw.view(integers) == -1).sum(),
            at + start,
            excess[at],
            got[at],
            expected[at],
            error.nan_to_num(nan=float("inf")).max(),
            error.square().sum(dtype=torch.float64),
            (expected - mean).square().sum(dtype=torch.float64),
        )
        pieces.append(torch.stack([figure.to(torch.float64) for figure in figures]))
    table = torch.stack(pieces).cpu()  # the one wait for the device
    infinite, bad, nonfinite, unwritten = (int(column.sum()) for column in table.T[:4])
    if infinite:
        raise InfrastructureError(f"The reference of {name} is not finite.")
    worst_at, worst_excess, got_there, expected_there = table[table[:, 5].argmax(), 4:8].tolist()
    error_square, spread_square = (column.sum() for column in table.T[9:])
    return OutputComparison(
        output=name,
        shape=shape,
        distribution=distribution,
        elements=flat_output.numel(),
        bad_elements=bad,
        allowed_bad=tolerance.allowed_bad(distribution, flat_output.numel(), worst_excess),
        nonfinite=nonfinite,
        unwritten=unwritten,
        worst_index=_unravel(int(worst_at), tuple(output.shape)),
        got=got_there,
        expected=expected_there,
        max_absolute_error=float(table[:, 8].max()),
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
