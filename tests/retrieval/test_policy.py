"""What is shown, when, and what the record says of it."""

import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("bm25s", reason="the extra `retrieval` is not installed")
pytest.importorskip("pyarrow", reason="the extra `retrieval` is not installed")

from baselines.fixit.commands import app
from baselines.mini_ptx_agent import MiniPTXAgent, ModelPolicy, ScriptedModel, SetupError
from baselines.retrieval import InContext, in_context_policy, leakage
from baselines.retrieval.leakage import longest_common, similarity
from baselines.retrieval.policy import with_help
from ptxgym.errors import MisuseError
from ptxgym.runs import read_run
from ptxgym.runs.policies import build_policy
from tests.baselines.endpoint import Reply, serve
from tests.runs.doubles import ID, play, ptxgym, settings

from .doubles import BROKEN, FIXED, NOTES, Talking, kernel, write_repairs


@pytest.fixture
def repairs(tmp_path):
    return write_repairs(tmp_path / "repairs.parquet")


def scripted(*sources: str) -> ModelPolicy:
    return ModelPolicy(lambda env, seed: ScriptedModel([f"```cpp\n{source}```" for source in sources]), "m")


def said(policy, env) -> list[str]:
    """What the policy is told in one episode, prompt first."""
    turns = []
    policy.start(env, seed=0, max_turns=8, messages=(), save=turns.append).run()
    return [message["content"] for turn in turns for message in turn.messages if message["role"] == "user"]


def test_notes_stand_behind_the_feedback_on_a_failure(repairs):
    prompt, feedback = said(with_help(scripted(kernel(BROKEN["wait"])), "notes", repairs), Talking())
    assert prompt == "Write it."
    assert feedback.startswith("No.\nFailures like this one were repaired before.")
    assert NOTES["wait"] in feedback
    assert "```" not in feedback


def test_notes_and_kernel_show_the_nearest_fixed_kernel_and_nothing_of_the_file(repairs):
    _, feedback = said(with_help(scripted(kernel(BROKEN["commit"])), "notes+kernel", repairs), Talking())
    assert f"```cpp\n{kernel(FIXED['commit'])}```" in feedback
    assert kernel(FIXED["wait"]) not in feedback
    assert str(repairs.parent) not in feedback
    assert "parquet" not in feedback


def test_at_most_eight_notes_are_shown(tmp_path):
    metadata = [{"env": "x", "notes": [f"note {name} {n}." for n in range(5)]} for name in BROKEN]
    many = write_repairs(tmp_path / "d.parquet", metadata=metadata)
    _, feedback = said(with_help(scripted(kernel(" ".join(BROKEN.values()))), "notes", many), Talking())
    assert feedback.count("note ") == 8


def test_what_passes_and_what_cannot_be_judged_gets_no_help(repairs):
    policy = with_help(scripted(kernel(BROKEN["wait"] + "PASS")), "notes", repairs)
    assert said(policy, Talking())[1] == "No."
    policy = with_help(scripted(kernel(BROKEN["wait"])), "notes", repairs)
    assert said(policy, Talking(valid=False))[1] == "No."
    policy = with_help(scripted("no kernel"), "notes", repairs)
    assert "Failures" not in said(policy, Talking())[1]


def test_repairs_of_the_problem_itself_can_be_kept_back(tmp_path):
    metadata = [{"env": e} for e in ("PTXBench-GEMM-H100", "PTXBench-MHAForward-H100", "PTXBench-GEMM-H100")]
    mixed = write_repairs(tmp_path / "d.parquet", metadata=metadata)
    source = kernel(BROKEN["fence"])
    _, own = said(with_help(scripted(source), "notes+kernel", mixed), Talking())
    _, others = said(with_help(scripted(source), "notes+kernel", mixed, other_problems=True), Talking())
    assert "mended_fence" in own
    assert "mended_fence" not in others
    assert "mended_wait" in others


def test_guidance_stands_behind_the_prompt_of_attention_alone():
    policy = with_help(scripted(kernel("")), "guidance")
    prompt, feedback = said(policy, Talking("PTXBench-MHAForward-H100"))
    assert prompt.startswith("Write it.\n# Hint")
    assert "Rules of an expert" in prompt
    assert feedback == "No."
    with pytest.raises(SetupError, match="no expert guidance for PTXBench-GEMM-H100"):
        InContext(Talking(), "guidance")


def test_the_record_says_what_was_shown(repairs):
    policy = with_help(scripted(), "notes+kernel", repairs)
    assert policy.model == "m"
    assert policy.settings["adaptation"] == "in context: repair notes and fixed kernel"
    assert policy.settings["repairs"] == str(repairs)
    assert len(policy.settings["repairs_sha256"]) == 64
    assert with_help(scripted(), "guidance").settings["adaptation"] == "in context: expert guidance"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"shown": "everything"}, "none of guidance, notes, notes"),
        ({"shown": "notes"}, "needs repairs"),
        ({"shown": "notes", "repairs": "/nowhere"}, "There is no file /nowhere"),
        ({"shown": "guidance", "other_problems": "perhaps"}, "yes or no"),
    ],
)
def test_settings_that_cannot_be_are_a_sentence(options, complaint):
    with pytest.raises(MisuseError, match=complaint):
        build_policy("in-context", {"model": "m", "base_url": "http://localhost:1/v1", **options})


