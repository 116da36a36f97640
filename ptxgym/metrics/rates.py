"""Shares of turns and of trajectories that succeeded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ptxgym.metrics.turns import BUDGET, Rule, Turn, qualifies, trajectories, within


@dataclass(frozen=True, slots=True)
class Rate:
    """Successes out of a total, with what could not be decided."""

    successes: int
    total: int
    unknown: int
    """Cases in the total that could not be decided; they do not count as successes."""
    not_taken: int
    """Turns in the total that a trajectory did not take; they do not count as successes."""

    @property
    def share(self) -> float:
        """Successes ÷ total in [0, 1]; NaN for an empty total."""
        return self.successes / self.total if self.total else math.nan


def turn_correctness(turns: Iterable[Turn], first: int = BUDGET, rule: Rule | None = None) -> Rate:
    """The share of turns that succeeded among the first ``first`` of every trajectory.

    Formula: Σ over trajectories of |{t ≤ n : qualifies(turn t)}| ÷ (n × trajectories), n being at most the run's
    budget. Source: the paper's Table 1 (12, 48 and 96 turns for n = 1, 4 and 8). A success is a correct kernel, and
    with a ``rule`` one that also used the target instructions. What is unknown stays in the denominator and is counted,
    as are turns not taken.
    """
    rows = [within(trajectory, first) for trajectory in trajectories(turns)]
    taken = [turn for row in rows for turn in row if turn is not None]
    verdicts = [qualifies(turn, rule) for turn in taken]
    total = sum(map(len, rows))
    return Rate(verdicts.count(True), total, verdicts.count(None), total - len(taken))


def trajectory_success(turns: Iterable[Turn], first: int = BUDGET, rule: Rule | None = None) -> Rate:
    """The share of trajectories with at least one success among their first ``first`` turns.

    Formula: |{trajectory : some t ≤ n qualifies}| ÷ trajectories. Source: the viewer of the original benchmark, which
    calls it correctness by release date. A trajectory without a success counts as unknown when one of its turns is.
    """
    rows = [
        [qualifies(turn, rule) for turn in within(trajectory, first) if turn is not None]
        for trajectory in trajectories(turns)
    ]
    successes = sum(True in row for row in rows)
    return Rate(successes, len(rows), sum(None in row and True not in row for row in rows), 0)


def peak_speedup(turns: Iterable[Turn], rule: Rule | None = None, first: int = BUDGET) -> float:
    """The largest speedup of any success; NaN where no success was timed.

    Formula: max over qualifying turns of library time ÷ kernel time. Source: the paper's Table 1. A maximum over more
    turns is never smaller: compare it only at equal numbers of turns.
    """
    times = (turn.speedup for turn in turns if turn.turn <= first and qualifies(turn, rule))
    return max((value for value in times if not math.isnan(value)), default=math.nan)
