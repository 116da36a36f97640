"""Rewards over a table of outcomes: bounded, and nothing worse ever scores more."""

import math

import pytest

from ptxgym.errors import MisuseError
from ptxgym.rewards import REWARDS, get_reward, staged

from .evaluation.doubles import ScriptedDevice
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
