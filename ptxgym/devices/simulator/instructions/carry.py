"""Extended-precision integer arithmetic with the carry flag (PTX ISA 9.7.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.integer import high_product
from ptxgym.devices.simulator.table import Step, effect
from ptxgym.devices.simulator.types import SIZES, Array

_TYPES = "u32 s32 b32 u64 s64 b64"


def _flags(x: Context) -> Array:
    flags: Array = x.batch.extension("carry", lambda batch: np.zeros(batch.state.lanes, np.bool_))
    return flags


def _finish(b: Any, total: Any, minus: bool) -> Step:
    """A step that adds (or subtracts) with carry; ``total(x)`` gives the two terms."""
    size = SIZES[b.form.types[0]]
    d = b.destination(b.operands[0], f"b{8 * size}")
    unsigned = np.dtype(f"u{size}").type
    uses = b.form.row.opcode in ("addc", "subc", "madc")
    sets = b.form.has("cc")

    def step(x: Context) -> None:
        flags = _flags(x)
        left, right = total(x)
        carry = flags[x.lanes.index].astype(unsigned) if uses else unsigned(0)
        if minus:
            value = left - right - carry
            out = (left < right) | ((left == right) & (carry != 0))
        else:
            part = left + right
            value = part + carry
            out = (part < left) | (value < part)
        if sets:
            flags[x.lanes.index] = out
        x.put(d, value)

    return step


@effect("addc subc", _TYPES, isa="9.7.2", modifiers="cc", counter="integer")
@effect("add sub", _TYPES, isa="9.7.2", modifiers="cc", needs="cc", counter="integer")
def add_with_carry(b: Any) -> Step:
    """Add or subtract, with carry in (``addc``, ``subc``) and carry out (``.cc``)."""
    kind = f"b{8 * SIZES[b.form.types[0]]}"
    left, right = b.source(b.operands[1], kind), b.source(b.operands[2], kind)
    return _finish(b, lambda x: (x.get(left), x.get(right)), b.form.row.opcode.startswith("sub"))


@effect("madc", _TYPES, isa="9.7.2.6", modifiers="cc lo hi", counter="integer")
@effect("mad", _TYPES, isa="9.7.2.6", modifiers="cc lo hi", needs="cc", counter="integer")
def mad_with_carry(b: Any) -> Step:
    """Multiply, add, with carry."""
    kind = b.form.types[0].replace("b", "u")
    x0, x1, x2 = (b.source(operand, kind) for operand in b.operands[1:4])
    unsigned = f"u{SIZES[kind]}"
    high = b.form.has("hi")

    def terms(x: Context) -> tuple[Array, Array]:
        p, q = x.get(x0), x.get(x1)
        product = high_product(p, q, kind) if high else p * q
        return np.asarray(product).view(unsigned), x.get(x2).view(unsigned)

    return _finish(b, terms, False)
