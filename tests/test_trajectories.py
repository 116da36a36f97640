import pytest

from ptxgym.envs import KernelEnv
from ptxgym.errors import MisuseError
from ptxgym.evaluation import EvaluationOptions, Evaluator
from ptxgym.tasks import get_task, on_probes
from ptxgym.trajectories import append_record, make_record, read_records, reproduce

OPTIONS = EvaluationOptions(device="none")


@pytest.fixture
def record(kernel):
    evaluation = Evaluator(get_task("PTXBench-GEMM-H100"), OPTIONS).evaluate(kernel("no_run"))
    return make_record(kernel("no_run"), OPTIONS, evaluation, 0.0, 1)


def test_records_come_back_as_they_were_written(tmp_path, record):
    for _ in range(3):
        append_record(tmp_path / "r.jsonl", record)
    assert list(read_records(tmp_path / "r.jsonl")) == [record] * 3


def test_a_line_cut_off_by_a_crash_is_passed_over_and_another_is_named(tmp_path, record):
    path = tmp_path / "r.jsonl"
    append_record(path, record)
    append_record(path, record)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    assert list(read_records(path)) == [record]
    path.write_bytes(b"{}\n" + whole)
    with pytest.raises(MisuseError, match=r"r\.jsonl:1"):
        list(read_records(path))


def test_a_submission_on_the_probe_shapes_is_judged_again_like_any_other():
    env = KernelEnv(on_probes(get_task("PTXBench-GEMM-H100")), device="none")
    env.reset()
    env.step("int x = ;")
    assert reproduce(env.history[0]).differences == ()


def test_a_second_judgement_reproduces_or_says_what_differs(record):
    assert reproduce(record).differences == ()
    fixed = record.model_copy(update={"source": "int x"})
    assert reproduce(fixed).differences == ()
    empty = record.model_copy(update={"source": ""})
    differences = reproduce(empty).differences
    assert any(difference.startswith("source: passed → failed") for difference in differences)
