"""Phases of mbarriers that waiters mistake or miss (PTX ISA 9.7.13.15.2, 9.7.13.15.16).

A parity names a phase only for a thread that looks at every phase in turn.  Three things show that one did not:

* a wait returned at once although it told the warp nothing new, and afterwards the warp touched what the barrier
  guards too early; such a wait alone is no fault (a fresh "empty" barrier grants parity 1, and one may look twice);
* nothing orders what a warp saw of a phase before the completion of the next one, so that a slow warp would miss it;
* in a deadlock, a warp waits for another phase than the one after the last that it saw.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxgym.devices.simulator.checks.clocks import clocks_of, warps_of
from ptxgym.devices.simulator.checks.observer import Observer
from ptxgym.devices.simulator.types import Array

CODE = "phase-slip"


@dataclass(frozen=True, slots=True)
class Doubt:
    """A wait that returned at once and told nothing new."""

    time: int
    """The clock when it was made."""
    barrier: Any
    """What was waited for."""
    parity: int
    """The parity asked for."""
    phase: int
    """The barrier's phase, which was not complete."""
    where: Any
    """The wait's source line."""


@dataclass(slots=True)
class _Watched:
    """What the warps of the batch have seen of one barrier."""

    seen: Array
    """The last phase that each warp saw complete; -1 for none."""
    time: Array
    """When it did."""
    doubts: dict[int, Doubt] = field(default_factory=dict)
    """By warp: its last wait, if that is in doubt."""


class Phases:
    """What every warp knows of the phases of every barrier."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self._clocks = clocks_of(batch)
        self._barriers: dict[int, _Watched] = {}
        self.arrived: dict[int, Array] = {}
        """By barrier: the warps that arrived last."""
        self._last: dict[int, Doubt] = {}
        """By warp: its last wait of any barrier, if that is in doubt."""

    def of(self, barrier: int) -> _Watched:
        """The state of a barrier."""
        found = self._barriers.get(barrier)
        if found is None:
            warps = self._clocks.warps
            found = self._barriers[barrier] = _Watched(np.full(warps, -1, np.int64), np.zeros(warps, np.int64))
        return found

    def forget(self, barrier: int) -> None:
        """A barrier is initialised."""
        self._barriers.pop(barrier, None)

    def ask(self, members: Array, barrier: Any, parity: int, where: Any) -> None:
        """Warps found a phase complete when they asked."""
        watched = self.of(barrier.offset)
        stale = watched.seen[members] >= barrier.phase - 1
        if stale.any():
            doubt = Doubt(self._clocks.now, barrier, parity, barrier.phase, where)
            for warp in members[stale].tolist():
                self._last[warp] = watched.doubts[warp] = doubt

    def observe(self, members: Array, barrier: Any) -> None:
        """Warps saw the last phase complete."""
        watched = self.of(barrier.offset)
        for warp in members[watched.seen[members] < barrier.phase - 1].tolist():
            self._last.pop(warp, None)
            watched.doubts.pop(warp, None)
        watched.seen[members] = barrier.phase - 1
        watched.time[members] = self._clocks.now + 1

    # -- what the other checks say -------------------------------------------------------------------

    def read_early(self, warp: int, barrier: int | None, what: str) -> bool:
        """A warp touched too early what a barrier guards (None: any barrier); whether a wait of it is to blame."""
        if barrier is None:
            doubt = self._last.get(warp)
        else:
            watched = self._barriers.get(barrier)
            doubt = watched.doubts.get(warp) if watched else None
        if doubt is not None:
            self._report(doubt, what, "who waits for data begins with parity 0 and flips it once per round")
        return doubt is not None

    def released_early(self, barrier: Any, when: str) -> None:
        """A barrier completed a phase too early; the warps that arrived may have waited for a wrong one."""
        name = self.batch.shared_name(barrier.offset)
        for warp in self.arrived.get(barrier.offset, np.empty(0, np.int64)).tolist():
            self.read_early(warp, None, f"it released mbarrier {name} {when}")

    def refilled_early(self, warp: int, since: int, what: str) -> None:
        """A warp filled a stage too early that it filled before at a time; it has waited in between."""
        if since <= 0:
            return
        doubt = self._last.get(warp)
        if doubt is not None and doubt.time >= since:
            self._report(doubt, what, "who waits for a free stage begins with parity 1 and flips it once per round")

    def _report(self, doubt: Doubt, what: str, advice: str) -> None:
        name, phase = self.batch.shared_name(doubt.barrier.offset), doubt.phase
        if phase:
            why = f"it had seen phase {phase - 1} before, and phase {phase} (parity {phase & 1}) was not complete"
        else:
            why = "no phase was complete, and parity 1 stands for the one before the first"
        self.batch.log.warn(
            CODE,
            doubt.where,
            f"the wait for mbarrier {name} with parity {doubt.parity} returned at once: {why}; then {what} ({advice})",
        )

    def out_of_step(self, lanes: Any, barrier: Any) -> str | None:
        """Why lanes that wait for ever for a barrier's phase may have meant another one."""
        watched = self._barriers.get(barrier.offset)
        seen = -1 if watched is None else int(watched.seen[warps_of(lanes)].min())
        behind = barrier.phase - 1 - seen
        if behind <= 0:
            return None
        name, parity = self.batch.shared_name(barrier.offset), barrier.phase & 1
        saw = f"it last saw phase {seen}" if seen >= 0 else "it has seen no phase of it yet"
        if behind % 2:
            return (
                f"waits for mbarrier {name} with parity {parity}, which is phase {barrier.phase}; {saw}, and phase "
                f"{seen + 1}, which is complete, has parity {1 - parity} (begin with parity 0, flip it once per round)"
            )
        self.released_early(barrier, "again before a waiter had looked")
        return (
            f"waits for mbarrier {name} with parity {parity}; {saw}, and phases {seen + 1} to {barrier.phase - 1} have "
            f"completed meanwhile, so that the parity now names phase {barrier.phase}"
        )


