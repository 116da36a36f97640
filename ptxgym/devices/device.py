"""Where a program runs. A device gives evidence; :mod:`ptxgym.evaluation` decides what it means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Literal, Self

from pydantic import Field

from ptxgym.tasks import Architecture, Shape, Task, Tensors
from ptxgym.toolchain import Program, Record

InputDraw = Callable[[], Tensors]
"""Draws normal inputs of the timed shape that nobody has seen, in about a millisecond."""

OutputCheck = Callable[[Tensors, Tensors], bool]
"""Whether outputs are right for inputs; both may be some of the operator's independent blocks alone."""

Regime = Literal["hot", "cool"]
"""``hot``: under load, rounds back to back. ``cool``: idle before every timed call, so that clocks are up."""


class DeviceInfo(Record):
    """What a device is, as it stands in every result."""

    kind: Literal["cuda", "simulator", "none"]
    name: str
    """E.g. ``NVIDIA H200``."""
    uuid: str = ""
    driver: str = ""
    multiprocessors: int = 0
    max_clock_mhz: int = 0
    """The highest clock of the multiprocessors, 0 when unknown."""
    memory_bandwidth: float = 0.0
    """Bytes per second by memory clock and bus width, 0 when unknown."""
    l2_bytes: int = 0

    def roofline_seconds(self, architecture: Architecture, flops: int, moved_bytes: int) -> float:
        """The time that no kernel can beat: FLOPs at the tensor cores' dense bf16 rate, or bytes at full bandwidth.

        0 when the device's rates are unknown.
        """
        rate = architecture.tensor_flops_per_clock * self.multiprocessors * self.max_clock_mhz * 1e6
        compute = flops / rate if rate else 0.0
        memory = moved_bytes / self.memory_bandwidth if self.memory_bandwidth else 0.0
        return max(compute, memory)


class RunRecord(Record):
    """One call of ``run``, seen from outside."""

    mutated_inputs: tuple[str, ...]
    """Inputs whose bytes changed."""
    overrun_outputs: tuple[str, ...]
    """Buffers behind whose end something was written."""


class MemoryReport(Record):
    """What a memory checker found."""

    tool: str
    """E.g. ``compute-sanitizer memcheck 2025.3``."""
    errors: int
    reports: tuple[str, ...]
    """The first reports, in the tool's words."""
    complete: bool
    """Whether the tool says that it saw the whole run."""


class KernelExecution(Record):
    """One kernel launch, counted by instruction."""

    name: str
    """The mangled name."""
    warps: int = 0
    """How many warps were launched, 0 where the tool does not tell."""
    threads: dict[str, int]
    """Full opcode to predicate-true thread executions."""
    tensor_flops: dict[str, int] = Field(default_factory=dict)
    """By instruction and input type, e.g. ``wgmma/bf16``, where the tool tells; a multiply-add counts two."""
    bytes: dict[str, int] = Field(default_factory=dict)
    """Bytes moved, e.g. by ``global.read`` or ``tma.load``, where the tool tells."""


class InstructionReport(Record):
    """Every kernel of one call of ``run``, which was not the first of its process."""

    tool: str
    """E.g. ``Nsight Compute 2025.3``."""
    dialect: Literal["sass", "ptx"]
    """What the opcodes are."""
    shape: dict[str, int]
    kernels: tuple[KernelExecution, ...]


class KernelLaunch(Record):
    """Launches of one kernel in one timed call, as the candidate's process reports them."""

    name: str
    """The mangled name."""
    warps: int
    """How many warps each had, 0 where the timer does not tell."""
    count: int = 1


class TimedRound(Record):
    """One round: both implementations once, in random order, on the same inputs."""

    candidate: float
    """Seconds of device time, first start to last end of everything the candidate launched."""
    reference: float
    sm_clock_mhz: int
    """Read after the two in some rounds, 0 in the others."""
    correct: bool | None
    """Whether the candidate's outputs were right for this round's inputs; None where they were not looked at."""


