"""The register pool of a CTA (PTX ISA 9.7.19.5): ``setmaxnreg.inc`` waits for registers that others give back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.checks.observer import Observer

POOL = 65536
"""Registers of a multiprocessor, all of them given to one CTA at most."""


class RegisterRules(Observer):
    """Once every warp of a CTA has asked, what they hold must fit the pool."""

    def __init__(self, batch: Any) -> None:
        super().__init__(batch)
        self._counts = np.zeros(batch.state.lanes // 32, np.int64)

    def on_registers(self, x: Any, count: int, where: Any) -> None:
        """Warps change what they hold."""
        warps = np.unique(x.lanes.index // 32)
        self._counts[warps] = count
        held = self._counts.reshape(self.batch.state.count, -1)
        total = np.where((held > 0).all(axis=1), held.sum(axis=1) * 32, 0)
        if (total > POOL).any():
            self.batch.log.warn(
                "setmaxnreg-pool",
                where,
                f"the CTA's warps ask for {int(total.max())} registers together, of "
                f"{POOL}; the last setmaxnreg.inc would wait for ever",
            )
