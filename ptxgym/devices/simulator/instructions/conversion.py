"""Conversions between types (PTX ISA 9.7.9.21, ``cvt``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.formats import (
    SMALL,
    bf16_to_f32,
    decode_small,
    encode_small,
    encode_ue8m0,
    f32_to_bf16,
    f32_to_tf32,
    narrow,
)
from ptxgym.devices.simulator.instructions.floating import flush
from ptxgym.devices.simulator.instructions.half import encode_half
from ptxgym.devices.simulator.table import Elementwise, Form, InPlace, Step, UnsupportedForm, effect, elementwise
from ptxgym.devices.simulator.types import Array, dtype_of

_SCALARS = "u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64 tf32"
_PACKED = "f16x2 bf16x2 e4m3x2 e5m2x2 e2m3x2 e3m2x2 e2m1x2 ue8m0x2"
_MODES = "rn rz rm rp rna rni rzi rmi rpi ftz sat satfinite relu"
_INTEGER_ROUNDING: dict[str, Any] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _is_float(kind: str) -> bool:
    return kind in ("f16", "bf16", "f32", "f64", "tf32")


def _decode(kind: str) -> Elementwise:
    """A source as float64 (integers stay)."""
    if kind == "bf16":
        return lambda a: bf16_to_f32(a).astype(np.float64)
    if kind in ("f16", "f32", "f64"):
        return lambda a: np.asarray(a).astype(np.float64)
    return np.asarray


def to_integer(value: Array, kind: str) -> Array:
    """A rounded float as an integer, clamped; NaN gives zero."""
    dtype = dtype_of(kind)
    info = np.iinfo(dtype)
    inside = np.clip(value, float(info.min), float(info.max))
    result = np.where(np.isnan(value), 0, inside)
    # float(max) of the wide types rounds up, so the top is set by hand.
    whole = np.where(result >= 2.0 ** (8 * dtype.itemsize - (dtype.kind == "i")), 0, result).astype(dtype)
    return np.where(value >= float(info.max), dtype.type(info.max), whole)


def _encode(kind: str, form: Form) -> Elementwise:
    """float64 to a destination format."""
    mode = form.one_of(("rn", "rz", "rm", "rp", "rna"), "rn")
    if kind == "f64":
        return lambda v: v
    if kind == "f32":
        return lambda v: narrow(v, None, np.float32, mode)
    if kind == "tf32":
        return lambda v: f32_to_tf32(v.astype(np.float32), mode)
    if kind == "f16":
        return lambda v: encode_half(v, "f16", mode).view(np.float16)
    return lambda v: encode_half(v, "bf16", mode)


def convert(form: Form) -> Elementwise:
    """One scalar to another."""
    if len(form.types) != 2:
        raise UnsupportedForm(" ".join(form.types))
    result, source = form.types
    if (source, result) == ("bf16", "f32"):
        return InPlace(bf16_to_f32, _bf16_into)
    if (source, result) == ("f32", "bf16") and not form.modifiers & {"relu", "satfinite", "sat"}:
        mode = form.one_of(("rn", "rz"), "rn")
        return lambda a: f32_to_bf16(a, mode)
    if not _is_float(source) and not _is_float(result):
        return _between_integers(result, form.has("sat"))
    if _is_float(source) and not _is_float(result):
        return _float_to_integer(source, result, form)
    return _to_float(source, result, form)


def _bf16_into(out: Array, codes: Array) -> None:
    bits = out.view(np.uint32)
    bits[...] = codes
    np.left_shift(bits, 16, bits)


def _between_integers(result: str, saturate: bool) -> Elementwise:
    dtype = dtype_of(result)
    if not saturate:
        return lambda a: np.asarray(a).astype(dtype)
    info = np.iinfo(dtype)

    def run(a: Array) -> Array:
        value = np.asarray(a)
        own = np.iinfo(value.dtype)
        return np.clip(value, max(info.min, own.min), min(info.max, own.max)).astype(dtype)

    return run


def _float_to_integer(source: str, result: str, form: Form) -> Elementwise:
    rounding = _INTEGER_ROUNDING[form.one_of(tuple(_INTEGER_ROUNDING), "rzi")]
    decode = _decode(source)
    ftz = form.has("ftz")

    def run(a: Array) -> Array:
        value = decode(a)
        if ftz:
            value = np.where(np.abs(value) < 2.0**-126, 0.0, value)
        return to_integer(rounding(value), result)

    return run


def _to_float(source: str, result: str, form: Form) -> Elementwise:
    encode, decode = _encode(result, form), _decode(source)
    integral = _INTEGER_ROUNDING.get(form.one_of(tuple(_INTEGER_ROUNDING)))
    wide_integer = source in ("u64", "s64")

    def run(a: Array) -> Array:
        if wide_integer:
            return _wide_integer_to_float(np.asarray(a), result, form)
        value = decode(a).astype(np.float64)
        if form.has("ftz") and source == "f32":
            value = flush(np.asarray(a)).astype(np.float64)
        if integral is not None:
            value = integral(value)
        if form.has("sat"):
            value = np.where(np.isnan(value), 0.0, np.clip(value, 0.0, 1.0))
        if form.has("relu"):
            value = np.where(value < 0, 0.0, value)
        if form.has("satfinite"):
            value = _finite(value, result)
        return np.asarray(encode(value))

    return run


def _finite(value: Array, kind: str) -> Array:
    largest = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "tf32": 3.4011621342146535e38}[kind]
    return np.where(np.isnan(value), value, np.clip(value, -largest, largest))


def _wide_integer_to_float(value: Array, result: str, form: Form) -> Array:
    """64-bit integers do not fit float64; the low bits become an error term."""
    if result == "f64":
        high = value.astype(np.float64)
        mode = form.one_of(("rn", "rz", "rm", "rp"), "rn")
        if mode == "rn":
            return high
        return np.array([_directed_int(int(v), mode) for v in np.atleast_1d(value)])
    sticky = (value & value.dtype.type(0xFFF)) != 0
    magnitude_large = np.abs(value.astype(np.float64)) >= 2.0**53
    chopped = np.where(magnitude_large & sticky, (value & ~value.dtype.type(0xFFF)) | value.dtype.type(0x800), value)
    return np.asarray(_encode(result, form)(chopped.astype(np.float64)))


def _directed_int(value: int, mode: str) -> float:
    near = float(value)
    if int(near) == value:
        return near
    down = mode == "rm" or (mode == "rz" and value > 0)
    if down and int(near) > value:
        return float(np.nextafter(near, -np.inf))
    if not down and int(near) < value:
        return float(np.nextafter(near, np.inf))
    return near


# -- packed formats ----------------------------------------------------------------------------------


@elementwise("cvt", f"{_PACKED} f32", isa="9.7.9.21", modifiers=_MODES, signature="T:U,*", counter="convert")
def convert_packed(form: Form) -> Elementwise:
    """Two values to a pair, or a pair to another kind of pair."""
    if len(form.types) != 2:
        raise UnsupportedForm(" ".join(form.types))
    result, source = form.types
    if result == "f32":
        raise UnsupportedForm(f"{source} to f32")
    if source == "f32":
        return _pack_two(result, form)
    return _repack(result, source, form)


def _pack_two(result: str, form: Form) -> Elementwise:
    if result == "bf16x2" and not form.modifiers & {"relu", "satfinite"}:
        mode = form.one_of(("rn", "rz"), "rn")
        return lambda a, b: (
            f32_to_bf16(a, mode).astype(np.uint32) << np.uint32(16)
        ) | f32_to_bf16(b, mode)  # fmt: skip
    encode = _pair_encoder(result, form)
    bits = {"e2m1x2": 4, "f16x2": 16, "bf16x2": 16}.get(result, 8)

    def run(a: Array, b: Array) -> Array:
        high, low = (encode(np.asarray(v).astype(np.float64)).astype(np.uint32) for v in (a, b))
        return (high << np.uint32(bits)) | low

    return run


def _pair_encoder(result: str, form: Form) -> Elementwise:
    element = result[:-2]
    relu = form.has("relu")

    def prepare(v: Array) -> Array:
        return np.where(v < 0, 0.0, v) if relu else v

    if element in SMALL:
        return lambda v: encode_small(prepare(v), element)
    if element == "ue8m0":
        mode = "rp" if form.has("rp") else "rz"
        return lambda v: encode_ue8m0(v, mode)
    mode = form.one_of(("rn", "rz"), "rn")
    finite = form.has("satfinite")
    return lambda v: encode_half(_finite(prepare(v), element) if finite else prepare(v), element, mode)


def _repack(result: str, source: str, form: Form) -> Elementwise:
    element = source[:-2]
    bits = {"e2m1x2": 4, "f16x2": 16, "bf16x2": 16}.get(source, 8)
    encode = _pair_encoder(result, form)
    out_bits = {"e2m1x2": 4, "f16x2": 16, "bf16x2": 16}.get(result, 8)

    def decode(codes: Array) -> Array:
        if element in ("f16", "bf16"):
            half = codes.astype(np.uint16)
            return bf16_to_f32(half) if element == "bf16" else half.view(np.float16).astype(np.float32)
        return decode_small(codes.astype(np.uint8), element)

    def run(a: Array) -> Array:
        raw = np.asarray(a).astype(np.uint32)
        mask = np.uint32((1 << bits) - 1)
        low, high = decode(raw & mask), decode((raw >> np.uint32(bits)) & mask)
        codes = [encode(v.astype(np.float64)).astype(np.uint32) for v in (low, high)]
        return (codes[1] << np.uint32(out_bits)) | codes[0]

    return run


# Added after the packed row, so that it is tried first: f32 to f32 is no pair.
elementwise("cvt", _SCALARS, isa="9.7.9.21", modifiers=_MODES, signature="T:U", counter="convert")(convert)


@effect("cvt.pack", "u2 s2 u4 s4 u8 s8 u16 s16 s32 b32", isa="9.7.9.22", modifiers="sat", counter="convert")
def convert_pack(b: Any) -> Step:
    """Two integers, clamped and packed above an older value."""
    result = b.form.types[0]
    d = b.destination(b.operands[0], "b32")
    high, low = b.source(b.operands[1], "s32"), b.source(b.operands[2], "s32")
    old = b.source(b.operands[3], "b32") if len(b.operands) > 3 else None
    bits = int(result[1:])
    bottom, top = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if result[0] == "s" else (0, (1 << bits) - 1)
    mask = np.uint32((1 << bits) - 1)

    def clamp(value: Array) -> Array:
        return np.clip(value, bottom, top).astype(np.int32).view(np.uint32) & mask

    def step(x: Context) -> None:
        packed = (clamp(x.get(high)) << np.uint32(bits)) | clamp(x.get(low))
        if old is not None and bits < 16:
            packed = (x.get(old) << np.uint32(2 * bits)) | packed
        x.put(d, packed)

    return step


__all__ = ["convert", "convert_packed", "to_integer"]