class TimingReport(Record):
    """The timed rounds, and everything needed to judge them."""

    timer: str
    """E.g. ``CUPTI``."""
    regime: Regime
    rounds: tuple[TimedRound, ...]
    """In order, without the warm-up."""
    warmup: int
    """How many rounds came before."""
    warmup_correct: bool
    """Whether every warm-up round that was looked at was right."""
    reference: str
    reference_version: str
    reference_kernels: tuple[str, ...]
    candidate_kernels: tuple[str, ...]
    """Names of the kernels the candidate launched in a timed call, mangled."""
    candidate_calls: tuple[tuple[KernelLaunch, ...], ...] = ()
    """What the timed calls launched: each different list once."""
    wall_seconds_per_call: float
    """By the judge's own clock, over calls back to back of which each was seen to be done; a candidate can make it
    longer, never shorter."""
    wall_calls: int = 1
    """Over how many."""
    wall_correct: bool = True
    """Whether all of their outputs were right."""
    reference_wall_seconds_per_call: float = 0.0
    """The library's in the same way, after the candidate's process had ended; 0 when it was not measured."""
    throttle_reasons: tuple[str, ...]
    power_limit_watts: float
    temperature_celsius: float


class Session(ABC):
    """One candidate process with buffers for one shape at a time. A context manager."""

    confinement: tuple[str, ...] = ()
    """What the process is confined by."""

    @abstractmethod
    def bind(self, shape: Shape) -> None:
        """Have buffers for this shape."""

    @abstractmethod
    def run(self, inputs: Tensors) -> tuple[Tensors, RunRecord]:
        """Give these inputs and poisoned outputs to ``run``, call it once, and read the outputs.

        Returns:
            Copies of the outputs as they were when the call had returned, on the judge's device, and what else was
            seen.

        Raises:
            CandidateError: The candidate's own doing; ``refused`` when ``run`` returned an error for this shape.
            InfrastructureError: Not the candidate's.
        """

    @abstractmethod
    def close(self) -> int:
        """End the process and free the buffers; returns the process's exit code."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Device(ABC):
    """Somewhere that programs run.

    Every method may raise :class:`~ptxgym.errors.CandidateError` (the candidate's doing) or
    :class:`~ptxgym.errors.InfrastructureError` (this machine's: the stage is *unknown*).
    """

    info: DeviceInfo
    torch_device: str
    """Where the judge's tensors live."""
    absence: str = ""
    """Why nothing can be run, empty where it can."""
    runs_workload: bool = True
    """Whether the workload's shape is feasible; the simulator runs probes only."""
    gives_times: bool = True
    """Whether timing is possible at all; where it is not, the stage is skipped rather than unknown."""

    def sharing(self) -> AbstractContextManager[object]:
        """Where the judge computes on the device outside a session, so that no timing runs meanwhile.

        Never entered within a session or another ``sharing``.
        """
        return nullcontext()

    def probe(self) -> None:
        """See after an abnormal end whether the device still works; one that does not is not used again.

        Raises:
            InfrastructureError: It does not; the message says what to do.
        """
        return  # a device that is made anew for every run cannot be spoilt

    def alone(self) -> AbstractContextManager[None]:
        """Where this thread has the device to itself; sessions and ``sharing`` may be entered within."""
        return nullcontext()

    @abstractmethod
    def session(self, program: Program, task: Task) -> AbstractContextManager[Session]:
        """Start a process for a candidate; within the context nothing is timed."""

    @abstractmethod
    def check_memory(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> MemoryReport:
        """Run once under a memory checker."""

    @abstractmethod
    def count_instructions(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> InstructionReport:
        """Run once under an instruction counter."""

    @abstractmethod
    def time(
        self, program: Program, task: Task, shape: Shape, draw: InputDraw, check: OutputCheck, regime: Regime
    ) -> TimingReport:
        """Time the candidate against the library, interleaved, with other inputs in every round."""
