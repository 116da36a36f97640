"""Compute Sanitizer: its command line, and what its log says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ptxgym.devices.device import MemoryReport
from ptxgym.errors import InfrastructureError, MissingToolError

ERROR_EXIT = 86
_REPORTS = 3
_LINES = 8
_SUMMARY = re.compile(r"^=+ ERROR SUMMARY: (\d{1,9}) errors?\s*$", re.MULTILINE)
_RULE = "========="
_BROKEN = re.compile(r"^=+ (Error: )?(Device not supported|Internal Sanitizer Error)", re.MULTILINE)
"""At the start of a line: further on stand names that a source chose."""


def sanitizer_command(log: Path) -> list[str]:
    """The wrapper that runs a process under memcheck and writes to ``log``.

    Errors of API calls are left out: a candidate may probe for what the driver has.

    Raises:
        MissingToolError: compute-sanitizer is not installed.
    """
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if tool is None:
        raise MissingToolError("compute-sanitizer", "It is part of the CUDA toolkit.")
    return [
        *(tool, "--tool", "memcheck", "--report-api-errors", "no", "--print-limit", "20"),
        *("--error-exitcode", str(ERROR_EXIT), "--log-file", str(log)),
    ]


def parse_sanitizer_log(text: str, exit_code: int) -> MemoryReport:
    """What memcheck found. Without its summary the run was not seen to its end.

    Args:
        text: The log, which only the tool writes.
        exit_code: Of the tool; :data:`ERROR_EXIT` when it found something.

    Raises:
        InfrastructureError: The tool did not work on this machine.
    """
    if exit_code != ERROR_EXIT and _BROKEN.search(text):
        raise InfrastructureError(f"compute-sanitizer does not work here: {text.strip()[:300]}")
    summaries = [int(count) for count in _SUMMARY.findall(text)]  # a source's file names may hold some more
    reports = [report for block in text.split(f"{_RULE} \n") if (report := _report(block))]
    invalid = sum(report.startswith("Invalid ") for report in reports)
    errors = max([*summaries, invalid]) if summaries else len(reports)
    if not errors and exit_code == ERROR_EXIT:
        errors = 1
    return MemoryReport(
        tool="compute-sanitizer memcheck",
        errors=errors,
        reports=tuple(reports[:_REPORTS]),
        complete=bool(summaries),
    )


def _report(block: str) -> str:
    """One error in the tool's words, without its rules and the host's stack."""
    lines = []
    for line in block.splitlines():
        line = line.removeprefix(_RULE).strip()
        if line.startswith(("Saved host backtrace", "Host Frame", "COMPUTE-SANITIZER", "ERROR SUMMARY")):
            continue
        if line:
            lines.append(line)
    return "\n".join(lines[:_LINES]) if lines and not lines[0].startswith("Target application") else ""
