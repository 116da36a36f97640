"""What each elementwise row must compute, written independently of the simulator.

A case is a PTX instruction, its result type, its operand types, and a function from operand bits (Python
integers) to result bits.  The word ``"nan"`` stands for any NaN of the result type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.devices.simulator.executor import exact
from tests.devices.simulator.executor.exact import FORMATS, NAN, Value


@dataclass(frozen=True)
class Case:
    text: str
    result: str
    operands: tuple[str, ...]
    reference: Callable[..., int | str]
    architecture: str = "90a"
    small: dict[int, int] | None = None
    """Operands to take modulo a number, e.g. shift amounts."""
    tolerance: float = 0.0
    """Relative error allowed on finite results of approximate instructions."""

    @property
    def opcode(self) -> str:
        return self.text.split()[0]


CASES: list[Case] = []


def case(text: str, result: str, operands: str, reference: Callable[..., Any], **options: Any) -> None:
    CASES.append(Case(text, result, tuple(operands.split()), reference, **options))


# -- integers ------------------------------------------------------------------------------------------


def bits_of(kind: str) -> int:
    return int(kind[1:])


def number(bits: int, kind: str) -> int:
    width = bits_of(kind)
    return bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits


def on_numbers(kind: str, function: Callable[..., int], result: str | None = None) -> Callable[..., int]:
    width = bits_of(result or kind)
    return lambda *values: function(*(number(v, kind) for v in values)) & ((1 << width) - 1)


def c_div(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def c_rem(a: int, b: int) -> int:
    return a if b == 0 else a - c_div(a, b) * b


def clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def high_of(kind: str, adds: bool) -> Callable[..., int]:
    width = bits_of(kind)
    return (lambda a, b, c: (a * b >> width) + c) if adds else (lambda a, b: a * b >> width)


S32 = (-(1 << 31), (1 << 31) - 1)
TWO, THREE = "{d}, {0}, {1}", "{d}, {0}, {1}, {2}"

for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
    two, three = f"{kind} {kind}", f"{kind} {kind} {kind}"
    case(f"add.{kind} {TWO}", kind, two, on_numbers(kind, lambda a, b: a + b))
    case(f"sub.{kind} {TWO}", kind, two, on_numbers(kind, lambda a, b: a - b))
    case(f"mul.lo.{kind} {TWO}", kind, two, on_numbers(kind, lambda a, b: a * b))
    case(f"mul.hi.{kind} {TWO}", kind, two, on_numbers(kind, high_of(kind, False)))
    case(f"mad.lo.{kind} {THREE}", kind, three, on_numbers(kind, lambda a, b, c: a * b + c))
    case(f"mad.hi.{kind} {THREE}", kind, three, on_numbers(kind, high_of(kind, True)))
    case(f"div.{kind} {TWO}", kind, two, on_numbers(kind, c_div))
    case(f"rem.{kind} {TWO}", kind, two, on_numbers(kind, c_rem))
    case(f"min.{kind} {TWO}", kind, two, on_numbers(kind, min))
    case(f"max.{kind} {TWO}", kind, two, on_numbers(kind, max))
    case(f"sad.{kind} {THREE}", kind, three, on_numbers(kind, lambda a, b, c: c + abs(a - b)))
    if bits_of(kind) < 64:
        wide = f"{kind[0]}{2 * bits_of(kind)}"
        case(f"mul.wide.{kind} {TWO}", wide, two, on_numbers(kind, lambda a, b: a * b, wide))
        case(f"mad.wide.{kind} {THREE}", wide, f"{two} {wide}",
             lambda a, b, c, k=kind, w=wide: (number(a, k) * number(b, k) + c) & ((1 << bits_of(w)) - 1))  # fmt: skip
    if kind[0] == "s":
        case(f"abs.{kind} {{d}}, {{0}}", kind, kind, on_numbers(kind, abs))
        case(f"neg.{kind} {{d}}, {{0}}", kind, kind, on_numbers(kind, lambda a: -a))

case(f"add.sat.s32 {TWO}", "s32", "s32 s32", on_numbers("s32", lambda a, b: clamp(a + b, *S32)))
case(f"sub.sat.s32 {TWO}", "s32", "s32 s32", on_numbers("s32", lambda a, b: clamp(a - b, *S32)))
case(f"max.relu.s32 {TWO}", "s32", "s32 s32", on_numbers("s32", lambda a, b: max(a, b, 0)))


def halves(function: Callable[[int, int], int], kind: str) -> Callable[[int, int], int]:
    one = on_numbers(kind, function)
    return lambda a, b: one(a & 0xFFFF, b & 0xFFFF) | one(a >> 16, b >> 16) << 16


for kind in ("u16", "s16"):
    for name, function in (("add", lambda a, b: a + b), ("min", min), ("max", max)):
        case(f"{name}.{kind}x2 {TWO}", "b32", "b32 b32", halves(function, kind))
case(f"sub.u16x2 {TWO}", "b32", "b32 b32", halves(lambda a, b: a - b, "u16"))


def low24(value: int, kind: str) -> int:
    value &= 0xFFFFFF
    return value - (1 << 24) if kind[0] == "s" and value >> 23 else value


for kind in ("u32", "s32"):
    for part, shift in (("lo", 0), ("hi", 16)):
        case(f"mul24.{part}.{kind} {TWO}", kind, f"{kind} {kind}",
             lambda a, b, k=kind, s=shift: (low24(a, k) * low24(b, k) >> s) & 0xFFFFFFFF)  # fmt: skip
        case(f"mad24.{part}.{kind} {THREE}", kind, f"{kind} {kind} {kind}",
             lambda a, b, c, k=kind, s=shift: ((low24(a, k) * low24(b, k) >> s) + c) & 0xFFFFFFFF)  # fmt: skip


def find_bit(a: int, kind: str, shift: bool) -> int:
    value = number(a, kind)
    value = ~value if value < 0 else value
    if value == 0:
        return 0xFFFFFFFF
    at = value.bit_length() - 1
    return bits_of(kind) - 1 - at if shift else at


def field(a: int, position: int, length: int, kind: str) -> int:
    """The pseudo-code of ``bfe`` in the ISA."""
    width = bits_of(kind)
    position, length = position & 0xFF, length & 0xFF
    sign = 0 if kind[0] == "u" or length == 0 else a >> min(position + length - 1, width - 1) & 1
    out = 0
    for i in range(width):
        bit = a >> (position + i) & 1 if i < length and position + i < width else sign
        out |= bit << i
    return out


def insert(a: int, b: int, position: int, length: int, width: int) -> int:
    """The pseudo-code of ``bfi`` in the ISA."""
    position, length = position & 0xFF, length & 0xFF
    out = b
    for i in range(length):
        if position + i < width and i < width:
            out = out & ~(1 << (position + i)) | (a >> i & 1) << (position + i)
    return out


def nth_set(mask: int, base: int, offset: int) -> int:
    offset = number(offset, "s32")
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    positions = range(base, 32) if offset > 0 else range(base, -1, -1)
    hits = [p for p in positions if mask >> p & 1]
    return hits[abs(offset) - 1] if len(hits) >= abs(offset) else 0xFFFFFFFF


for width in (32, 64):
    case(f"popc.b{width} {{d}}, {{0}}", "u32", f"b{width}", lambda a: a.bit_count())
    case(f"clz.b{width} {{d}}, {{0}}", "u32", f"b{width}", lambda a, w=width: w - a.bit_length())
    case(f"brev.b{width} {{d}}, {{0}}", f"b{width}", f"b{width}", lambda a, w=width: int(f"{a:0{w}b}"[::-1], 2))
    case(f"bfi.b{width} {{d}}, {{0}}, {{1}}, {{2}}, {{3}}", f"b{width}", f"b{width} b{width} u32 u32",
         lambda a, b, p, n, w=width: insert(a, b, p, n, w), small={2: 80, 3: 80})  # fmt: skip
    for sign in "us":
        kind = f"{sign}{width}"
        case(f"bfind.{kind} {{d}}, {{0}}", "u32", kind, lambda a, k=kind: find_bit(a, k, False))
        case(f"bfind.shiftamt.{kind} {{d}}, {{0}}", "u32", kind, lambda a, k=kind: find_bit(a, k, True))
        case(f"bfe.{kind} {THREE}", kind, f"{kind} u32 u32", lambda a, p, n, k=kind: field(a, p, n, k),
             small={1: 80, 2: 80})  # fmt: skip
case(f"fns.b32 {THREE}", "b32", "b32 b32 s32", nth_set, small={1: 32, 2: 8})
case(f"bmsk.clamp.b32 {TWO}", "b32", "u32 u32", lambda p, n: ((1 << min(n, 32)) - 1 << p if p < 32 else 0) & 0xFFFFFFFF,
     small={0: 40, 1: 40})  # fmt: skip
case(f"bmsk.wrap.b32 {TWO}", "b32", "u32 u32", lambda p, n: ((1 << (n & 31)) - 1 << (p & 31)) & 0xFFFFFFFF)


def extend(a: int, width: int, kind: str) -> int:
    if width == 0:
        return 0
    if width >= 32:
        return a
    low = a & ((1 << width) - 1)
    return low - (1 << width) & 0xFFFFFFFF if kind == "s32" and low >> (width - 1) else low


for kind in ("u32", "s32"):
    case(f"szext.clamp.{kind} {TWO}", kind, f"{kind} u32", lambda a, n, k=kind: extend(a, n, k), small={1: 40})
    case(f"szext.wrap.{kind} {TWO}", kind, f"{kind} u32", lambda a, n, k=kind: extend(a, n & 31, k))

# -- logic ---------------------------------------------------------------------------------------------

for kind in ("b16", "b32", "b64"):
    mask = (1 << bits_of(kind)) - 1
    case(f"and.{kind} {TWO}", kind, f"{kind} {kind}", lambda a, b: a & b)
    case(f"or.{kind} {TWO}", kind, f"{kind} {kind}", lambda a, b: a | b)
    case(f"xor.{kind} {TWO}", kind, f"{kind} {kind}", lambda a, b: a ^ b)
    case(f"not.{kind} {{d}}, {{0}}", kind, kind, lambda a, m=mask: ~a & m)
    case(f"cnot.{kind} {{d}}, {{0}}", kind, kind, lambda a: int(a == 0))
    case(f"shl.{kind} {TWO}", kind, f"{kind} u32", lambda a, n, m=mask: a << n & m if n < 64 else 0, small={1: 70})
    case(f"selp.{kind} {THREE}", kind, f"{kind} {kind} pred", lambda a, b, p: a if p else b, small={2: 2})
    case(f"slct.{kind}.s32 {THREE}", kind, f"{kind} {kind} s32", lambda a, b, c: a if number(c, "s32") >= 0 else b)
    for sign in "us":
        shifted = f"{sign}{kind[1:]}"
        case(f"shr.{shifted} {TWO}", shifted, f"{shifted} u32",
             lambda a, n, k=shifted: number(a, k) >> min(n, 200) & ((1 << bits_of(k)) - 1), small={1: 70})  # fmt: skip
case(f"and.pred {TWO}", "pred", "pred pred", lambda a, b: a & b, small={0: 2, 1: 2})


def funnel(a: int, b: int, c: int, left: bool, wrap: bool) -> int:
    n = c & 31 if wrap else min(c, 32)
    value = b << 32 | a
    return (value << n >> 32 if left else value >> n) & 0xFFFFFFFF


for side in "lr":
    for mode in ("clamp", "wrap"):
        case(f"shf.{side}.{mode}.b32 {THREE}", "b32", "b32 b32 u32",
             lambda a, b, c, s=side, m=mode: funnel(a, b, c, s == "l", m == "wrap"), small={2: 40})  # fmt: skip


def permute(a: int, b: int, c: int) -> int:
    data = [(b << 32 | a) >> 8 * i & 0xFF for i in range(8)]
    out = 0
    for i in range(4):
        nibble = c >> 4 * i & 15
        byte = data[nibble & 7]
        out |= (0xFF if byte & 0x80 else 0) << 8 * i if nibble & 8 else byte << 8 * i
    return out


_PRMT = {  # the table of prmt's modes in the ISA, byte 3 first
    "f4e": ("3210", "4321", "5432", "6543"), "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"), "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"), "rc16": ("1010", "3232", "1010", "3232"),
}  # fmt: skip
case(f"prmt.b32 {THREE}", "b32", "b32 b32 u32", permute)
for mode, rows in _PRMT.items():
    case(f"prmt.b32.{mode} {THREE}", "b32", "b32 b32 u32",
         lambda a, b, c, r=rows: permute(a, b, int(r[c & 3], 16)))  # fmt: skip

# -- floating point ------------------------------------------------------------------------------------


def on_floats(kind: str, function: Callable[..., Value], mode: str = "rn") -> Callable[..., int | str]:
    form = FORMATS[kind]

    def run(*bits: int) -> int | str:
        value = function(*(exact.signed(b, form) for b in bits))
        return exact.encode(value, form, mode)

    return run


def signed_sum(kind: str, minus: bool, mode: str) -> Callable[[int, int], int | str]:
    """Addition with IEEE 754's rule for the sign of zero."""
    form = FORMATS[kind]

    def run(a: int, b: int) -> int | str:
        if minus:
            b ^= 1 << (form.width - 1)
        x, y = exact.signed(a, form), exact.signed(b, form)
        total = exact.add(x, y)
        signs = [v >> (form.width - 1) for v in (a, b)]
        zero = signs[0] if signs[0] == signs[1] and x == 0 and y == 0 else int(mode == "rm")
        return exact.encode(total, form, mode, zero)

    return run


