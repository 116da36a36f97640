"""Searches over seeds: their log, and what is reported of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from baselines.tile_policy.judge import Judge
from baselines.tile_policy.kernel import Space, choice_name
from baselines.tile_policy.search import Search


class Logged(BaseModel):
    """One step of one seed, as it stands in the log."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    search: str
    seed: int
    step: int
    rewards: tuple[float, ...]
    legal: float
    """Share of the step's choices that compiled, ran, and gave the right result."""
    judged: int
    """Distinct choices that this seed has asked for so far: what the search would have cost alone."""
    best: float
    """The highest reward so far."""
    greedy: str
    """The choice that the search would submit now, in one word."""

    @property
    def reward(self) -> float:
        """The step's mean."""
        return sum(self.rewards) / len(self.rewards)


_RIGHT = ("passed", "target_instructions_missing", "implausible")


@dataclass(frozen=True)
class Plan:
    """How long to search."""

    seeds: int
    steps: int
    batch: int


def train(
    name: str,
    search: Search,
    space: Space,
    judge: Judge,
    plan: Plan,
    log: Path | None = None,
    progress: Callable[[Logged], None] = lambda step: None,
) -> list[Logged]:
    """Run a search with every seed.

    Every step is appended to the log. A search that was broken off is run again from its beginning: equal seeds ask for
    the same choices, and the judge has their verdicts, so it is soon where it was.
    """
    steps: list[Logged] = []
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
    for seed in range(plan.seeds):
        asked: set[str] = set()
        best = 0.0
        for number, step in enumerate(search(space, judge, steps=plan.steps, batch=plan.batch, seed=seed)):
            asked |= {verdict.name for verdict in step.verdicts}
            best = max(best, *(verdict.reward for verdict in step.verdicts))
            steps.append(
                Logged(
                    search=name,
                    seed=seed,
                    step=number,
                    rewards=tuple(verdict.reward for verdict in step.verdicts),
                    legal=sum(verdict.status in _RIGHT for verdict in step.verdicts) / len(step.verdicts),
                    judged=len(asked),
                    best=best,
                    greedy=choice_name(step.greedy),
                )
            )
            progress(steps[-1])
            if log:
                _append(log, steps[-1])
    return steps


def cost_until(steps: Sequence[Logged], reached: Callable[[Logged], bool]) -> dict[int, int | None]:
    """By seed, how many distinct choices had been judged when something was first true; None where it never was."""
    found: dict[int, int | None] = {}
    for step in steps:
        if found.setdefault(step.seed, None) is None and reached(step):
            found[step.seed] = step.judged
    return found


def last_reward(steps: Sequence[Logged], seed: int, last: int = 10) -> float:
    """Mean reward of a seed's last steps."""
    own = [step.reward for step in steps if step.seed == seed][-last:]
    return sum(own) / len(own)


def _append(path: Path, step: Logged) -> None:
    with path.open("ab") as file:
        file.write(step.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
