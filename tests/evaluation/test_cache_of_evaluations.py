import pytest

from ptxgym.errors import CandidateError, InfrastructureError, MisuseError
from ptxgym.evaluation import EvaluationOptions, Evaluator

from .doubles import ScriptedDevice
from .test_stages import SOURCE, device, task

__all__ = ["device", "task"]


def _evaluator(device: ScriptedDevice, **options: object) -> Evaluator:
    evaluator = Evaluator(device.task, EvaluationOptions(**options))
    evaluator.__dict__["device"] = device
    return evaluator


def test_the_same_program_is_judged_once(device):
    unique = f"// {__name__} once\n{SOURCE}"
    first = _evaluator(device).evaluate(unique)
    calls = list(device.calls)
    again = _evaluator(device).evaluate(unique)
    assert device.calls == calls
    assert (first.cached, again.cached) == (False, True)
    assert again.model_copy(update={"cached": False}) == first


def test_other_options_or_no_cache_judge_again(device):
    unique = f"// {__name__} options\n{SOURCE}"
    _evaluator(device).evaluate(unique)
    for options in ({"regime": "cool"}, {"instruction_rule": "paper"}, {"cache": False}):
        assert not _evaluator(device, **options).evaluate(unique).cached


def test_what_a_machine_could_not_tell_is_not_remembered(device):
    unique = f"// {__name__} unknown\n{SOURCE}"
    device.fault = InfrastructureError("no tool today")
    assert _evaluator(device).evaluate(unique).status == "unknown"
    device.fault = None
    again = _evaluator(device).evaluate(unique)
    assert (again.status, again.cached) == ("passed", False)


def test_what_a_clock_ended_is_not_remembered(device):
    unique = f"// {__name__} timeout\n{SOURCE}"
    device.fault = CandidateError("timeout", "It did not finish.")
    assert _evaluator(device).evaluate(unique).status == "timeout"
    device.fault = None
    again = _evaluator(device).evaluate(unique)
    assert (again.status, again.cached) == ("passed", False)


def test_a_workload_is_not_asked_of_the_simulator(task):
    with pytest.raises(MisuseError, match="shapes='workload' needs a GPU"):
        Evaluator(task, EvaluationOptions(device="simulator", shapes="workload"))
    Evaluator(task, EvaluationOptions(device="none", shapes="workload"))
