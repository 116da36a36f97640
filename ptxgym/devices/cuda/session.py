"""A candidate's process on a GPU, and the buffers that the judge lends it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxgym.devices.cuda.memory import Driver, SharedBuffer
from ptxgym.devices.device import RunRecord, Session
from ptxgym.devices.process import CandidateProcess, environment_of_driver
from ptxgym.errors import CandidateError
from ptxgym.tasks import Shape, Task, Tensors, format_shape
from ptxgym.toolchain import Program, find_toolkit

if TYPE_CHECKING:
    import torch

_STICKY = {700, 702, 710, 714, 715, 716, 717, 718, 719}
"""``cudaError_t`` of faults on the device, after which the context is lost; the others are refusals."""

_FLUSH = "flush"


class CudaSession(Session):
    """One candidate process on one GPU.

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
        self._private, self._run_seconds = private, run_seconds
        self._buffers: dict[str, SharedBuffer] = {}
        self.views: Tensors = {}
        self.shape: Shape = {}
        environment = environment_of_driver() | {"CUDA_VISIBLE_DEVICES": uuid, "CUDA_CACHE_DISABLE": "1"}
        self._process = CandidateProcess(program, environment, wrapper, readable=[*device_files(), *(readable or [])])
        try:
            runtime = find_toolkit().runtime / "libcudart.so.13"
            self._process.ask("start", driver="libcuda.so.1", runtime=str(runtime), timer=timer)
        except BaseException:
            self._process.close()
            raise
        self._loaded = False

    def bind(self, shape: Shape, flush_bytes: int = 0) -> None:
        """Have buffers for this shape, and one more to flush the L2 cache with."""
        import torch

        operator = self._task.operator
        dimensions = operator.dimensions(shape)
        self._free()
        self.shape = shape
        for parameter in operator.tensors():
            count = 1
            for extent in dimensions[parameter.name]:
                count *= extent
            buffer = SharedBuffer(self._driver, self._index, count * parameter.itemsize)
            self._buffers[parameter.name] = buffer
            self.views[parameter.name] = buffer.view(getattr(torch, parameter.dtype), dimensions[parameter.name])
        if flush_bytes:
            self._buffers[_FLUSH] = SharedBuffer(self._driver, self._index, flush_bytes)
        mapped = [{"name": name, "handle": b.handle, "bytes": b.size} for name, b in self._buffers.items()]
        self._process.ask("map", buffers=mapped, private=self._private)
        if not self._loaded:
            self._process.load()
            self.confinement = self._process.confinement
            self._loaded = True

    def run(self, inputs: Tensors) -> tuple[Tensors, RunRecord]:
        """See :meth:`ptxgym.devices.device.Session.run`."""
        self.fill(inputs)
        self.ask("run")
        return self.outputs(), self.look(inputs)

    def fill(self, inputs: Tensors) -> None:
        """Write inputs, poison everything else, and wait."""
        import torch

        for name, tensor in inputs.items():
            self.views[name].copy_(tensor)
        for parameter in self._task.operator.tensors("output", "workspace"):
            self._buffers[parameter.name].poison()
        torch.cuda.synchronize(self._index)

    def ask(self, op: str, timeout: float | None = None, **request: Any) -> dict[str, Any]:
        """Have the process call ``run``.

        Raises:
            CandidateError: ``refused``, ``device_error``, or what the process died of.
        """
        operator, shape = self._task.operator, self.shape
        arguments = [
            ["int", shape[p.name]] if p.role == "dimension" else ["buffer", p.name] for p in operator.parameters
        ]
        reply = self._process.ask(op, timeout=timeout or self._run_seconds, arguments=arguments, **request)
        code, sync = int(reply.get("code", 0)), int(reply.get("sync", 0))
        said = f"{str(reply.get('name', ''))[:80]} ({str(reply.get('text', ''))[:160]})"
        if sync or code in _STICKY:
            raise CandidateError("device_error", f"The device stopped with {said} at {format_shape(shape)}.")
        if code:
            raise CandidateError("refused", f"run returned {said} for {format_shape(shape)}.")
        return reply

    def outputs(self) -> Tensors:
        """The output buffers as they are now."""
        return {p.name: self.views[p.name] for p in self._task.operator.tensors("output")}

    def look(self, inputs: Tensors) -> RunRecord:
        """What the call did besides its outputs."""
        changed = [name for name, tensor in inputs.items() if not _same_bits(self.views[name], tensor)]
        overrun = [name for name, buffer in self._buffers.items() if buffer.overrun()]
        return RunRecord(mutated_inputs=tuple(changed), overrun_outputs=tuple(overrun))

    def close(self) -> int:
        """End the process, then free what it had been lent."""
        code = self._process.close()
        self._free()
        return code

    def _free(self) -> None:
        self.views = {}
        for buffer in self._buffers.values():
            buffer.free()
        self._buffers = {}


def device_files() -> list[str]:
    """The device nodes of the driver, and its folder under /proc."""
    return [*map(str, Path("/dev").glob("nvidia*")), "/proc/driver/nvidia"]


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    import torch

    bits = torch.int16 if left.element_size() == 2 else torch.int32
    return bool(torch.equal(left.view(bits), right.view(bits)))
