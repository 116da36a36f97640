"""Plain data of a batch of CTAs: registers, shared and local memory, special registers.

No behaviour of an instruction is here.  CTAs of a batch share arrays; lane ``cta * stride + thread`` is
column of every register row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxgym.devices.simulator.lanes import LaneSet
from ptxgym.devices.simulator.memory import ByteBuffer
from ptxgym.devices.simulator.specials import SpecialRegisters

RESERVED_SHARED = 1024
"""sm_90 and later keep the first KiB of shared memory for the system; user data starts behind it."""

_BANKS: dict[str, type] = {
    "pred": np.bool_, "b8": np.uint8, "b16": np.uint16, "b32": np.uint32, "b64": np.uint64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Geometry:
    """The shape of a launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def stride(self) -> int:
        """Lanes of a CTA: its threads, filled up to whole warps."""
        return -(-self.threads // 32) * 32

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def cluster_size(self) -> int:
        """CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


class Frame:
    """The registers of one function activation, for all lanes of a batch."""

    __slots__ = ("banks", "identity", "lanes", "local_base", "parameters", "program")

    _next_identity = 0

    def __init__(self, program: Any, lanes: int, local_base: int, parameter_bytes: int) -> None:
        self.program = program
        self.lanes = lanes
        self.local_base = local_base
        self.parameters = ByteBuffer(np.zeros(lanes * parameter_bytes, np.uint8))
        """``.param`` variables of the body and of the function, per lane."""
        self.banks: dict[str, npt.NDArray[Any]] = {
            bank: np.zeros((count, lanes), _BANKS[bank]) for bank, count in program.bank_sizes.items()
        }
        Frame._next_identity += 1
        self.identity = Frame._next_identity

    def row(self, bank: str, row: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """A register of all lanes, as ``dtype`` (its low part when that is narrower)."""
        whole: npt.NDArray[Any] = self.banks[bank][row]
        if dtype.itemsize == whole.itemsize:
            return whole.view(dtype)
        return whole.view(dtype)[:: whole.itemsize // dtype.itemsize]


class BatchState:
    """Everything that the lanes of some CTAs own."""

    def __init__(self, geometry: Geometry, ctas: list[int], shared_bytes: int, local_bytes: int) -> None:
        self.geometry = geometry
        self.ctas = ctas
        """Linear CTA numbers, clusters kept together and in rank order."""
        self.count = len(ctas)
        self.lanes = self.count * geometry.stride
        self.shared_stride = -(-(RESERVED_SHARED + shared_bytes) // 1024) * 1024
        self.shared_end = RESERVED_SHARED + shared_bytes
        self.shared = ByteBuffer(np.zeros(self.count * self.shared_stride, np.uint8))
        self.local_stride = -(-max(local_bytes, 16) // 16) * 16
        self.local = ByteBuffer(np.zeros(self.lanes * self.local_stride, np.uint8))
        self.cta_of = np.repeat(np.arange(self.count), geometry.stride)
        self.thread_of = np.tile(np.arange(geometry.stride), self.count)
        self.alive = self.thread_of < geometry.threads
        self.specials = SpecialRegisters(geometry, ctas)
        self.rank_of: npt.NDArray[np.uint32] = self.specials["%cluster_ctarank"]
        self.shared_base = (self.cta_of * self.shared_stride).astype(np.int64)
        self.leader_of = self.cta_of - self.rank_of.astype(np.int64)
        """The batch position of rank 0 of the lane's cluster."""

    def live(self) -> LaneSet:
        """All threads that exist."""
        return LaneSet(np.flatnonzero(self.alive))

    def place(self, lane: int) -> str:
        """A lane in CUDA's words."""
        t = [int(self.specials[f"%tid.{axis}"][lane]) for axis in "xyz"]
        b = [int(self.specials[f"%ctaid.{axis}"][lane]) for axis in "xyz"]
        return f"thread ({t[0]},{t[1]},{t[2]}) of block ({b[0]},{b[1]},{b[2]})"
