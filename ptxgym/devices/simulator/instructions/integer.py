"""Integer arithmetic (PTX ISA 9.7.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.table import Elementwise, Form, Step, TypedUfunc, effect, elementwise
from ptxgym.devices.simulator.types import SIZES, Array, dtype_of

_INTEGERS = "u16 s16 u32 s32 u64 s64"
_SIGNED = "s16 s32 s64"


def _saturated(function: Any, low: int, high: int) -> Elementwise:
    def run(*values: Array) -> Array:
        wide = function(*[np.asarray(v).astype(np.int64) for v in values])
        return np.clip(wide, low, high)

    return run


@elementwise("add", _INTEGERS, isa="9.7.1.1", modifiers="sat", counter="integer")
def add(form: Form) -> Elementwise:
    """``d = a + b``, wrapping, or clamped with ``.sat`` (s32)."""
    return _saturated(np.add, -(1 << 31), (1 << 31) - 1) if form.has("sat") else np.add


@elementwise("sub", _INTEGERS, isa="9.7.1.2", modifiers="sat", counter="integer")
def sub(form: Form) -> Elementwise:
    """``d = a - b``, wrapping, or clamped with ``.sat`` (s32)."""
    return _saturated(np.subtract, -(1 << 31), (1 << 31) - 1) if form.has("sat") else np.subtract


def _packed_halves(function: Any, signed: bool) -> Elementwise:
    kind = np.int16 if signed else np.uint16

    def run(*values: Array) -> Array:
        parts = [np.ascontiguousarray(v).reshape(-1).view(kind) for v in values]
        return np.asarray(function(*parts)).view(np.uint32)

    return run


@elementwise("add sub min max", "u16x2 s16x2", isa="9.7.1.1", modifiers="relu", counter="integer")
def packed(form: Form) -> Elementwise:
    """Two 16-bit halves at once."""
    names: dict[str, Any] = {"add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum}
    function = names[form.row.opcode]
    if form.has("relu"):
        return _packed_halves(lambda a, b: np.maximum(function(a, b), 0), True)
    return _packed_halves(function, form.types[0] == "s16x2")


elementwise("mul", _INTEGERS, np.multiply, isa="9.7.1.3", modifiers="lo", needs="lo", counter="integer")


@elementwise("mul", "u16 s16 u32 s32", isa="9.7.1.3", modifiers="wide", needs="wide", signature="W:T,T",
             counter="integer")  # fmt: skip
def mul_wide(form: Form) -> TypedUfunc:
    """The whole product, twice as wide."""
    dtype = dtype_of(form.type_of("W"))
    return TypedUfunc(np.multiply, dtype)


def high_product(a: Array, b: Array, kind: str) -> Array:
    """The upper half of a product."""
    bits = 8 * SIZES[kind]
    if bits < 64:
        wide = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{bits // 4}")
        return np.right_shift(np.multiply(a, b, dtype=wide), bits).astype(dtype_of(kind))
    return _high_64(np.asarray(a), np.asarray(b), kind == "s64")


def _high_64(a: Array, b: Array, signed: bool) -> Array:
    x, y = a.view(np.uint64), b.view(np.uint64)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    low_x, high_x, low_y, high_y = x & mask, x >> half, y & mask, y >> half
    middle = high_x * low_y + ((low_x * low_y) >> half)
    cross = low_x * high_y + (middle & mask)
    high = high_x * high_y + (middle >> half) + (cross >> half)
    if not signed:
        return high
    high = high - np.where(a.view(np.int64) < 0, y, np.uint64(0)) - np.where(b.view(np.int64) < 0, x, np.uint64(0))
    return np.asarray(high).view(np.int64)


@elementwise("mul", _INTEGERS, isa="9.7.1.3", modifiers="hi", needs="hi", counter="integer")
def mul_hi(form: Form) -> Elementwise:
    """The upper half of the product."""
    kind = form.types[0]
    return lambda a, b: high_product(a, b, kind)


@elementwise("mad", _INTEGERS, isa="9.7.1.4", modifiers="lo", needs="lo", signature="T:T,T,T", counter="integer")
def mad_lo(form: Form) -> Elementwise:
    """``d = a * b + c``, wrapping."""
    return lambda a, b, c: a * b + c


@elementwise("mad", "u16 s16 u32 s32", isa="9.7.1.4", modifiers="wide", needs="wide", signature="W:T,T,W",
             counter="integer")  # fmt: skip
def mad_wide(form: Form) -> Elementwise:
    """The whole product plus a wide addend."""
    dtype = dtype_of(form.type_of("W"))
    return lambda a, b, c: np.multiply(a, b, dtype=dtype) + c


@elementwise("mad", _INTEGERS, isa="9.7.1.4", modifiers="hi sat", needs="hi", signature="T:T,T,T", counter="integer")
def mad_hi(form: Form) -> Elementwise:
    """The upper half of the product plus an addend."""
    kind = form.types[0]
    if form.has("sat"):
        return _saturated(lambda a, b, c: (a * b >> 32) + c, -(1 << 31), (1 << 31) - 1)
    return lambda a, b, c: high_product(a, b, kind) + c


def _low24(value: Array, signed: bool) -> Array:
    wide = np.asarray(value).astype(np.int64) & 0xFFFFFF
    return np.where(wide & 0x800000, wide - (1 << 24), wide) if signed else wide


@elementwise("mul24 mad24", "u32 s32", isa="9.7.1.5, 9.7.1.6", modifiers="lo hi sat", signature="T:T,T,*",
             counter="integer")  # fmt: skip
def mul24(form: Form) -> Elementwise:
    """The low or high 32 bits of a 48-bit product of 24-bit factors, plus an addend."""
    signed, shift = form.types[0] == "s32", 16 if form.has("hi") else 0

    def run(a: Array, b: Array, c: Array | int = 0) -> Array:
        product = (_low24(a, signed) * _low24(b, signed)) >> shift
        total = product + np.asarray(c).astype(np.int64)
        if form.has("sat"):
            return np.clip(total, -(1 << 31), (1 << 31) - 1)
        return total.astype(dtype_of(form.types[0]))

    return run


def truncated_division(a: Array, b: Array) -> Array:
    """C division: toward zero; by zero all bits are set, as on hardware."""
    if a.dtype.kind == "u":
        return np.where(b == 0, a.dtype.type(np.iinfo(a.dtype).max), np.floor_divide(a, np.where(b == 0, 1, b)))
    safe = np.where(b == 0, b.dtype.type(1), b)
    quotient = np.floor_divide(a, safe)
    remainder = a - quotient * safe
    quotient = quotient + ((remainder != 0) & ((a < 0) != (safe < 0)))
    return np.where(b == 0, a.dtype.type(-1), quotient).astype(a.dtype)


@elementwise("div", _INTEGERS, isa="9.7.1.8", counter="integer")
def div(form: Form) -> Elementwise:
    """Integer quotient, rounded toward zero."""
    return lambda a, b: truncated_division(np.asarray(a), np.asarray(b))


@elementwise("rem", _INTEGERS, isa="9.7.1.9", counter="integer")
def rem(form: Form) -> Elementwise:
    """Integer remainder, with the sign of the dividend."""

    def run(a: Array, b: Array) -> Array:
        a, b = np.asarray(a), np.asarray(b)
        return np.where(b == 0, a, a - truncated_division(a, b) * b)

    return run


elementwise("abs", _SIGNED, np.abs, isa="9.7.1.10", signature="T:T", counter="integer")
elementwise("neg", _SIGNED, np.negative, isa="9.7.1.11", signature="T:T", counter="integer")


def _extremum(function: Any, relu: bool) -> Elementwise:
    if not relu:
        return function  # type: ignore[no-any-return]
    return lambda a, b: np.maximum(function(a, b), np.asarray(a).dtype.type(0))


@elementwise("min", _INTEGERS, isa="9.7.1.12", modifiers="relu", counter="integer")
def minimum(form: Form) -> Elementwise:
    """The smaller."""
    return _extremum(np.minimum, form.has("relu"))


@elementwise("max", _INTEGERS, isa="9.7.1.13", modifiers="relu", counter="integer")
def maximum(form: Form) -> Elementwise:
    """The larger."""
    return _extremum(np.maximum, form.has("relu"))


@elementwise("sad", _INTEGERS, isa="9.7.1.7", signature="T:T,T,T", counter="integer")
def sad(form: Form) -> Elementwise:
    """``d = c + |a - b|``."""
    return lambda a, b, c: c + np.where(a < b, b - a, a - b)


elementwise("popc", "b32 b64", np.bitwise_count, isa="9.7.1.14", signature="u32:T", counter="integer")


def bit_length(value: Array) -> Array:
    """Position of the highest set bit plus one."""
    wide = np.asarray(value).astype(np.uint64)
    high = (wide >> np.uint64(32)).astype(np.float64)
    low = (wide & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1])


@elementwise("clz", "b32 b64", isa="9.7.1.15", signature="u32:T", counter="integer")
def clz(form: Form) -> Elementwise:
    """Leading zeros."""
    bits = 8 * SIZES[form.types[0]]
    return lambda a: bits - bit_length(a)


@elementwise("bfind", "u32 s32 u64 s64", isa="9.7.1.16", modifiers="shiftamt", signature="u32:T", counter="integer")
def bfind(form: Form) -> Elementwise:
    """Position of the highest bit that is not a sign bit; all ones when there is none."""
    bits = 8 * SIZES[form.types[0]]

    def run(a: Array) -> Array:
        value = np.asarray(a)
        if value.dtype.kind == "i":
            value = np.where(value < 0, ~value, value)
        position = bit_length(value.view(f"u{value.dtype.itemsize}")) - 1
        found = bits - 1 - position if form.has("shiftamt") else position
        return np.where(position < 0, 0xFFFFFFFF, found)

    return run


@elementwise("fns", "b32", isa="9.7.1.17", signature="b32:b32,b32,s32", counter="integer")
def fns(form: Form) -> Elementwise:
    """The n-th set bit from a base, upward or downward."""

    def one(mask: int, base: int, offset: int) -> int:
        step = 1 if offset >= 0 else -1
        wanted = abs(offset) if offset else 1
        position = base
        while 0 <= position < 32:
            if mask >> position & 1:
                wanted -= 1
                if wanted == 0:
                    return position
            elif offset == 0:
                break
            position += step
        return 0xFFFFFFFF

    return np.vectorize(one, otypes=[np.uint32])


@elementwise("brev", "b32 b64", isa="9.7.1.18", signature="T:T", counter="integer")
def brev(form: Form) -> Elementwise:
    """Bits in reverse order."""
    size = SIZES[form.types[0]]

    def run(a: Array) -> Array:
        flat = np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(-1, size)
        bits = np.unpackbits(flat[:, ::-1], axis=1)
        return np.packbits(bits[:, ::-1], axis=1)[:, ::-1].copy().view(f"u{size}").reshape(np.shape(a))

    return run


def field_mask(length: Array, kind: Any) -> Array:
    """``length`` ones."""
    bits = np.dtype(kind).itemsize * 8
    one = kind(1)
    return np.where(length >= bits, kind(~kind(0)), (one << np.minimum(length, bits - 1).astype(kind)) - one)


@elementwise("bfe", "u32 s32 u64 s64", isa="9.7.1.19", signature="T:T,u32,u32", counter="integer")
def bfe(form: Form) -> Elementwise:
    """Extract a bit field; signed fields extend from the field's, or the value's, top bit."""
    size = SIZES[form.types[0]]
    unsigned = np.dtype(f"u{size}").type
    bits = 8 * size

    def run(a: Array, position: Array, length: Array) -> Array:
        position, length = np.asarray(position) & 0xFF, np.asarray(length) & 0xFF
        value = np.asarray(a).view(unsigned)
        field = np.right_shift(value, position.astype(unsigned)) & field_mask(length, unsigned)
        if form.types[0][0] == "u":
            return field
        top = np.minimum(position + length - 1, bits - 1)
        sign = (np.right_shift(value, top.astype(unsigned)) & unsigned(1)).astype(bool) & (length != 0)
        inside = np.minimum(length, np.maximum(bits - position.astype(np.int64), 0))
        return np.where(sign, field | ~field_mask(inside, unsigned), field).astype(unsigned).view(f"i{size}")

    return run


@elementwise("bfi", "b32 b64", isa="9.7.1.20", signature="T:T,T,u32,u32", counter="integer")
def bfi(form: Form) -> Elementwise:
    """Insert a bit field."""
    unsigned = np.dtype(f"u{SIZES[form.types[0]]}").type

    def run(a: Array, b: Array, position: Array, length: Array) -> Array:
        position, length = np.asarray(position) & 0xFF, np.asarray(length) & 0xFF
        shift = position.astype(unsigned)
        mask = np.left_shift(field_mask(length, unsigned), shift)
        return (b & ~mask) | (np.left_shift(np.asarray(a), shift) & mask)

    return run


@elementwise("bmsk", "b32", isa="9.7.1.22", modifiers="clamp wrap", signature="b32:u32,u32", counter="integer")
def bmsk(form: Form) -> Elementwise:
    """A mask of ones at a position."""

    def run(position: Array, length: Array) -> Array:
        position, length = np.asarray(position), np.asarray(length)
        if form.has("wrap"):
            position, length = position & 31, length & 31
        mask = field_mask(np.minimum(length, 32), np.uint32)
        return np.left_shift(mask, position.astype(np.uint32)).astype(np.uint32)

    return run


@elementwise("szext", "u32 s32", isa="9.7.1.21", modifiers="clamp wrap", signature="T:T,u32", counter="integer")
def szext(form: Form) -> Elementwise:
    """Sign- or zero-extend from a width."""

    def run(a: Array, width: Array) -> Array:
        width = np.asarray(width) & 31 if form.has("wrap") else np.asarray(width)
        value = np.asarray(a).view(np.uint32)
        mask = field_mask(np.minimum(width, 32), np.uint32)
        low = value & mask
        if form.types[0] == "u32":
            return low
        top = np.clip(width.astype(np.int64) - 1, 0, 31).astype(np.uint32)
        sign = ((value >> top) & np.uint32(1)).astype(bool) & (width != 0)
        return np.where(sign, low | ~mask, low).astype(np.uint32).view(np.int32)

    return run


@effect("dp4a dp2a", "u32 s32", isa="9.7.1.23, 9.7.1.24", modifiers="lo hi", counter="integer")
def dot_product(b: Any) -> Step:
    """Dot product of bytes (and halves) with accumulation."""
    first, second = b.form.types
    result = "s32" if "s32" in (first, second) else "u32"
    d = b.destination(b.operands[0], result)
    sources = [
        b.source(b.operands[1], first),
        b.source(b.operands[2], second),
        b.source(b.operands[3], result),
    ]
    is_four, high = b.form.row.opcode == "dp4a", b.form.has("hi")

    def parts(value: Array, kind: str, size: int) -> Array:
        raw = np.ascontiguousarray(value).view(f"{'i' if kind == 's32' else 'u'}{size}")
        return raw.reshape(len(value), -1).astype(np.int64)

    def step(x: Context) -> None:
        u, v, c = (x.get(slot) for slot in sources)
        left = parts(u, first, 1 if is_four else 2)
        right = parts(v, second, 1)
        if not is_four:
            right = right[:, 2:] if high else right[:, :2]
        x.put(d, (c.astype(np.int64) + (left * right).sum(axis=1)).astype(dtype_of(result)))

    return step
