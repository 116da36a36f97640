"""Reasonings that can be used, and those that are asked for again."""

from __future__ import annotations

import pytest

from baselines.fixit.contracts import contract_of, contracts, read_finding
from baselines.fixit.explain import explain
from baselines.fixit.filters import Limits, objection
from baselines.fixit.reason import ReasonSettings, reason
from baselines.fixit.records import BrokenContract, Reasoning, Repair
from ptxgym.errors import MisuseError
from ptxgym.runs.records import read_lines
from tests.baselines.endpoint import Reply
from tests.fixit.doubles import FINDING, GEMM, KERNEL, THOUGHT, evaluation, pair, write_lines
from tests.fixit.test_repair import teacher

LEAKS = [
    "Looking at the fixed kernel, I see the fence.",
    "The reference solution has a fence here, so I add it.",
    "According to the given solution I add a fence.",
    "I compare the two kernels and see the fence.",
    "The diff shows a fence.",
    "The engineer adds a fence, and I agree.",
    "I was asked to explain the fence.",
    "Here the teacher adds a fence.",
    "As an AI I would add the fence.",
    "The solution that was given has it.",
    "The corrected version has the fence, my kernel has none.",
]
HONEST = [
    "My error against the reference is large, so the reference has other numbers than my kernel.",
    "I have to fix the kernel: it needs a fence before the copy.",
    "The kernel given the launch bounds uses 168 registers, which I keep.",
    "A known pattern is fence, barrier, copy, and I follow it.",
    "I will fix this by adding the fence, and submit the whole file.",
]


def tagged(text: str) -> Reply:
    return Reply(f"Sure.\n<reasoning>\n{text}\n</reasoning>")


def work_with(folder, *pairs):
    records = [
        Repair(failure=p.id, outcome="repaired", pair=p, attempts=("passed",), teacher="t", created="now")
        for p in pairs
    ]
    write_lines(folder / "repairs.jsonl", records)
    return folder


def ask(work, *replies, settings=None):
    """The one reasoning that a teacher with this script writes, and what it was asked."""
    with teacher(list(replies)) as (who, endpoint):
        reason(work, who, settings or ReasonSettings())
    (record,) = read_lines(work / "reasons.jsonl", Reasoning)
    return record, endpoint.requests


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_found(leak):
    assert objection(f"{THOUGHT} {leak}", Limits()).startswith("leak: ")


@pytest.mark.parametrize("text", HONEST)
def test_an_honest_sentence_is_none(text):
    assert not objection(f"{THOUGHT} {text}", Limits())


def test_words_that_the_task_itself_uses_are_no_leak():
    text = f"{THOUGHT} The feedback says that the final kernel is too slow."
    assert objection(text, Limits()).startswith("leak")
    assert not objection(text, Limits(), own_words="Is THE FINAL KERNEL fast?")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I see.", "too short"),
        (THOUGHT * 10, "too long"),
        (THOUGHT + "<|im_end|>", "forbidden: <|im_end|>"),
        (THOUGHT + "</think>", "forbidden: </think>"),
        (THOUGHT + "[/INST]", "forbidden: [/INST]"),
        (THOUGHT + "\n```cpp\n" + "int a;\n" * 50 + "```", "quotes a whole source"),
        ("The fence is missing. It has to stand before the copy. " * 10, "not in the first person"),
    ],
)
def test_every_other_objection(text, why):
    assert objection(text, Limits(longest=1500)) == why


def test_a_leaking_teacher_is_asked_again_and_told_why(tmp_path):
    record, requests = ask(work_with(tmp_path, pair()), tagged(THOUGHT + LEAKS[0]), tagged(THOUGHT))
    assert (record.outcome, record.text) == ("accepted", THOUGHT)
    assert record.rejections == ("leak: the fixed kernel",)
    assert "leak: the fixed kernel" in requests[1].messages[-1]["content"]
    assert record.usage.prompt_tokens == 200
    assert (KERNEL % 0).rstrip() in requests[0].messages[1]["content"]


