"""Which device serves a task."""

from __future__ import annotations

import functools

from ptxgym.devices.absent import AbsentDevice
from ptxgym.devices.device import Device
from ptxgym.errors import MisuseError
from ptxgym.tasks import Architecture

CHOICES = ("auto", "cuda", "cuda:N", "simulator", "none")
"""``auto`` takes the first GPU of the right architecture where there is one, else the simulator. ``cuda`` takes that
GPU or fails, ``cuda:1`` the one that torch calls so. ``none`` compiles only."""


@functools.cache
def get_device(choice: str, architecture: Architecture) -> Device:
    """The device for an architecture; the same object for the same question within a process.

    Raises:
        MisuseError: There is no such choice, or a GPU was asked for and none of this architecture is there.
    """
    if choice == "none":
        return AbsentDevice("The device was chosen as 'none': the source is compiled and inspected only.")
    if choice == "simulator":
        return _simulator(architecture)
    kind, _, number = choice.partition(":")
    if kind == "cuda" and (not number or number.isdecimal()):
        index = _find_gpu(architecture, only=int(number) if number else None)
        if index is not None:
            return _gpu(index)
        major, minor = architecture.compute_capability
        where = f"as {choice}" if number else "here"
        raise MisuseError(
            f"No {architecture.name} GPU (compute capability {major}.{minor}) is {where}. `ptxgym doctor` says what "
            "this machine has."
        )
    if choice == "auto":
        index = _find_gpu(architecture)
        return _simulator(architecture) if index is None else _gpu(index)
    raise MisuseError(f"device={choice!r} is none of {', '.join(map(repr, CHOICES))}.")


def _gpu(index: int) -> Device:
    from ptxgym.devices.cuda import CudaDevice

    return CudaDevice(index)


def _simulator(architecture: Architecture) -> Device:
    from ptxgym.devices.simulator.device import SimulatorDevice

    return SimulatorDevice(architecture)


def _find_gpu(architecture: Architecture, only: int | None = None) -> int | None:
    """The index of the first GPU of this architecture, as torch counts them."""
    import torch

    if not torch.cuda.is_available():
        return None
    indices = [i for i in range(torch.cuda.device_count()) if only is None or i == only]
    fitting = (i for i in indices if torch.cuda.get_device_capability(i) == architecture.compute_capability)
    return next(fitting, None)
