"""Each mutant is found, under the right code."""

from __future__ import annotations

import pytest

from ptxgym.devices.simulator.machine import Limits
from ptxgym.devices.simulator.module import load_module
from tests.corpus.harness import Device, compile_ptx, nvcc
from tests.corpus.kernels import GOOD
from tests.corpus.mutants import MUTANTS, UNCAUGHT, Mutant

pytestmark = [pytest.mark.nvcc, pytest.mark.skipif(nvcc() is None, reason="needs nvcc")]
LIMITS = Limits(seconds=20, spins=20_000)


def codes_of(test: Mutant) -> set[str]:
    architecture = GOOD[test.kernel].architectures[0]
    module = load_module(compile_ptx(test.source, architecture))
    report, _ = GOOD[test.kernel].run(Device(architecture), module, LIMITS)
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize("test", MUTANTS, ids=[m.name for m in MUTANTS])
def test_a_mutant_is_found_by_the_right_code(test: Mutant) -> None:
    found = codes_of(test)
    if test.name in UNCAUGHT:
        pytest.skip(UNCAUGHT[test.name])
    assert found & set(test.codes), f"expected one of {test.codes}, found {sorted(found)}"


def test_at_most_one_mutant_of_twenty_is_not_found() -> None:
    assert set(UNCAUGHT) <= {m.name for m in MUTANTS}
    assert len(UNCAUGHT) <= len(MUTANTS) / 20


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gemm: no proxy fence in the epilogue", "tma_store_2d(&mc, c, col, row)"),
        ("gemm: consumer does not wait", "wgmma_bf16(d, descriptor(a + s * BM * BK"),
        ("tiled_gemm: no barrier after the fill", "sum += a[y][k] * b[k][x]"),
        ("vector_add: off by one element", "c[i + 1] = a[i]"),
    ],
)
def test_a_finding_names_the_line_of_the_kernel_not_of_a_wrapper(name: str, text: str) -> None:
    test = next(m for m in MUTANTS if m.name == name)
    module = load_module(compile_ptx(test.source, GOOD[test.kernel].architectures[0]))
    report, _ = GOOD[test.kernel].run(Device(GOOD[test.kernel].architectures[0]), module, LIMITS)
    lines = test.source.splitlines()
    places = [lines[f.where.line - 1] for f in report.findings if f.code in test.codes]
    assert any(text in place for place in places), places
