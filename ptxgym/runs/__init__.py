"""Runs: policies over instances, many trajectories at once, every turn on disk.

The records are in :mod:`ptxgym.runs.records`, and everything that reads results reads those. Names are loaded at their
first use, so that the command line starts without the evaluation.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxgym.runs.records import (
        Message,
        RunRecord,
        StopRecord,
        Timing,
        TrajectoryKey,
        TurnRecord,
        Usage,
        read_run,
        read_stops,
        read_turns,
    )

__all__ = [
    "Message",
    "RunRecord",
    "StopRecord",
    "Timing",
    "TrajectoryKey",
    "TurnRecord",
    "Usage",
    "read_run",
    "read_stops",
    "read_turns",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("ptxgym.runs.records"), name)
    raise AttributeError(f"module 'ptxgym.runs' has no attribute {name!r}")
