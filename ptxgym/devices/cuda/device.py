"""A GPU as a device."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import secrets
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ptxgym.devices.cuda.lock import GpuLock
from ptxgym.devices.cuda.memory import Driver
from ptxgym.devices.cuda.nsight import nsight_command, nsight_files, parse_nsight_log
from ptxgym.devices.cuda.sanitizer import parse_sanitizer_log, sanitizer_command
from ptxgym.devices.cuda.session import CudaSession
from ptxgym.devices.cuda.telemetry import Telemetry
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
from ptxgym.errors import CandidateError, CrowdedError, InfrastructureError, MissingToolError, OutOfMemoryError
from ptxgym.tasks import Shape, Task, Tensors
from ptxgym.toolchain import Program
from ptxgym.toolchain.scratch import scratch_folder

_MOST_CALLS_BEFORE = 3
"""Instructions are counted in a call that comes after one to three others; how many is drawn in secret."""

_TOOL_SECONDS = 15.0
"""For one call under a tool, where honest kernels take one or two seconds."""

_FAIR_SECONDS = 8.0
"""Whoever had the GPU alone for so long at last did not lack time because of others. A call that hangs often had: who
wants to time lets nobody else in, and the others leave."""


class CudaDevice(Device):
    """One NVIDIA GPU.

    Args:
        index: The GPU as torch counts it.
    """

    def __init__(self, index: int) -> None:
        self.torch_device = f"cuda:{index}"
        self._index = index

    @functools.cached_property
    def info(self) -> DeviceInfo:  # type: ignore[override]
        """Name, clocks, bandwidth and cache, by torch and NVML."""
        import torch

        properties = torch.cuda.get_device_properties(self._index)
        return DeviceInfo(
            kind="cuda",
            name=properties.name,
            uuid=self._uuid,
            driver=_driver_version(),
            multiprocessors=properties.multi_processor_count,
            max_clock_mhz=self._telemetry.max_sm_clock_mhz(),
            memory_bandwidth=self._telemetry.memory_bandwidth(),
            l2_bytes=properties.L2_cache_size,
        )

    @functools.cached_property
    def _uuid(self) -> str:
        import torch

        return f"GPU-{torch.cuda.get_device_properties(self._index).uuid}"

    @functools.cached_property
    def _driver(self) -> Driver:
        return Driver(self._index)

    @functools.cached_property
    def _telemetry(self) -> Telemetry:
        return Telemetry(self._uuid)

    @functools.cached_property
    def _lock(self) -> GpuLock:
        return GpuLock(self._uuid)

    def sharing(self) -> AbstractContextManager[object]:
        """See :meth:`ptxgym.devices.device.Device.sharing`."""
        return self._lock.shared()

    def alone(self) -> AbstractContextManager[None]:
        """See :meth:`ptxgym.devices.device.Device.alone`."""
        return self._lock.exclusive()

    @contextmanager
    def _beside_others(self) -> Iterator[None]:
        """Share the GPU, and do not blame a candidate for what others took of it."""
        with self._lock.shared() as stay:
            try:
                yield
            except CandidateError as error:
                lacked_time = error.reason == "timeout" and stay.seconds_alone() < _FAIR_SECONDS
                lacked_memory = isinstance(error, OutOfMemoryError) and stay.disturbed()
                if lacked_time or lacked_memory:
                    raise CrowdedError(error.reason, error.message) from error
                raise

    @contextmanager
    def session(self, program: Program, task: Task) -> Iterator[CudaSession]:
        """See :meth:`ptxgym.devices.device.Device.session`."""
        with self._open(program, task) as session, self._beside_others(), contextlib.closing(session):
            yield session

    def check_memory(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> MemoryReport:
        """Memcheck, with buffers of exact size."""
        with _log_file() as log:
            wrapper, code = sanitizer_command(log), 0
            with (
                self._open(program, task, wrapper=wrapper, private=True, run_seconds=_TOOL_SECONDS) as session,
                self._beside_others(),
            ):
                fault: CandidateError | None = None
                try:
                    session.bind(shape)
                    session.run(inputs)
                except CandidateError as error:
                    fault = error
                finally:
                    code = session.close()
                if session.lingered:
                    raise _lingered()
                report = parse_sanitizer_log(_read(log), code)
                if fault is not None and not report.errors:
                    raise fault
        return report

    def count_instructions(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> InstructionReport:
        """Nsight Compute's predicate-true thread counts per SASS instruction, of one call after a few others.

        The candidate has buffers of its own: the tool saves and restores them between its passes. A process that
        keeps the tool from looking on at the chosen call is counted from its start, where it cannot.
        """
        kernels = self._count(program, task, shape, inputs, before=1 + secrets.randbelow(_MOST_CALLS_BEFORE))
        if not kernels:
            kernels = self._count(program, task, shape, inputs, before=0)
        return InstructionReport(tool="Nsight Compute", dialect="sass", shape=dict(shape), kernels=kernels)

    def _count(
        self, program: Program, task: Task, shape: Shape, inputs: Tensors, before: int
    ) -> tuple[KernelExecution, ...]:
        """The kernels of a call after so many others."""
        with _log_file() as log:
            with (
                self._open(
                    program,
                    task,
                    wrapper=nsight_command(log, from_start=not before),
                    readable=nsight_files(),
                    private=True,
                    run_seconds=_TOOL_SECONDS,
                ) as session,
                self._lock.counting(),  # whoever waits for them is not on the GPU yet, and keeps nobody from timing
                self._beside_others(),
                contextlib.closing(session),
            ):
                session.bind(shape)
                for _ in range(before):
                    session.run(inputs)
                session.run(inputs, profile=bool(before))
                session.close()  # the tool has the counters until it has ended
                if session.lingered:
                    raise _lingered()
            return parse_nsight_log(_read(log))

    def time(
        self, program: Program, task: Task, shape: Shape, draw: InputDraw, check: OutputCheck, regime: Regime
    ) -> TimingReport:
        """CUPTI, alone on the GPU."""
        from ptxgym.devices.cuda.timing import Rounds, wall_calls

        if importlib.util.find_spec("cupti") is None:
            raise MissingToolError("cupti-python", "`pip install 'ptxgym[cuda]'` brings it.")
        import torch

        flush_bytes = 2 * self.info.l2_bytes
        with contextlib.ExitStack() as stack:
            session = stack.enter_context(self._open(program, task, timer=sys.path))
            stack.enter_context(self._lock.turn())
            with self._lock.shared():  # what needs no quiet: others need not wait for it
                session.lend(shape, flush_bytes, wall_calls(task.operator, shape))
                flush = torch.empty(flush_bytes, dtype=torch.uint8, device=self.torch_device)
            # From here on the candidate's code runs, which nobody else's time must feel, nor its end.
            with self._lock.exclusive(), contextlib.closing(session):
                session.load()
                rounds = Rounds(session, task.operator, draw, check, regime, self._telemetry, flush)
                report = rounds.run()
        with self._lock.shared():
            return rounds.look_at_kept(report)

    def probe(self) -> None:
        """See :meth:`ptxgym.devices.device.Device.probe`."""
        import torch

        try:
            with self._lock.shared():
                healthy = torch.ones(8, device=self.torch_device).sum().item() == 8
        except RuntimeError:
            healthy = False
        if not healthy:
            self.absence = (
                f"GPU {self._index} gave no right answer after a candidate's abnormal end; this process does not use "
                "it again. Start a new one; where `nvidia-smi` complains too, the GPU needs a reset."
            )
            raise InfrastructureError(self.absence)

    def _open(
        self,
        program: Program,
        task: Task,
        wrapper: list[str] | None = None,
        readable: list[str] | None = None,
        private: bool = False,
        timer: list[str] | None = None,
        run_seconds: float = 10.0,
    ) -> CudaSession:
        return CudaSession(
            self._driver,
            self._index,
            self._uuid,
            program,
            task,
            wrapper=wrapper,
            readable=readable,
            private=private,
            timer=timer,
            run_seconds=run_seconds,
        )


def _lingered() -> CandidateError:
    return CandidateError(
        "timeout",
        "After its last call the process did not end when it was told to, so that the tool left no report: something "
        "in the library keeps it, such as a thread of its own or a handler at exit.",
    )


@contextmanager
def _log_file() -> Iterator[Path]:
    """A file in a folder that no candidate is told of."""
    with scratch_folder() as folder:
        yield folder / "log"


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


def _driver_version() -> str:
    version = Path("/proc/driver/nvidia/version")
    words = version.read_text().split() if version.exists() else []
    return next((word for word in words if word[:1].isdigit() and "." in word), "")
