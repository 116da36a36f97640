"""The command line as a person uses it: a real process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptxgym import cli, trajectories
from ptxgym.errors import InfrastructureError
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


@pytest.fixture
def here(capsys, monkeypatch):
    """The command line in this process: exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[int | str | None, str, str]:
        monkeypatch.setattr(sys, "argv", ["ptxgym", *map(str, arguments)])
        monkeypatch.setattr(cli, "err", cli.Console(stderr=True, highlight=False, width=1000))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return call


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


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("evaluate", __file__, "--env", ID, "--records", "no/folder/r.jsonl"), "--records no/folder/r.jsonl cannot"),
        (("evaluate", __file__, "--env", ID, "--records", "."), "--records . cannot be written"),
        (("validate", "."), "There is no run in ."),
        (("validate", "nothing.jsonl"), "There is no file nothing.jsonl"),
        (("bench", "--json", "no/folder/x.json", "import"), "--json no/folder/x.json cannot be written"),
        (("bench", "kernels", "--page", "."), "--page . cannot be written: it is a folder"),
        (("tasks", "export", "--env", ID, "--out", "file/a.jsonl"), "file cannot be used"),
        (("import-ptxbench", "table.csv", "--out", "file"), "file cannot be used: File exists"),
        (("run", "--env", ID, "--out", "r", "--policy", "os:path"), "os:path is a module"),
        (("run", "--env", ID, "--out", "r", "--policy", "os:getcwd"), "made a str, which has no model"),
        (("run", "--env", ID, "--out", "file", "--policy", "oracle"), "The folder file cannot be made"),
        (("run", "--env", ID, "--out", "r", "--policy", "oracle", "--prompts", "nowhere"), "no .md file in nowhere"),
        (
            ("run", "--env", "PTXBench-GEMM-B200", "--out", "r", "--policy", "mutate"),
            "-B200 has no example kernel",
        ),
        (("run", "--env", ID, "--out", "r", "--policy", "oracle", "--kernels", "nowhere"), "no .cu file in nowhere"),
        (("fixit", "synthesize", "file", "--examples"), "The folder file cannot be made"),
        (("prompt", "ptxbench-gemm-h100"), f"shows all {len(TASKS)}.\n"),
        (("report", "nowhere", "--out", "out"), "There is no run in nowhere"),
    ],
)
def test_what_cannot_be_is_a_sentence_before_any_work(here, tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    table = "model,arch,definition,run,trajectory_id,turn,reasoning_tokens,correctness,speedup,correct_with_arch\n"
    (tmp_path / "table.csv").write_text(f"{table}GLM-5.2,hopper,gemm_n7168_k5120,a,exp_000,0,12000,Correct,0.5,1\n")
    code, out, said = here(*arguments)
    assert (code, out) == (2, "")
    assert complaint in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "table.csv"]  # nothing was begun


def test_a_verdict_is_printed_also_when_its_record_cannot_be_kept(here, tmp_path, monkeypatch):
    def full(path: object, record: object) -> None:
        raise InfrastructureError(f"{path} cannot be written: No space left on device.")

    monkeypatch.setattr(trajectories, "append_record", full)
    (tmp_path / "k.cu").write_text("")
    code, out, said = here("evaluate", tmp_path / "k.cu", "--env", ID, "--device", "none", "--records", tmp_path / "r")
    assert (code, "INVALID" in out.upper(), "No space left" in said) == (3, True, True)


def test_simulate_reads_standard_input_and_fails_what_does_not_compile_as_evaluate_does():
    result = ptxgym("simulate", "-", "--env", ID, stdin="int x")
    assert (result.returncode, result.stderr) == (1, "")
    assert "does not compile" in result.stdout