def product(kind: str, mode: str) -> Callable[[int, int], int | str]:
    form = FORMATS[kind]

    def run(a: int, b: int) -> int | str:
        sign = (a ^ b) >> (form.width - 1)
        return exact.encode(exact.multiply(exact.signed(a, form), exact.signed(b, form)), form, mode, sign)

    return run


def fused(kind: str, mode: str) -> Callable[[int, int, int], int | str]:
    form = FORMATS[kind]

    def run(a: int, b: int, c: int) -> int | str:
        x, y, z = (exact.signed(v, form) for v in (a, b, c))
        p = exact.multiply(x, y)
        total = exact.add(p, z)
        sign_p, sign_c = (a ^ b) >> (form.width - 1), c >> (form.width - 1)
        zero = sign_c if p == 0 and z == 0 and sign_p == sign_c else int(mode == "rm")
        return exact.encode(total, form, mode, zero)

    return run


def quotient(kind: str, mode: str) -> Callable[[int, int], int | str]:
    form = FORMATS[kind]

    def run(a: int, b: int) -> int | str:
        x, y = exact.signed(a, form), exact.signed(b, form)
        sign = (a ^ b) >> (form.width - 1)
        if NAN in (x, y) or (isinstance(x, str) and isinstance(y, str)) or (x == 0 and y == 0):
            return NAN
        if isinstance(y, str):
            return sign << (form.width - 1)
        if isinstance(x, str) or y == 0:
            return exact.encode("-inf" if sign else "inf", form)
        return exact.encode(x / y, form, mode, sign)

    return run


