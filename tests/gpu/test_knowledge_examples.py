"""The example kernels that the knowledge pack quotes pass every stage on a Hopper GPU."""

import pytest

from knowledge.amalgamation import amalgamate
from ptxgym.evaluation import EvaluationOptions, Evaluator, feedback
from ptxgym.tasks import get_task
from tests.knowledge.examples import example

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("name", "task_id"), [("gemm", "PTXBench-GEMM-H100"), ("attention", "PTXBench-MHAForward-H100")]
)
def test_an_example_of_the_pack_passes(name: str, task_id: str) -> None:
    evaluator = Evaluator(get_task(task_id), EvaluationOptions(device="cuda", cache=False))
    evaluation = evaluator.evaluate(amalgamate(example("hopper", name)))
    assert evaluation.status == "passed", feedback(evaluation)
    assert evaluation.work_fraction >= 0.99
