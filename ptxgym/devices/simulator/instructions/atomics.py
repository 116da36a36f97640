"""Atomic operations (PTX ISA 9.7.13.5-9.7.13.7), applied in lane order.

Lanes that meet at one address take turns; a turn is a round in which every address occurs once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.access import space_of
from ptxgym.devices.simulator.instructions.half import decode_half, encode_half
from ptxgym.devices.simulator.ptx.syntax import Name
from ptxgym.devices.simulator.table import Step, UnsupportedForm, effect
from ptxgym.devices.simulator.types import SIZES, Array, dtype_of

_TYPES = "b16 b32 b64 u32 u64 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64"
_OPERATIONS = "add inc dec min max and or xor exch cas"
_MODIFIERS = f"{_OPERATIONS} global shared shared::cta shared::cluster noftz v2 v4 v8"


def _half_sum(kind: str) -> Any:
    def run(old: Array, new: Array) -> Array:
        def halves(value: Array) -> Array:
            return decode_half(np.ascontiguousarray(value).view(np.uint16), kind)

        total = halves(old).astype(np.float64) + halves(new)
        return encode_half(total, kind).view(old.dtype)

    return run


def operation(name: str, kind: str) -> Any:
    """``(old, operand) -> new``."""
    if kind.startswith(("f16", "bf16")):
        if name == "add":
            return _half_sum(kind)
        if name in ("min", "max"):
            return _half_extremum(name, kind)
        raise UnsupportedForm(f".{name} on {kind}")
    table: dict[str, Any] = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "exch": lambda old, new: new,
        "inc": lambda old, limit: np.where(old >= limit, 0, old + old.dtype.type(1)),
        "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1)),
    }
    return table[name]


def _half_extremum(name: str, kind: str) -> Any:
    function = np.fmin if name == "min" else np.fmax

    def run(old: Array, new: Array) -> Array:
        parts = [decode_half(np.ascontiguousarray(v).view(np.uint16), kind) for v in (old, new)]
        return encode_half(function(*parts), kind).view(old.dtype)

    return run


def rounds(index: Array) -> list[Array]:
    """Positions in turns: in each, every value occurs at most once; turns keep the order."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if len(starts) == len(index):
        return [np.arange(len(index))]
    lengths = np.diff(np.append(starts, len(index)))
    turn = np.arange(len(index)) - np.repeat(starts, lengths)
    return [order[turn == t] for t in range(int(turn.max()) + 1)]


def apply(elements: Array, index: Array, update: Any, operands: list[Array]) -> Array:
    """Read-modify-write in lane order; returns the old values."""
    old = np.empty(len(index), elements.dtype)
    for turn in rounds(index):
        at = index[turn]
        before = elements[at]
        old[turn] = before
        elements[at] = update(before, *[o[turn] for o in operands])
    return old


@effect("atom red", _TYPES, isa="9.7.13.5, 9.7.13.6", modifiers=_MODIFIERS, counter="atomic")
def atomic(b: Any) -> Step:
    """Atomic read-modify-write, with (``atom``) or without (``red``) the old value."""
    kind, space = b.form.types[0], space_of(b.form)
    name = b.form.one_of(tuple(_OPERATIONS.split()))
    returns = b.form.row.opcode == "atom"
    operands = list(b.operands)
    targets = b.destinations(operands.pop(0), kind) if returns else []
    address_operand = operands[0]
    values = [b.sources(operand, kind) for operand in operands[1 : 3 if name == "cas" else 2]]
    address = b.address(address_operand)
    update = _compare_and_swap if name == "cas" else operation(name, kind)
    dtype, where = dtype_of("b" + str(8 * SIZES[kind]) if "16" in kind else kind), b.where
    width = len(values[0])
    if isinstance(b.operands[0], Name) and b.operands[0].text == "_":
        targets = []
    size = dtype.itemsize
    # Integer additions without a result commute, so turns are not needed.
    fast = np.add.at if name == "add" and not targets and dtype.kind in "iu" and "16" not in kind else None

    def step(x: Context) -> None:
        parts = x.locate(space, address(x), size * width, where)
        x.batch.launch.bytes[f"{space or 'generic'}.atomic"] += size * width * x.lanes.count
        for observer in x.batch.watchers("on_atomic"):
            observer.on_atomic(x, parts, size * width, where)
        for i in range(width):
            result = np.empty(x.lanes.count, dtype)
            for buffer, offsets, chosen in parts:
                index = offsets // size + i
                given = [x.get(v[i]).view(dtype) for v in values]
                if chosen is not None:
                    given = [g[chosen] for g in given]
                if fast is not None:
                    fast(buffer.typed(dtype), index, given[0])
                    continue
                result[slice(None) if chosen is None else chosen] = apply(buffer.typed(dtype), index, update, given)
            if targets:
                x.put(targets[i], result)

    return step


def _compare_and_swap(old: Array, expected: Array, new: Array) -> Array:
    return np.where(old == expected, new, old)
