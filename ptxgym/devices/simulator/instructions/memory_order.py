"""Fences and other instructions without an effect on a sequential executor (PTX ISA 9.7.13.4).

The checks see fences through :meth:`on_fence`.
"""

from __future__ import annotations

from typing import Any

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.table import Step, effect


@effect("membar fence", isa="9.7.13.4", counter="fence", lenient=True)
def fence(b: Any) -> Step:
    """Order memory accesses."""
    kind = ".".join(b.form.parts)
    where = b.where

    def step(x: Context) -> None:
        for observer in x.batch.watchers("on_fence"):
            observer.on_fence(x, kind, where)

    return step


@effect("nanosleep", "u32", isa="9.7.19.2", counter="hint")
def nanosleep(b: Any) -> Step:
    """Let others go first."""

    def step(x: Context) -> None:
        x.batch.restless = 64

    return step


@effect("griddepcontrol.wait griddepcontrol.launch_dependents pmevent", isa="9.7.13.13, 9.7.19.3", counter="hint",
        lenient=True)  # fmt: skip
def grid_dependency(b: Any) -> Step:
    """Dependent launches: kernels run one after another here, so every dependency is fulfilled."""
    return lambda x: None
