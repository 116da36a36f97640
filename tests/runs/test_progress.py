"""What a person sees while a run goes on, and what it costs."""

import io
import math
import os
import pty
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

from ptxgym.runs import bench
from ptxgym.runs.progress import LineWatcher, LiveWatcher, Tally
from ptxgym.runs.records import Usage
from tests.runs.doubles import COMMAND, ID, REFUSED, play, scripted, settings, stop_record, surroundings, turn_record


def test_a_tally_counts_what_is_played_and_what_it_costs():
    tally = Tally(trajectories=2, max_turns=4)
    tally.add(turn_record(1, usage=Usage(cost=0.5)))  # found on disk
    tally.started = time.monotonic() - 10
    tally.add(turn_record(2, usage=Usage(cost=0.25)))
    tally.add(turn_record(3, usage=Usage(cost=math.nan)))
    assert (tally.turns, tally.turns_now, tally.cost) == (3, 2, 0.75)
    assert tally.seconds_left == pytest.approx(10 / 2 * (8 - 3), rel=0.01)
    tally.finish(turn_record().key)
    assert tally.seconds_left == pytest.approx(10 / 2 * 4, rel=0.01)
    assert "1/2 trajectories · 3 turns · 0 passed · $0.75 · 10 s · at most 20 s left" in tally.text


def test_nothing_is_foretold_before_the_first_turn():
    assert math.isnan(Tally(1, 8).seconds_left)
    assert "left" not in Tally(1, 8).text


def test_the_lines_of_a_log_tell_every_event_and_take_no_markup_from_a_policy():
    text = io.StringIO()
    watcher = LineWatcher(Console(file=text, width=200))
    with watcher.watching(Tally(1, 8)):
        watcher.turn(turn_record(1))
        watcher.stopped(stop_record(1, "policy_done"))
        watcher.note("[bold]not bold[/bold]")
    assert f"{ID} plain 0 turn 1: invalid_action" in text.getvalue()
    assert "ended after 1 turns, policy_done" in text.getvalue()
    assert "[bold]not bold[/bold]" in text.getvalue()


def test_the_live_view_keeps_to_a_few_lines_however_long_the_run():
    watcher = LiveWatcher(Console(file=io.StringIO(), width=100, force_terminal=True))
    with watcher.watching(Tally(3, 8, best={ID: 1.25})):
        for turn in range(200):
            watcher.turn(turn_record(turn + 1))
        paper = Console(file=io.StringIO(), width=100)
        paper.print(watcher.draw())
    drawn = paper.file.getvalue()
    assert "best 1.250×" in drawn
    assert "turn 200: invalid_action" in drawn
    assert len(drawn.splitlines()) <= 12


def test_on_a_terminal_the_view_is_drawn_in_place(tmp_path):
    for name in "ab":  # new to the cache, so that it takes a while
        (tmp_path / f"{name}.cu").write_text(f"this is not C++: {name} {time.time()}")
    arguments = ("run", "--env", ID, "--policy", "replay", "--kernels", tmp_path, "--device", "none")
    terminal, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, arguments), "--out", str(tmp_path / "run")],
        stderr=child,
        stdout=subprocess.DEVNULL,
        env=surroundings(TERM="xterm"),
    )
    os.close(child)
    seen = b""
    while True:
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
    os.close(terminal)
    assert process.wait() == 0
    assert b"0/1 trajectories" in seen
    assert b"1/1 trajectories" in seen
    assert b"\x1b[2K" in seen  # drawn again over the old view


def test_the_harness_costs_little_per_turn_and_its_memory_stays():
    cost = bench.measure(turns=800)
    assert cost.milliseconds_per_turn < 20
    assert cost.grown_mebibytes < 32


def test_the_benchmark_states_its_goals(monkeypatch):
    monkeypatch.setattr(bench, "measure", lambda: bench.HarnessCost(10_000, 1.5, 99.0, 30_000.0))
    time_per_turn, memory = bench.harness_figures()
    assert (time_per_turn.text, time_per_turn.reached) == ("1.5 ms", True)
    assert (memory.text, memory.reached) == ("99 MiB", False)


def test_no_thread_outlives_a_run(tmp_path):
    before = threading.active_count()
    play(tmp_path, scripted([REFUSED] * 2), settings(max_turns=2, trajectories=4), concurrency=4)
    assert threading.active_count() == before
