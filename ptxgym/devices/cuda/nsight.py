"""Nsight Compute: its command line, and the instruction counts in its CSV."""

from __future__ import annotations

import csv
import io
import shutil
from collections import Counter
from pathlib import Path

from ptxgym.devices.device import KernelExecution
from ptxgym.errors import InfrastructureError, MissingToolError

_EXECUTED, _TRUE_THREADS = "inst_executed", "thread_inst_executed_true"


def nsight_command(log: Path, from_start: bool) -> list[str]:
    """The wrapper that runs a process under Nsight Compute and writes every kernel's SASS with counts to ``log``.

    Args:
        log: Where to write.
        from_start: Whether every kernel is counted and the process has no say in it; else those between
            ``cuProfilerStart`` and ``cuProfilerStop``.

    Raises:
        MissingToolError: ncu is not installed.
    """
    tool = shutil.which("ncu") or shutil.which("/usr/local/cuda/bin/ncu")
    if tool is None:
        raise MissingToolError("ncu (Nsight Compute)", "It is part of the CUDA toolkit.")
    return [
        *(
            tool,
            "--clock-control",
            "none",
            "--cache-control",
            "none",
            "--metrics",
            f"{_EXECUTED},{_TRUE_THREADS}",
        ),
        *("--import-source", "no", "--page", "source", "--print-source", "sass", "--csv"),
        *(["--disable-profiler-start-stop"] if from_start else ["--profile-from-start", "off"]),
        *("--print-kernel-base", "mangled", "--log-file", str(log)),
    ]


def nsight_files() -> list[str]:
    """What the tool's part in the profiled process reads after the process has given up its files."""
    tool = Path(shutil.which("ncu") or "/usr/local/cuda/bin/ncu").resolve()
    return [
        str(tool.parent.parent),
        "/opt/nvidia",
        "/usr/lib",
        "/usr/lib64",
        "/lib",
        "/lib64",
        "/etc/ld.so.cache",
    ]


def parse_nsight_log(text: str) -> tuple[KernelExecution, ...]:
    """Predicate-true thread executions by opcode, for every kernel in launch order.

    Every warp executes a kernel's first instruction once, so its count is the number of warps.

    Args:
        text: The log, which only the tool writes: lines starting with ``==``, then a table per kernel.

    Raises:
        InfrastructureError: Counters were refused, or a value is missing. Never read as "not executed".
    """
    if any(line.startswith("==ERROR==") and "ERR_NVGPUCTRPERM" in line for line in text.splitlines()):
        raise InfrastructureError(
            "The driver refuses performance counters to this user (ERR_NVGPUCTRPERM). Run as root, or load the driver "
            "with NVreg_RestrictProfilingToAdminUsers=0."
        )
    table = "\n".join(line for line in text.splitlines() if not line.startswith("=="))
    kernels: list[tuple[str, Counter[str]]] = []
    warps: list[int] = []
    columns: dict[str, int] = {}
    try:
        for row in csv.reader(io.StringIO(table)):
            if row and row[0] == "Kernel Name":
                kernels.append((row[1], Counter()))
                warps.append(0)
            elif row and row[0] == "Address":
                columns = {name: position for position, name in enumerate(row)}
            elif row:
                opcode = _opcode(row[columns["Source"]])
                if not kernels[-1][1]:
                    warps[-1] = int(row[columns[_EXECUTED]])
                kernels[-1][1][opcode] += int(row[columns[_TRUE_THREADS]])
    except (ValueError, LookupError, csv.Error) as error:
        raise InfrastructureError(f"Nsight Compute gave a table that cannot be read ({error}).") from None
    if not kernels and ("==ERROR==" in text or "Connected to process" not in text):
        raise InfrastructureError(f"Nsight Compute did not work here: {text.strip()[:300]}")
    return tuple(
        KernelExecution(name=name, warps=count, threads=dict(threads))
        for (name, threads), count in zip(kernels, warps, strict=True)
    )


def _opcode(source: str) -> str:
    """The opcode of a line of SASS, e.g. of ``@!P0  BRA 0x10``."""
    words = source.replace(";", " ").split()
    return words[1] if words[0].startswith("@") else words[0]
