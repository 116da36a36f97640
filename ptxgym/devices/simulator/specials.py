"""Special registers (PTX ISA 10): their values per lane, and as operand slots."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ptxgym.devices.simulator.types import Array

_U32 = np.dtype(np.uint32)
_LATE = {"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}
_ALIASES = {"%tid": "%tid.x", "%ntid": "%ntid.x", "%ctaid": "%ctaid.x", "%nctaid": "%nctaid.x"}
_SIZES = {"%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size", "%reserved_smem_offset_begin",
          "%reserved_smem_offset_end", "%reserved_smem_offset_cap"}  # fmt: skip


def special_slot(program: Any, name: str, dtype: np.dtype[Any]) -> int | None:
    """The slot of a special register, or None if there is no such register."""
    name = _ALIASES.get(name, name)
    if name == "WARP_SZ":
        return int(program.constant_slot(np.array(32, dtype)))
    if name in _LATE:
        return int(program.lane_slot(name, lambda batch, frame: _timer(batch, name), dtype, False))
    if name in _SIZES:
        return int(program.lane_slot(name, lambda batch, frame: _size(batch, name), dtype))
    if name.startswith("%envreg") or name.startswith("%pm"):
        return int(program.constant_slot(np.array(0, dtype)))
    if name in KNOWN:
        return int(program.lane_slot(name, lambda batch, frame: batch.state.specials[name], dtype))
    return None


def _timer(batch: Any, name: str) -> np.ndarray[Any, Any]:
    # Clocks count executed instructions, so that a run repeats exactly; only the order of readings is promised.
    ticks = int(batch.clock())
    if name.startswith("%globaltimer"):
        ticks = 1_000_000_000 + ticks
    if name.endswith("hi"):
        ticks >>= 32
    return np.array(ticks & 0xFFFFFFFFFFFFFFFF, np.uint64)


def _size(batch: Any, name: str) -> np.ndarray[Any, Any]:
    values = {
        "%dynamic_smem_size": batch.dynamic_shared,
        "%total_smem_size": batch.state.shared_end,
        "%aggr_smem_size": batch.state.shared_end,
        "%reserved_smem_offset_begin": 0,
        "%reserved_smem_offset_end": 1024,
        "%reserved_smem_offset_cap": 1024,
    }
    return np.array(values[name], np.uint32)


class SpecialRegisters(dict[str, Array]):
    """The special registers that are constant during a launch, per lane; each is computed when it is first read."""

    def __init__(self, geometry: Any, ctas: list[int]) -> None:
        super().__init__()
        self.geometry = geometry
        self.ctas = np.array(ctas)

    def __missing__(self, name: str) -> Array:
        value = self[name] = _FORMULAS[name](self)
        return value

    def uniform(self, value: Any, dtype: type = np.uint32) -> Array:
        """The same for all lanes."""
        return np.full(len(self.ctas) * self.geometry.stride, value, dtype)

    def by_cta(self, values: Array) -> Array:
        """One value per CTA."""
        return np.repeat(values.astype(np.uint32), self.geometry.stride)

    def by_thread(self, value: Callable[[Array], Array]) -> Array:
        """A function of the thread's linear number in its CTA."""
        return np.tile(value(np.arange(self.geometry.stride)).astype(np.uint32), len(self.ctas))

    def cta(self, axis: int) -> Array:
        """Coordinates of the CTAs in the grid."""
        return _coordinate(self.ctas, self.geometry.grid, axis)

    def rank(self) -> Array:
        """Ranks of the CTAs in their clusters."""
        extent = self.geometry.cluster
        return sum(self.cta(axis) % extent[axis] * math.prod(extent[:axis]) for axis in range(3))

    def lane_mask(self, mask: Callable[[Array], Array]) -> Array:
        """A mask of the warp's lanes, from the bit of the lane's own."""
        return self.by_thread(lambda t: mask(1 << t % 32) & 0xFFFFFFFF)


def _coordinate(linear: Array, extent: tuple[int, int, int], axis: int) -> Array:
    return linear // math.prod(extent[:axis]) % extent[axis]


def _axis_formulas(axis: int) -> dict[str, Callable[[SpecialRegisters], Array]]:
    return {
        f"{register}.{'xyz'[axis]}": formula
        for register, formula in {
            "%tid": lambda s: s.by_thread(lambda t: _coordinate(t, s.geometry.block, axis)),
            "%ntid": lambda s: s.uniform(s.geometry.block[axis]),
            "%ctaid": lambda s: s.by_cta(s.cta(axis)),
            "%nctaid": lambda s: s.uniform(s.geometry.grid[axis]),
            "%cluster_ctaid": lambda s: s.by_cta(s.cta(axis) % s.geometry.cluster[axis]),
            "%cluster_nctaid": lambda s: s.uniform(s.geometry.cluster[axis]),
            "%clusterid": lambda s: s.by_cta(s.cta(axis) // s.geometry.cluster[axis]),
            "%nclusterid": lambda s: s.uniform(-(-s.geometry.grid[axis] // s.geometry.cluster[axis])),
        }.items()
    }


_FORMULAS: dict[str, Callable[[SpecialRegisters], Array]] = {
    **_axis_formulas(0),
    **_axis_formulas(1),
    **_axis_formulas(2),
    "%cluster_ctarank": lambda s: s.by_cta(s.rank()),
    "%cluster_nctarank": lambda s: s.uniform(s.geometry.cluster_size),
    "%is_explicit_cluster": lambda s: s.uniform(s.geometry.cluster_size > 1, np.bool_),
    "%laneid": lambda s: s.by_thread(lambda t: t % 32),
    "%warpid": lambda s: s.by_thread(lambda t: t // 32),
    "%nwarpid": lambda s: s.uniform(s.geometry.stride // 32),
    "%lanemask_eq": lambda s: s.lane_mask(lambda bit: bit),
    "%lanemask_lt": lambda s: s.lane_mask(lambda bit: bit - 1),
    "%lanemask_le": lambda s: s.lane_mask(lambda bit: 2 * bit - 1),
    "%lanemask_ge": lambda s: s.lane_mask(lambda bit: ~(bit - 1)),
    "%lanemask_gt": lambda s: s.lane_mask(lambda bit: ~(2 * bit - 1)),
    "%smid": lambda s: s.by_cta(s.ctas % 132),
    "%nsmid": lambda s: s.uniform(132),
    "%gridid": lambda s: s.uniform(1, np.uint64),
}
KNOWN = frozenset(_FORMULAS)
"""Special registers that are constant during a launch."""
