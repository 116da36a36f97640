"""What one run did, as the simulator saw it. Plain data, so that it travels as JSON to the judge."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ptxgym.devices.simulator.findings import Severity

if TYPE_CHECKING:
    from ptxgym.devices.simulator.machine import LaunchReport

_MOST_LAUNCHES = 512
"""Launches that are kept apart. Beyond, each is counted with one of the same kernel."""
_MOST_NOTES = 50
_MOST_OUTPUT = 64 << 10


@dataclass(slots=True)
class LaunchEvidence:
    """One launch, or several of one kernel once there were too many to keep apart."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic_shared: int
    error: str | None = None
    """As :class:`~ptxgym.devices.simulator.machine.LaunchReport` has it."""
    executed: dict[str, int] = field(default_factory=dict)
    tensor_flops: dict[str, int] = field(default_factory=dict)
    """By ``family/type``, e.g. ``wgmma/bf16``."""
    bytes: dict[str, int] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    """Code, severity, file, line, message and the whole as text."""
    launches: int = 1

    def add(self, report: LaunchReport) -> None:
        """Count a report in."""
        self.error = self.error or report.error
        _count(self.executed, report.executed)
        _count(self.tensor_flops, {"/".join(key): n for key, n in report.tensor_flops.items()})
        _count(self.bytes, report.bytes)
        ended = report.findings[-1:] if report.error else ()  # by this, which is kept whatever came before
        for finding in report.findings:
            if len(self.findings) >= _MOST_NOTES and finding not in ended and finding.severity is Severity.WARNING:
                continue
            where = finding.where
            self.findings.append(
                {
                    "code": finding.code,
                    "severity": str(finding.severity),
                    "file": where.file,
                    "line": where.line,
                    "message": finding.message[:2000],
                    "text": str(finding)[:2000],
                }
            )


@dataclass(slots=True)
class Evidence:
    """Everything since the judge last asked."""

    launches: list[LaunchEvidence] = field(default_factory=list)
    fault: int = 0
    """The ``CUresult`` that ended the context, 0 without."""
    uploaded: int = 0
    """Bytes that host code copied to the device."""
    downloaded: int = 0
    """Bytes that host code copied from the device."""
    refused: list[str] = field(default_factory=list)
    """Calls that this runtime lacks, and launches that it refused to make."""
    hints: list[str] = field(default_factory=list)
    """Why calls were answered with an error."""
    limits: list[str] = field(default_factory=list)
    """Where the simulator ended before the candidate did."""
    timeouts: list[str] = field(default_factory=list)
    """Launches that did not end within what a run is given."""
    problems: list[str] = field(default_factory=list)
    """Faults of the simulator itself."""
    protocol: list[str] = field(default_factory=list)
    """Messages that no shim of ours sends."""
    output: str = ""
    """What kernels printed."""

    def launch(self, like: LaunchEvidence) -> LaunchEvidence:
        """Where a launch is to be counted."""
        if len(self.launches) >= _MOST_LAUNCHES:
            same = next((launch for launch in reversed(self.launches) if launch.name == like.name), None)
            if same is not None:
                same.launches += 1
                return same
        self.launches.append(like)  # a candidate has as many kernels as its source, so this ends too
        return like

    def note(self, notes: list[str], text: str) -> None:
        """Add a sentence to one of the lists, once."""
        if text not in notes and len(notes) < _MOST_NOTES:
            notes.append(text[:1000])

    def print(self, text: str) -> None:
        """Keep what a kernel printed, as far as the limit."""
        self.output += text[: max(0, _MOST_OUTPUT - len(self.output))]

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def _count(total: dict[str, int], more: dict[str, int]) -> None:
    for key, value in more.items():
        total[key] = total.get(key, 0) + int(value)
