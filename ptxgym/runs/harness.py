"""Many trajectories at once, every turn on disk before the next begins, and nothing done twice after a crash.

Threads suffice: model calls wait for a socket and evaluations for other processes, so that compilation and model calls
of some trajectories run beside the GPU stages of others. What this does not promise: that a model call which was under
way when the process died is not paid for twice.
"""

from __future__ import annotations

import datetime
import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import gymnasium as gym

import ptxgym  # noqa: F401 registers the environments
from ptxgym.errors import InfrastructureError, MisuseError
from ptxgym.runs.journal import FolderLock, Journal, write_by_rename
from ptxgym.runs.policies import PlayedTurn, Policy
from ptxgym.runs.progress import Tally, Watcher
from ptxgym.runs.records import (
    SETTINGS,
    STOPS,
    TURNS,
    Message,
    RunRecord,
    StopRecord,
    Timing,
    TrajectoryKey,
    TurnRecord,
    Usage,
    read_stops,
    read_turns,
)
from ptxgym.trajectories import EvaluationRecord

_GRACE_SECONDS = 20.0
"""How long trajectories under way may take to finish a turn once the run is to end."""


@dataclass
class Outcome:
    """How a run ended."""

    tally: Tally
    errors: list[StopRecord] = field(default_factory=list)
    """Trajectories that an error ended; resuming goes on with them."""
    unfinished: int = 0
    """Trajectories that were not played to an end, those included."""


def run(
    folder: Path, record: RunRecord, policy: Policy, *, concurrency: int, resume: bool, watcher: Watcher
) -> Outcome:
    """Play a run, or the rest of one.

    Args:
        folder: Where its records go.
        record: Its settings; on resumption those of the folder's ``run.json``.
        policy: Who plays.
        concurrency: Trajectories at a time.
        resume: Whether to go on with the run in ``folder`` rather than to begin one.
        watcher: Told of everything that happens.

    Raises:
        MisuseError: Another process runs there, there is a run already, or the environments cannot be made.
        InfrastructureError: The records cannot be written.
    """
    if concurrency < 1:
        raise MisuseError(f"--concurrency {concurrency} leaves nobody to play.")
    with FolderLock(folder):
        if not resume:
            if (folder / SETTINGS).exists() or (folder / TURNS).exists():
                raise MisuseError(f"{folder} holds a run. Go on with it by --resume, or choose another --out.")
            for env in record.envs:
                _make_env(record, env, "").close()  # a wrong setting shows before anything is written
            write_by_rename(folder / SETTINGS, record.model_dump_json(indent=1) + "\n")
        turns, stops = Journal(folder / TURNS, TurnRecord), Journal(folder / STOPS, StopRecord)
        with closing(turns), closing(stops):
            return _Harness(folder, record, policy, turns, stops, watcher).play(concurrency)


def trajectories(record: RunRecord) -> Iterator[TrajectoryKey]:
    """Every trajectory of a run, in the order they are begun."""
    for index in range(record.trajectories):
        for env in record.envs:
            for variant in record.variants[env]:
                yield TrajectoryKey(env, variant, index)


class _RunEndsError(Exception):
    """The run is to end; this trajectory stays as it is and can go on later."""


