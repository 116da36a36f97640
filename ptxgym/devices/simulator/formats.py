"""Number formats that NumPy lacks, and rounding.

bf16, tf32, the 8-bit formats e4m3 and e5m2, the 6- and 4-bit formats, and the scale formats ue8m0 and
ue4m3 (PTX ISA 5.2.3, 5.2.5).  Encodings of the small formats follow the OCP MX and FP8 definitions that the
ISA refers to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ptxgym.devices.simulator.types import Array

_U32 = np.uint32


@dataclass(frozen=True, slots=True)
class SmallFormat:
    """A format of at most eight bits."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: float
    signed: bool = True
    nan: int | None = None
    infinity: int | None = None

    @property
    def bits(self) -> int:
        """Width in bits."""
        return int(self.signed) + self.exponent_bits + self.mantissa_bits


E4M3 = SmallFormat("e4m3", 4, 3, 7, 448.0, nan=0x7F)
E5M2 = SmallFormat("e5m2", 5, 2, 15, 57344.0, nan=0x7F, infinity=0x7C)
E2M3 = SmallFormat("e2m3", 2, 3, 1, 7.5)
E3M2 = SmallFormat("e3m2", 3, 2, 3, 28.0)
E2M1 = SmallFormat("e2m1", 2, 1, 1, 6.0)
UE4M3 = SmallFormat("ue4m3", 4, 3, 7, 448.0, signed=False, nan=0x7F)
SMALL = {f.name: f for f in (E4M3, E5M2, E2M3, E3M2, E2M1, UE4M3)}


@cache
def decode_table(name: str) -> npt.NDArray[np.float32]:
    """The value of each of the 256 byte codes; bits above the format's width are ignored."""
    codes = np.arange(256)
    if name == "ue8m0":
        values = np.ldexp(np.ones(256), codes - 127)
        values[255] = np.nan
        return values.astype(np.float32)
    form = SMALL[name]
    codes = codes & ((1 << form.bits) - 1)
    mantissa = codes & ((1 << form.mantissa_bits) - 1)
    exponent = (codes >> form.mantissa_bits) & ((1 << form.exponent_bits) - 1)
    sign = np.where(codes >> (form.bits - 1) & 1, -1.0, 1.0) if form.signed else np.ones(256)
    normal = exponent > 0
    fraction = mantissa / (1 << form.mantissa_bits) + normal
    values = sign * np.ldexp(fraction, np.maximum(exponent, 1) - form.bias)
    magnitude = codes & ((1 << (form.bits - int(form.signed))) - 1)
    if form.infinity is not None:
        values = np.where(magnitude == form.infinity, sign * np.inf, values)
        values = np.where(magnitude > form.infinity, np.nan, values)
    elif form.nan is not None:
        values = np.where(magnitude == form.nan, np.nan, values)
    return values.astype(np.float32)


def decode_small(codes: Array, name: str) -> npt.NDArray[np.float32]:
    """Byte codes to values."""
    return decode_table(name)[codes]


def encode_small(values: Array, name: str, *, saturate: bool = True) -> npt.NDArray[np.uint8]:
    """Values to codes, rounded to nearest even.

    Args:
        values: Any float array.
        name: The format.
        saturate: Beyond the largest finite value give that value (``.satfinite``), else infinity or NaN.
    """
    form = SMALL[name]
    exact = np.asarray(values, np.float64)
    magnitude = np.abs(exact)
    _, exponent = np.frexp(magnitude)
    step = np.ldexp(1.0, np.maximum(exponent - 1, 1 - form.bias) - form.mantissa_bits)
    rounded = np.rint(magnitude / step) * step
    if saturate:
        rounded = np.minimum(rounded, form.largest)
    overflow = rounded > form.largest
    code = _magnitude_code(np.where(overflow | np.isnan(exact), 0.0, rounded), form)
    if form.infinity is not None:
        code = np.where(overflow, form.infinity, code)
    elif form.nan is not None:
        code = np.where(overflow, form.nan, code)
    if form.signed:
        code = code | (np.signbit(exact).astype(np.int64) << (form.bits - 1))
    if form.nan is not None:
        return np.where(np.isnan(exact), form.nan, code).astype(np.uint8)
    # Formats without a NaN turn it into the largest positive value (PTX ISA 9.7.9.21, .satfinite).
    return np.where(np.isnan(exact), (1 << (form.bits - 1)) - 1, code).astype(np.uint8)


def _magnitude_code(rounded: Array, form: SmallFormat) -> Array:
    fraction, exponent = np.frexp(rounded)
    exponent = np.where(rounded == 0, -form.bias, exponent)
    biased = exponent - 1 + form.bias
    normal = biased >= 1
    scale = np.where(normal, form.mantissa_bits + 1, form.mantissa_bits + form.bias - 1 + exponent)
    mantissa = np.rint(np.ldexp(fraction, scale)).astype(np.int64)
    return np.where(
        normal,
        (biased.astype(np.int64) << form.mantissa_bits) + mantissa - (1 << form.mantissa_bits),
        mantissa,
    )


