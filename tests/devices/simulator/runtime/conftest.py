"""Real host code, compiled by the real nvcc, in real processes against the simulator's own runtime."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ptxgym.devices.simulator.runtime.arena import Arena
from ptxgym.devices.simulator.runtime.library import RuntimeLibraries, runtime_libraries
from ptxgym.devices.simulator.runtime.process import HostProcess
from ptxgym.toolchain import find_toolkit
from ptxgym.toolchain.ptxas import parse_resources

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Built:
    """A host library and the PTX of the same nvcc call."""

    library: Path
    ptx: Path
    resources: dict[str, list[int]]


def compile_cuda(source: Path, folder: Path, target: str = "90a", nvcc: Path | None = None) -> Built:
    """One nvcc call, with the flags that matter of ptxgym's own."""
    toolkit = find_toolkit()
    nvcc = nvcc or toolkit.nvcc
    library = folder / f"{source.stem}.so"
    command = [
        *(str(nvcc), "-shared", "-O3", "-std=c++17", "-lineinfo", "-w", "-Xptxas", "-v"),
        *("-gencode", f"arch=compute_{target},code=sm_{target}", "-ccbin", str(toolkit.host_compiler)),
        *("-Xcompiler", "-fPIC", "--keep", "--keep-dir", str(folder), "-cudart", "none"),
        *(f"-L{toolkit.runtime}", "-l:libcudart.so.13", "-Xlinker", "--unresolved-symbols=ignore-all"),
        *("-o", str(library), str(source)),
    ]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert result.returncode == 0, result.stderr
    (ptx,) = folder.glob(f"{source.stem}*.ptx")
    resources = {k.name: [k.registers, k.stack_bytes] for k in parse_resources(result.stderr + result.stdout)}
    return Built(library, ptx, resources)


class Simulated:
    """A simulator with a program loaded, and processes that use it."""

    def __init__(self, built: Built, libraries: RuntimeLibraries, architecture: str = "90a") -> None:
        self.built, self.libraries = built, libraries
        self.arena = Arena()
        self.host = HostProcess(self.arena)
        self._architecture = architecture

    def start(self) -> Simulated:
        """Load the program."""
        built = self.built
        self.host.order("start", architecture=self._architecture, ptx=str(built.ptx), resources=built.resources)
        self.host.order("begin", seconds=60.0, poisoned=[])
        return self

    def python(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program that finds the simulator."""
        environment = {"PTXGYM_SIMULATOR": self.host.address}
        return subprocess.run(
            [sys.executable, "-I", "-S", *command], env=environment, capture_output=True, text=True, timeout=120
        )

    def observe(self, group: str) -> list[str]:
        """The lines of a group of observations."""
        program = str(HERE / "observe.py")
        result = self.python(
            program, str(self.libraries.driver), str(self.libraries.runtime), str(self.built.library), group
        )
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()

    def evidence(self) -> dict[str, Any]:
        """What the simulator saw."""
        return self.host.order("collect")

    def close(self) -> None:
        """End it."""
        self.host.close()
        self.arena.close()


@pytest.fixture(scope="session")
def libraries(_own_cache: object) -> RuntimeLibraries:
    return runtime_libraries()


@pytest.fixture(scope="session")
def behaviour(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return compile_cuda(HERE / "behaviour.cu", tmp_path_factory.mktemp("behaviour"))


@pytest.fixture
def simulate(libraries: RuntimeLibraries) -> Iterator[Callable[..., Simulated]]:
    """Start simulators that end with the test."""
    started: list[Simulated] = []

    def start(built: Built, architecture: str = "90a") -> Simulated:
        started.append(Simulated(built, libraries, architecture))
        return started[-1].start()

    yield start
    for each in started:
        each.close()


@pytest.fixture
def simulated(behaviour: Built, simulate: Callable[..., Simulated]) -> Simulated:
    """A simulator with ``behaviour.cu`` loaded."""
    return simulate(behaviour)
