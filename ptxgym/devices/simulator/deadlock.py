"""The report of a deadlock: who waits where, for what, and what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.findings import Finding, Severity
from ptxgym.devices.simulator.scheduler import Waiting


def deadlock_findings(batches: list[Any]) -> list[Finding]:
    """One finding per place where threads of the first stuck batch wait."""
    findings: list[Finding] = []
    for batch in batches[:1]:
        groups: dict[tuple[Any, str], list[Waiting]] = {}
        for waiting in batch.scheduler.waiting.values():
            groups.setdefault((waiting.where, waiting.reason()), []).append(waiting)
        for (where, reason), entries in sorted(groups.items(), key=lambda item: str(item[0])):
            lanes = np.concatenate([entry.lanes.index for entry in entries])
            who = describe_lanes(batch, lanes)
            findings.append(Finding("deadlock", Severity.ERROR, where, f"{who} wait for ever: {reason}"))
            findings += _phase_slips(batch, where, entries)
    return findings


def _phase_slips(batch: Any, where: Any, entries: list[Waiting]) -> list[Finding]:
    """Waiters that may have meant another phase of their mbarrier."""
    phases = batch.extensions.get("phases")
    for entry in entries:
        reason = phases.out_of_step(entry.lanes, entry.barrier) if phases and hasattr(entry.barrier, "phase") else None
        if reason:
            return [
                Finding("phase-slip", Severity.WARNING, where, f"{describe_lanes(batch, entry.lanes.index)} {reason}")
            ]
    return []


def describe_lanes(batch: Any, lanes: Any) -> str:
    """Lanes in CUDA's words, by warp."""
    state = batch.state
    ctas = np.unique(state.cta_of[lanes])
    first = lanes[state.cta_of[lanes] == ctas[0]]
    warps = np.unique(state.thread_of[first] // 32)
    block = tuple(int(state.specials[f"%ctaid.{axis}"][first[0]]) for axis in "xyz")
    others = f" (and {len(ctas) - 1} more blocks)" if len(ctas) > 1 else ""
    names = ", ".join(_runs(warps.tolist()))
    plural = "s" if len(first) > 1 else ""
    return f"{len(first)} thread{plural} of block {block}{others}, warp {names},"


def _runs(values: list[int]) -> list[str]:
    """Consecutive numbers as ranges."""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][1] == value - 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return [str(a) if a == b else f"{a}-{b}" for a, b in runs]
