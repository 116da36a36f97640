"""Register reallocation (PTX ISA 9.7.19.5)."""

from __future__ import annotations

from typing import Any

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.table import Step, effect


@effect("setmaxnreg.inc setmaxnreg.dec", "u32", isa="9.7.19.5", counter="registers")
def setmaxnreg(b: Any) -> Step:
    """Give registers back to the CTA's pool, or take some."""
    count, where = b.constant(b.operands[0]), b.where

    def step(x: Context) -> None:
        if count % 8 or not 24 <= count <= 256:
            raise x.fault("setmaxnreg", where, f"setmaxnreg {count}: not a multiple of 8 between 24 and 256")
        for observer in x.batch.watchers("on_registers"):
            observer.on_registers(x, count, where)

    return step
