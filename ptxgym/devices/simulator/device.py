"""The embedded simulator as a device: it runs the same Program as a GPU, on probe shapes, and says what was wrong.

Not promised: a time, which it never gives, or a workload's shape, which would take hours.
"""

from __future__ import annotations

import functools
import secrets
from math import prod
from typing import Any

from ptxgym.devices.device import (
    Device,
    DeviceInfo,
    InputDraw,
    InstructionReport,
    KernelExecution,
    MemoryReport,
    OutputCheck,
    Regime,
    TimingReport,
)
from ptxgym.devices.simulator.runtime.gpu import GPUS
from ptxgym.devices.simulator.runtime.session import SimulatorSession
from ptxgym.errors import CandidateError, InfrastructureError
from ptxgym.tasks import Architecture, Shape, Task, Tensors, format_shape
from ptxgym.toolchain import Program

_TOOL = "ptxgym simulator"
_MOST_REPORTS = 20


_KEPT_RUNS = 32
"""Pairs of program and shape whose counts are kept for the next stage."""

_KEPT_CALLS = 8


class SimulatorDevice(Device):
    """A simulated GPU.

    Args:
        architecture: Of the GPU.
        run_seconds: Processor time that the simulator may spend on one call of ``run``.
    """

    torch_device = "cpu"
    runs_workload = False
    gives_times = False

    def __init__(self, architecture: Architecture, run_seconds: float = 30.0) -> None:
        gpu = GPUS[architecture.target]
        self._run_seconds = run_seconds
        self._calls: dict[tuple[str, str], list[tuple[KernelExecution, ...]]] = {}
        self.info = DeviceInfo(kind="simulator", name=gpu.name, multiprocessors=gpu.processors)

    def session(self, program: Program, task: Task) -> SimulatorSession:
        """Start a candidate's process and, beside it, the process that simulates.

        Races and other broken contracts are looked for by :meth:`check_memory` alone; faults are found here too.
        """
        keep = functools.partial(self._keep, program)
        return SimulatorSession(program, task, self._run_seconds, keep, checks=False)

    def check_memory(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> MemoryReport:
        """Run once; the findings of severity *error* are the errors.

        Raises:
            CandidateError: It ended early without a finding that says why, e.g. ``run`` refused the shape; or it would
                never have ended: the time was used up, or threads wait for each other.
            InfrastructureError: The simulator lacks what the kernel uses.
        """
        evidence, fault = self._run(program, task, shape, inputs)
        findings = [finding for launch in evidence["launches"] for finding in launch["findings"]]
        errors = [finding for finding in findings if finding["severity"] == "error"]
        deadlock = next((finding for finding in errors if finding["code"] == "deadlock"), None)
        if deadlock is not None:
            raise CandidateError("timeout", str(deadlock["text"]))
        if fault is not None and (not errors or fault.reason == "timeout"):
            raise fault
        return MemoryReport(
            tool=_TOOL,
            errors=len(errors),
            reports=tuple(str(finding["text"]) for finding in [*errors, *_others(findings)][:_MOST_REPORTS]),
            complete=fault is None and not evidence["limits"] and not evidence["timeouts"],
        )

    def count_instructions(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> InstructionReport:
        """Count every PTX instruction by thread executions with a true predicate, in a call after others.

        Where the correctness stage has just run this shape, one of its calls is taken, drawn in secret.
        """
        calls = self._calls.pop(_run_key(program, shape), [])
        if not calls:
            with self.session(program, task) as session:
                session.bind(shape)
                for _ in range(2):
                    session.run(inputs)
            calls = self._calls.pop(_run_key(program, shape))
        return InstructionReport(tool=_TOOL, dialect="ptx", shape=dict(shape), kernels=secrets.choice(calls))

    def time(
        self, program: Program, task: Task, shape: Shape, draw: InputDraw, check: OutputCheck, regime: Regime
    ) -> TimingReport:
        """Raise InfrastructureError: a simulator measures no time."""
        raise InfrastructureError("The simulator gives no times; a GPU of the task's architecture does.")

    def _keep(self, program: Program, shape: Shape, call: int, evidence: dict[str, Any]) -> None:
        """Keep the counts of a call that was not the first of its process, which may be another than the rest."""
        if not call:
            return
        key = _run_key(program, shape)
        self._calls[key] = [*self._calls.pop(key, []), _executions(evidence)][-_KEPT_CALLS:]
        for old in list(self._calls)[:-_KEPT_RUNS]:
            self._calls.pop(old, None)

    def _run(
        self, program: Program, task: Task, shape: Shape, inputs: Tensors
    ) -> tuple[dict[str, Any], CandidateError | None]:
        """The evidence of one run, and how the candidate failed."""
        with SimulatorSession(program, task, self._run_seconds) as session:
            try:
                session.bind(shape)
                session.run(inputs)
            except CandidateError as error:
                if not session.evidence:  # it failed before anything could run
                    raise
                return session.evidence, error
            return session.evidence, None


def _run_key(program: Program, shape: Shape) -> tuple[str, str]:
    return program.key, format_shape(shape)


def _executions(evidence: dict[str, Any]) -> tuple[KernelExecution, ...]:
    return tuple(
        KernelExecution(
            name=launch["name"],
            warps=launch["launches"] * prod(launch["grid"]) * -(-prod(launch["block"]) // 32),
            threads=launch["executed"],
            tensor_flops=launch["tensor_flops"],
            bytes=launch["bytes"],
        )
        for launch in evidence["launches"]
    )


def _others(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [finding for finding in findings if finding["severity"] != "error"]
