"""Many environments on one pool. Nothing is run here (``device="none"``); compilation is real."""

import copy
import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

import ptxgym
from ptxgym.errors import MisuseError
from ptxgym.evaluation import EvaluationPool, PoolClient, PoolServer
from ptxgym.shaping import Shaping
from tests.evaluation.test_stages import SOURCE

ID = "PTXBench-GEMM-H100"


@pytest.fixture
def pool():
    with EvaluationPool(workers=2) as pool:
        yield pool


@pytest.fixture(params=["here", "there"])
def shared(request, pool):
    """A pool, and a client of it, as if from another process."""
    if request.param == "here":
        yield pool
        return
    with PoolServer(pool) as server, PoolClient(server.path) as client:
        yield client


def test_an_environment_steps_through_a_pool_as_without_one(shared, pool):
    pooled, alone = (gym.make(ID, device="none", pool=p) for p in (shared, None))
    for env in (pooled, alone):
        env.reset(seed=1)
    for action in ("", None, "int x = ;"):
        there, here = pooled.step(action), alone.step(action)
        assert there[4]["status"] == here[4]["status"]
        assert there[1:4] == here[1:4]
        assert there[4].keys() == here[4].keys()
    assert pool.load.judged == 3


def test_equal_actions_of_a_step_are_judged_once(shared, pool):
    envs = gym.make_vec(ID, num_envs=6, device="none", pool=shared)
    envs.reset(seed=1)
    source = f"int equal_{type(shared).__name__} = ;"  # which no cache has
    _, _, _, _, infos = envs.step([source] * 5 + [""])
    assert list(infos["status"]) == ["compile_error"] * 5 + ["invalid_action"]
    assert pool.load.judged <= 3  # a submission may come after the first evaluation has ended
    assert pool.load.judged + pool.load.joined == 6
    envs.close()
    assert pool.submit("", ID).result(60).status == "invalid_action"  # a pool that is lent stays open


def test_a_vector_environment_ends_its_own_pool():
    envs = ptxgym.KernelVectorEnv(2, task=ID, device="none")
    envs.reset()
    envs.step(["", ""])
    own = envs._pool
    envs.close()
    with pytest.raises(MisuseError, match="closed"):
        own.submit("", ID)


def test_a_step_needs_one_action_for_each_environment():
    envs = ptxgym.KernelVectorEnv(2, task=ID, device="none")
    envs.reset()
    for actions in ([""], ["", "", ""]):
        with pytest.raises(MisuseError, match=f"2 actions are expected, one source each; got {len(actions)}"):
            envs.step(actions)
    envs.close()


def test_who_judges_elsewhere_asks_for_no_device_here(pool):
    with PoolServer(pool) as server, PoolClient(server.path) as client:
        envs = gym.make_vec(ID, num_envs=2, device="cuda:99", reward="speedup", pool=client)
        alone = gym.make(ID, device="cuda:99", reward="speedup", pool=client)
        prompts = {*envs.reset()[0]["feedback"], alone.reset()[0]["feedback"]}
        assert len(prompts) == 1
        assert "speedup reaches 1.2" in prompts.pop()
        envs.close()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"seed": [1]}, "2 seeds are expected, one for each environment; got 1"),
        ({"seed": [1, 2, 3]}, "got 3"),
        ({"options": {"reset_mask": np.array([True])}}, "2 booleans are expected"),
        ({"options": {"reset_mask": np.array([False, False])}}, "one of them True"),
        ({"options": {"reset_mask": np.array([1, 0])}}, "2 booleans are expected"),
    ],
)
def test_a_reset_that_cannot_be_touches_nothing(arguments, complaint):
    envs = ptxgym.KernelVectorEnv(2, task=ID, device="none", autoreset_mode="Disabled")
    mask = np.array([True, False])
    with pytest.raises(MisuseError, match="first reset is of all"):
        envs.reset(options={"reset_mask": mask})
    envs.reset(seed=np.int64(3))
    envs.step(["", ""])
    with pytest.raises(MisuseError, match=complaint):
        envs.reset(**arguments)
    assert [len(env.history) for env in envs.envs] == [1, 1]
    assert list(envs.reset(options={"reset_mask": mask})[0]["turn"]) == [0, 1]
    envs.close()


