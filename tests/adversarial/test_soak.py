"""Killed judges and candidates leave nothing behind, and no verdict is wrong: see soak.py."""

import re
import subprocess
import sys

import pytest

from .suite import ROOT


def _soak(*options: str) -> dict[str, int]:
    """The table, by the names of its rows."""
    command = [sys.executable, "-m", "tests.adversarial.soak", *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr[-2000:]
    return {name: int(count) for name, count in re.findall(r"^(\w[\w, ]*?) +(\d+)$", result.stdout, re.MULTILINE)}


def test_a_short_soak_on_the_simulator() -> None:
    table = _soak("--brief", "--judges", "1")
    assert table["evaluations"] == 5 + table["disturbed, and made again"]
    assert table["judges killed"] == 1


@pytest.mark.gpu
@pytest.mark.timeout(1800)
def test_a_soak_on_a_gpu() -> None:
    table = _soak("--device", "cuda", "--evaluations", "300", "--seed", "7")
    assert table["judges killed"] > 5
    assert table["candidates killed"] > 10