def pick(kind: str, largest: bool, propagate: bool) -> Callable[[int, int], int | str]:
    form = FORMATS[kind]

    def run(a: int, b: int) -> int | str:
        x, y = exact.signed(a, form), exact.signed(b, form)
        if (x == NAN and y == NAN) or (propagate and NAN in (x, y)):
            return NAN
        if x == NAN or y == NAN:
            return b if x == NAN else a
        order = {"inf": Fraction(2) ** 2000, "-inf": -(Fraction(2) ** 2000)}
        p, q = (order.get(v, v) if isinstance(v, str) else v for v in (x, y))
        return a if (p > q) == largest or p == q else b  # type: ignore[operator]

    return run


def root(bits: int) -> int | str:
    value = exact.signed(bits, exact.F32)
    if value in (NAN, "-inf") or (not isinstance(value, str) and value < 0):
        return NAN
    if isinstance(value, str) or value == 0:
        return bits
    scaled = math.isqrt(int(value * Fraction(4) ** 240))
    return exact.encode(Fraction(scaled) / Fraction(2) ** 240 + Fraction(1, 2**300), exact.F32)


for kind in ("f32", "f64"):
    two, three = f"{kind} {kind}", f"{kind} {kind} {kind}"
    sign_bit = 1 << (FORMATS[kind].width - 1)
    for mode in ("rn", "rz", "rm", "rp") if kind == "f32" else ("rn",):
        case(f"add.{mode}.{kind} {TWO}", kind, two, signed_sum(kind, False, mode))
        case(f"sub.{mode}.{kind} {TWO}", kind, two, signed_sum(kind, True, mode))
        case(f"mul.{mode}.{kind} {TWO}", kind, two, product(kind, mode))
        case(f"div.{mode}.{kind} {TWO}", kind, two, quotient(kind, mode))
        if kind == "f32":
            case(f"fma.{mode}.{kind} {THREE}", kind, three, fused(kind, mode))
            case(f"mad.{mode}.{kind} {THREE}", kind, three, fused(kind, mode))
            case(f"rcp.{mode}.{kind} {{d}}, {{0}}", kind, kind,
                 lambda a, m=mode: quotient("f32", m)(0x3F800000, a))  # fmt: skip
    case(f"min.{kind} {TWO}", kind, two, pick(kind, False, False))
    case(f"max.{kind} {TWO}", kind, two, pick(kind, True, False))
    case(f"min.NaN.{kind} {TWO}", kind, two, pick(kind, False, True))
    case(f"abs.{kind} {{d}}, {{0}}", kind, kind, lambda a, s=sign_bit: a & ~s)
    case(f"neg.{kind} {{d}}, {{0}}", kind, kind, lambda a, s=sign_bit: a ^ s)
    case(f"copysign.{kind} {TWO}", kind, two, lambda a, b, s=sign_bit: b & ~s | a & s)
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):

        def holds(a: int, k: str = kind, t: str = test) -> int:
            form = FORMATS[k]
            _, magnitude = exact.decode(a, form)
            tiny = Fraction(2) ** (1 - form.bias)
            number_ = not isinstance(magnitude, str)
            return int(
                {
                    "finite": number_,
                    "infinite": magnitude == exact.INF,
                    "number": magnitude != NAN,
                    "notanumber": magnitude == NAN,
                    "normal": number_ and magnitude >= tiny,  # type: ignore[operator]
                    "subnormal": number_ and 0 < magnitude < tiny,  # type: ignore[operator]
                }[t]
            )

        case(f"testp.{test}.{kind} {{d}}, {{0}}", "pred", kind, holds)
