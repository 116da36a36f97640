"""The data set of tasks."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from ptxgym.errors import MisuseError
from ptxgym.integrations.dataset import make_rows, read_rows, split_of, write_rows
from ptxgym.integrations.episode import Episode, EpisodeSettings
from ptxgym.tasks import TASKS


@pytest.fixture(scope="module")
def rows():
    return make_rows()


def test_every_task_is_there_in_both_phases(rows):
    assert {(row["task_id"], row["phase"]) for row in rows} == {(t, p) for t in TASKS for p in ("probes", "workload")}
    assert len({row["id"] for row in rows}) == len(rows) == 60


def test_the_order_is_gemm_forward_backward_and_probe_shapes_first(rows):
    assert [row["difficulty"] for row in rows] == list(range(60))
    families = [row["family"] for row in rows]
    assert families == sorted(families, key=("gemm", "forward", "backward").index)
    for family in ("gemm", "forward", "backward"):
        phases = [row["phase"] for row in rows if row["family"] == family]
        assert phases == sorted(phases)  # probes, then workload
    assert rows[0]["id"] == "PTXBench-GEMM-H100/probes/parameters/base"


def test_no_operator_variant_is_in_two_splits(rows):
    operators = {}
    for row in rows:
        operators.setdefault(row["split"], set()).add(TASKS[row["task_id"]].operator.name)
    assert operators.keys() == {"train", "validation", "test"}
    assert len(set.union(*operators.values())) == sum(map(len, operators.values()))
    paper = [task for task in TASKS.values() if task.operator.name.count("-") == 0 and "GQA" not in task.operator.name]
    assert len(paper) == 10
    assert all(split_of(task) == "train" for task in paper)


def test_a_row_has_what_each_trainer_looks_for(rows):
    for row in rows:
        system, user = row["prompt"]
        assert (system["role"], user["role"]) == ("system", "user")
        assert row["reward_model"]["ground_truth"] == row["extra_info"]["task_id"] == row["task_id"]
        assert row["extra_info"]["index"] == row["difficulty"]
        assert row["env_class"] == row["data_source"] == "ptxgym"
        assert TASKS[row["task_id"]].operator.signature() in user["content"]


def test_the_prompt_of_a_row_is_that_of_its_episode():
    (row,) = make_rows(["PTXBench-GEMM-H100"], phases=["probes"], level="templates", variants=["overlap"], max_turns=3)
    settings = EpisodeSettings(device="none").for_row(row)
    assert Episode(settings).prompt == row["prompt"][1]["content"]
    assert "after 3 submissions" in row["prompt"][1]["content"]


def test_rows_for_the_simulator_promise_no_time():
    there, here = (
        make_rows(["PTXBench-GEMM-H100"], phases=["workload"], device=device)[0]["prompt"][1]["content"]
        for device in ("none", "simulator")
    )
    assert "speedup reaches 1.2" in there
    assert "nothing is timed" in here
    settings = {"task": "PTXBench-GEMM-H100", "device": "simulator", "knowledge": "parameters"}
    assert Episode(EpisodeSettings.of(settings)).prompt == here


def test_variants_and_answers_are_chosen():
    rows = make_rows(["PTXBench-GEMM-H100"], phases=["workload"], variants=["all"], answers="tool")
    assert [row["variant"] for row in rows] == ["base", "multicast", "overlap"]
    assert len({row["prompt"][1]["content"] for row in rows}) == 3
    assert all("submit_kernel" in row["prompt"][0]["content"] for row in rows)
    assert "fenced block" in make_rows(["PTXBench-GEMM-H100"])[0]["prompt"][0]["content"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"tasks": ["PTXBench-GEM*X"]}, "No task matches"),
        ({"splits": ["dev"]}, "There is no split 'dev'"),
        ({"phases": ["timed"]}, "There is no phase"),
        ({"variants": ["fast"]}, "prompt variant 'fast'"),
        ({"level": "all"}, "There is no level 'all'; there are none, parameters"),
    ],
)
def test_misuse_is_a_sentence(arguments, complaint):
    with pytest.raises(MisuseError, match=complaint):
        make_rows(**arguments)


def test_a_file_of_lines_holds_the_rows_and_nothing_else_stays_behind(rows, tmp_path):
    write_rows(rows, tmp_path / "new" / "tasks.jsonl")
    assert list(read_rows(tmp_path / "new" / "tasks.jsonl")) == rows
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["tasks.jsonl"]
    with pytest.raises(MisuseError, match=r"\.jsonl or \.parquet"):
        write_rows(rows, tmp_path / "tasks.csv")


def test_a_file_that_cannot_be_finished_leaves_the_old_one(rows, tmp_path):
    path = tmp_path / "tasks.jsonl"
    write_rows(rows[:1], path)
    with pytest.raises(TypeError):
        write_rows([*rows, {"id": object()}], path)
    assert list(read_rows(path)) == rows[:1]
    assert [file.name for file in tmp_path.iterdir()] == ["tasks.jsonl"]


@pytest.mark.skipif(not find_spec("pyarrow"), reason="pyarrow is not installed: pip install 'ptxgym[trl]'")
def test_parquet_holds_the_same_rows(rows, tmp_path):
    import pyarrow.parquet

    write_rows(rows, tmp_path / "tasks.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "tasks.parquet").to_pylist() == rows


def test_the_command_line_exports_what_was_asked_for(tmp_path):
    path = tmp_path / "tasks.jsonl"
    arguments = ["tasks", "export", "--out", str(path), "--env", "PTXBench-MHA*-H100*", "--split", "test"]
    command = [sys.executable, "-m", "ptxgym", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert {row["task_id"].rpartition("-")[2] for row in rows} == {"D96"}
    assert f"{len(rows)} rows ({len(rows)} test)" in result.stdout
    result = subprocess.run([*command, "--phase", "timed"], capture_output=True, text=True, check=False)
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
