"""Every good kernel computes what it must, and no check objects to it."""

from __future__ import annotations

import numpy as np
import pytest

from ptxgym.devices.simulator.module import load_module
from tests.corpus.harness import Device, compile_ptx, nvcc
from tests.corpus.kernels import GOOD

pytestmark = [pytest.mark.nvcc, pytest.mark.skipif(nvcc() is None, reason="needs nvcc")]
CASES = [(name, architecture) for name, kernel in GOOD.items() for architecture in kernel.architectures]


@pytest.mark.parametrize(("name", "architecture"), CASES)
def test_a_good_kernel_is_right_and_clean(name: str, architecture: str) -> None:
    kernel = GOOD[name]
    module = load_module(compile_ptx(kernel.source, architecture))
    report, outputs = kernel.run(Device(architecture), module, None)
    assert [str(f) for f in report.findings] == []
    assert report.error is None
    for got, expected, tolerance in outputs():
        error = np.abs(got.astype(np.float64) - np.asarray(expected, np.float64).reshape(got.shape)).max()
        assert error <= tolerance


def test_the_corpus_is_large_enough() -> None:
    assert len(GOOD) >= 25