def test_gymnasiums_own_processes_step_through_one_pool(pool):
    with PoolServer(pool) as server, PoolClient(server.path) as client:
        kwargs = {"shared_memory": False, "context": "spawn"}
        envs = gym.make_vec(
            ID, num_envs=2, device="none", pool=client, vectorization_mode="async", vector_kwargs=kwargs
        )
        envs.reset()
        assert list(envs.step(["", ""])[4]["status"]) == ["invalid_action"] * 2
        envs.close()
    assert pool.load.judged + pool.load.joined == 2


def test_where_nothing_is_timed_the_first_pass_ends_an_episode_and_only_that():
    envs = ptxgym.KernelVectorEnv(2, task=ID, device="none", stages=("compile",))
    envs.reset()
    _, _, terminated, truncated, infos = envs.step([SOURCE, ""])
    assert (list(terminated), list(truncated)) == ([True, False], [False, False])
    assert list(infos["end"]) == ["passed", ""]
    observations, *_ = envs.step([SOURCE, ""])
    assert list(observations["turn"]) == [0, 2]
    envs.close()


def test_an_interrupted_step_leaves_nothing_in_the_queue(monkeypatch):
    envs = ptxgym.KernelVectorEnv(3, task=ID, device="none")
    envs.reset()
    submitted = []

    def interrupt(futures):
        submitted.extend(futures)
        raise KeyboardInterrupt

    monkeypatch.setattr("ptxgym.envs.vector_env.wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        envs.step(["int interrupted = ;"] * 3)
    assert all(future.done() for future in submitted)
    envs.close()


def test_copies_of_an_environment_share_the_pool_and_are_trajectories_of_their_own(pool):
    env = ptxgym.KernelEnv(ID, device="none", pool=pool)
    env.reset()
    fork = env.fork()
    assert fork.pool is copy.deepcopy(env).pool is pool
    assert fork.trajectory != env.trajectory
    before = env.trajectory
    env.reset()
    assert env.trajectory != before
    with pytest.raises(MisuseError, match="PoolServer"):
        pickle.dumps(env)
    with PoolServer(pool) as server, PoolClient(server.path) as client:
        again = pickle.loads(pickle.dumps(ptxgym.KernelEnv(ID, device="none", pool=client)))
        again.reset()
        assert again.step("")[4]["status"] == "invalid_action"
        again.pool.close()


def test_a_client_needs_nothing_to_judge_with_and_asks_for_nothing_impossible(pool):
    with PoolServer(pool) as server, PoolClient(server.path) as client:
        program = (
            "import sys, ptxgym; from ptxgym.evaluation import PoolClient\n"
            f"env = ptxgym.KernelEnv('{ID}', device='cuda', pool=PoolClient(sys.argv[1]))\n"
            "print(env.reset()[1]['valid'], 'torch' in sys.modules)"
        )
        command = [sys.executable, "-c", program, str(server.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["True", "False"], done.stderr
        env = ptxgym.KernelEnv(ID, device="cuda:99", pool=client)
        env.reset()
        with pytest.raises(MisuseError, match="is as cuda:99"):
            env.step("")


def test_a_lost_pool_is_an_ordinary_step_marked_for_masking(pool):
    with PoolServer(pool) as server:
        client = PoolClient(server.path)
    env = ptxgym.KernelEnv(ID, device="none", pool=client)
    env.reset()
    _, reward, _, _, info = env.step("int x;")
    assert (reward, info["valid"], info["error_type"]) == (0.0, False, "infrastructure")
    client.close()


def test_shaping_is_in_the_reward_and_in_info(pool):
    potential = Shaping(potential=lambda evaluation: 0.5 if evaluation.status == "compile_error" else 0.25)
    envs = gym.make_vec(ID, num_envs=2, device="none", max_turns=2, shaping=potential, pool=pool)
    _, infos = envs.reset()
    assert list(infos["shaping"]) == [0, 0]
    _, rewards, _, _, infos = envs.step(["int shaped = ;", ""])
    assert list(rewards) == list(infos["shaping"]) == [0.5, 0.25]
    _, rewards, _, _, infos = envs.step(["", ""])
    assert list(rewards) == [-0.5, -0.25]
    assert np.isfinite(rewards).all()
    envs.close()


def test_a_discount_stands_for_the_usual_shaping():
    env = gym.make(ID, device="none", shaping=0.9)
    assert env.unwrapped.shaping == Shaping(gamma=0.9, potential="staged")
    assert gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json())).unwrapped.shaping == Shaping(0.9)
