"""Host code pays for what it does, not for a machine that has no time for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from ptxgym.devices.simulator import launch
from ptxgym.devices.simulator.runtime import host_clock
from ptxgym.devices.simulator.runtime.arena import Arena
from ptxgym.devices.simulator.runtime.host_clock import HostClock, ProcessTime
from ptxgym.devices.simulator.runtime.protocol import Code, Operation, Request
from ptxgym.devices.simulator.runtime.runtime import Runtime

FOREVER = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry _Z7foreverv() {\nL: bra L;\n}\n"

Pass = Callable[..., None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> tuple[HostClock, Pass]:
    """A clock for ten seconds, and what lets time pass."""
    now = {"wall": 100.0, "processor": 3.0, "waiting": 7.0}

    def passes(**seconds: float) -> None:
        for name, more in seconds.items():
            now[name] += more

    monkeypatch.setattr(ProcessTime, "read", classmethod(lambda cls, process: cls(**now)))
    monkeypatch.setattr(host_clock.time, "monotonic", lambda: now["wall"])
    return HostClock(1, 10.0), passes


def test_waiting_for_a_processor_costs_nothing(clock: tuple[HostClock, Pass]):
    host, passes = clock
    passes(wall=60, processor=4, waiting=55)
    assert host.left() == pytest.approx(5)


def test_sleeping_costs_its_time(clock: tuple[HostClock, Pass]):
    host, passes = clock
    passes(wall=10.5)
    assert host.left() == 0
    assert not host.starved


def test_computing_costs_its_time_in_all_threads_together(clock: tuple[HostClock, Pass]):
    host, passes = clock
    passes(wall=6, processor=11, waiting=4)
    assert host.left() == 0
    assert not host.starved


def test_answers_cost_nothing(clock: tuple[HostClock, Pass]):
    host, passes = clock
    passes(wall=30)
    host.pause(25)
    assert host.left() == pytest.approx(5)


def test_a_machine_that_never_has_time_ends_it_without_blame(clock: tuple[HostClock, Pass]):
    host, passes = clock
    passes(wall=101, processor=2, waiting=98)
    assert host.left() == 0
    assert host.starved


def test_the_kernel_tells_the_processor_time_of_a_process():
    begun = ProcessTime.read(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert ProcessTime.read(os.getpid()).processor - begun.processor == pytest.approx(0.1, abs=0.05)


def test_of_a_process_that_is_gone_all_time_counts():
    gone = ProcessTime.read(None)
    assert (gone.processor, gone.waiting) == (0, 0)


class Clocks:
    """Stands for the module ``time`` on a machine where little work takes long."""

    def __init__(self, processor: float, wall: float) -> None:
        self._processor, self._wall = count(0, processor), count(0, wall)

    def process_time(self) -> float:
        return next(self._processor)

    def monotonic(self) -> float:
        return next(self._wall)


@pytest.mark.parametrize(("clocks", "blamed"), [(Clocks(0.01, 500), "limits"), (Clocks(20, 25), "timeouts")])
def test_a_launch_is_blamed_for_its_processor_time_alone(
    clocks: Clocks, blamed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "kernel.ptx").write_text(FOREVER)
    runtime = Runtime(Arena(), "90a")
    assert not runtime.load_program(str(tmp_path / "kernel.ptx"), {})
    runtime.begin(30.0)
    _, found = runtime.answer(Request(Operation.FUNCTION, (0,), b"_Z7foreverv"))
    monkeypatch.setattr(launch, "time", clocks)
    _, reply = runtime.answer(Request(Operation.LAUNCH, (found.words[0], *[1] * 6, *[0] * 5), b""))
    assert reply.words == (Code.LAUNCH_TIMEOUT,)
    evidence = runtime.collect().as_json()
    assert {kind: len(evidence[kind]) for kind in ("limits", "timeouts") if evidence[kind]} == {blamed: 1}
    assert evidence[blamed][0].startswith("forever at ")
