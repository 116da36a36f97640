"""The example, as a person runs it."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_grpo.py"
pytestmark = pytest.mark.skipif(not find_spec("trl"), reason="TRL is not installed: pip install 'ptxgym[trl]'")


def train(*arguments):
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    return subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **quiet},
        timeout=200,
        check=False,
    )


def test_the_smoke_run_takes_a_real_step_on_real_verdicts(tmp_path):
    result = train("--smoke", "--device", "simulator", "--lora", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr[-3000:]
    seen = re.search(
        r"reward ([\d.]+) ± [\d.]+, gradient ([\d.e-]+), tool calls per trajectory ([\d.]+)", result.stdout
    )
    # One trajectory compiled (0.05) and the other did not: the group differs, so there is something to learn.
    assert [float(number) for number in (seen[1], seen[3])] == [0.025, 1.5]
    assert float(seen[2]) > 0
    assert (tmp_path / "adapter_model.safetensors").exists()
