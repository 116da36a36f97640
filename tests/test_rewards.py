"""Rewards over a table of outcomes: bounded, and nothing worse ever scores more."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ptxgym.errors import MisuseError
from ptxgym.evaluation import STAGES, WORK_FRACTION_LIMIT
from ptxgym.rewards import REWARDS, get_reward, staged

from .evaluation.doubles import ScriptedDevice
from .evaluation.outcomes import evaluation_of
from .evaluation.test_stages import device, judge, task

__all__ = ["device", "task"]


def _wrong(inputs):
    import torch

    return {"C": torch.zeros(inputs["A"].shape[0], inputs["B"].shape[0], dtype=torch.bfloat16)}


def _spoil(device: ScriptedDevice, outcome: str) -> object:
    honest_flops = device.task.operator.flops(device.task.workload) // 4096
    match outcome:
        case "invalid":
            return judge(device, "")
        case "compile_error":
            return judge(device, "int x")
        case "memory_error":
            device.memory_errors = 1
        case "incorrect":
            device.answer = _wrong
        case "no_instructions":
            device.threads = {"FFMA": 1}
        case "token":
            device.threads = {"HGMMA.64x256x16.F32.BF16": honest_flops // 10}
        case "most":
            device.threads = {"HGMMA.64x256x16.F32.BF16": int(honest_flops * 0.85)}
        case "no_instructions_fast":
            device.threads = {"FFMA": 1}
            device.library_seconds = 3e-3
        case "slow":
            device.library_seconds = 0.1e-3
        case "even":
            device.library_seconds = 0.8e-3
        case "fast":
            device.library_seconds = 1.1e-3
        case "absurd":
            device.library_seconds = 1.0
    return judge(device)


LADDER = [
    ("invalid", "compile_error"),
    ("compile_error", "memory_error"),
    ("memory_error", "incorrect"),
    ("incorrect", "no_instructions"),
    ("no_instructions", "token"),
    ("token", "most"),
    ("no_instructions_fast", "slow"),
    ("most", "slow"),
    ("slow", "even"),
    ("even", "fast"),
    ("fast", "absurd"),
]


@pytest.mark.parametrize(("worse", "better"), LADDER)
def test_nothing_worse_scores_more(task, worse, better):
    low, high = (_spoil(ScriptedDevice(task), outcome) for outcome in (worse, better))
    for name, reward in REWARDS.items():
        assert reward(low) <= reward(high), name
    if worse != "invalid":
        assert staged(low) < staged(high)


@pytest.mark.parametrize("outcome", sorted({outcome for pair in LADDER for outcome in pair}))
def test_rewards_are_finite_and_bounded(task, outcome):
    evaluation = _spoil(ScriptedDevice(task), outcome)
    for name, reward in REWARDS.items():
        value = reward(evaluation)
        assert math.isfinite(value), name
        assert 0 <= value <= 4, name


def test_a_timing_that_cannot_be_believed_earns_no_speedup(device):
    device.wall_seconds = 1.0
    evaluation = judge(device)
    assert staged(evaluation) == 0.5
    assert REWARDS["speedup"](evaluation) == 0


def test_what_the_machine_could_not_tell_earns_nothing(device):
    device.fault = RuntimeError("gone")
    evaluation = judge(device)
    assert all(reward(evaluation) == 0 for reward in REWARDS.values())


def test_an_unknown_name_lists_the_known():
    with pytest.raises(MisuseError, match="staged"):
        get_reward("best")


# Every outcome that an evaluation can have, as its parts; larger is better in each.
MEMORY = ("failed", "passed")
OUTCOMES = st.fixed_dictionaries(
    {
        "compiled": st.booleans(),
        "memory": st.sampled_from(MEMORY),
        "correct": st.booleans(),
        "share": st.floats(0, 1),
        "speedup": st.none() | st.floats(1e-3, 1e6),  # None: no time, or one that cannot be believed
    }
)


def _at_least(better: dict, worse: dict) -> bool:
    """Whether one outcome is as good in every part, as far as the stages got."""
    for part in ("compiled", "memory", "correct"):
        first, second = ((MEMORY.index(o[part]) if part == "memory" else o[part]) for o in (better, worse))
        if first != second:
            return first > second  # what comes later was not reached by the worse one
        if not first:
            return True
    target = [o["share"] >= WORK_FRACTION_LIMIT for o in (better, worse)]
    if target[0] != target[1]:
        return target[0]
    speedup = [o["speedup"] or 0 for o in (better, worse)]
    return (target[0] or better["share"] >= worse["share"]) and speedup[0] >= speedup[1]


@given(OUTCOMES, OUTCOMES)
@settings(max_examples=400, deadline=None)
def test_no_outcome_scores_more_than_one_that_is_as_good_in_every_part(first, second):
    worse, better = (first, second) if _at_least(second, first) else (second, first)
    assume(_at_least(better, worse))
    low, high = evaluation_of(**worse), evaluation_of(**better)
    for name, reward in REWARDS.items():
        assert reward(low) <= reward(high), name


@given(OUTCOMES, st.sampled_from(STAGES))
@settings(max_examples=200, deadline=None)
def test_every_reward_of_every_outcome_is_bounded_and_of_an_unknown_one_zero(outcome, lost):
    evaluation = evaluation_of(**outcome)
    limits = {"staged": 2, "fast_inst": 1, "speedup": 4, "binary": 1, "roofline": 1}
    assert limits.keys() == REWARDS.keys()
    for name, reward in REWARDS.items():
        assert 0 <= reward(evaluation) <= limits[name], name
    stages = [
        s.model_copy(update={"status": "unknown", "reason": "infrastructure"}) if s.stage == lost else s
        for s in evaluation.stages
    ]
    unknown = evaluation.model_copy(update={"stages": tuple(stages)})
    if unknown.failed_stage is None:
        assert not unknown.valid
        assert all(reward(unknown) == 0 for reward in REWARDS.values())
