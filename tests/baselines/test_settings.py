"""The file of model settings."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import baselines.mini_ptx_agent
from baselines.mini_ptx_agent import SetupError, endpoint_policy, load_settings

PAPER = {"claude-opus-4.8": 128000, "gemini-3.1-pro": 65536, "glm-5.2": 131072, "qwen3.6-27b": 81920}


@pytest.mark.parametrize(("model", "longest"), PAPER.items())
def test_the_papers_models_are_there(model, longest):
    assert load_settings(model).max_tokens == longest


def test_the_papers_decoding():
    decoding = {"temperature": 1.0, "top_p": 0.95, "top_k": 20, "min_p": 0.0, "presence_penalty": 1.5}
    assert load_settings("qwen3.6-27b").request == decoding
    assert load_settings("claude-opus-4.8").request == {"reasoning": {"effort": "xhigh"}}


def test_an_unknown_model_is_asked_with_the_defaults():
    assert load_settings("my/model").name == "my/model"


def test_a_file_of_ones_own(tmp_path):
    file = tmp_path / "models.toml"
    file.write_text('[mine]\nname = "a/b"\napi = "responses"\ncontext = 1000\nprompt_price = 1\n')
    settings = load_settings("mine", file, api=None)
    assert (settings.name, settings.api, settings.context, settings.prompt_price) == ("a/b", "responses", 1000, 1)
    assert load_settings("mine", file, api="chat").api == "chat"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[mine]\nmax_token = 3", "Did you mean 'max_tokens'"),
        ("[mine]\nmax_tokens = '3'", "should be int"),
        ("[mine]\nmax_tokens = true", "should be int"),
        ("[mine]\nmax_tokens = 0", "above 0"),
        ("[mine]\nrequest = 3", "should be a table"),
        ("[mine]\napi = 'telnet'", "chat, responses"),
        ("mine = 3", "outside a table"),
        ("[mine", "not TOML"),
    ],
)
def test_a_slip_in_the_file_is_named(tmp_path, text, complaint):
    file = tmp_path / "models.toml"
    file.write_text(text)
    with pytest.raises(SetupError, match=complaint):
        load_settings("mine", file)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SetupError, match="cannot be read"):
        load_settings("mine", tmp_path / "nothing.toml")


def test_what_is_recorded_of_a_policy_has_no_key():
    policy = endpoint_policy(model="glm-5.2", base_url="http://user:secret@localhost:1/v1")
    policy.model_for(None, 0).client.close()
    assert "secret" not in repr(policy.settings)
    assert policy.settings["endpoint"] == "http://localhost:1/v1"
    assert policy.model == "z-ai/glm-5.2"


def test_the_examples_in_the_docstring_run():
    result = doctest.testmod(baselines.mini_ptx_agent)
    assert result.attempted > 0
    assert result.failed == 0


def test_only_the_package_of_policies_needs_openai():
    program = "import sys, ptxgym, ptxgym.runs.commands; print('openai' in sys.modules, 'torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]


def test_the_policies_import_nothing_of_ptxgym():
    folder = Path(baselines.__file__).parent
    for file in (*(folder / "mini_ptx_agent").rglob("*.py"), folder / "scripted.py"):
        assert not _imports(file), file


def test_what_reads_runs_and_records_does_not_reach_into_devices():
    for file in Path(baselines.__file__).parent.rglob("*.py"):
        assert not [line for line in _imports(file) if "ptxgym.devices" in line], file


def _imports(file: Path) -> list[str]:
    lines = [line.strip() for line in file.read_text().splitlines()]
    return [line for line in lines if line.startswith(("import ptxgym", "from ptxgym"))]
