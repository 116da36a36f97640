"""Reads of global memory that nobody has written, where the owner of the memory keeps track."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.checks.observer import Observer
from ptxgym.devices.simulator.memory import Allocation


class UninitialisedGlobal(Observer):
    """Looks at, and maintains, the flags of allocations that have some."""

    def on_access(self, x: Any, parts: Any, size: int, write: bool, where: Any) -> None:
        """Loads and stores."""
        for buffer, offsets, chosen in parts:
            if not isinstance(buffer, Allocation) or buffer.initialised is None:
                continue
            span = offsets[:, None] + np.arange(size)
            if write:
                buffer.initialised[span] = True
                continue
            known = buffer.initialised[span].all(axis=1)
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
