"""The interface of every search, and the two that do not learn."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from baselines.tile_policy.judge import Judge, Verdict
from baselines.tile_policy.kernel import Choice, Space


@dataclass(frozen=True)
class Step:
    """One step of a search: the choices it asked for, with their verdicts."""

    verdicts: list[Verdict]
    greedy: Choice
    """What the search would submit if it had to stop here."""


class Search(Protocol):
    """Asks the judge for ``batch`` choices a step, so many steps long. Equal seeds give equal searches."""

    def __call__(self, space: Space, judge: Judge, *, steps: int, batch: int, seed: int) -> Iterator[Step]:
        """The steps as they are made."""


def random_search(space: Space, judge: Judge, *, steps: int, batch: int, seed: int) -> Iterator[Step]:
    """Every option as likely as the others, every time."""
    draw = random.Random(seed)
    best: Verdict | None = None
    for _ in range(steps):
        choices = [{head: draw.choice(options) for head, options in space.heads.items()} for _ in range(batch)]
        best, step = _step(judge(choices), best)
        yield step


def exhaustive_search(space: Space, judge: Judge, *, steps: int, batch: int, seed: int) -> Iterator[Step]:
    """Every choice once, in the space's order, until the steps are used up."""
    best: Verdict | None = None
    choices = iter(space)
    for _ in range(steps):
        if not (asked := list(itertools.islice(choices, batch))):
            return
        best, step = _step(judge(asked), best)
        yield step


def _step(verdicts: list[Verdict], best: Verdict | None) -> tuple[Verdict, Step]:
    best = max([*verdicts, *([best] if best else [])], key=lambda verdict: verdict.reward)
    return best, Step(verdicts, best.choice)
