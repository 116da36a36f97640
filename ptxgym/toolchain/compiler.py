"""Source to Program: one nvcc call gives the host library, the PTX, the cubin and the ptxas report."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from pathlib import Path

from ptxgym.errors import InfrastructureError
from ptxgym.tasks import Task
from ptxgym.toolchain.cache import Cache, content_key
from ptxgym.toolchain.headers import header_digest, header_folder
from ptxgym.toolchain.process import Limits, ToolResult, run_tool
from ptxgym.toolchain.program import KernelInstructions, KernelResources, Program
from ptxgym.toolchain.ptxas import parse_advisories, parse_resources
from ptxgym.toolchain.sass import disassemble
from ptxgym.toolchain.source import Source
from ptxgym.toolchain.toolkit import Toolkit, find_toolkit

_FORMAT = 1
"""Raise it when the same source must be built again: it is part of every key."""

_CONTRACT = "ptxgym_contract.h"
_KEPT = ("kernel.cu", "kernel.so", "kernel.ptx", "kernel.cubin", "program.json")
_DIAGNOSTICS_LENGTH = 16_000
_UNRESOLVED = re.compile(r"undefined reference to [`']([^'`]{1,4096})'")
_DRIVER_SYMBOL = re.compile(r"cu[A-Z]\w*\Z")
_OTHER_RUN = re.compile(
    r'error: (?:more than one instance of overloaded function "run" has "C" linkage'
    r"|cannot overload functions distinguished by return type alone\n[^\n]{0,1000}\brun\s*\()"
)
"""What nvcc says of a ``run`` that is not the declared one; it shows that one alone."""


def compile_source(source: Source, task: Task, cache: Cache | None = None, limits: Limits | None = None) -> Program:
    """Compile a source for a task, or find the Program in the cache.

    The generated header ``ptxgym_contract.h``, which declares the task's ``run``, is included before the source: a
    ``run`` with other parameters is a compile error, to which the task's declaration is added.

    Args:
        source: The checked source.
        task: It decides the signature and the architecture.
        cache: Where Programs are kept; the user's cache by default.
        limits: Of the compiler.

    Raises:
        InfrastructureError: There is no compiler here, or it could not run. Never for a source that it refuses.
    """
    toolkit, cache, limits = find_toolkit(), cache or Cache("programs"), limits or Limits()
    command = nvcc_command(toolkit, task)
    key = content_key(
        format=_FORMAT,
        source=source.text,
        signature=task.operator.signature(),
        flags=command[1:],
        headers=header_digest(),
        compiler=toolkit.version,
    )
    if kept := cache.load(key, "program.json", Program):
        return kept[0].model_copy(update={"folder": kept[1]})
    with cache.scratch() as folder:
        program = _build(source, task, toolkit, command, key, folder, limits)
        if program.status == "timeout":  # depends on the machine's load: not to be remembered
            return program
        (folder / "program.json").write_text(program.model_dump_json(), encoding="utf-8")
        _tidy(folder)
        cache.keep(key, folder)
    final = cache.find(key)
    if final is None:
        raise InfrastructureError(f"The compiled program could not be kept in {cache.folder}.")
    return program.model_copy(update={"folder": final})


def nvcc_command(toolkit: Toolkit, task: Task) -> list[str]:
    """The nvcc call, run in the folder that holds ``kernel.cu``.

    ``-cudart none`` with the library by its full name links against wheels too, which lack the development link.
    Nothing is compressed, so that :mod:`~ptxgym.toolchain.ablation` finds the machine code in the library.
    Unresolved symbols are warnings because ``libcuda.so.1`` is not on every machine that compiles.
    """
    target = task.architecture.target
    return [
        *(str(toolkit.nvcc), "-shared", "-O3", "-std=c++17", "-lineinfo", "-no-compress"),
        *("-gencode", f"arch=compute_{target},code=sm_{target}"),
        *("-ccbin", str(toolkit.host_compiler), "-Xcompiler", "-fPIC"),
        *([f"-I{header_folder()}"] if header_folder() else []),
        *("-include", _CONTRACT, "-Xptxas", "-v", "--keep", "--keep-dir", "."),
        *("-cudart", "none", f"-L{toolkit.runtime}", "-l:libcudart.so.13"),
        *("-Xlinker", "--no-undefined", "-Xlinker", "--warn-unresolved-symbols"),
        *("-o", "kernel.so", "kernel.cu"),
    ]


def contract_header(task: Task) -> str:
    """The header that is included before every source of a task."""
    return f"#pragma once\n#include <cuda_runtime.h>\n#include <cuda_bf16.h>\n{task.operator.signature()}\n"


def _build(
    source: Source, task: Task, toolkit: Toolkit, command: list[str], key: str, folder: Path, limits: Limits
) -> Program:
    start = time.monotonic()
    (folder / "kernel.cu").write_text(source.text, encoding="utf-8")
    (folder / _CONTRACT).write_text(contract_header(task), encoding="utf-8")
    result = run_tool(command, cwd=folder, readable=_readable(toolkit), limits=limits)
    status, complaint = _status(result, folder, toolkit, limits, task)
    compiled = status == "compiled"
    if compiled:
        _name_cubin(folder)
    instructions = disassemble(folder / "kernel.cubin", toolkit.nvdisasm) if compiled else ()
    return Program(
        source_sha256=hashlib.sha256(source.text.encode("utf-8")).hexdigest(),
        key=key,
        target=f"sm_{task.architecture.target}",
        status=status,
        diagnostics=_diagnostics(result.output, folder, complaint),
        kernels=_resources(result.output, instructions),
        instructions=instructions,
        advisories=parse_advisories(result.output) if compiled else (),
        compiler=f"nvcc {toolkit.version}",
        seconds=time.monotonic() - start,
        folder=folder,
    )


def _resources(report: str, instructions: tuple[KernelInstructions, ...]) -> tuple[KernelResources, ...]:
    """What ptxas says of the kernels that exist. A source can write into the report too; ptxas has the last word."""
    said = {kernel.name: kernel for kernel in parse_resources(report)}
    return tuple(said[kernel.name] for kernel in instructions if kernel.name in said)


def _readable(toolkit: Toolkit) -> tuple[Path, ...]:
    headers = header_folder()
    return (*toolkit.readable(), headers) if headers else toolkit.readable()


def _status(result: ToolResult, folder: Path, toolkit: Toolkit, limits: Limits, task: Task) -> tuple[str, str]:
    """(status, what the compiler did not say itself)."""
    if result.timed_out:
        return "timeout", f"The compiler was stopped after {limits.seconds:.0f} s."
    declared = f"The task declares: {task.operator.signature()}"
    if result.returncode != 0 or not (folder / "kernel.so").exists():
        silent = f"nvcc ended with code {result.returncode} and no message."
        other = f"`run` is not the function that is asked for. {declared}" if _OTHER_RUN.search(result.output) else ""
        return "rejected", other if result.output.strip() else silent
    missing = sorted({name for name in _UNRESOLVED.findall(result.output) if not _DRIVER_SYMBOL.match(name)})
    if missing:
        return "rejected", f"Link error: {', '.join(missing)} is declared but defined nowhere."
    if "run" not in _exported(folder, toolkit):
        return "rejected", f"The library exports no `run`. {declared}"
    return "compiled", ""


def _exported(folder: Path, toolkit: Toolkit) -> set[str]:
    """The names of the functions that the library exports."""
    nm = shutil.which("nm")
    if nm is None:
        raise InfrastructureError("nm was not found. It comes with the host compiler's binutils.")
    result = run_tool([nm, "-D", "--defined-only", "kernel.so"], cwd=folder, readable=toolkit.readable())
    lines = (line.split() for line in result.output.splitlines())
    return {fields[2].partition("@")[0] for fields in lines if len(fields) == 3 and fields[1] in "TW"}


def _name_cubin(folder: Path) -> None:
    """Some versions of nvcc put the architecture into the names of what they keep."""
    for suffix in ("ptx", "cubin"):
        for path in folder.glob(f"kernel*.{suffix}"):
            path.rename(folder / f"kernel.{suffix}")


def _diagnostics(output: str, folder: Path, complaint: str) -> str:
    """What the writer should read: no folder of ours, no statistics of ptxas, bounded in length."""
    lines = [
        line.replace(f"{folder}/", "")
        for line in output.splitlines()
        if not line.startswith("ptxas info") and "bytes stack frame" not in line and "undefined reference" not in line
    ]
    text = "\n".join(filter(None, [complaint, *lines])).strip()
    return text if len(text) <= _DIAGNOSTICS_LENGTH else f"{text[:_DIAGNOSTICS_LENGTH]}\n[…]"


def _tidy(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name not in _KEPT:
            path.unlink()
