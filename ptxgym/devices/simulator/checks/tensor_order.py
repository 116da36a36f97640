"""Order of accesses to tensor memory (PTX ISA 9.7.16.6).

The tcgen05 instructions are asynchronous.  What one warp does to tensor memory comes after what another did if

* a load or store was waited for (``tcgen05.wait``), a product or copy by the mbarrier of its commit;
* ``tcgen05.fence::before_thread_sync`` follows it (a commit contains it), then a barrier that orders the warps, then
  ``tcgen05.fence::after_thread_sync``.

Products and copies of one thread are executed in order; among threads they need the fences but no wait.  Within a warp
loads and stores must be waited for, unless a store follows them.  Not watched: accumulators of different shapes that
overlap, and warps that synchronise through flags in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.checks.clocks import clocks_of, warps_by_cta, warps_of
from ptxgym.devices.simulator.checks.observer import Observer
from ptxgym.devices.simulator.checks.phases import phases_of
from ptxgym.devices.simulator.types import Array

LD, ST, ASYNC, OPERAND = range(4)
"""What is remembered of a cell: its last load, store, asynchronous write, and asynchronous read."""
_KINDS = {"ld": LD, "st": ST, "mma": ASYNC, "cp": ASYNC, "shift": ASYNC, "operand": OPERAND}
_CONFLICTS = {
    LD: (ST, ASYNC),
    ST: (LD, ST, ASYNC, OPERAND),
    ASYNC: (LD, ST, ASYNC, OPERAND),
    OPERAND: (ST, ASYNC),
}
_ORDERED, _COMPLETE = 2, 3
"""Sections of a clock after LD and ST: asynchronous operations that are ordered before, and that are complete."""
_WAITS = ("ld", "st")


class _Cells:
    """One CTA's tensor memory: groups of 16 lanes by columns."""

    def __init__(self) -> None:
        self.last = np.zeros((4, 8, 512), np.int64)
        """By kind: time of the last access times warps of a cluster, plus the warp."""
        self.places: dict[tuple[int, int], tuple[str, Any]] = {}
        """Opcode and source line, by kind and what ``last`` holds."""
        self.newest: dict[tuple[int, int], tuple[int, int]] = {}
        """Time of the newest access and the only warp that made any (-1: several), by kind and quarter of the lanes."""
        self.latest: tuple[int, ...] = ()
        """Warp, kind, cells and time of the last asynchronous access: k-steps repeat it."""
        self._recent: list[tuple[int, slice, slice, int, tuple[str, Any]]] = []
        """Accesses that ``last`` and ``places`` do not have yet; seldom does anybody look."""

    def add(
        self, what: int, sixteens: slice, columns: slice, time: int, warp: int, stamp: int, place: tuple[str, Any]
    ) -> None:  # fmt: skip
        """Remember an access."""
        self._recent.append((what, sixteens, columns, stamp, place))
        if len(self._recent) > 4096:
            self.settle()
        quarter = _quarter(what, sixteens)
        found = self.newest.get((what, quarter))
        self.newest[what, quarter] = (time, warp if found is None or found[1] == warp else -1)

    def settle(self) -> None:
        """Bring the tables up to date."""
        for what, sixteens, columns, stamp, place in self._recent:
            self.last[what, sixteens, columns] = stamp
            self.places[what, stamp] = place
        self._recent.clear()


def _quarter(what: int, sixteens: slice) -> int:
    """Where :attr:`_Cells.newest` counts an access; products touch all lanes and are counted once."""
    return 0 if what >= ASYNC else int(sixteens.start) // 2


