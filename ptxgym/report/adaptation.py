"""Adaptation against in-context help: what training a model, or showing it something, changed.

Compared are *arms*: a model as it is, the same model adapted (fine-tuned by a recipe), and the same model helped in
context. A run says which it is in its settings, under ``adaptation``. The original's arms stand beside: from its table
where that was imported, and as the paper published them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ptxgym.metrics import (
    BUDGET,
    Interval,
    Rate,
    Rule,
    Turn,
    architecture_of,
    correctness_interval,
    difference_interval,
    operator_of,
    peak_speedup,
    turn_correctness,
)
from ptxgym.ptxbench_import import FINE_TUNED, MAIN, OTHER_SHAPES, RETRIEVAL
from ptxgym.report import published
from ptxgym.report.figures import by_series, by_task

Origin = Literal["here", "original", "published"]
"""Runs of this project; the original's table, recounted; the paper's own number."""

STUDENT = "Qwen3.6-27B"
"""The model that the original adapted."""

TABLES_NOTE = (
    "s0–s6 are fine-tuned models of the original, on the five prompt variants of its table; Table 8 of the paper takes "
    "three of the five."
)
S4_NOTE = "Over all five prompt tags s4, too, solves all five problems; over the three of Table 8 only s1 and s5 do."
"""Holds for the original's table; :func:`solve_all` counts it again where that was imported."""


@dataclass(frozen=True)
class Arm:
    """One way of having a model, and its turns."""

    name: str
    origin: Origin
    turns: tuple[Turn, ...]
    base: str = ""
    """The arm that it is compared with; empty for a model as it is."""


@dataclass(frozen=True, slots=True)
class Result:
    """One arm on one task, or on several together."""

    rate: Rate
    """Turns that succeeded at ≤ 8."""
    interval: Interval
    peak: float
    """NaN where no success was timed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Turn correctness minus that of the base, on the tasks that both were asked."""

    share: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table."""

    name: str
    origin: Origin
    cells: tuple[Result | float | None, ...]
    """By task; a bare number is what was published, in per cent."""
    all: Result | None
    """All tasks of the table that the arm was asked, together."""
    base: str = ""
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class AdaptationTable:
    """The arms on one set of tasks."""

    name: str
    claim: str
    tasks: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    @property
    def headings(self) -> tuple[str, ...]:
        """The tasks as columns are called."""
        return tuple(f"{operator_of(task)} {architecture_of(task)}".strip() for task in self.tasks)


def arms_of(own: Sequence[Turn], plain: Collection[str], imported: Iterable[Turn] = ()) -> list[Arm]:
    """The arms in some turns: this project's first, models as they are before the others.

    Args:
        own: Turns of this project's runs.
        plain: The runs among them whose model is as it is.
        imported: Turns of the original's table.
    """
    series = {name: tuple(turns) for name, turns in by_series(own).items()}
    bases = {name: turns for name, turns in series.items() if all(turn.run in plain for turn in turns)}
    arms = [Arm(name, "here", turns) for name, turns in bases.items()]
    arms += [
        Arm(name, "here", turns, _base_of(turns[0].model, bases)) for name, turns in series.items() if name not in bases
    ]
    return arms + list(_imported_arms(imported))


def _base_of(model: str, bases: dict[str, tuple[Turn, ...]]) -> str:
    """The arm of the same model as it is; of one whose name this one's begins with; or the only one there is."""
    names = {name: turns[0].model for name, turns in bases.items()}
    fitting = [name for name in names if model.startswith(names[name])] or (list(names) if len(names) == 1 else [])
    return max(fitting, key=lambda name: len(names[name]), default="")


def _imported_arms(turns: Iterable[Turn]) -> Iterator[Arm]:
    by_study: dict[str, list[Turn]] = {}
    for turn in turns:
        if turn.model.startswith(STUDENT):
            by_study.setdefault(turn.study, []).append(turn)
    for study in (MAIN, FINE_TUNED, RETRIEVAL, OTHER_SHAPES):
        shown = " (original)" if study != OTHER_SHAPES else " (original, other shapes)"
        for name, own in by_series(by_study.get(study, ())).items():
            yield Arm(name + shown, "original", tuple(own), _imported_base(own[0]))


def _imported_base(turn: Turn) -> str:
    """The original's student under the same prompts: those of its fine-tuned models hold the expert's guidance."""
    if turn.study == RETRIEVAL or turn.condition == "without guidance":
        return f"{STUDENT} (original)"
    return f"{STUDENT} · with guidance (original)" if turn.study == FINE_TUNED and turn.model != STUDENT else ""


