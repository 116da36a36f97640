"""`ptxgym run` and `ptxgym show` as a person uses them."""

import json
import shlex
import signal
import subprocess
import time

import pytest

from ptxgym.runs import read_run, read_turns
from ptxgym.runs.policies import POLICIES, build_policy
from tests.baselines.endpoint import KEY, Fault, Reply, error, serve
from tests.runs.doubles import ID, command, ptxgym, surroundings


@pytest.fixture
def kernels(tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "v1.cu").write_text("this is not C++\n")
    (folder / "v2.cu").write_text("nor is this\n")
    return folder


def replay(folder, kernels, *more):
    return ptxgym(
        *("run", "--env", ID, "--policy", "replay", "--kernels", kernels, "--device", "none", "--out", folder), *more
    )


def test_run_and_show(tmp_path, kernels):
    run = tmp_path / "run"
    result = replay(run, kernels, "--trajectories", 2)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert f"{ID} base 0 turn 1: compile_error" in result.stderr
    assert "2/2 trajectories" in result.stderr

    listed = ptxgym("show", run)
    assert listed.returncode == 0
    assert listed.stdout.count("✗✗") == 2
    assert "policy_done" in listed.stdout

    one = ptxgym("show", run, 1)
    assert "turn 1 · compile_error" in one.stdout
    assert "expected a declaration" in one.stdout
    assert "ended: policy_done" in one.stdout
    assert "this is not C++" in ptxgym("show", run, 1, "--turn", 1).stdout
    assert "Write one CUDA C++17 source" in ptxgym("show", run, 1, "--whole").stdout
    assert ptxgym("show", run, 1, "--source").stdout == "nor is this\n\n"
    rows = [json.loads(line) for line in ptxgym("show", run, 2, "--json").stdout.splitlines()]
    assert [(row["trajectory"], row["turn"], row["stop"]) for row in rows] == [(1, 1, ""), (1, 2, "policy_done")]
    assert len(ptxgym("show", run, "--json").stdout.splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--env", "PTXBench-GEM-H100", "--policy", "oracle"), "Did you mean 'PTXBench-GEMM-H100'"),
        (("--env", ID, "--policy", "oracel"), "Did you mean 'oracle'"),
        (("--env", ID, "--policy", "json:nothing"), "no 'nothing'"),
        (("--env", ID, "--policy", "no.such:policy"), "cannot be loaded"),
        (("--env", ID, "--policy", "oracle", "--model", "x"), "takes no --model"),
        (("--env", ID, "--policy", "replay"), "needs --kernels"),
        (("--env", ID, "--policy", "replay", "--kernels", "/nowhere"), "no .cu file"),
        (("--env", ID), "needs --model"),
        (("--env", ID, "--model", "x"), "There is no endpoint"),
        (("--env", ID, "--model", "x", "--base-url", "http://localhost:1", "--api", "telnet"), "chat, responses"),
        (("--env", ID, "--policy", "oracle", "--shapes", "few"), "--shapes"),
        (("--env", ID, "--policy", "oracle", "--knowledge", "/nowhere"), "cannot be read"),
        (("--resume",), "There is no run"),
    ],
)
def test_misuse_is_a_sentence_and_exit_code_2(tmp_path, arguments, complaint):
    result = ptxgym("run", "--out", tmp_path / "run", *arguments)
    assert result.returncode == 2
    assert complaint in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_show_of_nothing_is_a_sentence(tmp_path, kernels):
    assert "There is no run" in ptxgym("show", tmp_path).stderr
    replay(tmp_path / "run", kernels)
    assert "there is no number 9" in ptxgym("show", tmp_path / "run", 9).stderr
    for number in (0, 9):
        assert f"has no turn {number}" in ptxgym("show", tmp_path / "run", 1, "--turn", number).stderr


def test_a_second_run_in_a_folder_is_refused_and_resuming_changes_no_settings(tmp_path, kernels):
    run = tmp_path / "run"
    assert replay(run, kernels).returncode == 0
    assert "holds a run" in replay(run, kernels).stderr
    for option, value in (
        ("--policy", "oracle"),
        ("--turns", 3),
        ("--device", "cuda"),
        ("--kernels", tmp_path),
        ("--knowledge", "none"),
    ):
        other = ptxgym("run", "--out", run, "--resume", option, value)
        assert (other.returncode, "a resumed run keeps its settings" in " ".join(other.stderr.split())) == (2, True)
    before = (run / "turns.jsonl").read_bytes()
    assert replay(run, kernels, "--resume", "--turns", 8, "--concurrency", 1).returncode == 0
    assert (run / "turns.jsonl").read_bytes() == before


