"""Operand slots: where a step reads its sources and puts its results.

A program numbers its distinct (register, type), constant and special-register operands; a step holds
numbers, and :class:`~ptxgym.devices.simulator.context.Views` turns a number into an array for the lanes
that execute.  PTX names never get further than the program's dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ptxgym.devices.simulator.lanes import LaneSet
from ptxgym.devices.simulator.state import Frame

Value = npt.NDArray[Any]


class Slot(Protocol):
    """Anything that a step can read."""

    def view(self, frame: Frame, lanes: LaneSet, batch: Any) -> tuple[Value, bool]:
        """The value for these lanes, and whether it stays the same object for them."""

    def at(self, frame: Frame, lane: int, batch: Any) -> Any:
        """The value of one lane."""

    def whole(self, frame: Frame) -> Value:
        """The row of all lanes, for destinations."""


@dataclass(frozen=True, slots=True)
class RegisterSlot:
    """A register, seen as a type."""

    bank: str
    row: int
    dtype: np.dtype[Any]

    def view(self, frame: Frame, lanes: LaneSet, batch: Any) -> tuple[Value, bool]:
        """A view for slices, a copy for other sets."""
        return frame.row(self.bank, self.row, self.dtype)[lanes.selector], lanes.sliced

    def at(self, frame: Frame, lane: int, batch: Any) -> Any:
        """One lane's value."""
        return self.whole(frame)[lane]

    def whole(self, frame: Frame) -> Value:
        """The row."""
        return frame.row(self.bank, self.row, self.dtype)


@dataclass(frozen=True, slots=True)
class ConstantSlot:
    """A literal."""

    value: Value

    def view(self, frame: Frame, lanes: LaneSet, batch: Any) -> tuple[Value, bool]:
        """The literal itself."""
        return self.value, True

    def at(self, frame: Frame, lane: int, batch: Any) -> Any:
        """The literal."""
        return self.value[()]

    def whole(self, frame: Frame) -> Value:
        """Not a destination."""
        raise TypeError("a literal is not a destination")


@dataclass(frozen=True, slots=True)
class LaneSlot:
    """A value per lane that is constant during a launch: special registers, symbol addresses."""

    compute: Callable[[Any, Frame], Value]
    dtype: np.dtype[Any]
    lasting: bool = True

    def view(self, frame: Frame, lanes: LaneSet, batch: Any) -> tuple[Value, bool]:
        """The value for these lanes."""
        value = np.asarray(self.compute(batch, frame)).astype(self.dtype, copy=False)
        return (value if value.ndim == 0 else value[lanes.selector]), self.lasting

    def at(self, frame: Frame, lane: int, batch: Any) -> Any:
        """One lane's value."""
        value = np.asarray(self.compute(batch, frame)).astype(self.dtype, copy=False)
        return value[()] if value.ndim == 0 else value[lane]

    def whole(self, frame: Frame) -> Value:
        """Not a destination."""
        raise TypeError("a special register is not a destination")


def literal(value: int | float, bits: int | None, width: int, dtype: np.dtype[Any], is_float: bool) -> Value:
    """A PTX literal as a zero-dimensional array of ``dtype`` (PTX ISA 4.5).

    ``bits`` are those of a hexadecimal float of ``width`` bits.
    """
    if dtype.kind == "b":
        return np.array(bool(value))
    if dtype.kind == "f":
        if bits is not None and width == dtype.itemsize * 8:
            return np.array(bits, f"u{dtype.itemsize}").view(dtype)
        return np.array(value, dtype)
    if bits is not None:
        raw = bits
    elif is_float:
        raw = int(np.array(value, f"f{dtype.itemsize}").view(f"u{dtype.itemsize}")[()])
    else:
        raw = int(value)
    raw &= (1 << (8 * dtype.itemsize)) - 1
    return np.array(raw, f"u{dtype.itemsize}").view(dtype)
