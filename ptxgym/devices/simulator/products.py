"""What a ``tcgen05.mma`` computes: its instruction descriptor, its shapes, where the rows of D and A live, its sum.

PTX ISA 9.7.16.2.1 (shapes), 9.7.16.4.2 (instruction descriptors), 9.7.16.10.1-9.7.16.10.5 (majorness, packing,
layouts).  The layouts are figures there; as formulas they follow CUTLASS's ``mma_traits_sm100_frag.hpp``
(``tmem_frg``, ``tmem_frg_ws``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ptxgym.devices.simulator.tensor_memory import LANES, TensorMemory
from ptxgym.devices.simulator.types import Array

_NARROW = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
TYPES: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _NARROW,
    "mxf8f6f4": _NARROW,
    "i8": {0: "u8", 1: "s8"},
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""Operand types by kind and code."""
K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "mxf8f6f4": 32, "i8": 32, "mxf4": 64, "mxf4nvf4": 64}
"""Extent of K by kind."""
F16, F32, S32 = range(3)
_RESULTS = {"f16": (F16, F32), "tf32": (F32,), "f8f6f4": (F16, F32), "i8": (S32,)}
"""Types of D by kind; block-scaled kinds have F32 alone."""
PADDED = {"e2m3": 6, "e3m2": 6, "e2m1": 4}
"""Bits of the types that f8f6f4 and mxf8f6f4 take out of padded groups of 16 (:func:`formats.spread`)."""
CONTAINER_SHIFT = {"e2m3": 0, "e3m2": 0, "e2m1": 2}
"""Lowest bit of such an element in its byte of tensor memory.

Figures 199 to 201 of the ISA show it; 9.7.14.5 says in words where they stand in a byte of a register, the same place.
``mlc-ai/TIRx-harness`` compares copies of both widths with a B200's (``tcgen05_transfer_semantics.py``).  A comment of
CUTLASS's ``cp_narrow_a_to_tmem_mma.py`` puts 6-bit elements one bit higher, which its data, all ones, do not test.
"""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction descriptor (9.7.16.4.2)."""

    a: str
    b: str
    result: int
    """F16, F32 or S32."""
    negate: bool
    """The product, because one of A and B is negated."""
    saturate: bool
    """Integer sums stop at the ends of their range."""
    transpose_a: bool
    transpose_b: bool
    n: int
    m: int
    scale_a: int
    """Byte of the scale word that applies, for block scaling."""
    scale_b: int
    scale_type: str
    """``ue8m0`` or ``ue4m3``."""


def decode_instruction(bits: int, kind: str) -> Instruction:
    """Take a descriptor apart.

    Raises:
        ValueError: A field has no meaning for the kind, or none here.
    """
    scaled, four_bit = kind.startswith("mx"), K[kind] == 64
    types = TYPES[kind]
    a, b = types.get(bits >> 7 & 7), types.get(bits >> 10 & (3 if four_bit else 7))
    if a is None or b is None:
        raise ValueError(f"the type codes {bits >> 7 & 7} and {bits >> 10 & 7}")
    if bits >> 2 & 1:
        raise ValueError("the sparsity bit")
    if four_bit and bits >> 31:
        raise ValueError("K = 96, which is of sm_103a")
    return Instruction(
        a, b, F32 if scaled else bits >> 4 & 3, bool((bits >> 13 ^ bits >> 14) & 1),
        kind == "i8" and bool(bits >> 3 & 1), bool(bits >> 15 & 1), bool(bits >> 16 & 1), (bits >> 17 & 63) * 8,
        (bits >> 27 & 3) * 128 if scaled else (bits >> 24 & 31) * 16,
        bits >> 29 & 3, bits >> 4 & 3, "ue8m0" if bits >> 23 & 1 else "ue4m3",
    )  # fmt: skip


def broken_rule(what: Instruction, kind: str, pair: bool, weight_stationary: bool) -> str | None:
    """Why no instruction of the kind has this shape and these types, or None (tables 39, 51 and 52)."""
    rows, columns = _rows(kind, pair, weight_stationary), _columns(what, kind, pair, weight_stationary)
    if what.m not in rows or what.n not in columns:
        group = f"{'.ws ' if weight_stationary else ''}cta_group::{2 if pair else 1}"
        return f"M={what.m}, N={what.n} is no shape of kind::{kind} with {group}"
    if what.result not in _RESULTS.get(kind, (F32,)) or (what.result == F16 and "bf16" in (what.a, what.b)):
        name = {F16: "F16", F32: "F32", S32: "S32"}.get(what.result, str(what.result))
        return f"D cannot be {name} where A is {what.a} and B {what.b}"
    if K[kind] == 64 and (what.transpose_a or what.transpose_b):
        return f"kind::{kind} has no transposed operands"
    return None


def _rows(kind: str, pair: bool, weight_stationary: bool) -> tuple[int, ...]:
    if weight_stationary:
        return (32, 64, 128)
    if pair:
        return (128, 256)
    return (128,) if kind.startswith("mx") else (64, 128)


def _columns(what: Instruction, kind: str, pair: bool, weight_stationary: bool) -> tuple[int, ...] | range:
    if weight_stationary:
        return (64, 128, 256)
    bytes_across = what.transpose_b and K[kind] == 32
    step = (32 if kind == "i8" or bytes_across else 16) if pair else (16 if bytes_across else 8)
    if kind == "i8" and not pair and what.n > 32:
        step = 16
    return range(step, 257, step)


# -- where rows of D, and of an A in tensor memory, live ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """One CTA's part of D: equal groups of columns, each in lanes of its own.

    A row of A in tensor memory stands in the same lanes, so once for every group.
    """

    rows: int
    groups: int
    """1 in layouts A, D and F, 2 in B and E, 4 in G."""
    spread: bool
    """Rows fill half of every 32 lanes (layout F)."""

    def lanes(self, group: int) -> Array:
        """Lane of each row in a group of columns."""
        row = np.arange(self.rows)
        return row // 16 * 32 + row % 16 if self.spread else row + self.rows * group

    def columns(self, n: int, group: int) -> slice:
        """The group's columns of D."""
        width = n // self.groups
        return slice(width * group, width * (group + 1))


