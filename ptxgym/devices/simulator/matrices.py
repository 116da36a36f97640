"""Operands of tensor instructions: elements to numbers, tiles out of shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxgym.devices.simulator import layouts
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.formats import decode_small, spread
from ptxgym.devices.simulator.lanes import LaneSet
from ptxgym.devices.simulator.types import SIZES, Array

_SIXTEEN = np.uint32(16)


def raw_type(kind: str) -> np.dtype[Any]:
    """The unsigned type that holds an element."""
    return np.dtype(f"u{SIZES[kind]}")


def decode_elements(raw: Array, kind: str) -> Array:
    """Raw elements to float32 (exact for every input type of a tensor instruction)."""
    if kind == "bf16":
        return np.left_shift(raw, _SIXTEEN, dtype=np.uint32).view(np.float32)
    if kind == "f16":
        return raw.view(np.float16).astype(np.float32)
    if kind == "tf32":
        return (raw & np.uint32(0xFFFFE000)).view(np.float32)
    if kind == "f32":
        return raw.view(np.float32)
    if kind in ("s8", "u8"):
        return raw.view(np.int8 if kind == "s8" else np.uint8).astype(np.float32)
    return decode_small(raw, kind)


@dataclass(frozen=True, slots=True)
class Operand:
    """A tile in shared memory, as a tensor instruction names it."""

    name: str
    """``A`` or ``B``, for messages."""
    plan: layouts.Plan
    kind: str
    """Element type."""
    transposed: bool
    """M (or N) contiguous."""
    packed: bool = False
    """Two 4-bit elements per byte."""
    padded: int = 0
    """Bits of an element if sixteen stand at the start of every 16 bytes (tcgen05's f8f6f4 kinds)."""


def check_operand(x: Context, operand: Operand, cta: int, lanes: LaneSet, where: Any) -> None:
    """Fault on a tile outside of shared memory, and tell the checks what is read.

    Args:
        x: The executing lanes.
        operand: The tile.
        cta: Batch position of the CTA that owns it.
        lanes: The lanes on whose behalf it is read.
        where: The instruction.
    """
    state, plan = x.batch.state, operand.plan
    d = plan.descriptor
    if plan.low < 64 or (plan.high + 1) * 16 > state.shared_end:
        raise x.fault(
            "descriptor", where,
            f"operand {operand.name}: the descriptor (start {d.start:#x}, LBO {d.leading}, SBO {d.stride}, swizzle "
            f"{d.swizzle}) reaches shared offset {(plan.high + 1) * 16} of {state.shared_end}",
        )  # fmt: skip
    if x.batch.operand_observers:
        lines = plan.lines(cta * state.shared_stride >> 7)
        for observer in x.batch.operand_observers:
            observer.on_operand(x, lanes, lines, d, where, operand.name)


def read_operand(state: Any, operand: Operand, cta: int) -> Array:
    """A checked tile as a [rows, K] float32 matrix."""
    base = cta * state.shared_stride >> 4
    memory = state.shared.typed(layouts.CHUNK)[base : base + (state.shared_stride >> 4)]
    tile = memory.take(operand.plan.chunks, mode="clip")
    if operand.padded:
        tile = spread(tile.view(np.uint8), operand.padded)
    raw = layouts.operand_matrix(tile, raw_type(operand.kind), operand.transposed)
    return decode_elements(unpack_nibbles(raw) if operand.packed else raw, operand.kind)


def unpack_nibbles(raw: Array) -> Array:
    """Bytes to two 4-bit codes each, the low one first."""
    return np.stack([raw & 15, raw >> 4], axis=-1).reshape(raw.shape[0], -1)
