"""The importer: every row, no guess, and a sentence for what is no row."""

import math

import pytest

from ptxgym.errors import MisuseError
from ptxgym.ptxbench_import import COLUMNS, read_ptxbench, task_of_definition, turn_of_row
from ptxgym.tasks import TASKS

ROW = {
    "model": "Claude Opus 4.8",
    "arch": "hopper",
    "definition": "gemm_n7168_k5120",
    "run": "opus48-gemm",
    "trajectory_id": "exp_005",
    "turn": "0",
    "reasoning_tokens": "33949",
    "correctness": "Correct",
    "speedup": "0.17",
    "correct_with_arch": "1",
}


def write(path, *rows):
    lines = [",".join(COLUMNS), *(",".join(row[name] for name in COLUMNS) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_row_becomes_a_turn():
    turn = turn_of_row(ROW)
    assert (turn.task, turn.turn, turn.variant, turn.status) == ("PTXBench-GEMM-H100", 1, "2", "passed")
    assert (turn.correct, turn.target_paper, turn.target_work) == (True, True, None)
    assert (turn.speedup, turn.reasoning_tokens) == (0.17, 33949)


def test_a_run_is_the_last_part_of_the_path_that_the_original_has(tmp_path):
    table = write(tmp_path / "table.csv", ROW | {"run": "/somewhere/eval_runs/opus48-gemm"})
    table.write_text(table.read_text(encoding="utf-8").replace(",run,", ",exp_dir,"), encoding="utf-8")
    assert [turn.run for turn in read_ptxbench(table)] == ["opus48-gemm"]


def test_a_correct_row_without_target_instructions():
    turn = turn_of_row(ROW | {"correct_with_arch": "0"})
    assert (turn.correct, turn.target_paper, turn.status) == (True, False, "target_instructions_missing")


@pytest.mark.parametrize(
    ("outcome", "status", "correct"),
    [
        ("Numerical error", "incorrect", False),
        ("Compilation error", "compile_error", False),
        ("Runtime error", "runtime_error", False),
        ("Kernel Execution Timeout", "timeout", False),
        ("Sanitize Timeout", "timeout", False),
        ("Extraction error", "invalid_action", False),
        ("Profiling Service Timeout", "unknown", None),
        ("Other error", "other_error", False),
    ],
)
def test_a_failed_row_keeps_how_it_failed(outcome, status, correct):
    turn = turn_of_row(ROW | {"correctness": outcome, "correct_with_arch": "0", "speedup": "0.0"})
    assert (turn.status, turn.correct, turn.target_paper) == (status, correct, None)
    assert math.isnan(turn.speedup)


def test_definitions_become_tasks_of_the_catalogue():
    for definition, task in (
        ("mha_with_lse_d128", "PTXBench-MHAForward-H100"),
        ("mha_with_lse_d64_causal", "PTXBench-MHAForwardCausal-H100-D64"),
        ("mha_bwd_d128_causal", "PTXBench-MHABackwardCausal-H100"),
        ("mha_bwd_d96", "PTXBench-MHABackward-H100-D96"),
        ("gemm_n7168_k5120", "PTXBench-GEMM-H100"),
    ):
        assert task_of_definition(definition, "H100") == task
        assert task in TASKS


def test_every_row_of_the_table_is_read(original):
    assert len(original) == 13_674
    assert len({turn.run for turn in original}) == 105
    assert sum(turn.correct is True for turn in original) == 1894
    assert sum(turn.target_paper is True for turn in original) == 1433
    assert sum(turn.correct is None for turn in original) == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"turn": "first"}, r"table\.csv:3 is no turn"),
        ({"correctness": "Splendid"}, "Splendid"),
        ({"arch": "ampere"}, "ampere"),
        ({"turn": "-7"}, r"table\.csv:3"),
        ({"reasoning_tokens": ""}, r"table\.csv:3"),
    ],
)
def test_a_row_that_is_none_is_named(tmp_path, change, words):
    with pytest.raises(MisuseError, match=words):
        read_ptxbench(write(tmp_path / "table.csv", ROW, ROW | change))


def test_a_file_that_is_no_table_is_refused(tmp_path):
    with pytest.raises(MisuseError, match="cannot be read"):
        read_ptxbench(tmp_path / "absent.csv")
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(MisuseError, match="no column model"):
        read_ptxbench(other)
    other.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MisuseError, match="no CSV"):
        read_ptxbench(other)
    short = tmp_path / "table.csv"
    short.write_text(",".join(COLUMNS) + "\nClaude Opus 4.8,hopper\n", encoding="utf-8")
    with pytest.raises(MisuseError, match=r"table\.csv:2"):
        read_ptxbench(short)
