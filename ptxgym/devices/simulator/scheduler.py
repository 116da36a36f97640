"""Which lanes execute next.

The strand with the lowest pc goes first and strands meet again at equal pcs.  Structured code reconverges
that way without a stack, and warp-specialised code, whose branches wait for each other, cannot be starved
as it would be on a stack.  A strand that loops while others could run is set aside, so that spinning on
memory ends.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

from ptxgym.devices.simulator.findings import SourceLine
from ptxgym.devices.simulator.lanes import LanePool, LaneSet
from ptxgym.devices.simulator.state import Frame


@dataclass(slots=True, eq=False)
class Stack:
    """A chain of calls; lanes with the same chain share frames and may execute together."""

    frame: Frame
    parent: Stack | None
    return_pc: int
    depth: int
    children: dict[tuple[str, int], Stack] = field(default_factory=dict)
    returns: Any = None
    """How results travel back, set by the call."""


@dataclass(slots=True, eq=False)
class Waiting:
    """Lanes that wait for something; kept for the deadlock report."""

    stack: Stack
    pc: int
    """Where they go on."""
    lanes: LaneSet
    where: SourceLine
    reason: Any
    """A callable that says what is missing."""
    barrier: Any = None


Key = tuple[int, int]


class Scheduler:
    """Ready strands of a batch, and the waiting ones."""

    def __init__(self, pool: LanePool) -> None:
        self._pool = pool
        self._heap: list[tuple[int, int, int]] = []
        self._ready: dict[tuple[int, int], list[LaneSet]] = {}
        self._stacks: dict[int, Stack] = {}
        self._later: list[tuple[Stack, int, LaneSet]] = []
        self.waiting: dict[int, Waiting] = {}
        self.partial: dict[tuple[int, int], Waiting] = {}

    def put(self, stack: Stack, pc: int, lanes: LaneSet) -> None:
        """Make lanes ready at ``pc``."""
        identity = id(stack)
        key = (identity, pc)
        entry = self._ready.get(key)
        if entry is None:
            self._ready[key] = [lanes]
            self._stacks[identity] = stack
            heapq.heappush(self._heap, (-stack.depth, pc, identity))
        else:
            entry.append(lanes)

    def defer(self, stack: Stack, pc: int, lanes: LaneSet) -> None:
        """Make lanes ready after everything that is ready now."""
        self._later.append((stack, pc, lanes))

    def precedes(self, stack: Stack, pc: int) -> bool:
        """Whether some ready strand should go before (or join) one at this place."""
        return bool(self._heap) and self._heap[0][:2] <= (-stack.depth, pc)

    @property
    def anything_ready(self) -> bool:
        """Whether a strand could execute now."""
        return bool(self._heap)

    @property
    def anything_deferred(self) -> bool:
        """Whether a strand was set aside."""
        return bool(self._later)

    def pop(self) -> tuple[Stack, int, LaneSet] | None:
        """The next strand, merged; None when nothing is ready."""
        if not self._heap:
            return None
        _, pc, identity = heapq.heappop(self._heap)
        sets = self._ready.pop((identity, pc))
        return self._stacks[identity], pc, self._pool.union(sets)

    def resume_deferred(self) -> None:
        """Make the strands that were set aside ready."""
        later, self._later = self._later, []
        for strand in later:
            self.put(*strand)

    # -- waiting -------------------------------------------------------------------------------------

    def park(self, waiting: Waiting) -> Waiting:
        """Remember lanes that wait."""
        self.waiting[id(waiting)] = waiting
        return waiting

    def wake(self, waiting: Waiting) -> None:
        """Make waiting lanes ready."""
        del self.waiting[id(waiting)]
        self.put(waiting.stack, waiting.pc, waiting.lanes)

    def unpark(self, waiting: Waiting) -> None:
        """Forget waiting lanes; the caller places them."""
        del self.waiting[id(waiting)]
