"""What was submitted in a run can be judged again."""

import re

import pytest

from ptxgym.errors import MisuseError
from ptxgym.runs.submissions import read_submissions
from ptxgym.trajectories import append_record, reproduce
from tests.runs.doubles import REFUSED, ROOT, play, scripted


@pytest.fixture
def run(tmp_path):
    play(tmp_path / "run", scripted([REFUSED, REFUSED]))
    return tmp_path / "run"


def test_a_run_is_judged_again_by_its_own_options(run):
    records = list(read_submissions(run))
    assert [record.turn for record in records] == [1, 2]
    assert records[0].options.device == "none"
    assert reproduce(records[0]).differences == ()
    assert list(read_submissions(run / "turns.jsonl")) == records


def test_turns_without_settings_are_judged_on_the_device_they_were(run):
    (run / "run.json").unlink()
    assert next(read_submissions(run / "turns.jsonl")).options.device == "none"


def test_a_file_of_evaluations_is_read_as_before(run, tmp_path):
    records = list(read_submissions(run))
    append_record(tmp_path / "records.jsonl", records[0])
    assert list(read_submissions(tmp_path / "records.jsonl")) == records[:1]


@pytest.mark.parametrize("name", ["", "nothing.jsonl", "turns.jsonl"])
def test_what_is_neither_is_a_sentence(tmp_path, name):
    with pytest.raises(MisuseError, match="There is no"):
        list(read_submissions(tmp_path / name))


def test_validate_takes_a_run_and_refuses_a_file_without_records(run, tmp_path, capsys):
    from ptxgym.cli import app

    assert app(["validate", str(run)], standalone_mode=False) == 0
    assert capsys.readouterr().out.count("reproduced") == 2
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(MisuseError, match="holds no record"):
        app(["validate", str(tmp_path / "empty.jsonl")], standalone_mode=False)


def test_the_page_reads_a_run_in_which_nothing_passed(run, capsys):
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(code.replace("runs/qwen", str(run)), {})
    assert capsys.readouterr().out == "0 passed none of them timed\n"
