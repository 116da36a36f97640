"""Address functions of shared-memory tiles: swizzles, matrix descriptors, register fragments.

Each layout is a line of arithmetic; everything else is generic.  PTX ISA 5.5.7 (swizzle modes),
9.7.15.5.1 (wgmma operands and descriptors), 9.7.16.4 (tcgen05 descriptors).  What the ISA gives only as
figures follows CUTLASS's ``mma_traits_sm90_gmma.hpp`` (``ALayout_64x16``, ``CLayout_64xN``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ptxgym.devices.simulator.types import Array

CHUNK = np.dtype(np.complex128)
"""Sixteen bytes, the unit of every swizzle; NumPy moves complex numbers as plain bits."""

Swizzle = Callable[[Array], Array]

# XOR rules on byte addresses in shared memory, by CUtensorMapSwizzle's names.
SWIZZLES: dict[str, Swizzle] = {
    "none": lambda a: a,
    "32B": lambda a: a ^ ((a >> 3) & 0x10),
    "64B": lambda a: a ^ ((a >> 3) & 0x30),
    "128B": lambda a: a ^ ((a >> 3) & 0x70),
    "128B_atom_32B": lambda a: a ^ ((a >> 2) & 0x60),
    "128B_atom_64B": lambda a: a ^ ((a >> 1) & 0x40),
}
SPAN = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_atom_32B": 128, "128B_atom_64B": 128}
"""Bytes of a row of the swizzle's atom."""


@lru_cache(maxsize=512)
def tile_chunks(phase: int, count: int, swizzle: str) -> Array:
    """Chunk numbers, relative to a 1024-byte block, of a dense tile that starts ``phase`` bytes into it."""
    return SWIZZLES[swizzle](phase + 16 * np.arange(count)) >> 4


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A shared-memory matrix descriptor."""

    start: int
    """Byte address in the CTA's shared window."""
    leading: int
    """Leading-dimension byte offset."""
    stride: int
    """Stride-dimension byte offset."""
    base_offset: int
    swizzle: str


_SM90_MODES = ("none", "128B", "64B", "32B")
_SM100_MODES = {0: "none", 1: "128B_atom_32B", 2: "128B", 4: "64B", 6: "32B"}


@lru_cache(maxsize=4096)
def decode_sm90(bits: int) -> Descriptor:
    """The descriptor of ``wgmma`` (9.7.15.5.1.2)."""
    return Descriptor(
        (bits & 0x3FFF) << 4, (bits >> 16 & 0x3FFF) << 4, (bits >> 32 & 0x3FFF) << 4, bits >> 49 & 7,
        _SM90_MODES[bits >> 62 & 3],
    )  # fmt: skip


@lru_cache(maxsize=4096)
def decode_sm100(bits: int) -> Descriptor:
    """The descriptor of ``tcgen05`` (9.7.16.4.1).

    Raises:
        KeyError: The layout field has a reserved value.
    """
    return Descriptor(
        (bits & 0x3FFF) << 4, (bits >> 16 & 0x3FFF) << 4, (bits >> 32 & 0x3FFF) << 4, bits >> 49 & 7,
        _SM100_MODES[bits >> 61 & 7],
    )  # fmt: skip


