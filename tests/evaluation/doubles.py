"""A device whose "programs" are Python functions on the CPU, to drive the stages through every outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from ptxgym.devices import (
    Device,
    DeviceInfo,
    InputDraw,
    InstructionReport,
    KernelExecution,
    KernelLaunch,
    MemoryReport,
    OutputCheck,
    Regime,
    RunRecord,
    Session,
    TimedRound,
    TimingReport,
)
from ptxgym.errors import CandidateError, CrowdedError, OutOfMemoryError
from ptxgym.tasks import Operator, Shape, Task, Tensors
from ptxgym.toolchain import Program

Answer = Callable[[Tensors], Tensors]
KERNEL = "_Z6kernelv"


def right(operator: Operator) -> Answer:
    """The reference, rounded as an honest kernel rounds it."""

    def answer(inputs: Tensors) -> Tensors:
        outputs = operator.reference(inputs)
        return {name: tensor.to(getattr(torch, operator.parameter(name).dtype)) for name, tensor in outputs.items()}

    return answer


class ScriptedDevice(Device):
    """Every piece of evidence is an attribute that a test may change."""

    torch_device = "cpu"

    def __init__(self, task: Task, answer: Answer | None = None) -> None:
        self.info = DeviceInfo(kind="cuda", name="scripted", multiprocessors=132, max_clock_mhz=1980)
        self.task = task
        self.answer = answer or right(task.operator)
        self.refuses: Callable[[Shape], bool] = lambda shape: False
        self.lacks_memory: set[str] = set()
        """Stages in which others have the memory, until the device is had alone."""
        self.mutates = False
        self.memory_errors = 0
        self.memory_complete = True
        flops = task.operator.flops(task.workload)
        self.threads = {"HGMMA.64x256x16.F32.BF16": flops // 4096, "UTMALDG.2D": 100, "FFMA": 5}
        self.kernel = KERNEL
        self.candidate_seconds, self.library_seconds = 0.8e-3, 0.76e-3
        self.wall_seconds = 0.8e-3
        self.wall_correct = True
        self.launches: tuple[KernelLaunch, ...] = (KernelLaunch(name=KERNEL, warps=528),)
        self.fault: Exception | None = None
        self.calls: list[str] = []
        self.shared = False

    @contextmanager
    def sharing(self) -> Iterator[None]:
        assert not self.shared, "entered twice: a waiting writer would never be let in"
        self.shared = True
        try:
            yield
        finally:
            self.shared = False

    @contextmanager
    def session(self, program: Program, task: Task) -> Iterator[Session]:
        self._called("session")
        try:
            with self.sharing(), _ScriptedSession(self) as session:
                yield session
        except OutOfMemoryError as error:
            raise CrowdedError(error.reason, error.message) from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        self.calls.append("alone")
        self.lacks_memory.clear()
        yield

    def check_memory(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> MemoryReport:
        self._called("memory")
        if "memory" in self.lacks_memory:
            raise CrowdedError("refused", "run returned cudaErrorMemoryAllocation")
        if self.refuses(shape):
            raise CandidateError("refused", "run returned cudaErrorInvalidValue")
        reports = ("Invalid __global__ write of size 2 bytes",) * bool(self.memory_errors)
        return MemoryReport(tool="memcheck", errors=self.memory_errors, reports=reports, complete=self.memory_complete)

    def count_instructions(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> InstructionReport:
        self._called("instructions")
        kernel = KernelExecution(name=self.kernel, warps=528, threads=self.threads)
        return InstructionReport(tool="counter", dialect="sass", shape=dict(shape), kernels=(kernel,))

    def time(
        self, program: Program, task: Task, shape: Shape, draw: InputDraw, check: OutputCheck, regime: Regime
    ) -> TimingReport:
        self._called("timing")
        rounds = []
        for number in range(50):
            correct = None
            if number % 25 == 7:
                inputs = draw()
                correct = check(inputs, self.answer(inputs))
            rounds.append(
                TimedRound(
                    candidate=self.candidate_seconds * (1 + 0.001 * (number % 5)),
                    reference=self.library_seconds,
                    sm_clock_mhz=1980,
                    correct=correct,
                )
            )
        return TimingReport(
            timer="CUPTI",
            regime=regime,
            rounds=tuple(rounds),
            warmup=10,
            warmup_correct=True,
            reference="cuBLAS",
            reference_version="0",
            reference_kernels=("nvjet",),
            candidate_kernels=tuple(launch.name for launch in self.launches),
            candidate_calls=(self.launches,),
            wall_seconds_per_call=self.wall_seconds,
            wall_calls=8,
            wall_correct=self.wall_correct,
            reference_wall_seconds_per_call=self.library_seconds,
            throttle_reasons=(),
            power_limit_watts=700,
            temperature_celsius=50,
        )

    def _called(self, stage: str) -> None:
        assert not self.shared, "a device takes its lock itself"
        self.calls.append(stage)
        if self.fault is not None:
            raise self.fault


class _ScriptedSession(Session):
    def __init__(self, device: ScriptedDevice) -> None:
        self._device = device
        self._shape: Shape = {}
        self._lent: list[torch.Tensor] = []

    def bind(self, shape: Shape) -> None:
        self._shape = shape

    def run(self, inputs: Tensors) -> tuple[Tensors, RunRecord]:
        if self._device.refuses(self._shape):
            raise CandidateError("refused", "run returned cudaErrorInvalidValue")
        if "correctness" in self._device.lacks_memory:
            raise OutOfMemoryError("refused", "run returned cudaErrorMemoryAllocation")
        mutated = ("A",) if self._device.mutates else ()
        outputs = self._device.answer(inputs)
        self._lent += outputs.values()
        return outputs, RunRecord(mutated_inputs=mutated, overrun_outputs=())

    def close(self) -> int:
        for tensor in self._lent:  # whoever compares now has left those who may use the device
            tensor.fill_(float("nan"))
        return 0
