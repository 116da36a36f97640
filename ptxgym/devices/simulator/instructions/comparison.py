"""Comparison and selection (PTX ISA 9.7.5, 9.7.6, 9.7.7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.half import decode_half
from ptxgym.devices.simulator.table import Elementwise, Form, Step, effect, elementwise
from ptxgym.devices.simulator.types import Array

_ORDERED: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_COMPARISONS = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"
_TYPES = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2"
_COMBINE: dict[str, Any] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def comparison(name: str, is_float: bool) -> Elementwise:
    """A comparison by name; for floats, plain names are false for NaN (but ``ne``) and ``…u`` names are true."""
    if name == "num":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if name == "nan":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    if not is_float:
        return _ORDERED[name]  # type: ignore[no-any-return]
    if name == "ne":
        return lambda a, b: (a < b) | (a > b)
    if name == "neu":
        return np.not_equal
    if name.endswith("u"):
        ordered = _ORDERED[name[:-1]]
        return lambda a, b: ordered(a, b) | np.isnan(a) | np.isnan(b)
    return _ORDERED[name]  # type: ignore[no-any-return]


def _compare(form: Form) -> Elementwise:
    kind = form.types[-1]
    is_float = "f" in kind
    test = comparison(form.one_of(tuple(_COMPARISONS.split())), is_float)
    if kind == "bf16":
        return lambda a, b: test(decode_half(np.asarray(a), kind), decode_half(np.asarray(b), kind))
    return test


@effect("setp", _TYPES, isa="9.7.6.2", modifiers=f"{_COMPARISONS} and or xor ftz", counter="compare")
def setp(b: Any) -> Step:
    """Compare into one or two predicates, combined with a third."""
    kind = b.form.types[0]
    if kind.endswith("x2"):
        return _setp_packed(b)
    first, second = b.pair(b.operands[0])
    p = b.destination(first, "pred")
    q = b.destination(second, "pred") if second is not None else -1
    u, v = b.source(b.operands[1], kind), b.source(b.operands[2], kind)
    test = _compare(b.form)
    if len(b.operands) == 3:
        if q < 0 and isinstance(test, np.ufunc):
            return _setp_simple(test, u, v, p)
        return _setp_pair(lambda x: test(x.views[u], x.views[v]), p, q)
    combine = _COMBINE[b.form.one_of(tuple(_COMBINE))]
    third = b.operands[3]
    c, negated = b.source(third, "pred"), getattr(third, "negated", False)

    def step(x: Context) -> None:
        outcome = test(x.views[u], x.views[v])
        other = ~x.get(c) if negated else x.get(c)
        if q >= 0:
            x.put(q, combine(~np.asarray(outcome), other))
        x.put(p, combine(outcome, other))

    return step


def _setp_simple(test: np.ufunc, u: int, v: int, p: int) -> Step:
    def step(x: Context) -> None:
        views = x.views
        if x.sliced:
            test(views[u], views[v], out=views[p])
        else:
            x.put(p, test(views[u], views[v]))

    return step


def _setp_pair(outcome: Any, p: int, q: int) -> Step:
    def step(x: Context) -> None:
        value = np.asarray(outcome(x))
        x.put(p, value)
        x.put(q, ~value)

    return step


def _setp_packed(b: Any) -> Step:
    """The two halves of a packed pair give two predicates."""
    kind = b.form.types[0]
    first, second = b.pair(b.operands[0])
    p, q = b.destination(first, "pred"), b.destination(second, "pred")
    u, v = b.source(b.operands[1], kind), b.source(b.operands[2], kind)
    test = _compare(b.form)

    def half(value: Array, index: int) -> Array:
        return decode_half(((value >> np.uint32(16 * index)) & np.uint32(0xFFFF)).astype(np.uint16), kind)

    def step(x: Context) -> None:
        left, right = x.get(u), x.get(v)
        outcomes = [test(half(left, i), half(right, i)) for i in (0, 1)]
        x.put(p, outcomes[0])
        x.put(q, outcomes[1])

    return step


@effect("set", f"{_TYPES} ", isa="9.7.6.1", modifiers=f"{_COMPARISONS} and or xor ftz", counter="compare")
def set_value(b: Any) -> Step:
    """Compare into a value: all ones or 1.0 where true."""
    result, kind = b.form.types
    d = b.destination(b.operands[0], result)
    if kind.endswith("x2"):
        return _set_packed(b, d)
    u, v = b.source(b.operands[1], kind), b.source(b.operands[2], kind)
    test = _compare(b.form)
    combine = _COMBINE.get(b.form.one_of(tuple(_COMBINE)))
    c = b.source(b.operands[3], "pred") if combine is not None else -1

    def step(x: Context) -> None:
        outcome = np.asarray(test(x.get(u), x.get(v)))
        if combine is not None:
            outcome = combine(outcome, x.get(c))
        x.put(d, _truth(outcome, result))

    return step


def _truth(outcome: Array, kind: str) -> Array:
    if kind == "bf16":
        return np.where(outcome, np.uint16(0x3F80), np.uint16(0))
    if kind.startswith("f"):
        return outcome.astype(np.float32)
    return np.where(outcome, -1, 0)


def _set_packed(b: Any, d: int) -> Step:
    result, kind = b.form.types
    u, v = b.source(b.operands[1], kind), b.source(b.operands[2], kind)
    test = _compare(b.form)
    ones = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(result, 0xFFFF)

    def step(x: Context) -> None:
        total = np.zeros(x.lanes.count, np.uint32)
        for index in (0, 1):
            halves = [((x.get(s) >> np.uint32(16 * index)) & np.uint32(0xFFFF)).astype(np.uint16) for s in (u, v)]
            outcome = test(decode_half(halves[0], kind), decode_half(halves[1], kind))
            total |= np.where(outcome, np.uint32(ones << (16 * index)), np.uint32(0))
        x.put(d, total)

    return step


_SELECT = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"


@elementwise("selp", _SELECT, isa="9.7.6.3", signature="T:T,T,pred", counter="select")
def selp(form: Form) -> Elementwise:
    """``a`` where the predicate is true, else ``b``."""
    return lambda a, b, p: np.where(p, a, b)


@elementwise("slct", _SELECT, isa="9.7.6.4", modifiers="ftz", signature="T:T,T,U", counter="select")
def slct(form: Form) -> Elementwise:
    """``a`` where ``c`` is not negative, else ``b``."""
    return lambda a, b, c: np.where(np.asarray(c) >= 0, a, b)
