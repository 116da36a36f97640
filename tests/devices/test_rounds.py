"""The order of what the judge does while it times, with a candidate and a clock that are played. The real ones need a
GPU: tests/gpu and tests/adversarial."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ptxgym.devices.cuda import timing
from ptxgym.devices.cuda.telemetry import Telemetry
from ptxgym.devices.device import RunRecord, TimingReport
from ptxgym.errors import CandidateError
from ptxgym.evaluation.comparison import compare
from ptxgym.tasks import Tensors, get_task

GEMM = get_task("PTXBench-GEMM-H100")
SHAPE = {"M": 128, "N": 128, "K": 64}
KERNEL = ["kernel", "_Z4gemmv", 20, 30, 8]


class PlayedTimer:
    """One fill and one kernel, whatever ran."""

    def __init__(self) -> None:
        self.windows = 0

    def begin(self) -> None:
        self.windows += 1

    def end(self) -> None: ...

    def records(self) -> list[list[Any]]:
        windows, self.windows = self.windows, 0
        return [[["memset", "", 1, 10, 0], ["kernel", "nvjet", 20, 30, 8]]] * windows

    def close(self) -> None: ...


class PlayedSession:
    """A candidate whose ``run`` is a Python function, and the buffers it was lent."""

    shape = SHAPE
    run_seconds = 10.0

    def __init__(self, run: Callable[[Tensors], None], sets: int) -> None:
        self.run = run
        sizes = GEMM.operator.dimensions(SHAPE)
        self.sets = [
            {name: torch.zeros(size, dtype=torch.bfloat16) for name, size in sizes.items()} for _ in range(sets)
        ]
        self.records: list[list[Any]] = [["memset", "", 1, 10, 0], KERNEL]
        self.alive = True

    def fill(self, *inputs: Tensors) -> None:
        for lent, tensors in zip(self.sets, inputs, strict=False):
            for name, tensor in tensors.items():
                lent[name].copy_(tensor)
            lent["C"].fill_(float("nan"))

    def ask(self, op: str, **_: Any) -> dict[str, Any]:
        assert (op, self.alive) == ("time", True)
        self.run(self.sets[0])
        return {"activities": self.records}

    def repeat(self, calls: int, seconds: float) -> None:
        assert self.alive
        self.allowed = seconds
        for lent in self.sets[:calls]:
            self.run(lent)

    def outputs(self, number: int = 0) -> Tensors:
        return {"C": self.sets[number]["C"]}

    def look(self, inputs: Tensors) -> RunRecord:
        changed = tuple(name for name in inputs if not torch.equal(inputs[name], self.sets[0][name]))
        return RunRecord(mutated_inputs=changed, overrun_outputs=())

    def overrun(self) -> tuple[str, ...]:
        return ()

    def end_process(self) -> int:
        self.alive = False
        return 0

    def close(self) -> int:
        return self.end_process()


def honest(lent: Tensors) -> None:
    lent["C"].copy_(lent["A"].float() @ lent["B"].float().T)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., TimingReport]:
    monkeypatch.setattr(timing, "KernelTimer", PlayedTimer)
    monkeypatch.setattr(timing, "TIMED", 14)
    monkeypatch.setattr(timing, "_CHECKED", 10)
    monkeypatch.setattr(timing, "_PREHEAT_SECONDS", 1e-4)
    monkeypatch.setattr(timing, "_LOAD_SECONDS", 0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    generator = torch.Generator().manual_seed(1)

    def draw() -> Tensors:
        return GEMM.operator.make_inputs(SHAPE, "normal", generator)

    def check(inputs: Tensors, outputs: Tensors) -> bool:
        C = GEMM.operator.reference(inputs)["C"]
        return compare(outputs["C"], C, GEMM.tolerance, name="C", shape="", distribution="normal").passed

    def played(run: Callable[[Tensors], None], records: list[list[Any]] | None = None) -> TimingReport:
        session = PlayedSession(run, timing.wall_calls(GEMM.operator, SHAPE))
        session.records = records or session.records
        rounds = timing.Rounds(
            session,
            GEMM.operator,
            draw,
            check,
            "hot",
            Telemetry(""),
            torch.zeros(1),  # type: ignore[arg-type]
        )
        return rounds.look_at_kept(rounds.run())

    return played


def correct(report: TimingReport) -> bool:
    return report.warmup_correct and all(round_.correct is not False for round_ in report.rounds)


def test_an_honest_candidate_is_right_in_every_round_and_by_the_clock(play) -> None:
    report = play(honest)
    assert correct(report)
    assert report.wall_correct
    assert len(report.rounds) == timing.TIMED
    assert report.wall_seconds_per_call > 0
    assert report.reference_wall_seconds_per_call > 0
    assert report.candidate_kernels == ("_Z4gemmv",)
    assert report.reference_kernels == ("nvjet",)
    assert [round_.reference for round_ in report.rounds] == pytest.approx([10e-9] * timing.TIMED)
    assert [[(launch.name, launch.warps, launch.count) for launch in call] for call in report.candidate_calls] == [
        [("_Z4gemmv", 8, 1)]
    ]


def test_a_slow_candidate_gets_fewer_rounds_which_are_all_looked_at(play, monkeypatch) -> None:
    monkeypatch.setattr(timing, "_PATIENCE", {"warmup": 0, "timed": 0})
    monkeypatch.setattr(timing, "_SLOW_SECONDS", 0)
    calls = 0

    def run(lent: Tensors) -> None:
        nonlocal calls
        calls += 1
        honest(lent)

    report = play(run)
    assert (report.warmup, len(report.rounds), report.wall_calls) == (1, 5, 2)
    assert all(round_.correct is not None for round_ in report.rounds)
    assert calls == 1 + 5 + 2, "a call of seconds is made no oftener than that"


def test_no_input_comes_twice(play) -> None:
    seen: set[bytes] = set()

    def run(lent: Tensors) -> None:
        mark = lent["A"][0].view(torch.int16).numpy().tobytes()
        assert mark not in seen
        seen.add(mark)
        honest(lent)

    play(run)


def test_a_kept_answer_is_wrong(play) -> None:
    kept: list[torch.Tensor] = []

    def run(lent: Tensors) -> None:
        if not kept:
            honest(lent)
            kept.append(lent["C"].clone())
        lent["C"].copy_(kept[0])

    assert not correct(play(run))


def test_an_answer_that_is_right_in_all_but_a_few_rows_is_found_by_the_whole_looks(play) -> None:
    def run(lent: Tensors) -> None:
        honest(lent)
        lent["C"][5] = 0

    assert not correct(play(run))


def test_changed_inputs_are_wrong(play) -> None:
    def run(lent: Tensors) -> None:
        honest(lent)
        lent["A"].zero_()

    assert not correct(play(run))


def test_a_call_back_to_back_that_does_nothing_is_seen(play) -> None:
    calls = 0

    def run(lent: Tensors) -> None:
        nonlocal calls
        calls += 1
        if calls != timing.WARMUP + timing.TIMED + 3:  # one of the first eight back to back
            honest(lent)

    report = play(run)
    assert correct(report)
    assert not report.wall_correct


def test_the_judges_clock_runs_from_before_the_inputs_are_lent_to_after_outputs_were_taken(play, monkeypatch) -> None:
    events: list[str] = []

    def clock() -> float:
        events.append("clock")
        return float(len(events))

    monkeypatch.setattr(timing.time, "monotonic", clock)
    for name in ("fill", "repeat", "outputs"):
        original = getattr(PlayedSession, name)

        def noted(*arguments, original=original, name=name):
            events.append(name)
            return original(*arguments)

        monkeypatch.setattr(PlayedSession, name, noted)
    play(honest)
    start = events.index("repeat") - 2
    outputs = ["outputs"] * timing.wall_calls(GEMM.operator, SHAPE)
    assert events[start : start + 4 + len(outputs)] == ["clock", "fill", "repeat", *outputs, "clock"]


@pytest.mark.parametrize(
    "records",
    [
        [KERNEL, ["memset", "", 21, 29, 0]],
        [["kernel", "_Z4gemmv", 20, 30]],
        [["memset", "", 1, 2, 0], ["kernel", "k", None, 3, 8]],
        "memset",
    ],
    ids=["before-the-flush", "too-few", "no-number", "no-list"],
)
def test_records_that_cannot_be_are_the_candidates_fault(play, records) -> None:
    with pytest.raises(CandidateError, match=r"record|flushed"):
        play(honest, records)


def test_a_slow_first_call_buys_no_round_that_is_looked_at_in_part(play, monkeypatch) -> None:
    monkeypatch.setattr(timing, "_PATIENCE", {"warmup": 0, "timed": 0})
    monkeypatch.setattr(timing, "_LOOKED_AT", 128)  # one row
    calls = 0

    def run(lent: Tensors) -> None:
        nonlocal calls
        calls += 1
        honest(lent)
        if 1 < calls <= 6:
            lent["C"][calls] = 0

    assert not correct(play(run))


def test_a_call_that_waits_on_the_host_is_not_measured_again_and_again(play, monkeypatch) -> None:
    monkeypatch.setattr(timing, "_PATIENCE", {"warmup": 10, "timed": 0.2})
    calls = 0

    def run(lent: Tensors) -> None:
        nonlocal calls
        calls += 1
        honest(lent)
        if calls > timing.WARMUP + 14:
            time.sleep(0.1)

    report = play(run)
    assert calls - timing.WARMUP - len(report.rounds) == report.wall_calls, "one measurement"


@pytest.mark.parametrize("forged", [1.7e308, -5, "9" * 4000, True, 1 << 63, None])
@pytest.mark.parametrize("place", [2, 3, 4])
def test_times_that_are_none_are_the_candidates_fault(play, forged, place) -> None:
    record = [*KERNEL]
    record[place] = forged
    with pytest.raises(CandidateError) as caught:
        play(honest, [["memset", "", 1, 10, 0], record])
    assert caught.value.reason == "protocol"
