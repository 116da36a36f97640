"""Rewards: named functions of an Evaluation.

All are bounded, and zero for what is not a verdict on the candidate (``evaluation.valid`` is False then). Every named
reward is in ``info["rewards"]`` at every step, whichever one the environment returns; there, one that needs a time
which was not taken is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ptxgym.errors import MisuseError
from ptxgym.evaluation import Evaluation, TimingEvidence

Reward = Callable[[Evaluation], float]

TARGET_SPEEDUP = 1.2
"""The paper's target; an episode ends when it is reached."""

_MAX_SPEEDUP = 4.0
"""Speedups are counted up to here. The roofline of every task lies far below."""

# What the staged reward gives for having come so far. Steps grow with how hard they are to take.
COMPILED = 0.05
RUNS_CLEAN = 0.10
CORRECT = 0.30
TARGET_INSTRUCTIONS = 0.50


def staged(evaluation: Evaluation) -> float:
    """A ladder in [0, 2]: each stage passed is worth more than everything before it.

    0.05 compiled; 0.10 the memory checker is content; 0.30 correct, rising to 0.50 with the work fraction of the
    target instructions; and from 0.50, with target instructions, rising by speedup / 2 up to 1.5 more. A correct
    kernel without target instructions never earns more than one with them.
    """
    if not evaluation.valid:
        return 0.0
    if evaluation.stage("compile").status != "passed":
        return 0.0
    if evaluation.stage("memory").status == "failed":
        return COMPILED
    if not evaluation.correct:
        return RUNS_CLEAN if evaluation.stage("memory").status == "passed" else COMPILED
    if evaluation.stage("instructions").status != "passed":
        share = evaluation.work_fraction
        return CORRECT + (TARGET_INSTRUCTIONS - CORRECT) * (0.0 if math.isnan(share) else 0.9 * share)
    return TARGET_INSTRUCTIONS + min(1.5, counted_speedup(evaluation) / 2)


def fast_inst(evaluation: Evaluation) -> float:
    """1 for a correct kernel with target instructions that is faster than the library (FastInst_1), else 0."""
    return float(evaluation.status == "passed" and counted_speedup(evaluation) > 1)


def speedup(evaluation: Evaluation) -> float:
    """The speedup of a kernel that passed every stage, else 0."""
    return counted_speedup(evaluation) if evaluation.status == "passed" else 0.0


def binary(evaluation: Evaluation) -> float:
    """1 for a kernel that passed every stage, else 0."""
    return float(evaluation.status == "passed")


def roofline(evaluation: Evaluation) -> float:
    """Share in [0, 1] of the device's roofline that a passed kernel reaches, else 0."""
    evidence = evaluation.stage("timing").evidence
    if evaluation.status != "passed" or not isinstance(evidence, TimingEvidence):
        return 0.0
    return min(1.0, evidence.roofline_seconds / evidence.candidate_seconds)


REWARDS: Mapping[str, Reward] = MappingProxyType(
    {"staged": staged, "fast_inst": fast_inst, "speedup": speedup, "binary": binary, "roofline": roofline}
)
"""The named rewards."""

TIMED = frozenset({"fast_inst", "speedup", "roofline"})
"""Those that earn by time alone: where nothing is timed they cannot tell a kernel that passed from one that failed."""


def get_reward(reward: str | Reward) -> Reward:
    """A reward by name, or the callable itself.

    Raises:
        MisuseError: There is no reward of this name.
    """
    if callable(reward):
        return reward
    if reward not in REWARDS:
        raise MisuseError(f"There is no reward {reward!r}; there are {', '.join(REWARDS)}, or give a callable.")
    return REWARDS[reward]


def lacks_time(reward: str | Reward, evaluation: Evaluation) -> bool:
    """Whether a named reward needs a time of a kernel that passed, and none was taken: it is unknown then, not 0."""
    timed = isinstance(reward, str) and reward in TIMED
    return timed and evaluation.status == "passed" and math.isnan(evaluation.speedup)


def counted_speedup(evaluation: Evaluation) -> float:
    """The speedup as far as rewards count it; 0 where there is none."""
    value = evaluation.speedup
    return 0.0 if math.isnan(value) else min(value, _MAX_SPEEDUP)
