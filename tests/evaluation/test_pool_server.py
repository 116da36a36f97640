"""A pool that other processes share."""

import json
import pickle
import queue
import signal
import socket
import subprocess
import sys
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from ptxgym.errors import MisuseError
from ptxgym.evaluation import EvaluationOptions, EvaluationPool, PoolClient, PoolServer

from . import pool_worker
from .test_pool import ID, LONG, NAIVE, NOWHERE, hold, in_thread, submit, tiny_task, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pool():
    with EvaluationPool(workers=1, capacity=4, share=4) as pool:
        yield pool


@pytest.fixture
def server(pool):
    with PoolServer(pool, tasks=[tiny_task()]) as server:
        yield server


@pytest.fixture
def client(server):
    with PoolClient(server.path) as client:
        yield client


def child(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process with a client of its own, called ``client``."""
    lines = [
        "import sys",
        "from ptxgym.evaluation import EvaluationOptions",
        "from ptxgym.evaluation.pool_client import PoolClient",
        "client, nowhere = PoolClient(sys.argv[1]), EvaluationOptions(device='none')",
        program,
    ]
    command = [sys.executable, "-c", "\n".join(lines), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, cwd=ROOT)


def test_a_socket_may_be_named_by_text_and_is_gone_at_the_end(pool, tmp_path):
    path = tmp_path / "socket"
    for _ in range(2):  # the second finds the place free
        with PoolServer(pool, str(path)) as server, PoolClient(server.path) as client:
            assert client.submit("", ID, NOWHERE).result(LONG).status == "invalid_action"
        assert not path.exists()


def test_the_probe_phase_needs_no_introduction(pool, client):
    evaluation = client.submit("int on_probes = ;", f"{ID}@probes", NOWHERE).result(LONG)
    assert evaluation.task == f"{ID}@probes"


def test_a_client_gets_what_the_pool_finds(pool, client):
    source = "int from_afar = ;"
    there = client.submit(source, ID, NOWHERE).result(LONG)
    here = pool.submit(source, ID, NOWHERE).result(LONG)
    assert there.status == here.status == "compile_error"
    assert there.source_sha256 == here.source_sha256
    assert there.stage("compile").evidence == here.stage("compile").evidence


@pytest.mark.parametrize("action", [None, b"int x;", "\ud800", "x" * (3 << 20), ""])
def test_what_cannot_travel_is_an_invalid_action(client, action):
    assert client.submit(action, ID, NOWHERE).result(LONG).status == "invalid_action"


def test_equal_submissions_of_two_processes_are_judged_once(pool, server, client):
    held, first = hold(pool)
    source = "int of_two_processes = ;"
    mine = client.submit(source, ID, NOWHERE)
    program = (
        f"future = client.submit({source!r}, '{ID}', nowhere)\nprint('sent', flush=True)\nprint(future.result().status)"
    )
    with child(program, server.path) as other:
        assert other.stdout.readline() == "sent\n"
        held.released.set()
        assert other.communicate(timeout=LONG)[0] == "compile_error\n"
    assert mine.result(LONG).status == "compile_error"
    assert first.result(LONG).status == "invalid_action"
    assert (pool.load.judged, pool.load.joined) == (2, 1)


def test_trajectories_of_two_clients_never_meet(pool, server, client):
    held, _ = hold(pool)
    with PoolClient(server.path) as other:
        mine, theirs = (c.submit("", ID, NOWHERE, trajectory="same") for c in (client, other))
        client.cancel("same")
        assert mine.cancelled()
        until(lambda: pool.load.queued == 1)
        held.released.set()
        assert theirs.result(LONG).status == "invalid_action"


def submits(count: int) -> str:
    """A program that submits from as many trajectories, each in a thread of its own, and lives on."""
    return (
        "import threading\n"
        "def submit(name): client.submit('', '" + ID + "', nowhere, trajectory=str(name))\n"
        f"for n in range({count}): threading.Thread(target=submit, args=(n,)).start()\n"
        "sys.stdin.read()"
    )


def test_the_death_of_a_process_frees_its_work(pool, server, client):
    held, _ = hold(pool)
    with child(submits(6), server.path) as other:
        until(lambda: (pool.load.queued, len(pool._blocked)) == (4, 2))  # the queue is full, two wait for room
        other.send_signal(signal.SIGKILL)
        other.communicate(timeout=LONG)
    until(lambda: (pool.load.queued, len(pool._blocked)) == (0, 0))
    mine = client.submit("", ID, NOWHERE)
    held.released.set()
    assert mine.result(LONG).status == "invalid_action"
    assert pool.load.judged == 2


def test_a_dead_process_does_not_wait_for_room(pool, server):
    held, _ = hold(pool)
    others = [submit(pool, str(number)) for number in range(pool.capacity)]
    with child(submits(2), server.path) as other:
        until(lambda: len(pool._blocked) == 2)
        other.send_signal(signal.SIGKILL)
        other.communicate(timeout=LONG)
    until(lambda: not pool._blocked)
    assert pool.load.queued == pool.capacity
    held.released.set()
    assert all(future.result(LONG).status == "invalid_action" for future in others)
    assert pool.load.judged == 1 + len(others)


def test_a_cancelled_future_frees_its_work_over_there(pool, client):
    held, _ = hold(pool)
    future = client.submit("", ID, NOWHERE)
    assert future.cancel()
    until(lambda: pool.load.queued == 0)
    held.released.set()
    assert client.submit("", ID, NOWHERE).result(LONG).status == "invalid_action"
    assert pool.load.judged == 2


def test_the_back_pressure_reaches_the_clients(pool, client):
    held, _ = hold(pool)
    waiting = [client.submit("", ID, NOWHERE, trajectory="a") for _ in range(pool.capacity)]
    with pytest.raises(queue.Full):
        client.submit("", ID, NOWHERE, timeout=0)
    blocked = in_thread(lambda: client.submit("", ID, NOWHERE, trajectory="b"))
    doomed = in_thread(lambda: client.submit("", ID, NOWHERE, trajectory="c"))
    until(lambda: len(pool._blocked) == 2)
    client.cancel("c")
    with pytest.raises(CancelledError):
        doomed()
    waiting[0].cancel()
    assert not blocked().done()
    held.released.set()
    assert blocked().result(LONG).status == "invalid_action"


def test_without_its_server_everything_is_unknown_and_nothing_raises(pool, server):
    held, _ = hold(pool)
    with PoolClient(server.path) as client:
        future = client.submit("int x;", ID, NOWHERE)
        server.close()
        for evaluation in (future.result(LONG), client.submit("int x;", ID, NOWHERE).result(LONG)):
            assert (evaluation.status, evaluation.valid) == ("unknown", False)
            assert "pool's process" in evaluation.stage("source").message
        held.released.set()
    with pytest.raises(MisuseError, match="Start one first"):
        PoolClient(server.path)


def test_who_speaks_another_language_is_shown_out_and_the_others_stay(server, client):
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(server.path))
        stranger.sendall(b'{"operation": "unpickle"}\n')
        assert stranger.recv(100) == b""
    assert client.submit("", ID, NOWHERE).result(LONG).status == "invalid_action"


def test_misuse_is_told_to_the_client(server, client, tmp_path):
    with pytest.raises(MisuseError, match="Did you mean"):
        client.submit("", "PTXBench-GEM-H100")
    with pytest.raises(MisuseError, match="none of 'auto'"):
        client.submit("", ID, EvaluationOptions(device="tpu"))
    with pytest.raises(MisuseError, match="longer than"):
        PoolServer(server.pool, tmp_path / ("x" * 120))
    with pytest.raises(MisuseError, match="No socket can be made"):
        PoolServer(server.pool, server.path)


def test_a_pickled_client_connects_anew(client):
    with pickle.loads(pickle.dumps(client)) as other:
        assert other is not client
        assert other.submit("", ID, NOWHERE).result(LONG).status == "invalid_action"


def test_a_strangers_user_cannot_enter(server):
    assert server.path.parent.stat().st_mode & 0o077 == 0


def test_nothing_is_lost_doubled_or_reordered_among_eight_workers_of_which_some_die():
    seeds, doomed = range(8), {2, 5}
    with EvaluationPool(workers=4, capacity=64, share=4) as pool, PoolServer(pool, tasks=[tiny_task()]) as server:
        command = [sys.executable, "-m", "tests.evaluation.pool_worker", str(server.path)]
        workers = [
            subprocess.Popen(
                [*command, str(seed), "real"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            for seed in seeds
        ]
        for worker in workers:
            worker.stdin.write(NAIVE)
            worker.stdin.close()
            worker.stdin = None
        for seed in doomed:
            assert workers[seed].stdout.readline() == "begun\n"
            workers[seed].kill()
        for seed, worker in enumerate(workers):
            output, complaints = worker.communicate(timeout=2 * LONG)
            if seed not in doomed:
                assert worker.returncode == 0, complaints
                result = json.loads(output.splitlines()[-1])
                assert result["problems"] == []
                assert result["right"] > pool_worker.TRAJECTORIES * pool_worker.SUBMISSIONS / 2
        until(lambda: not pool._trajectories)
        load = pool.load
        assert (load.queued, load.running, len(pool._blocked)) == (0, 0, 0)
        assert submit(pool, "still alive").result(LONG).status == "invalid_action"
