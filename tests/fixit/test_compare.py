"""Adaptation against in-context help: what is counted, what is compared with what, and what stands beside."""

import itertools
import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from baselines.fixit.commands import app
from baselines.fixit.compare import as_markdown, choose_sets, compare, load_sets
from ptxgym.errors import MisuseError
from ptxgym.metrics import Turn, difference_interval, turn_correctness
from ptxgym.ptxbench_import import FINE_TUNED, read_ptxbench
from ptxgym.report import published
from ptxgym.report.adaptation import S4_NOTE, adaptation_table, arms_of, solve_all
from ptxgym.report.page import write_report
from ptxgym.report.runs import write_imported
from ptxgym.tasks import TASKS
from tests.metrics.conftest import TABLE
from tests.metrics.made import trajectory

from .compare_doubles import FORWARD, GEMM, write_arm


@pytest.fixture(scope="module")
def original() -> list[Turn]:
    """Every turn of the original's table."""
    if not TABLE.exists():
        pytest.skip("the original's per-turn table is no part of this project and is not here")
    return read_ptxbench(TABLE)


@pytest.fixture
def runs(tmp_path) -> list[Path]:
    """A model as it is, fine-tuned, and helped in context."""
    return [
        write_arm(tmp_path / "base", "qwen", "", {GEMM: [0, 0, 1, 0], FORWARD: [0, 0, 0, 0]}),
        write_arm(tmp_path / "s1", "qwen-s1", "s1", {GEMM: [4, 3, 4, 5], FORWARD: [2, 2, 2, 2]}),
        write_arm(tmp_path / "notes", "qwen", "in context: repair notes", {FORWARD: [1, 0, 1, 0]}),
    ]


def line(table, name):
    return next(line for line in table.lines if line.name == name)


def test_every_shipped_set_names_tasks_that_exist_and_the_claims_of_the_paper():
    sets = load_sets()
    assert list(sets) == ["same-problems", "d64", "d96", "gqa", "other-architecture"]
    assert all(env in TASKS for one in sets.values() for env in one.envs)
    assert {env.split("-")[1] for env in sets["same-problems"].envs} == set(published.OPERATORS)
    assert not sets["d96"].seen_by, "no published recipe was trained on it"
    overlapping = itertools.combinations(sets.values(), 2)
    assert not any(set(one.envs) & set(other.envs) for one, other in overlapping)


def test_arms_are_counted_and_compared_with_the_model_as_it_is(runs):
    (table,) = compare(runs, choose_sets(["same-problems"], load_sets()))
    base, tuned = line(table, "qwen"), line(table, "qwen-s1 · s1")
    assert base.difference is None
    assert (base.all.rate.successes, base.all.rate.total) == (1, 64)
    assert (tuned.cells[0].rate.successes, tuned.cells[0].rate.total) == (16, 32)
    assert tuned.cells[0].interval.low < 0.5 < tuned.cells[0].interval.high
    assert tuned.cells[1].peak == 0.5
    assert tuned.cells[2:] == (None, None, None)
    assert tuned.base == "qwen"
    assert tuned.difference.share == pytest.approx(24 / 64 - 1 / 64)
    assert 0 < tuned.difference.interval.low < tuned.difference.share < tuned.difference.interval.high
    helped = line(table, "qwen · in context: repair notes")
    assert helped.difference.share == pytest.approx(2 / 32), "on the task that both were asked"
    assert helped.cells[0] is None


def test_a_rule_decides_what_a_success_is(tmp_path):
    other = write_arm(tmp_path / "other", "m", "", {GEMM: [8, 8]}, executed=False)
    sets = choose_sets(["same-problems"], load_sets())
    (paper,), (work,) = compare([other], sets, "paper"), compare([other], sets, "work")
    assert line(paper, "m").all.rate.successes == line(work, "m").all.rate.successes == 0
    assert [one.name for one in work.lines] == ["m"], "published numbers are by the paper's rule"


def test_published_numbers_stand_beside_and_the_note_on_s4_with_them(runs):
    (table,) = compare(runs, choose_sets(["same-problems"], load_sets()))
    assert line(table, "s1, Table 8").cells == (13.5, 19.8, 3.1, 4.2, 4.2)
    assert line(table, "s4, Table 8").cells == (10.4, 4.2, 2.1, 1.0, 0.0)
    assert line(table, "repair notes and fixed kernel, Table 4").cells == (None, 29.2, 27.1, 18.8, 33.3)
    assert S4_NOTE in table.notes
    assert not [one for one in compare(runs, {"d64": load_sets()["same-problems"]})[0].lines if "D64" in one.name]