def test_an_over_long_reasoning_is_redone_shorter(tmp_path):
    settings = ReasonSettings(limits=Limits(longest=1000))
    replies = [tagged(THOUGHT * 5), Reply("<reasoning>" + THOUGHT, finish="length"), tagged(THOUGHT)]
    record, requests = ask(work_with(tmp_path, pair()), *replies, settings=settings)
    assert record.rejections == ("too long", "too long")
    assert "in at most 71 words" in requests[2].messages[-1]["content"]


def test_after_so_many_tries_it_is_rejected_and_not_tried_again(tmp_path):
    work = work_with(tmp_path, pair())
    record, requests = ask(work, *[Reply("No tags here.")] * 3)
    assert (record.outcome, record.text, len(requests)) == ("rejected", "", 3)
    with teacher([]) as (who, endpoint):
        progress = reason(work, who, ReasonSettings())
    assert (progress.before, len(endpoint.requests)) == (1, 0)


def test_an_unverified_pair_is_not_explained(tmp_path):
    lie = pair()
    record = lie.verification.model_copy(update={"evaluation": evaluation(GEMM, KERNEL % 0, "correctness")})
    work = work_with(tmp_path, lie.model_copy(update={"verification": record}))
    with teacher([]) as (who, endpoint):
        assert reason(work, who, ReasonSettings()).finished == 0
    assert not endpoint.requests


def test_kernelgen_is_asked_without_the_failing_kernel(tmp_path):
    record, requests = ask(work_with(tmp_path, pair(7)), tagged(THOUGHT), settings=ReasonSettings("kernelgen"))
    assert record.method == "kernelgen"
    assert (KERNEL % 7).rstrip() in requests[0].messages[1]["content"]
    assert (KERNEL % "7 - 1").rstrip() not in requests[0].messages[1]["content"]


# -- without a teacher


def test_a_finding_explains_itself(tmp_path):
    work = work_with(tmp_path, pair(), pair(1, error_class="incorrect"))
    reason(work, None, ReasonSettings())
    first, second = sorted(read_lines(work / "reasons.jsonl", Reasoning), key=lambda r: r.outcome)
    assert FINDING in first.text
    assert contracts()["12"].rule in first.text
    assert "return cudaError_t(x - 0 - 1);" in first.text
    assert "return cudaError_t(x - 0);" in first.text
    assert first.teacher == "finding"
    assert (second.outcome, second.rejections) == ("rejected", ("no finding to explain",))


def test_a_broken_contract_without_a_finding_is_explained_by_its_rule():
    broken = BrokenContract(
        mutation="same-k-step", contract="3", code="", finding="", line=0, expected=True, before="", after=""
    )
    text = explain(pair(1, error_class="incorrect").model_copy(update={"broken": broken}))
    assert contracts()["3"].rule in text
    assert not objection(text, Limits())


def test_kernelgen_cannot_be_explained_by_findings(tmp_path):
    with pytest.raises(MisuseError, match="KernelGen needs a reasoning teacher"):
        reason(work_with(tmp_path, pair()), None, ReasonSettings("kernelgen"))


def test_contracts_are_read_from_the_knowledge_pages():
    found = contracts()
    assert {str(n) for n in range(1, 29)} | {f"T{n}" for n in range(1, 12)} == set(found)
    assert found["12"].codes == ("missing-proxy-fence", "shared-race")
    assert found["5"].otherwise.startswith("half-finished sums")
    assert "<1>" in found["5"].rule
    assert contract_of("deadlock", ("28",)).id == "28"
    assert contract_of("deadlock").id == "14"
    assert contract_of("nothing") is None


def test_only_a_finding_reads_as_one():
    found = read_finding(FINDING)
    assert (found.code, found.line) == ("missing-proxy-fence", 2)
    assert read_finding("mbarrier.cuh:9: error: deadlock: x").line == 0
    assert read_finding("kernel.cu:61 (in mbarrier.cuh:9): error: deadlock: x").line == 61
    assert read_finding("PASSED: error: deadlock") is None
