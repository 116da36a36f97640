"""The harness: everything is played once, on disk in time, and resumable after whatever happened."""

import math
import threading
import time
from collections import Counter

import gymnasium as gym
import pytest

from baselines.mini_ptx_agent import Answer, ContextFull, EndpointError, ScriptedModel
from ptxgym.errors import InfrastructureError, MisuseError
from ptxgym.report.runs import turn_of_record
from ptxgym.runs import harness as harness_module
from ptxgym.runs import read_run, read_stops, read_turns
from ptxgym.runs.coverage import coverage
from ptxgym.runs.journal import Journal
from tests.evaluation.test_stages import SOURCE
from tests.runs.doubles import ID, REFUSED, essence, play, scripted, settings

BROKEN = Answer("x", source="this is not C++")


class Failing(ScriptedModel):
    """Fails at one turn as long as it is told to."""

    at, error, lock = 3, None, threading.Lock()

    def query(self, messages):
        turn = 1 + sum(message["role"] == "assistant" for message in messages)
        if self.error and turn == self.at:
            raise self.error
        return super().query(messages)


def failing(error, at=3):
    return type("FailingNow", (Failing,), {"error": error, "at": at})


def test_every_trajectory_of_every_variant_and_instance_is_played_once(tmp_path):
    envs = ["PTXBench-GEMM-*", "PTXBench-MHAForward-H100"]
    policy = scripted([REFUSED] * 9)
    outcome, turns = play(tmp_path, policy, envs=envs, variants=2, trajectories=2, max_turns=3, concurrency=5)
    assert len(turns) == 3 * 2 * 2 * 3
    assert len({(*turn.key, turn.turn) for turn in turns}) == len(turns)
    assert (outcome.tally.turns, outcome.tally.finished, outcome.unfinished) == (36, 12, 0)
    assert all((turn.stop == "turn_budget") == (turn.turn == 3) for turn in turns)
    assert {stop.stop for stop in read_stops(tmp_path).values()} == {"turn_budget"}


def test_where_nothing_is_timed_a_trajectory_ends_with_its_first_pass_and_the_record_says_so(tmp_path):
    policy = scripted([REFUSED, Answer("x", source=SOURCE), REFUSED])
    outcome, turns = play(tmp_path, policy, env_settings={"device": "none", "stages": ("compile",)})
    assert [(turn.terminated, turn.stop) for turn in turns] == [(False, ""), (True, "passed")]
    assert [(stop.turn, stop.final) for stop in read_stops(tmp_path).values()] == [(2, True)]
    assert turn_of_record(turns[-1]).ended
    assert outcome.unfinished == 0


def test_the_variants_text_is_in_the_prompt_and_its_name_in_the_record(tmp_path):
    _, turns = play(tmp_path, scripted([REFUSED]), variants=3, max_turns=1)
    prompts = {turn.variant: turn.messages[1].content for turn in turns}
    assert set(prompts) == {"base", "multicast", "overlap"}
    assert "multicast" in prompts["multicast"]
    assert len(set(prompts.values())) == 3
    assert prompts["base"] in prompts["multicast"]


def test_a_level_of_knowledge_is_in_every_prompt():
    without, with_all = (settings(variants=3, knowledge=level).variants[ID] for level in ("none", "full"))
    assert without["base"] == ""
    assert all("wgmma.mma_async" in text for text in with_all.values())
    assert all(with_all[name].endswith(without[name]) for name in without)


def test_records_tell_everything_of_a_turn(tmp_path):
    answer = Answer(REFUSED, "thought", seconds=9.0)
    _, (turn,) = play(tmp_path, scripted([answer]), max_turns=1)
    assert [message.role for message in turn.messages] == ["system", "user", "assistant", "user"]
    assert turn.messages[2].reasoning == "thought"
    assert (turn.run, turn.turn, turn.truncated) == (read_run(tmp_path).run, 1, True)
    assert turn.evaluation.status == "invalid_action"
    assert turn.timing.evaluation_seconds > 0


def test_trajectories_are_played_side_by_side(tmp_path):
    meeting = threading.Barrier(4, timeout=20)

    class Meeting(ScriptedModel):
        def query(self, messages):
            meeting.wait()
            return super().query(messages)

    outcome, _ = play(tmp_path, scripted([REFUSED], Meeting), trajectories=4, max_turns=1, concurrency=4)
    assert outcome.tally.finished == 4


def test_a_turn_is_on_disk_before_the_next_question(tmp_path):
    seen = []

    class Looking(ScriptedModel):
        def query(self, messages):
            path = tmp_path / "turns.jsonl"
            seen.append(len(list(read_turns(path))))
            return super().query(messages)

    play(tmp_path, scripted([REFUSED] * 3, Looking), max_turns=3)
    assert seen == [0, 1, 2]