case("sqrt.rn.f32 {d}, {0}", "f32", "f32", root)


def flushed(bits: int) -> int:
    return bits & 0x80000000 if bits >> 23 & 0xFF == 0 else bits


def with_flush(function: Callable[..., int | str]) -> Callable[..., int | str]:
    def run(*bits: int) -> int | str:
        result = function(*(flushed(b) for b in bits))
        return flushed(result) if isinstance(result, int) else result

    return run


case(f"add.ftz.f32 {TWO}", "f32", "f32 f32", with_flush(signed_sum("f32", False, "rn")))
case(f"mul.ftz.f32 {TWO}", "f32", "f32 f32", with_flush(product("f32", "rn")))
case(f"fma.rn.ftz.f32 {THREE}", "f32", "f32 f32 f32", with_flush(fused("f32", "rn")))


def saturated(result: int | str) -> int | str:
    if result == NAN:
        return 0
    value = exact.signed(int(result), exact.F32)
    if value == "inf" or (not isinstance(value, str) and value >= 1):
        return 0x3F800000
    return 0 if value == "-inf" or (not isinstance(value, str) and value <= 0) else result


case(f"add.sat.f32 {TWO}", "f32", "f32 f32", lambda a, b: saturated(signed_sum("f32", False, "rn")(a, b)))


