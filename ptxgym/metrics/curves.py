"""Fast_p and FastInst_p."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ptxgym.metrics.turns import BUDGET, Rule, Turn, qualifies, trajectories, within

THRESHOLDS: tuple[float, ...] = tuple(round(step * 0.01, 2) for step in range(121))
"""Speedups at which curves are drawn, 0 to the target of 1.2."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A share in [0, 1] at every threshold: the mean over prompt variants, and the band of their extremes."""

    thresholds: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    """The least of any variant."""
    high: tuple[float, ...]
    """The most of any variant."""
    variants: int
    untimed: int
    """Successes without a speedup. They are above no threshold."""


def fast_p_curve(
    turns: Iterable[Turn], thresholds: Sequence[float] = THRESHOLDS, first: int = BUDGET, rule: Rule | None = None
) -> Curve:
    """Fast_p: the share of all turns that are correct and faster than p times the library.

    Formula: Fast_p = |{turns : qualifies ∧ speedup > p}| ÷ (n × trajectories) within each prompt variant (32 turns in
    the paper), then mean, minimum and maximum over the variants. Source: KernelBench's fast_p, as used by the paper.
    Turns that are wrong, unknown, untimed or not taken stay in the denominator.
    """
    groups: dict[tuple[str, ...], list[list[Turn | None]]] = {}
    for trajectory in trajectories(turns):
        groups.setdefault(trajectory[0].variant_key, []).append(within(trajectory, first))
    columns, untimed = [], 0
    for rows in groups.values():
        speedups = [t.speedup for row in rows for t in row if t is not None and qualifies(t, rule)]
        untimed += sum(map(math.isnan, speedups))
        total = sum(map(len, rows))
        columns.append([sum(s > p for s in speedups) / total for p in thresholds])
    by_threshold = list(zip(*columns, strict=True)) if columns else [(math.nan,)] * len(thresholds)
    return Curve(
        thresholds=tuple(thresholds),
        mean=tuple(sum(values) / len(values) for values in by_threshold),
        low=tuple(map(min, by_threshold)),
        high=tuple(map(max, by_threshold)),
        variants=len(groups),
        untimed=untimed,
    )


def fast_inst_curve(
    turns: Iterable[Turn], rule: Rule, thresholds: Sequence[float] = THRESHOLDS, first: int = BUDGET
) -> Curve:
    """FastInst_p: Fast_p among kernels that used the target instructions.

    Formula: as :func:`fast_p_curve`, a success being correct *and* by the rule done with target instructions. Source:
    the paper, whose rule is ``paper``.
    """
    return fast_p_curve(turns, thresholds, first, rule)


def fast_inst_share(turns: Iterable[Turn], p: float, rule: Rule, first: int = BUDGET) -> float:
    """FastInst_p at one threshold: the mean over prompt variants, in [0, 1]."""
    return fast_inst_curve(turns, rule, (p,), first).mean[0]
