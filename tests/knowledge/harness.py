"""Compiles the kernels of these tests against the headers of ``knowledge/``, to PTX and to SASS, once per content."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

from ptxgym.devices.simulator.module import Module, load_module
from ptxgym.toolchain.toolkit import find_nvdisasm, find_toolkit

INCLUDE = Path(__file__).parents[2] / "knowledge" / "include"
CUDA = Path(__file__).parent / "cuda"
_CACHE = Path(tempfile.gettempdir()) / f"ptxgym-knowledge-{os.getuid()}"


def _run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def key_of(source: str, *more: str) -> str:
    """A name for what these texts and all headers give."""
    headers = "".join(path.read_text() for path in sorted(INCLUDE.rglob("*.cuh")))
    return hashlib.sha256(repr((source, headers, more)).encode()).hexdigest()[:24]


def _file(source: str, architecture: str, suffix: str) -> Path:
    _CACHE.mkdir(exist_ok=True)
    return _CACHE / f"{key_of(source, architecture)}.{suffix}"


@functools.cache
def ptx_of(source: str, architecture: str) -> Path:
    """PTX of CUDA source text that includes the headers."""
    target = _file(source, architecture, "ptx")
    if not target.exists():
        text = target.with_suffix(f".{os.getpid()}.cu")
        text.write_text(source)
        scratch = target.with_suffix(f".{os.getpid()}.tmp")
        code = f"arch=compute_{architecture},code=compute_{architecture}"
        _run(find_toolkit().nvcc, "-ptx", "-lineinfo", "-std=c++17", "-O3", f"-I{INCLUDE}", "-gencode", code,
             "-Werror", "all-warnings", "-o", scratch, text)  # fmt: skip
        scratch.rename(target)
        text.unlink()
    return target


@functools.cache
def module_of(source: str, architecture: str) -> Module:
    """What the simulator runs."""
    return load_module(ptx_of(source, architecture).read_text())


@functools.cache
def opcodes_of(source: str, architecture: str) -> dict[str, tuple[str, ...]]:
    """SASS opcodes by kernel, in order."""
    listing = _file(source, architecture, "json")
    if not listing.exists():
        ptx = ptx_of(source, architecture)
        cubin, scratch = listing.with_suffix(f".{os.getpid()}.cubin"), listing.with_suffix(f".{os.getpid()}.tmp")
        ptxas = find_toolkit().nvcc.parent / "ptxas"
        _run(ptxas if ptxas.exists() else "ptxas", f"-arch=sm_{architecture}", "-o", cubin, ptx)
        scratch.write_text(_run(find_nvdisasm(), "-json", cubin))
        scratch.rename(listing)
        cubin.unlink()
    _, functions = json.loads(listing.read_text())
    return {f["function-name"]: tuple(line["opcode"] for line in f["sass-instructions"]) for f in functions}
