"""What is imported when, and what a missing framework says."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

FRAMEWORKS = ("trl", "verl", "skyrl_gym", "openenv", "verifiers", "transformers", "datasets", "ray", "torch")
OURS = {
    "skyrl": ("skyrl_gym", "skyrl"),
    "openenv": ("openenv", "openenv"),
    "verifiers": ("verifiers", "verifiers"),
    "verl_agent_loop": ("verl", "verl"),
}


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_none_of_the_frameworks_is_imported_before_it_is_asked_for():
    result = python(f"""
import sys, ptxgym, ptxgym.integrations, ptxgym.integrations.commands
print([name for name in {FRAMEWORKS} if name in sys.modules])
import ptxgym.integrations.trl, ptxgym.integrations.verl, ptxgym.integrations.dataset
print([name for name in {FRAMEWORKS} if name in sys.modules])
""")
    assert result.stdout.splitlines() == ["[]", "[]"], result.stderr


@pytest.mark.parametrize("module", OURS)
def test_a_missing_framework_is_a_sentence_with_its_extra(module):
    framework, extra = OURS[module]
    result = python(f"""
import sys
sys.modules[{framework!r}] = None
try:
    import ptxgym.integrations.{module}
except ImportError as error:
    print(error)
""")
    assert f"pip install 'ptxgym[{extra}]'" in result.stdout, result.stderr
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert extra in project["project"]["optional-dependencies"]
