"""SkyRL-gym, through its own registry."""

import importlib.metadata
from importlib.util import find_spec

import pytest

from ptxgym.errors import MisuseError
from tests.integrations.sources import GEMM, OUT_OF_BOUNDS, fenced

pytestmark = pytest.mark.skipif(
    not find_spec("skyrl_gym"), reason="skyrl-gym is not installed: pip install 'ptxgym[skyrl]'"
)


@pytest.fixture
def make():
    import skyrl_gym

    from ptxgym.integrations import skyrl

    skyrl.register()
    skyrl.register()  # more than once does no harm
    made = []

    def begin(config, extras):
        made.append(skyrl_gym.make("ptxgym", env_config=config, extras=extras))
        return made[-1]

    yield begin
    for env in made:
        env.close()


def test_the_version_is_one_that_was_tried():
    assert importlib.metadata.version("skyrl-gym").startswith("0.4.")


def test_an_episode_over_several_turns(make):
    from ptxgym.integrations.dataset import make_rows

    row = make_rows([GEMM], phases=["probes"], max_turns=2)[0]
    prompt = row.pop("prompt")
    env = make({"device": "simulator"}, row)
    assert env.init(prompt) == (prompt, {})
    step = env.step("Let me think.")
    assert (step["reward"], step["done"], step["metadata"]["status"]) == (0.0, False, "invalid_action")
    assert step["observations"][0]["content"].startswith("UNUSABLE ANSWER")
    step = env.step(fenced(OUT_OF_BOUNDS))
    assert (step["reward"], step["done"], step["metadata"]["status"]) == (0.05, True, "memory_error")
    assert step["observations"] == []
    assert env.get_metrics() | {"turns": 2.0, "compiled": 1.0, "passed": 0.0} == env.get_metrics()
    assert (
        type(env.unwrapped if hasattr(env, "unwrapped") else env).aggregate_metrics([env.get_metrics()])["turns"] == 2
    )


def test_the_task_s_prompt_stands_in_for_an_empty_one(make):
    env = make({"device": "none"}, {"task_id": GEMM})
    messages, _ = env.init([])
    assert messages[0]["content"].startswith("Write one CUDA C++17 source file")


def test_an_unknown_verdict_is_marked(make):
    env = make({"device": "none"}, {"extra_info": {"task_id": GEMM}})
    env.init([])
    step = env.step(fenced(OUT_OF_BOUNDS))
    assert (step["reward"], step["metadata"]["valid"], env.get_metrics()["unjudged"]) == (0.0, False, 1.0)


def test_misuse_is_told_when_the_environment_is_made(make):
    with pytest.raises(MisuseError, match="No task"):
        make({}, {})
