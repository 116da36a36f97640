"""One submission to the environment, outside of any episode of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

import ptxgym  # noqa: F401 registers the environments
from baselines.fixit.records import Problem
from baselines.mini_ptx_agent.agent import SYSTEM
from ptxgym.evaluation import Evaluation
from ptxgym.trajectories import EvaluationRecord


@dataclass(frozen=True)
class Judged:
    """What the environment said."""

    problem: Problem
    """As it would have been put to a policy."""
    record: EvaluationRecord
    feedback: str

    @property
    def evaluation(self) -> Evaluation:
        """The verdict."""
        return self.record.evaluation


def judge(env_id: str, source: str, settings: Mapping[str, Any]) -> Judged:
    """Submit a source to a fresh environment.

    Args:
        env_id: The instance.
        source: The kernel.
        settings: Keyword arguments of the environment: device, shapes, instruction rule.

    Raises:
        MisuseError: The environment cannot be made.
    """
    with closing(gym.make(env_id, disable_env_checker=True, **settings)) as env:
        opening, _ = env.reset()
        observation, *_ = env.step(source)
        record: EvaluationRecord = env.unwrapped.history[-1]  # type: ignore[attr-defined]
    problem = Problem(env=env_id, system=SYSTEM, prompt=str(opening["feedback"]))
    return Judged(problem, record, str(observation["feedback"]))
