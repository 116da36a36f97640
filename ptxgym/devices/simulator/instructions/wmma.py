"""``wmma``: matrix fragments whose layout the ISA leaves open (PTX ISA 9.7.14.3-4).

Here element ``e`` of lane ``l`` is number ``l * count + e`` of the matrix in row-major order.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.mma import _decode, _sum
from ptxgym.devices.simulator.instructions.warp import FULL, gather
from ptxgym.devices.simulator.matrices import raw_type
from ptxgym.devices.simulator.table import Step, UnsupportedForm, effect
from ptxgym.devices.simulator.types import SIZES, Array

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_WHOLE_REGISTER = {"f32", "s32", "tf32", "f64"}


def _shape(b: Any) -> tuple[int, int, int]:
    found = next((m for p in b.form.parts if (m := _SHAPE.fullmatch(p))), None)
    if found is None or {"u4", "s4", "b1"} & set(b.form.parts):
        raise UnsupportedForm("sub-byte wmma")
    return int(found[1]), int(found[2]), int(found[3])


def _extent(role: str, m: int, n: int, k: int) -> tuple[int, int]:
    return {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[role]


def _kinds(b: Any) -> list[str]:
    return [p for p in b.form.parts if p in SIZES]


def _word(kind: str) -> str:
    return "b64" if kind == "f64" else "b32"


def _positions(rows: int, columns: int, column_major: bool) -> tuple[Array, Array]:
    number = np.arange(rows * columns).reshape(32, -1)
    i, j = number // columns, number % columns
    return (j, i) if column_major else (i, j)


def _space(b: Any) -> str:
    return (
        "global" if "global" in b.form.parts else "shared" if any(p.startswith("shared") for p in b.form.parts) else ""
    )


@effect("wmma.load.a wmma.load.b wmma.load.c", isa="9.7.14.4.3", counter="mma", lenient=True)
def load(b: Any) -> Step:
    """Load a fragment."""
    role, (kind,) = b.form.row.opcode[-1], _kinds(b)
    rows, columns = _extent(role, *_shape(b))
    major, minor = _positions(rows, columns, "col" in b.form.parts)
    destinations = b.destinations(b.operands[0], _word(kind))
    address, space, where, pc = b.address(b.operands[1]), _space(b), b.where, b.pc
    default = rows if "col" in b.form.parts else columns
    stride = b.source(b.operands[2], "u32") if len(b.operands) > 2 else b.slot_of(np.array(default, np.uint32))
    dtype = raw_type(kind)

    def step(x: Context) -> None:
        gather(x, np.broadcast_to(FULL, x.lanes.count), pc)
        values = _each_element(x, address(x), x.get(stride), (major, minor), dtype, space, where, None)
        registers = _to_registers(values, kind)
        for i, slot in enumerate(destinations):
            x.put(slot, registers[:, i % registers.shape[1]])

    return step


@effect("wmma.store.d", isa="9.7.14.4.4", counter="mma", lenient=True)
def store(b: Any) -> Step:
    """Store a fragment."""
    (kind,) = _kinds(b)
    rows, columns = _extent("d", *_shape(b))
    major, minor = _positions(rows, columns, "col" in b.form.parts)
    sources = b.sources(b.operands[1], _word(kind))
    address, space, where, pc = b.address(b.operands[0]), _space(b), b.where, b.pc
    default = rows if "col" in b.form.parts else columns
    stride = b.source(b.operands[2], "u32") if len(b.operands) > 2 else b.slot_of(np.array(default, np.uint32))
    dtype = raw_type(kind)

    def step(x: Context) -> None:
        gather(x, np.broadcast_to(FULL, x.lanes.count), pc)
        values = _from_registers(x, sources, kind, rows * columns // 32)
        _each_element(x, address(x), x.get(stride), (major, minor), dtype, space, where, values)

    return step


def _each_element(
    x: Context, base: Array, stride: Array, at: tuple[Array, Array], dtype: Any, space: str, where: Any, values: Any
) -> Array:
    lane = x.lanes.index % 32
    count = at[0].shape[1]
    out = np.empty((x.lanes.count, count), dtype)
    for e in range(count):
        offset = (at[0][lane, e] * stride.astype(np.int64) + at[1][lane, e]) * dtype.itemsize
        parts = x.locate(space, base + offset.astype(base.dtype), dtype.itemsize, where)
        for observer in x.batch.access_observers:
            observer.on_access(x, parts, dtype.itemsize, values is not None, where)
        for buffer, offsets, chosen in parts:
            rows = slice(None) if chosen is None else chosen
            elements = buffer.typed(dtype)
            if values is None:
                out[rows, e] = elements[offsets // dtype.itemsize]
            else:
                elements[offsets // dtype.itemsize] = values[rows, e]
    return out


def _to_registers(values: Array, kind: str) -> Array:
    return values if kind in _WHOLE_REGISTER else np.ascontiguousarray(values).view(np.uint32)


def _from_registers(x: Context, sources: list[int], kind: str, count: int) -> Array:
    registers = np.stack([x.get(slot) for slot in sources], axis=1)
    if kind in _WHOLE_REGISTER:
        return registers
    needed = count * SIZES[kind] // 4
    return np.ascontiguousarray(registers[:, :needed]).view(raw_type(kind))


@effect("wmma.mma", isa="9.7.14.4.5", counter="mma", lenient=True)
def mma(b: Any) -> Step:
    """D = A·B + C on fragments."""
    m, n, k = _shape(b)
    kinds = _kinds(b)
    result, a_kind, b_kind, c_kind = (kinds[0], "f16", "f16", kinds[1]) if len(kinds) == 2 else kinds
    word = _word(a_kind)
    d = b.destinations(b.operands[0], word)
    slots = [b.sources(operand, word) for operand in b.operands[1:4]]
    saturates, pc = b.form.has("satfinite"), b.pc

    def step(x: Context) -> None:
        gather(x, np.broadcast_to(FULL, x.lanes.count), pc)
        left = _decode(_from_registers(x, slots[0], a_kind, m * k // 32).reshape(-1, m, k), a_kind)
        right = _decode(_from_registers(x, slots[1], b_kind, k * n // 32).reshape(-1, k, n), b_kind)
        raw = _from_registers(x, slots[2], c_kind, m * n // 32).reshape(-1, m, n)
        addend = raw.view(np.float16).astype(np.float32) if c_kind == "f16" else raw.view(
            {"s32": np.int32, "f64": np.float64, "f32": np.float32}[c_kind])  # fmt: skip
        total = _sum(left @ right, addend, result, saturates)
        x.batch.launch.tensor_flops["wmma", a_kind] += 2 * m * n * k * len(total)
        registers = _to_registers(total.reshape(x.lanes.count, -1), result)
        for i, slot in enumerate(d):
            value = np.ascontiguousarray(registers[:, i % registers.shape[1]])
            x.put(slot, value.view(f"u{value.dtype.itemsize}"))

    return step
