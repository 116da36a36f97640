"""The Gymnasium face. Nothing is run here (``device="none"``); compilation is real."""

import copy
import dataclasses
import json
import math
import pickle
import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import ptxgym
from ptxgym.envs.observation import INFO_MEANINGS, OBSERVATION_MEANINGS, STATUS_MEANINGS
from ptxgym.errors import MisuseError
from ptxgym.evaluation import STATUSES
from ptxgym.rewards import REWARDS
from ptxgym.shaping import Shaping
from ptxgym.tasks import TASKS, Task, get_task
from tests.evaluation.doubles import ScriptedDevice
from tests.evaluation.outcomes import evaluation_of
from tests.evaluation.test_stages import SMALL, SOURCE

ID = "PTXBench-GEMM-H100"


@pytest.fixture
def env():
    env = gym.make(ID, device="none")
    yield env
    env.close()


def test_every_task_is_registered():
    assert set(TASKS) <= set(gym.registry)


def test_make_works_by_module_without_an_import():
    program = f"import gymnasium as gym; print(gym.make('ptxgym:{ID}', device='none').spec.id)"
    result = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == ID, result.stderr


def test_importing_loads_nothing_heavy():
    program = (
        "import sys, ptxgym; print([m for m in ('torch', 'pydantic', 'openai', 'typer', 'ray') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
    assert result.stderr == ""


def test_the_list_of_public_names_is_complete():
    assert sorted(ptxgym.__all__) == list(ptxgym.__all__) or set(ptxgym.__all__) == set(dir(ptxgym))
    for name in ptxgym.__all__:
        assert getattr(ptxgym, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ptxgym.nothing  # noqa: B018


@pytest.mark.parametrize("task_id", [ID, "PTXBench-MHABackwardCausal-B200-D64", "PTXBench-GQAForward-H100"])
def test_gymnasiums_checker_has_nothing_to_say(task_id: str):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(task_id, device="none").unwrapped)


def test_the_passive_checker_has_nothing_to_say_over_an_episode(env, kernel):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.reset(seed=1)
        for action in ("", None, b"x", kernel("no_run"), kernel("gemm_plain_cuda")):
            observation, *_ = env.step(action)
            assert observation in env.observation_space


def test_the_prompt_says_what_a_writer_must_know(env):
    observation, info = env.reset()
    task = get_task(ID)
    for piece in (task.operator.signature(), "M=8192 N=7168 K=5120", "M=512 N=768 K=640", "wgmma", "sm_90a", "1.2"):
        assert piece in observation["feedback"]
    assert observation["status"] == len(STATUSES)
    assert observation["turn"] == 0
    assert math.isnan(info["speedup"])


def test_knowledge_stands_behind_the_prompt():
    env = gym.make(ID, device="none", knowledge="OWN KNOWLEDGE")
    observation, _ = env.reset()
    assert observation["feedback"].endswith("OWN KNOWLEDGE\n")


def test_a_level_of_the_knowledge_pack_stands_behind_the_prompt():
    short = gym.make(ID, device="none").unwrapped.prompt
    full = gym.make(ID, device="none", knowledge="full", variant="multicast").unwrapped.prompt
    assert full.startswith(short.rstrip())
    assert "mbarrier" in full
    assert len(full) > 10 * len(short)
    with pytest.raises(MisuseError, match="variant must be one of base"):
        gym.make(ID, device="none", knowledge="full", variant="nothing")


def test_prompts_of_every_task_are_filled_in():
    for task in TASKS:
        text = gym.make(task, device="none").unwrapped.prompt
        assert "{" not in text.replace("{ ", "")
        assert TASKS[task].operator.signature() in text


@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("", "invalid_action"),
        (None, "invalid_action"),
        (b"int x;", "invalid_action"),
        ("x" * (10 << 20), "invalid_action"),
        ("int x;\0", "invalid_action"),
        ("// 中文 café\nint x;", "compile_error"),
        ("```cuda\nint x;\n```", "compile_error"),
    ],
)
def test_bad_input_is_an_ordinary_step_and_the_next_is_right(env, kernel, action, status):
    env.reset()
    observation, reward, terminated, truncated, info = env.step(action)
    assert (info["status"], reward, terminated, truncated) == (status, 0.0, False, False)
    assert info["valid"] is True
    assert info["error_detail"]
    assert len(observation["feedback"]) < 8000
    _, _, _, _, info = env.step(kernel("gemm"))
    assert info["registers"] == 168


def test_without_a_device_the_result_is_unknown_and_marked_for_masking(env, kernel):
    env.reset()
    _, reward, terminated, _, info = env.step(kernel("gemm"))
    assert (info["status"], info["valid"], reward, terminated) == ("unknown", False, 0.0, False)
    assert info["error_type"] == "infrastructure"
    assert "chosen as 'none'" in info["error_detail"]