def real(function: Callable[[float], float], kind: str = "f32") -> Callable[[int], int | str]:
    """An approximate function through Python's math module, rounded to the format."""
    form = FORMATS[kind]

    def run(bits: int) -> int | str:
        value = exact.signed(bits, form)
        try:
            argument = float(value)
            result = function(argument)
        except (ValueError, OverflowError, ZeroDivisionError):
            return "skip"
        if math.isnan(result) or math.isinf(result):
            return "skip"
        return exact.encode(Fraction(result), form)

    return run


case("sin.approx.f32 {d}, {0}", "f32", "f32", real(math.sin), tolerance=2e-6)
case("cos.approx.f32 {d}, {0}", "f32", "f32", real(math.cos), tolerance=2e-6)
case("lg2.approx.f32 {d}, {0}", "f32", "f32", real(math.log2), tolerance=1e-6)
case("ex2.approx.f32 {d}, {0}", "f32", "f32", real(lambda v: 2.0**v), tolerance=1e-6)
case("tanh.approx.f32 {d}, {0}", "f32", "f32", real(math.tanh), tolerance=1e-6)
case("rsqrt.approx.f32 {d}, {0}", "f32", "f32", real(lambda v: 1 / math.sqrt(v)), tolerance=1e-6)
case("ex2.approx.ftz.bf16x2 {d}, {0}", "b32", "b32",
     lambda a: _two(real(lambda v: 2.0**v, "bf16"), a), tolerance=-1)  # fmt: skip