class _Harness:
    def __init__(
        self, folder: Path, record: RunRecord, policy: Policy, turns: Journal, stops: Journal, watcher: Watcher
    ) -> None:
        self.folder, self.record, self.policy = folder, record, policy
        self.turns, self.stops, self.watcher = turns, stops, watcher
        self.tally = Tally(sum(1 for _ in trajectories(record)), record.max_turns)
        self.outcome = Outcome(self.tally)
        self._past: dict[TrajectoryKey, list[TurnRecord]] = {}
        self._queue: SimpleQueue[TrajectoryKey] = SimpleQueue()
        self._ends = threading.Event()
        self._fault: InfrastructureError | MisuseError | None = None
        self._lock = threading.Lock()
        self._failures_in_a_row = 0

    def play(self, concurrency: int) -> Outcome:
        """Play all that is left, ``concurrency`` trajectories at a time."""
        left = self._what_is_left()
        for key in left:
            self._queue.put(key)
        self._patience = max(3, concurrency)
        workers = [
            threading.Thread(target=self._work, name=f"trajectory-{n}", daemon=True)
            for n in range(min(concurrency, len(left)))
        ]
        with self.watcher.watching(self.tally):
            for worker in workers:
                worker.start()
            self._wait_for(workers)
        if self._fault:
            raise self._fault
        self.outcome.unfinished = self.tally.trajectories - self.tally.finished
        return self.outcome

    def _wait_for(self, workers: list[threading.Thread]) -> None:
        """Until all are done; once the run is to end, not for long. The threads are daemons and hold no line open."""
        while any(worker.is_alive() for worker in workers) and not self._ends.wait(0.05):
            pass
        patience = threading.Event()
        for _ in range(int(_GRACE_SECONDS / 0.05)):
            if not any(worker.is_alive() for worker in workers):
                return
            patience.wait(0.05)

    def _what_is_left(self) -> list[TrajectoryKey]:
        """Read what is on disk, keep the turns of broken trajectories, and list what is to be played."""
        planned = list(trajectories(self.record))
        ended = read_stops(self.folder)
        done: set[TrajectoryKey] = {key for key, stop in ended.items() if stop.final}
        kept: Counter[TrajectoryKey] = Counter()
        for turn in read_turns(self.folder):
            self.tally.add(turn)
            kept[turn.key] += 1
            if turn.terminated or turn.truncated:
                self._past.pop(turn.key, None)
                if turn.key not in done:  # killed between the two lines
                    done.add(turn.key)
                    self._stop(turn.key, turn.turn, turn.stop, "")
            elif turn.key not in done:
                self._past.setdefault(turn.key, []).append(turn)
        if lost := [key for key in done if key in ended and kept[key] < ended[key].turn]:
            raise MisuseError(
                f"{self.folder / TURNS} lacks turns of {len(lost)} trajectories that had ended, among them "
                f"{lost[0].env}, variant {lost[0].variant}, trajectory {lost[0].trajectory}: it was cut or copied in "
                "part. Bring the whole file back, or play the run anew."
            )
        for key, stop in ended.items():
            if key not in done:
                self._stop(key, stop.turn, "", "resumed")
        for key in done & set(planned):
            self.tally.finish(key)
        return [key for key in planned if key not in done]

    def _work(self) -> None:
        while not self._ends.is_set():
            try:
                key = self._queue.get_nowait()
            except Empty:
                return
            try:
                self._play_one(key)
            except _RunEndsError:
                return
            except (InfrastructureError, MisuseError) as fault:  # of the records or the environment, not of a turn
                self._fault = self._fault or fault
                self._ends.set()
                return

    def _play_one(self, key: TrajectoryKey) -> None:
        past = self._past.pop(key, [])
        played = [len(past)]

        def save(turn: PlayedTurn) -> None:
            played[0] += 1
            self._save(key, played[0], turn)

        messages = [_as_message(message) for turn in past for message in turn.messages]
        env = _Resumed(_make_env(self.record, key.env, self.record.variants[key.env][key.variant]), past)
        with closing(env):
            try:
                player = self.policy.start(
                    env, seed=_seed(self.record, key), max_turns=self.record.max_turns, messages=messages, save=save
                )
                end = player.run(seed=_seed(self.record, key))
            except (_RunEndsError, InfrastructureError, MisuseError):
                raise
            except Exception as error:  # the policy's own: it ends this trajectory, and perhaps the run
                self._failed(key, played[0], error)
            else:
                self._ended(self._stop(key, played[0], end.reason, end.detail))

    def _save(self, key: TrajectoryKey, number: int, turn: PlayedTurn) -> None:
        record = _make_record(self.record, self.policy.model, key, number, turn)
        self.turns.append(record)
        with self._lock:
            self._failures_in_a_row = 0
            self.tally.add(record)
            self.watcher.turn(record)
        if self._ends.is_set():
            raise _RunEndsError

    def _failed(self, key: TrajectoryKey, turn: int, error: Exception) -> None:
        kind = getattr(error, "kind", type(error).__name__)
        stop = self._stop(key, turn, f"error:{kind}", str(error))
        with self._lock:
            self.outcome.errors.append(stop)
            self._failures_in_a_row += 1
            self.watcher.stopped(stop)
            # A storm: the next trajectories would only meet it too.
            if getattr(error, "ends_run", False) or self._failures_in_a_row >= self._patience:
                self._ends.set()

    def _ended(self, stop: StopRecord) -> None:
        with self._lock:
            self.tally.finish(stop.key)
            self.watcher.stopped(stop)

    def _stop(self, key: TrajectoryKey, turn: int, reason: str, detail: str) -> StopRecord:
        stop = StopRecord(**key._asdict(), turn=turn, stop=reason, detail=detail[:2000], created=_now())
        self.stops.append(stop)
        return stop


class _Resumed(gym.Wrapper[Any, str, Any, str]):
    """An environment that begins where its episode was broken off."""

    def __init__(self, env: gym.Env[Any, str], past: list[TurnRecord]) -> None:
        super().__init__(env)
        self._history = [_as_history(env.unwrapped, turn) for turn in past]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, and put the submissions of the broken episode back."""
        observation, info = super().reset(seed=seed, options=options)
        history: list[EvaluationRecord] = self.env.unwrapped.history  # type: ignore[attr-defined]
        history.extend(self._history)
        return observation, info


def _as_history(env: Any, turn: TurnRecord) -> EvaluationRecord:
    return EvaluationRecord(
        task=turn.evaluation.task,
        source=turn.source,
        options=env.options,
        evaluation=turn.evaluation,
        reward=turn.reward,
        turn=turn.turn,
        created=turn.created,
    )


def _make_env(record: RunRecord, env: str, knowledge: str) -> gym.Env[Any, str]:
    settings = {**record.env_settings, "max_turns": record.max_turns, "knowledge": knowledge}
    try:
        return gym.make(env, disable_env_checker=True, **settings)
    except (TypeError, ValueError) as error:  # a record that was edited, or another version's
        raise MisuseError(f"{env} cannot be made: {error}") from error


def _make_record(run: RunRecord, model: str, key: TrajectoryKey, number: int, turn: PlayedTurn) -> TurnRecord:
    return TurnRecord(
        run=run.run,
        policy=run.policy,
        model=model,
        **key._asdict(),
        turn=number,
        messages=tuple(Message.model_validate(dict(message)) for message in turn.messages),
        source=turn.source,
        evaluation=turn.info["evaluation"],
        reward=turn.reward,
        terminated=turn.terminated,
        truncated=turn.truncated,
        stop=turn.info.get("end") or ("target_speedup" if turn.terminated else "turn_budget" if turn.truncated else ""),
        usage=Usage(**{name: getattr(turn.usage, name) for name in Usage.model_fields}),
        timing=Timing(model_seconds=turn.model_seconds, evaluation_seconds=turn.evaluation_seconds),
        created=_now(),
    )


def _as_message(message: Message) -> dict[str, str]:
    return message.model_dump(exclude_defaults=True)


def _seed(record: RunRecord, key: TrajectoryKey) -> int:
    """The same in every process, whatever the order in which trajectories are played."""
    name = "/".join(map(str, (record.seed, *key)))
    return int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:4], "big")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
