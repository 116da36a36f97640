"""Choices and their sources, with the real compiler and the simulator."""

import dataclasses

import pytest

from baselines.tile_policy.kernel import DEFAULTS, SPACES, choice_name, make_source
from ptxgym import EvaluationOptions, Evaluator, get_task

SMALL = dataclasses.replace(get_task("PTXBench-GEMM-H100"), id="SmallGEMM", probes=({"M": 256, "N": 256, "K": 320},))


def judge(device, **choice):
    return Evaluator(SMALL, EvaluationOptions(device=device)).evaluate(make_source(choice))


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_every_choice_has_a_source_and_a_name_of_its_own(space):
    choices = list(space)
    sources = {make_source(choice) for choice in choices}
    assert len(choices) == len(space) == len(sources) == len({choice_name(choice) for choice in choices})
    assert not any("$" in source for source in sources)


def test_the_choices_of_the_example_kernel_are_in_the_full_space():
    own = {head: DEFAULTS[head] for head in SPACES["full"].heads}
    assert own in list(SPACES["full"])
    assert make_source(own) == make_source({})
    assert len(SPACES["full"]) == 216


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        ({"stages": "5"}, "more shared memory than a Hopper CTA can have"),
        ({"registers": "56/240"}, "wait for ever for registers"),
        ({"tile": "64x256"}, "every consumer warpgroup takes as many blocks"),
    ],
)
def test_what_cannot_work_fails_to_compile_and_says_why(choice, why):
    evaluation = judge("none", **choice)
    assert evaluation.status == "compile_error"
    assert why in evaluation.stage("compile").evidence.diagnostics


def test_a_legal_choice_far_from_the_example_passes_without_a_remark():
    far = {"tile": "256x128", "cluster": "1", "raster": "1", "registers": "168/168", "epilogue": "direct"}
    evaluation = judge("simulator", **far)
    assert evaluation.status == "passed"
    assert evaluation.work_fraction == 1
    compiled = evaluation.stage("compile").evidence
    assert (compiled.advisories, compiled.spill_bytes) == ((), 0)
    assert all(report.reports == () for report in evaluation.stage("memory").evidence.reports)
