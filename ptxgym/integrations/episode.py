"""One trajectory for frameworks that speak text: feedback within a budget, a reward of the whole, metrics.

The reward of a trajectory is that of its best submission (or its last), and None when a submission could not be judged:
such a trajectory is to be masked. Not promised: that a submission can be interrupted; without a pool it ends by its own
limits.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, ValidationError

from ptxgym.envs import KernelEnv
from ptxgym.errors import MisuseError
from ptxgym.evaluation import STAGES, Evaluation
from ptxgym.evaluation.pool_client import PoolClient
from ptxgym.rewards import Reward, counted_speedup
from ptxgym.tasks import get_task, on_probes
from ptxgym.toolchain import Record

Phase = Literal["probes", "workload"]
"""``probes``: judged on the probe shapes, nothing is timed. ``workload``: the task as it is."""

_CUT = "\n[…]"

_ROW_FIELDS = {
    "task_id": "task",
    "phase": "phase",
    "level": "knowledge",
    "variant": "variant",
    "max_turns": "max_turns",
}


class EpisodeSettings(Record):
    """How episodes are played."""

    task: str = ""
    """A task's id; where it is empty, every row of the data must name one."""
    device: str = "auto"
    """As for :class:`ptxgym.envs.KernelEnv`."""
    reward: str | Reward = "staged"
    """Of one submission: a name, or a callable at module level."""
    credit: Literal["best", "last"] = "best"
    """Which submission's reward is the trajectory's. With ``best`` a reward below 0 counts as 0."""
    max_turns: int = Field(default=8, ge=1)
    feedback_tokens: int = Field(default=1000, ge=16)
    """The longest feedback. Its end is cut off: the verdict stands first."""
    tokenizer: Any = None
    """Counts the feedback's tokens with ``len(tokenizer.encode(text))``; without one they are estimated
    (:func:`knowledge.estimate_tokens`)."""
    phase: Phase = "workload"
    knowledge: str = "none"
    """A level of the knowledge pack, for prompts that are made here and not by the data."""
    variant: str = "base"
    pool: str = ""
    """The socket of a :class:`ptxgym.evaluation.pool_server.PoolServer` that judges for all workers of this host. A
    pool of this process goes into ``env``."""
    env: Mapping[str, Any] = Field(default_factory=dict)
    """Further arguments of :class:`ptxgym.envs.KernelEnv`, e.g. ``instruction_rule`` or ``pool``. Not ``shaping``: the
    gains of a trajectory pay progress already."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Settings from a framework's configuration.

        Raises:
            MisuseError: A value cannot be, or has no such name.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            raise MisuseError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from None

    def for_row(self, row: Mapping[str, Any]) -> Self:
        """These settings with what a row of the data says itself, at its top or in its ``extra_info``."""
        said = {**(row.get("extra_info") or {}), **row}
        changes = {ours: said[theirs] for theirs, ours in _ROW_FIELDS.items() if said.get(theirs) is not None}
        return self.of({**dict(self), **changes})


@dataclass(frozen=True, slots=True)
class Turn:
    """One submission, judged."""

    feedback: str
    """Within the budget."""
    reward: float
    """Of this submission alone; 0 when it could not be judged."""
    gain: float
    """What it adds to the trajectory's reward; the gains of a trajectory sum up to it."""
    done: bool
    evaluation: Evaluation
    valid: bool
    """Whether it could be judged and its reward be told; see ``info["valid"]``."""


