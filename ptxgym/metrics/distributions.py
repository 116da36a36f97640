"""How turns end, by turn and by what came before; work fractions; reasoning tokens."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ptxgym.evaluation import WORK_FRACTION_LIMIT
from ptxgym.metrics.turns import BUDGET, Rule, Turn, trajectories

Outcome = Literal[
    "target",
    "target_unknown",
    "other_instructions",
    "incorrect",
    "memory_error",
    "runtime_error",
    "timeout",
    "compile_error",
    "invalid_action",
    "other_error",
    "unknown",
]
"""How a turn ended, best first. The first three are correct: with target instructions, with no evidence about them,
and without them."""

OUTCOMES: tuple[Outcome, ...] = Outcome.__args__  # type: ignore[attr-defined]
_BY_NAME: dict[str, Outcome] = {name: name for name in OUTCOMES[3:]}


def outcome(turn: Turn, rule: Rule) -> Outcome:
    """How a turn ended, by one instruction rule; an unheard-of status is ``other_error``."""
    if turn.correct is None:
        return "unknown"
    if not turn.correct:
        return _BY_NAME.get(turn.status, "other_error")
    by_target: dict[bool | None, Outcome] = {True: "target", None: "target_unknown", False: "other_instructions"}
    return by_target[turn.target(rule)]


def outcomes_by_turn(turns: Iterable[Turn], rule: Rule) -> dict[int, Counter[Outcome]]:
    """Turn number to how often each outcome came at that turn, turns in order.

    Formula: count of turns t whose outcome is o. Source: the paper's figure of outcomes over turns.
    """
    counts: dict[int, Counter[Outcome]] = {}
    for turn in turns:
        counts.setdefault(turn.turn, Counter())[outcome(turn, rule)] += 1
    return dict(sorted(counts.items()))


def transitions(turns: Iterable[Turn], rule: Rule, after: int | None = None) -> dict[Outcome, Counter[Outcome]]:
    """Outcome to how often each outcome came in the turn right after it.

    Formula: N(a → b) = |{(t, t+1) in one trajectory : outcome a at t, b at t+1}|. Source: this project; the original
    samples its repair data by error class and turn. A turn that is missing between two others joins nothing.

    Args:
        turns: The turns.
        rule: The instruction rule.
        after: Only transitions that leave this turn; all by default.
    """
    counts: dict[Outcome, Counter[Outcome]] = {}
    for trajectory in trajectories(turns):
        for now, then in pairwise(trajectory):
            if then.turn == now.turn + 1 and after in (None, now.turn):
                counts.setdefault(outcome(now, rule), Counter())[outcome(then, rule)] += 1
    return {name: counts[name] for name in OUTCOMES if name in counts}


@dataclass(frozen=True, slots=True)
class WorkFractions:
    """How much of the work target instructions did in correct kernels."""

    counts: tuple[int, ...]
    """Correct turns by work fraction, in ten bins of equal width; the last holds 1.0 too."""
    enough: int
    """Correct turns at or above the limit of 0.9."""
    token: int
    """Correct turns that satisfy the paper's rule and not the work rule."""
    unknown: int
    """Correct turns whose work fraction is not known."""


def work_fractions(turns: Iterable[Turn]) -> WorkFractions:
    """The distribution of the work fraction over correct turns.

    Formula: work fraction w = min(1, FLOPs executed by target tensor instructions ÷ FLOPs the operator needs), bin
    ⌊10·w⌋. Source: this project (``InstructionEvidence.work_fraction``); the original's rule is Boolean.
    """
    right = [turn for turn in turns if turn.correct]
    known = [turn for turn in right if not math.isnan(turn.work_fraction)]
    counts = Counter(min(9, int(turn.work_fraction * 10)) for turn in known)
    return WorkFractions(
        counts=tuple(counts[index] for index in range(10)),
        enough=sum(turn.work_fraction >= WORK_FRACTION_LIMIT for turn in known),
        token=sum(bool(turn.target_paper) and turn.target_work is False for turn in known),
        unknown=len(right) - len(known),
    )


def reasoning_tokens(turns: Iterable[Turn], rule: Rule, first: int = BUDGET) -> dict[Outcome, list[int]]:
    """Outcome to the reasoning tokens of the turns that ended so, ascending; turns without a count are left out.

    Source: the original viewer's "reasoning tokens vs. performance".
    """
    found: dict[Outcome, list[int]] = {}
    for turn in turns:
        if turn.turn <= first and turn.reasoning_tokens is not None:
            found.setdefault(outcome(turn, rule), []).append(turn.reasoning_tokens)
    return {name: sorted(found[name]) for name in OUTCOMES if name in found}
