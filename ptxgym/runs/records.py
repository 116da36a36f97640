"""What a run leaves behind: one record per turn, one per end of a trajectory, one for the run's settings.

A run is a folder: ``run.json`` (:class:`RunRecord`), ``turns.jsonl`` (:class:`TurnRecord`, one line each, on disk
before the next turn starts) and ``stops.jsonl`` (:class:`StopRecord`). Why a trajectory ended is often known only when
the next turn cannot begin, by which time the last turn is on disk; :func:`read_turns` puts the reason on that turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import Field, ValidationError, field_validator

from ptxgym.errors import MisuseError
from ptxgym.evaluation import Evaluation
from ptxgym.toolchain import Record

TURNS, STOPS, SETTINGS = "turns.jsonl", "stops.jsonl", "run.json"

AnyRecord = TypeVar("AnyRecord", bound=Record)


class TrajectoryKey(NamedTuple):
    """Which trajectory of a run."""

    env: str
    variant: str
    trajectory: int


class Message(Record):
    """One message of the conversation."""

    role: Literal["system", "user", "assistant"]
    content: str
    reasoning: str = ""
    """What an assistant thought before it answered, where the endpoint shows it; never sent back."""


class Usage(Record):
    """What a turn's model call consumed."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    """All tokens that were generated, reasoning included."""
    reasoning_tokens: int = 0
    cost: float = math.nan
    """US dollars: as the endpoint says, else by the model's prices; NaN when neither is known."""
    counted: bool = True
    """False when the endpoint gave no counts and these are estimates from lengths."""


class Timing(Record):
    """Where a turn's wall-clock time went."""

    model_seconds: float = 0.0
    """From the request to the whole answer, waits before retries included."""
    evaluation_seconds: float = 0.0
    """``env.step``, waits for a compiler or a GPU included."""


class TurnRecord(Record):
    """One submission of one trajectory."""

    version: Literal[1] = 1
    run: str
    """The run's id."""
    env: str
    """The instance, e.g. ``PTXBench-GEMM-H100``."""
    policy: str
    model: str
    """Empty for a policy without a language model."""
    variant: str
    """The name of the prompt variant, e.g. ``plain``."""
    trajectory: int
    """0 for the first of this instance and variant."""
    turn: int
    """1 for the first submission."""
    messages: tuple[Message, ...]
    """What this turn added to the conversation: at turn 1 system and prompt, then the answer, then the feedback."""
    source: str
    """As submitted; empty when the answer held no kernel, which is judged as an invalid action."""
    evaluation: Evaluation
    reward: float
    terminated: bool
    truncated: bool
    stop: str = ""
    """On a trajectory's last turn: ``target_speedup``, ``passed`` (where nothing is timed), ``turn_budget``,
    ``context_full``, ``policy_done`` or ``error:<type>``; empty on all others."""
    usage: Usage = Usage()
    timing: Timing = Timing()
    created: str
    """UTC, ISO 8601."""

    @property
    def key(self) -> TrajectoryKey:
        """The trajectory that this turn belongs to."""
        return TrajectoryKey(self.env, self.variant, self.trajectory)


class StopRecord(Record):
    """Why a trajectory ended. The last one of a trajectory counts."""

    version: Literal[1] = 1
    env: str
    variant: str
    trajectory: int
    turn: int
    """Turns taken; 0 when it ended before its first submission."""
    stop: str
    """As in :class:`TurnRecord`; empty when a resumed run takes an ``error:`` back."""
    detail: str = ""
    """A sentence on what happened."""
    created: str

    @property
    def key(self) -> TrajectoryKey:
        """The trajectory that ended."""
        return TrajectoryKey(self.env, self.variant, self.trajectory)

    @property
    def final(self) -> bool:
        """Whether nothing is left to do; a trajectory that an error ended can go on."""
        return bool(self.stop) and not self.stop.startswith("error:")


class RunRecord(Record):
    """A run's settings. Resuming takes them from here."""

    version: Literal[1] = 1
    run: str
    created: str
    envs: tuple[str, ...]
    policy: str
    model: str = ""
    policy_options: dict[str, Any] = Field(default_factory=dict)
    """What was asked for on the command line, to build the policy again; never a key."""
    policy_settings: dict[str, Any] = Field(default_factory=dict)
    """What it was built from: the endpoint without credentials, decoding settings, a folder."""
    variants: dict[str, dict[str, str]]
    """Instance to variant name to the text that stood behind its prompt."""
    trajectories: int
    """Per instance and variant."""
    max_turns: int
    seed: int
    env_settings: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the environments: device, reward, target speedup, rules."""
    software: dict[str, str] = Field(default_factory=dict)
    knowledge: str = ""
    """The level of the knowledge pack in the prompts, or what stood in its place; empty where it was not kept."""

    @field_validator("env_settings")
    @classmethod
    def _read_back(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """JSON has no infinity, which is written as a word."""
        target = settings.get("target_speedup")
        return settings | ({} if target is None else {"target_speedup": float(target)})

    @property
    def plan(self) -> tuple[TrajectoryKey, ...]:
        """Every trajectory, begun or not: by instance, variant and number, instances and variants as asked for."""
        return tuple(
            TrajectoryKey(env, variant, index)
            for env in self.envs
            for variant in self.variants.get(env, ())
            for index in range(self.trajectories)
        )


def read_lines(path: Path, record: type[AnyRecord]) -> Iterator[AnyRecord]:
    """Every record of a JSONL file, in the order they were written, one at a time.

    A last line that a crash cut off is passed over.

    Raises:
        MisuseError: Another line is no such record; the message names it.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield record.model_validate_json(line)
            except ValidationError as error:
                if not line.endswith(b"\n"):  # it was being written
                    return
                problem = error.errors()[0]
                where = ".".join(map(str, problem["loc"]))
                raise MisuseError(
                    f"{path}:{number} is no {record.__name__}: {problem['msg']}{f' at {where}' if where else ''}."
                ) from None


def read_stops(run: Path) -> dict[TrajectoryKey, StopRecord]:
    """The end of every trajectory of a run that has ended."""
    path = run / STOPS
    return {stop.key: stop for stop in read_lines(path, StopRecord)} if path.exists() else {}


def read_turns(run: Path) -> Iterator[TurnRecord]:
    """Every turn of a run, in the order they were written; turns of parallel trajectories are interleaved.

    Args:
        run: The run's folder, or its ``turns.jsonl``.

    Raises:
        MisuseError: There is no run, or a line that is no record; the message names it.
    """
    folder = run if run.is_dir() else run.parent
    path = folder / TURNS if run.is_dir() else run
    if not path.exists():
        raise MisuseError(f"There is no run in {run}: it has no {TURNS}.")
    stops = read_stops(folder)
    for record in read_lines(path, TurnRecord):
        stop = stops.get(record.key)
        ends = stop is not None and stop.turn == record.turn
        yield record.model_copy(update={"stop": stop.stop}) if stop and ends else record


def read_run(run: Path) -> RunRecord:
    """The settings of a run.

    Raises:
        MisuseError: There is none, or it is damaged.
    """
    path = run / SETTINGS
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise MisuseError(f"There is no run in {run}: it has no {SETTINGS}.") from None
    except ValidationError as error:
        raise MisuseError(f"{path} is no record of a run: {error.errors()[0]['msg']}.") from None
