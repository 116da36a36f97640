"""Killed at a moment that the server chooses, a step goes on with nothing lost and nothing done twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from baselines.fixit.records import Reasoning, Repair
from ptxgym.runs.records import read_lines
from tests.baselines.endpoint import Reply, serve
from tests.fixit.doubles import KERNEL, ROOT, THOUGHT, pair
from tests.fixit.small import STUB, register
from tests.fixit.test_reason import work_with as work_with_pairs
from tests.fixit.test_repair import failed, fenced, lines, work_with

FIXED = KERNEL % 1
COMMAND = "from tests.fixit.small import register; register(); from ptxgym.cli import main; main()"


@pytest.fixture(scope="module", autouse=True)
def _small_task():
    register()


def start(*arguments: object) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "fixit", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "200"},
    )


def kill_at(number: int, answer: str, *arguments: object) -> int:
    """Run a command and kill it while its n-th request is being answered; returns the requests that came."""
    process: list[subprocess.Popen[str]] = []

    def script(request):
        if request.number == number:
            process[0].send_signal(signal.SIGKILL)
        return Reply(answer)

    with serve(script) as endpoint:
        process.append(start(*arguments, "--base-url", endpoint.base_url, "--model", "t"))
        process[0].communicate(timeout=240)
        assert process[0].returncode == -signal.SIGKILL
        return len(endpoint.requests)


def finish(answer: str, *arguments: object) -> tuple[int, str]:
    """Run a command to its end; returns the requests that it made and what it printed."""
    with serve(lambda request: Reply(answer)) as endpoint:
        process = start(*arguments, "--base-url", endpoint.base_url, "--model", "t")
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        return len(endpoint.requests), out


def cut_last_line(path) -> None:
    """As a crash in the middle of a write leaves it."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    path.write_bytes(data[: -len(data.splitlines()[-1]) // 2])


def test_reasoning_goes_on_after_a_kill_and_a_line_cut_in_half(tmp_path):
    work = work_with_pairs(tmp_path, *(pair(n) for n in range(10)))
    answer = f"<reasoning>{THOUGHT}</reasoning>"
    kill_at(6, answer, "reason", work, "--concurrency", 2)
    path = work / "reasons.jsonl"
    before = list(read_lines(path, Reasoning))
    assert 4 <= len(before) <= 5
    written = lines(path)
    cut_last_line(path)
    kept = list(read_lines(path, Reasoning))
    assert len(kept) == len(before) - 1
    requests, out = finish(answer, "reason", work, "--concurrency", 2)
    after = list(read_lines(path, Reasoning))
    assert requests == 10 - len(kept)
    assert lines(path)[: len(kept)] == written[:-1]
    assert {record.pair.id for record in after} == {pair(n).id for n in range(10)}
    assert len(after) == 10
    assert f"{len(kept)} from before" in out


def test_a_verified_repair_survives_and_is_not_made_again(tmp_path):
    work = work_with(tmp_path, *(failed(n, STUB) for n in range(4)))
    arguments = ("repair", work, "--device", "simulator", "--concurrency", 1, "--turns", 1)
    assert kill_at(3, fenced(FIXED), *arguments) == 3
    path = work / "repairs.jsonl"
    before = list(read_lines(path, Repair))
    assert [record.failure for record in before] == [failed(n, STUB).id for n in range(2)]
    assert all(record.pair and record.pair.verification.evaluation.status == "passed" for record in before)
    written = lines(path)
    requests, _ = finish(fenced(FIXED), *arguments)
    after = list(read_lines(path, Repair))
    assert (requests, lines(path)[:2]) == (2, written)
    assert [record.failure for record in after] == [failed(n, STUB).id for n in range(4)]
