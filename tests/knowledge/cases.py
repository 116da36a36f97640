"""The registry of wrapper tests: which kernel covers which wrappers, its SASS, and what it must compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxgym.devices.simulator.machine import LaunchReport
from ptxgym.devices.simulator.module import Module
from tests.corpus.harness import Device
from tests.knowledge.harness import CUDA, module_of

Array = np.ndarray[Any, Any]
Outcome = Sequence[tuple[Array, Any, float]]
"""What came out, what was expected, the largest absolute error allowed."""
BOTH, HOPPER, BLACKWELL = ("90a", "100a"), ("90a",), ("100a",)


class Bench:
    """One kernel on one device, simulated unless another is given."""

    def __init__(self, module: Module, kernel: str, architecture: str, device: Device | None = None) -> None:
        self.device = device or Device(architecture)
        self.module, self.kernel = module, kernel
        self.report: LaunchReport | None = None

    def give(self, array: Any) -> int:
        """Upload an array, return its address."""
        return self.device.upload(np.asarray(array))

    def empty(self, shape: Any, dtype: Any = np.int32) -> int:
        """An array of zeros to be filled."""
        return self.device.upload(np.zeros(shape, dtype))

    def launch(self, grid: Any, block: Any, *arguments: Any, **options: Any) -> None:
        """Run the kernel to its end."""
        self.report = self.device.launch(self.module, self.kernel, grid, block, *arguments, **options)

    def __getitem__(self, address: int) -> Array:
        return self.device.array(address)


Run = Callable[[Bench], Outcome]
"""Launches a kernel and says what came out."""


@dataclass(frozen=True)
class Case:
    """A kernel that executes some wrappers."""

    kernel: str
    file: str
    covers: tuple[str, ...]
    sass: tuple[str, ...]
    """Regular expressions; each must match an opcode of the kernel."""
    architectures: tuple[str, ...]
    run: Run

    @property
    def source(self) -> str:
        """The text of the file that holds the kernel."""
        return (CUDA / f"{self.file}.cu").read_text()

    def execute(self, architecture: str) -> tuple[LaunchReport, Outcome]:
        """Run it on the simulator."""
        bench = Bench(module_of(self.source, architecture), self.kernel, architecture)
        outcome = self.run(bench)
        assert bench.report is not None
        return bench.report, outcome


CASES: list[Case] = []


def case(
    file: str, kernel: str, covers: str, sass: str = "", architectures: tuple[str, ...] = BOTH
) -> Callable[[Run], Run]:
    """Register the function that runs a kernel; ``covers`` and ``sass`` are lists in one string."""

    def register(run: Run) -> Run:
        CASES.append(Case(kernel, file, tuple(covers.split()), tuple(sass.split()), architectures, run))
        return run

    return register


def integers(seed: int, *shape: int) -> Array:
    """Integers from -1000 to 999."""
    return np.random.default_rng(seed).integers(-1000, 1000, shape).astype(np.int32)