def test_the_note_on_s4_is_counted_where_the_original_is_imported(original, runs, tmp_path):
    imported = tmp_path / "original"
    write_imported(original, imported)
    tables = compare([*runs, imported])
    same = tables[0]
    counted = "Over all five prompt tags s1, s4 and s5 solve all five problems; over the three of Table 8 s1 and s5 do."
    assert counted in same.notes
    tuned = line(same, "Qwen3.6-27B-s4 (original)")
    assert tuned.base == "Qwen3.6-27B · with guidance (original)"
    assert all(cell.rate.successes > 0 and cell.rate.total == 160 for cell in tuned.cells)
    shown = line(same, "Qwen3.6-27B + retrieved repair notes and fixed kernel (original)")
    assert [cell.rate.successes for cell in shown.cells[1:]] == [28, 26, 20, 33]
    assert shown.base == "Qwen3.6-27B (original)"
    assert [table.name for table in tables] == ["same-problems", "d64", "d96", "other-architecture"]
    held_out = line(tables[2], "Qwen3.6-27B-s1 (original, other shapes)")
    assert [cell.rate.successes for cell in held_out.cells] == [8, 11, 0, 0]


def test_which_recipes_solve_all_five():
    def solved(recipe: str, operator: str, variant: str) -> list[Turn]:
        task = f"PTXBench-{operator}-H100"
        made = trajectory("x" * 8, task=task, variant=variant)
        right = made[0].model_copy(update={"correct": True, "target_paper": True})
        named = {"model": f"Qwen3.6-27B-{recipe}", "study": FINE_TUNED}
        return [turn.model_copy(update=named) for turn in (right, *made[1:])]

    turns = [t for operator in published.OPERATORS for t in solved("s4", operator, "5")]
    turns += [t for operator in published.OPERATORS[1:] for t in solved("s2", operator, "1")]
    assert solve_all(turns) == ["s4"]
    assert solve_all(turns, published.FINE_TUNED_VARIANTS) == []
    assert solve_all([t.model_copy(update={"target_paper": False}) for t in turns]) == []


def test_the_interval_of_a_difference(tmp_path):
    few = trajectory("x" * 8, trajectory="0")
    assert math.isnan(difference_interval(few, few).low), "one trajectory has no spread"


def test_a_difference_has_the_spread_of_both_sides(runs):
    from baselines.fixit.compare import read_compared

    found = read_compared(runs)
    tuned = [turn for turn in found.own if turn.run == "s1"]
    base = [turn for turn in found.own if turn.run == "base"]
    interval = difference_interval(tuned, base)
    share = turn_correctness(tuned).share - turn_correctness(base).share
    assert interval.low < share < interval.high
    assert difference_interval(tuned, base) == interval, "the same turns give the same interval"
    opposite = difference_interval(base, tuned)
    assert (opposite.low, opposite.high) == pytest.approx((-interval.high, -interval.low), abs=0.02)
    same = difference_interval(tuned, tuned)
    assert same.low <= 0 <= same.high


def test_base_arms_are_found_by_name():
    def own(run: str, model: str, condition: str = "") -> list[Turn]:
        changes = {"run": run, "model": model, "condition": condition}
        return [turn.model_copy(update=changes) for turn in trajectory("x" * 8)]

    turns = [*own("a", "qwen-8b"), *own("b", "qwen-8b-instruct"), *own("c", "qwen-8b-instruct-s1", "s1")]
    turns += own("d", "gemma", "s1")
    arms = {arm.name: arm.base for arm in arms_of(turns, {"a", "b"})}
    assert arms == {
        "qwen-8b": "",
        "qwen-8b-instruct": "",
        "qwen-8b-instruct-s1 · s1": "qwen-8b-instruct",
        "gemma · s1": "",
    }
    (alone,) = [arm.base for arm in arms_of([*own("a", "qwen-8b"), *own("d", "gemma", "s1")], {"a"}) if arm.base]
    assert alone == "qwen-8b", "there is no other"
    assert adaptation_table([], [GEMM], "work").lines == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a]\nclaim = 'x'\nenvs = ['PTXBench-GEM-H100']", "Did you mean"),
        ("[a]\nenvs = []", "claim"),
        ("[a]\nclaim = 'x'\nenvs = []\nmore = 1", "more"),
        ("[a", "is not TOML"),
    ],
)
def test_a_wrong_file_of_sets_is_a_sentence(tmp_path, text, complaint):
    (tmp_path / "sets.toml").write_text(text)
    with pytest.raises(MisuseError, match=complaint):
        load_sets(tmp_path / "sets.toml")
    with pytest.raises(MisuseError, match="cannot be read"):
        load_sets(tmp_path / "none.toml")
    with pytest.raises(MisuseError, match="Did you mean 'same-problems'"):
        choose_sets(["same-problem"], load_sets())


