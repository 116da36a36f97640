"""PTX's fundamental types, their widths and the NumPy types that hold them (PTX ISA 5.2)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A NumPy array or scalar with one value per lane.

NumPy types its operators on arrays of any type as ``Any``; a stricter alias would need a cast at every
operator and prove nothing.
"""

SIZES: dict[str, int] = {
    "pred": 1,
    "b8": 1, "u8": 1, "s8": 1, "e4m3": 1, "e5m2": 1, "e2m1x2": 1, "e2m3": 1, "e3m2": 1, "e2m1": 1,
    "ue8m0": 1, "ue4m3": 1,
    "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "e4m3x2": 2, "e5m2x2": 2, "ue8m0x2": 2,
    "e2m3x2": 2, "e3m2x2": 2, "e2m1x4": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "u16x2": 4, "s16x2": 4,
    "e4m3x4": 4, "e5m2x4": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8,
    "b128": 16,
    "b1": 1, "u4": 1, "s4": 1, "b4": 1, "b1024": 128, "b4x16": 8, "b6x16": 12, "b4x16_p64": 16,
    "b6x16_p32": 16,
}  # fmt: skip
"""Bytes of a type; the sub-byte types count the byte that holds them."""

_FLOATS: dict[str, np.dtype[Any]] = {f"f{8 * size}": np.dtype(f"f{size}") for size in (2, 4, 8)}


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy type in which rows see a PTX type.

    Formats that NumPy lacks (bf16, fp8, packed pairs) appear as unsigned integers of their width.
    """
    if name == "pred":
        return np.dtype(np.bool_)
    if name in _FLOATS:
        return _FLOATS[name]
    kind = "i" if name in ("s8", "s16", "s32", "s64") else "u"
    return np.dtype(f"{kind}{SIZES[name]}")


def widened(name: str, size: int) -> np.dtype[Any]:
    """The type that a register of ``size`` bytes takes a value of type ``name`` in (PTX ISA 9.4.1)."""
    own = dtype_of(name)
    if own.kind == "b" or own.itemsize == size:
        return own
    return np.dtype(f"{'i' if own.kind == 'i' else 'u'}{size}")