case("tanh.approx.f16 {d}, {0}", "f16", "f16", real(math.tanh, "f16"), tolerance=2e-3)


def _two(function: Callable[[int], int | str], bits: int) -> int | str:
    low, high = function(bits & 0xFFFF), function(bits >> 16)
    return "skip" if isinstance(low, str) or isinstance(high, str) else high << 16 | low


# -- halves --------------------------------------------------------------------------------------------

for kind in ("f16", "bf16"):
    two, three = f"{kind} {kind}", f"{kind} {kind} {kind}"
    case(f"add.{kind} {TWO}", kind, two, signed_sum(kind, False, "rn"))
    case(f"sub.{kind} {TWO}", kind, two, signed_sum(kind, True, "rn"))
    case(f"mul.{kind} {TWO}", kind, two, product(kind, "rn"))
    case(f"fma.rn.{kind} {THREE}", kind, three, fused(kind, "rn"))
    case(f"min.{kind} {TWO}", kind, two, pick(kind, False, False))
    case(f"max.{kind} {TWO}", kind, two, pick(kind, True, False))
    case(f"neg.{kind} {{d}}, {{0}}", kind, kind, lambda a: a ^ 0x8000)
    case(f"abs.{kind} {{d}}, {{0}}", kind, kind, lambda a: a & 0x7FFF)


def packed32(function: Callable[..., int | str], count: int) -> Callable[..., int | str]:
    """Two float32 in a 64-bit register."""

    def run(*values: int) -> int | str:
        low = function(*(v & 0xFFFFFFFF for v in values))
        high = function(*(v >> 32 for v in values))
        return "skip" if isinstance(low, str) or isinstance(high, str) else high << 32 | low

    return run


for name, function, count in (
    ("add", signed_sum("f32", False, "rn"), 2), ("sub", signed_sum("f32", True, "rn"), 2),
    ("mul", product("f32", "rn"), 2), ("fma.rn", fused("f32", "rn"), 3),
):  # fmt: skip
    case(f"{name}.f32x2 {TWO if count == 2 else THREE}", "b64", " ".join(["b64"] * count), packed32(function, count),
         architecture="100a")  # fmt: skip

# -- conversions ---------------------------------------------------------------------------------------

_INTS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
for source in ("u16", "s16", "u32", "s32", "u64", "s64"):
    for result in ("u16", "s16", "u32", "s32", "u64", "s64"):
        if source != result:
            case(f"cvt.{result}.{source} {{d}}, {{0}}", result, source,
                 lambda a, s=source, r=result: number(a, s) & ((1 << bits_of(r)) - 1))  # fmt: skip
            low = 0 if result[0] == "u" else -(1 << (bits_of(result) - 1))
            high = low + (1 << bits_of(result)) - 1
            case(f"cvt.sat.{result}.{source} {{d}}, {{0}}", result, source,
                 lambda a, s=source, b=low, t=high, r=result: clamp(number(a, s), b, t)
                 & ((1 << bits_of(r)) - 1))  # fmt: skip
for source in ("u32", "s32", "u64", "s64"):
    for result in ("f16", "bf16", "f32", "f64"):
        for mode in ("rn", "rz") if result != "f64" else ("rn",):
            if result == "bf16" and mode == "rz":
                continue
            case(f"cvt.{mode}.{result}.{source} {{d}}, {{0}}", result, source,
                 lambda a, s=source, r=result, m=mode: exact.encode(Fraction(number(a, s)), FORMATS[r], m))  # fmt: skip


def to_integer(bits: int, source: str, result: str, mode: str) -> int:
    value = exact.signed(bits, FORMATS[source])
    low = 0 if result[0] == "u" else -(1 << (bits_of(result) - 1))
    high = low + (1 << bits_of(result)) - 1
    if value == NAN:
        whole = 0
    elif isinstance(value, str):
        whole = high if value == "inf" else low
    else:
        rounding = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
        whole = clamp(rounding[mode](value), low, high)
    return whole & ((1 << bits_of(result)) - 1)


for source in ("f16", "f32", "f64"):
    for result in ("u16", "s16", "u32", "s32", "u64", "s64"):
        for mode in ("rni", "rzi", "rmi", "rpi"):
            case(f"cvt.{mode}.{result}.{source} {{d}}, {{0}}", result, source,
                 lambda a, s=source, r=result, m=mode: to_integer(a, s, r, m))  # fmt: skip


