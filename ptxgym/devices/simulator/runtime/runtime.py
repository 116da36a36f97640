"""The CUDA runtime's other half: it answers every request of the candidate's process."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path

from ptxgym.devices.simulator.findings import Finding, SimulatorError
from ptxgym.devices.simulator.machine import LaunchConfig, LaunchReport, Limits, Machine
from ptxgym.devices.simulator.memory import GlobalMemory
from ptxgym.devices.simulator.module import Module, load_module
from ptxgym.devices.simulator.runtime import protocol, tensor_maps
from ptxgym.devices.simulator.runtime.arena import Arena
from ptxgym.devices.simulator.runtime.device_memory import DeviceMemory
from ptxgym.devices.simulator.runtime.evidence import Evidence, LaunchEvidence
from ptxgym.devices.simulator.runtime.functions import DeviceFunction, LaunchRequest, Resources
from ptxgym.devices.simulator.runtime.gpu import DRIVER_VERSION, GPUS
from ptxgym.devices.simulator.runtime.host_clock import WALL_FACTOR, HostClock
from ptxgym.devices.simulator.runtime.protocol import Code, MemoryKind, Operation, Reply, Request, RequestError
from ptxgym.devices.simulator.runtime.variables import GridWorkspace, place_variables
from ptxgym.toolchain.names import source_name

_MOST_MODULES = 64
_MOST_PARAMETER_BYTES = 32764
_LOADING_SECONDS = 20.0
"""Processor time for launches while the library is loaded, before the first run."""

_THE_SIMULATORS = ("memory-limit", "wall-clock-limit")
"""Limits that say nothing about the kernel."""

_FAULTS = {
    "misaligned": Code.MISALIGNED_ADDRESS,
    "out-of-bounds": Code.ILLEGAL_ADDRESS,
    "use-after-free": Code.ILLEGAL_ADDRESS,
    "write-to-constant": Code.ILLEGAL_ADDRESS,
    "wrong-space": Code.ILLEGAL_ADDRESS,
    "assertion": Code.ASSERT,
}
"""What a GPU would answer to a finding that ends a launch; the others give ``CUDA_ERROR_LAUNCH_FAILED``."""


_CHANGING = frozenset({Operation.FREE, Operation.COPY, Operation.FILL, Operation.UPLOAD, Operation.LAUNCH})
"""What changes memory, and is answered during a run only."""

_TAKES_TIME = _CHANGING - {Operation.FREE} | {Operation.DOWNLOAD, Operation.LOAD_MODULE}
"""What is answered as long as the run has time."""


class Runtime:
    """The device of one candidate.

    Args:
        arena: Its memory.
        architecture: ``90a`` or ``100a``.
        checks: Whether launches are watched for races and the other contracts; faults are found without.
    """

    def __init__(self, arena: Arena, architecture: str, checks: bool = True) -> None:
        self.gpu = GPUS[architecture]
        self.arena = arena
        executor_memory = GlobalMemory()
        self.memory = DeviceMemory(arena, executor_memory)
        self._machine = Machine(executor_memory, architecture, checks=checks)
        self._modules: dict[int, Module] = {}
        self._numbers = count(1)
        self._functions: dict[int, DeviceFunction] = {}
        self._known: dict[tuple[int, str], int] = {}
        self._resources: dict[str, Resources] = {}
        self._workspaces: dict[int, GridWorkspace] = {}
        self.evidence = Evidence()
        self._running = True
        """Until the first run a library is loaded, whose constructors may use the device."""
        self._allow(_LOADING_SECONDS)
        self._host_clock: HostClock | None = None

    # -- the judge's side

    def load_program(self, ptx: str, resources: dict[str, list[int]]) -> str:
        """Load what was compiled with the candidate's library, as module 0; says what went wrong.

        Args:
            ptx: Path of the PTX.
            resources: Registers and local bytes by kernel.
        """
        self._resources = {name: Resources(*values) for name, values in resources.items()}
        try:
            self._load(0, Path(ptx).read_text(encoding="utf-8", errors="replace"))
        except (SimulatorError, OSError) as error:
            return f"The program's PTX cannot be loaded: {error}"
        return ""

    def begin(self, seconds: float, host_seconds: float | None = None, candidate: int | None = None) -> None:
        """Forget what happened so far, and allow launches for so long, and host code between them.

        Args:
            seconds: Processor time of this process.
            host_seconds: For host code, as :class:`HostClock` counts it; None without a limit.
            candidate: Number of the process that executes it.
        """
        self._host_clock = None if host_seconds is None else HostClock(candidate, host_seconds)
        self.evidence = Evidence(refused=self.evidence.refused, fault=self.evidence.fault)
        self._running = True
        self._allow(seconds)

    def collect(self) -> Evidence:
        """What happened. From here on nothing on the device changes: the judge looks at it."""
        self._running = False
        self._host_clock = None
        if self.memory.exhausted:
            self.evidence.note(self.evidence.limits, f"The simulator's memory cannot hold {self.memory.exhausted}.")
        return self.evidence

    def host_seconds_left(self) -> float | None:
        """What host code may still take by itself; None without a limit."""
        return None if self._host_clock is None else self._host_clock.left()

    def note_idle_host(self) -> None:
        """Host code has taken all its time, without the device."""
        if self._host_clock is not None and self._host_clock.starved:
            self.evidence.note(self.evidence.limits, "the machine was too busy to let host code return.")
        else:
            self.evidence.note(self.evidence.timeouts, "host code did not return, and the device had nothing to do.")
        self._host_clock = None

    def _allow(self, seconds: float) -> None:
        """Give launches so much of this process's time, and by the clock what is generous even on a busy machine."""
        self._deadline = time.process_time() + seconds
        self._wall_deadline = time.monotonic() + WALL_FACTOR * seconds

    def _refuse_after_the_end(self, what: str) -> None:
        """Do nothing more once the run's time is used up.

        Raises:
            RequestError: It is.
        """
        if time.process_time() > self._deadline:
            self.evidence.note(self.evidence.timeouts, f"{what} came after the run's time was used up.")
        elif time.monotonic() > self._wall_deadline:
            self.evidence.note(self.evidence.limits, f"the machine was too busy: {what} came too late.")
        else:
            return
        self.evidence.fault = self.evidence.fault or Code.LAUNCH_TIMEOUT
        raise RequestError(Code.LAUNCH_TIMEOUT)

    # -- the candidate's side

    def answer(self, request: Request) -> tuple[int, Reply]:
        """The answer to any request; never raises. What it takes is not the host's time."""
        start = time.monotonic()
        reply = self._answer(request)
        if self._host_clock is not None:
            self._host_clock.pause(time.monotonic() - start)
        return reply

    def _answer(self, request: Request) -> tuple[int, Reply]:
        handler = _HANDLERS.get(request.operation)
        if handler is None:
            self.evidence.note(self.evidence.protocol, f"There is no operation {request.operation}.")
            return Code.NOT_SUPPORTED, Reply()
        if not self._running and request.operation in _CHANGING:
            name = Operation(request.operation).name
            self.evidence.note(self.evidence.protocol, f"{name} outside a run.")
            return Code.NOT_PERMITTED, Reply()
        try:
            if self._running and request.operation in _TAKES_TIME:
                self._refuse_after_the_end(Operation(request.operation).name)
            return Code.SUCCESS, handler(self, request)
        except RequestError as error:
            if error.hint:
                self.evidence.note(self.evidence.hints, error.hint)
            if error.refused:
                self.evidence.note(self.evidence.refused, error.refused)
            return error.code, Reply()
        except MemoryError:
            name = Operation(request.operation).name
            self.evidence.note(self.evidence.limits, f"{name}: the simulator ran out of memory.")
            return Code.OUT_OF_MEMORY, Reply()
        except Exception:
            # A gap of ours, not the candidate's: the run will count for nothing.
            last = traceback.format_exc(limit=-3)[-900:]
            self.evidence.note(self.evidence.problems, f"{Operation(request.operation).name}: {last}")
            return Code.UNKNOWN, Reply()

    def hands_over_memory(self, request: Request, code: int) -> bool:
        """Whether the reply carries the file descriptor of the memory that the candidate may map."""
        return request.operation == Operation.HELLO and code == Code.SUCCESS

    def _hello(self, request: Request) -> Reply:
        if request.word(0) != protocol.VERSION:
            raise RequestError(Code.DRIVER_MISMATCH)
        arena = self.arena
        words = (arena.start, arena.size, arena.shown_start, arena.shown_size, DRIVER_VERSION, self.gpu.memory)
        return Reply(words, self.gpu.description())

    # memory

    def _allocate(self, request: Request) -> Reply:
        kind = request.word(1)
        if kind not in (MemoryKind.DEVICE, MemoryKind.PINNED, MemoryKind.MANAGED):
            raise RequestError(Code.INVALID_VALUE)
        return Reply((self.memory.allocate(request.word(0), MemoryKind(kind), most=self.gpu.memory).address,))

    def _free(self, request: Request) -> Reply:
        kind = MemoryKind.PINNED if request.word(1) == MemoryKind.PINNED else MemoryKind.DEVICE
        self.memory.free(request.word(0), kind)
        return Reply()

    def _open_handle(self, request: Request) -> Reply:
        return Reply((self.memory.open_handle(request.data),))

    def _close_handle(self, request: Request) -> Reply:
        self.memory.close_handle(request.word(0))
        return Reply()

    def _pointer(self, request: Request) -> Reply:
        block = self.memory.around(request.word(0))
        return Reply((block.kind, block.address, block.size))

    def _memory_info(self, _: Request) -> Reply:
        return Reply((self.memory.free_bytes(), self.gpu.memory))

    def _check(self, request: Request) -> Reply:
        self.memory.check(*(request.word(i) for i in range(4)))
        return Reply()

    def _upload(self, request: Request) -> Reply:
        self.evidence.uploaded += self.memory.upload(*(request.word(i) for i in range(4)))
        return Reply()

    def _download(self, request: Request) -> Reply:
        self.evidence.downloaded += self.memory.download(*(request.word(i) for i in range(4)))
        return Reply()

    def _copy(self, request: Request) -> Reply:
        self.memory.copy(*(request.word(i) for i in range(6)))
        return Reply()

    def _fill(self, request: Request) -> Reply:
        self.memory.fill(*(request.word(i) for i in range(6)))
        return Reply()

    # modules and functions

    def _load(self, number: int, text: str) -> None:
        module = load_module(text)
        place_variables(module, text, self.memory)
        self._modules[number] = module
        if GridWorkspace.is_used(text):
            self._workspaces[id(module)] = GridWorkspace(module, text, self.memory)

    def _load_module(self, request: Request) -> Reply:
        text = request.data.decode("utf-8", errors="replace")
        if not re.search(r"^\s*\.version\b", text, re.MULTILINE):
            raise RequestError(Code.INVALID_IMAGE)
        if len(self._modules) >= _MOST_MODULES:
            raise RequestError(Code.OUT_OF_MEMORY)
        number = next(self._numbers)
        try:
            self._load(number, text)
        except (SimulatorError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            # Not PTX, or PTX that the parser does not read: it does not know which.
            raise RequestError(Code.INVALID_PTX, refused=f"loading of PTX: {error}") from None
        return Reply((number,))

    def _unload_module(self, request: Request) -> Reply:
        if request.word(0) == 0 or self._modules.pop(request.word(0), None) is None:
            raise RequestError(Code.INVALID_HANDLE)
        return Reply()

    def _module(self, number: int) -> Module:
        module = self._modules.get(number)
        if module is None:
            raise RequestError(Code.INVALID_HANDLE)
        return module

    def _function(self, request: Request) -> Reply:
        module, name = self._module(request.word(0)), request.text()
        kernel = module.kernels.get(name)
        if kernel is None:
            raise RequestError(Code.NOT_FOUND)
        number = self._known.get((request.word(0), name))
        if number is None:
            number = self._known[request.word(0), name] = next(self._numbers)
            loaded = request.word(0) != 0
            resources = Resources() if loaded else self._resources.get(name, Resources())
            self._functions[number] = DeviceFunction(module, kernel, resources, self.gpu, loaded)
        layout = b"".join(protocol.PARAMETER.pack(p.offset, p.size) for p in kernel.parameters)
        return Reply((number, len(kernel.parameters), _used_bytes(kernel.parameters)), layout)

    def _variable(self, request: Request) -> Reply:
        variable = self._module(request.word(0)).globals.get(request.text())
        if variable is None or variable.address is None:
            raise RequestError(Code.NOT_FOUND)
        managed = self.memory.around(variable.address).kind is MemoryKind.MANAGED
        return Reply((variable.address, variable.size, managed))

    def _handle(self, request: Request) -> DeviceFunction:
        function = self._functions.get(request.word(0))
        if function is None or function.module not in self._modules.values():
            raise RequestError(Code.INVALID_HANDLE)
        return function

    def _get_attribute(self, request: Request) -> Reply:
        return Reply((self._handle(request).attribute(request.word(1)),))

    def _set_attribute(self, request: Request) -> Reply:
        self._handle(request).set_attribute(request.word(1), request.signed(2))
        return Reply()

    def _occupancy(self, request: Request) -> Reply:
        return Reply((self._handle(request).blocks_per_processor(request.signed(1), request.word(2)),))

    def _cluster_occupancy(self, request: Request) -> Reply:
        cluster = (request.word(2), request.word(3), request.word(4))
        return Reply((self._handle(request).clusters(request.signed(1), cluster, request.word(5)),))

    def _available_shared(self, request: Request) -> Reply:
        return Reply((self._handle(request).available_shared(request.signed(1), request.signed(2)),))

    # launches

    def _launch(self, request: Request) -> Reply:
        function = self._handle(request)
        words = [request.word(i) for i in range(12)]
        launch = LaunchRequest(
            grid=(words[1], words[2], words[3]),
            block=(words[4], words[5], words[6]),
            cluster=(words[7], words[8], words[9]),
            dynamic_shared=words[10],
            cooperative=bool(words[11]),
        )
        if len(request.data) < _used_bytes(function.kernel.parameters) or len(request.data) > _MOST_PARAMETER_BYTES:
            raise RequestError(Code.INVALID_VALUE)
        cluster = function.check(launch)
        config = LaunchConfig(launch.grid, launch.block, cluster, launch.dynamic_shared, request.data)
        fault = self._execute(function, config, launch.cooperative)
        if fault and not self.evidence.fault:
            self.evidence.fault = fault
        return Reply((fault,))

    def _execute(self, function: DeviceFunction, config: LaunchConfig, cooperative: bool) -> Code:
        name = function.kernel.name
        limits = Limits(
            seconds=self._deadline - time.process_time(), wall_seconds=self._wall_deadline - time.monotonic()
        )
        record = self.evidence.launch(
            LaunchEvidence(function.label, config.grid, config.block, config.cluster, config.dynamic_shared)
        )
        module = function.module
        if cooperative and (workspace := self._workspaces.get(id(module))):
            module = workspace.module()
        report = self._machine.launch(module, name, config, limits)
        record.add(report)
        self.evidence.print(report.printf)
        if report.error == "timeout":
            last = report.findings[-1]
            notes = self.evidence.limits if last.code in _THE_SIMULATORS else self.evidence.timeouts
            self.evidence.note(notes, f"{source_name(name)}{_place(last)}: {last.message}.")
        return _fault(report)

    # tensor maps

    def _encode_tiled(self, request: Request) -> Reply:
        return Reply(data=tensor_maps.encode_tiled(request, self.gpu.blackwell))

    def _encode_im2col(self, request: Request) -> Reply:
        return Reply(data=tensor_maps.encode_im2col(request, self.gpu.blackwell))

    def _replace_address(self, request: Request) -> Reply:
        return Reply(data=tensor_maps.replace_address(request))

    def _refused(self, request: Request) -> Reply:
        self.evidence.note(self.evidence.refused, request.text()[:200])
        return Reply()


def _used_bytes(parameters: tuple[object, ...]) -> int:
    """Bytes from the first parameter to the end of the last, which is what a launch must bring."""
    return max((p.offset + p.size for p in parameters), default=0)  # type: ignore[attr-defined]


def _place(finding: Finding) -> str:
    return f" at {finding.where}" if finding.where.line else ""


def _fault(report: LaunchReport) -> Code:
    """What the GPU would say after such a launch."""
    if report.error is None:
        return Code.SUCCESS
    if report.error in ("deadlock", "timeout"):
        return Code.LAUNCH_TIMEOUT
    if report.error == "unknown_instruction":
        return Code.UNKNOWN
    return _FAULTS.get(report.findings[-1].code if report.findings else "", Code.LAUNCH_FAILED)


_HANDLERS: dict[int, Callable[[Runtime, Request], Reply]] = {
    operation: getattr(Runtime, f"_{operation.name.lower()}") for operation in Operation
}
