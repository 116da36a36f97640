"""A run as a person reads it in the terminal: the trajectories, then the turns of one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Column, Table
from rich.text import Text

from ptxgym.errors import MisuseError
from ptxgym.runs.coverage import coverage
from ptxgym.runs.progress import outcome
from ptxgym.runs.records import RunRecord, TrajectoryKey, TurnRecord, read_run, read_stops, read_turns

_MARKS = {"passed": ("✓", "green"), "unknown": ("?", "yellow")}
_FAILED = ("✗", "red")
_SHOWN_FEEDBACK_LINES = 12


@dataclass
class Line:
    """One trajectory in the list."""

    key: TrajectoryKey
    marks: str = ""
    """One mark per turn."""
    best: float = math.nan
    cost: float = 0.0
    tokens: int = 0
    stop: str = ""
    detail: str = ""

    @property
    def state(self) -> str:
        """What to say of one without an end."""
        return "not yet" if self.marks else "not begun"


def list_trajectories(folder: Path) -> list[Line]:
    """Every trajectory that was planned, begun or not, in the order of the plan: a number stays as the run goes on.

    Raises:
        MisuseError: There is no run, or it is damaged.
    """
    lines = {key: Line(key) for key in read_run(folder).plan}
    for turn in read_turns(folder):
        line = lines.setdefault(turn.key, Line(turn.key))
        line.marks += _mark(turn)[0]
        line.stop = turn.stop or line.stop
        line.tokens += turn.usage.prompt_tokens + turn.usage.completion_tokens
        line.cost += 0.0 if math.isnan(turn.usage.cost) else turn.usage.cost
        if turn.evaluation.status == "passed":
            line.best = max(line.best, turn.evaluation.speedup) if line.best == line.best else turn.evaluation.speedup
    for key, stop in read_stops(folder).items():
        line = lines.setdefault(key, Line(key))
        line.stop, line.detail = stop.stop, stop.detail
    return list(lines.values())


def show_run(folder: Path, console: Console) -> None:
    """Print a run's settings and its trajectories, numbered for ``ptxgym show RUN NUMBER``."""
    record = read_run(folder)
    console.print(escape(_headline(record)), style="bold")
    lines = list_trajectories(folder)
    instance = Column("instance", min_width=max((len(line.key.env) for line in lines), default=0))
    names = ("variant", "repetition", "turns", "best", "tokens", "cost", "ended")
    table = Table("", instance, *names, box=None, header_style="bold")
    for number, line in enumerate(lines, start=1):
        table.add_row(
            str(number),
            line.key.env,
            escape(line.key.variant),
            str(line.key.trajectory),
            line.marks,
            "" if math.isnan(line.best) else f"{line.best:.3f}×",
            f"{line.tokens:,}" if line.tokens else "",
            f"${line.cost:.2f}" if line.cost else "",
            escape(" ".join(filter(None, (line.stop or line.state, line.detail[:80])))),
        )
    console.print(table)
    seen = coverage(record, {line.key: len(line.marks) for line in lines}, read_stops(folder))
    if not seen.whole:
        console.print(f"\nNot finished: {escape(seen.text)}.", style="yellow")
        console.print(f"Unless it is being played, go on with: ptxgym run --out {escape(str(folder))} --resume")


def select(folder: Path, number: int) -> list[TurnRecord]:
    """The turns of one trajectory, by its number in the list.

    Raises:
        MisuseError: There is no such number.
    """
    lines = list_trajectories(folder)
    if not 1 <= number <= len(lines):
        raise MisuseError(f"{folder} has {len(lines)} trajectories; there is no number {number}.")
    key = lines[number - 1].key
    return sorted((turn for turn in read_turns(folder) if turn.key == key), key=lambda turn: turn.turn)


def show_trajectory(turns: Sequence[TurnRecord], console: Console, *, whole: bool) -> None:
    """Print whose turns they are, then each: verdict and head of the feedback, or all that was said and submitted."""
    key = turns[0].key
    console.print(escape(f"{key.env} · variant {key.variant} · repetition {key.trajectory}"), style="bold")
    for turn in turns:
        console.print(Group(*(_whole(turn) if whole else _brief(turn))))


def _brief(turn: TurnRecord) -> Iterator[RenderableType]:
    yield _rule(turn)
    feedback = turn.messages[-1].content.splitlines()
    yield Text("\n".join(feedback[:_SHOWN_FEEDBACK_LINES]))
    if len(feedback) > _SHOWN_FEEDBACK_LINES:
        yield Text(f"… {len(feedback) - _SHOWN_FEEDBACK_LINES} more lines; --whole shows all", style="dim")
    yield from _end(turn)


def _whole(turn: TurnRecord) -> Iterator[RenderableType]:
    yield _rule(turn)
    for message in turn.messages:
        if message.reasoning:
            yield Text(f"\nassistant, thinking\n{message.reasoning}", style="dim italic")
        yield Text(f"\n{message.role}", style="bold")
        yield Text(message.content)
    if turn.source:
        yield Text("\nsubmitted", style="bold")
        yield Syntax(turn.source, "cuda", line_numbers=True, word_wrap=True, background_color="default")
    yield from _end(turn)


def _rule(turn: TurnRecord) -> Rule:
    mark, style = _mark(turn)
    usage, timing = turn.usage, turn.timing
    parts = [
        f"{mark} turn {turn.turn}",
        outcome(turn),
        f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens" if usage.completion_tokens else "",
        f"{usage.reasoning_tokens:,} of them reasoning" if usage.reasoning_tokens else "",
        f"${usage.cost:.3f}" if usage.cost > 0 else "",
        f"model {timing.model_seconds:.1f} s, evaluation {timing.evaluation_seconds:.1f} s",
    ]
    return Rule(Text(" · ".join(part for part in parts if part), style=style), align="left")


def _end(turn: TurnRecord) -> Iterator[RenderableType]:
    if turn.stop:
        yield Text(f"\nended: {turn.stop}", style="bold")


def _mark(turn: TurnRecord) -> tuple[str, str]:
    return _MARKS.get(turn.evaluation.status, _FAILED)


def _headline(record: RunRecord) -> str:
    model = f" with {record.model}" if record.model else ""
    played = f"{record.trajectories} trajectories of {record.max_turns} turns per variant"
    return f"run {record.run} · {record.policy}{model} · {len(record.envs)} instances · {played}"
