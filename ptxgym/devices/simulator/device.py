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
from ptxgym.tasks import Architecture, Shape, Task, Tensors
from ptxgym.toolchain import Program

_TOOL = "ptxgym simulator"
_MOST_REPORTS = 20


class SimulatedExecution(KernelExecution):
    """A simulated launch: PTX instructions where a GPU's tool counts machine instructions, and more."""

    tensor_flops: dict[str, int]
    """By instruction family and input type, e.g. ``wgmma/bf16``; a multiply-add counts two."""
    bytes: dict[str, int]
    """Bytes moved, e.g. by ``global.read`` or ``tma.load``."""


class SimulatorDevice(Device):
    """A simulated GPU.

    Args:
        architecture: Of the GPU.
        run_seconds: How long one call of ``run`` may take.
    """

    torch_device = "cpu"
    runs_workload = False
    gives_times = False

    def __init__(self, architecture: Architecture, run_seconds: float = 120.0) -> None:
        gpu = GPUS[architecture.target]
        self._run_seconds = run_seconds
        self.info = DeviceInfo(kind="simulator", name=gpu.name, multiprocessors=gpu.processors)

    def session(self, program: Program, task: Task) -> SimulatorSession:
        """Start a candidate's process and, beside it, the process that simulates."""
        return SimulatorSession(program, task, self._run_seconds)

    def check_memory(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> MemoryReport:
        """Run once; the findings of severity *error* are the errors.

        Raises:
            CandidateError: It ended early without a finding that says why: ``run`` refused the shape, or the time was
                used up.
            InfrastructureError: The simulator lacks what the kernel uses.
        """
        evidence, fault = self._run(program, task, shape, inputs)
        findings = [finding for launch in evidence["launches"] for finding in launch["findings"]]
        errors = [finding for finding in findings if finding["severity"] == "error"]
        if fault is not None and (not errors or fault.reason == "timeout"):
            raise fault
        return MemoryReport(
            tool=_TOOL,
            errors=len(errors),
            reports=tuple(str(finding["text"]) for finding in [*errors, *_others(findings)][:_MOST_REPORTS]),
            complete=fault is None and not evidence["limits"] and not evidence["timeouts"],
        )

    def count_instructions(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> InstructionReport:
        """Run once and count: every PTX instruction by thread executions with a true predicate."""
        evidence, fault = self._run(program, task, shape, inputs)
        if fault is not None:
            raise fault
        kernels = tuple(
            SimulatedExecution(
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


def _others(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [finding for finding in findings if finding["severity"] != "error"]
