"""Learning curves as an SVG file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from baselines.tile_policy.training import Logged
from ptxgym.errors import MisuseError

if TYPE_CHECKING:
    from markupsafe import Markup

    from ptxgym.report.svg import Axes

Value = Callable[[Logged], float]


def write_curves(path: Path, steps: Sequence[Logged], *, best: float | None = None) -> None:
    """Draw every search of a log: its mean over seeds, within the range of the seeds.

    Args:
        path: The file.
        steps: Of all searches and seeds.
        best: The highest reward of the whole space, where it is known; then the cost of coming near it is drawn too.

    Raises:
        MisuseError: The drawing needs what is not installed.
    """
    try:
        from ptxgym.report.figures import Figure, Legend
        from ptxgym.report.page import figure_file
    except ImportError as error:
        raise MisuseError(f"The figure needs {error.name}: pip install 'ptxgym[report]'.") from None
    searches = list(dict.fromkeys(step.search for step in steps))
    top = best or max(step.best for step in steps)
    panels = [
        ("mean reward of a step", _by_step(steps, searches, top, lambda step: step.reward)),
        ("share of legal choices", _by_step(steps, searches, 1.0, lambda step: step.legal)),
    ]
    if best is not None:
        panels.append(("best so far, by choices judged", _by_cost(steps, searches, best)))
    figure = Figure(
        name="tile-policy",
        heading="",
        caption="",
        panels=tuple(panels),
        legend=tuple(Legend(f"line s{number}", name) for number, name in enumerate(searches)),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(figure_file(figure), encoding="utf-8")


def _by_step(steps: Sequence[Logged], searches: Sequence[str], top: float, value: Value) -> Markup:
    """A value over steps, all seeds of a search together."""
    last = max(step.step for step in steps)
    curves = {}
    for search in searches:
        own: dict[int, list[float]] = {}
        for step in steps:
            if step.search == search:
                own.setdefault(step.step, []).append(value(step))
        curves[search] = {float(number): values for number, values in own.items()}
    return _curves(curves, searches, (0.0, float(max(last, 1))), top, "step")


def _by_cost(steps: Sequence[Logged], searches: Sequence[str], best: float) -> Markup:
    """The best choice so far, as a share of the best there is, over distinct choices judged."""
    most = max(step.judged for step in steps)
    curves = {}
    for search in searches:
        seeds: dict[int, list[Logged]] = {}
        for step in steps:
            if step.search == search:
                seeds.setdefault(step.seed, []).append(step)
        curves[search] = {
            float(cost): [_best_at(own, cost) / best for own in seeds.values()]
            for cost in range(most + 1)
            if cost <= max(own[-1].judged for own in seeds.values())
        }
    return _curves(curves, searches, (0.0, float(most)), 1.0, "choices judged")


def _best_at(steps: Sequence[Logged], cost: int) -> float:
    return max((step.best for step in steps if step.judged <= cost), default=0.0)


def _curves(
    curves: dict[str, dict[float, list[float]]],
    searches: Sequence[str],
    across: tuple[float, float],
    top: float,
    name: str,
) -> Markup:
    from ptxgym.report.svg import Axes, panel, polygon, polyline

    axes = Axes(across, (0.0, top * 1.05))
    parts = [axes.grid_y(_ticks(top), "{:g}".format), axes.grid_x(_ticks(across[1]), "{:g}".format, name)]
    for number, search in enumerate(searches):
        upper = [(axes.x(x), axes.y(max(values))) for x, values in curves[search].items()]
        lower = [(axes.x(x), axes.y(min(values))) for x, values in curves[search].items()]
        parts.append(polygon(upper + lower[::-1], f"band s{number}"))
    for number, search in enumerate(searches):
        parts.append(polyline(_means(axes, curves[search]), f"line s{number}"))
    return panel(parts, f"{name}: {', '.join(searches)}")


def _means(axes: Axes, curve: dict[float, list[float]]) -> list[tuple[float, float]]:
    return [(axes.x(x), axes.y(sum(values) / len(values))) for x, values in curve.items()]


def _ticks(top: float) -> list[float]:
    """About five round values from 0 up to ``top``."""
    step = 10 ** math.floor(math.log10(top))
    step = next(s for s in (step / 5, step / 2, step) if top / s <= 6 or s == step)
    return [round(number * step, 6) for number in range(int(top / step + 1e-9) + 1)]
