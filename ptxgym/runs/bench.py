"""What the harness itself costs: time per turn beside model and evaluation, and memory over many turns."""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from ptxgym.runs.harness import run
from ptxgym.runs.progress import Tally, Watcher
from ptxgym.runs.records import Message, RunRecord, StopRecord, TurnRecord, Usage, read_turns

if TYPE_CHECKING:
    from ptxgym.bench import Figure

ENV = "PTXBench-GEMM-H100"
TURNS = 10_000
IN_FLIGHT = 16
SOURCE = "\0" + "x" * 16_000
"""As long as a real kernel, and refused before anything is compiled."""

_MOST_MILLISECONDS, _MOST_MEBIBYTES = 20, 16


@dataclass(frozen=True, slots=True)
class HarnessCost:
    """What was measured."""

    turns: int
    milliseconds_per_turn: float
    """Wall-clock time of one trajectory's turn outside the policy and ``env.step``, the write to disk included."""
    grown_mebibytes: float
    """Resident memory after the last turn less that after the first tenth."""
    bytes_per_turn: float


def measure(turns: int = TURNS) -> HarnessCost:
    """Play so many turns in which neither a model nor a compiler has any part.

    The first figure comes from one trajectory at a time, so that waits for other threads are not counted as the
    harness's; the second from sixteen.
    """
    with tempfile.TemporaryDirectory() as folder:
        alone = _play(Path(folder) / "alone", 400, concurrency=1, watcher=Watcher())
        memory = _Memory(turns // 10)
        _play(Path(folder) / "many", turns, concurrency=IN_FLIGHT, watcher=memory)
        size = (Path(folder) / "many" / "turns.jsonl").stat().st_size
        played = sum(1 for _ in read_turns(Path(folder) / "many"))
    assert played == turns, f"{played} of {turns} turns are on disk"
    return HarnessCost(turns, alone * 1e3, memory.growth, size / turns)


def harness_figures() -> Iterator[Figure]:
    """The cost beside its goals, for ``ptxgym bench harness``."""
    from ptxgym.bench import Figure  # which has this function in its table

    cost = measure()
    time_, memory = cost.milliseconds_per_turn, cost.grown_mebibytes
    on_disk = f"{cost.bytes_per_turn / 1024:.0f} KiB per turn on disk, fsync included"
    yield Figure("harness, per turn", time_, "ms", "≤ 20 ms", time_ <= _MOST_MILLISECONDS, on_disk)
    name = f"memory grown over {cost.turns:,} turns"
    yield Figure(name, memory, "MiB", "≤ 16 MiB", memory <= _MOST_MEBIBYTES, f"{IN_FLIGHT} trajectories at once")


def _play(folder: Path, turns: int, concurrency: int, watcher: Watcher) -> float:
    """Seconds per turn outside policy and environment."""
    record = RunRecord(
        run="bench",
        created="",
        envs=(ENV,),
        policy="bench",
        variants={ENV: {"plain": ""}},
        trajectories=math.ceil(turns / 8),
        max_turns=8,
        seed=0,
        env_settings={"device": "none"},
    )
    policy = _Policy()
    start = time.perf_counter()
    run(folder, record, policy, concurrency=concurrency, resume=False, watcher=watcher)
    return (time.perf_counter() - start - policy.seconds) / turns


@dataclass
class _End:
    reason: str
    detail: str = ""


@dataclass
class _Turn:
    source: str
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]
    evaluation_seconds: float
    messages: Sequence[Mapping[str, str]]
    usage: Usage = field(default_factory=Usage)
    model_seconds: float = 0.0


class _Policy:
    """Submits the same refused source until the environment ends the episode."""

    model, settings = "", {"source": len(SOURCE)}

    def __init__(self) -> None:
        self.seconds = 0.0
        """In ``env.step``; only meaningful with one trajectory at a time."""

    def start(self, env: gym.Env[Any, str], *, save: Any, **_: Any) -> _Player:
        return _Player(self, env, save)


class _Player:
    def __init__(self, policy: _Policy, env: gym.Env[Any, str], save: Any) -> None:
        self._policy, self._env, self._save = policy, env, save

    def run(self, seed: int | None = None) -> _End:
        self._env.reset(seed=seed)
        said = [Message(role="assistant", content=SOURCE), Message(role="user", content="refused")]
        messages = [message.model_dump() for message in said]
        for _ in itertools.count():
            start = time.perf_counter()
            _, reward, terminated, truncated, info = self._env.step(SOURCE)
            seconds = time.perf_counter() - start
            self._policy.seconds += seconds
            self._save(_Turn(SOURCE, float(reward), terminated, truncated, info, seconds, messages))
            if terminated or truncated:
                break
        return _End("turn_budget")


class _Memory(Watcher):
    """Looks at the process's memory once it is warm, and at the end."""

    def __init__(self, warm: int) -> None:
        self._warm, self._seen, self._first, self.growth = warm, 0, 0.0, math.nan

    @contextmanager
    def watching(self, tally: Tally) -> Iterator[None]:
        with super().watching(tally):
            yield
        self.growth = _resident_mebibytes() - self._first

    def turn(self, record: TurnRecord) -> None:
        self._seen += 1
        if self._seen == self._warm:
            self._first = _resident_mebibytes()

    def stopped(self, stop: StopRecord) -> None:
        """Nothing is kept."""


def _resident_mebibytes() -> float:
    """Linux's own count (proc(5), statm)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20
