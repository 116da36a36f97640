"""What is taken out of runs, and what is not."""

from __future__ import annotations

from collections import Counter

import pytest

from baselines.fixit.mine import MineSettings, mine
from baselines.fixit.records import Failure, Pair, read_failures
from baselines.fixit.sources import normalise
from ptxgym.errors import MisuseError
from ptxgym.runs.records import Message, RunRecord, TurnRecord, read_lines
from tests.fixit.doubles import D128, GEMM, KERNEL, evaluation, write_lines
from tests.runs.doubles import turn_record

STAGES = {"compile_error": "compile", "memory_error": "memory", "incorrect": "correctness", "passed": ""}


def turn(number: int, trajectory: int, status: str, source: str, env: str = GEMM) -> TurnRecord:
    asked = (Message(role="system", content="You write kernels."), Message(role="user", content=f"Write {env}."))
    said = (Message(role="assistant", content="…"), Message(role="user", content=f"told of {number}"))
    return turn_record(
        number,
        trajectory,
        env=env,
        messages=(*(asked if number == 1 else ()), *said),
        source=source,
        evaluation=evaluation(env, source, STAGES[status]),
    )


def run_of(folder, turns, envs=(GEMM,)):
    folder.mkdir(parents=True)
    variants = {env: {"plain": ""} for env in envs}
    record = RunRecord(
        run=folder.name,
        created="now",
        envs=tuple(envs),
        policy="p",
        variants=variants,
        trajectories=1,
        max_turns=8,
        seed=0,
    )
    (folder / "run.json").write_text(record.model_dump_json())
    write_lines(folder / "turns.jsonl", turns)
    return folder


def test_a_failed_turn_becomes_problem_kernel_and_feedback(tmp_path):
    turns = [
        turn(1, 0, "compile_error", KERNEL % 1),
        turn(2, 0, "memory_error", KERNEL % 2),
        turn(3, 0, "passed", KERNEL % 3),
    ]
    mined = mine([run_of(tmp_path / "run", turns)], tmp_path / "work", MineSettings())
    failures = list(read_failures(tmp_path / "work"))
    assert (mined.seen, mined.eligible, mined.taken.total()) == (3, 2, 2)
    assert [f.error_class for f in failures] == ["compile_error", "memory_error"]
    assert failures[1].source == KERNEL % 2
    assert failures[1].feedback == "told of 2"
    assert (failures[1].problem.system, failures[1].problem.prompt) == ("You write kernels.", f"Write {GEMM}.")
    assert (failures[1].origin.turn, failures[1].origin.model) == (2, "m")


def test_the_same_code_is_taken_once_whatever_its_layout(tmp_path):
    other = "// a note\n" + (KERNEL % 1).replace("    return", "  return").replace("x - 1", "x  -  1")
    turns = [turn(1, n, "incorrect", source) for n, source in enumerate([KERNEL % 1, other, KERNEL % 1, KERNEL % 2])]
    mined = mine([run_of(tmp_path / "run", turns)], tmp_path / "work", MineSettings())
    assert (mined.taken.total(), mined.duplicates) == (2, 2)


def test_another_identifier_or_another_instruction_is_another_kernel():
    assert normalise("int a; // b") == normalise("int  a;/* c */")
    assert normalise("int a;") != normalise("int b;")
    assert normalise('asm("mov.u32 a, b;");') != normalise('asm("mov.u32  a, b;");')
    assert normalise('x = "// no comment";') != normalise('x = "";')


def test_strata_share_what_a_problem_may_give(tmp_path):
    turns = [turn(1, n, "compile_error", KERNEL % n) for n in range(20)]
    turns += [turn(1, 100 + n, "incorrect", KERNEL % (100 + n)) for n in range(2)]
    turns += [turn(3, 200 + n, "incorrect", KERNEL % (200 + n)) for n in range(20)]
    run = run_of(tmp_path / "run", turns)
    mined = mine([run], tmp_path / "a", MineSettings(per_problem=8))
    assert Counter({(s.error_class, s.turn): n for s, n in mined.taken.items()}) == {
        ("compile_error", 1): 3,
        ("incorrect", 1): 2,
        ("incorrect", 3): 3,
    }
    assert mine([run], tmp_path / "b", MineSettings(per_stratum=2)).taken.total() == 6
    first, second = ({f.id for f in read_failures(tmp_path / name)} for name in "ab")
    assert first != second


def test_a_seed_decides_the_choice_and_nothing_else_does(tmp_path):
    run = run_of(tmp_path / "run", [turn(1, n, "incorrect", KERNEL % n) for n in range(30)])
    chosen = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        mine([run], tmp_path / name, MineSettings(per_problem=10, seed=seed))
        chosen.append([f.id for f in read_failures(tmp_path / name)])
    assert chosen[0] == chosen[1]
    assert chosen[0] != chosen[2]


def test_late_turns_and_known_kernels_are_left_out(tmp_path):
    run = run_of(tmp_path / "run", [turn(n, 0, "incorrect", KERNEL % n) for n in range(1, 9)])
    mine([run], tmp_path / "a", MineSettings(last_turn=3))
    known = {f.id for f in read_failures(tmp_path / "a")}
    assert len(known) == 3
    mine([run], tmp_path / "b", MineSettings(last_turn=5), known)
    assert [f.origin.turn for f in read_failures(tmp_path / "b")] == [4, 5]


def test_turns_that_passed_become_solutions_for_kernelgen(tmp_path):
    turns = [turn(1, 0, "incorrect", KERNEL % 1), turn(2, 0, "passed", KERNEL % 2)]
    mine([run_of(tmp_path / "run", turns)], tmp_path / "work", MineSettings(passed=True))
    (pair,) = read_lines(tmp_path / "work" / "solutions.jsonl", Pair)
    assert (pair.kernel, pair.failure, pair.made_by) == (KERNEL % 2, None, "policy")
    assert pair.verification.evaluation.status == "passed"


def test_balancing_says_which_problem_lacks_how_many(tmp_path):
    turns = [turn(1, n, "incorrect", KERNEL % n, env) for env in D128[:2] for n in range(3 if env == D128[0] else 1)]
    run = run_of(tmp_path / "run", turns, D128[:2])
    with pytest.raises(MisuseError, match=rf"3 of {D128[1]} are needed and 1 are there: 2 lack"):
        mine([run], tmp_path / "a", MineSettings(balanced=tuple(D128[:2]), per_problem=3))
    mined = mine([run], tmp_path / "b", MineSettings(balanced=tuple(D128[:2])))
    assert {s.problem: n for s, n in mined.taken.items()} == dict.fromkeys(D128[:2], 1)


def test_nothing_to_take_is_a_sentence_and_leaves_no_file(tmp_path):
    run = run_of(tmp_path / "run", [turn(1, 0, "passed", KERNEL % 1)])
    with pytest.raises(MisuseError, match="none can be taken"):
        mine([run], tmp_path / "work", MineSettings())
    assert not (tmp_path / "work" / "failures.jsonl").exists()


def test_a_second_mining_does_not_replace_the_first(tmp_path):
    run = run_of(tmp_path / "run", [turn(1, 0, "incorrect", KERNEL % 1)])
    mine([run], tmp_path / "work", MineSettings())
    with pytest.raises(MisuseError, match="is there already"):
        mine([run], tmp_path / "work", MineSettings())
    assert len(list(read_lines(tmp_path / "work" / "failures.jsonl", Failure))) == 1