def to_float(bits: int, source: str, result: str, mode: str) -> int | str:
    sign = bits >> (FORMATS[source].width - 1)
    return exact.encode(exact.signed(bits, FORMATS[source]), FORMATS[result], mode, sign)


for source, result, modes in (
    ("f32", "f16", ("rn", "rz", "rm", "rp")), ("f32", "bf16", ("rn", "rz")), ("f64", "f32", ("rn", "rz", "rm", "rp")),
    ("f64", "f16", ("rn",)), ("f64", "bf16", ("rn",)), ("f16", "f32", ("",)), ("bf16", "f32", ("",)),
    ("f32", "f64", ("",)),
):  # fmt: skip
    for mode in modes:
        dot = f".{mode}" if mode else ""
        case(f"cvt{dot}.{result}.{source} {{d}}, {{0}}", result, source,
             lambda a, s=source, r=result, m=mode: to_float(a, s, r, m or "rn"))  # fmt: skip


def pair(function: Callable[[int], int | str], width: int) -> Callable[[int, int], int | str]:
    def run(a: int, b: int) -> int | str:
        high, low = function(a), function(b)
        return "skip" if isinstance(high, str) or isinstance(low, str) else high << width | low

    return run


for result in ("f16", "bf16"):
    case(f"cvt.rn.{result}x2.f32 {TWO}", "b32", "f32 f32", pair(lambda a, r=result: to_float(a, "f32", r, "rn"), 16))


def nearest_code(table: dict[int, Fraction], bits: int, top: int) -> int | str:
    """The code whose value is nearest; ties go to the even code."""
    sign, magnitude = exact.decode(bits, exact.F32)
    if magnitude == NAN:
        return "skip"
    if isinstance(magnitude, str) or magnitude >= table[top]:
        return top | sign << 7
    return min(table, key=lambda c: (abs(table[c] - magnitude), c & 1)) | sign << 7


def small_values(exponent_bits: int, mantissa_bits: int, top: int) -> dict[int, Fraction]:
    form = exact.Format(exponent_bits, mantissa_bits)
    values = {}
    for code in range(top + 1):
        exponent, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
        scale = Fraction(2) ** (max(exponent, 1) - form.bias - mantissa_bits)
        values[code] = (mantissa + ((1 << mantissa_bits) if exponent else 0)) * scale
    return values


E4M3, E5M2 = small_values(4, 3, 0x7E), small_values(5, 2, 0x7B)
for name, table, top in (("e4m3", E4M3, 0x7E), ("e5m2", E5M2, 0x7B)):
    case(f"cvt.rn.satfinite.{name}x2.f32 {TWO}", "b16", "f32 f32",
         pair(lambda a, t=table, h=top: nearest_code(t, a, h), 8))  # fmt: skip

    def from_small(a: int, t: dict[int, Fraction] = table, h: int = top) -> int | str:
        out = 0
        for i in (0, 1):
            code = a >> 8 * i & 0xFF
            if code & 0x7F > h:
                return "skip"
            half = exact.encode(t[code & 0x7F], exact.F16)
            assert isinstance(half, int)
            out |= (half | (code >> 7) << 15) << 16 * i
        return out

    case(f"cvt.rn.f16x2.{name}x2 {{d}}, {{0}}", "b32", "b16", from_small)

# -- addresses -----------------------------------------------------------------------------------------

SHARED = 0x7E00_0000_0000
case("cvta.global.u64 {d}, {0}", "u64", "u64", lambda a: a)
case("cvta.shared.u64 {d}, {0}", "u64", "u64", lambda a: a + SHARED, small={0: 1 << 32})
case("isspacep.global {d}, {0}", "pred", "u64", lambda a: int(not 0x7C00_0000_0000 <= a < SHARED + (1 << 40)))
case(f"mapa.shared::cluster.u32 {TWO}", "u32", "u32 u32", lambda a, r: a & 0xFFFFFF | r << 24,
     small={0: 1 << 24, 1: 16})  # fmt: skip
case("getctarank.shared::cluster.u32 {d}, {0}", "u32", "u32", lambda a: a >> 24, small={0: 1 << 28})

__all__ = ["CASES", "Case", "np"]