def spread(groups: Array, bits: int) -> npt.NDArray[np.uint8]:
    """Sixteen 4- or 6-bit codes, packed at the start of every 16 bytes, to one byte each.

    What the ISA calls ``b4x16_p64`` and ``b6x16_p32`` (5.5.1.1, 9.7.16.9.1).
    """
    data = groups.reshape(-1, 16)
    if bits == 4:
        codes = np.stack([data[:, :8] & 15, data[:, :8] >> 4], axis=-1)
    else:
        low, middle, high = np.moveaxis(data[:, :12].reshape(-1, 4, 3).astype(_U32), -1, 0)
        codes = (low | middle << _U32(8) | high << _U32(16))[..., None] >> np.arange(0, 24, 6, dtype=_U32) & _U32(63)
    return codes.astype(np.uint8).reshape(groups.shape)


def squeeze(codes: Array) -> npt.NDArray[np.uint8]:
    """The low six bits of every 16 bytes, packed into 12; the store of ``b6p2x16`` (5.5.1.1)."""
    quads = (codes.reshape(-1, 4) & 63).astype(_U32) << np.arange(0, 24, 6, dtype=_U32)
    return np.ascontiguousarray(np.bitwise_or.reduce(quads, axis=1)[:, None].view(np.uint8)[:, :3]).reshape(-1)


def encode_ue8m0(values: Array, mode: str) -> npt.NDArray[np.uint8]:
    """Values to powers of two, rounded toward zero or up; NaN gives 0xff."""
    exact = np.asarray(values, np.float64)
    fraction, exponent = np.frexp(np.abs(exact))
    code = exponent - 1 + 127
    if mode == "rp":
        code = code + (fraction > 0.5)
    return np.where(np.isnan(exact), 255, np.clip(np.where(exact == 0, 0, code), 0, 254)).astype(np.uint8)


# -- bf16 and tf32 -----------------------------------------------------------------------------------


def bf16_to_f32(bits: Array) -> npt.NDArray[np.float32]:
    """bf16 codes (uint16) to float32; exact."""
    return np.left_shift(np.asarray(bits).astype(_U32), _U32(16)).view(np.float32)


def f32_to_bf16(values: Array, mode: str = "rn") -> npt.NDArray[np.uint16]:
    """float32 to bf16 codes; NaN gives the canonical 0x7fff."""
    bits = np.asarray(values, np.float32).view(_U32)
    if mode == "rz":
        rounded = bits >> _U32(16)
    elif mode == "rn":
        rounded = (bits + _U32(0x7FFF) + ((bits >> _U32(16)) & _U32(1))) >> _U32(16)
    else:
        up = (bits >> _U32(31)).astype(bool) == (mode == "rm")
        inexact = (bits & _U32(0xFFFF)) != 0
        rounded = (bits >> _U32(16)) + (up & inexact)
    nan = np.isnan(values)
    if nan.any():
        rounded = np.where(nan, _U32(0x7FFF), rounded)
    return rounded.astype(np.uint16)


def f32_to_tf32(values: Array, mode: str = "rn") -> npt.NDArray[np.uint32]:
    """float32 to tf32: a float32 pattern whose low 13 mantissa bits are zero."""
    bits = np.asarray(values, np.float32).view(_U32)
    if mode == "rz":
        rounded = bits & _U32(0xFFFFE000)
    elif mode == "rna":
        rounded = (bits + _U32(0x1000)) & _U32(0xFFFFE000)
    else:
        rounded = (bits + _U32(0xFFF) + ((bits >> _U32(13)) & _U32(1))) & _U32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded, np.where(np.isnan(values), _U32(0x7FFFFFFF), bits))


# -- exact arithmetic in wider formats ---------------------------------------------------------------


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Sum and rounding error (Knuth); exact unless it overflows."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def round_to_odd(total: Array, error: Array) -> Array:
    """Make a float64 sum odd where it was inexact, so that a second rounding is correct."""
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    toward_larger = (error > 0) == (total > 0)
    moved = np.where(toward_larger, bits + 1, bits - 1).view(np.float64)
    fix = (error != 0) & even & np.isfinite(total) & (total != 0)
    return np.where(fix, moved, total)


def narrow(total: Array, error: Array | None, dtype: type, mode: str) -> Array:
    """A float64 value (plus a small error term) rounded to a narrower type in any direction."""
    if mode == "rn":
        value = total if error is None else round_to_odd(total, error)
        return value.astype(dtype)
    nearest: Array = total.astype(dtype)
    difference = total - nearest.astype(np.float64)
    if error is not None:
        difference = np.where(difference == 0, error, difference)
    infinite = np.isinf(nearest) & np.isfinite(total)
    below, above = difference < 0, difference > 0
    step_down = below & ((mode == "rm") | ((mode == "rz") & (total > 0)))
    step_up = above & ((mode == "rp") | ((mode == "rz") & (total < 0)))
    step_down |= infinite & (nearest > 0) & (mode in ("rm", "rz"))
    step_up |= infinite & (nearest < 0) & (mode in ("rp", "rz"))
    kind = np.dtype(dtype).type
    result = np.where(step_down, np.nextafter(nearest, kind(-np.inf)), nearest)
    return np.where(step_up, np.nextafter(nearest, kind(np.inf)), result)