def test_info_has_the_same_keys_and_float_numbers_at_every_step(env, kernel):
    _, first = env.reset()
    infos = [first] + [env.step(action)[4] for action in ("", kernel("compile_error"), kernel("gemm"))]
    for info in infos:
        assert info.keys() == first.keys()
        for name in ("speedup", "work_fraction", "norm_error", "registers", "seconds", "speedup_low"):
            assert type(info[name]) is float
        assert info["rewards"].keys() == REWARDS.keys()
        assert all(type(value) is float for value in info["rewards"].values())


def test_the_documented_keys_and_statuses_are_those_there_are(env):
    observation, info = env.reset()
    assert observation.keys() == OBSERVATION_MEANINGS.keys()
    assert info.keys() == INFO_MEANINGS.keys()
    assert tuple(STATUS_MEANINGS) == STATUSES


def test_an_episode_ends_after_its_turns_and_says_so_to_who_goes_on():
    env = gym.make(ID, device="none", max_turns=2).unwrapped
    with pytest.raises(MisuseError, match=r"call reset\(\)"):
        env.step("")
    env.reset()
    assert env.step("")[2:4] == (False, False)
    assert env.step("")[2:4] == (False, True)
    with pytest.raises(MisuseError, match=r"call reset\(\)"):
        env.step("")
    env.reset()
    assert env.history == []


def test_where_nothing_is_timed_the_first_pass_ends_the_episode_and_the_policy_is_told():
    task = dataclasses.replace(get_task(ID), workload=SMALL, probes=(SMALL,))
    for gives_times in (False, True):
        env = ptxgym.KernelEnv(task, cache=False)
        env.evaluator.__dict__["device"] = device = ScriptedDevice(task)
        device.gives_times = gives_times
        prompt = env.reset()[0]["feedback"]
        observation, reward, terminated, truncated, info = env.step(SOURCE)
        told = "not measured. scripted gives no times" in observation["feedback"]
        ends = "episode ends with this pass" in observation["feedback"]
        assert (info["status"], truncated) == ("passed", False)
        assert (terminated, info["end"] == "passed", told, ends) == (not gives_times,) * 4
        assert ("nothing is timed" in prompt, "Timed shape" in prompt) == (not gives_times, gives_times)
        assert reward == 0.5 or gives_times


def test_an_episode_without_a_target_goes_on_after_a_pass():
    env = ptxgym.KernelEnv(ID, device="none", target_speedup=math.inf, max_turns=2)
    env.reset()
    assert env.conclude("", evaluation_of())[2:4] == (False, False)
    assert env.conclude("", evaluation_of())[2:4] == (False, True)


def test_a_reward_that_needs_a_time_is_unknown_where_none_was_taken():
    """As when a pool in another process chose the simulator."""
    env = ptxgym.KernelEnv(ID, device="none", reward="speedup")
    env.reset()
    _, reward, _, _, info = env.conclude("", evaluation_of(correct=False))
    assert (reward, info["valid"], info["rewards"]["speedup"]) == (0.0, True, 0.0)
    _, reward, _, _, info = env.conclude("", evaluation_of())
    assert (reward, info["valid"], info["rewards"]["binary"]) == (0.0, False, 1.0)
    assert all(math.isnan(info["rewards"][name]) for name in ("speedup", "fast_inst", "roofline"))
    env.reset()
    _, reward, _, _, info = env.conclude("", evaluation_of(speedup=1.1))
    assert (reward, info["valid"]) == (1.1, True)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"device": "tpu"}, "none of 'auto'"),
        ({"device": "cuda:x"}, "none of 'auto'"),
        ({"device": "cuda:99"}, "is as cuda:99"),
        ({"reward": "fastest"}, "There is no reward 'fastest'"),
        ({"render_mode": "rgb_array"}, "render_mode"),
        ({"max_turns": 0}, "max_turns"),
        ({"max_turns": "8"}, "max_turns='8' is not a whole number"),
        ({"max_turns": 2.5}, "max_turns=2.5 is not a whole number"),
        ({"target_speedup": "1.2"}, "target_speedup='1.2' is not a number above 0"),
        ({"target_speedup": math.nan}, "target_speedup=nan"),
        ({"target_speedup": 0}, "target_speedup=0"),
        ({"stages": "timing"}, "stages='timing' is not a collection"),
        ({"shaping": "0.9"}, "shaping='0.9' is not a discount"),
        ({"knowledge": None}, "knowledge=None is not a level"),
        ({"pool": "/tmp/socket"}, r"PoolClient\(path\) makes one"),
        ({"shapes": "x"}, r"shapes='x': Input should be 'all' or 'workload'"),
        ({"knowledge": "contract"}, "no knowledge level 'contract'. Did you mean 'contracts'"),
        ({"reward": "speedup", "device": "simulator"}, r"reward='speedup' needs times.*'simulator' gives none"),
        ({"reward": "fast_inst", "stages": ("compile",)}, "reward='fast_inst' needs times.*stage is left out"),
        ({"shaping": Shaping(potential="roofline"), "device": "simulator"}, "potential='roofline' needs times"),
        ({"task": "PTXBench-GEM-H100"}, "Did you mean"),
    ],
)
def test_misuse_is_told_at_once(arguments, complaint):
    with pytest.raises(MisuseError, match=complaint):
        ptxgym.KernelEnv(**({"task": ID, "device": "none"} | arguments))


