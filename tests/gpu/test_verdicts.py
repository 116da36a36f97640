"""Real kernels on a real Hopper GPU: verdicts, evidence, and that one candidate harms nobody but itself."""

import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import pytest

from ptxgym.bench_kernels import examples, task_of
from ptxgym.evaluation import EvaluationOptions, Evaluator, feedback
from ptxgym.tasks import DISTRIBUTIONS, TASKS, format_shape, get_task

from ..conftest import BAD_INPUT, expected_status

pytestmark = pytest.mark.gpu

ID = "PTXBench-GEMM-H100"


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    return Evaluator(get_task(ID), EvaluationOptions(device="cuda", cache=False))


def test_the_example_passes_all_stages_with_all_of_its_work_by_target_instructions(evaluator, kernel):
    evaluation = evaluator.evaluate(kernel("gemm"))
    assert evaluation.status == "passed", feedback(evaluation)
    assert evaluation.work_fraction >= 0.99
    timing = evaluation.stage("timing").evidence
    assert 0.8 < timing.speedup < 1.3
    assert timing.roofline_seconds < timing.candidate_seconds
    assert timing.report.reference_kernels[0].startswith("nvjet")
    assert len(timing.report.rounds) == 50
    assert sum(round_.correct is not None for round_ in timing.report.rounds) <= 20
    assert set(evaluation.stage("correctness").evidence.confinement) == {"limits", "files", "syscalls"}


def test_a_plain_cuda_kernel_is_correct_timed_and_has_no_work_fraction(evaluator, kernel):
    evaluation = evaluator.evaluate(kernel("gemm_plain_cuda"))
    assert evaluation.status == "target_instructions_missing", feedback(evaluation)
    assert evaluation.correct
    assert evaluation.work_fraction == 0
    assert 0 < evaluation.speedup < 0.3


@pytest.mark.parametrize("path", sorted(BAD_INPUT.glob("*.cu")), ids=lambda path: path.stem)
def test_bad_input_costs_one_process_and_the_next_step_is_right(path, kernel):
    expected = expected_status(path)
    env = gym.make(ID, device="cuda", cache=False, stages=("memory", "correctness"))
    env.reset()
    start = time.monotonic()
    _, _, terminated, truncated, info = env.step(path.read_text(encoding="utf-8"))
    assert info["status"] == expected, info["error_detail"]
    assert info["valid"]
    assert not terminated
    assert not truncated
    assert time.monotonic() - start < 60
    _, _, _, _, info = env.step(kernel("gemm"))
    assert info["status"] == "passed", info["error_detail"]


@pytest.mark.parametrize("name", [name for name in examples() if name != "gemm"])
def test_attention_examples_pass(name, kernel):
    evaluation = Evaluator(task_of(name), EvaluationOptions(device="cuda")).evaluate(kernel(name))
    assert evaluation.status == "passed", feedback(evaluation)
    assert evaluation.work_fraction >= 0.99


@pytest.mark.parametrize("name", list(examples()))
def test_examples_are_right_with_three_seeds_and_both_distributions(name, kernel):
    task = task_of(name)
    evaluator = Evaluator(task, EvaluationOptions(device="cuda", cache=False, stages=("correctness",)))
    for _ in range(3):  # each evaluation draws seeds of its own
        evaluation = evaluator.evaluate(kernel(name))
        assert evaluation.status == "passed", feedback(evaluation)
        compared = evaluation.stage("correctness").evidence.comparisons
        assert {(one.distribution, one.shape) for one in compared} == {
            (distribution, format_shape(shape)) for distribution in DISTRIBUTIONS for shape in task.shapes()
        }


def test_ten_runs_in_a_row_pass(kernel):
    """A result that is sometimes wrong is a race. This kernel draws its work from a counter that launches share."""
    options = EvaluationOptions(device="cuda", cache=False, stages=("correctness", "timing"))
    evaluator = Evaluator(task_of("mha_forward_causal"), options)
    for run in range(10):
        evaluation = evaluator.evaluate(kernel("mha_forward_causal"))
        assert evaluation.status == "passed", f"run {run}: {feedback(evaluation)}"


@pytest.mark.parametrize("task_id", [task for task in TASKS if "H100" in task])
def test_the_vendors_library_passes_the_judge_of_every_task(task_id):
    """What honest bf16 computes at the workload must be right, on both distributions."""
    import torch

    from ptxgym.evaluation.comparison import compare, full_precision

    task = get_task(task_id)
    for distribution in DISTRIBUTIONS:
        with full_precision():
            generator = torch.Generator(device="cuda").manual_seed(5)
            inputs = task.operator.make_inputs(task.workload, distribution, generator)
            reference = task.operator.reference(inputs)
        outputs = task.operator.library(inputs).call()
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        for (name, exact), output in zip(reference.items(), outputs, strict=False):
            result = compare(
                output.reshape(exact.shape), exact, task.tolerance, name=name, shape="", distribution=distribution
            )
            assert result.passed, result
            print(f"{task_id} {distribution} {name}: norm error {result.norm_error:.2e}")
        del inputs, reference, outputs
        torch.cuda.empty_cache()


def test_a_candidate_that_replays_its_first_answer_is_found(evaluator, kernel):
    """Right in its first five calls at the timed shape, more than are checked before timing; then a copy of those."""
    source = kernel("gemm").replace('extern "C" cudaError_t run(', "static cudaError_t honest(", 1)
    source += """
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
  static int calls = 0;
  static __nv_bfloat16* kept = nullptr;
  size_t size = size_t(M) * N * sizeof(__nv_bfloat16);
  if (M < 8192 || ++calls <= 5) {
    cudaError_t error = honest(A, B, C, M, N, K, stream);
    if (error == cudaSuccess && M >= 8192) {
      if (!kept) cudaMalloc(&kept, size);
      cudaMemcpyAsync(kept, C, size, cudaMemcpyDeviceToDevice, stream);
    }
    return error;
  }
  return cudaMemcpyAsync(C, kept, size, cudaMemcpyDeviceToDevice, stream);
}
"""
    evaluation = evaluator.evaluate(source)
    assert evaluation.stage("timing").reason in ("wrong_when_timed", "below_roofline"), feedback(evaluation)
    assert evaluation.status == "implausible"


def test_evaluations_in_flight_together_agree_with_one_alone(kernel):
    evaluators = [Evaluator(get_task(ID), EvaluationOptions(device="cuda", cache=False)) for _ in range(4)]
    sources = [kernel("gemm"), kernel("out_of_bounds_write"), kernel("abort"), kernel("gemm")]
    with ThreadPoolExecutor(4) as pool:
        evaluations = list(pool.map(lambda pair: pair[0].evaluate(pair[1]), zip(evaluators, sources, strict=True)))
    found = [evaluation.status for evaluation in evaluations]
    assert found == ["passed", "memory_error", "runtime_error", "passed"], "\n".join(map(feedback, evaluations))