class Episode:
    """One trajectory.

    Args:
        settings: How it is played; they name a task.

    Raises:
        MisuseError: They name no task, or something that does not exist.
    """

    def __init__(self, settings: EpisodeSettings) -> None:
        if not settings.task:
            raise MisuseError("No task: name one in the settings, or give every row of the data a task_id.")
        self.settings = settings
        self.turns: list[Turn] = []
        self.env = make_env(settings)
        self.env.reset()

    @property
    def prompt(self) -> str:
        """What the policy reads first."""
        return self.env.prompt

    @property
    def done(self) -> bool:
        """Whether no submission will be judged any more."""
        return bool(self.turns) and self.turns[-1].done

    @property
    def valid(self) -> bool:
        """Whether every submission so far could be judged."""
        return all(turn.valid for turn in self.turns)

    @property
    def reward(self) -> float | None:
        """Of the trajectory; 0 without a submission, None when one could not be judged."""
        return sum(turn.gain for turn in self.turns) if self.valid else None

    def submit(self, source: object) -> Turn:
        """Judge a source.

        Raises:
            MisuseError: The episode is over.
        """
        return self._step(source)

    def answer(self, text: str) -> Turn:
        """Judge the kernel in a model's answer, taken out of it as MiniPTXAgent does; one without spends the turn.

        Raises:
            MisuseError: The episode is over.
        """
        from baselines.mini_ptx_agent import Answer, UnusableAnswer, extract_kernel

        try:
            source, complaint = extract_kernel(Answer(text.rpartition("</think>")[2])), ""
        except UnusableAnswer as unusable:
            source, complaint = "", str(unusable)
        return self._step(source, complaint)

    def metrics(self) -> dict[str, float]:
        """Numbers of the trajectory for a trainer's log, always the same; a speedup that does not exist is 0."""
        evaluations = [turn.evaluation for turn in self.turns]
        return {
            "turns": float(len(evaluations)),
            "compiled": float(any(e.stage("compile").status == "passed" for e in evaluations)),
            "correct": float(any(e.correct for e in evaluations)),
            "passed": float(any(e.status == "passed" for e in evaluations)),
            "speedup": max((counted_speedup(e) for e in evaluations if e.status == "passed"), default=0.0),
            "unjudged": float(not self.valid),
        }

    def close(self) -> None:
        """Close the environment; what a pool still judges for it is given up."""
        if self.env.pool is not None:
            self.env.pool.cancel(self.env.trajectory)
        self.env.close()

    def _step(self, source: object, complaint: str = "") -> Turn:
        if self.done:
            raise MisuseError("The episode is over; no submission is judged any more.")
        observation, step_reward, terminated, truncated, info = self.env.step(source)  # type: ignore[arg-type]
        reward, evaluation = float(step_reward), info["evaluation"]
        so_far = sum(turn.gain for turn in self.turns)
        gain = max(0.0, reward - so_far) if self.settings.credit == "best" else reward - so_far
        text = complaint or observation["feedback"]
        turn = Turn(
            feedback=fit(text, self.settings.feedback_tokens, token_counter(self.settings.tokenizer)),
            reward=reward,
            gain=gain if info["valid"] else 0.0,
            done=terminated or truncated,
            evaluation=evaluation,
            valid=info["valid"],
        )
        self.turns.append(turn)
        return turn


def make_env(settings: EpisodeSettings) -> KernelEnv:
    """The environment of an episode."""
    task, more = get_task(settings.task), dict(settings.env)
    if "shaping" in more:
        raise MisuseError("env: shaping has no place here; a trajectory's gains pay progress already.")
    if settings.phase == "probes":
        task = on_probes(task)
        more = {"stages": tuple(stage for stage in STAGES if stage != "timing"), **more}
    if settings.pool:
        more = {"pool": _pool_client(settings.pool, os.getpid()), **more}
    try:
        return KernelEnv(
            task,
            device=settings.device,
            reward=settings.reward,
            max_turns=settings.max_turns,
            knowledge=settings.knowledge,
            variant=settings.variant,
            **more,
        )
    except TypeError as error:  # an argument that KernelEnv does not have
        raise MisuseError(f"{error}.") from None


@functools.cache
def _pool_client(path: str, process: int) -> PoolClient:
    """One connection for all episodes of a process; a fork makes its own."""
    return PoolClient(path)


def token_counter(tokenizer: Any) -> Callable[[str], int]:
    """Counts tokens with a tokenizer, or estimates them without one."""
    if tokenizer is None:
        from knowledge import estimate_tokens

        return estimate_tokens
    return lambda text: len(tokenizer.encode(text))


def fit(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """The text's beginning, whole lines where possible, of at most so many tokens."""
    if count(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle] + _CUT) <= tokens else (low, middle - 1)
    head = text[:low]
    return (head.rpartition("\n")[0] or head) + _CUT
