"""Exact reference arithmetic on bit patterns, from the IEEE 754 definitions, with Python's integers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    exponent_bits: int
    mantissa_bits: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits


F16, BF16, F32, F64 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52)
TF32 = Format(8, 10)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
NAN, INF = "nan", "inf"
Value = Fraction | str


def decode(bits: int, form: Format) -> tuple[int, Value]:
    """Sign and magnitude."""
    sign = bits >> (form.width - 1) & 1
    exponent = bits >> form.mantissa_bits & ((1 << form.exponent_bits) - 1)
    mantissa = bits & ((1 << form.mantissa_bits) - 1)
    if exponent == (1 << form.exponent_bits) - 1:
        return sign, NAN if mantissa else INF
    if exponent == 0:
        return sign, Fraction(mantissa) * Fraction(2) ** (1 - form.bias - form.mantissa_bits)
    scale = Fraction(2) ** (exponent - form.bias - form.mantissa_bits)
    return sign, (mantissa + (1 << form.mantissa_bits)) * scale


def signed(bits: int, form: Format) -> Value:
    """The number (a Fraction), or NAN, or INF and -INF as "inf" and "-inf"."""
    sign, magnitude = decode(bits, form)
    if isinstance(magnitude, str):
        return "-inf" if magnitude == INF and sign else magnitude
    return -magnitude if sign else magnitude


def encode(value: Value, form: Format, mode: str = "rn", zero_sign: int = 0) -> int | str:
    """Round a number to a format; NaN stays the word."""
    top = (1 << form.exponent_bits) - 1 << form.mantissa_bits
    sign_bit = 1 << (form.width - 1)
    if value == NAN:
        return NAN
    if isinstance(value, str):
        return top | (sign_bit if value == "-inf" else 0)
    if value == 0:
        return zero_sign * sign_bit
    sign, magnitude = (1, -value) if value < 0 else (0, value)
    exponent = max(_floor_log2(magnitude), 1 - form.bias)
    unit = Fraction(2) ** (exponent - form.mantissa_bits)
    whole, rest = divmod(magnitude, unit)
    whole = int(whole)
    up = {
        "rn": rest * 2 > unit or (rest * 2 == unit and whole & 1),
        "rz": False,
        "rm": rest > 0 and sign == 1,
        "rp": rest > 0 and sign == 0,
    }[mode]
    whole += int(up)
    largest = ((1 << (form.mantissa_bits + 1)) - 1) * Fraction(2) ** (form.bias - form.mantissa_bits)
    if whole * unit > largest:
        away = mode == "rn" or (mode == "rp" and not sign) or (mode == "rm" and sign)
        return (top if away else top - 1) | sign * sign_bit
    if whole >> form.mantissa_bits == 0:
        code = whole
    else:
        if whole >> (form.mantissa_bits + 1):
            whole >>= 1
            exponent += 1
        code = (exponent + form.bias << form.mantissa_bits) + whole - (1 << form.mantissa_bits)
    return code | sign * sign_bit


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def add(x: Value, y: Value) -> Value:
    """Sum of extended numbers."""
    if NAN in (x, y):
        return NAN
    if isinstance(x, str) or isinstance(y, str):
        if isinstance(x, str) and isinstance(y, str) and x != y:
            return NAN
        return x if isinstance(x, str) else y
    return x + y


def negative(x: Value) -> Value:
    """Opposite."""
    if isinstance(x, str):
        return {"nan": NAN, "inf": "-inf", "-inf": INF}[x]
    return -x


def multiply(x: Value, y: Value) -> Value:
    """Product of extended numbers."""
    if NAN in (x, y):
        return NAN
    if isinstance(x, str) or isinstance(y, str):
        if x == 0 or y == 0:
            return NAN
        minus = [v == "-inf" or (not isinstance(v, str) and v < 0) for v in (x, y)]
        return "-inf" if minus[0] != minus[1] else INF
    return x * y
