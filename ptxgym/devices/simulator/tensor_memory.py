"""Tensor memory: 128 lanes of 512 32-bit columns per CTA (PTX ISA 9.7.16.1, 9.7.16.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxgym.devices.simulator.types import Array

LANES, COLUMNS = 128, 512
SHIFTED_COLUMNS = 8
"""Columns that ``tcgen05.shift`` and ``.ashift`` move: 32 bytes of every lane."""


@dataclass(slots=True)
class TensorMemory:
    """One CTA's tensor memory."""

    words: Array = field(default_factory=lambda: np.zeros((LANES, COLUMNS), np.uint32))
    written: Array = field(default_factory=lambda: np.zeros((LANES, COLUMNS), np.bool_))
    owner: Array = field(default_factory=lambda: np.zeros(COLUMNS, np.int32))
    """Which allocation holds a column; zero for none."""
    allocations: int = 0
    relinquished: bool = False
    busy: list[tuple[int, int, Any, Any]] = field(default_factory=list)
    """Column ranges that unfinished operations write: first, end, operation, source line."""

    def allocate(self, columns: int) -> int | None:
        """The first column of free ones, or None."""
        for first in range(0, COLUMNS - columns + 1, columns):
            if not self.owner[first : first + columns].any():
                self.allocations += 1
                self.owner[first : first + columns] = self.allocations
                return first
        return None

    def is_allocated(self, first: int, count: int) -> bool:
        """Whether all these columns are allocated."""
        return first + count <= COLUMNS and bool(self.owner[first : first + count].all())

    def shift(self, column: int) -> None:
        """Give every lane what stands in the next one, the last of each 32 lanes excepted.

        The ISA says "down"; that this is to the lane below, in all four quarters at once, was read back on a B200
        (CUTLASS's example ``1cta_mma_a_from_tmem.py``; ``notes/sm100/instr/utcshift.md`` of
        ``cicuvc/nvidia-sass-document``).
        """
        span = slice(column, column + SHIFTED_COLUMNS)
        for table in (self.words, self.written):
            quarters = table[:, span].reshape(4, 32, SHIFTED_COLUMNS)
            quarters[:, :-1] = quarters[:, 1:].copy()
            table[:, span] = quarters.reshape(LANES, SHIFTED_COLUMNS)

    def unfinished(self, first: int, count: int) -> Any:
        """The source line of an unfinished operation that writes these columns, or None."""
        self.busy = [entry for entry in self.busy if not entry[2].done]
        for start, end, _, where in self.busy:
            if start < first + count and first < end:
                return where
        return None


def tensor_memory(batch: Any, cta: int) -> TensorMemory:
    """The tensor memory of a CTA, by its position in the batch."""
    table: dict[int, TensorMemory] = batch.extension("tensor_memory", lambda b: {})
    found = table.get(cta)
    if found is None:
        found = table[cta] = TensorMemory()
    return found


# -- data movement shapes (9.7.16.2.3) --------------------------------------------------------------------
# Row (of a warp's 32 or 16 lanes) and column of register r of thread t.  The figures of the ISA, as formulas.

Position = tuple[Array, Array]


def _shape_32x32b(t: Array, r: Array) -> Position:
    return t + 0 * r, r + 0 * t


def _shape_16x64b(t: Array, r: Array) -> Position:
    return t // 4 + 8 * (t % 2) + 0 * r, 2 * r + t % 4 // 2


def _shape_16x128b(t: Array, r: Array) -> Position:
    return t // 4 + 8 * (r % 2), 4 * (r // 2) + t % 4


def _shape_16x256b(t: Array, r: Array) -> Position:
    return t // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (t % 4) + r % 2


SHAPES: dict[str, Any] = {
    "32x32b": _shape_32x32b,
    "16x64b": _shape_16x64b,
    "16x128b": _shape_16x128b,
    "16x256b": _shape_16x256b,
}
REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
"""Registers per repetition."""
COLUMNS_PER_REGISTER = {"32x32b": 1, "16x64b": 2, "16x128b": 2, "16x256b": 2, "16x32bx2": 1}


def fragment(shape: str, registers: int, split: int = 0) -> Position:
    """Rows and columns, [registers, 32], relative to the instruction's address."""
    t, r = np.arange(32)[None, :], np.arange(registers)[:, None]
    if shape == "16x32bx2":
        return t % 16 + 0 * r, r + split * (t // 16)
    position: Position = SHAPES[shape](t, r)
    return position


def packed_fragment(shape: str, registers: int, split: int = 0) -> Position:
    """The same for ``.pack::16b`` and ``.unpack::16b``, [2, registers, 32]: of each register's low and high half.

    The shapes then count 16-bit elements, each of which has a column to itself: CUTLASS's ``copy_traits_sm100.hpp``,
    ``ValID`` of the ``_16b`` atoms.
    """
    rows, columns = fragment(shape, registers)
    second = split * (np.arange(32) // 16) if shape == "16x32bx2" else 0
    return np.broadcast_to(rows, (2, *rows.shape)), np.stack([2 * columns, 2 * columns + 1]) + second
