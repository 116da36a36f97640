"""The rewards as curves, over evaluations made of parts: ``docs/rewards.svg``."""

from __future__ import annotations

from markupsafe import Markup

from ptxgym.evaluation import Evaluation
from ptxgym.report.figures import Figure, Legend
from ptxgym.report.svg import HEIGHT, WIDTH, Axes, element, panel, polyline, text
from ptxgym.rewards import REWARDS, staged
from ptxgym.shaping import Shaping

from .outcomes import evaluation_of

LADDER: tuple[tuple[str, Evaluation], ...] = (
    ("does not compile", evaluation_of(compiled=False)),
    ("memory error", evaluation_of(memory="failed")),
    ("wrong", evaluation_of(correct=False)),
    ("right, w = 0", evaluation_of(share=0.0)),
    ("right, w = 0.8", evaluation_of(share=0.8)),
    ("right, w = 1", evaluation_of()),
    ("… speedup 0.5", evaluation_of(speedup=0.5)),
    ("… speedup 1", evaluation_of(speedup=1.0)),
    ("… speedup 1.2", evaluation_of(speedup=1.2)),
)
EPISODE = (0, 2, 1, 5, 6, 7)
"""An episode as steps on the ladder."""

_SPEEDUPS = [step / 50 for step in range(1, 121)]


def rewards_figure() -> Figure:
    """The ladder, the named rewards over speedups, and what shaping does to an episode."""
    names = [*REWARDS, "staged, w = 0", "staged and shaping"]
    return Figure(
        name="rewards",
        heading="Rewards",
        caption="",
        panels=(
            ("staged, step by step", _ladder()),
            ("by the speedup of a right kernel", _by_speedup()),
            ("an episode, turn by turn", _episode()),
        ),
        legend=tuple(Legend(f"line {_class(name)}", name) for name in names),
    )


def _class(name: str) -> str:
    names = [*REWARDS, "staged, w = 0", "staged and shaping"]
    return f"s{names.index(name)}"


def _ladder() -> Markup:
    axes = Axes((0, 1.2), left=110)
    height = (HEIGHT - axes.top - axes.bottom) / len(LADDER)
    parts = [axes.grid_x((0, 0.3, 0.5, 1.0), "{:g}".format, "reward")]
    for number, (name, evaluation) in enumerate(LADDER):
        y, width = axes.top + number * height, axes.x(staged(evaluation)) - axes.left
        parts.append(element("rect", x=axes.left, y=y + 3, width=width, height=height - 6, class_="fill s0"))
        parts.append(text(axes.left - 5, y + height / 2 + 4, name, "end", "lane"))
    return panel(parts, "The staged reward of outcomes from worst to best")


def _by_speedup() -> Markup:
    axes = Axes((0, 2.4), (0, 2.4))
    parts = [
        axes.grid_y((0, 0.5, 1, 1.5, 2), "{:g}".format),
        axes.grid_x((0, 0.5, 1, 1.5, 2), "{:g}".format, "speedup"),
    ]
    curves = {name: [reward(evaluation_of(speedup=s)) for s in _SPEEDUPS] for name, reward in REWARDS.items()}
    curves["staged, w = 0"] = [staged(evaluation_of(share=0.0, speedup=s)) for s in _SPEEDUPS]
    for name, values in curves.items():
        points = [(axes.x(s), axes.y(v)) for s, v in zip(_SPEEDUPS, values, strict=True)]
        parts.append(polyline(points, f"line {_class(name)}"))
    return panel(parts, f"Rewards by speedup: {', '.join(curves)}")


def _episode() -> Markup:
    axes = Axes((1, len(EPISODE)), (0, 1.2))
    turns = range(1, len(EPISODE) + 1)
    parts = [axes.grid_y((0, 0.5, 1), "{:g}".format), axes.grid_x(turns, "{:g}".format, "turn")]
    how, before = Shaping(), 0.0
    plain, shaped = [], []
    for turn, step in zip(turns, EPISODE, strict=True):
        evaluation = LADDER[step][1]
        after = how.after(before, evaluation, ended=turn == len(EPISODE))
        plain.append((axes.x(turn), axes.y(staged(evaluation))))
        shaped.append((axes.x(turn), axes.y(staged(evaluation) + how.paid(before, after))))
        before = after
    parts += [polyline(plain, f"line {_class('staged')}"), polyline(shaped, f"line {_class('staged and shaping')}")]
    return panel(parts, "An episode with and without shaping; both curves have the same sum", WIDTH)
