"""Compiles corpus kernels with the real nvcc and launches them in the executor."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ptxgym.devices.simulator import tensor_map
from ptxgym.devices.simulator.machine import LaunchConfig, LaunchReport, Limits, Machine
from ptxgym.devices.simulator.memory import GlobalMemory
from ptxgym.devices.simulator.module import Module, load_module

CORPUS = Path(__file__).parent
_CACHE = Path(tempfile.gettempdir()) / f"ptxgym-corpus-{os.getuid()}"


def nvcc() -> str | None:
    """The compiler, or None."""
    found = shutil.which("nvcc")
    if found:
        return found
    wheels = list(Path(np.__file__).parents[1].glob("nvidia/cu13/bin/nvcc"))
    return str(wheels[0]) if wheels else None


def compile_ptx(source: str, architecture: str, *options: str, folder: Path = CORPUS) -> str:
    """PTX of CUDA source text; kept in a cache by content, headers included."""
    headers = "".join(p.read_text() for p in sorted(folder.rglob("*.cuh")))
    key = hashlib.sha256(repr((source, headers, architecture, options)).encode()).hexdigest()[:24]
    target = _CACHE / f"{key}.ptx"
    if not target.exists():
        _CACHE.mkdir(exist_ok=True)
        text = _CACHE / f"{key}.cu"
        text.write_text(source)
        compiler = nvcc()
        assert compiler is not None, "nvcc is needed"
        scratch = _CACHE / f"{key}.{os.getpid()}.tmp"
        code = f"arch=compute_{architecture},code=compute_{architecture}"
        command = [
            compiler,
            "-ptx",
            "-lineinfo",
            "-std=c++17",
            "-O3",
            "-Wno-deprecated-gpu-targets",
            f"-I{folder}/cuda",
            "-gencode",
            code,
            *options,
            "-o",
            str(scratch),
            str(text),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        scratch.rename(target)
    return target.read_text()


class Device:
    """A simulated device with an allocator; what a test needs and no more."""

    def __init__(self, architecture: str = "90a", *, checks: bool = True) -> None:
        self.architecture = architecture
        self.memory = GlobalMemory()
        self.machine = Machine(self.memory, architecture, checks=checks)
        self._next = 0x7F00_0000_0000
        self._arrays: dict[int, np.ndarray[Any, Any]] = {}

    def upload(self, array: np.ndarray[Any, Any], label: str = "") -> int:
        """Copy an array to the device; returns its address."""
        data = np.ascontiguousarray(array).copy()
        address = self._next
        self._next += -(-max(data.nbytes, 1) // 65536) * 65536 + 65536
        view = data.reshape(-1).view(np.uint8)
        self.memory.add(address, view.size, view, label or f"array{len(self._arrays)}")
        self._arrays[address] = data
        return address

    def array(self, address: int) -> np.ndarray[Any, Any]:
        """The device's copy of an uploaded array."""
        return self._arrays[address]

    def launch(
        self, module: Module | str, kernel: str, grid: Any, block: Any, *arguments: Any, cluster: Any = (1, 1, 1),
        shared: int = 0, limits: Limits | None = None,
    ) -> LaunchReport:  # fmt: skip
        """Launch with arguments in order: int, NumPy scalar or bytes."""
        if isinstance(module, str):
            module = load_module(module)
        layout = module.kernels[kernel]
        block_bytes = bytearray(max(layout.parameter_bytes, 1))
        assert len(arguments) == len(layout.parameters), (len(arguments), len(layout.parameters))
        for parameter, value in zip(layout.parameters, arguments, strict=True):
            raw = parameter_bytes(value, parameter.size)
            block_bytes[parameter.offset : parameter.offset + parameter.size] = raw
        config = LaunchConfig(three(grid), three(block), three(cluster), shared, bytes(block_bytes))
        return self.machine.launch(module, kernel, config, limits)

    def tile_map(
        self, address: int, kind: str, shape: tuple[int, ...], box: tuple[int, ...], swizzle: str = "128B",
        strides: tuple[int, ...] | None = None, **extra: Any,
    ) -> bytes:  # fmt: skip
        """A tensor map over a row-major array; ``shape`` and ``box`` are outermost first, as in NumPy."""
        size = tensor_map.ELEMENT_BYTES[kind]
        if strides is None:
            strides = tuple(int(np.prod(shape[i + 1 :])) * size for i in range(len(shape) - 1))
        fields = tensor_map.TensorMapFields(
            kind=kind, address=address, sizes=shape[::-1], strides=strides[::-1], box=box[::-1],
            element_strides=(1,) * len(shape), swizzle=swizzle, **extra,
        )  # fmt: skip
        problem = tensor_map.validate(fields)
        assert problem is None, problem
        return tensor_map.encode(fields)


def parameter_bytes(value: Any, size: int) -> bytes:
    """A kernel's argument (int, float, NumPy scalar or bytes) as the bytes of a parameter."""
    if isinstance(value, bytes):
        raw = value
    elif isinstance(value, int):
        raw = (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
    else:
        raw = np.array(value, f"f{size}").tobytes() if isinstance(value, float) else np.asarray(value).tobytes()
    assert len(raw) == size
    return raw


def three(value: Any) -> tuple[int, int, int]:
    """Extents along x, y and z."""
    axes = (value,) if isinstance(value, int) else tuple(value)
    x, y, z = (*axes, 1, 1)[:3]
    return x, y, z
