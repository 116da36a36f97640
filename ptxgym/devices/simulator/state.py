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
        lane = np.arange(self.lanes)
        self.cta_of = lane // geometry.stride
        self.thread_of = lane % geometry.stride
        self.alive = self.thread_of < geometry.threads
        self.specials = special_registers(geometry, np.array(ctas), self.cta_of, self.thread_of)
        self.rank_of = self.specials["%cluster_ctarank"]
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


def _axes(linear: npt.NDArray[Any], extent: tuple[int, int, int]) -> list[npt.NDArray[np.uint32]]:
    x = linear % extent[0]
    y = linear // extent[0] % extent[1]
    z = linear // (extent[0] * extent[1])
    return [x.astype(np.uint32), y.astype(np.uint32), z.astype(np.uint32)]


def special_registers(
    geometry: Geometry, ctas: npt.NDArray[Any], cta_of: npt.NDArray[Any], thread_of: npt.NDArray[Any]
) -> dict[str, npt.NDArray[Any]]:
    """The special registers that are constant during a launch (PTX ISA 10), per lane."""
    lanes = len(cta_of)
    result: dict[str, npt.NDArray[Any]] = {}
    cta_axes = _axes(ctas, geometry.grid)
    clusters = tuple(-(-g // c) for g, c in zip(geometry.grid, geometry.cluster, strict=True))
    rank = np.zeros(len(ctas), np.uint32)
    cluster_linear = np.zeros(len(ctas), np.uint32)
    weight = cluster_weight = 1
    for axis, name in enumerate("xyz"):
        extent = geometry.cluster[axis]
        inside, outside = cta_axes[axis] % extent, cta_axes[axis] // extent
        result[f"%tid.{name}"] = _axes(thread_of, geometry.block)[axis]
        result[f"%ctaid.{name}"] = cta_axes[axis][cta_of]
        result[f"%cluster_ctaid.{name}"] = inside[cta_of].astype(np.uint32)
        result[f"%clusterid.{name}"] = outside[cta_of].astype(np.uint32)
        for register, value in (
            ("%ntid", geometry.block[axis]), ("%nctaid", geometry.grid[axis]),
            ("%cluster_nctaid", extent), ("%nclusterid", clusters[axis]),
        ):  # fmt: skip
            result[f"{register}.{name}"] = np.full(lanes, value, np.uint32)
        rank += (inside * weight).astype(np.uint32)
        cluster_linear += (outside * cluster_weight).astype(np.uint32)
        weight *= extent
        cluster_weight *= clusters[axis]
    result["%cluster_ctarank"] = rank[cta_of]
    result["%cluster_nctarank"] = np.full(lanes, geometry.cluster_size, np.uint32)
    result["%is_explicit_cluster"] = np.full(lanes, geometry.cluster_size > 1, np.bool_)
    lane_in_warp = (thread_of % 32).astype(np.uint32)
    result["%laneid"] = lane_in_warp
    result["%warpid"] = (thread_of // 32).astype(np.uint32)
    result["%nwarpid"] = np.full(lanes, geometry.stride // 32, np.uint32)
    bit = (np.uint64(1) << lane_in_warp.astype(np.uint64)).astype(np.uint64)
    full = np.uint64(0xFFFFFFFF)
    for name, mask in (
        ("eq", bit), ("lt", bit - np.uint64(1)), ("le", (bit << np.uint64(1)) - np.uint64(1)),
        ("ge", full - (bit - np.uint64(1))), ("gt", full - ((bit << np.uint64(1)) - np.uint64(1))),
    ):  # fmt: skip
        result[f"%lanemask_{name}"] = (mask & full).astype(np.uint32)
    result["%smid"] = (ctas[cta_of] % 132).astype(np.uint32)
    result["%nsmid"] = np.full(lanes, 132, np.uint32)
    result["%gridid"] = np.ones(lanes, np.uint64)
    return result
