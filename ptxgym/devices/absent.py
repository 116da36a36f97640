"""The device of a machine that has none: every stage that needs to run something is unknown, and says why."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NoReturn

from ptxgym.devices.device import (
    Device,
    DeviceInfo,
    InputDraw,
    InstructionReport,
    MemoryReport,
    OutputCheck,
    Regime,
    Session,
    TimingReport,
)
from ptxgym.errors import InfrastructureError
from ptxgym.tasks import Shape, Task, Tensors
from ptxgym.toolchain import Program


class AbsentDevice(Device):
    """Compiles, runs nothing.

    Args:
        reason: Why there is no device, for the stages' results.
    """

    torch_device = "cpu"

    def __init__(self, reason: str) -> None:
        self.info = DeviceInfo(kind="none", name="no device")
        self.absence = reason

    def session(self, program: Program, task: Task) -> AbstractContextManager[Session]:
        """Raise InfrastructureError."""
        self._refuse()

    def check_memory(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> MemoryReport:
        """Raise InfrastructureError."""
        self._refuse()

    def count_instructions(self, program: Program, task: Task, shape: Shape, inputs: Tensors) -> InstructionReport:
        """Raise InfrastructureError."""
        self._refuse()

    def time(
        self, program: Program, task: Task, shape: Shape, draw: InputDraw, check: OutputCheck, regime: Regime
    ) -> TimingReport:
        """Raise InfrastructureError."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InfrastructureError(self.absence)
