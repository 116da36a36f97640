"""Special registers (PTX ISA 10) as operand slots."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def _known() -> frozenset[str]:
    from ptxgym.devices.simulator.state import Geometry, special_registers

    zero = np.zeros(1, np.int64)
    return frozenset(special_registers(Geometry((1, 1, 1), (1, 1, 1), (1, 1, 1)), zero, zero, zero))


KNOWN = _known()
"""Special registers that are constant during a launch."""