def test_a_prompt_lists_what_will_be_looked_at():
    prompt = ptxgym.KernelEnv(ID, device="none", stages=("compile", "instructions")).prompt
    assert "1. It compiles" in prompt
    assert "2. Target instructions do the work" in prompt
    assert "memory checker" not in prompt
    assert "secret inputs" not in prompt


def test_a_copy_a_pickle_and_a_fork_go_on_alone(env, kernel):
    env.reset()
    env.step("")
    base = env.unwrapped
    for other in (copy.deepcopy(base), pickle.loads(pickle.dumps(base)), base.fork()):
        assert other.history == base.history
        assert other.history is not base.history
        _, _, _, _, info = other.step(kernel("no_run"))
        assert info["status"] == "compile_error"
        assert len(base.history) == 1
    assert base.step("")[0]["turn"] == 2


def test_a_task_of_ones_own_and_a_reward_of_ones_own(kernel):
    mine = dataclasses.replace(get_task(ID), id="Mine", workload={"M": 256, "N": 256, "K": 64})
    assert isinstance(mine, Task)
    env = ptxgym.KernelEnv(mine, device="none", reward=lambda evaluation: len(evaluation.stages))
    env.reset()
    assert env.step("")[1] == 6.0


def test_render_modes(capsys, kernel):
    env = gym.make(ID, device="none", render_mode="ansi")
    observation, _ = env.reset()
    assert env.render() == observation["feedback"]
    human = gym.make(ID, device="none", render_mode="human")
    human.reset()
    human.step("")
    assert "INVALID ACTION" in capsys.readouterr().out


def test_spec_survives_json():
    spec = gym.make(ID, device="none", reward="speedup").spec
    again = gym.make(gym.envs.registration.EnvSpec.from_json(spec.to_json()))
    assert again.unwrapped.task.id == ID
    assert again.unwrapped.options.device == "none"


def test_vector_environment_gives_results_in_order_and_starts_anew(kernel):
    actions = ["", kernel("no_run"), None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = gym.make_vec(ID, num_envs=3, device="none", max_turns=2)
        observations, _ = envs.reset(seed=1)
        assert observations in envs.observation_space
        observations, rewards, _, _, infos = envs.step(actions)
        assert observations in envs.observation_space
        assert list(infos["status"]) == ["invalid_action", "compile_error", "invalid_action"]
        assert observations["feedback"][0].startswith("INVALID ACTION")
        assert observations["feedback"][1].startswith("COMPILE ERROR")
        assert rewards.dtype == np.float64
        assert infos["speedup"].dtype == np.float64
        _, _, _, truncated, _ = envs.step(actions)
        assert truncated.all()
        observations, rewards, _, truncated, infos = envs.step(actions)
        assert not truncated.any()
        assert list(observations["turn"]) == [0, 0, 0]
        assert observations["feedback"][2].startswith("Write one CUDA")
        envs.close()


def test_vector_environment_can_start_anew_in_the_same_step():
    envs = gym.make_vec(ID, num_envs=2, autoreset_mode="SameStep", device="none", max_turns=1)
    envs.reset()
    observations, _, _, truncated, infos = envs.step(["", ""])
    assert truncated.all()
    assert list(observations["turn"]) == [0, 0]
    assert infos["final_obs"][0]["feedback"].startswith("INVALID ACTION")
    assert infos["final_info"]["status"][1] == "invalid_action"
    envs.close()


def test_stock_sync_vector_environment_works_too():
    envs = gym.make_vec(ID, num_envs=2, vectorization_mode="sync", device="none")
    envs.reset(seed=0)
    observations, *_ = envs.step(("", "int x;"))
    assert [text.split()[0] for text in observations["feedback"]] == ["INVALID", "COMPILE"]
    envs.close()


def test_stock_async_vector_environment_works_without_shared_memory():
    envs = gym.make_vec(
        ID, num_envs=1, vectorization_mode="async", vector_kwargs={"shared_memory": False}, device="none"
    )
    envs.reset(seed=0)
    observations, *_ = envs.step(("int x;",))
    assert observations["feedback"][0].startswith("COMPILE")
    envs.close()


def test_spaces_hold_unicode_compare_pickle_and_survive_json():
    space = ptxgym.Source(100)
    assert "// café 中文" in space
    assert "é" * 51 not in space
    assert "\ud800" not in space
    assert b"x" not in space
    assert space == pickle.loads(pickle.dumps(space)) == copy.deepcopy(space)
    assert space != ptxgym.Source(101)
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(["é", ""])))) == ["é", ""]
    space.seed(3)
    first = space.sample()
    space.seed(3)
    assert (space.sample(), first in space) == (first, True)


def test_samples_do_not_depend_on_hash_order():
    program = (
        "import ptxgym; s = ptxgym.Source(1000); s.seed(1); print(s.sample(), hash(s) == hash(ptxgym.Source(1000)))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin"},
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1
