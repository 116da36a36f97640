"""From choices to rewards, by the environment; each distinct choice is judged once, ever."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym
from pydantic import BaseModel, ConfigDict

from baselines.tile_policy.kernel import Choice, choice_name, make_source
from ptxgym.errors import MisuseError

Env = gym.Env[Any, str]


class Verdict(BaseModel):
    """What the environment said of a choice."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    choice: Mapping[str, str]
    reward: float
    valid: bool
    """False where the machine could not judge; such a sample teaches nothing."""
    status: str
    speedup: float = math.nan
    detail: str = ""
    """Why it failed."""
    device: str = ""
    """What judged."""

    @property
    def name(self) -> str:
        """The choice in one word."""
        return choice_name(self.choice)


class Judge:
    """Plays episodes of one turn.

    Args:
        make_env: A new environment for one episode; None replays, and only what is in the records may be asked for.
        records: A file of verdicts, one JSON line each. What is in it is not judged again, so a search that was broken
            off goes on where it was when it is run again, and a finished one can be replayed anywhere.
        parallel: Episodes at a time.
    """

    def __init__(self, make_env: Callable[[], Env] | None, records: Path | None = None, parallel: int = 1) -> None:
        self._make_env, self._records = make_env, records
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(parallel, thread_name_prefix="tile-policy")
        self.known = {verdict.name: verdict for verdict in read_verdicts(records)} if records else {}
        """Verdicts by the choice's name."""
        if make_env:
            make_env().close()  # a mistake in its settings shows here, and not in a thread

    def __call__(self, choices: Sequence[Choice]) -> list[Verdict]:
        """A verdict for each choice, in order.

        Raises:
            MisuseError: A choice is not in the records that are replayed.
        """
        distinct = {choice_name(choice): choice for choice in choices}
        missing = {name: choice for name, choice in distinct.items() if name not in self.known}
        if missing and self._make_env is None:
            raise MisuseError(f"{self._records} has no verdict on {next(iter(missing))}; judge the whole space first.")
        fresh = dict(zip(missing, self._threads.map(self._play, missing.values()), strict=True))
        return [self.known.get(name) or fresh[name] for name in map(choice_name, choices)]

    def _play(self, choice: Choice) -> Verdict:
        assert self._make_env is not None
        env = self._make_env()
        env.reset()
        _, reward, _, _, info = env.step(make_source(choice))
        env.close()
        verdict = Verdict(
            choice=choice,
            reward=float(reward),
            valid=info["valid"],
            status=info["status"],
            speedup=info["speedup"],
            detail=info["error_detail"][:300],
            device=info["evaluation"].device.name,
        )
        if verdict.valid:  # what the machine could not tell is asked again next time
            self._keep(verdict)
        return verdict

    def _keep(self, verdict: Verdict) -> None:
        with self._lock:
            self.known[verdict.name] = verdict
            if self._records:
                self._records.parent.mkdir(parents=True, exist_ok=True)
                with self._records.open("ab") as file:
                    file.write(verdict.model_dump_json().encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())


def read_verdicts(path: Path) -> list[Verdict]:
    """The verdicts of a file; a last line that was cut off is passed over, and taken off the file."""
    if not path.exists():
        return []
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        os.truncate(path, len(whole))
    return [Verdict.model_validate_json(line) for line in whole.splitlines()]
