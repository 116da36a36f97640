"""Build ``libcuda.so.1`` and ``libcudart.so.13`` from the C sources beside this file, once."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ptxgym.errors import InfrastructureError
from ptxgym.toolchain import Cache, Toolkit, content_key, find_toolkit

_SOURCES = Path(__file__).parent / "csrc"
DRIVER_SOURCES = (
    *("connection", "device", "memory", "copy", "stream", "module", "launch", "tensor_map"),
    *("entry_points", "refused_driver"),
)
RUNTIME_SOURCES = (
    *("registration", "runtime_launch", "runtime_memory", "runtime_device", "properties"),
    "refused_runtime",
)
_FLAGS = (
    *("-x", "c", "-std=gnu11", "-O2", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror"),
    *("-Wno-deprecated-declarations", "-Wl,--no-undefined", "-Wl,-Bsymbolic"),
)


@dataclass(frozen=True, slots=True)
class RuntimeLibraries:
    """Where the two libraries are."""

    driver: Path
    """``libcuda.so.1``"""
    runtime: Path
    """``libcudart.so.13``"""


def runtime_libraries() -> RuntimeLibraries:
    """The two libraries, compiled against the CUDA headers of the toolkit and kept by their content.

    Raises:
        MissingToolError: There is no toolkit or no host compiler.
        InfrastructureError: They do not compile.
    """
    toolkit, cache = find_toolkit(), Cache("simulator-runtime")
    files = sorted(path for path in _SOURCES.iterdir() if path.suffix in (".c", ".h", ".def", ".map"))
    sources = {path.name: path.read_text(encoding="utf-8") for path in files}
    key = content_key(sources=sources, flags=_FLAGS, headers=toolkit.version, compiler=str(toolkit.host_compiler))
    if cache.find(key) is None:
        with cache.adding(key) as folder:
            build(folder, toolkit)
    kept = cache.find(key)
    if kept is None:
        raise InfrastructureError(f"The simulator's CUDA runtime could not be kept in {cache.folder}.")
    return RuntimeLibraries(kept / "libcuda.so.1", kept / "libcudart.so.13")


def refused_names() -> frozenset[str]:
    """Functions that are exported, fail, and are recorded when they are called."""
    lists = (_SOURCES / "refused_driver.def", _SOURCES / "refused_runtime.def")
    text = "".join(path.read_text(encoding="utf-8") for path in lists)
    return frozenset(re.findall(r"^REFUSED\((\w+)\)", text, re.MULTILINE))


def support() -> dict[str, bool]:
    """Every CUDA function that the two libraries export, by name: whether it works. The others are refused by name."""
    libraries, refused = runtime_libraries(), refused_names()
    names: set[str] = set()
    for path in (libraries.driver, libraries.runtime):
        command = ["nm", "-D", "--defined-only", str(path)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names.update(line.split()[2].partition("@")[0] for line in text.splitlines())
    return {name: name not in refused for name in sorted(names) if re.match(r"(__)?cu(da)?[A-Z]", name)}


def build(folder: Path, toolkit: Toolkit) -> None:
    """Compile both libraries into a folder."""
    _link(folder, toolkit, "libcuda.so.1", "libcuda.map", DRIVER_SOURCES)
    uses_driver = ("-Wl,-rpath,$ORIGIN", "-x", "none", "libcuda.so.1")
    _link(folder, toolkit, "libcudart.so.13", "libcudart.map", RUNTIME_SOURCES, *uses_driver)


def _link(folder: Path, toolkit: Toolkit, name: str, script: str, sources: tuple[str, ...], *more: str) -> None:
    compiler = shutil.which("gcc") or str(toolkit.host_compiler)
    command = [
        *(compiler, *_FLAGS, f"-I{toolkit.root / 'include'}"),
        *(f"-Wl,-soname,{name}", f"-Wl,--version-script={_SOURCES / script}"),
        *(str(_SOURCES / f"{source}.c") for source in sources),
        *(*more, "-o", name),
    ]
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfrastructureError(f"The simulator's CUDA runtime could not be compiled: {error}") from error
    if result.returncode:
        raise InfrastructureError(f"The simulator's CUDA runtime does not compile:\n{result.stderr[:2000]}")
