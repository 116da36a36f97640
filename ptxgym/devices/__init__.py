"""Where a program runs: one interface, NVIDIA GPUs and the embedded simulator behind it."""

from ptxgym.devices.choice import get_device
from ptxgym.devices.device import (
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

__all__ = [
    "Device",
    "DeviceInfo",
    "InputDraw",
    "InstructionReport",
    "KernelExecution",
    "KernelLaunch",
    "MemoryReport",
    "OutputCheck",
    "Regime",
    "RunRecord",
    "Session",
    "TimedRound",
    "TimingReport",
    "get_device",
]
