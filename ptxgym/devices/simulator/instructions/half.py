"""Half-precision arithmetic: f16, f16x2, bf16, bf16x2 (PTX ISA 9.7.4).

Values are computed in float32 (float64 for fused forms) and rounded once: the product and the sum of two
numbers of 11 (or 8) significant bits survive the detour exactly enough that no double rounding occurs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.formats import bf16_to_f32, f32_to_bf16, narrow, round_to_odd, two_sum
from ptxgym.devices.simulator.instructions.floating import extremum
from ptxgym.devices.simulator.table import Elementwise, Form, elementwise
from ptxgym.devices.simulator.types import Array

_TYPES = "f16 f16x2 bf16 bf16x2"
_COMMON = "rn ftz sat relu approx"


def decode_half(codes: Array, kind: str) -> Array:
    """16-bit codes to float32."""
    return bf16_to_f32(codes) if kind.startswith("bf16") else codes.view(np.float16).astype(np.float32)


def encode_half(values: Array, kind: str, mode: str = "rn") -> Array:
    """Floats to 16-bit codes, rounded once."""
    if kind.startswith("bf16"):
        return f32_to_bf16(_to_f32(values), mode)
    if mode == "rn":
        return canonical_half(np.asarray(values).astype(np.float16).view(np.uint16))
    return canonical_half(narrow(np.asarray(values, np.float64), None, np.float16, mode).view(np.uint16))


def canonical_half(codes: Array) -> Array:
    """Any f16 NaN becomes 0x7fff."""
    nan = (codes & 0x7FFF) > 0x7C00
    return np.where(nan, np.uint16(0x7FFF), codes) if nan.any() else codes


def _to_f32(values: Array) -> Array:
    if values.dtype == np.float32:
        return values
    # To round float64 to bf16 correctly, float32 must not have been rounded to a midpoint before.
    near = values.astype(np.float32)
    difference = values - near.astype(np.float64)
    bits = near.view(np.int32)
    fix = (difference != 0) & (bits & 1 == 0) & np.isfinite(near) & (near != 0)
    moved = np.where((difference > 0) == (near > 0), bits + 1, bits - 1).view(np.float32)
    return np.where(fix, moved, near)


def lifted(function: Any, form: Form) -> Elementwise:
    """A function on floats as a function on codes, packed or not, with ``.sat``, ``.relu`` and ``.ftz``."""
    kind = form.types[0]
    is_packed = kind.endswith("x2")
    sat, relu, ftz = form.has("sat"), form.has("relu"), form.has("ftz") and kind.startswith("f16")

    def run(*values: Array) -> Array:
        parts = []
        for value in values:
            raw = np.ascontiguousarray(value).reshape(-1).view(np.uint16) if is_packed else np.asarray(value)
            number = decode_half(raw.view(np.uint16), kind)
            parts.append(_flush_half(number) if ftz else number)
        result = np.asarray(function(*parts))
        if sat:
            result = np.where(np.isnan(result), 0, np.clip(result, 0, 1))
        if relu:
            result = np.where(np.isnan(result), result, np.maximum(result, 0))
        codes = encode_half(_flush_half(result) if ftz else result, kind)
        return codes.view(np.uint32) if is_packed else (codes if kind == "bf16" else codes.view(np.float16))

    return run


def _flush_half(value: Array) -> Array:
    return np.where(np.abs(value) < 2.0**-14, np.copysign(value.dtype.type(0), value), value)


def _fused(a: Array, b: Array, c: Array) -> Array:
    return round_to_odd(*two_sum(np.multiply(a, b, dtype=np.float64), c.astype(np.float64)))


def _wide(function: Any) -> Any:
    return lambda a, b: function(a.astype(np.float64), b.astype(np.float64))


@elementwise("add sub mul", _TYPES, isa="9.7.4.1", modifiers=_COMMON, counter="half")
def binary(form: Form) -> Elementwise:
    """Sum, difference, product."""
    functions: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
    return lifted(_wide(functions[form.row.opcode]), form)


@elementwise("fma", _TYPES, isa="9.7.4.4", modifiers=f"{_COMMON} oob", signature="T:T,T,T", counter="half")
def fma(form: Form) -> Elementwise:
    """``a * b + c`` with one rounding."""
    return lifted(_fused, form)


def _bits(function: Any) -> Any:
    def build(form: Form) -> Elementwise:
        kind = np.uint32 if form.types[0].endswith("x2") else np.uint16
        mask = kind(0x80008000 if kind is np.uint32 else 0x8000)
        out = np.float16 if form.types[0] == "f16" else kind
        return lambda a: np.asarray(function(np.asarray(a).view(kind), mask)).view(out)

    return build


elementwise("neg", _TYPES, isa="9.7.4.5", modifiers="ftz", signature="T:T", counter="half")(_bits(np.bitwise_xor))
elementwise("abs", _TYPES, isa="9.7.4.6", modifiers="ftz", signature="T:T", counter="half")(
    _bits(lambda a, mask: a & ~mask)
)
_EXTREMA = "ftz NaN xorsign abs"


@elementwise("min", _TYPES, isa="9.7.4.7", modifiers=_EXTREMA, signature="T:T,*", counter="half")
def minimum(form: Form) -> Elementwise:
    """The smaller."""
    return lifted(extremum(form, np.fmin, np.minimum), form)


@elementwise("max", _TYPES, isa="9.7.4.8", modifiers=_EXTREMA, signature="T:T,*", counter="half")
def maximum(form: Form) -> Elementwise:
    """The larger."""
    return lifted(extremum(form, np.fmax, np.maximum), form)


def _unary(opcode: str, function: Any, section: str) -> None:
    @elementwise(opcode, _TYPES, isa=section, modifiers="approx ftz", signature="T:T", counter="half")
    def build(form: Form) -> Elementwise:
        return lifted(lambda a: function(a.astype(np.float64)), form)


_unary("tanh", np.tanh, "9.7.4.9")
_unary("ex2", np.exp2, "9.7.4.10")
