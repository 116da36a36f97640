"""Runs and imported tables, read for a report one trajectory at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from ptxgym.errors import MisuseError
from ptxgym.evaluation import EvaluationOptions
from ptxgym.metrics import BUDGET, Turn, make_turn
from ptxgym.report.published import FIRST
from ptxgym.report.text import visible
from ptxgym.rewards import TARGET_SPEEDUP
from ptxgym.runs.coverage import coverage
from ptxgym.runs.records import (
    SETTINGS,
    TURNS,
    TrajectoryKey,
    TurnRecord,
    read_run,
    read_stops,
    read_turns,
)

IMPORTED = "imported.jsonl"
"""The file in a folder that ``import-ptxbench`` wrote: one :class:`Turn` a line."""


@dataclass(slots=True)
class RunFacts:
    """What a report says of a run before its results; filled while the run is read."""

    name: str
    path: Path
    ids: set[str] = field(default_factory=set)
    """What its records call the run."""
    policies: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    devices: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    """Of the devices: ``cuda``, ``simulator`` or ``none``."""
    budget: int = BUDGET
    """Turns that a trajectory may take."""
    trajectories: int = 0
    turns: int = 0
    tokens: int = 0
    """Prompt and completion tokens."""
    cost: float = 0.0
    """US dollars of the turns whose cost is known."""
    unpriced: int = 0
    """Turns of a language model whose cost is not known."""
    without_turns: int = 0
    """Trajectories that ended before their first submission; they are in no denominator."""
    adaptation: str = ""
    """How its model was adapted, or helped in context; empty for the model as it is."""
    knowledge: str = ""
    """The level of knowledge in its prompts; empty where the run did not keep it."""
    settings: tuple[str, ...] = ()
    """The settings that change its shares and are not the usual ones, in words."""
    unfinished: str = ""
    """What of its plan is not there; empty when all was played."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be known before its shares are held against others."""
        found = ["simulator: probe shapes, no times"] * ("simulator" in self.kinds)
        found += ["no device: compiled only"] * ("none" in self.kinds)
        if self.budget < BUDGET:
            columns = " / ".join(f"≤{min(first, self.budget)}" for first in FIRST)
            found.append(f"{self.budget} turns allowed: {columns}")
        found += [f"knowledge: {self.knowledge}"] * bool(self.knowledge)
        found += self.settings
        found += ["not finished"] * bool(self.unfinished)
        return tuple(found)

    def add(self, record: TurnRecord) -> None:
        """Count a turn."""
        self.policies.add(record.model or record.policy)
        self.tasks.add(record.env)
        self.devices.add(record.evaluation.device.name)
        self.kinds.add(record.evaluation.device.kind)
        self.turns += 1
        self.tokens += record.usage.prompt_tokens + record.usage.completion_tokens
        if not math.isnan(record.usage.cost):
            self.cost += record.usage.cost
        else:
            self.unpriced += bool(record.model)


_USUAL = {
    "target_speedup": TARGET_SPEEDUP,
    **EvaluationOptions().model_dump(include={"instruction_rule", "shapes", "regime"}),
}
"""Settings that decide what counts, or when a trajectory ends, by what they are unless somebody chose."""


def turn_of_record(record: TurnRecord, budget: int = BUDGET, adaptation: str = "") -> Turn:
    """What metrics need of a run's turn. A policy without a language model has no count of reasoning tokens."""
    turn = make_turn(
        record.evaluation,
        run=record.run,
        model=record.model or record.policy,
        variant=record.variant,
        trajectory=str(record.trajectory),
        turn=record.turn,
        reasoning_tokens=record.usage.reasoning_tokens if record.model else None,
        ended=record.stop in ("target_speedup", "passed", "policy_done"),
        budget=budget,
    )
    return turn.model_copy(update={"condition": adaptation}) if adaptation else turn


def is_imported(path: Path) -> bool:
    """Whether a path is an imported table, not a run."""
    return path.name == IMPORTED or (path.is_dir() and (path / IMPORTED).exists())


def read_imported(path: Path) -> Iterator[Turn]:
    """The turns of an imported table.

    Raises:
        MisuseError: A line is no turn; the message names it.
    """
    file = path / IMPORTED if path.is_dir() else path
    for number, line in enumerate(file.read_bytes().splitlines(), start=1):
        try:
            yield Turn.model_validate_json(line)
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise MisuseError(f"{file}:{number} is no imported turn: {problem}. Import the table again.") from None


def write_imported(turns: Iterable[Turn], folder: Path) -> Path:
    """Write an imported table where ``report`` finds it; an older one is replaced whole."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{IMPORTED}.tmp"
    with draft.open("w", encoding="utf-8") as file:
        file.writelines(turn.model_dump_json() + "\n" for turn in turns)
    return draft.replace(folder / IMPORTED)


def read_trajectories(path: Path, facts: RunFacts) -> Iterator[list[TurnRecord]]:
    """Every trajectory of a run, turns in order; each is let go as soon as its last turn was read.

    Args:
        path: The run's folder, or its ``turns.jsonl``.
        facts: Filled with what the run consumed.

    Raises:
        MisuseError: There is no run, a line is no record, or a turn was recorded twice.
    """
    folder = path if path.is_dir() else path.parent
    settings = read_run(folder) if (folder / SETTINGS).exists() else None
    if settings:
        facts.budget = settings.max_turns
        facts.adaptation = str(settings.policy_settings.get("adaptation", ""))
        facts.knowledge = visible(settings.knowledge)
        asked = {name: settings.env_settings.get(name, usual) for name, usual in _USUAL.items()}
        facts.settings = tuple(
            f"{name.replace('_', ' ')}: {visible(str(value))}" for name, value in asked.items() if value != _USUAL[name]
        )
    stops = read_stops(folder)
    facts.without_turns = sum(stop.turn == 0 and bool(stop.stop) for stop in stops.values())
    open_ones: dict[TrajectoryKey, dict[int, TurnRecord]] = {}
    closed: set[TrajectoryKey] = set()
    turns: Counter[TrajectoryKey] = Counter()
    for record in read_turns(path):
        key = record.key
        own = open_ones.setdefault(key, {})
        if record.turn in own or key in closed:
            raise MisuseError(
                f"{path} has turn {record.turn} of {record.env}, variant {record.variant}, trajectory "
                f"{record.trajectory} twice."
            )
        own[record.turn] = record
        facts.add(record)
        turns[key] += 1
        if record.stop:
            closed.add(key)
            yield _in_order(open_ones.pop(key))
    if settings and not (seen := coverage(settings, turns, stops)).whole:
        facts.unfinished = visible(seen.text)
    yield from map(_in_order, open_ones.values())


def run_name(path: Path) -> str:
    """A run's folder as a report calls it."""
    return (path.parent if path.name in (TURNS, IMPORTED) else path).resolve().name


def _in_order(turns: dict[int, TurnRecord]) -> list[TurnRecord]:
    return [turns[number] for number in sorted(turns)]
