"""Floating-point arithmetic in f32, f32x2 and f64 (PTX ISA 9.7.3).

The ``.approx`` forms are computed with NumPy's functions, which are more exact than the hardware's; a
comparison with hardware needs the tolerance that the ISA states.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.formats import narrow, round_to_odd, two_sum
from ptxgym.devices.simulator.table import Elementwise, Form, InPlace, elementwise
from ptxgym.devices.simulator.types import Array, dtype_of

_ROUNDING = ("rn", "rz", "rm", "rp")
_COMMON = "rn rz rm rp ftz sat approx full"
_F64 = np.float64


def flush(value: Array) -> Array:
    """Subnormal numbers become zero of the same sign."""
    tiny = np.finfo(value.dtype).tiny
    return np.where(np.abs(value) < tiny, np.copysign(value.dtype.type(0), value), value)


def with_modifiers(function: Elementwise, form: Form) -> Elementwise:
    """Add ``.ftz`` and ``.sat`` to a function."""
    ftz, sat = form.has("ftz"), form.has("sat")
    if not (ftz or sat):
        return function

    def run(*values: Array) -> Array:
        if ftz:
            values = tuple(flush(np.asarray(v)) for v in values)
        result = np.asarray(function(*values))
        if ftz:
            result = flush(result)
        if sat:
            result = np.where(np.isnan(result) | (result <= 0), result.dtype.type(0), np.minimum(result, 1))
        return result

    return run


def _mode(form: Form) -> str:
    return form.one_of(_ROUNDING, "rn")


def _directed_add(mode: str, sign: int) -> Elementwise:
    def run(a: Array, b: Array) -> Array:
        x, y = np.asarray(a, _F64), sign * np.asarray(b, _F64)
        return _zero_sign(narrow(*two_sum(x, y), np.float32, mode), x, y, mode)

    return run


def _zero_sign(value: Array, x: Array, y: Array, mode: str) -> Array:
    # Rounding down, an exact cancellation gives -0; two positive zeros do not cancel (IEEE 754 6.3).
    if mode != "rm":
        return value
    cancelled = (x + y == 0) & (np.signbit(x) | np.signbit(y))
    return np.where(cancelled, np.copysign(value, -1), value)


@elementwise("add", "f32 f64", isa="9.7.3.3", modifiers=_COMMON, counter="float")
def add(form: Form) -> Elementwise:
    """``a + b``."""
    if _mode(form) != "rn" and form.types[0] == "f32":
        return with_modifiers(_directed_add(_mode(form), 1), form)
    return with_modifiers(np.add, form)


@elementwise("sub", "f32 f64", isa="9.7.3.4", modifiers=_COMMON, counter="float")
def sub(form: Form) -> Elementwise:
    """``a - b``."""
    if _mode(form) != "rn" and form.types[0] == "f32":
        return with_modifiers(_directed_add(_mode(form), -1), form)
    return with_modifiers(np.subtract, form)


@elementwise("mul", "f32 f64", isa="9.7.3.5", modifiers=_COMMON, counter="float")
def mul(form: Form) -> Elementwise:
    """``a * b``."""
    mode = _mode(form)
    if mode != "rn" and form.types[0] == "f32":
        # The product of two 24-bit significands is exact in float64.
        return with_modifiers(
            lambda a, b: narrow(np.asarray(a, _F64) * np.asarray(b, _F64), None, np.float32, mode), form
        )
    return with_modifiers(np.multiply, form)


_SMALLEST_NORMAL = 2.0**-126
_MIDPOINT = np.int64(1 << 28)
_LOW_BITS = np.int64((1 << 29) - 1)


def fused_f32(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` with one rounding to float32.

    The product is exact in float64; the float64 sum can only mislead the second rounding when it landed on
    a midpoint between two float32 values (or is subnormal there), so only then the exact error is looked at.
    """
    rounded = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(c)) or (1,), np.float32)
    fused_f32_into(rounded, a, b, c)
    return rounded


def fused_f32_into(rounded: Array, a: Array, b: Array, c: Array) -> None:
    """:func:`fused_f32`, written to ``rounded``, which may be one of the operands."""
    product = np.multiply(a, b, dtype=_F64)
    total = np.atleast_1d(np.add(product, c, dtype=_F64))
    (doubtful,) = ((total.view(np.int64) & _LOW_BITS) == _MIDPOINT).nonzero()
    if doubtful.size:
        _make_odd(total, doubtful, product, c)
    magnitude = np.abs(total)
    if not magnitude.min() >= _SMALLEST_NORMAL:  # or some element is NaN
        _make_odd(total, ((magnitude < _SMALLEST_NORMAL) & (total != 0)).nonzero()[0], product, c)
    rounded[...] = total


