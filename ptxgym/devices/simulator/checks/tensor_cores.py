"""Rules of wgmma that concern its own instructions (PTX ISA 9.7.15.1, 9.7.15.7)."""

from __future__ import annotations

from typing import Any

from ptxgym.devices.simulator.checks.observer import Observer

_PATTERN_LINES = {"128B": 8, "64B": 4, "32B": 2, "128B_atom_32B": 8}
"""128-byte lines after which a swizzle repeats (PTX ISA 9.7.15.5.1.2.1)."""


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

    def on_operand(self, x: Any, lanes: Any, lines: Any, descriptor: Any, where: Any, name: str) -> None:
        """The swizzle pattern must start where its addresses repeat, or the base offset must say where."""
        lines_of_pattern = _PATTERN_LINES.get(descriptor.swizzle, 1)
        if descriptor.start >> 7 & (lines_of_pattern - 1) and descriptor.base_offset == 0:
            self.batch.log.warn(
                "descriptor-alignment", where,
                f"operand {name} starts at {descriptor.start:#x}: swizzle {descriptor.swizzle} repeats every "
                f"{128 * lines_of_pattern} bytes, so tiles must be aligned to that (advance K inside a row instead)",
            )  # fmt: skip

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