def k_major(d: Descriptor, row: Array, chunk: Array) -> Array:
    """Address of a 16-byte chunk along K of a row, K contiguous."""
    if d.swizzle == "none":
        return (row // 8) * d.stride + (row % 8) * 16 + chunk * d.leading
    return (row // 8) * d.stride + (row % 8) * SPAN[d.swizzle] + chunk * 16


def mn_major(d: Descriptor, chunk: Array, k: Array) -> Array:
    """Address of a 16-byte chunk along M (or N) at one k, M contiguous."""
    if d.swizzle == "none":
        return chunk * d.stride + (k % 8) * 16 + (k // 8) * d.leading
    per_span = SPAN[d.swizzle] // 16
    rows = 4 if d.swizzle == "128B_atom_32B" else 8
    inside = (chunk % per_span) * 16 + (k % rows) * SPAN[d.swizzle]
    return (chunk // per_span) * d.leading + inside + (k // rows) * d.stride


class Plan:
    """Where an operand's bytes are: chunk numbers from the start of the CTA's shared memory."""

    __slots__ = ("_lines", "chunks", "descriptor", "high", "low")

    def __init__(self, descriptor: Descriptor, chunks: Array) -> None:
        self.descriptor = descriptor
        self.chunks = chunks
        self.low = int(chunks.min())
        self.high = int(chunks.max())
        self._lines: dict[int, Array] = {}

    def lines(self, base: int) -> Array:
        """The 128-byte lines that it touches; the same object for the same lines, so that checks can compare."""
        found = self._lines.get(base)
        if found is None:
            found = _shared_lines((self.chunks >> 3).tobytes(), base)
            self._lines[base] = found
        return found


@lru_cache(maxsize=4096)
def _shared_lines(numbers: bytes, base: int) -> Array:
    return np.unique(np.frombuffer(numbers, np.int64)) + base


@lru_cache(maxsize=4096)
def plan(bits: int, blackwell: bool, rows: int, size: int, k_extent: int, transposed: bool) -> Plan:
    """The plan of an operand.

    Args:
        bits: The descriptor's 64 bits.
        blackwell: Its encoding: of tcgen05, or of wgmma.
        rows: M or N.
        size: Bytes of an element.
        k_extent: K of the instruction, in elements of that size.
        transposed: M (or N) contiguous.
    """
    d = decode_sm100(bits) if blackwell else decode_sm90(bits)
    per_chunk = 16 // size
    if transposed:
        k, chunk = np.arange(k_extent)[:, None], np.arange(rows // per_chunk)[None, :]
        address = d.start + mn_major(d, chunk, k)
    else:
        row, chunk = np.arange(rows)[:, None], np.arange(k_extent // per_chunk)[None, :]
        address = d.start + k_major(d, row, chunk)
    return Plan(d, SWIZZLES[d.swizzle](address) >> 4)


def operand_matrix(chunks: Array, raw: np.dtype[Any], transposed: bool) -> Array:
    """Gathered chunks as a [rows, K] matrix of raw elements."""
    matrix = chunks.view(raw)
    return matrix.T if transposed else matrix


# -- register fragments of a warpgroup -----------------------------------------------------------------
# Lane l of warp w holds, in register 4j+2h+p of an accumulator, row 16w + 8h + l//4 and column 8j + 2(l%4) + p.


def accumulator_to_matrix(registers: Array) -> Array:
    """[N/2, 128] 32-bit registers to [64, N]."""
    n = registers.shape[0] // 4
    return registers.reshape(n, 2, 2, 4, 8, 4).transpose(3, 1, 4, 0, 5, 2).reshape(64, 8 * n)


def matrix_to_accumulator(matrix: Array) -> Array:
    """[64, N] to [N/2, 128]."""
    n = matrix.shape[1] // 8
    return matrix.reshape(4, 2, 8, n, 4, 2).transpose(3, 1, 5, 0, 2, 4).reshape(4 * n, 128)


def packed_accumulator_to_matrix(registers: Array) -> Array:
    """[N/4, 128] registers of two halves each to [64, N] half codes."""
    n = registers.shape[0] // 2
    halves = np.ascontiguousarray(registers).view(np.uint16).reshape(n, 2, 4, 8, 4, 2)
    return halves.transpose(2, 1, 3, 0, 4, 5).reshape(64, 8 * n)


def matrix_to_packed_accumulator(codes: Array) -> Array:
    """[64, N] half codes to [N/4, 128] registers."""
    n = codes.shape[1] // 8
    halves = codes.reshape(4, 2, 8, n, 4, 2).transpose(3, 1, 0, 2, 4, 5)
    return np.ascontiguousarray(halves).view(np.uint32).reshape(2 * n, 128)


def a_registers_to_matrix(registers: Array, size: int) -> Array:
    """[4, 128] registers of an A operand to [64, K] raw elements (``size`` bytes each).

    Register 2g+h holds row 8h + l//4 and the g-th half of K.
    """
    each = 4 // size
    parts = np.ascontiguousarray(registers).view(f"u{size}").reshape(2, 2, 4, 8, 4, each)
    return parts.transpose(2, 1, 3, 0, 4, 5).reshape(64, 8 * each)
