"""The figures: small panels that wrap on a page, and one file each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from ptxgym.metrics import (
    BUDGET,
    OUTCOMES,
    Curve,
    Outcome,
    Rule,
    Turn,
    architecture_of,
    fast_p_curve,
    operator_of,
    outcome,
    outcomes_by_turn,
    peak_speedup,
    reasoning_tokens,
    usable_rules,
    work_fractions,
)
from ptxgym.report import published
from ptxgym.report.svg import WIDTH, Axes, diamond, element, panel, percent, polygon, polyline, text, title

MOST_COLOURS = 8

OUTCOME_NAMES: dict[Outcome, str] = {
    "target": "correct, target instructions",
    "target_unknown": "correct, instructions unknown",
    "other_instructions": "correct, other instructions",
    "incorrect": "incorrect",
    "memory_error": "memory error",
    "runtime_error": "runtime error",
    "timeout": "timeout",
    "compile_error": "compile error",
    "invalid_action": "no kernel",
    "other_error": "other error",
    "unknown": "unknown (machine)",
}


@dataclass(frozen=True, slots=True)
class Legend:
    """One entry: a colour class and what it stands for."""

    class_: str
    name: str


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels with one legend."""

    name: str
    """Stem of its file."""
    heading: str
    caption: str
    panels: tuple[tuple[str, Markup], ...]
    """Heading and drawing of each panel."""
    legend: tuple[Legend, ...] = ()


def colour(series: Sequence[str], name: str) -> str:
    """The colour class of a series; after eight they begin again, dashed."""
    index = series.index(name)
    return f"s{index % MOST_COLOURS}" + (" dashed" if index >= MOST_COLOURS else "")


def series_of(turns: Iterable[Turn]) -> list[str]:
    """The series of a study, in the order they are shown."""
    return list(by_series(turns))


def by_task(turns: Iterable[Turn]) -> dict[str, list[Turn]]:
    """Turns by task: the H100 before the B200, operators in the paper's order."""
    found: dict[str, list[Turn]] = {}
    for turn in turns:
        found.setdefault(turn.task, []).append(turn)
    return {task: found[task] for task in sorted(found, key=_task_order)}


def by_series(turns: Iterable[Turn]) -> dict[str, list[Turn]]:
    """Turns by series: the paper's models as the paper lists them, then the others in the order they came."""
    found: dict[str, list[Turn]] = {}
    for turn in turns:
        found.setdefault(turn.series, []).append(turn)
    listed = [model for model in published.MODELS if model in found]
    return {name: found[name] for name in dict.fromkeys([*listed, *found])}


def task_name(task: str) -> str:
    """A task as a heading reads: ``H100 · GEMM``."""
    return f"{architecture_of(task)} · {operator_of(task)}"


def _task_order(task: str) -> tuple[int, int, str]:
    operator, architecture = operator_of(task), architecture_of(task)
    known = published.OPERATORS.index(operator) if operator in published.OPERATORS else len(published.OPERATORS)
    return (0 if architecture == "H100" else 1), known, operator


def _series_legend(turns: Sequence[Turn]) -> tuple[Legend, ...]:
    series = series_of(turns)
    return tuple(Legend(f"line {colour(series, name)}", name) for name in series)


def fast_figure(turns: Sequence[Turn], rule: Rule | None) -> Figure | None:
    """FastInst_p by a rule, or Fast_p without one; None where nothing was timed."""
    series, panels = series_of(turns), []
    for task, own in by_task(turns).items():
        curves = {name: fast_p_curve(of_one, rule=rule) for name, of_one in by_series(own).items()}
        if any(curve.mean[0] > 0 for curve in curves.values()):
            panels.append((task_name(task), _curves(task, curves, series, rule)))
    if not panels:
        return None
    name = "Fast_p" if rule is None else "FastInst_p"
    condition = "correct" if rule is None else f"correct, with target instructions by the {rule} rule,"
    return Figure(
        name="fast_p" if rule is None else f"fastinst_p_{rule}",
        heading=name if rule is None else f"{name}, {rule} rule",
        caption=f"{name}: share of all turns that are {condition} and faster than p times the library. Line: mean over "
        "prompt variants; band: least and most of any variant. Tasks where no turn qualifies are left out."
        + " Diamonds are values the paper quotes."
        * (rule == "paper"),
        panels=tuple(panels),
        legend=_series_legend(turns) + (_quoted_legend(turns) if rule == "paper" else ()),
    )


def _quoted_legend(turns: Sequence[Turn]) -> tuple[Legend, ...]:
    """Whose diamonds stand beside these turns, of models that have none."""
    tasks = {(turn.architecture, operator_of(turn.task)) for turn in turns}
    quoted = dict.fromkeys(model for model, gpu, operator, _ in published.FAST_INST if (gpu, operator) in tasks)
    return tuple(Legend("hollow", f"{model}, published") for model in quoted if model not in series_of(turns))


