"""The embedded simulator as a device: it runs the same Program as a GPU, on probe shapes, and says what was wrong.

Not promised: a time, which it never gives, or a workload's shape, which would take hours.
"""

from __future__ import annotations

from typing import Any

from ptxgym.devices.device import (
    Device,
    DeviceInfo,
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
"""Runs whose evidence is kept for the next stage."""


class SimulatorDevice(Device):
    """A simulated GPU.

    Args:
        architecture: Of the GPU.
        run_seconds: How long one call of ``run`` may take.
    """

    torch_device = "cpu"
    runs_workload = False
    gives_times = False

    def __init__(self, architecture: Architecture, run_seconds: float = 30.0) -> None:
        gpu = GPUS[architecture.target]
        self._run_seconds = run_seconds
        self._runs: dict[tuple[str, str], dict[str, Any]] = {}
        self.info = DeviceInfo(kind="simulator", name=gpu.name, multiprocessors=gpu.processors)

    def session(self, program: Program, task: Task) -> SimulatorSession:
        """Start a candidate's process and, beside it, the process that simulates."""
        return SimulatorSession(program, task, self._run_seconds)

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
        self._keep(program, shape, evidence)
        return MemoryReport(
            tool=_TOOL,
            errors=len(errors),
            reports=tuple(str(finding["text"]) for finding in [*errors, *_others(findings)][:_MOST_REPORTS]),
            complete=fault is None and not evidence["limits"] and not evidence["timeouts"],
        )

    def count_instructions(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> InstructionReport:
        """Count every PTX instruction by thread executions with a true predicate.

        A run gives every kind of evidence: where the memory check has just run this shape, its counts are taken.
        """
        evidence = self._runs.pop(_run_key(program, shape), None)
        if evidence is None:
            evidence, fault = self._run(program, task, shape, inputs)
            if fault is not None:
                raise fault
        kernels = tuple(
            KernelExecution(
                name=launch["name"],
                threads=launch["executed"],
                tensor_flops=launch["tensor_flops"],
                bytes=launch["bytes"],
            )
            for launch in evidence["launches"]
        )
        return InstructionReport(tool=_TOOL, dialect="ptx", shape=dict(shape), kernels=kernels)

    def time(
        self, program: Program, task: Task, shape: Shape, inputs: Tensors, check: OutputCheck, regime: Regime
    ) -> TimingReport:
        """Raise InfrastructureError: a simulator measures no time."""
        raise InfrastructureError("The simulator gives no times; a GPU of the task's architecture does.")

    def _keep(self, program: Program, shape: Shape, evidence: dict[str, Any]) -> None:
        self._runs[_run_key(program, shape)] = evidence
        for key in list(self._runs)[:-_KEPT_RUNS]:
            self._runs.pop(key, None)

    def _run(
        self, program: Program, task: Task, shape: Shape, inputs: Tensors
    ) -> tuple[dict[str, Any], CandidateError | None]:
        """The evidence of one run, and how the candidate failed."""
        with self.session(program, task) as session:
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


def _others(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [finding for finding in findings if finding["severity"] != "error"]
