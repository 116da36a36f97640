"""Every wrapper compiles, becomes the instruction that it claims, and computes what an independent reference does."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.corpus.harness import nvcc
from tests.knowledge import cases_math, cases_sync, cases_tcgen05, cases_tma, cases_wgmma  # noqa: F401 -- they register
from tests.knowledge.cases import CASES, Case
from tests.knowledge.harness import opcodes_of, ptx_of
from tests.knowledge.headers import device_functions

pytestmark = [pytest.mark.nvcc, pytest.mark.skipif(nvcc() is None, reason="needs nvcc")]
RUNS = [pytest.param(c, a, id=f"{c.file}-{c.kernel}-{a}") for c in CASES for a in c.architectures]


@pytest.mark.parametrize(("case", "architecture"), RUNS)
def test_a_wrapper_becomes_its_instruction(case: Case, architecture: str) -> None:
    opcodes = opcodes_of(case.source, architecture)[case.kernel]
    for pattern in case.sass:
        assert any(re.match(pattern, opcode) for opcode in opcodes), f"no {pattern} in {sorted(set(opcodes))}"


@pytest.mark.parametrize(("case", "architecture"), RUNS)
def test_a_wrapper_computes_what_the_reference_does(case: Case, architecture: str) -> None:
    report, outcome = case.execute(architecture)
    assert [str(finding) for finding in report.findings] == []
    assert report.error is None
    for got, expected, tolerance in outcome:
        difference = np.abs(got.astype(np.float64) - np.asarray(expected, np.float64).reshape(got.shape))
        assert difference.max() <= tolerance


def test_an_elected_lane_issues_without_a_loop_over_the_lanes() -> None:
    tma = [case for case in CASES if case.file == "tma"]
    assert all("BRA.U.ANY" not in opcodes_of(case.source, "90a")[case.kernel] for case in tma)
    guarded_by_number = opcodes_of(tma[0].source.replace("elect_sync()", "threadIdx.x == 0"), "90a")
    assert "BRA.U.ANY" in guarded_by_number["tma_2d"]


@pytest.mark.parametrize("architecture", ["90a", "100a"])
def test_every_wrapper_has_a_test(architecture: str) -> None:
    covered = {name for case in CASES if architecture in case.architectures for name in case.covers}
    missing = device_functions(architecture) - covered
    assert not missing, f"wrappers without a test on sm_{architecture}: {sorted(missing)}"


def test_no_test_claims_a_wrapper_that_is_not_there() -> None:
    known = device_functions("90a") | device_functions("100a")
    assert {name for case in CASES for name in case.covers} <= known


WRONG = {
    "setmaxnreg_inc<100>()": "24 to 256 registers, in steps of 8",
    "barrier_sync<16, 128>()": "a CTA has the barriers 0 to 15",
    "barrier_arrive<1, 100>()": "barriers count whole warps",
    "wgmma_wait_group<8>()": "0 to 7 groups may stay in flight",
    "bulk_wait_group_read<-1>()": "a number of groups",
    "wgmma_descriptor_k_major<Swizzle::NONE>(nullptr)": "without a swizzle, give both distances",
}


def test_a_wrong_constant_is_refused_with_a_sentence() -> None:
    calls = "".join(f"{call};\n" for call in WRONG)
    source = f"#include <ptxgym/hopper.cuh>\nusing namespace ptxgym;\n__global__ void k() {{\n{calls}}}\n"
    with pytest.raises(AssertionError) as refusal:
        ptx_of(source, "90a")
    for sentence in WRONG.values():
        assert sentence in str(refusal.value)
