"""From an evaluation to a turn: three answers, and never a guess."""

import math

import pytest

from ptxgym.metrics import Turn, make_turn, operator_of, qualifies, usable_rules
from ptxgym.metrics.turns import architecture_of

from ..report.doubles import TASK, evaluation
from .made import turn


def made(found) -> Turn:
    return make_turn(found, run="r", model="m", variant="v", trajectory="0", turn=1)


def test_a_kernel_that_passed():
    got = made(evaluation(speedup=0.9))
    assert (got.correct, got.target_work, got.target_paper, got.speedup) == (True, True, True, 0.9)
    assert (got.task, got.architecture, got.status) == (TASK, "H100", "passed")


def test_both_rules_are_read_from_the_evidence_whatever_the_run_was_judged_by():
    token = made(evaluation("instructions", "not_enough_work", share=0.05))
    assert (token.correct, token.target_paper, token.target_work) == (True, True, False)
    none = made(evaluation("instructions", "not_executed", executed=False, share=0.0))
    assert (none.correct, none.target_paper, none.target_work) == (True, False, False)
    untold = made(evaluation("instructions", "work_unknown", "unknown", share=math.nan))
    assert (untold.correct, untold.target_paper, untold.target_work) == (True, True, None)


def test_work_that_foreign_kernels_did_does_not_count():
    found = evaluation("instructions", "foreign_kernel")
    (stage,) = [stage for stage in found.stages if stage.stage == "instructions"]
    evidence = stage.evidence.model_copy(update={"foreign_kernels": ("cublas_gemm",)})
    changed = stage.model_copy(update={"evidence": evidence})
    stages = tuple(changed if each is stage else each for each in found.stages)
    got = made(found.model_copy(update={"stages": stages}))
    assert (got.correct, got.target_work, got.target_paper) == (True, False, False)


@pytest.mark.parametrize("stage", ["source", "compile", "memory", "correctness"])
def test_what_failed_before_is_not_correct(stage):
    got = made(evaluation(stage))
    assert got.correct is False
    assert got.target_work is got.target_paper is None
    assert math.isnan(got.speedup)


def test_what_the_machine_could_not_tell_is_unknown():
    assert made(evaluation("correctness", "infrastructure", "unknown")).correct is None


def test_an_implausible_timing_leaves_a_correct_kernel_without_speedup():
    got = made(evaluation("timing", "too_fast"))
    assert got.correct is True
    assert math.isnan(got.speedup)


def test_a_missing_timing_leaves_correctness():
    got = made(evaluation("timing", "unavailable", "unknown"))
    assert (got.correct, got.status) == (True, "unknown")
    assert math.isnan(got.speedup)


def test_turns_survive_json():
    for got in (made(evaluation()), turn(speedup=math.nan), turn(correct=None, target=None)):
        again = Turn.model_validate_json(got.model_dump_json())
        assert again.model_dump_json() == got.model_dump_json()


def test_qualifying_is_three_valued():
    assert qualifies(turn(target=None)) is True
    assert qualifies(turn(target=None), "work") is None
    assert qualifies(turn(correct=False, target=True), "work") is False
    assert qualifies(turn(correct=None), "paper") is None


def test_a_rule_without_evidence_is_not_usable():
    paper_only = turn().model_copy(update={"target_work": None})
    assert usable_rules([paper_only]) == ("paper",)
    assert usable_rules([turn(correct=False)]) == ()


@pytest.mark.parametrize(
    ("task", "architecture", "operator"),
    [
        ("PTXBench-GEMM-H100", "H100", "GEMM"),
        ("PTXBench-MHAForward-B200-D64", "B200", "MHAForward-D64"),
        ("odd", "", "odd"),
    ],
)
def test_ids_are_taken_apart(task, architecture, operator):
    assert (architecture_of(task), operator_of(task)) == (architecture, operator)