def phases_of(batch: Any) -> Phases:
    """The batch's phases."""
    found: Phases = batch.extension("phases", Phases)
    return found


class PhaseSlips(Observer):
    """Keeps :class:`Phases`, and looks for warps that a phase may leave behind."""

    def __init__(self, batch: Any) -> None:
        super().__init__(batch)
        self._clocks = clocks_of(batch)
        self._phases = phases_of(batch)
        self._together: dict[int, list[int]] = defaultdict(list)
        """By warpgroup: when its warps waited for wgmma, which they execute together."""

    def on_mbarrier_init(self, x: Any, offsets: Any, where: Any) -> None:
        """A new barrier."""
        for offset in offsets:
            self._phases.forget(offset)

    def on_mbarrier_granted(self, batch: Any, lanes: Any, barrier: Any, parity: int, where: Any) -> None:
        """A wait that returns at once."""
        self._phases.ask(warps_of(lanes), barrier, parity, where)

    def on_mbarrier_wait(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """A wait that returns, at once or later."""
        self._phases.observe(warps_of(lanes), barrier)

    def on_arriving(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Arrivals."""
        self._phases.arrived[barrier.offset] = warps_of(lanes)

    def on_tensor_commit(self, x: Any, barriers: list[Any]) -> None:
        """Arrivals of ``tcgen05.commit``."""
        for barrier in barriers:
            self._phases.arrived[barrier.offset] = warps_of(x.lanes)

    def on_wgmma_wait(self, x: Any, lanes: Any, allowed: int) -> None:
        """Four warps are at the same place."""
        self._together[lanes.first // 128].append(self._clocks.now + 1)

    def on_mbarrier_phase(self, batch: Any, barrier: Any) -> None:
        """Everybody who saw the last phase must have done so for certain."""
        watched = self._phases.of(barrier.offset)
        previous = barrier.phase - 2
        if previous < 0:
            return
        cause = self._clocks.sent(barrier.offset)[: self._clocks.warps]
        unsure: list[int] = ((watched.seen == previous) & (watched.time > cause)).nonzero()[0].tolist()
        late = [warp for warp in unsure if not self._with_its_group(warp, int(watched.time[warp]), cause)]
        if late:
            self._report(barrier, previous, late[0] % self._clocks.warps_per_cta)

    def _report(self, barrier: Any, previous: int, warp: int) -> None:
        name = self.batch.shared_name(barrier.offset)
        self.batch.log.warn(
            CODE,
            barrier.born,
            f"mbarrier {name} completes phase {previous + 1} although nothing says that warp {warp} has seen phase "
            f"{previous} by then; a slow warp would miss it and wait for ever (every warp that waits must release too, "
            "or a barrier of them must come before the release)",
        )
        self._phases.released_early(barrier, f"before warp {warp} had seen phase {previous}")

    def _with_its_group(self, warp: int, time: int, cause: Array) -> bool:
        """Whether the warp is known through its warpgroup, after a wgmma that needed all four."""
        times, group = self._together[warp // 4], warp // 4 * 4
        next_time = bisect_left(times, time)
        return next_time < len(times) and int(cause[group : group + 4].max()) >= times[next_time]
