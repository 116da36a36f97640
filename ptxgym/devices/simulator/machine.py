"""The executor's front: a machine that launches kernels and reports what they did."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ptxgym.devices.simulator.checks import default_checks
from ptxgym.devices.simulator.findings import (
    DeviceFault,
    Finding,
    LimitReached,
    Severity,
    SourceLine,
    UnknownInstruction,
)
from ptxgym.devices.simulator.launch import Deadlock, Launch, LaunchConfig, Limits
from ptxgym.devices.simulator.memory import MODULE_WINDOW, GlobalMemory
from ptxgym.devices.simulator.module import Image, Module

_LOG = logging.getLogger(__name__)

ErrorKind = Literal["fault", "deadlock", "timeout", "unknown_instruction"]

CALL_ROOM = 4096
"""Bytes of local memory per thread for call frames beyond what the kernel itself declares."""


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """What a launch did."""

    executed: dict[str, int]
    """Full opcode as in the PTX to thread executions with a true predicate."""
    tensor_flops: dict[tuple[str, str], int]
    """(instruction family, input type) to floating-point (or integer) operations, two per multiply-add."""
    bytes: dict[str, int]
    """Bytes moved: ``global.read``, ``global.write``, ``shared.read``, ``shared.write``, ``tma.load`` and so on."""
    findings: tuple[Finding, ...]
    """Broken contracts, in the order in which they were seen."""
    error: ErrorKind | None
    """Why the launch ended early."""
    printf: str
    """What the kernel printed."""


class Machine:
    """An architecture with a memory.

    Args:
        memory: The device's allocations.
        architecture: ``"90a"`` or ``"100a"``.
        checks: False executes without the checks that cost time (races, uninitialised memory).
    """

    def __init__(self, memory: GlobalMemory, architecture: str, *, checks: bool = True) -> None:
        self.memory = memory
        self.architecture = architecture
        self._checks = default_checks() if checks else ()

    def launch(
        self, module: Module, kernel_name: str, config: LaunchConfig, limits: Limits | None = None
    ) -> LaunchReport:
        """Execute a kernel to its end, or until it breaks a rule or a limit.

        Faults, deadlocks, limits and unknown instructions are reported, never raised.

        Raises:
            KeyError: The module has no such kernel.
            PtxSyntaxError: The kernel names something undeclared.
        """
        kernel = module.kernels[kernel_name]
        if kernel.cluster is not None and config.cluster == (1, 1, 1):
            config = replace(config, cluster=kernel.cluster)
        try:
            image = module.image(kernel_name, self.architecture)
        except UnknownInstruction as unknown:
            return _unknown(unknown)
        module.place(self.memory, self._free_address())
        symbols = {v.name: v.address for v in module.globals.values() if v.address is not None}
        limits = _with_local(limits or Limits(), image)
        launch = Launch(self.memory, image, config, limits, symbols, self._checks)
        return _run(launch)

    def _free_address(self) -> int:
        inside = [a.end for a in self.memory.allocations() if MODULE_WINDOW <= a.address < MODULE_WINDOW + (1 << 40)]
        return max(inside, default=MODULE_WINDOW) + 4096


def _with_local(limits: Limits, image: Image) -> Limits:
    if limits.local_bytes_per_thread:
        return limits
    has_calls = any(f.defined and not f.is_entry for f in image.functions.values())
    return replace(limits, local_bytes_per_thread=image.entry.local_bytes + (CALL_ROOM if has_calls else 0))


def _run(launch: Launch) -> LaunchReport:
    error: ErrorKind | None = None
    try:
        with np.errstate(all="ignore"):
            launch.run()
    except DeviceFault as fault:
        launch.log.conclude(fault.finding)
        error = "fault"
    except Deadlock:
        error = "deadlock"
    except LimitReached as limit:
        launch.log.conclude(limit.finding)
        error = "timeout"
    except UnknownInstruction as unknown:
        launch.log.conclude(_finding(unknown))
        error = "unknown_instruction"
    except MemoryError:
        launch.log.conclude(Finding("memory-limit", Severity.ERROR, SourceLine(), "the simulator ran out of memory"))
        error = "timeout"
    except Exception as bug:
        # A defect of the simulator must not become a verdict on the kernel, nor end the caller.
        _LOG.exception("the executor failed in %s", launch.image.entry.name)
        what = f"{type(bug).__name__}: {bug}"
        message = f"unknown: the simulator itself failed ({what}); this is not counted against the kernel"
        launch.log.conclude(Finding("simulator-error", Severity.WARNING, SourceLine(), message))
        error = "unknown_instruction"
    return LaunchReport(
        executed=_executed(launch),
        tensor_flops=dict(launch.tensor_flops),
        bytes=dict(launch.bytes),
        findings=launch.log.as_tuple(),
        error=error,
        printf="".join(launch.output),
    )


def _executed(launch: Launch) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for program in launch.image.programs():
        for start, lanes in launch.block_counts[program.name].items():
            for instruction in program.block(start).instructions:
                if not instruction.predicated:
                    counts[instruction.opcode] += lanes
        for instruction in program.instructions:
            extra = launch.predicated.get(instruction.number, 0) + launch.partial_counts.get(instruction.number, 0)
            if extra:
                counts[instruction.opcode] += extra
    return dict(counts)


def _finding(unknown: UnknownInstruction) -> Finding:
    return Finding("unknown-instruction", Severity.WARNING, unknown.where, str(unknown))


def _unknown(unknown: UnknownInstruction) -> LaunchReport:
    return LaunchReport({}, {}, {}, (_finding(unknown),), "unknown_instruction", "")


__all__ = ["Finding", "LaunchConfig", "LaunchReport", "Limits", "Machine", "SourceLine"]
