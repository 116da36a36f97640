"""The commands as a person uses them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ptxgym.cli import app
from ptxgym.errors import MisuseError
from tests.fixit.doubles import D128, KERNEL, reasoning, work_of
from tests.fixit.test_mine import run_of, turn


@pytest.fixture
def fixit(capsys):
    """The command in this process: exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = app(["fixit", *map(str, arguments)], standalone_mode=False)
        said = capsys.readouterr()
        return code or 0, said.out, said.err

    return call


def test_mine_then_check_then_build(tmp_path, fixit):
    turns = [turn(1, n, "incorrect", KERNEL % n) for n in range(3)]
    _, out, _ = fixit("mine", run_of(tmp_path / "run", turns), "--out", tmp_path / "work", "--json")
    mined = json.loads(out)
    assert (mined["taken"], mined["strata"][0]["error_class"]) == (3, "incorrect")

    pool = work_of(tmp_path / "pool", [reasoning(n, env) for env in D128 for n in range(10)])
    code, out, _ = fixit("recipes", "check", pool, "--recipe", "s1")
    assert code == 1
    assert "158 of any problem are needed and 40 are there: 118 lack." in out
    (tmp_path / "own.toml").write_text(f'method = "fixit"\nproblems = ["{D128[0]}", "{D128[1]}"]\nbalance = "after"\n')
    code, out, err = fixit("build", pool, "--out", tmp_path / "data", "--recipe", tmp_path / "own.toml")
    assert code == 0
    assert "20 to train on, 0 to validate" in out
    assert "20 left out: not in the recipe" in out
    assert "chat template are not checked" in err
    assert not (tmp_path / "data" / "validation.parquet").exists()


def test_recipes_are_listed_shown_and_compared(fixit):
    _, out, _ = fixit("recipes", "list", "--json")
    assert [row["size"] for row in json.loads(out)] == [494, 158, 259, 406, 170, 258, 258]
    assert fixit("recipes", "diff", "s5", "s6")[1] == "reasoning: glm-5.2 → qwen3.6-27b\n"
    assert json.loads(fixit("recipes", "show", "s4")[1])["balance"] == "after"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("repair", "nowhere"), "Say who teaches: --model"),
        (("repair", "nowhere", "--model", "m"), "There is no endpoint"),
        (("repair", "nowhere", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"), "has no failures.jsonl"),
        (("reason", "nowhere", "--reasoning", "finding"), "has no pairs"),
        (("build", "nowhere", "--out", "x"), "has no reasons.jsonl"),
        (("synthesize", "nowhere"), "Say what to break"),
        (("synthesize", "nowhere", "k.cu"), "Say which task the kernels are for"),
        (("iterate", "nowhere"), "Say what is built"),
        (("mine", "nowhere", "--out", "x", "--recipe", "s1"), "There is no run in nowhere"),
    ],
)
def test_a_wrong_command_is_a_sentence(arguments, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MisuseError, match=complaint):
        app(["fixit", *arguments], standalone_mode=False)


def test_a_sentence_is_all_that_a_person_sees_of_a_mistake(tmp_path):
    command = [sys.executable, "-m", "ptxgym", "fixit", "reason", str(tmp_path / "nowhere"), "--reasoning", "finding"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 2
    assert "has no pairs" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_commands_load_nothing_heavy_before_they_run():
    heavy = ("torch", "pyarrow", "datasets", "transformers", "trl", "peft", "openai", "bm25s")
    code = f"import sys, ptxgym.cli; print(*(name for name in {heavy} if name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.strip() == ""
