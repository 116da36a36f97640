"""Logic and shifts (PTX ISA 9.7.8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.ptx.syntax import Pair
from ptxgym.devices.simulator.table import Elementwise, Form, Step, effect, elementwise
from ptxgym.devices.simulator.types import SIZES, Array

_BITS = "pred b16 b32 b64"

elementwise("and", _BITS, np.bitwise_and, isa="9.7.8.1", counter="logic")
elementwise("or", _BITS, np.bitwise_or, isa="9.7.8.2", counter="logic")
elementwise("xor", _BITS, np.bitwise_xor, isa="9.7.8.3", counter="logic")
elementwise("not", _BITS, np.invert, isa="9.7.8.4", signature="T:T", counter="logic")


@elementwise("cnot", "b16 b32 b64", isa="9.7.8.5", signature="T:T", counter="logic")
def cnot(form: Form) -> Elementwise:
    """One where the value is zero."""
    return lambda a: np.asarray(a) == 0


def lookup3(a: Array, b: Array, c: Array, *, table: int) -> Array:
    """Any three-input bit function; bit ``4a+2b+c`` of ``table`` is the result."""
    result = np.zeros_like(np.asarray(a) | b | c)
    for index in range(8):
        if table >> index & 1:
            x = a if index & 4 else ~np.asarray(a)
            y = b if index & 2 else ~np.asarray(b)
            z = c if index & 1 else ~np.asarray(c)
            result |= x & y & z
    return result


@effect("lop3", "b32", isa="9.7.8.6", modifiers="and or", counter="logic")
def lop3(b: Any) -> Step:
    """Three-input logic; with ``.and``/``.or`` also a predicate."""
    destination, flag = b.pair(b.operands[0])
    d = b.destination(destination, "b32")
    sources = [b.source(operand, "b32") for operand in b.operands[1:4]]
    table = b.constant(b.operands[4])
    p = b.destination(flag, "pred") if flag is not None else -1
    q = b.source(b.operands[5], "pred") if isinstance(b.operands[0], Pair) else -1
    combine = np.logical_and if b.form.has("and") else np.logical_or

    def step(x: Context) -> None:
        value = lookup3(*(x.get(slot) for slot in sources), table=table)
        if p >= 0:
            x.put(p, combine(value != 0, x.get(q)))
        x.put(d, value)

    return step


def _shift(function: Any) -> Any:
    def build(form: Form) -> Elementwise:
        if SIZES[form.types[0]] == 4:
            return function  # type: ignore[no-any-return]
        # NumPy's result type follows the wider operand; the destination's width decides here.
        return lambda a, b: function(a, np.asarray(b).astype(np.uint64) if np.asarray(a).dtype.kind == "u"
                                     else np.minimum(b, 127).astype(np.int64))  # fmt: skip

    return build


elementwise("shl", "b16 b64", isa="9.7.8.8", signature="T:T,u32", counter="logic")(_shift(np.left_shift))
elementwise("shl", "b32", np.left_shift, isa="9.7.8.8", counter="logic")
elementwise("shr", "b16 u16 s16 b64 u64 s64", isa="9.7.8.9", signature="T:T,u32", counter="logic")(
    _shift(np.right_shift)
)
elementwise("shr", "b32 u32 s32", np.right_shift, isa="9.7.8.9", counter="logic")


@elementwise("shf", "b32", isa="9.7.8.7", modifiers="l r clamp wrap", signature="b32:b32,b32,u32", counter="logic")
def funnel(form: Form) -> Elementwise:
    """Shift of a 64-bit value made of two registers."""
    left = form.has("l")

    def run(a: Array, b: Array, c: Array) -> Array:
        value = (np.asarray(b).astype(np.uint64) << np.uint64(32)) | np.asarray(a)
        count = np.asarray(c) & 31 if form.has("wrap") else np.minimum(c, 32)
        count = np.asarray(count).astype(np.uint64)
        shifted = (value << count) >> np.uint64(32) if left else value >> count
        return (shifted & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return run


def select_bytes(a: Array, b: Array, selector: Array) -> Array:
    """``prmt`` in its default mode: each nibble picks a byte, its top bit replicates the byte's sign."""
    a, b, selector = np.broadcast_arrays(a, b, selector)
    both = np.stack([np.ascontiguousarray(a), np.ascontiguousarray(b)], axis=-1).view(np.uint8).reshape(*a.shape, 8)
    nibbles = np.stack([(selector >> (4 * i)) & 15 for i in range(4)], axis=-1)
    picked = np.take_along_axis(both, (nibbles & 7).astype(np.intp), axis=-1)
    picked = np.where(nibbles & 8, np.where(picked & 0x80, 255, 0), picked).astype(np.uint8)
    return np.ascontiguousarray(picked).view(np.uint32)[..., 0]


_PRMT: dict[str, Any] = {
    "f4e": lambda s: [s, s + 1, s + 2, s + 3],
    "b4e": lambda s: [s, (s - 1) & 7, (s - 2) & 7, (s - 3) & 7],
    "rc8": lambda s: [s, s, s, s],
    "ecl": lambda s: [s, max(s, 1), max(s, 2), 3],
    "ecr": lambda s: [0, min(s, 1), min(s, 2), s],
    "rc16": lambda s: [2 * (s & 1), 2 * (s & 1) + 1] * 2,
}
"""Bytes picked by the special modes, for each value of the selector's low two bits (table in 9.7.9.7)."""


@elementwise("prmt", "b32", isa="9.7.9.7", modifiers=" ".join(_PRMT), signature="b32:b32,b32,u32", counter="logic")
def prmt(form: Form) -> Elementwise:
    """Permute bytes."""
    mode = form.one_of(tuple(_PRMT))
    if not mode:
        return lambda a, b, c: select_bytes(np.asarray(a), np.asarray(b), np.asarray(c))
    picks = [_PRMT[mode](s) for s in range(4)]
    codes = np.array([sum((byte & 7) << (4 * i) for i, byte in enumerate(p)) for p in picks], np.uint32)
    return lambda a, b, c: select_bytes(np.asarray(a), np.asarray(b), codes[np.asarray(c) & 3])
