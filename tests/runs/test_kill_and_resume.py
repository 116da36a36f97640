"""Killed in the middle, twice, with an endpoint that fails all the time: the records equal those of a quiet run."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import time

import pytest

from ptxgym.evaluation import EvaluationOptions, Evaluator
from ptxgym.runs import read_stops, read_turns
from ptxgym.tasks import get_task
from tests.baselines.endpoint import Fault, Reply, Request, error, serve
from tests.conftest import BAD_INPUT
from tests.runs.doubles import ID, command, essence, ptxgym, surroundings

KERNELS = ["compile_error", "out_of_bounds_write", "output_untouched"]
TRAJECTORIES, TURNS = 16, 8

MODELS = """
["loopback"]
first_wait = 0.01
attempts = 50
silence = 2.0
send_seed = true
prompt_price = 1.0
completion_price = 2.0
"""


def answer(request: Request) -> Reply:
    """What the model says depends on the conversation and the trajectory's seed alone."""
    digest = hashlib.sha256(f"{request.body['seed']} {request.messages}".encode()).digest()
    kind = (request.body["seed"] + request.turn) % 5
    if kind == 3:
        return Reply("I would rather talk about it.", "Hm.")
    if kind == 4:
        return Reply("", finish="length")
    source = (BAD_INPUT / f"{KERNELS[kind]}.cu").read_text(encoding="utf-8")
    usage = {"prompt": 1000 + 10 * digest[1], "completion": 100 + digest[2], "reasoning": digest[3] % 100}
    return Reply(f"Attempt {digest[4]}:\n```cpp\n{source}```\n", f"Thought {digest[5]}.", usage=usage, pause=0.002)


def faulty(request: Request) -> Reply | Fault:
    """What the endpoint does depends on how often it was asked."""
    if request.number % 5 == 0:
        return error(429, retry_after="0.05")
    if request.number % 7 == 0:
        return error(503)
    if request.number % 11 == 0:
        return Fault(drop=True)
    reply = answer(request)
    if request.number % 6 == 0:
        reply.cut_after = 1
    return reply


def arguments(folder, base_url, models):
    return [
        *("run", "--env", ID, "--policy", "mini-ptx-agent", "--model", "loopback", "--models", models),
        *("--base-url", base_url, "--device", "simulator", "--variants", 2, "--trajectories", TRAJECTORIES // 2),
        *("--turns", TURNS, "--concurrency", TRAJECTORIES, "--out", folder),
    ]


def kill_in_the_middle(folder, process, lines):
    """SIGKILL once so many turns are on disk; returns what was on disk then."""
    path = folder / "turns.jsonl"
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.005)
    assert process.wait() == -signal.SIGKILL, process.stderr.read()
    process.stderr.close()
    return path.read_bytes()


def start(*words):
    return subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=surroundings())


@pytest.fixture
def judged():
    """Every kernel judged once, so that the run has its verdicts from the cache."""
    evaluator = Evaluator(get_task(ID), EvaluationOptions(device="simulator"))
    for name in KERNELS:
        evaluator.evaluate((BAD_INPUT / f"{name}.cu").read_text(encoding="utf-8"))


@pytest.mark.usefixtures("judged")
def test_a_run_that_was_killed_twice_equals_an_undisturbed_one(tmp_path):
    models = tmp_path / "models.toml"
    models.write_text(MODELS)
    quiet, killed = tmp_path / "quiet", tmp_path / "killed"
    with serve(answer) as endpoint:
        result = ptxgym(*arguments(quiet, endpoint.base_url, models))
        assert result.returncode == 0, result.stderr
        assert len(endpoint.requests) == TRAJECTORIES * TURNS
    undisturbed = list(read_turns(quiet))
    assert len(undisturbed) == TRAJECTORIES * TURNS
    assert len({turn.messages[-2].content for turn in undisturbed if turn.source}) > 8 * TURNS  # no two alike
    assert {turn.evaluation.status for turn in undisturbed} >= {"compile_error", "memory_error", "incorrect"}

    with serve(faulty) as endpoint:
        before = kill_in_the_middle(killed, start(*arguments(killed, endpoint.base_url, models)), 20)
        with (killed / "turns.jsonl").open("ab") as file:
            file.write(before[: before.index(b"\n") // 2])  # and the power failed in the middle of a line
        resume = ["run", "--out", killed, "--resume", "--concurrency", TRAJECTORIES, "--base-url", endpoint.base_url]
        between = kill_in_the_middle(killed, start(*resume), 60)
        result = ptxgym(*resume)
    assert result.returncode == 0, result.stderr
    after = (killed / "turns.jsonl").read_bytes()
    whole = before[: before.rindex(b"\n") + 1]
    assert between.startswith(whole)
    assert after.startswith(between[: between.rindex(b"\n") + 1])
    assert essence(read_turns(killed)) == essence(undisturbed)
    assert {key: stop.stop for key, stop in read_stops(killed).items()} == {
        key: stop.stop for key, stop in read_stops(quiet).items()
    }