def _make_odd(total: Array, few: Array, product: Array, addend: Array) -> None:
    """Correct the doubtful elements of a sum so that rounding it again is right."""
    a, b = (np.asarray(v[few] if np.shape(v) == total.shape else v, _F64) for v in (product, addend))
    sums, errors = two_sum(a, b)
    if errors.any():
        total[few] = round_to_odd(sums, errors)


def _directed_fma(mode: str) -> Elementwise:
    def run(a: Array, b: Array, c: Array) -> Array:
        x, y = np.multiply(a, b, dtype=_F64), np.asarray(c, _F64)
        return _zero_sign(narrow(*two_sum(x, y), np.float32, mode), x, y, mode)

    return run


_SPLIT = 134217729.0


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    product = a * b
    high_a = _SPLIT * a - (_SPLIT * a - a)
    high_b = _SPLIT * b - (_SPLIT * b - b)
    low_a, low_b = a - high_a, b - high_b
    return product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b


def fused_f64(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` in float64 from error-free transformations.

    Rounds correctly except in rare double-rounding cases, where it is off by one unit in the last place.
    """
    product, low = _two_product(np.asarray(a), np.asarray(b))
    total, error = two_sum(product, np.asarray(c))
    result = total + (error + low)
    return np.where(np.isfinite(result), result, np.asarray(a) * b + c)


@elementwise("fma mad", "f32 f64", isa="9.7.3.6", modifiers=_COMMON, signature="T:T,T,T", counter="float")
def fma(form: Form) -> Elementwise:
    """``a * b + c`` with one rounding."""
    if form.types[0] == "f64":
        return fused_f64
    mode = _mode(form)
    if mode == "rn" and not form.modifiers & {"ftz", "sat"}:
        return InPlace(fused_f32, fused_f32_into)
    return with_modifiers(fused_f32 if mode == "rn" else _directed_fma(mode), form)


def _quotient(mode: str) -> Elementwise:
    def run(a: Array, b: Array) -> Array:
        numerator, divisor = np.asarray(a, _F64), np.asarray(b, _F64)
        quotient = numerator / divisor
        nearest = quotient.astype(np.float32).astype(_F64)
        # Where the float64 quotient looks exact, the residual tells on which side the true one lies.
        residual = np.where(np.isfinite(nearest), numerator - nearest * divisor, 0.0)
        error = np.sign(residual) * np.sign(divisor) * 1e-300
        return narrow(quotient, np.where(quotient == nearest, error, 0.0), np.float32, mode)

    return run


@elementwise("div", "f32 f64", isa="9.7.3.8", modifiers=_COMMON, counter="float")
def div(form: Form) -> Elementwise:
    """``a / b``."""
    if form.types[0] == "f32" and _mode(form) != "rn":
        return with_modifiers(_quotient(_mode(form)), form)
    return with_modifiers(np.divide, form)


@elementwise("rcp", "f32 f64", isa="9.7.3.13", modifiers=_COMMON, signature="T:T", counter="float")
def rcp(form: Form) -> Elementwise:
    """``1 / a``."""
    kind = dtype_of(form.types[0]).type
    if form.types[0] == "f32" and _mode(form) != "rn":
        quotient = _quotient(_mode(form))
        return with_modifiers(lambda a: quotient(np.float32(1), a), form)
    return with_modifiers(lambda a: kind(1) / a, form)


@elementwise("sqrt", "f32 f64", isa="9.7.3.15", modifiers=_COMMON, signature="T:T", counter="float")
def sqrt(form: Form) -> Elementwise:
    """Square root."""
    mode = _mode(form)
    if form.types[0] == "f32" and mode != "rn":

        def run(a: Array) -> Array:
            exact = np.sqrt(np.asarray(a, _F64))
            nearest = exact.astype(np.float32).astype(_F64)
            error = np.where(exact == nearest, np.sign(a - nearest * nearest) * 1e-300, 0.0)
            return narrow(exact, error, np.float32, mode)

        return with_modifiers(run, form)
    return with_modifiers(np.sqrt, form)


@elementwise("rsqrt", "f32 f64", isa="9.7.3.16", modifiers="ftz approx", signature="T:T", counter="float")
def rsqrt(form: Form) -> Elementwise:
    """``1 / sqrt(a)``."""
    kind = dtype_of(form.types[0]).type
    return with_modifiers(lambda a: (1.0 / np.sqrt(np.asarray(a, _F64))).astype(kind), form)


def _approximate(opcode: str, function: Any, section: str) -> None:
    @elementwise(opcode, "f32", isa=section, modifiers="ftz approx", signature="T:T", counter="float")
    def build(form: Form) -> Elementwise:
        return with_modifiers(function, form)


_approximate("sin", np.sin, "9.7.3.18")
_approximate("cos", np.cos, "9.7.3.19")
_approximate("lg2", np.log2, "9.7.3.20")
_approximate("ex2", np.exp2, "9.7.3.21")
_approximate("tanh", np.tanh, "9.7.3.22")


@elementwise("abs", "f32 f64", isa="9.7.3.9", modifiers="ftz", signature="T:T", counter="float")
def absolute(form: Form) -> Elementwise:
    """Absolute value."""
    return with_modifiers(np.abs, form)


@elementwise("neg", "f32 f64", isa="9.7.3.10", modifiers="ftz", signature="T:T", counter="float")
def negative(form: Form) -> Elementwise:
    """Opposite sign."""
    return with_modifiers(np.negative, form)


def extremum(form: Form, ufunc: Any, nan_ufunc: Any) -> Elementwise:
    """``min``/``max`` over two or three operands with ``.NaN``, ``.xorsign`` and ``.abs``."""
    base = nan_ufunc if form.has("NaN") else ufunc
    if not (form.has("xorsign") or form.has("abs")):
        return base if form.row.signature == "T:T,T" else _folded(base)

    def run(*values: Array) -> Array:
        result = _folded(base)(*[np.abs(v) for v in values])
        if not form.has("xorsign"):
            return result
        sign = np.signbit(values[0])
        for value in values[1:]:
            sign = sign ^ np.signbit(value)
        return np.where(sign, -result, result)

    return run


def _folded(function: Any) -> Elementwise:
    def run(first: Array, *rest: Array) -> Array:
        for value in rest:
            first = function(first, value)
        return first

    return run


_EXTREMA = "ftz NaN xorsign abs"


@elementwise("min", "f32 f64", isa="9.7.3.11", modifiers=_EXTREMA, signature="T:T,*", counter="float")
def minimum(form: Form) -> Elementwise:
    """The smaller; a NaN loses unless ``.NaN``."""
    return with_modifiers(extremum(form, np.fmin, np.minimum), form)


@elementwise("max", "f32 f64", isa="9.7.3.12", modifiers=_EXTREMA, signature="T:T,*", counter="float")
def maximum(form: Form) -> Elementwise:
    """The larger; a NaN loses unless ``.NaN``."""
    return with_modifiers(extremum(form, np.fmax, np.maximum), form)


elementwise("copysign", "f32 f64", lambda a, b: np.copysign(b, a), isa="9.7.3.2", counter="float")


@elementwise("testp", "f32 f64", isa="9.7.3.1", modifiers="finite infinite number notanumber normal subnormal",
             signature="pred:T", counter="float")  # fmt: skip
def testp(form: Form) -> Elementwise:
    """A property of a number."""
    tiny = np.finfo(dtype_of(form.types[0])).tiny
    tests: dict[str, Elementwise] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= tiny),
        "subnormal": lambda a: (np.abs(a) < tiny) & (a != 0),
    }
    return tests[form.one_of(tuple(tests))]


def _pairs(function: Elementwise) -> Elementwise:
    def run(*values: Array) -> Array:
        parts = [np.ascontiguousarray(v).reshape(-1).view(np.float32) for v in values]
        return np.asarray(function(*parts)).astype(np.float32, copy=False).view(np.uint64)

    return run


@elementwise("add sub mul", "f32x2", isa="9.7.3.3", modifiers="rn ftz", counter="float", architectures=("100a",))
def packed(form: Form) -> Elementwise:
    """Two float32 at once."""
    function: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
    return _pairs(with_modifiers(function[form.row.opcode], form))


@elementwise("fma", "f32x2", isa="9.7.3.6", modifiers="rn ftz", signature="T:T,T,T", counter="float",
             architectures=("100a",))  # fmt: skip
def packed_fma(form: Form) -> Elementwise:
    """Two fused multiply-adds at once."""
    return _pairs(with_modifiers(fused_f32, form))
