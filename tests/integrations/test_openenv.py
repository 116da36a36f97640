"""OpenEnv: our server on loopback, its own client. ``make test-integrations`` runs this."""

import importlib.metadata
import json
import re
import subprocess
import sys
import threading
import urllib.request
from importlib.util import find_spec

import pytest

from ptxgym.errors import MisuseError
from tests.integrations.sources import COMPILE_ERROR, GEMM, OUT_OF_BOUNDS, fenced

pytestmark = [
    pytest.mark.skipif(not find_spec("openenv"), reason="OpenEnv is not installed: pip install 'ptxgym[openenv]'"),
    pytest.mark.filterwarnings("ignore"),  # of the frameworks themselves
]


class Gate:
    """A reward that keeps an evaluation from ending until it is opened."""

    def __init__(self):
        self.open = threading.Event()

    def __call__(self, evaluation):
        assert self.open.wait(60)
        return 1.0


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def serve():
    """Start a server with these settings; gives its address."""
    import uvicorn

    from ptxgym.integrations.episode import EpisodeSettings
    from ptxgym.integrations.openenv import create_server

    running = []

    def start(*, wait_s=30.0, max_sessions=8, session_timeout_s=60.0, **settings):
        app = create_server(
            EpisodeSettings.of({"task": GEMM, "device": "none", **settings}),
            wait_s=wait_s,
            max_sessions=max_sessions,
            session_timeout_s=session_timeout_s,
        )
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        running.append((server, thread))
        while not server.started:
            thread.join(0.01)
            assert thread.is_alive()
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def connect(address, timeout=60):
    from openenv.core import GenericEnvClient

    return GenericEnvClient(base_url=address, message_timeout_s=timeout).sync()


def submit(env, source):
    """Submit, and fetch the verdict however long it takes."""
    result = env.step({"source": source})
    while result.observation["status"] == "pending":
        result = env.step({"source": result.observation["ticket"]})
    return result


def get(address, path):
    with urllib.request.urlopen(address + path, timeout=20) as answer:
        return json.load(answer)


def test_the_version_is_one_that_was_tried():
    assert importlib.metadata.version("openenv").startswith("0.10.")


def test_an_episode_through_the_client(serve):
    with connect(serve(max_turns=3, device="simulator")) as env:
        result = env.reset(phase="probes", seed=3)
        assert result.observation["text"].startswith("Write one CUDA C++17 source file")
        assert (result.reward, result.done) == (None, False)
        result = submit(env, COMPILE_ERROR)
        assert (result.observation["status"], result.reward, result.done) == ("compile_error", 0.0, False)
        result = submit(env, fenced(OUT_OF_BOUNDS))
        assert (result.observation["status"], result.reward) == ("memory_error", 0.05)
        result = submit(env, "")
        assert (result.reward, result.done, result.observation["turn"]) == (0.0, True, 3)
        assert result.metadata["trajectory_reward"] == 0.05
        assert env.state()["step_count"] == 3
        with pytest.raises(RuntimeError, match="reset first"):
            env.step({"source": ""})
        assert env.reset(task_id="PTXBench-GEMM-B200").observation["text"].count("B200") == 1
        assert env.state()["step_count"] == 0


def test_a_long_evaluation_is_fetched_with_its_ticket_before_any_client_gives_up(serve, gate):
    with connect(serve(reward=gate, wait_s=0.05), timeout=5) as env:
        env.reset()
        first = env.step({"source": ""})
        ticket = first.observation["ticket"]
        assert (first.observation["status"], first.reward, first.done) == ("pending", None, False)
        assert f"Send {ticket}" in first.observation["text"]
        other = env.step({"source": COMPILE_ERROR})
        assert (other.observation["status"], other.observation["ticket"]) == ("pending", ticket)
        assert "not submitted" in other.observation["text"]
        gate.open.set()
        result = submit(env, f" {ticket}\n")
        assert (result.observation["status"], result.reward) == ("invalid_action", 1.0)
        assert (result.observation["turn"], result.observation["ticket"]) == (1, "")


def test_a_reset_gives_up_what_is_pending(serve, gate):
    with connect(serve(reward=gate, wait_s=0.05)) as env:
        env.reset()
        ticket = env.step({"source": ""}).observation["ticket"]
        env.reset()
        gate.open.set()
        result = submit(env, ticket)
        assert result.observation["turn"] == 1  # the old ticket was a submission like any other text


def test_an_unknown_verdict_has_no_reward(serve):
    with connect(serve()) as env:
        env.reset()
        result = submit(env, OUT_OF_BOUNDS)
        assert (result.observation["valid"], result.reward) == (False, None)
        assert result.metadata["trajectory_reward"] is None


def test_sessions_do_not_meet_and_one_does_not_wait_for_the_other(serve, gate):
    address = serve(reward=gate, wait_s=30.0)
    with connect(address) as slow, connect(address) as quick:
        slow.reset()
        quick.reset(task_id="PTXBench-GEMM-B200")
        waiting = threading.Thread(target=lambda: slow.step({"source": ""}))
        waiting.start()
        # Answered while the other session's step is still held back.
        assert "B200" in quick.reset(task_id="PTXBench-GEMM-B200").observation["text"]
        assert waiting.is_alive()
        gate.open.set()
        waiting.join(30)
        assert (slow.state()["step_count"], quick.state()["step_count"]) == (1, 0)


def test_an_idle_session_makes_room_for_another(serve):
    address = serve(max_sessions=1, session_timeout_s=0.1)
    with connect(address) as idle:
        idle.reset()
        assert not admitted(address)
        for _ in range(200):  # the server looks for idle sessions every five seconds
            if admitted(address):
                return
            threading.Event().wait(0.1)
    pytest.fail("the idle session was never closed")


def admitted(address):
    """Whether the server has room for one more session."""
    try:
        with connect(address) as env:
            return bool(env.reset().observation["text"])
    except Exception as error:
        if "capacity" not in str(error).lower():
            raise
        return False


def test_the_data_set_is_offered_and_an_index_begins_one_of_its_tasks(serve):
    address = serve()
    with connect(address) as env:
        text = env.reset(split="validation", index=0).observation["text"]
        assert "D64" in text
        assert "nothing is timed" in text  # probe shapes come first
    assert [split["name"] for split in get(address, "/ptxgym/splits")] == ["train", "validation", "test"]


def test_the_action_has_exactly_one_required_field(serve):
    assert get(serve(), "/schema")["action"]["required"] == ["source"]


def test_the_command_serves_and_refuses_what_cannot_be():
    command = [sys.executable, "-m", "ptxgym.integrations.openenv", "--port", "0"]
    wrong = subprocess.run([*command, "--env", "PTXBench-GEM-H100"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "Did you mean" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    with subprocess.Popen([*command, "--device", "none"], stderr=subprocess.PIPE, text=True) as server:
        for line in server.stderr:
            if address := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        with connect(address[0]) as env:
            assert "GEMM" in env.reset().observation["text"]
        server.terminate()
        assert server.wait(30) in (0, -15)


def test_misuse_is_a_sentence():
    from ptxgym.integrations.openenv import KernelAction, KernelEnvironment

    env = KernelEnvironment()
    with pytest.raises(MisuseError, match="No task"):
        env.reset()
    with pytest.raises(MisuseError, match="reset first"):
        env.step(KernelAction(source=""))
