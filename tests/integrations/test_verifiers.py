"""verifiers (v1): its own evaluation runner, with an endpoint on loopback. ``make test-integrations`` runs this."""

import asyncio
import importlib.metadata
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.integrations.sources import COMPILE_ERROR, GEMM, OUT_OF_BOUNDS, fenced

pytestmark = [
    pytest.mark.skipif(
        not find_spec("verifiers"), reason="verifiers is not installed: pip install 'ptxgym[verifiers]'"
    ),
    pytest.mark.filterwarnings("ignore"),  # of the frameworks themselves
]


@pytest.fixture
def endpoint():
    """An endpoint that gives these answers, by how many a conversation has already."""
    servers = []

    def start(answers):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                number = sum(message["role"] == "assistant" for message in asked["messages"])
                message = {"role": "assistant", "content": answers[number]}
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                body = {"id": "1", "object": "chat.completion", "created": 0, "model": "stub"}
                data = json.dumps({**body, "choices": [choice], "usage": usage}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/v1"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def evaluate(endpoint, tmp_path, monkeypatch):
    """Run verifiers' own evaluation of the task set; gives its episodes."""
    monkeypatch.setenv("STUB_KEY", "none")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))

    def run(answers, *, env=None, rollouts=1, **settings):
        from verifiers.v1.cli.eval.runner import run_eval
        from verifiers.v1.configs.cli.eval import EvalConfig

        config = EvalConfig.model_validate(
            {
                "env": {
                    "taskset": {
                        "id": "ptxgym-verifiers",
                        "tasks": [GEMM],
                        "phases": ["probes"],
                        "max_turns": 2,
                        "task": {"settings": {"device": "none", **settings}},
                    },
                    "agent": {"harness": {"id": "direct_harness"}, "runtime": {"type": "subprocess"}},
                    **(env or {}),
                },
                "model": "stub",
                "client": {"base_url": endpoint(answers), "api_key_var": "STUB_KEY"},
                "push": False,
                "rich": None,
                "output_dir": str(tmp_path / "out"),
                "num_rollouts": rollouts,
            }
        )
        return asyncio.run(run_eval(config))

    return run


def test_the_version_is_one_that_was_tried():
    assert importlib.metadata.version("verifiers").startswith("0.4.")


def test_the_task_set_is_found_by_name_and_holds_the_data_set():
    from verifiers.v1.utils.loaders import environment_class, taskset_class, taskset_config_type

    from ptxgym.integrations.dataset import make_rows
    from ptxgym.integrations.verifiers import KernelRolloutEnv

    config = taskset_config_type("ptxgym_verifiers")(id="ptxgym_verifiers", split="test", level="none")
    tasks = list(taskset_class("ptxgym_verifiers")(config))
    rows = make_rows(splits=["test"], level="none")
    assert [task.key for task in tasks] == [row["id"] for row in rows]
    assert tasks[0].data.prompt == rows[0]["prompt"][1]["content"]
    assert environment_class("ptxgym_verifiers") is KernelRolloutEnv


def test_an_evaluation_over_several_turns(evaluate):
    episodes = evaluate(["I do not know.", fenced(OUT_OF_BOUNDS)], device="simulator", rollouts=2)
    assert len(episodes) == 2
    for episode in episodes:
        (trace,) = episode.traces
        assert episode.ok, trace.errors
        assert trace.reward == 0.05
        assert trace.rewards.keys() == {"kernel"}
        assert trace.metrics | {"turns": 2.0, "compiled": 1.0, "passed": 0.0} == trace.metrics


def test_a_single_answer_is_judged_by_the_stock_environment(evaluate):
    (episode,) = evaluate([fenced(OUT_OF_BOUNDS)], env={"id": "single_agent"}, device="simulator")
    assert (episode.traces[0].reward, episode.traces[0].metrics["turns"]) == (0.05, 1.0)


def test_a_trajectory_that_was_not_judged_has_an_error_and_no_reward(evaluate):
    (episode,) = evaluate([fenced(OUT_OF_BOUNDS), COMPILE_ERROR])
    (trace,) = episode.traces
    assert not trace.ok
    assert trace.rewards["kernel"] is None
    assert "could not judge" in trace.errors[0].message
    assert trace.metrics["unjudged"] == 1.0