def test_a_trajectory_that_an_error_ended_goes_on_where_it_was(tmp_path):
    answers = [REFUSED, BROKEN, REFUSED, BROKEN]
    record = settings(max_turns=4, trajectories=2)
    _, undisturbed = play(tmp_path / "a", scripted(answers), record)
    error = EndpointError("RateLimitError", "Too many.")
    outcome, broken = play(tmp_path / "b", scripted(answers, failing(error)), record)
    assert [stop.stop for stop in outcome.errors] == ["error:RateLimitError"] * 2
    assert outcome.unfinished == 2
    assert {turn.stop for turn in broken if turn.turn == 2} == {"error:RateLimitError"}
    outcome, resumed = play(tmp_path / "b", scripted(answers), record, resume=True)
    assert (outcome.errors, outcome.unfinished) == ([], 0)
    assert essence(resumed) == essence(undisturbed)


def test_a_finished_run_has_nothing_to_resume(tmp_path):
    record = settings(max_turns=2)
    _, turns = play(tmp_path, scripted([REFUSED] * 2), record)

    class Never(ScriptedModel):
        def query(self, messages):
            raise AssertionError("asked again")

    for reason in ("turn_budget", "policy_done"):
        outcome, again = play(tmp_path, scripted([], Never), record, resume=True)
        assert again == turns, reason
        assert outcome.unfinished == 0


def test_infinity_survives_the_disk(tmp_path):
    passing = Answer("x", source=SOURCE)
    record = settings(max_turns=3, env_settings={"device": "none", "stages": ("compile",), "target_speedup": math.inf})
    play(tmp_path, scripted([BROKEN], failing(EndpointError("RateLimitError", "Too many."), at=2)), record)
    assert read_run(tmp_path).env_settings["target_speedup"] == math.inf
    outcome, turns = play(tmp_path, scripted([BROKEN, passing, BROKEN]), read_run(tmp_path), resume=True)
    assert outcome.errors == []
    assert [turn.evaluation.status for turn in turns] == ["compile_error", "passed", "compile_error"]


