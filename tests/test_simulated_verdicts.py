"""Whole verdicts on the embedded simulator: what CI can show of the judge without a GPU."""

import math

import gymnasium as gym
import pytest

from ptxgym.devices import get_device
from ptxgym.devices.simulator.device import SimulatorDevice
from ptxgym.evaluation import EvaluationOptions, Evaluator, feedback
from ptxgym.tasks import BLACKWELL, HOPPER, get_task

from .conftest import BAD_INPUT, EXAMPLES, expected_status

ID = "PTXBench-GEMM-H100"
TASKS = {
    "gemm": ID,
    "mha_forward": "PTXBench-MHAForward-H100",
    "mha_forward_causal": "PTXBench-MHAForwardCausal-H100",
    "mha_backward": "PTXBench-MHABackward-H100",
    "mha_backward_causal": "PTXBench-MHABackwardCausal-H100",
}


def _judge(task_id: str, source: str, run_seconds: float = 30.0):
    evaluator = Evaluator(get_task(task_id), EvaluationOptions(device="simulator", cache=False))
    evaluator.__dict__["device"] = SimulatorDevice(evaluator.task.architecture, run_seconds)
    return evaluator.evaluate(source)


def test_without_a_gpu_the_simulator_serves_and_says_so():
    for architecture in (HOPPER, BLACKWELL):
        device = get_device("auto", architecture)
        if device.info.kind == "cuda":
            pytest.skip("a GPU is here")
        assert device.info.kind == "simulator"
        assert "simulator" in device.info.name


@pytest.mark.parametrize("name", TASKS)
def test_examples_pass_every_stage_that_needs_no_clock(name, kernel):
    evaluation = _judge(TASKS[name], kernel(name))
    assert evaluation.status == "passed", feedback(evaluation)
    assert evaluation.work_fraction == 1
    timing = evaluation.stage("timing")
    assert (timing.status, timing.reason) == ("skipped", "unavailable")
    assert math.isnan(evaluation.speedup)
    assert "files" in evaluation.stage("correctness").evidence.confinement


def test_a_plain_cuda_kernel_is_correct_without_target_instructions(kernel):
    evaluation = _judge(ID, kernel("gemm_plain_cuda"))
    assert evaluation.status == "target_instructions_missing"
    assert (evaluation.correct, evaluation.work_fraction) == (True, 0)


@pytest.mark.parametrize("path", sorted(BAD_INPUT.glob("*.cu")), ids=lambda path: path.stem)
def test_bad_input_is_judged_as_on_a_gpu_or_as_its_file_says(path):
    evaluation = _judge(ID, path.read_text(encoding="utf-8"), run_seconds=5)
    assert evaluation.status == expected_status(path, "simulator"), feedback(evaluation)


def test_the_step_after_a_bad_one_is_right(kernel):
    env = gym.make(ID, device="simulator")
    env.reset()
    for name in ("abort", "out_of_bounds_write", "mbarrier_never_completes"):
        _, reward, _, _, info = env.step(kernel(name))
        assert not info["is_success"]
        assert info["valid"]
    _, reward, terminated, _, info = env.step(kernel("gemm"))
    assert (info["status"], terminated) == ("passed", False), info["error_detail"]
    assert reward == 0.5, "a simulator's verdict earns nothing for speed"


def test_a_deadlock_is_told_exactly(kernel):
    text = feedback(_judge(ID, kernel("mbarrier_never_completes")))
    assert text.startswith("TIMEOUT")
    assert "kernel.cu:9" in text
    assert "2 of 2 arrivals are missing" in text


def test_an_out_of_bounds_write_is_told_with_its_line(kernel):
    text = feedback(_judge(ID, kernel("out_of_bounds_write")))
    assert "kernel.cu:3" in text
    assert "out-of-bounds" in text


def test_a_kernel_that_supports_the_timed_shape_alone_is_unknown_not_wrong(kernel):
    source = kernel("gemm").replace("M <= 0", "M != 8192 || M <= 0", 1)
    assert "M != 8192" in source
    evaluation = _judge(ID, source)
    assert (evaluation.status, evaluation.valid) == ("unknown", False)


def test_all_examples_are_covered():
    assert {path.stem for path in EXAMPLES.glob("*.cu")} == {*TASKS, "gemm_plain_cuda"}
