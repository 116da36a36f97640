"""The references against torch's autograd, rotation against recomputation, and answers that know nothing."""

import math

import pytest
import torch

from ptxgym.evaluation.comparison import compare
from ptxgym.tasks import DISTRIBUTIONS, TASKS, Task
from ptxgym.tasks.null_battery import null_answers
from ptxgym.tasks.operator import draw

TASK_PARAMS = pytest.mark.parametrize("task", [t for t in TASKS.values() if "H100" in t.id], ids=lambda t: t.id)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _attention(Q, K, V, causal):
    """Written from the definition, with torch's own softmax."""
    groups = Q.shape[1] // K.shape[1]
    K, V = K.repeat_interleave(groups, 1), V.repeat_interleave(groups, 1)
    scores = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
    if causal:
        scores = scores + torch.full_like(scores, float("-inf")).triu(1)
    return torch.softmax(scores, -1) @ V, torch.logsumexp(scores, -1)


@TASK_PARAMS
def test_reference_agrees_with_an_independent_computation(task: Task):
    shape = task.probes[0]
    inputs = task.operator.make_inputs(shape, "normal", _generator())
    outputs = task.operator.reference(inputs)
    exact = {name: tensor.double() for name, tensor in inputs.items()}
    if "GEMM" in task.id:
        expected = {"C": torch.einsum("mk,nk->mn", exact["A"], exact["B"])}
    elif "Forward" in task.id:
        O, lse = _attention(exact["Q"], exact["K"], exact["V"], "Causal" in task.id)  # noqa: E741
        expected = {"O": O, "LSE": lse}
    else:
        leaves = [exact[name].requires_grad_() for name in ("Q", "K", "V")]
        O, _ = _attention(*leaves, "Causal" in task.id)  # noqa: E741
        expected = dict(zip(("dQ", "dK", "dV"), torch.autograd.grad(O, leaves, exact["dO"]), strict=True))
    for name, tensor in expected.items():
        difference = (outputs[name] - tensor.detach()).norm() / tensor.detach().norm()
        # Backward reads O and LSE as the candidate does, rounded; autograd has its own, exact.
        assert difference < (2e-3 if "Backward" in task.id else 1e-12)


@TASK_PARAMS
def test_rotating_inputs_rotates_outputs(task: Task):
    for shape in task.probes:
        inputs = task.operator.make_inputs(shape, "normal", _generator(1))
        blocks = min(task.operator.independent_axis(shape).values())
        assert blocks >= 2, "a probe with one block could not be rotated"
        shift = blocks - 1
        rotated = task.operator.rotate(inputs, shape, shift)
        assert any(not torch.equal(rotated[name], inputs[name]) for name in inputs)
        direct = task.operator.reference(rotated)
        known = task.operator.rotate(task.operator.reference(inputs), shape, shift)
        for name in direct:
            torch.testing.assert_close(direct[name], known[name])


@TASK_PARAMS
def test_some_blocks_of_the_inputs_give_those_of_the_outputs(task: Task):
    for shape in task.probes:
        inputs = task.operator.make_inputs(shape, "normal", _generator(1))
        chosen = torch.tensor([min(task.operator.independent_axis(shape).values()) - 1, 0])
        direct = task.operator.reference(task.operator.blocks(inputs, shape, chosen))
        known = task.operator.blocks(task.operator.reference(inputs), shape, chosen)
        for name in known:
            torch.testing.assert_close(direct[name], known[name])


@TASK_PARAMS
def test_inputs_that_are_drawn_again_are_as_good_and_change_every_output(task: Task):
    shape = task.probes[0]
    first = task.operator.make_inputs(shape, "normal", _generator(1))
    again = task.operator.redraw(first, shape, _generator(2))
    assert {name: t.shape for name, t in again.items()} == {name: t.shape for name, t in first.items()}
    before, after = task.operator.reference(first), task.operator.reference(again)
    for name in set(after) - {"LSE"}:
        kept = torch.isclose(before[name], after[name]).all(-1)
        assert kept.float().mean() < 0.01, "under a causal mask the first row of dQ is always zero"
    if "LSE" in again:  # it belongs to the other inputs
        forward = task.operator._forward(again)
        torch.testing.assert_close(forward["LSE"].float(), again["LSE"])


@TASK_PARAMS
def test_answers_that_know_nothing_fail(task: Task):
    shape = task.probes[0]
    for distribution in DISTRIBUTIONS:
        inputs = task.operator.make_inputs(shape, distribution, _generator(2))
        reference = task.operator.reference(inputs)
        answers = dict(null_answers(task.operator, shape, inputs, reference))
        assert {"zeros", "ones", "mean"} < set(answers)
        for answer, outputs in answers.items():
            passed = [
                compare(
                    outputs[name], reference[name], task.tolerance, name=name, shape="", distribution=distribution
                ).passed
                for name in reference
            ]
            assert not any(passed), f"{answer} passes an output of {task.id} on {distribution} inputs"


@TASK_PARAMS
def test_outputs_rounded_to_their_own_type_pass(task: Task):
    shape = task.probes[1]
    for distribution in DISTRIBUTIONS:
        inputs = task.operator.make_inputs(shape, distribution, _generator(3))
        for name, exact in task.operator.reference(inputs).items():
            rounded = exact.to(getattr(torch, task.operator.parameter(name).dtype))
            result = compare(rounded, exact, task.tolerance, name=name, shape="", distribution=distribution)
            assert result.passed
            assert result.norm_error < 0.3 * task.tolerance.norm


@pytest.mark.parametrize("seqlen", [1024, 2048])
def test_attention_with_8_bit_probabilities_fails_although_the_papers_rule_lets_it_pass(seqlen: int):
    task = TASKS["PTXBench-MHAForward-H100"]
    shape = {"batch": 1, "heads": 1, "seqlen": seqlen}
    inputs = task.operator.make_inputs(shape, "normal", _generator(4))
    Q, K, V = (inputs[name].float() for name in ("Q", "K", "V"))
    P = torch.softmax(Q @ K.mT / math.sqrt(128), -1)
    scale = 448 / P.amax(-1, keepdim=True)
    coarse = ((P * scale).to(torch.float8_e4m3fn).float() / scale) @ V.to(torch.float8_e4m3fn).float()
    exact = task.operator.reference(inputs)["O"]
    result = compare(coarse.to(torch.bfloat16), exact, task.tolerance, name="O", shape="", distribution="normal")
    assert not result.passed
    assert result.norm_error > 2 * task.tolerance.norm
    if seqlen == 2048:
        assert result.bad_elements <= 2, "the pointwise rule alone would hardly have told"


def test_spiky_inputs_have_outliers_and_bf16_values():
    values = draw((1 << 20,), "spiky", _generator())
    assert values.dtype is torch.bfloat16
    outliers = (values.abs() > 6).sum().item()
    assert 0.2e-3 < outliers / values.numel() < 1e-3
    assert (draw((1 << 20,), "normal", _generator()).abs() > 6).sum() == 0


def test_reference_works_in_blocks_without_changing_the_result(monkeypatch: pytest.MonkeyPatch):
    task = TASKS["PTXBench-MHABackwardCausal-H100"]
    inputs = task.operator.make_inputs({"batch": 2, "heads": 3, "seqlen": 128}, "normal", _generator())
    whole = task.operator.reference(inputs)
    monkeypatch.setattr("ptxgym.tasks.attention._SCORES_AT_ONCE", 2 * 128 * 128)
    for name, tensor in task.operator.reference(inputs).items():
        torch.testing.assert_close(tensor, whole[name])
