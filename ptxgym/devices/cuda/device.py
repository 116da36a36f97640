"""A GPU as a device."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import shutil
import sys
import tempfile
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
    InstructionReport,
    MemoryReport,
    OutputCheck,
    Regime,
    TimingReport,
)
from ptxgym.errors import CandidateError, MissingToolError
from ptxgym.tasks import Shape, Task, Tensors
from ptxgym.toolchain import Program

_TOOL_SECONDS = 15.0
"""For one call under a tool, where honest kernels take one or two seconds."""


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

    def sharing(self) -> AbstractContextManager[None]:
        """See :meth:`ptxgym.devices.device.Device.sharing`."""
        return self._lock.shared()

    @contextmanager
    def session(self, program: Program, task: Task) -> Iterator[CudaSession]:
        """See :meth:`ptxgym.devices.device.Device.session`."""
        with self._lock.shared(), self._open(program, task) as session:
            yield session

    def check_memory(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> MemoryReport:
        """Memcheck, with buffers of exact size."""
        with _log_file() as log:
            wrapper, code = sanitizer_command(log), 0
            with self._lock.shared():
                session = self._open(program, task, wrapper=wrapper, private=True, run_seconds=_TOOL_SECONDS)
                fault: CandidateError | None = None
                try:
                    session.bind(shape)
                    session.run(inputs)
                except CandidateError as error:
                    fault = error
                finally:
                    code = session.close()
            report = parse_sanitizer_log(_read(log), code)
        if fault is not None and not report.errors:
            raise fault
        return report

    def count_instructions(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> InstructionReport:
        """Nsight Compute's predicate-true thread counts per SASS instruction.

        The candidate has buffers of its own: the tool saves and restores them between its passes.
        """
        with _log_file() as log:
            with (
                self._lock.shared(),
                self._open(
                    program,
                    task,
                    wrapper=nsight_command(log),
                    readable=nsight_files(),
                    private=True,
                    run_seconds=_TOOL_SECONDS,
                ) as session,
                self._lock.counting(),
            ):
                session.bind(shape)
                session.run(inputs)
                session.close()  # the tool has the counters until it has ended
            kernels = parse_nsight_log(_read(log))
        return InstructionReport(tool="Nsight Compute", dialect="sass", shape=dict(shape), kernels=kernels)

    def time(
        self, program: Program, task: Task, shape: Shape, inputs: Tensors, check: OutputCheck, regime: Regime
    ) -> TimingReport:
        """CUPTI, alone on the GPU."""
        from ptxgym.devices.cuda.timing import Rounds

        if importlib.util.find_spec("cupti") is None:
            raise MissingToolError("cupti-python", "`pip install 'ptxgym[cuda]'` brings it.")
        import torch

        flush_bytes = 2 * self.info.l2_bytes
        with contextlib.ExitStack() as stack:
            with self._lock.shared():  # what needs no quiet: others need not wait for it
                session = stack.enter_context(self._open(program, task, timer=sys.path))
                session.bind(shape, flush_bytes)
                flush = torch.empty(flush_bytes, dtype=torch.uint8, device=self.torch_device)
            with self._lock.exclusive():
                return Rounds(session, task.operator, inputs, check, regime, self._telemetry, flush).run()

    def healthy(self) -> bool:
        """Whether the judge's own context still works."""
        import torch

        try:
            return bool(torch.ones(8, device=self.torch_device).sum().item() == 8)
        except RuntimeError:
            return False

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


@contextmanager
def _log_file() -> Iterator[Path]:
    """A file in a folder that no candidate is told of."""
    folder = Path(tempfile.mkdtemp(prefix="ptxgym-judge-"))
    try:
        yield folder / "log"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


def _driver_version() -> str:
    version = Path("/proc/driver/nvidia/version")
    words = version.read_text().split() if version.exists() else []
    return next((word for word in words if word[:1].isdigit() and "." in word), "")
