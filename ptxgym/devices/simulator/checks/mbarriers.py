"""Use of mbarriers that nothing orders after their initialisation (PTX ISA 9.7.13.15.9)."""

from __future__ import annotations

from typing import Any

from ptxgym.devices.simulator.checks.clocks import clocks_of, warps_of
from ptxgym.devices.simulator.checks.observer import Observer
from ptxgym.devices.simulator.types import Array


class MbarrierRules(Observer):
    """Remembers who initialised a barrier, and when."""

    def __init__(self, batch: Any) -> None:
        super().__init__(batch)
        self._clocks = clocks_of(batch)
        self._born: dict[int, tuple[int, int]] = {}
        self._ordered: set[tuple[int, int, Any]] = set()
        """Barriers, when they were born, and who is known to come after that: lane sets, or a warp."""

    def on_mbarrier_init(self, x: Any, offsets: Any, where: Any) -> None:
        """``mbarrier.init``."""
        now = self._clocks.tick()
        for offset, lane in zip(offsets, x.each_lane(), strict=True):
            self._born[offset] = (now, lane // 32)
            self._clocks.known[lane // 32, lane // 32] = now

    def on_arriving(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Arrivals, remote ones among them."""
        self._check(lanes, warps_of(lanes), barrier)

    def on_mbarrier_wait(self, batch: Any, lanes: Any, barrier: Any) -> None:
        """Waits."""
        self._check(lanes, warps_of(lanes), barrier)

    def on_signal(self, batch: Any, lane: int, barriers: list[Any]) -> None:
        """A copy will signal these barriers."""
        for barrier in barriers:
            self._check(lane // 32, lane // 32, barrier)

    def _check(self, who: Any, members: Array | int, barrier: Any) -> None:
        time, warp = self._born.get(barrier.offset, (0, 0))
        if (barrier.offset, time, who) in self._ordered:
            return
        if (self._clocks.known[members, warp] >= time).all():
            self._ordered.add((barrier.offset, time, who))
        else:
            name = self.batch.shared_name(barrier.offset)
            self.batch.log.warn(
                "mbarrier-init-race",
                barrier.born,
                f"mbarrier {name} is used by threads that nothing orders after its initialisation (a barrier of CTA or "
                "cluster is missing)",
            )
