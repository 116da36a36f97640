"""What the steps leave behind: JSONL in one folder, the *work folder*. Each record has its format's version.

::

    failures.jsonl   mine         Failure: a failed turn, the problem, the kernel, the feedback
    solutions.jsonl  mine         Pair without a failure: a turn that passed, for KernelGen
    repairs.jsonl    repair       Repair: what became of a failure, with the Pair when it was mended
    twins.jsonl      synthesize   Twin: what became of a mutant, with the Pair when it broke the kernel
    reasons.jsonl    reason       Reasoning: a Pair and the way that leads to its kernel
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from ptxgym.errors import MisuseError
from ptxgym.evaluation import Evaluation
from ptxgym.runs.records import Usage, read_lines
from ptxgym.toolchain import Record
from ptxgym.trajectories import EvaluationRecord

FAILURES, SOLUTIONS, REPAIRS, TWINS, REASONS = (
    "failures.jsonl",
    "solutions.jsonl",
    "repairs.jsonl",
    "twins.jsonl",
    "reasons.jsonl",
)

Method = Literal["fixit", "kernelgen"]
"""``fixit``: problem, failing kernel and feedback to reasoning and kernel; ``kernelgen``: from the problem alone."""


class Problem(Record):
    """What a policy was asked."""

    env: str
    """The instance, e.g. ``PTXBench-GEMM-H100``."""
    system: str
    prompt: str


class Origin(Record):
    """Where a kernel comes from."""

    run: str
    """A run's id, or the file that a twin was made from."""
    model: str = ""
    variant: str = ""
    trajectory: int = 0
    turn: int = 1
    """1 for the first submission."""


class Failure(Record):
    """A failed turn: x = (problem, k⁻, e)."""

    version: Literal[1] = 1
    id: str
    """Of instance and normalised source, so that the same failure has the same id in every mining."""
    problem: Problem
    source: str
    """k⁻, as submitted."""
    feedback: str
    """e, as the policy read it."""
    error_class: str
    """The evaluation's status; ``finding`` for a twin that passes although the simulator warns."""
    evaluation: Evaluation
    origin: Origin
    round: int = 0
    """Which checkpoint's runs it was mined from; 0 for the first."""


class BrokenContract(Record):
    """What is wrong with a failing kernel, as far as it is known for sure."""

    mutation: str
    """What was done to the passing kernel, e.g. ``drop-proxy-fence``."""
    contract: str
    """Its number in ``knowledge/``, e.g. ``12``; empty when the finding belongs to none."""
    code: str
    """The simulator's finding, e.g. ``missing-proxy-fence``; empty when only the numbers showed it."""
    finding: str
    """The finding's whole text, or the failed stage's sentence."""
    line: int
    """The line of the failing kernel that the finding names, 0 without."""
    expected: bool
    """Whether the finding is one of those that this mutation was made to cause."""
    before: str
    """The lines of the passing kernel that differ."""
    after: str
    """The lines of the failing kernel that differ."""


class Pair(Record):
    """A verified kernel, and the failure that it mends."""

    version: Literal[1] = 1
    id: str
    problem: Problem
    failure: Failure | None = None
    """None for a solution that was not made from a failure."""
    kernel: str
    """k⁺: the environment passed exactly this text."""
    verification: EvaluationRecord
    """Can be judged again; see :func:`ptxgym.trajectories.reproduce`."""
    made_by: Literal["teacher", "mutation", "policy"]
    teacher: str = ""
    notes: str = ""
    """What the teacher wrote around the kernel."""
    kept: float = 1.0
    """Share of the failing kernel's lines that the mended one still has."""
    broken: BrokenContract | None = None
    round: int = 0

    @property
    def error_class(self) -> str:
        """The failure's class; ``none`` without a failure."""
        return self.failure.error_class if self.failure else "none"


class Repair(Record):
    """What became of a failure. It is final: a failure with one is not tried again."""

    version: Literal[1] = 1
    failure: str
    """The failure's id."""
    outcome: Literal["repaired", "turn_budget", "context_full"]
    pair: Pair | None = None
    attempts: tuple[str, ...]
    """One word per answer: a status of the environment, ``unusable``, ``unchanged``, ``repeated`` or ``slow``."""
    usage: Usage = Usage()
    teacher: str
    created: str


class Twin(Record):
    """What became of a mutant of a passing kernel."""

    version: Literal[1] = 1
    id: str
    env: str
    parent: str
    """SHA-256 of the passing kernel."""
    mutation: str
    outcome: Literal["pair", "harmless", "discarded"]
    """``harmless``: it passes without the finding that it should have caused. ``discarded``: it does not compile, no
    verdict can be had, or the kernel that it was made from does not pass here."""
    status: str
    """The mutant's status in the environment."""
    pair: Pair | None = None
    created: str


class Reasoning(Record):
    """A pair and the way to its kernel."""

    version: Literal[1] = 1
    id: str
    """Of the pair, the method and the teacher."""
    method: Method
    pair: Pair
    outcome: Literal["accepted", "rejected"]
    text: str = ""
    """In the first person; empty when no try was accepted."""
    rejections: tuple[str, ...] = ()
    """Why earlier tries were not taken: ``leak: …``, ``forbidden: …``, ``too long``, ``too short`` …"""
    teacher: str
    """A model, or ``finding`` for a text written from the simulator's finding."""
    usage: Usage = Usage()
    created: str


def content_id(*parts: str) -> str:
    """A short name for a content; sixteen hexadecimal digits."""
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_failures(work: Path) -> Iterator[Failure]:
    """The mined failures of a work folder.

    Raises:
        MisuseError: There are none yet.
    """
    path = work / FAILURES
    if not path.exists():
        raise MisuseError(f"{work} has no {FAILURES}. `ptxgym fixit mine RUN --out {work}` writes it.")
    return read_lines(path, Failure)


def read_pairs(work: Path) -> Iterator[Pair]:
    """Every verified pair of a work folder: repairs, twins, solutions.

    Raises:
        MisuseError: No step that makes pairs has run there.
    """
    present = [name for name in (REPAIRS, TWINS, SOLUTIONS) if (work / name).exists()]
    if not present:
        raise MisuseError(
            f"{work} has no pairs. `ptxgym fixit repair` makes them from failures, `ptxgym fixit synthesize` from "
            "passing kernels, `ptxgym fixit mine --passed` from turns that passed."
        )
    return _read_pairs(work, present)


def _read_pairs(work: Path, names: list[str]) -> Iterator[Pair]:
    for name in names:
        if name == SOLUTIONS:
            yield from read_lines(work / name, Pair)
        else:
            kind: type[Repair] | type[Twin] = Repair if name == REPAIRS else Twin
            yield from (record.pair for record in read_lines(work / name, kind) if record.pair)


def read_reasonings(work: Path) -> Iterator[Reasoning]:
    """The accepted reasonings of a work folder.

    Raises:
        MisuseError: There are none yet.
    """
    path = work / REASONS
    if not path.exists():
        raise MisuseError(f"{work} has no {REASONS}. `ptxgym fixit reason {work}` writes it.")
    return (record for record in read_lines(path, Reasoning) if record.outcome == "accepted")
