"""The report's files: one page of results, one page per trajectory, and every figure as a file of its own."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ptxgym import __version__
from ptxgym.errors import InfrastructureError, MisuseError
from ptxgym.metrics import Rate, Rule, Turn, trajectories, usable_rules
from ptxgym.ptxbench_import import STUDIES
from ptxgym.report.adaptation import AdaptationTable, adaptation_table, arms_of
from ptxgym.report.figures import Figure, by_task, figures
from ptxgym.report.png import png_of
from ptxgym.report.runs import RunFacts, is_imported, read_imported, read_trajectories, run_name, turn_of_record
from ptxgym.report.svg import HEIGHT, WIDTH, element, text
from ptxgym.report.tables import (
    Comparison,
    Row,
    Table,
    Transitions,
    correctness_tables,
    published_comparisons,
    transition_tables,
    unknown_count,
)
from ptxgym.report.text import visible
from ptxgym.report.trajectory import TrajectoryView, trajectory_view

OWN = "Runs of this project"

_RULES: dict[Rule, str] = {
    "work": "target instructions did at least 0.9 of the work",
    "paper": "a target instruction was executed (the paper's rule)",
}


@dataclass(frozen=True, slots=True)
class Study:
    """One section of the report."""

    name: str
    slug: str
    tables: tuple[tuple[str, tuple[Table, ...]], ...]
    """What the rule asks, and the tables by it."""
    figures: tuple[Figure, ...]
    comparisons: tuple[Comparison, ...]
    transitions: tuple[Transitions, ...]
    turns: int
    unknown: int
    untimed: int
    """Correct turns without a speedup."""
    trajectories: tuple[TrajectoryView, ...]
    adaptation: tuple[AdaptationTable, ...] = ()
    """Of runs with a model that was adapted or helped in context."""

    @property
    def noted(self) -> bool:
        """Whether a line says of its runs what sets them apart."""
        return any(row.notes or any(getattr(c, "notes", ()) for c in row.cells) for row in self._rows)

    @property
    def _rows(self) -> list[Row]:
        return [row for _, tables in self.tables for table in tables for row in table.rows]

    @property
    def differing(self) -> list[Comparison]:
        """Published numbers that the rows do not give."""
        return [comparison for comparison in self.comparisons if not comparison.agrees]


@dataclass(frozen=True, slots=True)
class Written:
    """What :func:`write_report` left behind."""

    index: Path
    turns: int
    trajectories: int
    figures: int
    unfinished: tuple[str, ...] = ()
    """Runs of which a part of the plan is missing, in words."""


def write_report(paths: Sequence[Path], out: Path) -> Written:
    """Read runs and imported tables and write their report.

    Args:
        paths: Run folders, or folders of ``import-ptxbench``.
        out: The folder to write to; it is made. Files of the same names are replaced.

    Raises:
        MisuseError: A path is no run, or names a run twice.
        InfrastructureError: The folder cannot be written.
    """
    try:
        return _write_all(paths, out)
    except OSError as error:
        raise InfrastructureError(f"{error.filename or out} cannot be used: {error.strerror}.") from None


def _write_all(paths: Sequence[Path], out: Path) -> Written:
    environment = _environment()
    turns: list[Turn] = []
    facts: list[RunFacts] = []
    views: list[TrajectoryView] = []
    plain: set[str] = set()
    notes: dict[str, tuple[str, ...]] = {}
    for path in paths:
        own = RunFacts(run_name(path), path)
        if is_imported(path):
            turns += read_imported(path)
        else:
            start = len(views)
            for records in read_trajectories(path, own):
                file = f"trajectories/{len(views) + 1:05d}.html"
                view = trajectory_view(records, file)
                _page(environment, "trajectory.html", out / file, view=view)
                views.append(replace(view, turns=()))
                turns += [turn_of_record(record, own.budget, own.adaptation) for record in records]
                own.ids.add(records[0].run)
            own.trajectories = len(views) - start
            notes |= dict.fromkeys(own.ids, own.notes)
            plain |= set() if own.adaptation else own.ids
            facts.append(own)
    _check(turns)
    studies = _studies(_told_apart(turns), views, notes)
    if any(fact.adaptation for fact in facts):
        studies[0] = replace(studies[0], adaptation=_adaptation(_told_apart(turns), plain))
    for study in studies:
        for figure in study.figures:
            drawing = _figure_file(environment, figure)
            _write(out / "figures" / f"{study.slug}-{figure.name}.svg", drawing.encode())
            _write(out / "figures" / f"{study.slug}-{figure.name}.png", png_of(drawing))
    index = out / "index.html"
    _page(environment, "report.html", index, studies=studies, runs=facts, created=_now(), version=__version__)
    missing = tuple(f"{fact.name}: {fact.unfinished}" for fact in facts if fact.unfinished)
    return Written(index, len(turns), len(views), sum(len(study.figures) for study in studies), missing)


def _check(turns: Sequence[Turn]) -> None:
    if not turns:
        raise MisuseError("There is no turn in what was given, so there is nothing to report.")
    try:
        trajectories(turns)
    except ValueError as error:
        raise MisuseError(f"The runs hold {visible(str(error))}. Was a run, or a copy of it, given twice?") from None


def _told_apart(turns: Sequence[Turn]) -> list[Turn]:
    """Turns of several runs of one model keep their runs apart by name."""
    runs: dict[tuple[str, str, str], set[str]] = {}
    for turn in turns:
        runs.setdefault((turn.study, turn.series, turn.task), set()).add(turn.run)
    several = {(study, series) for (study, series, _), names in runs.items() if not study and len(names) > 1}
    return [
        turn.model_copy(update={"condition": f"{turn.condition} {turn.run}".strip()})
        if (turn.study, turn.series) in several
        else turn
        for turn in turns
    ]


def _studies(
    turns: Sequence[Turn], views: Sequence[TrajectoryView], notes: Mapping[str, tuple[str, ...]]
) -> list[Study]:
    by_name: dict[str, list[Turn]] = {}
    for turn in turns:
        by_name.setdefault(turn.study, []).append(_safe(turn))
    order = sorted(by_name, key=lambda name: STUDIES.index(name) if name in STUDIES else -1)  # own runs first
    return [_study(name, by_name[name], () if name else views, notes) for name in order]


def _safe(turn: Turn) -> Turn:
    return turn.model_copy(update={name: visible(getattr(turn, name)) for name in ("model", "condition")})


def _study(
    name: str, turns: Sequence[Turn], views: Sequence[TrajectoryView], notes: Mapping[str, tuple[str, ...]]
) -> Study:
    rules = usable_rules(turns) or ("work",)
    heading = visible(name) or OWN
    return Study(
        name=heading,
        slug=re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-"),
        tables=tuple((_RULES[rule], tuple(correctness_tables(turns, rule, not name, notes))) for rule in rules),
        figures=tuple(figures(turns)),
        comparisons=tuple(published_comparisons(turns)),
        transitions=tuple(transition_tables(turns, rules[0])),
        turns=len(turns),
        unknown=unknown_count(turns, rules[0]),
        untimed=sum(bool(turn.correct) and math.isnan(turn.speedup) for turn in turns),
        trajectories=tuple(sorted(views, key=lambda view: (view.task, view.series, view.variant, view.number))),
    )


def _adaptation(turns: Sequence[Turn], plain: set[str]) -> tuple[AdaptationTable, ...]:
    """Adaptation against in-context help, one table per architecture of this project's own runs."""
    own = [_safe(turn) for turn in turns if not turn.study]
    arms = arms_of(own, plain, [turn for turn in turns if turn.study])
    tasks: dict[str, list[str]] = {}
    for task, of_one in by_task(own).items():
        tasks.setdefault(of_one[0].architecture, []).append(task)
    return tuple(adaptation_table(arms, names, "paper", name) for name, names in tasks.items())


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ptxgym.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "number": _number, "visible": visible}
    return environment