def adaptation_table(
    arms: Sequence[Arm], tasks: Sequence[str], rule: Rule, name: str = "", claim: str = ""
) -> AdaptationTable:
    """The arms that were asked at least one of some tasks.

    Args:
        arms: What is compared.
        tasks: The columns.
        rule: When a correct kernel counts. The original's table can be counted by ``paper`` alone.
        name: What the set of tasks is called.
        claim: What it is to show.
    """
    wanted = set(tasks)
    chosen = [
        Arm(arm.name, arm.origin, kept, arm.base)
        for arm in arms
        if (kept := tuple(turn for turn in arm.turns if turn.task in wanted))
        and (rule == "paper" or arm.origin == "here")
    ]
    by_name = {arm.name: arm for arm in chosen}
    lines = [_line(arm, by_name.get(arm.base), tasks, rule) for arm in chosen]
    if rule == "paper":
        lines += _published_lines(tasks)
    return AdaptationTable(name, claim, tuple(tasks), tuple(lines), tuple(_notes(chosen, lines, rule)))


def _line(arm: Arm, base: Arm | None, tasks: Sequence[str], rule: Rule) -> Line:
    parts = by_task(arm.turns)
    cells = tuple(_result(parts[task], rule) if task in parts else None for task in tasks)
    everything = _result(arm.turns, rule)
    if base is None:
        return Line(arm.name, arm.origin, cells, everything)
    return Line(arm.name, arm.origin, cells, everything, base.name, _difference(arm, base, rule))


def _result(turns: Sequence[Turn], rule: Rule) -> Result:
    return Result(
        turn_correctness(turns, BUDGET, rule), correctness_interval(turns, rule=rule), peak_speedup(turns, rule)
    )


def _difference(arm: Arm, base: Arm, rule: Rule) -> Difference | None:
    shared = {turn.task for turn in arm.turns} & {turn.task for turn in base.turns}
    if not shared:
        return None
    mine, theirs = ([turn for turn in side.turns if turn.task in shared] for side in (arm, base))
    share = turn_correctness(mine, BUDGET, rule).share - turn_correctness(theirs, BUDGET, rule).share
    return Difference(share, difference_interval(mine, theirs, rule=rule))


def _published_lines(tasks: Sequence[str]) -> Iterator[Line]:
    """Tables 8 and 4 of the paper, where they have one of the tasks; both are of the H100."""
    rows = {f"{recipe}, Table 8": text for recipe, text in published.FINE_TUNED.items()}
    rows["repair notes and fixed kernel, Table 4"] = published.RETRIEVED
    for name, text in rows.items():
        values = published.parse_row(text)
        if text == published.RETRIEVED:
            del values["GEMM"]  # it was not asked
        cells = tuple(values.get(operator_of(task)) if architecture_of(task) == "H100" else None for task in tasks)
        if any(cell is not None for cell in cells):
            yield Line(name, "published", cells, None)


def _notes(arms: Sequence[Arm], lines: Sequence[Line], rule: Rule) -> Iterator[str]:
    if rule == "paper" and any(line.origin != "here" for line in lines):
        yield (
            "A success is a correct kernel that executed a target instruction (the paper's rule): the original did not "
            "measure more."
        )
    recounted = [turn for arm in arms if arm.origin == "original" for turn in arm.turns if turn.study == FINE_TUNED]
    if any(line.name.endswith("Table 8") for line in lines):
        yield TABLES_NOTE
        if {operator_of(turn.task) for turn in recounted} == set(published.OPERATORS):
            of_all, of_three = solve_all(recounted), solve_all(recounted, published.FINE_TUNED_VARIANTS)
            yield (
                f"Over all five prompt tags {_listed(of_all)} solve all five problems; over the three of Table 8 "
                f"{_listed(of_three)} do."
            )
        else:
            yield S4_NOTE
    if untimed := sum(bool(turn.correct) and math.isnan(turn.speedup) for arm in arms for turn in arm.turns):
        yield f"{untimed} correct turns were not timed; no peak shows them."


def solve_all(turns: Iterable[Turn], variants: Mapping[str, tuple[str, ...]] | None = None) -> list[str]:
    """The original's recipes that have at least one success, by the paper's rule, on each of the five operators.

    Args:
        turns: Turns of the original's fine-tuned models.
        variants: Operator to the prompt variants that count; all by default.
    """
    solved: dict[str, set[str]] = {}
    for turn in turns:
        operator = operator_of(turn.task)
        if turn.correct and turn.target_paper and (variants is None or turn.variant in variants.get(operator, ())):
            solved.setdefault(turn.model.removeprefix(f"{STUDENT}-"), set()).add(operator)
    return sorted(recipe for recipe, operators in solved.items() if operators >= set(published.OPERATORS))


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names) or "none"
