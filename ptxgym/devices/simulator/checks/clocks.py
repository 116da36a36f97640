"""Vector clocks of warps: who is known to have done what.

Times are global counts.  ``known[w, v]`` is the time up to which warp ``w`` knows warp ``v``'s actions to
have happened before its own; ``visible`` is the same for what the asynchronous proxy may read (it follows
``known`` only at a proxy fence, PTX ISA 9.7.13.4 and 8.9.5).  Further columns stand for mbarriers: the time
of the last transfer that a barrier completed.  What arrives at an mbarrier reaches its waiters when the phase
completes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.checks.observer import Observer
from ptxgym.devices.simulator.types import Array


class Clocks:
    """Clocks of all warps of a batch."""

    def __init__(self, batch: Any) -> None:
        geometry = batch.state.geometry
        self.warps_per_cta = geometry.stride // 32
        self.warps = batch.state.count * self.warps_per_cta
        self.now = 1
        self._columns = self.warps
        self._barriers: dict[int, int] = {}
        self.barrier_of: dict[int, int] = {}
        """The barrier of a column."""
        self._times = np.zeros((2, self.warps, self.warps + 16), np.int64)
        """``known`` and ``visible``, which most events change alike."""
        self.known, self.visible = self._times
        self._sent: dict[int, Array] = {}
        self._published: dict[int, Array] = {}
        """What was sent before a barrier's last phase completed."""

    def tick(self) -> int:
        """A new point in time."""
        self.now += 1
        return self.now

    def column(self, barrier: int) -> int:
        """The column of a barrier."""
        found = self._barriers.get(barrier)
        if found is None:
            found = self._barriers[barrier] = self._columns
            self.barrier_of[found] = barrier
            self._columns += 1
            if self._columns > self.known.shape[1]:
                none, grow = (0, 0), (0, self.known.shape[1])
                self._times = np.pad(self._times, (none, none, grow))
                self.known, self.visible = self._times
                self._sent = {b: np.pad(times, (none, grow)) for b, times in self._sent.items()}
                self._published = {b: np.pad(times, (none, grow)) for b, times in self._published.items()}
        return found

    def join(self, groups: Array) -> None:
        """Barriers among warps, one group a row: each knows what any of its group knows, and what each of them did."""
        self.known[groups, groups] = self.now + 1 + np.arange(len(groups))[:, None]
        self.now += len(groups)
        self._times[:, groups] = self._times[:, groups].max(axis=2, keepdims=True)

    def fence(self, members: Array) -> None:
        """A proxy fence: what these warps know becomes visible to the asynchronous proxy."""
        self.known[members, members] = self.tick()
        self.visible[members] = np.maximum(self.visible[members], self.known[members])

    def send(self, barrier: int, members: Array) -> None:
        """Warps arrive at a barrier object."""
        self.known[members, members] = self.tick()
        sent = self._channel(barrier)
        np.maximum(sent, self._times[:, members].max(axis=1), out=sent)

    def issue(self, barriers: list[int], warp: int) -> None:
        """A warp issues a copy: barrier objects that it will signal come after what the warp knows."""
        self.known[warp, warp] = self.tick()
        for barrier in barriers:
            known = self._channel(barrier)[0]
            np.maximum(known, self.known[warp], out=known)

    def complete(self, barrier: int) -> int:
        """An asynchronous transfer signals a barrier object; returns its time."""
        now = self.tick()
        column = self.column(barrier)
        self._channel(barrier)[:, column] = now
        return now

    def sent(self, barrier: int) -> Array:
        """What has been sent to a barrier object."""
        return self._channel(barrier)[0]

    def publish(self, barrier: int) -> None:
        """A barrier object's phase is complete: its waiters may know what was sent."""
        self._published[barrier] = self._channel(barrier).copy()

    def receive(self, barrier: int, members: Array) -> None:
        """Warps have waited for a barrier object."""
        published = self._published.get(barrier)
        if published is None:
            return
        self._times[:, members] = np.maximum(self._times[:, members], published[:, None])

    def _channel(self, barrier: int) -> Array:
        found = self._sent.get(barrier)
        if found is None:
            found = self._sent[barrier] = np.zeros((2, self.known.shape[1]), np.int64)
        return found


def warps_of(lanes: Any) -> Array:
    """Warp numbers of a set of lanes."""
    return lanes.fact("warps", lambda s: np.unique(s.index // 32))


def warps_by_cta(lanes: Any, warps_per_cta: int) -> list[Array]:
    """Warp numbers of a set of lanes, one array for each CTA."""

    def split(s: Any) -> list[Array]:
        warps = np.unique(s.index // 32)
        return np.split(warps, np.flatnonzero(np.diff(warps // warps_per_cta)) + 1)

    found: list[Array] = lanes.fact("warps_by_cta", split)
    return found


def clocks_of(batch: Any) -> Clocks:
    """The batch's clocks."""
    found: Clocks = batch.extension("clocks", Clocks)
    return found


class ClockKeeper(Observer):
    """Moves the clocks; it comes after the checks that look at them."""

    def __init__(self, batch: Any) -> None:
        super().__init__(batch)
        self._clocks = clocks_of(batch)

    def on_barrier(self, batch: Any, lanes: Any, number: int, where: Any) -> None:
        """Barriers order the warps of a CTA."""
        groups = warps_by_cta(lanes, self._clocks.warps_per_cta)
        if len({len(members) for members in groups}) == 1:
            self._clocks.join(np.stack(groups))
            return
        for members in groups:
            self._clocks.join(members[None])

    def on_cluster_barrier(self, batch: Any, lanes: Any) -> None:
        """Cluster barriers order warps of several CTAs."""
        self._clocks.join(warps_of(lanes)[None])

    def on_fence(self, x: Any, kind: str, where: Any) -> None:
        """Proxy fences."""
        if kind.startswith("proxy.async"):
            self._clocks.fence(warps_of(x.lanes))

    def on_signal(self, batch: Any, lane: int, barriers: list[Any]) -> None:
        """Copies come after what their thread did."""
        if barriers:
            self._clocks.issue([barrier.offset for barrier in barriers], lane // 32)

    def on_arriving(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Arrivals publish."""
        self._clocks.send(barrier.offset, warps_of(lanes))

    def on_mbarrier_phase(self, batch: Any, barrier: Any) -> None:
        """What was sent may be learnt."""
        self._clocks.publish(barrier.offset)

    def on_mbarrier_wait(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Waits learn."""
        self._clocks.receive(barrier.offset, warps_of(lanes))

    def on_tensor_commit(self, x: Any, barriers: list[Any]) -> None:
        """Commits publish."""
        for barrier in barriers:
            self._clocks.send(barrier.offset, warps_of(x.lanes))
