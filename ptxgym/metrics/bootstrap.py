"""Intervals by resampling whole trajectories: turns of one trajectory learn from each other and are not independent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptxgym.metrics.rates import peak_speedup
from ptxgym.metrics.turns import BUDGET, Rule, Turn, qualifies, trajectories, within

RESAMPLES = 2000
_SEED = 20260819


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile interval; both ends NaN when there are fewer than two trajectories."""

    low: float
    high: float


def correctness_interval(
    turns: Iterable[Turn],
    first: int = BUDGET,
    rule: Rule | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """The percentile bootstrap interval of :func:`ptxgym.metrics.turn_correctness` over trajectories.

    Formula: draw as many trajectories as there are, with replacement; the share of successes among their first n
    turns; repeat; take the (1 ± level)/2 quantiles. Source: Efron's cluster bootstrap. The seed is fixed, so the same
    turns give the same interval. Where no turn or every turn succeeded the interval has no width, and says only that
    these trajectories do not differ.
    """
    rows = [within(trajectory, first) for trajectory in trajectories(turns)]
    successes = np.array([sum(turn is not None and qualifies(turn, rule) is True for turn in row) for row in rows])
    taken = np.array([len(row) for row in rows])
    return _interval(len(rows), level, resamples, lambda drawn: successes[drawn].sum(1) / taken[drawn].sum(1))


def peak_interval(
    turns: Iterable[Turn],
    rule: Rule | None = None,
    first: int = BUDGET,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """The percentile bootstrap interval of :func:`ptxgym.metrics.peak_speedup` over trajectories.

    A bootstrap maximum never exceeds the maximum seen: the upper end is the peak itself, and the lower end tells how
    much hangs on one lucky trajectory. Trajectories without a timed success count as 0.
    """
    peaks = [peak_speedup(trajectory, rule, first) for trajectory in trajectories(turns)]
    if all(map(math.isnan, peaks)):
        return Interval(math.nan, math.nan)
    values = np.nan_to_num(np.array(peaks))
    return _interval(len(peaks), level, resamples, lambda drawn: values[drawn].max(1))


def difference_interval(
    turns: Iterable[Turn],
    base: Iterable[Turn],
    first: int = BUDGET,
    rule: Rule | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """The percentile bootstrap interval of how much larger one turn correctness is than another.

    Formula: draw the trajectories of each task with replacement, on both sides apart; the difference of the shares of
    successes among the first n turns, over all tasks together; repeat; take the quantiles. Both sides should hold the
    same tasks. Both ends are NaN when a side has fewer than two trajectories of a task.
    """
    generator = np.random.default_rng(_SEED)
    mine, theirs = (_drawn_shares(side, first, rule, resamples, generator) for side in (turns, base))
    if mine is None or theirs is None:
        return Interval(math.nan, math.nan)
    low, high = np.quantile(mine - theirs, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _drawn_shares(
    turns: Iterable[Turn], first: int, rule: Rule | None, resamples: int, generator: np.random.Generator
) -> Estimates | None:
    """Turn correctness over draws within each task; None where a task has too few trajectories to draw from."""
    by_task: dict[str, list[tuple[int, int]]] = {}
    for trajectory in trajectories(turns):
        row = within(trajectory, first)
        successes = sum(turn is not None and qualifies(turn, rule) is True for turn in row)
        by_task.setdefault(trajectory[0].task, []).append((successes, len(row)))
    if not by_task or min(map(len, by_task.values())) < 2:
        return None
    total = np.zeros((resamples, 2))
    for rows in by_task.values():
        total += np.array(rows)[generator.integers(0, len(rows), size=(resamples, len(rows)))].sum(1)
    shares: Estimates = total[:, 0] / total[:, 1]
    return shares


Indices = npt.NDArray[np.int64]
Estimates = npt.NDArray[np.float64]


def _interval(trajectories: int, level: float, resamples: int, statistic: Callable[[Indices], Estimates]) -> Interval:
    """Quantiles of a statistic over draws; it gets one row of trajectory numbers per draw."""
    if trajectories < 2:
        return Interval(math.nan, math.nan)
    drawn = np.random.default_rng(_SEED).integers(0, trajectories, size=(resamples, trajectories))
    low, high = np.quantile(statistic(drawn), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))
