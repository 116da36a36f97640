"""One trajectory: what frameworks see of it."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge import estimate_tokens
from ptxgym.errors import MisuseError
from ptxgym.evaluation import EvaluationPool
from ptxgym.evaluation.pool_server import PoolServer
from ptxgym.integrations.episode import Episode, EpisodeSettings, fit, token_counter
from tests.integrations.sources import COMPILE_ERROR, GEMM, OUT_OF_BOUNDS, fenced


def by_length(evaluation):
    """A reward of 1, 3, 2 for the first, second, third kind of submission."""
    return {"invalid_action": 1.0, "compile_error": 3.0, "unknown": 2.0}[evaluation.status]


@pytest.fixture
def play():
    episodes = []

    def begin(**settings):
        episodes.append(Episode(EpisodeSettings.of({"task": GEMM, "device": "none", **settings})))
        return episodes[-1]

    yield begin
    for episode in episodes:
        episode.close()


def test_a_real_kernel_passes_on_the_simulator_and_ends_the_episode(play, kernel):
    episode = play(device="simulator", phase="probes")
    turn = episode.answer(fenced(kernel("gemm")))
    assert turn.feedback.startswith("PASSED")
    assert (turn.reward, turn.gain, turn.done, episode.reward) == (0.5, 0.5, True, 0.5)
    assert turn.evaluation.task == f"{GEMM}@probes"
    assert episode.metrics() == {
        "turns": 1.0,
        "compiled": 1.0,
        "correct": 1.0,
        "passed": 1.0,
        "speedup": 0.0,
        "unjudged": 0.0,
    }
    with pytest.raises(MisuseError, match="episode is over"):
        episode.submit("")


@pytest.mark.parametrize(("credit", "gains"), [("best", [1.0, 2.0, 0.0]), ("last", [1.0, 2.0, -2.0])])
def test_the_gains_of_a_trajectory_sum_up_to_its_reward(play, credit, gains):
    episode = play(reward=by_length, credit=credit)
    turns = [episode.submit(source) for source in ("", COMPILE_ERROR, "")]
    assert [turn.reward for turn in turns] == [1.0, 3.0, 1.0]
    assert [turn.gain for turn in turns] == gains
    assert episode.reward == sum(gains)


def test_without_a_submission_the_reward_is_0(play):
    assert play().reward == 0.0


def test_what_could_not_be_judged_leaves_the_trajectory_without_a_reward(play):
    episode = play(reward=by_length)
    episode.submit("")
    turn = episode.submit(OUT_OF_BOUNDS)
    assert (turn.evaluation.valid, turn.gain) == (False, 0.0)
    assert episode.reward is None
    assert episode.metrics()["unjudged"] == 1.0
    episode.submit("")
    assert episode.reward is None


@pytest.mark.parametrize(
    ("answer", "begins"),
    [
        ("I cannot.", "UNUSABLE ANSWER"),
        ("", "UNUSABLE ANSWER"),
        (f"<think>{fenced(OUT_OF_BOUNDS)}</think>No.", "UNUSABLE ANSWER"),
        (fenced('extern "C" cudaError_t run() { int x = ; }\n'), "COMPILE ERROR"),
    ],
)
def test_the_kernel_is_taken_out_of_an_answer_or_the_turn_is_spent(play, answer, begins):
    episode = play(max_turns=1)
    turn = episode.answer(answer)
    assert turn.feedback.startswith(begins)
    assert (turn.reward, turn.done, len(episode.turns)) == (0.0, True, 1)


def test_feedback_keeps_to_its_budget_and_its_verdict(play):
    long_error = "\n".join(f"int x{i} = ;" for i in range(50))
    turn = play(feedback_tokens=100).submit(long_error)
    assert turn.feedback.startswith("COMPILE ERROR")
    assert turn.feedback.endswith("[…]")
    assert 60 < estimate_tokens(turn.feedback) <= 100


class Characters:
    """A tokenizer whose tokens are characters."""

    def encode(self, text):
        return list(text)


@given(st.text(max_size=200), st.integers(16, 60))
def test_a_cut_text_is_a_beginning_within_its_budget(text, tokens):
    cut = fit(text, tokens, token_counter(Characters()))
    assert len(cut) <= tokens
    assert cut == text if len(text) <= tokens else text.startswith(cut.removesuffix("\n[…]"))


def test_the_phase_of_probe_shapes_is_a_task_of_its_own(play):
    probes, workload = play(phase="probes"), play()
    assert probes.env.task.workload in workload.env.task.probes
    assert probes.env.task.id != workload.env.task.id  # kept evaluations of the one must not answer for the other
    assert "timing" not in probes.env.options.stages
    assert "nothing is timed" in probes.prompt
    assert "8192" not in probes.prompt
    assert "nothing is timed" not in workload.prompt


def test_a_row_comes_before_the_settings():
    settings = EpisodeSettings.of({"task": GEMM, "max_turns": 8, "feedback_tokens": 99})
    row = {"task_id": "PTXBench-MHAForward-B200", "max_turns": 2, "extra_info": {"phase": "probes"}, "other": 1}
    seen = settings.for_row(row)
    assert (seen.task, seen.max_turns, seen.phase, seen.feedback_tokens) == (row["task_id"], 2, "probes", 99)
    assert settings.for_row({"task_id": None}) == settings


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"task": ""}, "No task"),
        ({"task": "PTXBench-GEM-H100"}, "Did you mean"),
        ({"phase": "timed"}, "phase: "),
        ({"max_turns": 0}, "max_turns: "),
        ({"colour": "red"}, "colour: "),
        ({"reward": "fastest"}, "There is no reward"),
        ({"env": {"colour": "red"}}, "colour"),
        ({"env": {"shaping": True}}, "shaping has no place"),
    ],
)
def test_misuse_is_a_sentence(settings, complaint):
    with pytest.raises(MisuseError, match=complaint):
        Episode(EpisodeSettings.of({"task": GEMM, "device": "none", **settings}))


def test_settings_survive_a_pickle():
    settings = EpisodeSettings.of({"task": GEMM, "reward": by_length, "env": {"instruction_rule": "paper"}})
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_a_pool_server_judges_for_many_episodes(play):
    with EvaluationPool(workers=1) as pool, PoolServer(pool) as server:
        episodes = [play(pool=str(server.path), phase=phase, reward=by_length) for phase in ("probes", "workload")]
        assert episodes[0].env.pool is episodes[1].env.pool is not None
        assert [episode.submit(COMPILE_ERROR).reward for episode in episodes] == [3.0, 3.0]
        assert [episode.turns[0].evaluation.task for episode in episodes] == [f"{GEMM}@probes", GEMM]


def test_closing_an_episode_gives_up_what_a_pool_judges_for_it(play):
    given_up = []

    class Pool(EvaluationPool):
        def cancel(self, trajectory):
            given_up.append(trajectory)
            super().cancel(trajectory)

    with Pool(workers=1) as pool:
        episode = play(env={"pool": pool})
        episode.submit("")
        episode.close()
        assert given_up == [episode.env.trajectory]
