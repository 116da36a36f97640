"""Whole verdicts on the embedded simulator: what CI can show of the judge without a GPU."""

import dataclasses
import math
import subprocess
import sys

import gymnasium as gym
import pytest

from ptxgym.bench_kernels import examples, task_of
from ptxgym.devices import get_device
from ptxgym.devices.simulator.device import SimulatorDevice
from ptxgym.evaluation import STAGES, EvaluationOptions, Evaluator, StageName, feedback
from ptxgym.tasks import BLACKWELL, HOPPER, Task, get_task

from .conftest import BAD_INPUT, EXAMPLES, expected_status

ID = "PTXBench-GEMM-H100"
PAPERS = ("gemm", "mha_forward", "mha_forward_causal", "mha_backward", "mha_backward_causal")
VARIANTS = sorted(set(examples()) - set(PAPERS))


def _judge(task: Task | str, source: str, run_seconds: float = 30.0, stages: tuple[StageName, ...] = STAGES):
    task = get_task(task) if isinstance(task, str) else task
    evaluator = Evaluator(task, EvaluationOptions(device="simulator", cache=False, stages=stages))
    evaluator.__dict__["device"] = SimulatorDevice(evaluator.task.architecture, run_seconds)
    return evaluator.evaluate(source)


def test_without_a_gpu_the_simulator_serves_and_says_so():
    for architecture in (HOPPER, BLACKWELL):
        device = get_device("auto", architecture)
        if device.info.kind == "cuda":
            pytest.skip("a GPU is here")
        assert device.info.kind == "simulator"
        assert "simulator" in device.info.name


@pytest.mark.parametrize("name", PAPERS)
def test_examples_pass_every_stage_that_needs_no_clock(name, kernel):
    evaluation = _judge(task_of(name), kernel(name))
    assert evaluation.status == "passed", feedback(evaluation)
    assert evaluation.work_fraction == 1
    timing = evaluation.stage("timing")
    assert (timing.status, timing.reason) == ("skipped", "unavailable")
    assert math.isnan(evaluation.speedup)
    assert "files" in evaluation.stage("correctness").evidence.confinement


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_of_the_examples_are_clean_and_right(name, kernel):
    """Once per code path: what has a mask also has all that its unmasked twin has; five stages are shown above."""
    task = task_of(name)
    task = dataclasses.replace(task, probes=task.probes[:1])
    evaluation = _judge(task, kernel(name), stages=("memory", "correctness") if "causal" in name else ("correctness",))
    assert evaluation.status == "passed", feedback(evaluation)
    built = evaluation.stage("compile").evidence
    assert (built.spill_bytes, built.advisories) == (0, ())


def test_a_plain_cuda_kernel_is_correct_without_target_instructions(kernel):
    task = dataclasses.replace(get_task(ID), probes=({"M": 256, "N": 256, "K": 128},))
    evaluation = _judge(task, kernel("gemm_plain_cuda"))
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
    assert (info["status"], info["end"], terminated) == ("passed", "passed", True), info["error_detail"]
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


def test_a_kernel_that_supports_the_timed_shape_alone_is_told_what_else_to_support(kernel):
    source = kernel("gemm").replace("M <= 0", "M != 8192 || M <= 0", 1)
    assert "M != 8192" in source
    evaluation = _judge(ID, source)
    assert (evaluation.status, evaluation.failed_stage.reason) == ("runtime_error", "refused")
    assert "M=512 N=768 K=640 and M=768 N=256 K=1152. Support at least one of them." in feedback(evaluation)


def test_variants_are_what_their_sources_make():
    script = EXAMPLES / "generate.py"
    made = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert (made.returncode, made.stdout) == (0, ""), f"not up to date: run {script.name}\n{made.stderr}"
