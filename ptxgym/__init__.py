"""A Gymnasium environment in which language models learn to write GPU kernels with architecture-specific PTX.

Importing it registers the environments and loads nothing heavy; names are loaded at their first use.

>>> import gymnasium as gym, ptxgym
>>> env = gym.make("PTXBench-GEMM-H100", device="none")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import register, registry

from ptxgym._version import __version__
from ptxgym.tasks.catalogue import TASKS, get_task

if TYPE_CHECKING:
    from ptxgym.envs import KernelEnv, KernelVectorEnv, Source
    from ptxgym.evaluation import Evaluation, EvaluationOptions, Evaluator, feedback
    from ptxgym.rewards import REWARDS
    from ptxgym.trajectories import EvaluationRecord

_HOMES = {
    "Evaluation": "ptxgym.evaluation",
    "EvaluationOptions": "ptxgym.evaluation",
    "EvaluationRecord": "ptxgym.trajectories",
    "Evaluator": "ptxgym.evaluation",
    "KernelEnv": "ptxgym.envs",
    "KernelVectorEnv": "ptxgym.envs",
    "REWARDS": "ptxgym.rewards",
    "Source": "ptxgym.envs",
    "feedback": "ptxgym.evaluation",
}

__all__ = [
    "REWARDS",
    "TASKS",
    "Evaluation",
    "EvaluationOptions",
    "EvaluationRecord",
    "Evaluator",
    "KernelEnv",
    "KernelVectorEnv",
    "Source",
    "__version__",
    "feedback",
    "get_task",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ptxgym' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


for _id in TASKS:
    if _id not in registry:
        register(
            id=_id,
            entry_point="ptxgym.envs:KernelEnv",
            vector_entry_point="ptxgym.envs:KernelVectorEnv",
            kwargs={"task": _id},
            nondeterministic=True,
        )
