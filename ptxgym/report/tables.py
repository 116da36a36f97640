"""The tables: correctness with intervals, trajectory success, transitions, and what the paper published beside it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ptxgym.metrics import (
    OUTCOMES,
    Interval,
    Outcome,
    Rate,
    Rule,
    Turn,
    architecture_of,
    correctness_interval,
    fast_inst_share,
    operator_of,
    outcome,
    peak_interval,
    peak_speedup,
    trajectory_success,
    transitions,
    turn_correctness,
)
from ptxgym.ptxbench_import import STUDIES
from ptxgym.report import published
from ptxgym.report.figures import OUTCOME_NAMES, by_series, by_task, series_of
from ptxgym.report.published import FIRST, Cell


@dataclass(frozen=True, slots=True)
class Correctness:
    """One series on one task."""

    target: tuple[Rate, ...]
    """At ≤ 1, ≤ 4 and ≤ 8 turns, with target instructions."""
    any: tuple[Rate, ...]
    """The same, with any instructions."""
    interval: Interval
    """Of the last of ``target``."""
    success: Rate
    """Trajectories with at least one such turn."""
    peak: float
    peak_interval: Interval
    published: Cell | None
    published_any: Cell | None
    notes: tuple[str, ...] = ()
    """What must be known of its runs, where the runs of a line differ in it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the correctness table."""

    name: str
    cells: tuple[Correctness | Cell | None, ...]
    """A :class:`Cell` in a line that only shows what was published."""
    notes: tuple[str, ...] = ()
    """What must be known of its runs before they are held against another line."""


@dataclass(frozen=True, slots=True)
class Table:
    """Correctness on one architecture."""

    architecture: str
    operators: tuple[str, ...]
    rows: tuple[Row, ...]


def correctness_tables(
    turns: Sequence[Turn], rule: Rule, with_published_rows: bool, notes: Mapping[str, tuple[str, ...]] | None = None
) -> list[Table]:
    """One table per architecture: series down, operators across.

    Args:
        turns: One study.
        rule: The instruction rule.
        with_published_rows: Also a line for every model of the paper that is no series here.
        notes: Run to what must be known of it.
    """
    tables = []
    for architecture in dict.fromkeys(map(architecture_of, by_task(turns))):
        own = [turn for turn in turns if turn.architecture == architecture]
        tables.append(_table(architecture, own, rule, with_published_rows, notes or {}))
    return tables


def _table(architecture: str, turns: Sequence[Turn], rule: Rule, with_published_rows: bool, notes: _Notes) -> Table:
    tasks = list(by_task(turns))
    rows = []
    for name, own in by_series(turns).items():
        parts = by_task(own)
        alike = len({notes.get(run, ()) for run in _runs(own)}) == 1
        cells = [_cell(parts[task], rule) if task in parts else None for task in tasks]
        if not alike:
            cells = [
                cell and replace(cell, notes=_noted(parts[task], notes))
                for task, cell in zip(tasks, cells, strict=True)
            ]
        rows.append(Row(name, tuple(cells), _noted(own, notes) if alike else ()))
    operators = tuple(map(operator_of, tasks))
    if with_published_rows:
        rows += _published_rows(architecture, operators, series_of(turns))
    return Table(architecture, operators, tuple(rows))


_Notes = Mapping[str, tuple[str, ...]]


def _runs(turns: Sequence[Turn]) -> list[str]:
    return list(dict.fromkeys(turn.run for turn in turns))


def _noted(turns: Sequence[Turn], notes: _Notes) -> tuple[str, ...]:
    """The notes of the runs behind some turns, each once."""
    return tuple(dict.fromkeys(note for run in _runs(turns) for note in notes.get(run, ())))


def _published_rows(architecture: str, operators: Sequence[str], present: Sequence[str]) -> Iterator[Row]:
    for model, gpu in published.TARGET_TURNS:
        if gpu == architecture and model not in present:
            cells = tuple(published.target_cell(model, gpu, operator) for operator in operators)
            if any(cells):
                yield Row(f"{model}, as published", cells)


def _cell(turns: Sequence[Turn], rule: Rule) -> Correctness:
    model, task = turns[0].series, turns[0].task
    place = (model, architecture_of(task), operator_of(task))
    return Correctness(
        target=tuple(turn_correctness(turns, first, rule) for first in FIRST),
        any=tuple(turn_correctness(turns, first) for first in FIRST),
        interval=correctness_interval(turns, rule=rule),
        success=trajectory_success(turns, rule=rule),
        peak=peak_speedup(turns, rule),
        peak_interval=peak_interval(turns, rule),
        published=published.target_cell(*place),
        published_any=published.any_cell(*place),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """A published number beside the one computed from the rows."""

    what: str
    published: str
    computed: str

    @property
    def agrees(self) -> bool:
        """Whether both read alike at the published precision."""
        return self.published == self.computed


def published_comparisons(turns: Sequence[Turn]) -> list[Comparison]:
    """Every number of the paper that imported rows can be held against; empty for other turns."""
    if not turns or turns[0].study not in STUDIES:
        return []
    parts = {(name, task): own for name, of_one in by_series(turns).items() for task, own in by_task(of_one).items()}
    found: list[Comparison] = []
    for (name, task), own in parts.items():
        found += _table_1(name, task, own)
        found += _fast_inst(name, task, own)
        found += _fine_tuned(name, task, own)
        found += _retrieved(name, task, own)
        found += _ablation(own)
    return found


def _percent(what: str, value: float, rate: Rate) -> Comparison:
    return Comparison(what, f"{value:.1f}%", f"{rate.share * 100:.1f}%")


def _table_1(name: str, task: str, turns: Sequence[Turn]) -> Iterator[Comparison]:
    place = (name, architecture_of(task), operator_of(task))
    where = f"Table 1, {', '.join(place)}"
    if cell := published.target_cell(*place):
        for first, value in cell.shares.items():
            yield _percent(f"{where}, ≤{first} with target", value, turn_correctness(turns, first, "paper"))
        peak = peak_speedup(turns, "paper")
        yield Comparison(f"{where}, peak", f"{cell.peak:.3f}", f"{0.0 if math.isnan(peak) else peak:.3f}")
    if cell := published.any_cell(*place):
        for first, value in cell.shares.items():
            yield _percent(f"{where}, ≤{first} any instructions", value, turn_correctness(turns, first))


def _fast_inst(name: str, task: str, turns: Sequence[Turn]) -> Iterator[Comparison]:
    for (model, gpu, operator, p), value in published.FAST_INST.items():
        if (name, architecture_of(task), operator_of(task)) == (model, gpu, operator):
            share = fast_inst_share(turns, p, "paper") * 100
            yield Comparison(f"FastInst at {p}, {model}, {gpu}, {operator}", f"{value:.1f}%", f"{share:.1f}%")


def _fine_tuned(name: str, task: str, turns: Sequence[Turn]) -> Iterator[Comparison]:
    recipe, operator = name.removeprefix("Qwen3.6-27B-"), operator_of(task)
    if recipe in published.FINE_TUNED and operator in published.FINE_TUNED_VARIANTS:
        chosen = [turn for turn in turns if turn.variant in published.FINE_TUNED_VARIANTS[operator]]
        value = published.parse_row(published.FINE_TUNED[recipe])[operator]
        yield _percent(f"Table 8, {recipe}, {operator}, ≤8 with target", value, turn_correctness(chosen, 8, "paper"))


def _retrieved(name: str, task: str, turns: Sequence[Turn]) -> Iterator[Comparison]:
    if name.endswith("repair notes and fixed kernel"):
        operator = operator_of(task)
        value = published.parse_row(published.RETRIEVED)[operator]
        where = f"Table 4, notes and fixed kernel, {operator}"
        yield _percent(f"{where}, ≤8 with target", value, turn_correctness(turns, 8, "paper"))


def _ablation(turns: Sequence[Turn]) -> Iterator[Comparison]:
    texts = published.ABLATION.get(turns[0].condition)
    rules: tuple[tuple[Rule | None, str], ...] = ((None, "any instructions"), ("paper", "with target"))
    for text, (rule, name) in zip(texts or (), rules, strict=False):
        cell, where = published.parse_cell(text), f"Prompt ablation, {turns[0].condition}"
        for first, value in cell.shares.items():
            yield _percent(f"{where}, ≤{first} {name}", value, turn_correctness(turns, first, rule))
        peak = peak_speedup(turns, rule)
        if not math.isnan(cell.peak):
            yield Comparison(f"{where}, peak", f"{cell.peak:.3f}", f"{0.0 if math.isnan(peak) else peak:.3f}")


@dataclass(frozen=True, slots=True)
class Transitions:
    """Where turns go from each outcome, for one series."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, int, tuple[float, ...]], ...]
    """Outcome, how many transitions leave it, and the share that goes to each column."""


def transition_tables(turns: Sequence[Turn], rule: Rule) -> list[Transitions]:
    """One table per series, over all tasks and turns."""
    return [_transitions(name, own, rule) for name, own in by_series(turns).items()]


def _transitions(name: str, turns: Sequence[Turn], rule: Rule) -> Transitions:
    counts = transitions(turns, rule)
    reached: Counter[Outcome] = Counter()
    for then in counts.values():
        reached.update(then)
    columns = [outcome for outcome in OUTCOMES if reached[outcome]]
    rows = tuple(
        (OUTCOME_NAMES[now], then.total(), tuple(then[column] / then.total() for column in columns))
        for now, then in counts.items()
    )
    return Transitions(name, tuple(OUTCOME_NAMES[column] for column in columns), rows)


def unknown_count(turns: Sequence[Turn], rule: Rule) -> int:
    """Turns that could not be decided, by this rule."""
    return sum(outcome(turn, rule) in ("unknown", "target_unknown") for turn in turns)
