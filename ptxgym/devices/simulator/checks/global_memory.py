"""Reads of global memory that nobody has written, where the owner of the memory keeps track."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.checks.observer import Observer
from ptxgym.devices.simulator.memory import Allocation

_SET = {unit: int.from_bytes(b"\1" * unit) for unit in (1, 2, 4, 8)}
"""Flags of so many bytes, all set."""


class UninitialisedGlobal(Observer):
    """Looks at, and maintains, the flags of allocations that have some."""

    def on_access(self, x: Any, parts: Any, size: int, write: bool, where: Any) -> None:
        """Loads and stores."""
        for buffer, offsets, chosen in parts:
            if not isinstance(buffer, Allocation) or buffer.initialised is None:
                continue
            # Accesses are aligned, so the flags of up to eight bytes are one integer.
            unit = min(size, 8)
            flags = buffer.initialised[: buffer.size // unit * unit].view(f"u{unit}")
            first = offsets >> (unit.bit_length() - 1)
            places = [first + i for i in range(size // unit)]
            if write:
                for place in places:
                    flags[place] = _SET[unit]
                continue
            known = np.logical_and.reduce([flags.take(place) == _SET[unit] for place in places])
            if not known.all():
                at = int(np.flatnonzero(~known)[0])
                position = at if chosen is None else int(chosen[at])
                x.warn(
                    "uninitialised-global",
                    where,
                    f"reads byte {int(offsets[at])} of {buffer.label}, which nothing has written",
                    position,
                )

    def on_atomic(self, x: Any, parts: Any, size: int, where: Any) -> None:
        """Atomics read and write."""
        self.on_access(x, parts, size, False, where)
        self.on_access(x, parts, size, True, where)