def _curves(task: str, curves: dict[str, Curve], series: Sequence[str], rule: Rule | None) -> Markup:
    axes = Axes(x_range=(0, 1.2))
    marks = [axes.grid_y((0, 0.25, 0.5, 0.75, 1), percent), axes.grid_x((0, 0.4, 0.8, 1.2), "{:g}".format, "p")]
    marks.append(element("line", x1=axes.x(1), x2=axes.x(1), y1=axes.top, y2=axes.y(0), class_="unity"))
    drawn = {name: curve for name, curve in curves.items() if curve.mean[0] > 0}
    for name, curve in drawn.items():
        upper = [(axes.x(p), axes.y(v)) for p, v in zip(curve.thresholds, curve.high, strict=True)]
        lower = [(axes.x(p), axes.y(v)) for p, v in zip(curve.thresholds, curve.low, strict=True)]
        marks.append(polygon(upper + lower[::-1], f"band {colour(series, name)}"))
    for name, curve in drawn.items():
        line = [(axes.x(p), axes.y(v)) for p, v in zip(curve.thresholds, curve.mean, strict=True)]
        marks.append(polyline(line, f"line {colour(series, name)}"))
    for (model, gpu, operator, p), value in published.FAST_INST.items():
        if rule == "paper" and (gpu, operator) == (architecture_of(task), operator_of(task)):
            class_ = colour(series, model) if model in series else ""
            marks.append(diamond(axes.x(p), axes.y(value / 100), class_, f"published, {model}: {value}% at {p}"))
    return panel(marks, f"Share of turns faster than p, {task_name(task)}: {', '.join(drawn)}")


def peak_figure(turns: Sequence[Turn], rule: Rule) -> Figure | None:
    """Peak speedups by task and series; None where nothing was timed."""
    panels = []
    for architecture in ("H100", "B200"):
        own = [turn for turn in turns if turn.architecture == architecture]
        if any(not math.isnan(peak_speedup(part, rule)) for part in by_task(own).values()):
            panels.append((architecture, _peaks(own, series_of(turns), rule)))
    if not panels:
        return None
    return Figure(
        name=f"peak_speedup_{rule}",
        heading=f"Peak speedup, {rule} rule",
        caption=f"The fastest correct kernel with target instructions ({rule} rule), as library time ÷ kernel time; 1 "
        "is the library. Hollow diamonds are the paper's values.",
        panels=tuple(panels),
        legend=_series_legend(turns),
    )


def _peaks(turns: Sequence[Turn], series: Sequence[str], rule: Rule) -> Markup:
    tasks = by_task(turns)
    peaks = {
        (task, name): peak_speedup(part, rule) for task, own in tasks.items() for name, part in by_series(own).items()
    }
    lane, gap = 11.0, 20.0
    height = sum(gap + lane * len(by_series(own)) for own in tasks.values()) + 48
    top = max([1.2, *(value for value in peaks.values() if not math.isnan(value))])
    axes = Axes(x_range=(0, top), height=height, left=12)
    ticks = [t for t in (0, 0.2, 0.4, 0.6, 0.8, 1, 1.2) if t <= top]
    marks = [axes.grid_x(ticks, "{:g}".format, "speedup over the library")]
    marks.append(element("line", x1=axes.x(1), x2=axes.x(1), y1=axes.top, y2=height - axes.bottom, class_="unity"))
    y = axes.top
    for task, own in tasks.items():
        y += gap
        marks.append(text(axes.left, y - 6, operator_of(task), class_="lane"))
        for name in by_series(own):
            marks.extend(_peak_lane(axes, y, colour(series, name), name, task, peaks[task, name]))
            y += lane
    return panel(marks, f"Peak speedups: {', '.join(map(task_name, tasks))}", height=height)


def _peak_lane(axes: Axes, y: float, class_: str, name: str, task: str, value: float) -> Iterator[Markup]:
    """One series of one task: a bar, and a diamond where the paper has a value."""
    if not math.isnan(value):
        note = title(f"{name}, {task_name(task)}: {value:.3f}")
        yield element(
            "rect", note, x=axes.x(0), y=y, width=axes.x(value) - axes.x(0), height=8, class_=f"fill {class_}"
        )
    cell = published.target_cell(name, architecture_of(task), operator_of(task))
    if cell is not None and cell.peak > 0:
        yield diamond(axes.x(cell.peak), y + 4, class_, f"published, {name}: {cell.peak:.3f}")


def outcome_figure(turns: Sequence[Turn], rule: Rule) -> Figure:
    """How turns end, by turn number, one panel per series."""
    panels = [(name, _outcome_bars(own, rule)) for name, own in by_series(turns).items()]
    seen = {outcome(turn, rule) for turn in turns}
    return Figure(
        name="outcome_by_turn",
        heading="Outcome by turn",
        caption="Share of the turns taken that ended in each way, by turn number, all tasks of the study together.",
        panels=tuple(panels),
        legend=tuple(Legend(f"fill o-{name}", OUTCOME_NAMES[name]) for name in OUTCOMES if name in seen),
    )


