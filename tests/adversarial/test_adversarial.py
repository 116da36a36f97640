"""No attack passes, and no honest look-alike is accused."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ptxgym.evaluation import Evaluation, EvaluationOptions, Evaluator, feedback
from ptxgym.tasks import get_task
from ptxgym.toolchain import compile_source, read_source

from .suite import ATTACKS, FOLDER, HONEST, REFUSES_WORKLOAD, Attack, expected_status, impatience, judge, source, task
from .table import PAGE, page

Judged = Callable[[Path], Evaluation]
_MARK = Path("/dev/shm/ptxgym-adversarial-mark")


def _parameters(where: str) -> Iterator[object]:
    """The attacks that a device must catch; those that it does not yet are expected failures."""
    for path in ATTACKS:
        attack = Attack.read(path)
        if getattr(attack, where) is None:
            continue
        marks = [] if attack.caught else [pytest.mark.xfail(reason="not caught yet", strict=where == "simulator")]
        yield pytest.param(path, id=path.stem, marks=marks)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    """Judges a file; nothing of any is left behind."""
    folder = tmp_path_factory.mktemp("judge")
    with impatience(folder):
        yield judge
    assert not list(folder.glob("*")), "a candidate's folder is left"
    assert not _MARK.exists(), "a candidate left a file in /dev/shm"


def _failure(evaluation: Evaluation) -> tuple[str, str, str]:
    """(stage, reason, status) of the first stage that failed, else of the first that is unknown."""
    for status in ("failed", "unknown"):
        for stage in evaluation.stages:
            if stage.status == status:
                return stage.stage, stage.reason, status
    return "", "", evaluation.status


@pytest.mark.parametrize("path", list(_parameters("simulator")))
def test_an_attack_is_caught_by_the_evidence_that_its_file_names(path: Path, judged: Judged) -> None:
    evaluation = judged(path)
    attack = Attack.read(path)
    assert attack.simulator is not None
    assert evaluation.status != "passed", feedback(evaluation)
    assert _failure(evaluation) == (*attack.simulator, "failed"), feedback(evaluation)


@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_an_honest_look_alike_is_not_accused(path: Path, judged: Judged) -> None:
    evaluation = judged(path)
    assert evaluation.status == expected_status(path), feedback(evaluation)


@pytest.mark.gpu
@pytest.mark.parametrize("path", list(_parameters("gpu")))
def test_an_attack_is_caught_on_a_gpu(path: Path) -> None:
    evaluation = Evaluator(get_task("PTXBench-GEMM-H100"), EvaluationOptions(device="cuda", cache=False)).evaluate(
        source(path)
    )
    expected = Attack.read(path).gpu
    assert expected is not None
    stage, reason, status = _failure(evaluation)
    # Under a tool, the tool's own end hides how the process ended.
    reason = expected[1] if {reason, expected[1]} == {"crash", "exit"} else reason
    assert (stage, reason, status) == (*expected, "failed"), feedback(evaluation)


@pytest.mark.gpu
@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_an_honest_look_alike_is_not_accused_on_a_gpu(path: Path) -> None:
    if path.stem == REFUSES_WORKLOAD:
        pytest.skip("it refuses the workload")
    options = EvaluationOptions(device="cuda", cache=False)
    evaluation = Evaluator(get_task("PTXBench-GEMM-H100"), options).evaluate(source(path))
    assert evaluation.status == expected_status(path), feedback(evaluation)


def test_resources_are_those_of_kernels_that_exist() -> None:
    program = compile_source(read_source(source(FOLDER / "attacks" / "imitates_compiler.cu")), task())
    assert {kernel.name for kernel in program.kernels} == {kernel.name for kernel in program.instructions}


def test_there_are_enough_of_both() -> None:
    assert len(ATTACKS) >= 40
    assert len(HONEST) >= 15


def test_the_page_of_attacks_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.adversarial.table`"
