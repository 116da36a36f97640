"""An Evaluation as observation and info: the feedback text and the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
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
    Status,
    TimingEvidence,
)
from ptxgym.rewards import REWARDS, lacks_time

Observation = dict[str, Any]

_MAX_TEXT_BYTES = 1 << 20
_LARGEST = 1e6
_MISSING = -1.0
"""Stands in observations for a number that does not exist; in ``info`` it is NaN."""

STAGE_CODES: Mapping[StageStatus, int] = MappingProxyType({"skipped": 0, "unknown": 1, "failed": 2, "passed": 3})
"""How the observation writes a stage's status."""

_NO_STATUS = len(STATUSES)

STATUS_MEANINGS: Mapping[Status, str] = MappingProxyType(
    {
        "passed": "every stage that ran passed",
        "invalid_action": "the action is no source that can be compiled: empty, too long, not a string",
        "compile_error": "the compiler refused it, or `run` is not what the task declares",
        "memory_error": "the memory checker found errors",
        "runtime_error": "it crashed, ended the process, or returned an error for the workload",
        "timeout": "it did not finish",
        "incorrect": "an output is wrong, or an input was changed",
        "target_instructions_missing": "right, but the required instructions did not do the work",
        "implausible": "right, but its timing cannot be believed",
        "unknown": "the machine could not tell; no verdict on the kernel",
    }
)
"""What each status says."""

_NUMBERS: Mapping[str, str] = MappingProxyType(
    {
        "norm_error": "the worst output's ‖out − ref‖ / ‖ref − mean(ref)‖",
        "bad_fraction": "that output's share of wrong elements",
        "work_fraction": "share of the operator's FLOPs that target tensor instructions executed",
        "speedup": "the library's time over the kernel's",
        "registers": "the most registers per thread of any kernel",
        "spill_bytes": "bytes spilled to local memory, over all kernels",
    }
)

OBSERVATION_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "feedback": "the prompt at reset, then the verdict and what helps the next attempt",
        "status": f"index into `ptxgym.evaluation.STATUSES` (below); {_NO_STATUS} before the first turn",
        "stages": f"one code per stage, in the order {', '.join(STAGES)}: "
        + ", ".join(f"{code} {status}" for status, code in STAGE_CODES.items()),
        **{name: f"{meaning}; −1 where there is none" for name, meaning in _NUMBERS.items()},
        "turn": "submissions so far",
    }
)
"""What each key of an observation is."""

INFO_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "evaluation": "the whole record (`ptxgym.Evaluation`); None at reset",
        "status": "the evaluation in a word (above); empty at reset",
        "valid": "False when the machine could not judge, or has no time for a reward that needs one: mask the sample",
        "end": "why the episode ended: `target_speedup`, `passed` (where nothing is timed), `turn_budget`; else empty",
        "is_success": "whether the status is `passed`",
        "error_type": "the reason of the first stage that failed, else of the first unknown one, e.g. `mismatch`",
        "error_detail": "a sentence on it",
        "flags": "what looks suspicious in the source; never part of the verdict",
        "cached": "whether a kept evaluation answered",
        "seconds": "what the stages took together",
        "speedup_low": "lower end of the speedup's 95 % interval",
        "speedup_high": "upper end of it",
        "shaping": "the part of the reward that shaping paid",
        "rewards": "every named reward by name; NaN for one that needs a time which was not taken",
        **_NUMBERS,
    }
)
"""What each key of ``info`` is. Numbers that do not exist are NaN."""


def observation_space(max_turns: int) -> spaces.Dict:
    """The space of observations; :data:`OBSERVATION_MEANINGS` says what they are."""

    def number(high: float) -> spaces.Box:
        return spaces.Box(_MISSING, high, shape=(), dtype=np.float32)

    return spaces.Dict(
        {
            "feedback": Unicode(_MAX_TEXT_BYTES),
            "status": spaces.Discrete(_NO_STATUS + 1),
            "stages": spaces.MultiDiscrete([len(STAGE_CODES)] * len(STAGES)),
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
        "stages": np.array([STAGE_CODES[s.status] for s in evaluation.stages] if evaluation else [0] * len(STAGES)),
        "turn": np.int64(turn),
        **{name: np.array(_clip(value), dtype=np.float32) for name, value in numbers.items()},
    }


def make_info(evaluation: Evaluation | None, shaping: float = 0.0, valid: bool = True, end: str = "") -> dict[str, Any]:
    """The same keys at every step, floats as floats: what a vector environment can stack. See :data:`INFO_MEANINGS`."""
    failed = evaluation.failed_stage if evaluation else None
    faults = [s for s in evaluation.stages if s.status == "unknown"] if evaluation else []
    shown = failed or (faults[0] if faults else None)
    timing = evaluation.stage("timing").evidence if evaluation else None
    interval = (timing.speedup_low, timing.speedup_high) if isinstance(timing, TimingEvidence) else (math.nan,) * 2
    return {
        "evaluation": evaluation,
        "status": evaluation.status if evaluation else "",
        "valid": valid,
        "end": end,
        "is_success": evaluation.status == "passed" if evaluation else False,
        "error_type": shown.reason if shown else "",
        "error_detail": shown.message if shown else "",
        "flags": evaluation.flags if evaluation else (),
        "cached": evaluation.cached if evaluation else False,
        "seconds": float(sum(s.seconds for s in evaluation.stages)) if evaluation else 0.0,
        "speedup_low": float(interval[0]),
        "speedup_high": float(interval[1]),
        "shaping": shaping,
        "rewards": {name: _reward(name, evaluation) for name in REWARDS},
        **_numbers(evaluation),
    }


def _reward(name: str, evaluation: Evaluation | None) -> float:
    if evaluation is None:
        return 0.0
    return math.nan if lacks_time(name, evaluation) else float(REWARDS[name](evaluation))


def _numbers(evaluation: Evaluation | None) -> dict[str, float]:
    numbers = dict.fromkeys(_NUMBERS, math.nan)
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
