"""A candidate's process on a GPU, and the buffers that the judge lends it."""

from __future__ import annotations

import itertools
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxgym.devices.cuda.memory import Driver, SharedBuffer, overrun
from ptxgym.devices.device import RunRecord, Session
from ptxgym.devices.process import CandidateProcess, environment_of_driver
from ptxgym.errors import CandidateError, OutOfMemoryError
from ptxgym.tasks import Shape, Task, Tensors, format_shape
from ptxgym.toolchain import Program, find_toolkit

if TYPE_CHECKING:
    import torch

_STICKY = {700, 702, 710, 714, 715, 716, 717, 718, 719}
"""``cudaError_t`` of faults on the device, after which the context is lost; the others are refusals."""

_OUT_OF_MEMORY = 2
"""``cudaErrorMemoryAllocation``."""

_FLUSH = "flush"


class CudaSession(Session):
    """One candidate process on one GPU, which does no work before :meth:`lend`.

    It has a context from the start: making one takes 0.2 s and is not felt by others, timed ones neither
    (``benchmarks/neighbours.py``). Ending a process is: it may have work of its own to do.

    Args:
        driver: Of the GPU.
        index: The GPU as torch counts it.
        uuid: The GPU as the driver names it.
        program: What to run.
        task: Its operator decides the buffers.
        wrapper: A tool that starts the process.
        readable: Files that the tool needs.
        private: Give the candidate buffers of exact size in its own process; the judge's are copied in and out.
        timer: Import path for CUPTI; without, no kernel is recorded.
        run_seconds: How long one call may take.
    """

    def __init__(
        self,
        driver: Driver,
        index: int,
        uuid: str,
        program: Program,
        task: Task,
        *,
        wrapper: list[str] | None = None,
        readable: list[str] | None = None,
        private: bool = False,
        timer: list[str] | None = None,
        run_seconds: float = 10.0,
    ) -> None:
        self._driver, self._index, self._task = driver, index, task
        self._private, self.run_seconds = private, run_seconds
        self._sets: list[dict[str, SharedBuffer]] = []
        self._flush: SharedBuffer | None = None
        self._views: list[Tensors] = []
        self.shape: Shape = {}
        environment = environment_of_driver() | {"CUDA_VISIBLE_DEVICES": uuid, "CUDA_CACHE_DISABLE": "1"}
        self._process = CandidateProcess(program, environment, wrapper, readable=[*device_files(), *(readable or [])])
        try:
            runtime = find_toolkit().runtime / "libcudart.so.13"
            self._process.ask("start", driver="libcuda.so.1", runtime=str(runtime), timer=timer)
            self._process.ask("context")
        except BaseException:
            self._process.close()
            raise
        self._loaded = False

    def bind(self, shape: Shape) -> None:
        """Have buffers for this shape, and the candidate's library."""
        self.lend(shape)
        self.load()

    def lend(self, shape: Shape, flush_bytes: int = 0, sets: int = 1) -> None:
        """Have buffers for this shape: so many sets of them, and one more to flush the L2 cache with."""
        self._free()
        self.shape = shape
        mapped = []
        for number in range(sets):
            buffers, views = self._allocate(shape)
            self._sets.append(buffers)
            self._views.append(views)
            mapped += [_lent(_name(name, number), buffer) for name, buffer in buffers.items()]
        if flush_bytes:
            self._flush = SharedBuffer(self._driver, self._index, flush_bytes)
            mapped.append(_lent(_FLUSH, self._flush))
        limit = {"timeout": self.run_seconds} if self._loaded else {}  # by then the candidate's code may be in the way
        self._process.ask("map", buffers=mapped, private=self._private, **limit)

    def load(self) -> None:
        """Load the candidate's library, if it is not: from here on its code runs."""
        if not self._loaded:
            self._process.load()
            self.confinement = self._process.confinement
            self._loaded = True

    def _allocate(self, shape: Shape) -> tuple[dict[str, SharedBuffer], Tensors]:
        import torch

        operator = self._task.operator
        dimensions = operator.dimensions(shape)
        buffers: dict[str, SharedBuffer] = {}
        views: Tensors = {}
        for parameter in operator.tensors():
            size = prod(dimensions[parameter.name]) * parameter.itemsize
            buffers[parameter.name] = SharedBuffer(self._driver, self._index, size)
            dtype = getattr(torch, parameter.dtype)
            views[parameter.name] = buffers[parameter.name].view(dtype, dimensions[parameter.name])
        return buffers, views

    def run(self, inputs: Tensors, profile: bool = False) -> tuple[Tensors, RunRecord]:
        """See :meth:`ptxgym.devices.device.Session.run`; with ``profile``, a profiler that waits for it looks on."""
        self.fill(inputs)
        self.ask("run", profile=profile)
        # At once: a reference may take long, and work that comes after the call must not count.
        outputs = {name: tensor.clone() for name, tensor in self.outputs().items()}
        return outputs, self.look(inputs)

    def fill(self, *inputs: Tensors) -> None:
        """Write inputs to the first sets of buffers, poison everything else in them, and wait."""
        import torch

        for buffers, views, tensors in zip(self._sets, self._views, inputs, strict=False):
            for name, tensor in tensors.items():
                views[name].copy_(tensor)
            for parameter in self._task.operator.tensors("output", "workspace"):
                buffers[parameter.name].poison()
        torch.cuda.synchronize(self._index)

    def repeat(self, calls: int, seconds: float) -> None:
        """Have the process call ``run`` once with each of the first sets of buffers, back to back, within a time.

        Raises:
            CandidateError: As :meth:`ask`.
        """
        arguments = [self._arguments(number) for number in range(calls)]
        self.ask("repeat", timeout=seconds, calls=arguments)

    def ask(self, op: str, timeout: float | None = None, **request: Any) -> dict[str, Any]:
        """Have the process call ``run``.

        Raises:
            CandidateError: ``refused``, ``device_error``, or what the process died of.
        """
        timeout, shape = timeout or self.run_seconds, self.shape
        reply = self._process.ask(op, timeout=timeout, arguments=self._arguments(), **request)
        code, sync = int(reply.get("code", 0)), int(reply.get("sync", 0))
        said = f"{str(reply.get('name', ''))[:80]} ({str(reply.get('text', ''))[:160]})"
        if sync or code in _STICKY:
            raise CandidateError("device_error", f"The device stopped with {said} at {format_shape(shape)}.")
        if code:
            kind = OutOfMemoryError if code == _OUT_OF_MEMORY else CandidateError
            raise kind("refused", f"run returned {said} for {format_shape(shape)}.")
        return reply

    def _arguments(self, number: int = 0) -> list[list[Any]]:
        return [
            ["int", self.shape[p.name]] if p.role == "dimension" else ["buffer", _name(p.name, number)]
            for p in self._task.operator.parameters
        ]

    def outputs(self, number: int = 0) -> Tensors:
        """The output buffers of a set as they are now."""
        return {p.name: self._views[number][p.name] for p in self._task.operator.tensors("output")}

    def look(self, inputs: Tensors) -> RunRecord:
        """What the call did besides its outputs."""
        changed = [name for name, tensor in inputs.items() if not _same_bits(self._views[0][name], tensor)]
        return RunRecord(mutated_inputs=tuple(changed), overrun_outputs=self.overrun())

    def overrun(self) -> tuple[str, ...]:
        """The buffers of any set behind whose end something was written since the last look."""
        buffers = {
            _name(name, number): buffer for number, lent in enumerate(self._sets) for name, buffer in lent.items()
        }
        if self._flush:
            buffers[_FLUSH] = self._flush
        return tuple(itertools.compress(buffers, overrun(list(buffers.values()))))

    def end_process(self) -> int:
        """End the process alone; the buffers stay. Returns its exit code."""
        return self._process.close()

    @property
    def lingered(self) -> bool:
        """Whether the process did not end when it was told to, and its tool left no report."""
        return self._process.lingered

    def close(self) -> int:
        """End the process, then free what it had been lent."""
        code = self.end_process()
        self._free()
        return code

    def _free(self) -> None:
        self._views = []
        for buffer in (*(b for lent in self._sets for b in lent.values()), *filter(None, [self._flush])):
            buffer.free()
        self._sets, self._flush = [], None


def _name(parameter: str, number: int) -> str:
    """What the process calls a buffer of a set."""
    return f"{parameter}#{number}" if number else parameter


def _lent(name: str, buffer: SharedBuffer) -> dict[str, Any]:
    return {"name": name, "handle": buffer.handle, "bytes": buffer.size}


def device_files() -> list[str]:
    """The device nodes of the driver, and its folder under /proc."""
    return [*map(str, Path("/dev").glob("nvidia*")), "/proc/driver/nvidia"]


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    import torch

    bits = torch.int16 if left.element_size() == 2 else torch.int32
    return bool(torch.equal(left.view(bits), right.view(bits)))
