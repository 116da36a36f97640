"""How near the kernel that was shown is to the one that was then submitted.

A fixed kernel of the same problem in the prompt is nearly the answer, and success then says little about learning. The
report measures it from the run's records alone: retrieval depends on nothing but the submitted source, so what was
shown is found again rather than read out of text.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from baselines.retrieval.index import Index, tokens
from baselines.retrieval.policy import Retriever
from baselines.retrieval.repairs import Repair, read_repairs
from ptxgym.errors import MisuseError
from ptxgym.runs import TrajectoryKey, TurnRecord, read_run, read_turns

NEARLY = 0.9
"""An answer this much of which stands in the shown kernel is counted as all but copied."""


@dataclass(frozen=True, slots=True)
class Similarity:
    """Two kernels' likeness, each number in [0, 1]."""

    token_set: float
    """Words in both ÷ words in either (Jaccard)."""
    common: float
    """The share of the second kernel's words that stand in the first, in the same order (longest common
    subsequence)."""


def similarity(shown: str, submitted: str) -> Similarity:
    """How much of a submitted kernel stands in a shown one. Comments are passed over."""
    first, second = tokens(shown), tokens(submitted)
    either = set(first) | set(second)
    return Similarity(
        len(set(first) & set(second)) / len(either) if either else 0.0,
        longest_common(first, second) / len(second) if second else 0.0,
    )


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence.

    Source: Hyyrö's bit-parallel algorithm (2004), one addition of a long integer per word of ``second``.
    """
    places: dict[str, int] = {}
    for number, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << number
    full = (1 << len(first)) - 1
    row = full
    for word in second:
        matches = row & places.get(word, 0)
        row = ((row + matches) | (row - matches)) & full
    return len(first) - row.bit_count()


@dataclass(frozen=True, slots=True)
class Leak:
    """One trajectory in which a kernel was shown before its last submission."""

    env: str
    variant: str
    trajectory: int
    shown: int
    """How many different kernels were shown."""
    nearest: str
    """The row of the shown kernel that the last submission has most of."""
    problem: str
    """That row's problem."""
    asked: Similarity
    """Of that kernel to the failing one for which it was shown: how near the policy was on its own."""
    answered: Similarity
    """Of that kernel to the last submission."""
    correct: bool
    """Whether the last submission was right."""

    @property
    def same_problem(self) -> bool:
        """Whether the shown kernel solves the very problem."""
        return self.problem == self.env

    @property
    def copied(self) -> bool:
        """Whether the answer is all but the kernel that was shown."""
        return self.answered.common >= NEARLY


@dataclass(frozen=True, slots=True)
class LeakageReport:
    """The leaks of a run."""

    leaks: tuple[Leak, ...]
    trajectories: int
    """All of the run."""

    @property
    def same_problem(self) -> int:
        """Trajectories whose nearest shown kernel solves the very problem."""
        return sum(leak.same_problem for leak in self.leaks)

    @property
    def copied(self) -> int:
        """Trajectories that ended with all but the shown kernel."""
        return sum(leak.copied for leak in self.leaks)

    @property
    def correct(self) -> int:
        """Trajectories that ended with a right kernel after one was shown."""
        return sum(leak.correct for leak in self.leaks)

    @property
    def correct_and_copied(self) -> int:
        """Right ones among those."""
        return sum(leak.correct and leak.copied for leak in self.leaks)

    @property
    def median_common(self) -> tuple[float, float]:
        """The median share of the shown kernel in the failing one, and in the last submission."""
        if not self.leaks:
            return float("nan"), float("nan")
        return (
            statistics.median(leak.asked.common for leak in self.leaks),
            statistics.median(leak.answered.common for leak in self.leaks),
        )


def leakage(run: Path, repairs: Path | None = None) -> LeakageReport:
    """The leaks of a run of the policy ``in-context``.

    Args:
        run: The run's folder.
        repairs: Where its data set lies now, if elsewhere.

    Raises:
        MisuseError: The run shows no kernels, or the data set is another than it was.
    """
    settings = read_run(run).policy_settings
    if settings.get("shown") != "notes+kernel":
        raise MisuseError(
            f"The run in {run} shows no kernels (shown={settings.get('shown', 'nothing')}); nothing leaks."
        )
    path = repairs or Path(settings["repairs"])
    found = read_repairs(path)
    if found.sha256 != settings["repairs_sha256"]:
        raise MisuseError(f"{path} is not the data set that the run in {run} had. Name it with --repairs.")
    retriever = Retriever(Index(found.repairs), bool(settings["other_problems"]))
    played: dict[TrajectoryKey, list[TurnRecord]] = {}
    for turn in read_turns(run):
        played.setdefault(turn.key, []).append(turn)
    leaks = [_leak(retriever, sorted(turns, key=lambda turn: turn.turn)) for turns in played.values()]
    return LeakageReport(tuple(leak for leak in leaks if leak), len(played))


def _leak(retriever: Retriever, turns: Sequence[TurnRecord]) -> Leak | None:
    """A trajectory's leak; None when nothing was shown before its last submission that holds a source."""
    submitted = [turn for turn in turns if turn.source]
    if not submitted:
        return None
    last = submitted[-1]
    shown: dict[str, tuple[Repair, str]] = {}
    for turn in turns[: turns.index(last)]:
        if turn.evaluation.status != "passed" and turn.evaluation.valid:
            hits = retriever.hits(turn.env, turn.source)
            if hits:
                shown.setdefault(hits[0].repair.id, (hits[0].repair, turn.source))
    if not shown:
        return None
    likeness = {name: similarity(repair.fixed, last.source) for name, (repair, _) in shown.items()}
    nearest = max(shown, key=lambda name: (likeness[name].common, likeness[name].token_set))
    repair, asked_for = shown[nearest]
    return Leak(
        env=last.env,
        variant=last.variant,
        trajectory=last.trajectory,
        shown=len(shown),
        nearest=nearest,
        problem=repair.problem,
        asked=similarity(repair.fixed, asked_for),
        answered=likeness[nearest],
        correct=last.evaluation.stage("correctness").status == "passed",
    )
