"""The whole of it in small: kernels compiled, run on the simulator, and learned from."""

import json

import pytest

from baselines.tile_policy.__main__ import main as command
from baselines.tile_policy.judge import Judge, read_verdicts
from baselines.tile_policy.kernel import SPACES, Space
from baselines.tile_policy.policy import reinforce
from baselines.tile_policy.training import Logged, Plan, last_reward, train
from benchmarks.tile_policy import main as benchmark
from ptxgym import KernelEnv
from ptxgym.errors import MisuseError
from ptxgym.evaluation import EvaluationPool

from .made import score, verdict, write_table
from .test_kernel import SMALL

CI = Space("ci", SPACES["small"].heads | {"stages": ("4", "5")})


def as_json(verdicts):
    return [found.model_dump_json() for found in verdicts]  # NaN is not equal to itself


def test_on_the_simulator_every_seed_learns_to_stay_legal_and_to_use_the_target_instructions(tmp_path):
    records = tmp_path / "verdicts.jsonl"
    with EvaluationPool(workers=2) as pool:
        judge = Judge(lambda: KernelEnv(SMALL, device="simulator", max_turns=1, pool=pool), records, parallel=4)
        learned = train("reinforce", reinforce, CI, judge, Plan(seeds=5, steps=30, batch=8))
        verdicts = judge(list(CI))
    statuses = [found.status for found in verdicts]
    assert {status: statuses.count(status) for status in set(statuses)} == {
        "passed": 1,
        "target_instructions_missing": 1,
        "compile_error": 6,
    }
    uniform = sum(found.reward for found in verdicts) / len(verdicts)
    assert uniform == pytest.approx(0.1)
    for seed in range(5):
        assert last_reward(learned, seed) > uniform + 0.3
        assert [step for step in learned if step.seed == seed][-1].greedy == "128x256 4 2 8 40/232 tma wgmma"
    assert len(read_verdicts(records)) == len(CI)  # five seeds, and each kernel judged once


def test_a_judge_asks_the_environment_once_and_goes_on_where_it_was(tmp_path):
    records = tmp_path / "verdicts.jsonl"
    made = []

    def make():
        made.append(KernelEnv(SMALL, device="none", max_turns=1))
        return made[-1]

    choices = [{"registers": "56/240"}, {"stages": "5"}, {"registers": "56/240"}]
    first = Judge(make, records)(choices)
    assert [found.status for found in first] == ["compile_error"] * 3
    assert len(made) == 3  # one to see that it can be made, and one for each choice
    with records.open("ab") as file:
        file.write(b'{"choice": {"sta')  # a crash
    again = Judge(make, records)
    assert as_json(again(choices)) == as_json(first)
    assert len(made) == 4
    assert records.read_bytes().count(b"\n") == 2


def test_what_the_machine_could_not_judge_is_asked_again(tmp_path):
    records = tmp_path / "verdicts.jsonl"
    judge = Judge(lambda: KernelEnv(SMALL, device="none", max_turns=1), records)
    (found,) = judge([{}])
    assert (found.valid, found.reward) == (False, 0.0)
    assert judge.known == {}
    assert not records.exists()


def test_records_are_replayed_and_nothing_else(tmp_path):
    write_table(tmp_path / "table.jsonl", CI)
    judge = Judge(None, tmp_path / "table.jsonl")
    assert as_json(judge(list(CI))) == as_json(verdict(choice, score(choice)) for choice in CI)
    with pytest.raises(MisuseError, match="judge the whole space first"):
        judge([{"stages": "2"}])


def test_the_command_goes_on_where_it_was_and_draws_the_curves(tmp_path, capsys):
    pytest.importorskip("jinja2")
    write_table(tmp_path / "verdicts.jsonl", SPACES["small"])
    arguments = ["--seeds", "2", "--steps", "12", "--out", str(tmp_path)]
    assert command(arguments) == 0
    table = capsys.readouterr().out
    assert len(table.splitlines()) == 6
    log = (tmp_path / "reinforce.jsonl").read_bytes()
    steps = [Logged.model_validate(json.loads(line)) for line in log.splitlines()]
    assert [(step.seed, step.step) for step in steps] == [(seed, step) for seed in range(2) for step in range(12)]
    assert (tmp_path / "curves.svg").read_text().startswith("<svg")
    (tmp_path / "reinforce.jsonl").write_bytes(log[:500])
    assert command(arguments) == 0
    assert capsys.readouterr().out == table
    assert (tmp_path / "reinforce.jsonl").read_bytes() == log


def test_the_benchmark_replays_records_and_says_what_it_took(tmp_path, capsys):
    pytest.importorskip("jinja2")
    records = write_table(tmp_path / "table.jsonl", SPACES["full"])
    arguments = ["--from", str(records), "--out", str(tmp_path), "--seeds", "2", "--steps", "30"]
    assert benchmark(arguments) == 0
    text = capsys.readouterr().out
    assert "216 choices, 112 passed, 104 compile_error" in text
    assert text.count("reinforce") == text.count("random") == 3
    assert (tmp_path / "curves.svg").exists()
    records.write_text(records.read_text().split("\n", 1)[1])
    assert benchmark(arguments) == 2
    assert "judge the whole space first" in capsys.readouterr().err


def test_a_wrong_device_is_told_before_anything_is_judged(tmp_path, capsys):
    assert command(["--device", "tpu", "--out", str(tmp_path)]) == 2
    assert "none of 'auto'" in capsys.readouterr().err
