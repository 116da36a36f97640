"""Vector clocks of warps: who is known to have done what.

Times are global counts.  ``known[w, v]`` is the time up to which warp ``w`` knows warp ``v``'s actions to
have happened before its own; ``visible`` is the same for what the asynchronous proxy may read (it follows
``known`` only at a proxy fence, PTX ISA 9.7.13.4 and 8.9.5).  Further columns stand for mbarriers: the time
of the last transfer that a barrier completed.
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
        self.known = np.zeros((self.warps, self.warps + 16), np.int64)
        self.visible = np.zeros_like(self.known)
        self._sent: dict[int, tuple[Array, Array]] = {}

    def tick(self) -> int:
        """A new point in time."""
        self.now += 1
        return self.now

    def column(self, barrier: int) -> int:
        """The column of a barrier."""
        found = self._barriers.get(barrier)
        if found is None:
            found = self._barriers[barrier] = self._columns
            self._columns += 1
            if self._columns > self.known.shape[1]:
                grow = ((0, 0), (0, self.known.shape[1]))
                self.known, self.visible = np.pad(self.known, grow), np.pad(self.visible, grow)
                self._sent = {b: (np.pad(k, grow[1]), np.pad(v, grow[1])) for b, (k, v) in self._sent.items()}
        return found

    def join(self, members: Array) -> None:
        """A barrier among warps: each knows what any of them knows, and what each of them did."""
        now = self.tick()
        self.known[members, members] = now
        self.known[members] = self.known[members].max(axis=0)
        self.visible[members] = self.visible[members].max(axis=0)

    def fence(self, members: Array) -> None:
        """A proxy fence: what these warps know becomes visible to the asynchronous proxy."""
        self.known[members, members] = self.tick()
        self.visible[members] = np.maximum(self.visible[members], self.known[members])

    def send(self, barrier: int, members: Array) -> None:
        """Warps arrive at a barrier object."""
        self.known[members, members] = self.tick()
        known, visible = self._channel(barrier)
        np.maximum(known, self.known[members].max(axis=0), out=known)
        np.maximum(visible, self.visible[members].max(axis=0), out=visible)

    def complete(self, barrier: int) -> int:
        """An asynchronous transfer signals a barrier object; returns its time."""
        now = self.tick()
        column = self.column(barrier)
        known, visible = self._channel(barrier)
        known[column] = visible[column] = now
        return now

    def receive(self, barrier: int, members: Array) -> None:
        """Warps have waited for a barrier object."""
        known, visible = self._channel(barrier)
        self.known[members] = np.maximum(self.known[members], known)
        self.visible[members] = np.maximum(self.visible[members], visible)

    def _channel(self, barrier: int) -> tuple[Array, Array]:
        found = self._sent.get(barrier)
        if found is None:
            width = self.known.shape[1]
            found = self._sent[barrier] = (np.zeros(width, np.int64), np.zeros(width, np.int64))
        return found


def warps_of(lanes: Any) -> Array:
    """Warp numbers of a set of lanes."""
    return lanes.fact("warps", lambda s: np.unique(s.index // 32))


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

        def split(s: Any) -> list[Array]:
            warps = np.unique(s.index // 32)
            cta = warps // self._clocks.warps_per_cta
            return np.split(warps, np.flatnonzero(np.diff(cta)) + 1)

        for members in lanes.fact("warps_by_cta", split):
            self._clocks.join(members)

    def on_cluster_barrier(self, batch: Any, lanes: Any) -> None:
        """Cluster barriers order warps of several CTAs."""
        self._clocks.join(warps_of(lanes))

    def on_fence(self, x: Any, kind: str, where: Any) -> None:
        """Proxy fences."""
        if kind.startswith("proxy.async"):
            self._clocks.fence(warps_of(x.lanes))

    def on_arriving(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Arrivals publish."""
        self._clocks.send(barrier.offset, warps_of(lanes))

    def on_mbarrier_wait(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Waits learn."""
        self._clocks.receive(barrier.offset, warps_of(lanes))

    def on_tensor_commit(self, x: Any, barriers: list[Any]) -> None:
        """Commits publish."""
        for barrier in barriers:
            self._clocks.send(barrier.offset, warps_of(x.lanes))
