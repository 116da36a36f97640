"""Waits that look odd are no findings; a finding says which barrier, which phase, which fence and which line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptxgym.devices.simulator.findings import Finding
from ptxgym.devices.simulator.machine import LaunchReport
from ptxgym.devices.simulator.module import load_module
from tests.corpus.harness import Device, compile_ptx, nvcc

pytestmark = [pytest.mark.nvcc, pytest.mark.skipif(nvcc() is None, reason="needs nvcc")]
SOURCES = {name: (Path(__file__).parent / f"{name}.cu").read_text() for name in ("phases", "hand_over")}


def wait(kernel: str, steps: int, *, together: bool = True) -> LaunchReport:
    device = Device("90a")
    source, out = device.upload(np.arange(256, dtype=np.float32)), device.upload(np.zeros(1024, np.float32))
    module = load_module(compile_ptx(SOURCES["phases"], "90a"))
    return device.launch(module, kernel, 1, 96, 0 if together else source, out, steps)


def hand_over(kernel: str, threads: int = 160) -> LaunchReport:
    device = Device("100a")
    values = np.arange(256, dtype=np.uint32)
    out = device.upload(np.zeros(256, np.uint32))
    return device.launch(load_module(compile_ptx(SOURCES["hand_over"], "100a")), kernel, 1, threads,
                         device.upload(values), out)  # fmt: skip


def first(report: LaunchReport, code: str) -> Finding:
    return next(finding for finding in report.findings if finding.code == code)


def line_of(finding: Finding, source: str) -> str:
    return SOURCES[source].splitlines()[finding.where.line - 1]


def test_asking_twice_and_asking_a_fresh_barrier_is_no_slip() -> None:
    assert wait("looks_twice", 5, together=False).findings == ()


def test_who_does_not_look_at_every_phase_reads_an_old_one() -> None:
    report = wait("takes_turns", 6, together=False)
    finding = first(report, "phase-slip")
    assert "mbarrier full with parity 0 returned at once: it had seen phase 0 before" in finding.message
    assert "phase 1 (parity 1) was not complete" in finding.message
    assert "mbarrier_wait(&full, i & 1)" in line_of(finding, "phases")


def test_a_round_that_does_not_wait_for_all_warps_may_leave_one_behind() -> None:
    assert wait("rounds", 3).findings == ()
    finding = first(wait("rounds", 3, together=False), "phase-slip")
    assert "mbarrier start completes phase 1 although nothing says that warp 1 has seen phase 0" in finding.message
    assert "mbarrier_init(&start, 1)" in line_of(finding, "phases")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (1, "with parity 0, which is phase 2; it last saw phase 0, and phase 1, which is complete, has parity 1"),
        (2, "with parity 1; it last saw phase 0, and phases 1 to 2 have completed meanwhile"),
    ],
)
def test_a_deadlock_says_which_phase_the_waiter_may_have_meant(steps: int, message: str) -> None:
    report = wait("misses_phases", steps)
    assert report.findings[0].code == "deadlock"
    finding = first(report, "phase-slip")
    assert message in finding.message
    assert finding.severity == "warning"
    assert "mbarrier_wait(&start, steps - 1 & 1)" in line_of(finding, "phases")


def test_a_deadlock_in_step_is_no_slip() -> None:
    assert {finding.code for finding in wait("misses_phases", 0).findings} == {"deadlock"}


@pytest.mark.parametrize(
    ("kernel", "threads"), [("right", 160), ("through_a_named_barrier", 160), ("private_lanes", 256)]
)
def test_tensor_memory_that_is_handed_over_in_order_is_clean(kernel: str, threads: int) -> None:
    assert hand_over(kernel, threads).findings == ()


@pytest.mark.parametrize(
    ("kernel", "code", "message"),
    [
        ("no_wait", "tcgen05-wait-st", "no tcgen05.wait::st says that"),
        ("no_fence_before", "tcgen05-fence", "fence::before_thread_sync is missing"),
        ("no_fence_after", "tcgen05-fence", "fence::after_thread_sync is missing"),
        ("no_barrier", "tmem-in-flight", "nothing orders them"),
    ],
)
def test_what_is_missing_between_two_warps_is_named(kernel: str, code: str, message: str) -> None:
    (finding,) = hand_over(kernel).findings
    assert finding.code == code
    assert "this tcgen05.ld touches what the tcgen05.st at" in finding.message
    assert message in finding.message
