"""SVG elements and axes. Colours are CSS classes, so that one drawing serves light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 340, 230
"""Of one panel, in its own units; it scales to the page."""

Point = tuple[float, float]


def element(name: str, *children: Markup | str, **attributes: object) -> Markup:
    """One element, everything escaped. ``class_`` and ``stroke_width`` become ``class`` and ``stroke-width``."""
    inside = Markup("").join(children)
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{pairs}>{inside}</{name}>")


def text(x: float, y: float, content: str, anchor: str = "start", class_: str | None = None) -> Markup:
    """A line of text."""
    return element("text", content, x=x, y=y, text_anchor=anchor, class_=class_)


def title(content: str) -> Markup:
    """What a browser shows when the pointer rests on the parent."""
    return element("title", content)


def polyline(points: Iterable[Point], class_: str) -> Markup:
    """A line through points."""
    return element("polyline", points=_points(points), class_=class_, fill="none")


def polygon(points: Iterable[Point], class_: str) -> Markup:
    """A filled area."""
    return element("polygon", points=_points(points), class_=class_)


def diamond(x: float, y: float, class_: str, note: str, size: float = 4.5) -> Markup:
    """A hollow mark: a value that was published, not measured here."""
    corners = ((x, y - size), (x + size, y), (x, y + size), (x - size, y))
    return element("polygon", title(note), points=_points(corners), class_=f"published {class_}")


def panel(content: Iterable[Markup], label: str, width: float = WIDTH, height: float = HEIGHT) -> Markup:
    """A whole drawing, with a description for those who do not see it."""
    return element("svg", *content, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label, class_="panel")


@dataclass(frozen=True, slots=True)
class Axes:
    """A plotting area: where data values lie in a panel."""

    x_range: Point
    y_range: Point = (0.0, 1.0)
    log_x: bool = False
    width: float = WIDTH
    height: float = HEIGHT
    left: float = 40
    right: float = 10
    top: float = 10
    bottom: float = 34

    def x(self, value: float) -> float:
        """Where a value lies across, kept inside the area."""
        low, high = self.x_range
        if self.log_x:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
        return self.left + _unit(value, low, high) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """Where a value lies up, kept inside the area."""
        return self.height - self.bottom - _unit(value, *self.y_range) * (self.height - self.top - self.bottom)

    def grid_x(self, ticks: Sequence[float], form: Callable[[float], str], name: str) -> Markup:
        """Vertical lines with their values, and the axis's name."""
        base = self.height - self.bottom
        parts = [
            Markup("").join(
                (
                    element("line", x1=self.x(t), x2=self.x(t), y1=self.top, y2=base, class_="grid"),
                    text(self.x(t), base + 13, form(t), "middle", "tick"),
                )
            )
            for t in ticks
        ]
        middle = self.left + (self.width - self.left - self.right) / 2
        return Markup("").join([*parts, text(middle, self.height - 5, name, "middle", "axis")])

    def grid_y(self, ticks: Sequence[float], form: Callable[[float], str]) -> Markup:
        """Horizontal lines with their values."""
        return Markup("").join(
            element("line", x1=self.left, x2=self.width - self.right, y1=self.y(t), y2=self.y(t), class_="grid")
            + text(self.left - 5, self.y(t) + 4, form(t), "end", "tick")
            for t in ticks
        )


def percent(value: float) -> str:
    """A share as a tick reads it."""
    return f"{value * 100:g}%"


def _unit(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