def test_turns_that_were_lost_are_missed(tmp_path):
    record = settings(max_turns=2, trajectories=2)
    play(tmp_path, scripted([REFUSED] * 2), record)
    lines = (tmp_path / "turns.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "turns.jsonl").write_text("".join(lines[:2]))
    with pytest.raises(
        MisuseError, match=r"turns\.jsonl lacks turns of \d trajectories that had ended.*copied in part"
    ):
        play(tmp_path, scripted([REFUSED] * 2), record, resume=True)
    assert not coverage(record, Counter(turn.key for turn in read_turns(tmp_path)), read_stops(tmp_path)).whole


def test_the_environment_goes_on_counting_after_a_resumption(tmp_path):
    record = settings(max_turns=3)
    play(tmp_path, scripted([REFUSED] * 3, failing(EndpointError("X", "x"), at=3)), record)
    _, turns = play(tmp_path, scripted([REFUSED] * 9), record, resume=True)
    assert [turn.turn for turn in turns] == [1, 2, 3]
    assert turns[-1].truncated


@pytest.mark.parametrize("error", [ContextFull("It is full."), EndpointError("APIConnectionError", "Nobody is there.")])
def test_an_end_before_the_first_turn_is_recorded(tmp_path, error):
    outcome, turns = play(tmp_path, scripted([], failing(error, at=1)), max_turns=2)
    assert turns == []
    (stop,) = read_stops(tmp_path).values()
    assert (stop.turn, stop.detail) == (0, str(error))
    assert outcome.unfinished == (not stop.final)


def test_a_full_context_ends_a_trajectory_for_good(tmp_path):
    _, turns = play(tmp_path, scripted([REFUSED] * 8, failing(ContextFull("It is full."))))
    assert [turn.stop for turn in turns] == ["", "context_full"]


def test_an_error_that_all_would_meet_ends_the_run_at_once(tmp_path):
    error = EndpointError("AuthenticationError", "A wrong key.", ends_run=True)
    outcome, _ = play(tmp_path, scripted([], failing(error, at=1)), trajectories=50, concurrency=2)
    assert 1 <= len(outcome.errors) <= 2
    assert outcome.unfinished == 50


def test_a_storm_ends_the_run_after_a_few(tmp_path):
    error = EndpointError("InternalServerError", "Busy.")
    outcome, _ = play(tmp_path, scripted([], failing(error, at=1)), trajectories=50, concurrency=2)
    assert 3 <= len(outcome.errors) <= 4


def test_a_policys_own_fault_ends_its_trajectory_only(tmp_path):
    class Odd(ScriptedModel):
        def query(self, messages):
            if threading.current_thread().name.endswith("-0") and not hasattr(Odd, "failed"):
                Odd.failed = True
                raise KeyError("a slip")
            return super().query(messages)

    outcome, turns = play(tmp_path, scripted([REFUSED], Odd), trajectories=3, max_turns=1, concurrency=1)
    assert [stop.stop for stop in outcome.errors] == ["error:KeyError"]
    assert len(turns) == 2


def test_a_full_disk_ends_the_run_with_a_sentence_and_can_be_resumed(tmp_path, monkeypatch):
    record = settings(max_turns=3, trajectories=2)
    append = Journal.append

    def refuse(self, entry):
        if getattr(entry, "turn", 0) == 2:
            raise InfrastructureError("turns.jsonl cannot be written: No space left on device.")
        append(self, entry)

    monkeypatch.setattr(Journal, "append", refuse)
    with pytest.raises(InfrastructureError, match="No space left"):
        play(tmp_path, scripted([REFUSED] * 3), record)
    monkeypatch.undo()
    outcome, turns = play(tmp_path, scripted([REFUSED] * 3), record, resume=True)
    assert outcome.unfinished == 0
    assert len(turns) == 6


def test_once_the_run_is_to_end_trajectories_stop_after_their_turn(tmp_path, monkeypatch):
    monkeypatch.setattr(harness_module, "_GRACE_SECONDS", 5.0)
    first = threading.Event()

    class One(ScriptedModel):
        def query(self, messages):
            if not first.is_set() and not any(message["role"] == "assistant" for message in messages):
                first.set()
                time.sleep(0.2)
                raise EndpointError("AuthenticationError", "A wrong key.", ends_run=True)
            time.sleep(0.4)
            return super().query(messages)

    outcome, turns = play(tmp_path, scripted([REFUSED] * 8, One), trajectories=2, concurrency=2)
    assert [turn.turn for turn in turns] == [1]
    assert outcome.unfinished == 2


def test_two_runs_do_not_share_a_folder(tmp_path):
    play(tmp_path, scripted([REFUSED]), max_turns=1)
    with pytest.raises(MisuseError, match="holds a run"):
        play(tmp_path, scripted([REFUSED]), max_turns=1)

    started, done = threading.Event(), threading.Event()

    class Waiting(ScriptedModel):
        def query(self, messages):
            started.set()
            done.wait(20)
            return super().query(messages)

    first = threading.Thread(target=play, args=(tmp_path / "b", scripted([REFUSED], Waiting)))
    first.start()
    started.wait(20)
    try:
        with pytest.raises(MisuseError, match="Another run"):
            play(tmp_path / "b", scripted([REFUSED]), resume=True, record=settings())
    finally:
        done.set()
        first.join()


def test_seeds_depend_on_the_trajectory_alone(tmp_path):
    seen = {}

    class Policy:
        model, settings = "", {}

        def start(self, env, *, seed, max_turns, messages, save):
            seen.setdefault(seed, []).append(env.spec.id)
            return scripted([]).start(env, seed=seed, max_turns=max_turns, messages=messages, save=save)

    record = settings(trajectories=3, variants=2, seed=7)
    for folder, concurrency in (("a", 1), ("b", 4)):
        play(tmp_path / folder, Policy(), record, concurrency=concurrency)
    assert len(seen) == 6
    assert all(len(uses) == 2 for uses in seen.values())


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"envs": ["PTXBench-GEM-H100"]}, "Did you mean 'PTXBench-GEMM-H100'"),
        ({"envs": ["PTXBench-*-A100"]}, "No instance matches"),
        ({"envs": []}, "--env"),
        ({"variants": 4}, "has 3 prompt variants"),
        ({"variants": 0}, "--variants 0"),
        ({"trajectories": 0}, "--trajectories 0"),
        ({"max_turns": 0}, "--turns 0"),
        ({"env_settings": {"device": "none", "reward": "gold"}}, "no reward 'gold'"),
        ({"env_settings": {"device": "none", "shapes": "few"}}, "--shapes"),
        ({"env_settings": {"device": "tpu"}}, "none of 'auto'"),
        ({"env_settings": {"device": "none", "target_speedup": math.nan}}, "--target-speedup"),
        ({"env_settings": {"device": "none", "target_speedup": 0.0}}, "--target-speedup"),
        ({"concurrency": 0}, "--concurrency 0"),
    ],
)
def test_a_setting_that_cannot_be_is_named_before_anything_is_written(tmp_path, changes, complaint):
    with pytest.raises(MisuseError, match=complaint):
        play(tmp_path / "run", scripted([]), **changes)
    assert not (tmp_path / "run" / "run.json").exists()


def test_instances_are_chosen_by_pattern_each_once():
    record = settings(envs=["PTXBench-MHA*Causal-H100", "PTXBench-*Backward*-H100"])
    assert len(record.envs) == len(set(record.envs)) == 3


def test_ones_own_variants(tmp_path):
    (tmp_path / "b.md").write_text("Second.")
    (tmp_path / "a.md").write_text("First.")
    record = settings(variants=2, prompts=tmp_path, knowledge="Known.")
    assert record.variants[ID] == {"a": "Known.\nFirst.", "b": "Known.\nSecond."}


def test_every_instance_has_three_variants_as_in_the_paper():
    assert all(len(variants) == 3 for variants in settings(envs=["*"], variants=3).variants.values())


def test_gymnasium_alone_can_make_what_is_played():
    assert ID in gym.registry
