"""A candidate's process on the simulator, and the buffers that the judge lends it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxgym.devices.device import RunRecord, Session
from ptxgym.devices.process import CandidateProcess
from ptxgym.devices.simulator.runtime.arena import Arena
from ptxgym.devices.simulator.runtime.host_clock import WALL_FACTOR
from ptxgym.devices.simulator.runtime.library import runtime_libraries
from ptxgym.devices.simulator.runtime.process import HostProcess
from ptxgym.errors import CandidateError, InfrastructureError
from ptxgym.tasks import Shape, Task, Tensors, format_shape
from ptxgym.toolchain import Program

if TYPE_CHECKING:
    import torch

_POISON = 0xFF
"""Every byte of outputs and workspaces before a run: NaN in bf16 and fp32."""

_HOST_SECONDS = 10.0
"""What host code may take beside its launches, as :mod:`~ptxgym.devices.simulator.runtime.host_clock` counts it."""

_NOT_THE_KERNELS = ("unknown-instruction", "simulator-error")
"""Findings that end a launch and say nothing about the kernel."""

_SLACK_SECONDS = 20.0
"""How much longer the judge waits, should the simulator not end the call."""


class SimulatorSession(Session):
    """Two processes for one candidate: its own, and the simulator that answers its CUDA calls.

    Args:
        program: What to run.
        task: Its operator decides the buffers.
        run_seconds: Processor time that the simulator may spend on one call of ``run``.
        on_run: Told of every call that went well: its shape, how many calls came before it, and its evidence.
        checks: Whether launches are watched for races and the other contracts, which costs a third of the time.
    """

    def __init__(
        self,
        program: Program,
        task: Task,
        run_seconds: float = 120.0,
        on_run: Callable[[Shape, int, dict[str, Any]], None] | None = None,
        checks: bool = True,
    ) -> None:
        self._task, self._run_seconds = task, run_seconds
        self._on_run, self._calls = on_run, 0
        self._buffers: dict[str, tuple[int, int]] = {}  # name: (address, bytes)
        self._shape: Shape = {}
        self._loaded = False
        self.evidence: dict[str, Any] = {}
        """What happened in the last run, as :class:`~ptxgym.devices.simulator.runtime.evidence.Evidence` has it."""
        libraries = runtime_libraries()
        self._arena = Arena()
        self._host = HostProcess(self._arena)
        self._process: CandidateProcess | None = None
        try:
            self._process = CandidateProcess(program, {"PTXGYM_SIMULATOR": self._host.address})
            resources = {k.name: [k.registers, k.stack_bytes] for k in program.kernels}
            self._host.order(
                "start",
                architecture=task.architecture.target,
                ptx=str(program.ptx),
                resources=resources,
                checks=checks,
            )
            self._process.ask("start", driver=str(libraries.driver), runtime=str(libraries.runtime))
            self._process.ask("context")
        except BaseException:
            self.close()
            raise

    @property
    def processes(self) -> tuple[int, ...]:
        """The number of the process that simulates."""
        return (self._host.pid,)

    def bind(self, shape: Shape) -> None:
        """Have buffers for this shape."""
        operator = self._task.operator
        dimensions = operator.dimensions(shape)
        old = [address for address, _ in self._buffers.values()]
        self._buffers, mapped = {}, []
        for parameter in operator.tensors():
            size = prod(dimensions[parameter.name]) * parameter.itemsize
            made = self._host.order("allocate", size=size, label=parameter.name, initialised=parameter.role == "input")
            self._buffers[parameter.name] = (made["address"], size)
            mapped.append({"name": parameter.name, "handle": made["handle"], "bytes": size})
        self._shape = shape
        self._candidate.ask("map", buffers=mapped, private=False)
        self._host.order("release", addresses=old)  # the candidate's process has let go of them
        if not self._loaded:
            self._candidate.load()
            self.confinement = self._candidate.confinement
            self._loaded = True

    def run(self, inputs: Tensors) -> tuple[Tensors, RunRecord]:
        """See :meth:`ptxgym.devices.device.Session.run`; :attr:`evidence` says what the simulator saw."""
        poisoned = self._fill(inputs)
        self._host.order(
            "begin",
            seconds=self._run_seconds,
            host_seconds=_HOST_SECONDS,
            poisoned=poisoned,
            candidate=self._candidate.pid,
        )
        self.evidence = {}
        failure: CandidateError | None = None
        try:
            self._call()
        except CandidateError as error:
            failure = error
        self.evidence = self._host.order("collect", timeout=self._longest_wait)
        number, self._calls = self._calls, self._calls + 1
        self._blame(failure)
        if self._on_run is not None:
            self._on_run(self._shape, number, self.evidence)
        return self._outputs(), RunRecord(mutated_inputs=self._mutated(inputs), overrun_outputs=())

    def close(self) -> int:
        """End both processes and forget the memory; returns the candidate's exit code."""
        code = self._process.close() if self._process is not None else 0
        self._host.close()
        self._arena.close()
        return code

    # -- a call

    @property
    def _longest_wait(self) -> float:
        """Seconds by the clock, after which the simulator has ended the call on any machine."""
        return WALL_FACTOR * (self._run_seconds + _HOST_SECONDS) + _SLACK_SECONDS

    def _call(self) -> None:
        operator, shape = self._task.operator, self._shape
        arguments = [
            ["int", shape[p.name]] if p.role == "dimension" else ["buffer", p.name] for p in operator.parameters
        ]
        reply = self._candidate.ask("run", timeout=self._longest_wait, arguments=arguments)
        code, sync = int(reply.get("code", 0)), int(reply.get("sync", 0))
        said = f"{str(reply.get('name', ''))[:80]} ({str(reply.get('text', ''))[:160]})"
        if code or sync:
            raise CandidateError("refused", f"run returned {said} for {format_shape(shape)}.")

    def _blame(self, failure: CandidateError | None) -> None:
        """Decide whose failure it is, by what the simulator saw and not by what the candidate's process says.

        Raises:
            InfrastructureError: The simulator ended first, or lacks what the candidate called.
            CandidateError: The kernel broke a rule, or ``run`` failed.
        """
        seen = self.evidence
        if seen["problems"]:
            raise InfrastructureError(f"The simulator failed: {seen['problems'][0]}")
        unknown = [f for launch in seen["launches"] for f in launch["findings"] if f["code"] in _NOT_THE_KERNELS]
        if unknown:
            raise InfrastructureError(str(unknown[0]["message"]))
        if seen["limits"] and (seen["fault"] or failure is not None):
            raise InfrastructureError(f"The simulator's limits were reached: {seen['limits'][0]}")
        if seen["timeouts"]:
            raise CandidateError("timeout", f"It did not finish on the simulator: {seen['timeouts'][0]}")
        if seen["fault"]:
            raise CandidateError("device_error", self._fault_text())
        if failure is not None and failure.reason == "timeout":  # by the judge's clock, which the simulator's precede
            raise InfrastructureError(f"The machine was too busy: {failure.message}")
        if failure is not None and failure.reason == "refused" and seen["refused"]:
            raise InfrastructureError(f"The simulator's CUDA runtime refused: {', '.join(seen['refused'][:5])}.")
        if failure is not None:
            hints = f" Before that: {'; '.join(seen['hints'][-3:])}." if seen["hints"] else ""
            raise CandidateError(failure.reason, f"{failure.message}{hints}")
        self._refuse_host_computation()

    def _refuse_host_computation(self) -> None:
        """A host that took all inputs and brought all outputs did the work itself. On a GPU the clock shows that.

        Raises:
            CandidateError: It did.
        """

        def total(*roles: Any) -> int:
            return sum(self._buffers[p.name][1] for p in self._task.operator.tensors(*roles))

        if self.evidence["downloaded"] >= total("input") and self.evidence["uploaded"] >= total("output"):
            raise CandidateError("protocol", "Host code copied every input from the device and every output to it.")

    def _fault_text(self) -> str:
        findings = [f for launch in self.evidence["launches"] for f in launch["findings"] if f["severity"] == "error"]
        what = findings[0]["text"] if findings else f"CUDA error {self.evidence['fault']}"
        return f"The device stopped at {format_shape(self._shape)}: {what}"

    # -- buffers

    @property
    def _candidate(self) -> CandidateProcess:
        assert self._process is not None
        return self._process

    def _bytes(self, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        address, size = self._buffers[name]
        return self._arena.view(address, size)

    def _fill(self, inputs: Tensors) -> list[int]:
        """Write the inputs and poison the rest; returns the addresses of what was poisoned."""
        for name, tensor in inputs.items():
            self._bytes(name)[:] = _raw(tensor)
        poisoned = [p.name for p in self._task.operator.tensors("output", "workspace")]
        for name in poisoned:
            self._bytes(name)[:] = _POISON
        return [self._buffers[name][0] for name in poisoned]

    def _outputs(self) -> Tensors:
        import torch

        dimensions = self._task.operator.dimensions(self._shape)
        outputs = {}
        for parameter in self._task.operator.tensors("output"):
            raw = torch.from_numpy(self._bytes(parameter.name).copy())
            outputs[parameter.name] = raw.view(getattr(torch, parameter.dtype)).reshape(dimensions[parameter.name])
        return outputs

    def _mutated(self, inputs: Tensors) -> tuple[str, ...]:
        return tuple(name for name, tensor in inputs.items() if not np.array_equal(self._bytes(name), _raw(tensor)))


def _raw(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A tensor's bytes."""
    import torch

    flat: np.ndarray[Any, np.dtype[np.uint8]] = tensor.detach().cpu().contiguous().view(torch.uint8).reshape(-1).numpy()
    return flat
