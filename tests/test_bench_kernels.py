"""The example kernels' table: which task each is for, what a row says, and what it takes to be marked as good."""

import dataclasses

import pytest

from ptxgym.bench_kernels import COLUMNS, Judged, examples, judge_examples, page, task_of, write
from ptxgym.devices import get_device
from ptxgym.errors import InfrastructureError, MisuseError
from ptxgym.evaluation import EvaluationOptions, Evaluator
from ptxgym.tasks import HOPPER, TASKS, get_task

from .evaluation.doubles import ScriptedDevice
from .evaluation.test_stages import SMALL, SOURCE


@pytest.fixture(scope="module")
def judged() -> Judged:
    task = dataclasses.replace(get_task("PTXBench-GEMM-H100"), workload=SMALL, probes=(SMALL,))
    evaluator = Evaluator(task, EvaluationOptions(cache=False))
    evaluator.__dict__["device"] = ScriptedDevice(task)
    return Judged("gemm", 0.9, evaluator.evaluate(SOURCE))


def test_every_task_on_hopper_has_one_example():
    assert sorted(task_of(name).id for name in examples()) == sorted(task for task in TASKS if "H100" in task)


def test_a_name_that_is_no_example_is_refused_with_those_that_are():
    with pytest.raises(MisuseError, match="no example kernel 'mha'; there are gemm, gqa_forward, "):
        examples(["mha"])


def test_without_a_hopper_gpu_nothing_is_judged():
    if get_device("auto", HOPPER).gives_times:
        pytest.skip("a Hopper GPU is here")
    with pytest.raises(InfrastructureError, match="only be timed on a Hopper GPU"):
        next(judge_examples())


def test_a_row_has_what_was_measured(judged):
    row = dict(zip(COLUMNS, judged.row, strict=True))
    timing = judged.evaluation.stage("timing").evidence
    assert row["speedup"] == f"{timing.speedup:.3f}"
    assert row["interval"] == f"{timing.speedup_low:.3f}–{timing.speedup_high:.3f}"
    assert row["time"] == f"{timing.candidate_seconds * 1e3:.3f} ms"
    assert (row["regime"], row["work"], row["verdict"]) == ("hot", "1.000", "passed")


def test_a_kernel_is_good_at_its_goal_and_not_below(judged):
    assert judged.reached
    assert not dataclasses.replace(judged, goal=judged.evaluation.speedup + 0.001).reached


def test_a_kernel_that_spills_is_not_good(judged):
    stages = list(judged.evaluation.stages)
    built = stages[1].evidence
    spilling = built.kernels[0].model_copy(update={"spill_load_bytes": 4})
    stages[1] = stages[1].model_copy(update={"evidence": built.model_copy(update={"kernels": (spilling,)})})
    evaluation = judged.evaluation.model_copy(update={"stages": tuple(stages)})
    assert not dataclasses.replace(judged, evaluation=evaluation).reached


def test_a_page_names_device_versions_and_clocks_and_has_a_row_for_each(judged, tmp_path):
    path = tmp_path / "results.md"
    write(path, [judged, dataclasses.replace(judged, name="other", goal=9.0)])
    text = path.read_text(encoding="utf-8")
    assert text == page([judged, dataclasses.replace(judged, name="other", goal=9.0)])
    assert list(tmp_path.iterdir()) == [path]
    for part in (judged.evaluation.device.name, "nvcc 13.", "torch ", "Clocks: "):
        assert part in text
    rows = [line for line in text.splitlines() if line.startswith("| gemm") or line.startswith("| other")]
    assert [row[-3] for row in rows] == ["✓", "✗"]


def test_a_kernel_without_times_has_a_row_too(judged):
    stages = (*judged.evaluation.stages[:-1], judged.evaluation.stages[-1].model_copy(update={"evidence": None}))
    untimed = dataclasses.replace(judged, evaluation=judged.evaluation.model_copy(update={"stages": stages}))
    assert not untimed.reached
    assert untimed.row[1] == "–"
    assert page([untimed]).count("| gemm |") == 1
