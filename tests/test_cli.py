"""The command line as a person uses it: a real process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptxgym.tasks import TASKS

ROOT = Path(__file__).parent.parent
ID = "PTXBench-GEMM-H100"


def ptxgym(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ptxgym", *arguments],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=120,
        env={**os.environ, "COLUMNS": "160", "NO_COLOR": "1"},
        check=False,
    )


def test_list_shows_every_task():
    result = ptxgym("list")
    assert result.returncode == 0
    assert all(task in result.stdout for task in TASKS)
    assert {row["id"] for row in json.loads(ptxgym("list", "--json").stdout)} == set(TASKS)


def test_describe_shows_the_contract():
    result = ptxgym("describe", ID)
    assert TASKS[ID].operator.signature() in result.stdout
    record = json.loads(ptxgym("describe", ID, "--json").stdout)
    assert record["flops"] == 2 * 8192 * 7168 * 5120


def test_a_wrong_id_is_a_sentence_and_exit_code_2():
    result = ptxgym("describe", "PTXBench-GEM-H100")
    assert result.returncode == 2
    assert "Did you mean" in result.stderr
    assert "Traceback" not in result.stderr


def test_evaluate_says_what_the_machine_could_not_tell(kernel, tmp_path):
    records = tmp_path / "records.jsonl"
    example = ROOT / "examples" / "kernels" / "hopper" / "gemm.cu"
    result = ptxgym("evaluate", str(example), "--env", ID, "--device", "none", "--records", str(records))
    assert result.returncode == 3
    assert "✓ compile" in result.stdout
    assert "168 registers" in result.stdout
    assert "? correctness" in result.stdout
    validated = ptxgym("validate", str(records))
    assert (validated.returncode, "reproduced" in validated.stdout) == (0, True)


def test_evaluate_fails_with_exit_code_1_and_reads_standard_input():
    result = ptxgym("evaluate", "-", "--env", ID, "--device", "none", stdin="int x")
    assert result.returncode == 1
    assert "✗ compile" in result.stdout
    assert "– timing" in result.stdout


def test_evaluate_prints_the_record_as_json():
    result = ptxgym("evaluate", "-", "--env", ID, "--device", "none", "--json", stdin="")
    record = json.loads(result.stdout)
    assert record["stages"][0]["reason"] == "invalid_action"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nothing.cu", "--env", ID), "cannot be read"),
        (("-", "--env", ID, "--device", "tpu"), "none of 'auto'"),
        (("-", "--env", ID, "--regime", "warm"), "--regime"),
    ],
)
def test_misuse_of_evaluate_is_a_sentence(arguments, complaint):
    result = ptxgym("evaluate", *arguments, stdin="int x")
    assert result.returncode == 2
    assert complaint in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr


def test_doctor_names_everything_it_looked_for():
    result = ptxgym("doctor")
    assert result.returncode == 0
    for name in ("host compiler", "nvcc", "disassembler", "GPU", "ncu", "compute-sanitizer", "CUPTI", "counters"):
        assert name in result.stdout
    assert {row["level"] for row in json.loads(ptxgym("doctor", "--json").stdout)} <= {"ok", "limited", "missing"}


def test_doctor_says_how_to_get_what_is_missing():
    environment = {"PATH": "/nowhere", "COLUMNS": "300"}
    result = subprocess.run(
        [sys.executable, "-m", "ptxgym", "doctor"], capture_output=True, text=True, env=environment, check=False
    )
    assert result.returncode == 1
    assert "apt-get install g++" in result.stdout


def test_bench_names_its_benchmarks():
    result = ptxgym("bench", "nothing")
    assert result.returncode == 2
    assert "in-flight" in result.stderr.replace("\n", " ")
