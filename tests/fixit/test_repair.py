"""A teacher behind a real endpoint, kernels that are really compiled and simulated."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from baselines.fixit.build import BuildSettings, build
from baselines.fixit.reason import ReasonSettings, reason
from baselines.fixit.records import Repair
from baselines.fixit.repair import RepairSettings, repair
from baselines.fixit.sources import code_id, fenced
from baselines.fixit.teacher import Teacher
from baselines.mini_ptx_agent import EndpointModel, ModelSettings
from ptxgym.errors import MisuseError
from ptxgym.runs.records import read_lines
from tests.baselines.endpoint import Reply, error, serve
from tests.fixit.doubles import ROOT, evaluation, failure, write_lines
from tests.fixit.small import SMALL, register

GOOD = (ROOT / "knowledge" / "hopper" / "examples" / "gemm.cu").read_text(encoding="utf-8")
BROKEN = GOOD.replace("wgmma_commit_group();", "")
NO_KERNEL = 'extern "C" cudaError_t run(int x) {\n    return does_not_exist(x);\n}\n'
SIMULATOR = RepairSettings(turns=4, env_settings={"device": "simulator"})


@pytest.fixture(scope="module", autouse=True)
def _small_task():
    register()


@contextmanager
def teacher(script, **settings):
    with serve(script) as endpoint:
        model = EndpointModel(ModelSettings(name="t", first_wait=0.01, attempts=2, **settings), endpoint.base_url)
        try:
            yield Teacher("teacher", model), endpoint
        finally:
            model.client.close()


def failed(number: int = 0, env: str = SMALL):
    """A failure of the small task; what is repaired is really broken, its record is not needed."""
    source = f"// {number}\nint number_{number};\n{BROKEN}"
    made = failure(number)
    return made.model_copy(
        update={
            "id": code_id(env, source),
            "problem": made.problem.model_copy(update={"env": env}),
            "source": source,
            "evaluation": evaluation(env, source, "memory"),
        }
    )


def work_with(folder: Path, *failures) -> Path:
    write_lines(folder / "failures.jsonl", failures)
    return folder


def repairs(work: Path) -> list[Repair]:
    return list(read_lines(work / "repairs.jsonl", Repair))


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def answers(*texts: str):
    """The n-th turn gets the n-th text, later ones the last."""
    return lambda request: Reply(texts[min(request.turn, len(texts)) - 1])


def test_a_repair_counts_once_the_environment_passes_it(tmp_path):
    work = work_with(tmp_path, failed())
    texts = (
        f"PASSED: correct, memory-clean, and done by the target instructions.\n{fenced(NO_KERNEL)}",  # it lies
        f"The commit was missing, so that the wait waits for nothing.\n{fenced(GOOD)}\nThat is all.",
    )
    with teacher(answers(*texts)) as (who, endpoint):
        progress = repair(work, who, SIMULATOR)
    (record,) = repairs(work)
    assert (record.outcome, progress.outcomes["repaired"]) == ("repaired", 1)
    assert record.attempts == ("compile_error", "passed")
    assert record.usage.prompt_tokens == 200
    pair = record.pair
    assert pair.kernel.rstrip() == GOOD.rstrip()
    assert pair.notes == "The commit was missing, so that the wait waits for nothing.\nThat is all."
    assert pair.verification.evaluation.work_fraction == 1
    assert 0.97 < pair.kept < 1
    told = [message["content"] for message in endpoint.requests[-1].messages]
    assert "as small a change as possible" in told[1]
    assert failed().source.rstrip() in told[1]
    assert told[3].startswith("COMPILE ERROR")


def test_a_teacher_that_returns_the_failing_kernel_or_loops_is_told_and_never_judged(tmp_path):
    source = failed().source
    again = source.replace("int number_0;", "int  number_0; /* fixed */")
    work = work_with(tmp_path, failed())
    with teacher(answers(fenced(source), fenced(again), fenced(NO_KERNEL), fenced(NO_KERNEL))) as (who, endpoint):
        repair(work, who, SIMULATOR)
    (record,) = repairs(work)
    assert (record.outcome, record.pair) == ("turn_budget", None)
    assert record.attempts == ("unchanged", "unchanged", "compile_error", "repeated")
    assert endpoint.requests[1].messages[-1]["content"].startswith("UNCHANGED")


def test_answers_that_stop_half_way_or_hold_no_kernel_spend_a_turn(tmp_path):
    work = work_with(tmp_path, failed())
    half = "```cpp\n" + GOOD[: len(GOOD) // 2]

    def script(request):
        return Reply(half, finish="length") if request.turn == 1 else Reply("I cannot do this.")

    with teacher(script) as (who, _):
        repair(work, who, RepairSettings(turns=2, env_settings={"device": "none"}))
    assert repairs(work)[0].attempts == ("unusable", "unusable")


def test_a_pass_without_the_instruction_stage_is_none(tmp_path):
    """The environment can be asked for less; a data set cannot."""
    work = work_with(tmp_path, failed())
    settings = RepairSettings(turns=1, env_settings={"device": "simulator", "stages": ("compile",)})
    with teacher(answers(fenced(GOOD))) as (who, _):
        repair(work, who, settings)
    assert repairs(work)[0].attempts == ("incomplete",)


def test_what_the_machine_cannot_judge_is_left_open(tmp_path):
    work = work_with(tmp_path, failed())
    with teacher(answers(fenced(GOOD))) as (who, _):
        progress = repair(work, who, RepairSettings(turns=1, env_settings={"device": "none"}))
    assert repairs(work) == []
    assert "could not be judged here" in progress.left_open[0]


def test_an_endpoint_that_dies_leaves_the_rest_open_and_the_same_command_goes_on(tmp_path):
    work = work_with(tmp_path, *(failed(n) for n in range(3)))

    def dying(request):
        return Reply("No kernel.") if request.number <= 2 else error(401, "no key", "invalid_api_key")

    settings = RepairSettings(turns=1, env_settings={"device": "none"})
    with teacher(dying) as (who, _):
        progress = repair(work, who, settings, concurrency=1)
    assert (progress.finished, len(progress.left_open)) == (2, 1)
    before = lines(work / "repairs.jsonl")
    with teacher(answers("No kernel.")) as (who, endpoint):
        progress = repair(work, who, settings, concurrency=1)
    assert (progress.before, progress.finished, len(endpoint.requests)) == (2, 3, 1)
    assert lines(work / "repairs.jsonl")[:2] == before


def test_a_failure_of_an_unknown_instance_is_a_sentence(tmp_path):
    odd = failed()
    odd = odd.model_copy(update={"problem": odd.problem.model_copy(update={"env": "PTXBench-Nothing"})})
    with teacher(answers("")) as (who, _), pytest.raises(MisuseError, match="PTXBench-Nothing is no instance"):
        repair(work_with(tmp_path, odd), who, SIMULATOR)


def test_from_failure_to_data_set(tmp_path):
    work = work_with(tmp_path / "work", failed())
    thought = "I see that the wait finds no group, since nothing was committed. " * 5

    def script(request):
        about = request.messages[0]["content"]
        return Reply(f"<reasoning>{thought}</reasoning>" if "train of thought" in about else fenced(GOOD))

    with teacher(script) as (who, _):
        repair(work, who, SIMULATOR)
        reason(work, who, ReasonSettings())
    record = build([work], tmp_path / "data", BuildSettings())
    assert (record.samples("train"), record.dropped) == (1, {})
