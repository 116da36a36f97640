"""The kernels of the corpus and the wrappers of the knowledge pack compute the same on a Hopper GPU."""

import json
import subprocess
import sys

import pytest

from tests.hardware import launches

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """How far off each launch was, by name; a fault ends the run, and the launches after it are missing."""
    results = tmp_path_factory.mktemp("hardware") / "results.json"
    subprocess.run([sys.executable, "-m", "tests.hardware", "--launch-all", str(results)], check=False)
    return {name: done["error"] for name, done in json.loads(results.read_text()).items()}


@pytest.mark.parametrize("name", [launch.name for launch in launches()])
def test_a_kernel_computes_on_a_gpu_what_it_does_on_the_simulator(name: str, errors: dict[str, float]) -> None:
    assert errors[name] <= 1
