"""State of CTA barriers (PTX ISA 9.7.13.1) and cluster barriers (9.7.13.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.findings import SourceLine
from ptxgym.devices.simulator.lanes import LaneSet
from ptxgym.devices.simulator.scheduler import Waiting


@dataclass(slots=True)
class _Named:
    """One of a CTA's sixteen barriers."""

    arrived: int = 0
    """Threads, waiting or not."""
    expected: int = 0
    """From the thread-count operand; zero means all threads of the CTA."""
    waiting: list[Waiting] = field(default_factory=list)
    votes: list[Any] = field(default_factory=list)
    members: list[LaneSet] = field(default_factory=list)


class CtaBarriers:
    """The barriers of all CTAs of a batch."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._named: dict[tuple[int, int], _Named] = {}
        geometry = batch.state.geometry
        self._live = np.full(batch.state.count, geometry.threads, np.int64)
        self._exited_members = 0

    def of(self, cta: int, number: int) -> _Named:
        """Barrier ``number`` of a CTA."""
        return self._named.setdefault((cta, number), _Named())

    def groups(self, x: Context) -> list[tuple[int, LaneSet]]:
        """The executing lanes by CTA."""
        return cta_groups(self._batch, x.lanes)

    def arrive(
        self, x: Context, number: int, count: int, pc: int, where: SourceLine, waits: bool, finish: Any = None
    ) -> int:
        """The executing lanes reach a barrier; returns the pc to go on with, or -1 when they wait.

        Args:
            x: The executing lanes.
            number: The barrier.
            count: Threads that must arrive; zero for all of the CTA.
            pc: Where the lanes go on.
            where: The instruction.
            waits: False for ``bar.arrive``.
            finish: Called with the barrier's members when it completes (reductions).
        """
        batch = self._batch
        if count == 0 and waits and finish is None and self._all_at_once(x, number):
            self._tell(x.lanes, number, where)
            return pc
        for cta, lanes in self.groups(x):
            barrier = self.of(cta, number)
            if count and barrier.expected and barrier.expected != count:
                x.warn("barrier-count", where, f"barrier {number} is used with thread counts {barrier.expected} "
                       f"and {count} in one phase")  # fmt: skip
            barrier.expected = count or barrier.expected
            barrier.arrived += _whole_warps(batch, lanes) if count else lanes.count
            barrier.members.append(lanes)
            if waits:
                barrier.waiting.append(
                    batch.park(x, pc, lanes, where, lambda b=barrier, c=cta: self._missing(b, c, number), barrier)
                )
            if finish is not None:
                barrier.votes.append((finish, lanes))
            self._try(cta, number, barrier, where)
        return -1 if waits else pc

    def _all_at_once(self, x: Context, number: int) -> bool:
        """Whether the executing lanes are all living threads of their CTAs and nobody waits there."""
        batch = self._batch
        ctas = x.lanes.fact("ctas", lambda lanes: np.unique(batch.state.cta_of[lanes.index]))
        if int(self._live[ctas].sum()) != x.lanes.count:
            return False
        if not self._named:
            return True
        return all((c, number) not in self._named or self._named[c, number].arrived == 0 for c in ctas.tolist())

    def _try(self, cta: int, number: int, barrier: _Named, where: SourceLine) -> None:
        needed = barrier.expected or int(self._live[cta])
        if barrier.arrived < needed or not barrier.members:
            return
        waiting, members, votes = barrier.waiting, barrier.members, barrier.votes
        self._named[cta, number] = _Named()
        self._tell(self._batch.pool.union(members), number, where)
        if votes:
            votes[0][0](members)
        for entry in waiting:
            self._batch.scheduler.wake(entry)

    def _tell(self, lanes: LaneSet, number: int, where: SourceLine) -> None:
        for observer in self._batch.watchers("on_barrier"):
            observer.on_barrier(self._batch, lanes, number, where)

    def _missing(self, barrier: _Named, cta: int, number: int) -> str:
        needed = barrier.expected or int(self._live[cta])
        return f"barrier {number}: {barrier.arrived} of {needed} threads arrived"

    def on_exit(self, lanes: LaneSet) -> None:
        """Threads that end no longer count among all threads of their CTA, nor of their cluster."""
        clusters = self._batch.extensions.get("cluster_barriers")
        if clusters is not None:
            clusters.on_exit(lanes)
        np.subtract.at(self._live, self._batch.state.cta_of[lanes.index], 1)
        for (cta, number), barrier in list(self._named.items()):
            if barrier.members and not barrier.expected:
                self._try(cta, number, barrier, SourceLine())


def _whole_warps(batch: Any, lanes: LaneSet) -> int:
    """With a thread count, warps arrive as wholes (PTX ISA 9.7.13.1, ``barrier`` counts in warp multiples)."""
    warps = lanes.fact("warp_count", lambda s: len(np.unique(s.index // 32)))
    return int(warps) * 32 if lanes.count % 32 else lanes.count


def cta_groups(batch: Any, lanes: LaneSet) -> list[tuple[int, LaneSet]]:
    """A set of lanes, taken apart by CTA."""

    def split(whole: LaneSet) -> list[tuple[int, LaneSet]]:
        ctas = batch.state.cta_of[whole.index]
        if ctas[0] == ctas[-1]:
            return [(int(ctas[0]), whole)]
        cuts = np.flatnonzero(np.diff(ctas)) + 1
        return [(int(batch.state.cta_of[part[0]]), batch.pool.of(part)) for part in np.split(whole.index, cuts)]

    groups: list[tuple[int, LaneSet]] = lanes.fact("cta_groups", split)
    return groups
