"""Warp-level matrix multiply-accumulate, ``mma.sync`` (PTX ISA 9.7.14.5).

All its fragment layouts are one rule: a register of A holds ``e`` consecutive elements along K of row
``l//4 + 8h`` in the K-group ``g``, one of B those of column ``l//4``, one of C two neighbouring columns.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.warp import FULL, gather
from ptxgym.devices.simulator.matrices import decode_elements, raw_type
from ptxgym.devices.simulator.table import Step, UnsupportedForm, effect
from ptxgym.devices.simulator.types import SIZES, Array

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def a_matrix(registers: Array, m: int, k: int, kind: str) -> Array:
    """[registers, warps, 32] to [warps, M, K] raw elements."""
    size = SIZES[kind]
    each = max(4 // size, 1)
    halves, groups = m // 8, k // (4 * each)
    raw = np.ascontiguousarray(registers).view(raw_type(kind))
    parts = raw.reshape(groups, halves, -1, 8, 4, each)
    return parts.transpose(2, 1, 3, 0, 4, 5).reshape(-1, m, k)


def b_matrix(registers: Array, k: int, kind: str) -> Array:
    """[registers, warps, 32] to [warps, 8, K] raw elements (B transposed)."""
    each = max(4 // SIZES[kind], 1)
    raw = np.ascontiguousarray(registers).view(raw_type(kind))
    parts = raw.reshape(k // (4 * each), -1, 8, 4, each)
    return parts.transpose(1, 2, 0, 3, 4).reshape(-1, 8, k)


def c_matrix(registers: Array, m: int, packed: bool) -> Array:
    """[registers, warps, 32] to [warps, M, 8]."""
    halves = m // 8
    if packed:
        parts = np.ascontiguousarray(registers).view(np.uint16).reshape(halves, -1, 8, 4, 2)
        return parts.transpose(1, 0, 2, 3, 4).reshape(-1, m, 8)
    parts = registers.reshape(halves, 2, -1, 8, 4)
    return parts.transpose(2, 0, 3, 4, 1).reshape(-1, m, 8)


def c_registers(matrix: Array, m: int, packed: bool) -> Array:
    """[warps, M, 8] to [registers, lanes]."""
    halves = m // 8
    parts = matrix.reshape(-1, halves, 8, 4, 2)
    if packed:
        return np.ascontiguousarray(parts.transpose(1, 0, 2, 3, 4)).view(np.uint32).reshape(halves, -1)
    return parts.transpose(1, 4, 0, 2, 3).reshape(2 * halves, -1)


@effect("mma.sync", isa="9.7.14.5.14", counter="mma", lenient=True)
def mma(b: Any) -> Step:
    """D = A·B + C for a warp."""
    found = next((s for p in b.form.parts if (s := _SHAPE.fullmatch(p))), None)
    types = [p for p in b.form.parts if p in SIZES]
    if found is None or len(types) != 4 or b.form.modifiers & {"sp", "sp::ordered_metadata", "block_scale"}:
        raise UnsupportedForm("sparse or block-scaled mma.sync")
    m, n, k = int(found[1]), int(found[2]), int(found[3])
    result, a_kind, b_kind, c_kind = types
    if n != 8 or (m, k, a_kind) == (8, 4, "f16") or "b1" in types or {"u4", "s4"} & set(types):
        raise UnsupportedForm(f"mma.sync {found[0]} with {a_kind}")
    word = "b64" if a_kind == "f64" else "b32"
    d = b.destinations(b.operands[0], word)
    a_slots, b_slots, c_slots = (b.sources(operand, word) for operand in b.operands[1:4])
    saturates, pc = b.form.has("satfinite"), b.pc
    flops = 2 * m * n * k

    def stack(x: Context, slots: list[int]) -> Array:
        return np.stack([x.get(slot) for slot in slots]).reshape(len(slots), -1, 32)

    def step(x: Context) -> None:
        gather(x, np.broadcast_to(FULL, x.lanes.count), pc)
        left = _decode(a_matrix(stack(x, a_slots), m, k, a_kind), a_kind)
        right = _decode(b_matrix(stack(x, b_slots), k, b_kind), b_kind)
        addend = _addend(stack(x, c_slots), m, c_kind)
        total = _sum(np.matmul(left, right.swapaxes(1, 2)), addend, result, saturates)
        registers = c_registers(total, m, result == "f16")
        x.batch.launch.tensor_flops["mma", a_kind] += flops * (x.lanes.count // 32)
        for slot, value in zip(d, registers, strict=True):
            x.put(slot, value.view(f"u{value.dtype.itemsize}"))

    return step


def _decode(raw: Array, kind: str) -> Array:
    return raw.view(np.float64) if kind == "f64" else decode_elements(raw, kind)


def _addend(registers: Array, m: int, kind: str) -> Array:
    matrix = c_matrix(registers, m, kind == "f16")
    if kind == "f16":
        return matrix.view(np.float16).astype(np.float32)
    names = {"s32": np.int32, "f64": np.float64, "f32": np.float32}
    return np.ascontiguousarray(matrix).view(names[kind])


def _sum(product: Array, addend: Array, kind: str, saturates: bool) -> Array:
    if kind == "s32":
        total = product.astype(np.int64) + addend
        return (np.clip(total, -(1 << 31), (1 << 31) - 1) if saturates else total).astype(np.int32)
    total = product + addend
    return total.astype(np.float16).view(np.uint16) if kind == "f16" else total
