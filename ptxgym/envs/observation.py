"""An Evaluation as observation and info: the feedback text and the numbers behind it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from ptxgym.envs.spaces import Unicode
from ptxgym.evaluation import (
    STAGES,
    STATUSES,
    CompileEvidence,
    CorrectnessEvidence,
    Evaluation,
    StageStatus,
    TimingEvidence,
)
from ptxgym.rewards import REWARDS

Observation = dict[str, Any]

_MAX_TEXT_BYTES = 1 << 20
_LARGEST = 1e6
_MISSING = -1.0
"""Stands in observations for a number that does not exist; in ``info`` it is NaN."""

_STAGE_CODES: dict[StageStatus, int] = {"skipped": 0, "unknown": 1, "failed": 2, "passed": 3}
_NO_STATUS = len(STATUSES)


def observation_space(max_turns: int) -> spaces.Dict:
    """The space of observations.

    ``feedback`` text; ``status`` index into :data:`ptxgym.evaluation.STATUSES`, one more before the first turn;
    ``stages`` 0 skipped, 1 unknown, 2 failed, 3 passed, in the order of :data:`ptxgym.evaluation.STAGES`; and numbers,
    −1 where there is none: ``norm_error`` the worst output's, ``bad_fraction`` its share of wrong elements,
    ``work_fraction``, ``speedup``, ``registers`` per thread, ``spill_bytes``, and ``turn``.
    """

    def number(high: float) -> spaces.Box:
        return spaces.Box(_MISSING, high, shape=(), dtype=np.float32)

    return spaces.Dict(
        {
            "feedback": Unicode(_MAX_TEXT_BYTES),
            "status": spaces.Discrete(_NO_STATUS + 1),
            "stages": spaces.MultiDiscrete([len(_STAGE_CODES)] * len(STAGES)),
            "norm_error": number(_LARGEST),
            "bad_fraction": number(1.0),
            "work_fraction": number(1.0),
            "speedup": number(_LARGEST),
            "registers": number(_LARGEST),
            "spill_bytes": number(_LARGEST),
            "turn": spaces.Discrete(max_turns + 1),
        }
    )


def make_observation(text: str, turn: int, evaluation: Evaluation | None) -> Observation:
    """A fresh observation; without an evaluation, of a state before the first turn."""
    numbers = _numbers(evaluation)
    return {
        "feedback": text,
        "status": np.int64(STATUSES.index(evaluation.status) if evaluation else _NO_STATUS),
        "stages": np.array([_STAGE_CODES[s.status] for s in evaluation.stages] if evaluation else [0] * len(STAGES)),
        "turn": np.int64(turn),
        **{name: np.array(_clip(value), dtype=np.float32) for name, value in numbers.items()},
    }


def make_info(evaluation: Evaluation | None, shaping: float = 0.0) -> dict[str, Any]:
    """The same keys at every step, floats as floats: what a vector environment can stack.

    ``evaluation`` is the whole record. ``valid`` is False when the machine could not judge: mask such samples.
    ``shaping`` is the part of the reward that shaping paid.
    """
    failed = evaluation.failed_stage if evaluation else None
    faults = [s for s in evaluation.stages if s.status == "unknown"] if evaluation else []
    shown = failed or (faults[0] if faults else None)
    timing = evaluation.stage("timing").evidence if evaluation else None
    interval = (timing.speedup_low, timing.speedup_high) if isinstance(timing, TimingEvidence) else (math.nan,) * 2
    return {
        "evaluation": evaluation,
        "status": evaluation.status if evaluation else "",
        "valid": evaluation.valid if evaluation else True,
        "is_success": evaluation.status == "passed" if evaluation else False,
        "error_type": shown.reason if shown else "",
        "error_detail": shown.message if shown else "",
        "flags": evaluation.flags if evaluation else (),
        "cached": evaluation.cached if evaluation else False,
        "seconds": float(sum(s.seconds for s in evaluation.stages)) if evaluation else 0.0,
        "speedup_low": float(interval[0]),
        "speedup_high": float(interval[1]),
        "shaping": shaping,
        "rewards": {name: float(reward(evaluation)) if evaluation else 0.0 for name, reward in REWARDS.items()},
        **_numbers(evaluation),
    }


def _numbers(evaluation: Evaluation | None) -> dict[str, float]:
    numbers = dict.fromkeys(
        ("norm_error", "bad_fraction", "work_fraction", "speedup", "registers", "spill_bytes"), math.nan
    )
    if evaluation is None:
        return numbers
    compiled, correctness = evaluation.stage("compile").evidence, evaluation.stage("correctness").evidence
    if isinstance(compiled, CompileEvidence) and compiled.kernels:
        numbers |= {"registers": float(compiled.registers), "spill_bytes": float(compiled.spill_bytes)}
    if isinstance(correctness, CorrectnessEvidence) and (worst := correctness.worst):
        numbers["norm_error"] = worst.norm_error
        numbers["bad_fraction"] = worst.bad_elements / worst.elements
    return numbers | {"work_fraction": evaluation.work_fraction, "speedup": evaluation.speedup}


def _clip(value: float) -> float:
    return _MISSING if math.isnan(value) else min(value, _LARGEST)