def test_a_run_of_it_over_an_endpoint_and_what_leaked(tmp_path, repairs):
    """The model fails once, then hands in the kernel that it was shown, and changes nothing but a comment."""
    copied = kernel(FIXED["wait"]).replace("about nothing", "of my own")
    own = kernel(BROKEN["wait"])

    def script(request):
        return Reply(f"```cpp\n{own if request.turn == 1 else copied}```")

    with serve(script) as endpoint:
        policy = in_context_policy(shown="notes+kernel", model="m", repairs=str(repairs), base_url=endpoint.base_url)
        run = tmp_path / "run"
        record = settings(policy, env_settings={"device": "none", "stages": ("source",)}, max_turns=2)
        _, turns = play(run, policy, record)
    assert FIXED["wait"] in turns[0].messages[-1].content
    assert FIXED["wait"] in endpoint.requests[1].messages[-1]["content"]

    report = leakage(run)
    (leak,) = report.leaks
    assert (leak.nearest, leak.same_problem, leak.shown, report.trajectories) == ("wait", True, 1, 1)
    assert leak.answered.common == leak.answered.token_set == 1.0
    assert leak.asked.token_set < 1.0
    assert leak.copied
    assert (report.copied, report.same_problem, report.correct) == (1, 1, 0)
    moved = repairs.rename(tmp_path / "moved.parquet")
    assert leakage(run, moved) == report
    other = write_repairs(tmp_path / "other.parquet", env="PTXBench-MHAForward-H100")
    with pytest.raises(MisuseError, match="is not the data set"):
        leakage(run, other)


def test_the_command_line_takes_its_options_and_a_resumed_run_keeps_them(tmp_path, repairs):
    with serve(lambda request: Reply(f"```cpp\n{kernel(BROKEN['wait'])}```")) as endpoint:
        asked = ("run", "--out", tmp_path / "run", "--policy", "in-context", "--model", "m", "--turns", 2)
        where = ("--env", ID, "--device", "none", "--base-url", endpoint.base_url)
        shown = ("--option", "shown=notes", "--option", f"repairs={repairs}")
        done = ptxgym(*asked, *where, *shown)
        assert done.returncode == 0, done.stderr
    record = read_run(tmp_path / "run")
    assert record.policy_options["shown"] == "notes"
    assert record.policy_settings["adaptation"] == "in context: repair notes"
    assert NOTES["wait"] in endpoint.requests[1].messages[-1]["content"]
    changed = ptxgym("run", "--out", tmp_path / "run", "--resume", "--option", "shown=guidance")
    assert changed.returncode == 2
    assert "has --option shown notes, not guidance" in " ".join(changed.stderr.split())
    unnamed = ptxgym(*asked[:2], tmp_path / "other", *asked[3:], *where, "--option", "notes")
    assert unnamed.returncode == 2
    assert "should be NAME=VALUE" in unnamed.stderr


def test_a_run_that_shows_no_kernel_leaks_nothing(tmp_path):
    policy = with_help(scripted("x"), "guidance")
    record = settings(policy, envs=["PTXBench-MHAForward-H100"])
    play(tmp_path / "run", policy, record)
    with pytest.raises(MisuseError, match="shows no kernels"):
        leakage(tmp_path / "run")


def test_the_leakage_command_tells_it_in_a_table_and_as_json(tmp_path, repairs):
    policy = with_help(scripted(kernel(BROKEN["wait"]), kernel(FIXED["fence"])), "notes+kernel", repairs)
    play(tmp_path / "run", policy, settings(policy, env_settings={"device": "none", "stages": ("source",)}))
    told = CliRunner().invoke(app, ["leakage", str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    assert (
        "A kernel was shown in 1 of 1 trajectories, in 1 one of the same problem. 0 ended with all but" in told.stdout
    )
    (leak,) = json.loads(CliRunner().invoke(app, ["leakage", "--json", str(tmp_path / "run")]).stdout)["leaks"]
    assert leak["nearest"] == "wait"
    assert leak["same_problem"] is True
    assert 0 < leak["answered"]["common"] < 0.9


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [("", "", 0), ("abc", "", 0), ("abcbdab", "bdcaba", 4), ("aaaa", "aa", 2), ("abc", "xyz", 0), ("xabcx", "abc", 3)],
)
def test_the_longest_common_subsequence(first, second, length):
    assert longest_common(first, second) == longest_common(second, first) == length


def test_similarity_is_of_code_and_has_a_direction():
    assert similarity("alpha beta // gamma", "alpha beta").common == 1.0
    assert similarity("alpha beta gamma delta", "beta delta").common == 1.0
    assert similarity("beta delta", "alpha beta gamma delta").common == 0.5
    assert similarity("beta delta", "alpha beta gamma delta").token_set == 0.5
    assert similarity("alpha beta", "").common == similarity("", "").token_set == 0.0


def test_any_policy_over_the_environment_gets_the_help(repairs):
    """The wrapper is Gymnasium's; nothing in it knows MiniPTXAgent."""
    from baselines.retrieval import Index, read_repairs
    from baselines.retrieval.policy import Retriever

    env = InContext(Talking(), "notes", Retriever(Index(read_repairs(repairs).repairs)))
    observation, _ = env.reset()
    assert observation == {"feedback": "Write it.", "turn": 0}
    observation, *_ = env.step(kernel(BROKEN["fence"]))
    assert NOTES["fence"] in observation["feedback"]
    assert observation["turn"] == 1
    assert isinstance(MiniPTXAgent(env, ScriptedModel([])), MiniPTXAgent)
