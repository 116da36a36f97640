"""Which device serves a task."""

from __future__ import annotations

import functools
from typing import Literal

from ptxgym.devices.absent import AbsentDevice
from ptxgym.devices.device import Device
from ptxgym.errors import MisuseError
from ptxgym.tasks import Architecture

DeviceChoice = Literal["auto", "cuda", "none"]
"""``auto`` takes a GPU of the right architecture where there is one, else none. ``none`` compiles only."""


@functools.cache
def get_device(choice: str, architecture: Architecture) -> Device:
    """The device for an architecture; the same object for the same question within a process.

    Raises:
        MisuseError: There is no such choice, or ``cuda`` was forced where no GPU of this architecture is.
    """
    if choice not in ("auto", "cuda", "none"):
        raise MisuseError(f"device={choice!r} is none of 'auto', 'cuda' and 'none'.")
    if choice == "none":
        return AbsentDevice("The device was chosen as 'none': the source is compiled and inspected only.")
    index = _find_gpu(architecture)
    if index is not None:
        from ptxgym.devices.cuda import CudaDevice

        return CudaDevice(index)
    major, minor = architecture.compute_capability
    absence = f"No {architecture.name} GPU (compute capability {major}.{minor}) is here."
    if choice == "cuda":
        raise MisuseError(f"{absence} `ptxgym doctor` says what this machine has.")
    return AbsentDevice(absence)


def _find_gpu(architecture: Architecture) -> int | None:
    """The index of the first GPU of this architecture, as torch counts them."""
    import torch

    if not torch.cuda.is_available():
        return None
    indices = range(torch.cuda.device_count())
    fitting = (i for i in indices if torch.cuda.get_device_capability(i) == architecture.compute_capability)
    return next(fitting, None)
