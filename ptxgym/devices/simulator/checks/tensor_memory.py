"""Rules of tensor memory that only the end of a CTA shows (PTX ISA 9.7.16.7)."""

from __future__ import annotations

from typing import Any

from ptxgym.devices.simulator.barriers import cta_groups
from ptxgym.devices.simulator.checks.observer import Observer
from ptxgym.devices.simulator.findings import SourceLine


class TensorMemoryRules(Observer):
    """All columns must be given back before the CTA ends."""

    def on_exit(self, batch: Any, lanes: Any) -> None:
        """The last thread of a CTA may not leave columns behind."""
        table = batch.extensions.get("tensor_memory")
        if not table:
            return
        stride = batch.state.geometry.stride
        for cta, _ in cta_groups(batch, lanes):
            memory = table.get(cta)
            if memory is not None and memory.owner.any() and batch.exited[cta * stride : (cta + 1) * stride].all():
                columns = int((memory.owner != 0).sum())
                batch.log.warn(
                    "tmem-leak",
                    SourceLine(),
                    f"block {batch.state.ctas[cta]} exits with {columns} columns of "
                    "tensor memory allocated; tcgen05.dealloc is mandatory",
                )