def _percent(value: Rate | float) -> str:
    share = value.share * 100 if isinstance(value, Rate) else value
    return "–" if math.isnan(share) else f"{share:.1f}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _page(environment: Environment, template: str, path: Path, **values: object) -> None:
    _write(path, environment.get_template(template).render(**values).encode())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.tmp")
    draft.write_bytes(content)
    draft.replace(path)


_COLUMNS, _HEAD, _LINE = 3, 24, 18


def figure_file(figure: Figure) -> str:
    """A figure as one SVG file, for light and dark, with its styles inside."""
    return _figure_file(_environment(), figure)


def _figure_file(environment: Environment, figure: Figure) -> str:
    """A figure as one SVG file: its panels in a grid above its legend, with the styles inside."""
    columns = min(_COLUMNS, len(figure.panels))
    parts, y = [], 0.0
    for start in range(0, len(figure.panels), columns):
        row = figure.panels[start : start + columns]
        heights = [_panel_height(drawing) for _, drawing in row]
        for column, ((heading, drawing), height) in enumerate(zip(row, heights, strict=True)):
            x = column * WIDTH
            parts.append(text(x + 12, y + 16, heading, class_="heading"))
            place = f'<svg x="{x}" y="{y + _HEAD:g}" width="{WIDTH}" height="{height:g}" '
            parts.append(Markup(str(drawing).replace("<svg ", place, 1)))
        y += _HEAD + max(heights)
    for entry in figure.legend:
        parts.append(element("rect", x=12, y=y + 4, width=14, height=9, class_=f"key {entry.class_}"))
        parts.append(text(32, y + 13, entry.name, class_="lane"))
        y += _LINE
    css = Markup(environment.get_template("figure.css").render())
    style = Markup("<style>{}</style>").format(css)
    width, height = columns * WIDTH, y + 8
    return str(
        element(
            "svg",
            style,
            element("rect", width=width, height=height, class_="page"),
            *parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height:g}",
            width=width,
            height=height,
        )
    )


def _panel_height(drawing: Markup) -> float:
    found = re.match(r'<svg viewBox="0 0 [\d.]+ ([\d.]+)"', drawing)
    return float(found[1]) if found else HEIGHT


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