def _outcome_bars(turns: Sequence[Turn], rule: Rule) -> Markup:
    counts = outcomes_by_turn(turns, rule)
    last = max(BUDGET, *counts)
    axes = Axes(x_range=(0.5, last + 0.5))
    marks = [axes.grid_y((0, 0.5, 1), percent)]
    width = (axes.x(2) - axes.x(1)) * 0.8
    for number, found in counts.items():
        base, total = 0.0, found.total()
        for name in (name for name in OUTCOMES if found[name]):
            share = found[name] / total
            note = title(f"turn {number}: {OUTCOME_NAMES[name]}, {found[name]} of {total}")
            top, bottom = axes.y(base + share), axes.y(base)
            x = axes.x(number) - width / 2
            marks.append(element("rect", note, x=x, y=top, width=width, height=bottom - top, class_=f"fill o-{name}"))
            base += share
    marks.extend(text(axes.x(n), axes.height - 20, str(n), "middle", "tick") for n in range(1, last + 1))
    marks.append(text(axes.x((last + 1) / 2), axes.height - 5, "turn", "middle", "axis"))
    return panel(marks, "Outcomes by turn")


def tokens_figure(turns: Sequence[Turn], rule: Rule) -> Figure | None:
    """Reasoning tokens by outcome, one panel per series; None where no tokens are known."""
    panels = []
    for name, own in by_series(turns).items():
        found = reasoning_tokens(own, rule)
        if any(values[-1] > 0 for values in found.values()):
            panels.append((name, _token_lanes(found)))
    if not panels:
        return None
    return Figure(
        name="reasoning_tokens",
        heading="Reasoning tokens against outcome",
        caption="Dot: median; bar: the middle half of the turns that ended so; number: how many. The paper reports "
        "medians near 30,000 for Claude Opus 4.8 and Gemini 3.1 Pro, 15,000 to 19,000 for GLM-5.2, 3,000 for "
        "Qwen3.6-27B.",
        panels=tuple(panels),
    )


def _token_lanes(found: dict[Outcome, list[int]]) -> Markup:
    lane = 24.0
    height = 46 + lane * len(found)
    axes = Axes(x_range=(100, 200_000), log_x=True, height=height, left=18, right=34)
    marks = [axes.grid_x((100, 1000, 10_000, 100_000), lambda v: f"{v:,.0f}", "reasoning tokens (log)")]
    for row, (name, values) in enumerate(found.items()):
        y = axes.top + 18 + row * lane
        low, middle, high = (_quantile(values, share) for share in (0.25, 0.5, 0.75))
        note = title(f"{OUTCOME_NAMES[name]}: median {middle:,.0f}, middle half {low:,.0f} to {high:,.0f}")
        marks.append(text(axes.left, y - 5, OUTCOME_NAMES[name], class_="lane"))
        left, class_ = axes.x(low), f"fill o-{name}"
        width = max(1.0, axes.x(high) - left)
        marks.append(element("rect", note, x=left, y=y - 2, width=width, height=5, class_=class_))
        marks.append(element("circle", cx=axes.x(middle), cy=y + 0.5, r=4, class_=f"dot o-{name}"))
        marks.append(text(WIDTH - 3, y + 4, f"{len(values):,}", "end", "tick"))
    return panel(marks, "Reasoning tokens by outcome", height=height)


def work_figure(turns: Sequence[Turn]) -> Figure | None:
    """Work fractions of correct kernels, one panel per series; None where none is known."""
    panels = []
    for name, own in by_series(turns).items():
        found = work_fractions(own)
        if sum(found.counts):
            panels.append((name, _work_bars(found.counts)))
    if not panels:
        return None
    return Figure(
        name="work_fraction",
        heading="Work fraction",
        caption="Correct turns by the share of the operator's FLOPs that target tensor instructions executed. The work "
        "rule asks for 0.9; the paper's asks for one execution.",
        panels=tuple(panels),
    )


def _work_bars(counts: Sequence[int]) -> Markup:
    axes = Axes(x_range=(0, 1), y_range=(0, max(counts) * 1.15))
    marks = [axes.grid_x((0, 0.3, 0.6, 0.9), "{:g}".format, "work fraction")]
    edges = [axes.x(step / 10) for step in range(11)]
    for (left, right), count in zip(pairwise(edges), counts, strict=True):
        if count:
            top = axes.y(count)
            width, height = right - left - 2, axes.y(0) - top
            marks.append(element("rect", x=left + 1, y=top, width=width, height=height, class_="fill s0"))
            marks.append(text((left + right) / 2, top - 3, str(count), "middle", "tick"))
    return panel(marks, "Correct turns by work fraction")


def figures(turns: Sequence[Turn]) -> list[Figure]:
    """Every figure that these turns give."""
    rules = usable_rules(turns)
    rule = rules[0] if rules else "work"
    found: list[Figure | None] = []
    for each in rules:
        found += [fast_figure(turns, each), peak_figure(turns, each)]
    found += [fast_figure(turns, None), outcome_figure(turns, rule), tokens_figure(turns, rule), work_figure(turns)]
    return [figure for figure in found if figure is not None]


def _quantile(values: Sequence[int], share: float) -> float:
    """Of ascending values, by linear interpolation."""
    place = share * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)
