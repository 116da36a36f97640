"""What a person sees of a run while it goes on: counted in one place, drawn in another."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from ptxgym.runs.records import StopRecord, TrajectoryKey, TurnRecord


@dataclass
class Tally:
    """A run in numbers; its size does not grow with the run."""

    trajectories: int
    max_turns: int
    finished: int = 0
    """Trajectories that need nothing more."""
    turns: int = 0
    turns_now: int = 0
    """Those of this process; the rest were found on disk."""
    cost: float = 0.0
    """US dollars, where they are known."""
    best: dict[str, float] = field(default_factory=dict)
    """Instance to the best speedup of a submission that passed every stage."""
    passed: int = 0
    started: float | None = None
    """``time.monotonic`` when this process began to play."""
    _open: dict[TrajectoryKey, int] = field(default_factory=dict)
    """Turns of trajectories that have begun and not ended."""

    def add(self, record: TurnRecord) -> None:
        """Count a turn."""
        self.turns += 1
        self._open[record.key] = self._open.get(record.key, 0) + 1
        self.turns_now += self.started is not None
        self.cost += 0.0 if math.isnan(record.usage.cost) else record.usage.cost
        if record.evaluation.status == "passed":
            self.passed += 1
            speedup = record.evaluation.speedup
            if not math.isnan(speedup):
                self.best[record.env] = max(speedup, self.best.get(record.env, 0.0))

    def finish(self, key: TrajectoryKey) -> None:
        """Count a trajectory that needs nothing more."""
        self.finished += 1
        self._open.pop(key, None)

    @property
    def seconds(self) -> float:
        """Since this process began to play."""
        return 0.0 if self.started is None else time.monotonic() - self.started

    @property
    def seconds_left(self) -> float:
        """At most, were every trajectory to use all its turns; NaN before the first turn."""
        if not self.turns_now:
            return math.nan
        left = (self.trajectories - self.finished) * self.max_turns - sum(self._open.values())
        return self.seconds / self.turns_now * left

    @property
    def text(self) -> str:
        """One line."""
        parts = [
            f"{self.finished}/{self.trajectories} trajectories",
            f"{self.turns} turns",
            f"{self.passed} passed",
            f"best {max(self.best.values()):.3f}×" if self.best else "",
            f"${self.cost:.2f}" if self.cost else "",
            _duration(self.seconds),
            f"at most {_duration(self.seconds_left)} left" if self.seconds_left > 0 else "",
        ]
        return " · ".join(part for part in parts if part)


class Watcher:
    """Told of everything that happens in a run; this one keeps quiet."""

    @contextmanager
    def watching(self, tally: Tally) -> Iterator[None]:
        """The time in which a run is played."""
        tally.started = time.monotonic()
        yield

    def turn(self, record: TurnRecord) -> None:
        """A turn is on disk."""

    def stopped(self, stop: StopRecord) -> None:
        """A trajectory has ended."""

    def note(self, text: str) -> None:
        """Something worth a line, such as a wait for the endpoint."""


class LineWatcher(Watcher):
    """One line per event, for logs.

    Args:
        console: Usually stderr.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._tally = Tally(0, 0)

    @contextmanager
    def watching(self, tally: Tally) -> Iterator[None]:
        """Remember the numbers."""
        self._tally = tally
        with super().watching(tally):
            yield
        self._print(tally.text)

    def turn(self, record: TurnRecord) -> None:
        """A line per turn."""
        self._print(f"{label(record)} turn {record.turn}: {outcome(record)}")

    def stopped(self, stop: StopRecord) -> None:
        """A line per end, with the whole run's numbers."""
        detail = f": {stop.detail}" if stop.detail else ""
        self._print(f"{label(stop)} ended after {stop.turn} turns, {stop.stop}{detail} ({self._tally.text})")

    def note(self, text: str) -> None:
        """A line."""
        self._print(text)

    def _print(self, text: str) -> None:
        with self._lock:
            self._console.print(escape(text), style="dim", soft_wrap=True)


class LiveWatcher(Watcher):
    """A view that is redrawn in place: the run's numbers, the best per instance, and what happened last.

    Args:
        console: A terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tally = Tally(0, 0)
        self._last: list[str] = []

    @contextmanager
    def watching(self, tally: Tally) -> Iterator[None]:
        """Draw until the run has ended."""
        self._tally = tally
        with (
            super().watching(tally),
            Live(get_renderable=self.draw, console=self._console, refresh_per_second=4, transient=True),
        ):
            yield
        self._console.print(escape(tally.text))

    def turn(self, record: TurnRecord) -> None:
        """Show it among the last events."""
        self.note(f"{label(record)} turn {record.turn}: {outcome(record)}")

    def stopped(self, stop: StopRecord) -> None:
        """Show it among the last events."""
        self.note(f"{label(stop)} ended after {stop.turn} turns: {stop.stop} {stop.detail[:160]}".rstrip())

    def note(self, text: str) -> None:
        """Show it among the last events."""
        self._last = [*self._last[-5:], text]

    def draw(self) -> RenderableType:
        """The view at this moment."""
        view = Table.grid(padding=(0, 1))
        view.add_row(escape(self._tally.text))
        view.add_row(ProgressBar(total=max(1, self._tally.trajectories), completed=self._tally.finished, width=60))
        for env, best in sorted(self._tally.best.items()):
            view.add_row(f"{env}  best {best:.3f}×")
        for line in self._last:
            view.add_row(f"[dim]{escape(line)}[/]")
        return view


def label(record: TurnRecord | StopRecord) -> str:
    """A trajectory in words."""
    return f"{record.env} {record.variant} {record.trajectory}"


def outcome(record: TurnRecord) -> str:
    """A turn in words."""
    evaluation = record.evaluation
    speedup = "" if math.isnan(evaluation.speedup) else f", {evaluation.speedup:.3f}×"
    return f"{evaluation.status}{speedup}, reward {record.reward:.2f}"


def _duration(seconds: float) -> str:
    if math.isnan(seconds):
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