class TensorOrder(Observer):
    """Clocks of what is published, and usable after a fence, by warp; columns are warps of the cluster."""

    def __init__(self, batch: Any) -> None:
        super().__init__(batch)
        self._clocks = clocks_of(batch)
        self._phases = phases_of(batch)
        self._width = batch.state.geometry.cluster_size * self._clocks.warps_per_cta
        self._cells: dict[int, _Cells] = {}
        self._published = np.zeros((0, 0), np.int64)
        """What barriers have told each warp."""
        self._usable = self._published
        """What it knew at its last ``fence::after_thread_sync``."""
        self._waited = np.zeros((2, 0), np.int64)
        """By LD and ST: the last ``tcgen05.wait`` of each warp."""
        self._sent: dict[int, Array] = {}
        self._received: dict[int, Array] = {}
        self._commits: dict[int, list[Array]] = {}
        self._active = False

    def _start(self) -> None:
        self._active = True
        warps = self._clocks.warps
        self._published = np.zeros((warps, 4 * self._width), np.int64)
        self._usable = self._published.copy()
        self._waited = np.zeros((2, warps), np.int64)

    # -- what orders ---------------------------------------------------------------------------------

    def on_tensor_wait(self, x: Any, kind: str) -> None:
        """Loads or stores are complete."""
        if self._active:
            self._waited[_KINDS[kind], warps_of(x.lanes)] = self._clocks.tick()

    def on_tensor_fence(self, x: Any, after: bool) -> None:
        """Fences of threads."""
        if not self._active:
            return
        members = warps_of(x.lanes)
        if after:
            self._usable[members] = self._published[members]
            return
        own = members % self._width
        self._published[members, LD * self._width + own] = self._waited[LD, members]
        self._published[members, ST * self._width + own] = self._waited[ST, members]
        self._published[members, _ORDERED * self._width + own] = self._clocks.tick()

    def on_tensor_commit_issue(self, batch: Any, lane: int) -> None:
        """A commit publishes what its thread has issued, once that is complete."""
        if not self._active:
            self._start()
        warp, own = lane // 32, lane // 32 % self._width
        clock = self._published[warp].copy()
        clock[LD * self._width + own], clock[ST * self._width + own] = self._waited[:, warp]
        clock[_ORDERED * self._width + own] = clock[_COMPLETE * self._width + own] = self._clocks.tick()
        self._commits.setdefault(lane, []).append(clock)

    def on_tensor_commit(self, x: Any, barriers: list[Any]) -> None:
        """It arrives."""
        clocks = self._commits.get(x.lanes.first)
        if clocks:
            clock = clocks.pop(0)
            for barrier in barriers:
                self._send(barrier, clock)

    def on_arriving(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Arrivals publish."""
        if self._active:
            self._send(barrier, self._published[warps_of(lanes)].max(axis=0))

    def _send(self, barrier: Any, clock: Array) -> None:
        old = self._sent.get(barrier.offset)
        self._sent[barrier.offset] = clock if old is None else np.maximum(old, clock)

    def on_mbarrier_phase(self, batch: Any, barrier: Any) -> None:
        """What was sent may be learnt."""
        if self._active and barrier.offset in self._sent:
            self._received[barrier.offset] = self._sent[barrier.offset]

    def on_mbarrier_wait(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Waits learn."""
        clock = self._received.get(barrier.offset)
        if clock is not None:
            for warp in warps_of(lanes).tolist():  # one or four
                row = self._published[warp]
                np.maximum(row, clock, out=row)

    def on_barrier(self, batch: Any, lanes: Any, number: int, where: Any) -> None:
        """Barriers order the warps of a CTA."""
        if self._active:
            for members in warps_by_cta(lanes, self._clocks.warps_per_cta):
                self._published[members] = self._published[members].max(axis=0)

    def on_cluster_barrier(self, batch: Any, lanes: Any) -> None:
        """Cluster barriers order the warps of a cluster."""
        if self._active:
            warps = warps_of(lanes)
            cuts = np.flatnonzero(np.diff(warps // self._width)) + 1
            for members in np.split(warps, cuts):
                self._published[members] = self._published[members].max(axis=0)

    # -- accesses ------------------------------------------------------------------------------------

    def on_tensor_access(
        self, batch: Any, kind: str, lane: int, cta: int, sixteens: slice, columns: slice, where: Any
    ) -> None:
        """Look at what came before, then remember."""
        if not self._active:
            self._start()
        cells = self._cells.get(cta)
        if cells is None:
            cells = self._cells[cta] = _Cells()
        warp = lane // 32
        if kind == "dealloc":
            self._check_dealloc(cells, warp, columns, where)
            cells.last[:, :, columns] = 0
            cells.latest = ()
            return
        what, own = _KINDS[kind], warp % self._width
        time = self._clocks.now + 1
        if what >= ASYNC:
            latest = (own, what, sixteens.start, columns.start, columns.stop, time)
            if latest == cells.latest:
                return
            cells.latest = latest
        found = self._conflict(cells, what, warp, sixteens, columns)
        if found is not None:
            self._report(what, *found, warp, (kind, where), cells.places[found])
        cells.add(what, sixteens, columns, time, own, time * self._width + own, (kind, where))

    def _conflict(
        self, cells: _Cells, what: int, warp: int, sixteens: slice, columns: slice
    ) -> tuple[int, int] | None:  # fmt: skip
        """An earlier access that is not ordered before this one: its kind and stamp."""
        for earlier in _CONFLICTS[what]:
            if not self._newer(cells, what, earlier, warp, sixteens):
                continue
            cells.settle()
            stamps = cells.last[earlier, sixteens, columns]
            for stamp in np.unique(stamps[stamps > 0]).tolist():
                time, actor = divmod(stamp, self._width)
                if time > self._limit(what, earlier, warp, actor):
                    return earlier, stamp
        return None

    def _newer(self, cells: _Cells, what: int, earlier: int, warp: int, sixteens: slice) -> bool:
        """Whether any access to the warp's lanes, in whatever column, may be one that is not ordered before it."""
        everywhere = what >= ASYNC and earlier <= ST
        for quarter in range(4) if everywhere else (_quarter(earlier, sixteens),):
            time, actor = cells.newest.get((earlier, quarter), (0, 0))
            if time and (actor < 0 or time > self._limit(what, earlier, warp, actor)):
                return True
        return False

    def _limit(self, what: int, earlier: int, warp: int, actor: int) -> int:
        """Until when the earlier accesses of a warp of the cluster are ordered before this one."""
        if actor == warp % self._width:
            if min(earlier, what) >= ASYNC or (what == ST and earlier <= ST):
                return self._clocks.now + 1
            if earlier <= ST:
                return int(self._waited[earlier, warp])
        clock = self._usable[warp]
        if earlier <= ST:
            return int(clock[earlier * self._width + actor])
        complete = int(clock[_COMPLETE * self._width + actor])
        return max(complete, int(clock[_ORDERED * self._width + actor])) if what >= ASYNC else complete

    def _report(
        self, what: int, earlier: int, stamp: int, warp: int, this: tuple[str, Any], that: tuple[str, Any]
    ) -> None:  # fmt: skip
        time, actor = divmod(stamp, self._width)
        other = warp - warp % self._width + actor
        needed = earlier if earlier <= ST else _ORDERED if what >= ASYNC else _COMPLETE
        if earlier <= ST and self._waited[earlier, other] < time:
            code = f"tcgen05-wait-{_WAITS[earlier]}"
            why = f"but no tcgen05.wait::{_WAITS[earlier]} says that that is over"
        elif self._published[warp, needed * self._width + actor] >= time:
            code, why = "tcgen05-fence", "but tcgen05.fence::after_thread_sync is missing behind the wait between them"
        elif needed != _COMPLETE and self._clocks.known[warp, other] >= time:
            code, why = (
                "tcgen05-fence",
                "but tcgen05.fence::before_thread_sync is missing behind that and before the barrier between them",
            )
        else:
            code = "tmem-in-flight"
            advice = "wait for its commit" if needed == _COMPLETE else "nothing orders them"
            why = f"which is not known to have finished ({advice})"
            self._blame(warp, other, this, that)
        touched = f"what the {_opcode(that[0])} at {that[1]} touches"
        self.batch.log.warn(code, this[1], f"this {_opcode(this[0])} touches {touched}, {why}")

    def _blame(self, warp: int, other: int, this: tuple[str, Any], that: tuple[str, Any]) -> None:
        """Either warp may have waited for the wrong phase, a reader more likely."""
        met = f"the {_opcode(this[0])} at {this[1]} met the {_opcode(that[0])} at {that[1]}"
        for each in (other, warp) if that[0] == "ld" else (warp, other):
            if self._phases.read_early(each, None, met):
                return

    def _check_dealloc(self, cells: _Cells, warp: int, columns: slice, where: Any) -> None:
        cells.settle()
        base, own = warp - warp % self._width, warp % self._width
        known = self._clocks.known[warp, base : base + self._width]
        complete = self._published[warp].reshape(4, self._width)[_COMPLETE]
        for earlier in range(4):
            stamps = cells.last[earlier, :, columns]
            stamps = stamps[stamps > 0]
            times, actors = np.divmod(stamps, self._width)
            late = times > complete[actors] if earlier >= ASYNC else (times > known[actors]) & (actors != own)
            if late.any():
                kind, place = cells.places[earlier, int(stamps[np.flatnonzero(late)[0]])]
                self.batch.log.warn(
                    "tmem-in-flight",
                    where,
                    f"deallocates columns that the {_opcode(kind)} at {place} may still use (nothing orders them)",
                )
                return


def _opcode(kind: str) -> str:
    return f"tcgen05.{'mma' if kind == 'operand' else kind}"
