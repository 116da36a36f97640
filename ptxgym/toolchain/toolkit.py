"""Where the CUDA compiler is: a toolkit on this machine, or NVIDIA's wheels beside this package."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ptxgym.errors import MissingToolError

_OLDEST = (13, 0)
"""The candidate links ``libcudart.so.13``, and the simulator provides the same."""

_WHEELS = "pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl"


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A CUDA compiler and what belongs to it."""

    nvcc: Path
    version: str
    """E.g. ``13.0.88``."""
    nvdisasm: Path
    runtime: Path
    """The folder that holds ``libcudart.so.13``."""
    host_compiler: Path

    @property
    def root(self) -> Path:
        """The folder above ``bin``."""
        return self.nvcc.parent.parent

    def readable(self) -> tuple[Path, ...]:
        """What a compilation may read: this toolkit, the host compiler and the system's headers and libraries."""
        system = "/usr/include /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/bin /bin /lib /lib64 /etc/ld.so.cache"
        prefix = self.host_compiler.resolve().parent.parent
        extra = () if prefix in (Path("/usr"), Path("/")) else (prefix,)
        return (self.root, self.root.resolve(), *map(Path, system.split()), Path("/dev/urandom"), *extra)


@functools.cache
def find_toolkit() -> Toolkit:
    """The first usable CUDA compiler: ``CUDA_HOME``, then ``PATH``, then the wheels.

    Raises:
        MissingToolError: There is no nvcc of CUDA 13, no nvdisasm, no ``libcudart.so.13`` or no host compiler.
    """
    for root in _toolkit_roots():
        version = nvcc_version(root / "bin" / "nvcc")
        runtime = next((p for p in (root / "lib64", root / "lib") if (p / "libcudart.so.13").exists()), None)
        if version and tuple(map(int, version.split(".")[:2])) >= _OLDEST and runtime:
            return Toolkit(root / "bin" / "nvcc", version, find_nvdisasm(), runtime, find_host_compiler())
    raise MissingToolError("nvcc of CUDA 13", f"Install a CUDA 13 toolkit and set CUDA_HOME, or `{_WHEELS}`.")


@functools.cache
def nvcc_version(nvcc: Path) -> str | None:
    """The version of an nvcc, None where there is none that runs."""
    try:
        text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"V(\d+\.\d+\.\d+)", text)
    return match[1] if match else None


@functools.cache
def find_nvdisasm() -> Path:
    """The disassembler of a toolkit or of the wheels.

    Raises:
        MissingToolError: There is none.
    """
    for root in _toolkit_roots():
        if (root / "bin" / "nvdisasm").exists():
            return root / "bin" / "nvdisasm"
    raise MissingToolError("nvdisasm", "`pip install nvidia-cuda-nvdisasm` brings it.")


def find_host_compiler() -> Path:
    """The C++ compiler that nvcc calls: ``CUDAHOSTCXX``, ``NVCC_CCBIN``, then g++ or clang++ on the ``PATH``.

    Raises:
        MissingToolError: There is none.
    """
    for name in (os.environ.get("CUDAHOSTCXX"), os.environ.get("NVCC_CCBIN"), "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return Path(found)
    raise MissingToolError("A host C++ compiler", "Install one (Debian and Ubuntu: `apt-get install g++`).")


def _toolkit_roots() -> Iterator[Path]:
    """Folders that may hold ``bin/nvcc``, in order of preference."""
    if home := os.environ.get("CUDA_HOME"):
        yield Path(home)
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parent.parent
    yield from wheel_roots()
    yield Path("/usr/local/cuda")


def wheel_roots() -> Iterator[Path]:
    """The ``nvidia/cu13`` folders that NVIDIA's wheels share."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        root = Path(folder) / "cu13"
        if root.is_dir():
            yield root