def test_a_wrong_key_is_explained_recorded_nowhere_and_mended_by_resuming(tmp_path):
    run = tmp_path / "run"
    with serve(lambda request: Reply("nothing")) as endpoint:
        common = ("--env", ID, "--model", "x", "--base-url", endpoint.base_url, "--device", "none", "--turns", 2)
        result = ptxgym("run", *common, "--out", run, "--trajectories", 5, OPENAI_API_KEY="wrong-secret")
        assert result.returncode == 3
        assert "refuses the key" in result.stderr
        assert "--resume" in result.stderr
        assert "Traceback" not in result.stderr
        result = ptxgym("run", "--out", run, "--resume", OPENAI_API_KEY=KEY)
        assert result.returncode == 0, result.stderr
    assert len(list(read_turns(run))) == 10
    written = b"".join(path.read_bytes() for path in run.iterdir())
    assert b"wrong-secret" not in written
    assert KEY.encode() not in written


def test_a_storm_is_reported_as_it_comes_and_weathered(tmp_path):
    def script(request):
        return error(503, "busy") if request.number % 2 else Reply("nothing")

    models = tmp_path / "models.toml"
    models.write_text("[x]\nfirst_wait = 0.01\n")
    with serve(script) as endpoint:
        common = ("--env", ID, "--model", "x", "--models", models, "--base-url", endpoint.base_url, "--device", "none")
        result = ptxgym("run", *common, "--out", tmp_path / "run", "--turns", 2)
    assert result.returncode == 0
    assert result.stderr.count("attempt 2 in") == 2


def test_a_model_that_does_not_exist_is_explained(tmp_path):
    with serve([error(404, "The model `x` does not exist.")]) as endpoint:
        common = ("--env", ID, "--model", "x", "--base-url", endpoint.base_url, "--device", "none")
        result = ptxgym("run", *common, "--out", tmp_path / "run")
    assert result.returncode == 3
    assert "knows no model 'x'" in result.stderr


def test_a_full_disk_is_a_sentence_and_the_run_goes_on_when_there_is_room(tmp_path):
    run = tmp_path / "run"
    with serve(lambda request: Reply("nothing " * 500)) as endpoint:
        common = ("--env", ID, "--model", "x", "--base-url", endpoint.base_url, "--device", "none", "--turns", 5)
        common += ("--knowledge", "none")
        words = shlex.join(command("run", *common, "--out", run))
        small = ["bash", "-c", f"ulimit -f 16; exec {words}"]  # a file of more than 16 KiB cannot be written
        result = subprocess.run(small, capture_output=True, text=True, env=surroundings(), timeout=60, check=False)
        assert result.returncode == 3
        assert "turns.jsonl cannot be written: File too large. Every turn recorded before is safe" in result.stderr
        assert "Traceback" not in result.stderr
        before = (run / "turns.jsonl").read_bytes()
        assert 1 <= before.count(b"\n") < 5
        assert before.endswith(b"\n")
        result = ptxgym("run", "--out", run, "--resume")
        assert result.returncode == 0, result.stderr
    assert (run / "turns.jsonl").read_bytes().startswith(before)
    assert [turn.turn for turn in read_turns(run)] == [1, 2, 3, 4, 5]


def test_control_c_leaves_a_run_that_can_go_on(tmp_path):
    def script(request):
        return Reply("nothing") if request.number <= 3 else Fault(pause=30)

    run = tmp_path / "run"
    with serve(script) as endpoint:
        common = ("--env", ID, "--model", "x", "--base-url", endpoint.base_url, "--device", "none")
        process = subprocess.Popen(
            command("run", *common, "--out", run), stderr=subprocess.PIPE, text=True, env=surroundings()
        )
        try:
            while len(endpoint.requests) < 4 and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "--resume" in said
    assert "Traceback" not in said
    assert [turn.turn for turn in read_turns(run)] == [1, 2, 3]


def test_what_a_run_was_asked_for_is_on_record(tmp_path, kernels):
    run = tmp_path / "run"
    replay(run, kernels, "--seed", 5, "--reward", "binary", "--target-speedup", "1.5", "--turns", 1)
    record = read_run(run)
    assert (record.policy, record.seed, record.max_turns) == ("replay", 5, 1)
    assert record.env_settings["reward"] == "binary"
    assert record.env_settings["target_speedup"] == 1.5
    assert record.policy_options == {"kernels": str(kernels)}


def test_every_named_policy_can_be_found(kernels):
    for name in POLICIES:
        endpoint = {"model": "x", "base_url": "http://localhost:1"}
        options = {
            "replay": {"kernels": kernels},
            "mini-ptx-agent": endpoint,
            "in-context": {**endpoint, "shown": "guidance"},
        }
        assert build_policy(name, options.get(name, {})).settings
