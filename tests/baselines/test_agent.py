"""The agent's loop, whole: a scripted model, and an environment that is real where it matters."""

from __future__ import annotations

import gymnasium as gym
import pytest

import ptxgym  # noqa: F401 registers the environments
from baselines.mini_ptx_agent import Answer, EndpointError, MiniPTXAgent, ScriptedModel
from tests.baselines.test_extraction import KERNEL, OTHER, fenced

ID = "PTXBench-GEMM-H100"


class Judge(gym.Env[dict[str, str], str]):
    """An environment that judges at once: the n-th verdict of a list at the n-th step."""

    def __init__(self, speedups=(), max_turns=8):
        self.speedups, self.max_turns, self.sources = list(speedups), max_turns, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sources = []
        return {"feedback": "Write a kernel."}, {}

    def step(self, action):
        self.sources.append(action)
        turn = len(self.sources)
        speedup = self.speedups[turn - 1] if turn <= len(self.speedups) else 0.0
        reached = speedup >= 1.2
        return (
            {"feedback": f"speedup {speedup}"},
            speedup,
            reached,
            not reached and turn >= self.max_turns,
            {"turn": turn},
        )


def play(env, answers, **options):
    turns = []
    agent = MiniPTXAgent(env, ScriptedModel(answers), save=turns.append, **options)
    return agent.run(seed=0), turns, agent


def roles(messages):
    return [message["role"] for message in messages]


def test_it_stops_at_the_target():
    env = Judge([0.5, 1.3, 2.0])
    stop, turns, _ = play(env, [fenced(KERNEL), fenced(OTHER), fenced(KERNEL)])
    assert stop.reason == "target_speedup"
    assert env.sources == [KERNEL, OTHER]
    assert [turn.terminated for turn in turns] == [False, True]


def test_it_says_why_the_environment_ended():
    env = Judge([1.3])
    step = env.step
    env.step = lambda action: (*step(action)[:4], {"end": "passed"})
    stop, turns, _ = play(env, [fenced(KERNEL)])
    assert (stop.reason, len(turns)) == ("passed", 1)


def test_it_stops_when_the_environment_does():
    stop, turns, _ = play(Judge(max_turns=3), [fenced(KERNEL)] * 9)
    assert stop.reason == "turn_budget"
    assert len(turns) == 3
    assert turns[-1].truncated


def test_it_stops_at_its_own_budget():
    stop, turns, _ = play(Judge(max_turns=99), [fenced(KERNEL)] * 99)
    assert stop.reason == "turn_budget"
    assert len(turns) == 8


def test_it_stops_when_the_policy_has_no_more():
    stop, turns, _ = play(Judge(), [fenced(KERNEL)])
    assert (stop.reason, len(turns)) == ("policy_done", 1)
    assert "1 answers" in stop.detail


def test_everything_said_stays_in_view():
    _, turns, agent = play(Judge([0.1, 0.2]), [fenced(KERNEL), Answer(fenced(OTHER), "I thought.")])
    assert roles(agent.messages) == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [roles(turn.messages) for turn in turns] == [roles(agent.messages)[:4], ["assistant", "user"]]
    assert [message for turn in turns for message in turn.messages] == agent.messages
    assert agent.messages[1]["content"] == "Write a kernel."
    assert agent.messages[3]["content"] == "speedup 0.1"
    assert agent.messages[4]["reasoning"] == "I thought."


def test_an_unusable_answer_spends_a_turn_and_the_model_is_told():
    env = Judge([0.1, 0.2])
    _, turns, agent = play(env, ["I cannot.", fenced(KERNEL)])
    assert env.sources == ["", KERNEL]
    assert turns[0].source == ""
    assert "UNUSABLE ANSWER" in agent.messages[3]["content"]
    assert agent.messages[5]["content"] == "speedup 0.2"


def test_every_turn_is_saved_before_the_next_question():
    saved = []

    class Watching(ScriptedModel):
        def query(self, messages):
            assert len(saved) == sum(message["role"] == "assistant" for message in messages)
            return super().query(messages)

    agent = MiniPTXAgent(Judge(), Watching([fenced(KERNEL)] * 3), save=saved.append)
    agent.run()
    assert len(saved) == 3


def test_a_trajectory_that_was_broken_off_goes_on_where_it_was():
    answers = [fenced(KERNEL), "nothing", fenced(OTHER)]
    _, whole, undisturbed = play(Judge(), answers)
    messages = [message for turn in whole[:2] for message in turn.messages]
    _, rest, resumed = play(Judge(), answers, messages=messages)
    assert resumed.messages == undisturbed.messages
    assert [turn.messages for turn in rest] == [whole[2].messages]


def test_an_endpoint_that_fails_leaves_a_conversation_to_go_on_with():
    class Failing(ScriptedModel):
        def query(self, messages):
            if len(messages) > 2:
                raise EndpointError("InternalServerError", "It fails.")
            return super().query(messages)

    turns = []
    agent = MiniPTXAgent(Judge(), Failing([fenced(KERNEL)]), save=turns.append)
    with pytest.raises(EndpointError):
        agent.run()
    assert agent.messages == turns[0].messages


def test_it_plays_a_real_environment():
    env = gym.make(ID, device="none", max_turns=2, disable_env_checker=True)
    stop, turns, agent = play(env, ["no kernel here", Answer("x", source="")])
    env.close()
    assert stop.reason == "turn_budget"
    assert [turn.info["status"] for turn in turns] == ["invalid_action", "invalid_action"]
    assert agent.messages[1]["content"].startswith("Write one CUDA C++17 source file")
    assert "INVALID ACTION" in agent.messages[-1]["content"]


def test_the_loop_fits_on_one_screen_and_knows_nothing_of_ptxgym():
    import inspect

    from baselines.mini_ptx_agent import agent

    methods = [MiniPTXAgent.run, MiniPTXAgent.step, MiniPTXAgent.query, MiniPTXAgent.execute]
    assert sum(len(inspect.getsource(method).splitlines()) for method in methods) <= 70
    assert "import ptxgym" not in inspect.getsource(agent)
    assert "from ptxgym" not in inspect.getsource(agent)
