"""Which tensor maps the driver encodes. One that breaks a rule gets ``CUDA_ERROR_INVALID_VALUE``.

The rules are those of ``cuTensorMapEncodeTiled`` and ``cuTensorMapEncodeIm2col`` in the CUDA driver API's reference,
as the driver applies them: they agree with driver 580.159 on an H200 in every one of the 4,195 calls that
``behaviour_h200.txt`` records (half of them refused). The three packed types of Blackwell follow the reference alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_SIZES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 4, 12: 4}
"""Bytes of an element, by ``CUtensorMapDataType``."""
_FLOATS = {6, 7, 8, 9, 10, 11, 12}
_PACKED_SIZES = {13: 0.5, 14: 1, 15: 1}
"""16U4_ALIGN8B, 16U4_ALIGN16B and 16U6_ALIGN16B: sixteen elements in 8, 16 and 16 bytes of shared memory."""
_LARGEST_BOX = 227 << 10

_INTERLEAVE_NONE, _INTERLEAVE_16B, _INTERLEAVE_32B = range(3)
_SWIZZLE_SPAN = {0: None, 1: 32, 2: 64, 3: 128, 4: 128, 5: 128, 6: 128}
"""Bytes of the pattern's row. 4 to 6 are Blackwell's variants of the 128-byte pattern."""


@dataclass(frozen=True, slots=True)
class Tiled:
    """The arguments of ``cuTensorMapEncodeTiled``; tuples have ``rank`` elements, ``strides`` one less."""

    type: int
    rank: int
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    """Bytes."""
    box: tuple[int, ...]
    steps: tuple[int, ...]
    interleave: int
    swizzle: int
    promotion: int
    fill: int


@dataclass(frozen=True, slots=True)
class Im2col:
    """The arguments of ``cuTensorMapEncodeIm2col``; the corners have ``rank − 2`` elements."""

    type: int
    rank: int
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int
    steps: tuple[int, ...]
    interleave: int
    swizzle: int
    promotion: int
    fill: int


def broken_rule(map_: Tiled | Im2col, blackwell: bool) -> str | None:
    """The first rule that a map breaks, as a sentence; None for one that the driver encodes."""
    common = _common(map_, blackwell)
    if common:
        return common
    return _tiled(map_) if isinstance(map_, Tiled) else _im2col(map_)


def _common(m: Tiled | Im2col, blackwell: bool) -> str | None:
    packed = blackwell and m.type in _PACKED_SIZES
    wide = m.interleave == _INTERLEAVE_32B
    if m.type not in _SIZES and not packed:
        return f"the data type {m.type} does not exist on this GPU"
    if m.interleave not in (0, 1, 2):
        return f"the interleave {m.interleave} does not exist"
    if m.swizzle not in _SWIZZLE_SPAN or (m.swizzle > 3 and not blackwell):
        return f"the swizzle {m.swizzle} does not exist on this GPU"
    if m.promotion not in range(4):
        return f"the L2 promotion {m.promotion} does not exist"
    if m.fill not in (0, 1) or (m.fill == 1 and m.type not in _FLOATS):
        return "NaN can only fill floating-point elements"
    alignment = 32 if wide or (packed and m.type != 13) else 16
    if m.address % alignment:
        return f"the address must be a multiple of {alignment} bytes"
    if not all(1 <= dim <= 1 << 32 for dim in m.dims):
        return "every dimension must be from 1 to 2^32"
    if packed and m.dims[0] % (128 if m.type != 13 else 2):
        return "the first dimension of packed elements must be a multiple of 128 (ALIGN16B) or 2 (ALIGN8B)"
    if packed and m.type != 13 and m.swizzle == 5:
        return "elements padded to 16 bytes cannot have the swizzle that flips 8 bytes"
    if packed and m.type == 15 and m.interleave != _INTERLEAVE_NONE:
        return "6-bit elements cannot be interleaved"
    if any(stride % alignment or stride >= 1 << 40 for stride in m.strides):
        return f"every stride must be a multiple of {alignment} bytes, below 2^40"
    if not all(1 <= step <= 8 for step in m.steps):
        return "every element stride must be from 1 to 8"
    return None


def _inner(m: Tiled | Im2col, elements: int) -> str | None:
    """The row that the box copies: whole 16-byte units, within the swizzle pattern."""
    size = _PACKED_SIZES.get(m.type) or _SIZES[m.type]
    span = _SWIZZLE_SPAN[m.swizzle]
    if m.type in (14, 15) and elements != 128:
        return "a box of 16-byte packed elements has 128 of them in its first dimension"
    if elements * size % 16:
        return "the box's first dimension must be a multiple of 16 bytes"
    if span and m.interleave == _INTERLEAVE_NONE and elements * size > span:
        return f"the box's first dimension is longer than the swizzle's {span} bytes"
    return None


def _whole(m: Tiled | Im2col, elements: int) -> str | None:
    bytes_ = elements * (_PACKED_SIZES.get(m.type) or _SIZES[m.type])
    return f"a box of {bytes_} bytes is more than shared memory holds" if bytes_ > _LARGEST_BOX else None


def _copied(m: Tiled) -> int:
    """Elements that one copy brings: an element stride above 1 skips some, except in the first dimension."""
    rest = (-(-extent // step) for extent, step in zip(m.box[1:], m.steps[1:], strict=True))
    return m.box[0] * math.prod(rest)


def _tiled(m: Tiled) -> str | None:
    if m.interleave != _INTERLEAVE_NONE and m.rank < 3:
        return "an interleaved map needs three dimensions or more"
    if not all(1 <= extent <= 256 for extent in m.box):
        return "every extent of the box must be from 1 to 256"
    return _inner(m, m.box[0]) or _whole(m, _copied(m))


def _im2col(m: Im2col) -> str | None:
    bits = {3: 16, 4: 8, 5: 5}[m.rank]
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if not all(low <= corner <= high for corner in (*m.lower, *m.upper)):
        return f"with {m.rank} dimensions every corner must be from {low} to {high}"
    # The driver measures an interleaved map's box against the dimensions that start with the first, not the second.
    spatial = m.dims[1:-1] if m.interleave == _INTERLEAVE_NONE else m.dims[:-2]
    if any(up + dim <= lo for up, dim, lo in zip(m.upper, spatial, m.lower, strict=True)):
        return "the bounding box must not be empty"
    if not 1 <= m.channels <= 256:
        return "channels per pixel must be from 1 to 256"
    if not 1 <= m.pixels <= 1024:
        return "pixels per column must be from 1 to 1024"
    return _inner(m, m.channels) or _whole(m, m.channels * m.pixels)
