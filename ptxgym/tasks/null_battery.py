"""Answers that know nothing. A task is sound only if its judge rejects every one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ptxgym.tasks.operator import Operator, Shape, Tensors

if TYPE_CHECKING:
    import torch


def null_answers(
    operator: Operator, shape: Shape, inputs: Tensors, reference: Tensors
) -> Iterator[tuple[str, Tensors]]:
    """Outputs that need no computation, with a name each: zeros, ones, the reference's mean, copies of each input.

    Args:
        operator: The operator.
        shape: The shape of the call.
        inputs: What the candidate would be given.
        reference: The right outputs; only their mean is used.
    """
    import torch

    def answer(make: object) -> Tensors:
        outputs = {}
        for parameter in operator.tensors("output"):
            size = operator.dimensions(shape)[parameter.name]
            outputs[parameter.name] = make(parameter.name, size).to(getattr(torch, parameter.dtype))  # type: ignore[operator]
        return outputs

    yield "zeros", answer(lambda name, size: torch.zeros(size))
    yield "ones", answer(lambda name, size: torch.ones(size))
    yield "mean", answer(lambda name, size: torch.full(size, reference[name].mean().item()))
    for name, tensor in inputs.items():
        yield f"copy of {name}", answer(lambda _, size, source=tensor: _tile(source, size))


def _tile(source: torch.Tensor, size: tuple[int, ...]) -> torch.Tensor:
    """The elements of ``source`` in order, repeated or cut to fill ``size``."""
    flat = source.flatten().float()
    count = 1
    for extent in size:
        count *= extent
    return flat.repeat(-(-count // flat.numel()))[:count].view(size)
