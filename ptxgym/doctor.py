"""What this machine can do, in plain words, and how to get what is missing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ptxgym.errors import InfrastructureError
from ptxgym.toolchain import confinement
from ptxgym.toolchain.toolkit import find_host_compiler, find_nvdisasm, find_toolkit

Level = Literal["ok", "limited", "missing"]
"""``missing``: no kernel can be compiled. ``limited``: some stages are unknown on this machine."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for."""

    name: str
    level: Level
    detail: str
    """What is there, or how to get it."""


def examine() -> Iterator[Finding]:
    """Look for everything, from the compiler to the performance counters."""
    yield _tool("host compiler", lambda: str(find_host_compiler()), "missing")
    yield _tool("nvcc", lambda: f"{find_toolkit().version} at {find_toolkit().nvcc}", "missing")
    yield _tool("disassembler", lambda: str(find_nvdisasm()), "missing")
    yield _tool("embedded simulator", _simulator, "limited")
    yield _confinement()
    gpu = _gpu()
    yield gpu
    for finding, instead in _gpu_tools():
        yield finding if gpu.level == "ok" else _without_a_gpu(finding, instead)


def _gpu_tools() -> Iterator[tuple[Finding, str]]:
    """What the stages take on a GPU, and what does it without one."""
    toolkit, extra = "it is part of the CUDA toolkit.", "`pip install 'ptxgym[cuda]'`."
    ncu, memcheck = "Nsight Compute (ncu)", "compute-sanitizer"
    simulated = "the simulator serves the {} stage here"
    yield _program(ncu, "ncu", f"The instruction stage needs it; {toolkit}"), simulated.format("instruction")
    yield _program(memcheck, memcheck, f"The memory stage needs it; {toolkit}"), simulated.format("memory")
    yield _module("CUPTI (cupti-python)", "cupti", f"The timing stage needs it: {extra}"), "nothing is timed here"
    yield _module("NVML (nvidia-ml-py)", "pynvml", f"Clocks and power come from it: {extra}"), "nothing is timed here"
    yield _counters(), simulated.format("instruction")


def _without_a_gpu(finding: Finding, instead: str) -> Finding:
    """A tool of the GPU's where there is none: nothing is lost if it is missing."""
    if finding.level == "ok":
        return finding
    missing = finding.detail.partition(".")[0]
    return Finding(finding.name, "ok", f"{missing}. Needed on a GPU only: {instead}.")


def _tool(name: str, find: Callable[[], str], level: Level) -> Finding:
    try:
        return Finding(name, "ok", find())
    except InfrastructureError as error:
        return Finding(name, level, str(error))


def _simulator() -> str:
    from ptxgym.devices.simulator.runtime.library import runtime_libraries

    runtime_libraries()
    return "ready; it serves where no GPU of the task's architecture is"


def _program(name: str, program: str, remedy: str) -> Finding:
    found = shutil.which(program) or shutil.which(f"/usr/local/cuda/bin/{program}")
    return Finding(name, "ok" if found else "limited", found or f"Not found. {remedy}")


def _module(name: str, module: str, remedy: str) -> Finding:
    found = importlib.util.find_spec(module) is not None
    return Finding(name, "ok" if found else "limited", "installed" if found else f"Not installed. {remedy}")


def _confinement() -> Finding:
    parts = []
    if version := confinement.landlock_version():
        parts.append(f"files (Landlock {version})")
    if platform.machine() == "x86_64" and Path("/proc/sys/kernel/seccomp").exists():
        parts.append("system calls (seccomp)")
    if len(parts) == 2:
        return Finding("confinement of candidates", "ok", " and ".join(parts))
    there = parts[0] if parts else "nothing but resource limits"
    return Finding(
        "confinement of candidates",
        "limited",
        f"This kernel confines {there}. Judge untrusted kernels in a container or virtual machine, or on x86-64 Linux "
        "5.13 or newer with Landlock and seccomp.",
    )


def _gpu() -> Finding:
    import torch

    if not torch.cuda.is_available():
        built = torch.version.cuda
        why = "torch sees no NVIDIA GPU" if built else f"torch {torch.__version__} is built without CUDA"
        return Finding("GPU", "limited", f"{why}. The simulator serves instead; it gives no times.")
    names = []
    for index in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(index)
        names.append(f"{torch.cuda.get_device_name(index)} (compute capability {major}.{minor})")
    return Finding("GPU", "ok", ", ".join(names))


def _counters() -> Finding:
    """Whether the driver lets this user read counters, as the driver's own parameter says."""
    name = "performance counters"
    parameters = Path("/proc/driver/nvidia/params")
    if not parameters.exists():
        return Finding(name, "limited", "No NVIDIA driver is loaded here.")
    restricted = "RmProfilingAdminOnly: 1" in parameters.read_text()
    if restricted and os.geteuid() != 0:
        return Finding(
            name,
            "limited",
            "The driver allows them to administrators only. Run as root, or load the driver with "
            "NVreg_RestrictProfilingToAdminUsers=0.",
        )
    return Finding(name, "ok", "allowed to this user")
