"""The GPU architectures a task can target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Architecture:
    """A GPU architecture and what binds a kernel written for it.

    ``tensor_flops_per_clock`` is the dense bf16 rate of one multiprocessor. Hopper: 4096, since NVIDIA's
    989.5 TFLOP/s are 132 multiprocessors at 1.83 GHz. Blackwell: 8192, since 2.25 PFLOP/s are 148 at 1.85 GHz.
    """

    name: str
    """The architecture's own name, e.g. ``Hopper``."""
    gpu: str
    """The suffix of task ids, e.g. ``H100``. Other GPUs of the same architecture serve it, and records say so."""
    target: str
    """What nvcc is asked for, without prefix: ``90a`` gives ``compute_90a`` and ``sm_90a``."""
    compute_capability: tuple[int, int]
    """What a device must report to run the task."""
    instructions: str
    """The instruction family that a kernel must execute, in words for the prompt."""
    tensor_flops_per_clock: int
    """Dense bf16 FLOPs per clock and multiprocessor; the roofline is built from it."""


HOPPER = Architecture(
    name="Hopper",
    gpu="H100",
    target="90a",
    compute_capability=(9, 0),
    instructions="wgmma (warpgroup matrix multiply-accumulate) for the matrix products, and TMA "
    "(cp.async.bulk.tensor) for the tiles",
    tensor_flops_per_clock=4096,
)

BLACKWELL = Architecture(
    name="Blackwell",
    gpu="B200",
    target="100a",
    compute_capability=(10, 0),
    instructions="tcgen05 (tensor-memory matrix multiply-accumulate) for the matrix products, and TMA "
    "(cp.async.bulk.tensor) for the tiles",
    tensor_flops_per_clock=8192,
)

ARCHITECTURES = (HOPPER, BLACKWELL)
