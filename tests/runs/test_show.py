"""A run as the terminal shows it, finished or not."""

import io

import pytest
from rich.console import Console

from ptxgym.errors import MisuseError
from ptxgym.runs.coverage import coverage
from ptxgym.runs.show import list_trajectories, select, show_run, show_trajectory
from tests.runs.doubles import ID, settings, stop_record, turn_record

MHA = "PTXBench-MHAForward-H100"


def run_of(folder, turns, stops=(), **changes):
    """A run of two instances, two trajectories each and at most three turns."""
    folder.mkdir(exist_ok=True)
    record = settings(**{"envs": [ID, MHA], "trajectories": 2, "max_turns": 3, **changes})
    (folder / "run.json").write_text(record.model_dump_json())
    for name, lines in (("turns", turns), ("stops", stops)):
        (folder / f"{name}.jsonl").write_text("".join(line.model_dump_json() + "\n" for line in lines))
    return record


def shown(function, *arguments, **options):
    text = io.StringIO()
    function(*arguments, Console(file=text, width=200), **options)
    return text.getvalue()


def test_a_number_stays_when_the_run_goes_on(tmp_path):
    early = [turn_record(1, env=MHA, variant="base")]
    run_of(tmp_path, early)
    before = [line.key for line in list_trajectories(tmp_path)]
    number = before.index(early[0].key) + 1
    run_of(tmp_path, [*early, turn_record(1, 1, env=ID, variant="base")])
    assert [line.key for line in list_trajectories(tmp_path)] == before
    assert [turn.key for turn in select(tmp_path, number)] == [early[0].key]
    assert len(before) == 4


def test_a_run_that_was_broken_off_says_so_and_how_to_go_on(tmp_path):
    turns = [turn_record(1, 0, variant="base"), turn_record(1, 1, variant="base"), turn_record(2, 1, variant="base")]
    stop = stop_record(2, "policy_done", 1).model_copy(update={"variant": "base"})
    run_of(tmp_path, turns, [stop])
    text = shown(show_run, tmp_path)
    assert f"2 of 4 trajectories begun, 1 ended; 3 turns of at most 12; none of {MHA}" in text
    assert f"ptxgym run --out {tmp_path} --resume" in text
    assert text.count("not begun") == 2


def test_an_instance_is_whole_on_a_narrow_terminal(tmp_path):
    run_of(tmp_path, [turn_record(1, variant="base")])
    text = io.StringIO()
    show_run(tmp_path, Console(file=text, width=80))
    assert text.getvalue().count(f" {MHA} ") == 2


def test_a_run_that_is_whole_does_not_ask_to_be_resumed(tmp_path):
    stops = [stop_record(1, "policy_done", n).model_copy(update={"variant": "base"}) for n in range(2)]
    run_of(tmp_path, [turn_record(1, n, variant="base") for n in range(2)], stops, envs=[ID])
    assert "--resume" not in shown(show_run, tmp_path)


def test_a_trajectory_that_an_error_ended_is_not_finished():
    record = settings()
    key = record.plan[0]
    ended = {key: stop_record(1, "error:APIError")}
    assert not coverage(record, {key: 1}, ended).whole
    assert coverage(record, {key: 1}, {key: stop_record(1, "turn_budget")}).whole


def test_a_trajectory_is_named_above_its_turns(tmp_path):
    turns = [turn_record(1, 1, variant="base")]
    assert shown(show_trajectory, turns, whole=False).startswith(f"{ID} · variant base · repetition 1\n")


@pytest.mark.parametrize("options", [("--turn", "1"), ("--source",), ("--whole",)])
def test_an_option_of_one_trajectory_needs_its_number(tmp_path, options):
    from ptxgym.cli import app

    run_of(tmp_path, [turn_record(1, variant="base")])
    with pytest.raises(MisuseError, match="Say which trajectory"):
        app(["show", str(tmp_path), *options], standalone_mode=False)
