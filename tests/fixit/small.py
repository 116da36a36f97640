"""Two instances for tests: a GEMM with one small probe, and one whose judge is a line of Python."""

from __future__ import annotations

import dataclasses

import gymnasium as gym

import ptxgym  # noqa: F401
from ptxgym.evaluation import EvaluationOptions, feedback
from ptxgym.tasks import get_task
from ptxgym.trajectories import make_record
from tests.fixit.doubles import evaluation

SMALL = "PTXBench-GEMM-H100-Small"
"""The simulator judges it in a second or two."""
STUB = "PTXBench-GEMM-H100-Stub"
"""Passes what does not say ``broken``: for claims that are about records, not about verdicts."""


class StubEnv(gym.Env):
    """As the environment answers, without a compiler."""

    def __init__(self, **settings: object) -> None:
        self.history = []

    def reset(self, *, seed=None, options=None):
        self.history = []
        return {"feedback": "Write a kernel."}, {}

    def step(self, action: str):
        found = evaluation(STUB, action, "correctness" if "broken" in action else "")
        self.history.append(make_record(action, EvaluationOptions(), found, 0.5, len(self.history) + 1))
        return {"feedback": feedback(found)}, 0.5, False, False, {"evaluation": found}


def register() -> None:
    """Make both known, once."""
    if SMALL not in gym.registry:
        shape = {"M": 128, "N": 128, "K": 320}
        task = dataclasses.replace(get_task("PTXBench-GEMM-H100"), id=SMALL, probes=(shape,))
        gym.register(SMALL, entry_point="ptxgym.envs:KernelEnv", kwargs={"task": task})
        gym.register(STUB, entry_point="tests.fixit.small:StubEnv")