def test_what_cannot_be_compared_is_a_sentence(runs):
    with pytest.raises(MisuseError, match="No turn of what was given belongs to a task of d96"):
        compare(runs, choose_sets(["d96"], load_sets()))
    with pytest.raises(MisuseError, match="given twice"):
        compare([runs[0], runs[0]])


def test_the_command_prints_markdown_and_json(runs, tmp_path):
    command = CliRunner()
    printed = command.invoke(app, ["compare", *map(str, runs)])
    assert printed.exit_code == 0, printed.output
    rows = [row for row in printed.stdout.splitlines() if row.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert rows[1].startswith("| --- |")
    assert "| qwen-s1 · s1 | 50.0 [40.6, 59.4] (16/32), peak 0.500 |" in printed.stdout
    assert S4_NOTE in printed.stdout
    found = json.loads(command.invoke(app, ["compare", "--json", *map(str, runs)]).stdout)
    assert found[0]["lines"][0]["cells"][0]["rate"]["successes"] == 1
    written = command.invoke(app, ["compare", *map(str, runs), "--out", str(tmp_path / "t.md")])
    assert written.exit_code == 0
    assert (tmp_path / "t.md").read_text() == printed.stdout
    assert "--env PTXBench-GQAForward-H100" in command.invoke(app, ["sets"]).stdout
    assert json.loads(command.invoke(app, ["sets", "--json"]).stdout)["d96"]["envs"]
    assert isinstance(command.invoke(app, ["compare", "--rule", "any", str(runs[0])]).exception, MisuseError)


def test_a_bar_in_a_name_breaks_no_table(tmp_path):
    run = write_arm(tmp_path / "r", "a|b\nc", "", {GEMM: [1, 1]})
    table = as_markdown(compare([run], choose_sets(["same-problems"], load_sets())))
    assert "| a\\|b c |" in table


def test_the_report_shows_the_comparison_where_runs_carry_an_adaptation(runs, original, tmp_path):
    imported = tmp_path / "original"
    write_imported(original, imported)
    page = write_report([*runs, imported], tmp_path / "out").index.read_text(encoding="utf-8")
    assert page.count("<h3>Adaptation against in-context help</h3>") == 1
    section = page.partition("Adaptation against in-context help")[2].partition("<h3>")[0]
    for name in ("qwen-s1 · s1", "qwen · in context: repair notes", "Qwen3.6-27B-s6 (original)", "s4, Table 8"):
        assert f"<th>{name}</th>" in section
    assert "as published" not in section
    assert "from qwen<" in section
    plain = write_report(runs[:1], tmp_path / "plain").index.read_text(encoding="utf-8")
    assert "Adaptation against" not in plain


def test_two_runs_of_one_arm_are_told_apart_in_the_report(runs, tmp_path):
    again = write_arm(tmp_path / "again", "qwen-s1", "s1", {GEMM: [1, 1]})
    page = write_report([*runs, again], tmp_path / "out").index.read_text(encoding="utf-8")
    assert "<th>qwen-s1 · s1 s1</th>" in page, "the run's name stands behind the arm's"
    assert "<th>qwen-s1 · s1 again</th>" in page


def test_names_that_would_run_are_shown_as_text(tmp_path):
    run = write_arm(tmp_path / "r", "<script>x</script>", "<b>s1</b>", {GEMM: [1, 1]})
    page = write_report([run], tmp_path / "out").index.read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "<b>s1" not in page
