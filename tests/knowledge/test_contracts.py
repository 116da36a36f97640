"""The contract pages: every right example is right and clean, every violating twin is found, pages say the truth."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

from knowledge import amalgamate
from ptxgym.devices.simulator.device import SimulatorDevice
from ptxgym.evaluation import EvaluationOptions, Evaluator, feedback
from ptxgym.tasks import get_task
from ptxgym.toolchain.toolkit import find_toolkit
from tests.corpus.harness import nvcc
from tests.knowledge.examples import EXAMPLES, KNOWLEDGE, example
from tests.knowledge.harness import opcodes_of, ptx_of
from tests.knowledge.twins import TWINS, Twin

pytestmark = [pytest.mark.nvcc, pytest.mark.skipif(nvcc() is None, reason="needs nvcc")]
TARGETS = {"hopper": "90a", "blackwell": "100a"}
NO_PRODUCT = ("multicast", "pair", "takeover")
TENSOR = {"hopper": "HGMMA", "blackwell": "UTCHMMA"}
COUNTS = {"hopper": 28, "blackwell": 34}
PAGES = sorted({architecture for architecture, _ in EXAMPLES})


def contracts_of(architecture: str) -> dict[str, str]:
    """The contracts of an architecture, the common ones included, by number."""
    text = "".join((KNOWLEDGE / page).read_text() for page in ("contracts.md", f"{architecture}/contracts.md"))
    found = re.findall(r"^\*\*\[(\w+)\] (.*?)(?=^\*\*\[|^## |\Z)", text, re.M | re.S)
    assert len({number for number, _ in found}) == len(found)
    return dict(found)


@pytest.mark.parametrize(("architecture", "name"), [*EXAMPLES])
def test_an_example_is_right_and_clean(architecture: str, name: str) -> None:
    report, outcome = EXAMPLES[architecture, name](example(architecture, name))
    assert [str(finding) for finding in report.findings] == []
    assert report.error is None
    for got, expected, tolerance in outcome:
        assert np.abs(got.astype(np.float64) - expected).max() <= tolerance


@pytest.mark.parametrize(("architecture", "name"), [*EXAMPLES])
def test_an_example_runs_on_the_instructions_it_teaches(architecture: str, name: str) -> None:
    ((_, opcodes),) = opcodes_of(example(architecture, name), TARGETS[architecture]).items()
    assert any(opcode.startswith("UTMALDG") for opcode in opcodes)
    assert name in NO_PRODUCT or any(opcode.startswith(TENSOR[architecture]) for opcode in opcodes)
    assert not any(re.match(r"[HIQD]MMA\b", opcode) for opcode in opcodes)


@pytest.mark.parametrize("twin", TWINS, ids=[twin.name for twin in TWINS])
def test_a_violating_twin_is_found(twin: Twin) -> None:
    report, outcome = EXAMPLES[twin.architecture, twin.kernel](twin.source)
    found = {finding.code for finding in report.findings}
    if twin.codes:
        assert found & set(twin.codes), f"expected one of {twin.codes}, found {sorted(found)}"
    else:
        worst = [np.abs(got.astype(np.float64) - expected).max() / limit for got, expected, limit in outcome]
        assert max(worst) > 1, "neither a finding nor a wrong number"


@pytest.mark.parametrize("twin", TWINS, ids=[twin.name for twin in TWINS])
def test_the_page_names_what_the_simulator_reports(twin: Twin) -> None:
    checked = contracts_of(twin.architecture)[twin.contract].split("*Checked as*")[1]
    if twin.codes:
        assert any(f"`{code}`" in checked for code in twin.codes)
    else:
        assert "numbers" in checked


@pytest.mark.parametrize("architecture", PAGES)
def test_every_contract_says_how_it_is_checked(architecture: str) -> None:
    contracts = contracts_of(architecture)
    assert len(contracts) >= COUNTS[architecture]
    twins = {twin.contract for twin in TWINS}
    for number, text in contracts.items():
        assert "*Checked as*" in text, number
        codes = re.findall(r"`([a-z]+(?:-[a-z]+)*)`", text.split("*Checked as*")[1])
        assert not codes or number in twins, f"[{number}] names {codes} without a twin"


@pytest.mark.parametrize(("architecture", "name"), [*EXAMPLES])
def test_a_mark_in_an_example_is_a_contract(architecture: str, name: str) -> None:
    known = set(contracts_of(architecture))
    marks = {mark for line in example(architecture, name).splitlines()
             for mark in re.findall(r"\[(T?\d+)\]", line.partition("//")[2])}  # fmt: skip
    assert marks
    assert marks <= known


def test_the_example_gets_the_registers_it_asks_for_and_few_barriers() -> None:
    ptxas = find_toolkit().nvcc.parent / "ptxas"
    source = example("hopper", "gemm")
    done = subprocess.run([ptxas, "-v", "-arch=sm_90a", "-o", "/dev/null", ptx_of(source, "90a")],
                          capture_output=True, text=True, check=True)  # fmt: skip
    report = done.stdout + done.stderr
    assert "Used 168 registers, used 3 barriers" in report
    assert "0 bytes spill stores" in report
    assert not re.search(r"C75\d\d", report)
    ((_, opcodes),) = opcodes_of(source, "90a").items()
    assert {"USETMAXREG.TRY_ALLOC.CTAPOOL", "USETMAXREG.DEALLOC.CTAPOOL"} <= set(opcodes)


JUDGED = {
    ("hopper", "gemm"): "PTXBench-GEMM-H100",
    ("hopper", "attention"): "PTXBench-MHAForward-H100",
    ("blackwell", "gemm"): "PTXBench-GEMM-B200",
    ("blackwell", "attention"): "PTXBench-MHAForward-B200",
}


@pytest.mark.parametrize(("where", "task_id"), [*JUDGED.items()])
def test_an_example_passes_the_judge_on_the_simulator(where: tuple[str, str], task_id: str) -> None:
    task = get_task(task_id)
    evaluator = Evaluator(task, EvaluationOptions(device="simulator", cache=False))
    evaluator.__dict__["device"] = SimulatorDevice(task.architecture, 30.0)
    evaluation = evaluator.evaluate(amalgamate(example(*where)))
    assert (evaluation.status, evaluation.work_fraction) == ("passed", 1), feedback(evaluation)
