"""What the simulator tells a kernel writer, and the exceptions that carry it.

::

    SimulatorError
    ├── PtxSyntaxError         the text is not PTX that this parser reads
    ├── UnknownInstruction     an opcode without a row; never a fault of the candidate
    ├── DeviceFault            the kernel broke a rule that stops a GPU too; carries its Finding
    └── LimitReached           a launch-wide limit was reached; carries its Finding
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How sure the simulator is that the kernel is wrong."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A place in the candidate's source, from nvcc's ``-lineinfo``."""

    file: str = "<ptx>"
    """File name as nvcc wrote it."""
    line: int = 0
    """Line in that file; without line information, the line of the PTX text."""
    inside: str = ""
    """Where it is an inlined call of a function of another file, the place in there, e.g. ``wgmma.cuh:104``."""

    def __str__(self) -> str:
        place = f"{self.file.rsplit('/', 1)[-1]}:{self.line}"
        return f"{place} (in {self.inside})" if self.inside else place


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken contract."""

    code: str
    """Stable identifier, e.g. ``out-of-bounds``."""
    severity: Severity
    """Whether it fails the launch."""
    where: SourceLine
    """The instruction that showed it."""
    message: str
    """One sentence for a kernel writer."""

    def __str__(self) -> str:
        return f"{self.where}: {self.severity}: {self.code}: {self.message}"


class SimulatorError(Exception):
    """Base of the executor's exceptions."""


class PtxSyntaxError(SimulatorError):
    """The text is not PTX that this parser reads."""

    def __init__(self, line: int, expected: str, found: str) -> None:
        super().__init__(f"PTX line {line}: expected {expected}, found {found!r}")


class UnknownInstruction(SimulatorError):  # noqa: N818 -- named after what happened, like KeyError's kin
    """An opcode (or a form of it) that the table does not have."""

    def __init__(self, opcode: str, where: SourceLine, detail: str = "") -> None:
        self.opcode = opcode
        self.where = where
        reason = f" ({detail})" if detail else ""
        super().__init__(
            f"unknown: {opcode} at {where} has no row in the simulator{reason}; this is not counted against the kernel"
        )


class DeviceFault(SimulatorError):  # noqa: N818
    """A violation that ends the launch."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(str(finding))


class LimitReached(SimulatorError):  # noqa: N818
    """The launch used up what it was given."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(str(finding))


class FindingLog:
    """Findings of one launch, each (code, place) once, in the order in which they were seen."""

    def __init__(self, capacity: int = 200) -> None:
        self._capacity = capacity
        self._seen: dict[tuple[str, SourceLine], Finding] = {}

    def add(self, finding: Finding) -> None:
        """Keep the first finding of a code at a place."""
        key = (finding.code, finding.where)
        if key not in self._seen and len(self._seen) < self._capacity:
            self._seen[key] = finding

    def conclude(self, finding: Finding) -> None:
        """Keep what ended the launch, last, however many findings there are."""
        key = (finding.code, finding.where)
        self._seen.pop(key, None)
        self._seen[key] = finding

    def warn(self, code: str, where: SourceLine, message: str) -> None:
        """Record a warning."""
        self.add(Finding(code, Severity.WARNING, where, message))

    def extend(self, findings: Iterable[Finding]) -> None:
        """Record several."""
        for finding in findings:
            self.add(finding)

    def as_tuple(self) -> tuple[Finding, ...]:
        """All of them, first seen first."""
        return tuple(self._seen.values())
