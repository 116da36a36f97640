"""Which device serves a task."""

from __future__ import annotations

import functools
from typing import Literal, get_args

from ptxgym.devices.absent import AbsentDevice
from ptxgym.devices.device import Device
from ptxgym.errors import MisuseError
from ptxgym.tasks import Architecture

DeviceChoice = Literal["auto", "cuda", "simulator", "none"]
"""``auto`` takes a GPU of the right architecture where there is one, else the simulator. ``none`` compiles only."""


@functools.cache
def get_device(choice: str, architecture: Architecture) -> Device:
    """The device for an architecture; the same object for the same question within a process.

    Raises:
        MisuseError: There is no such choice, or ``cuda`` was forced where no GPU of this architecture is.
    """
    if choice not in get_args(DeviceChoice):
        raise MisuseError(f"device={choice!r} is none of {', '.join(map(repr, get_args(DeviceChoice)))}.")
    if choice == "none":
        return AbsentDevice("The device was chosen as 'none': the source is compiled and inspected only.")
    index = None if choice == "simulator" else _find_gpu(architecture)
    if index is not None:
        from ptxgym.devices.cuda import CudaDevice

        return CudaDevice(index)
    if choice == "cuda":
        major, minor = architecture.compute_capability
        raise MisuseError(
            f"No {architecture.name} GPU (compute capability {major}.{minor}) is here. `ptxgym doctor` says what this "
            "machine has."
        )
    from ptxgym.devices.simulator.device import SimulatorDevice

    return SimulatorDevice(architecture)


def _find_gpu(architecture: Architecture) -> int | None:
    """The index of the first GPU of this architecture, as torch counts them."""
    import torch

    if not torch.cuda.is_available():
        return None
    indices = range(torch.cuda.device_count())
    fitting = (i for i in indices if torch.cuda.get_device_capability(i) == architecture.compute_capability)
    return next(fitting, None)
