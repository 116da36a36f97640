"""Rules of wgmma that concern its own instructions (PTX ISA 9.7.15.1, 9.7.15.7)."""

from __future__ import annotations

from typing import Any

from ptxgym.devices.simulator.checks.observer import Observer


class WgmmaRules(Observer):
    """Fences before, groups after."""

    def __init__(self, batch: Any) -> None:
        super().__init__(batch)
        self._fenced: set[int] = set()

    def on_wgmma_fence(self, x: Any, lanes: Any, where: Any) -> None:
        """Registers are ordered from here on."""
        self._fenced.add(lanes.first)

    def on_wgmma(self, x: Any, lanes: Any, registers: Any, inputs: Any, where: Any) -> None:
        """The first wgmma after registers were free to be touched needs a fence."""
        if lanes.first not in self._fenced:
            self.batch.log.warn(
                "wgmma-fence",
                where,
                "wgmma.mma_async without wgmma.fence since its registers were last accessible; ptxas adds one",
            )

    def on_wgmma_wait(self, x: Any, lanes: Any, allowed: int) -> None:
        """Accumulators become accessible again."""
        if allowed == 0:
            self._fenced.discard(lanes.first)

    def on_exit(self, batch: Any, lanes: Any) -> None:
        """Everything must have been waited for."""
        table = batch.extensions.get("wgmma")
        if not table:
            return
        for lane in lanes.index[lanes.index % 128 == 0].tolist():
            group = table.get(lane)
            if group is not None and group.chains:
                chain = next(iter(group.chains.values()))
                batch.log.warn(
                    "wgmma-not-waited",
                    chain.where,
                    "the warpgroup exits with this wgmma unfinished: commit it and wait for its group",
                )