@lru_cache(maxsize=256)
def plan_of(bits: int, kind: str, pair: bool, weight_stationary: bool) -> tuple[Instruction, Layout | None, str | None]:
    """A descriptor, where its D lives, and the rule that it breaks, if it breaks one.

    Raises:
        ValueError: As :func:`decode_instruction`.
    """
    what = decode_instruction(bits, kind)
    problem = broken_rule(what, kind, pair, weight_stationary)
    return what, None if problem else layout_of(what.m, pair, weight_stationary), problem


@lru_cache(maxsize=32)
def layout_of(m: int, pair: bool, weight_stationary: bool) -> Layout:
    """Layouts A to G of 9.7.16.10.5, but C, which is for sparse matrices."""
    if pair:
        return Layout(m // 2, 2 if m == 128 else 1, False)
    return Layout(m, 128 // m if weight_stationary else 1, m == 64 and not weight_stationary)


@lru_cache(maxsize=64)
def result_cells(layout: Layout, width: int, first: int) -> Array:
    """Which lanes of ``width`` columns hold rows, as booleans; ``first`` is the lane of row 0."""
    used = np.zeros((LANES, width), np.bool_)
    for group in range(layout.groups):
        used[layout.lanes(group) + first] = True
    return used


@lru_cache(maxsize=32)
def scale_cells(rows: int) -> Array:
    """Which lanes of which columns hold the scale words of so many rows, as booleans."""
    return 32 * np.arange(-(-rows // 32)) + np.arange(LANES)[:, None] % 32 < rows


@lru_cache(maxsize=64)
def result_place(layout: Layout, n: int) -> tuple[Array, Array]:
    """Lane and column of each element of a CTA's part of D, as [rows, N]."""
    width = n // layout.groups
    lanes = np.repeat(np.stack([layout.lanes(g) for g in range(layout.groups)], axis=1), width, axis=1)
    return lanes, np.broadcast_to(np.arange(n) % width, lanes.shape)


@lru_cache(maxsize=64)
def selected_columns(bits: int, n: int, groups: int) -> tuple[Array, int]:
    """Which columns of B a zero-column mask replaces by zeros, and by how many columns B is shifted (9.7.16.4.3).

    The ISA's examples and its names of the two spans disagree; ``mlc-ai/TIRx-harness`` found on a B200 that the
    examples are right, and that a start count stops one short of the first span.
    """
    column, width = np.arange(n), n // groups
    field = np.uint64(bits) >> (8 * (column // width)).astype(np.uint64) & np.uint64(255)
    starts_with_zeros = np.uint64(bits) >> (32 + column // width).astype(np.uint64) & np.uint64(1) == 1
    zeros, used, shift = (bits >> 40 & 255) + 1, (bits >> 48 & 255) + 1, bits >> 56 & 63
    start = np.minimum(field.astype(np.int64), np.where(starts_with_zeros, zeros, used) - 1)
    position = (column % width + start) % (zeros + used)
    mask = np.where(starts_with_zeros, position < zeros, position >= used)
    return mask & bool(bits >> 39 & 1), shift


# -- the sum -------------------------------------------------------------------------------------------


def accumulate(
    memory: TensorMemory, layout: Layout, d: int, product: Array, what: Instruction, keep: float | None,
    disabled: Array | None = None,
) -> None:  # fmt: skip
    """Store a product in D.

    Args:
        memory: Of the CTA.
        layout: Where D's rows are.
        d: D's address.
        product: A·B.
        what: Types and sign.
        keep: What D is multiplied by before the product is added to it; None to overwrite it.
        disabled: Lanes that stay as they are.
    """
    column = d & 0xFFFF
    if what.negate:
        product = -product
    if layout.rows == LANES and what.result not in (F16, S32) and disabled is None and keep in (None, 1.0):
        span = slice(column, column + what.n)  # every row in its own lane, columns in order: no copies
        view = memory.words[:, span].view(np.float32)
        if keep is None:
            view[...] = product
            memory.written[:, span] = True
        else:
            view += product
        return
    lanes, columns = result_place(layout, what.n)
    lanes, columns = lanes + (d >> 16), columns + column
    words = _words(product, memory.words[lanes, columns] if keep is not None else None, what, keep or 0.0)
    if disabled is not None:
        words = np.where(disabled[lanes], memory.words[lanes, columns], words)
    memory.words[lanes, columns] = words
    memory.written[lanes, columns] |= True if disabled is None else ~disabled[lanes]


def _words(product: Array, old: Array | None, what: Instruction, keep: float) -> Array:
    """Elements of D as words of tensor memory; an F16 stands in the low half of its word (9.7.16.10.4.1)."""
    if what.result == S32:
        total = product.astype(np.int64) + (0 if old is None else old.view(np.int32))
        if what.saturate:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return total.astype(np.uint32)
    if old is not None:
        half = old.astype(np.uint16).view(np.float16).astype(np.float32) if what.result == F16 else old.view(np.float32)
        product = product + half * np.float32(keep)
    if what.result == F16:
        with np.errstate(over="ignore"):
            return product.astype(np.float16).view(np.uint16).astype(np.uint32)
    return product.astype(np.float32, copy=False).view(np.uint32)
