"""The original's table, where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxgym.metrics import Turn
from ptxgym.ptxbench_import import read_ptxbench

TABLE = Path(__file__).parents[3] / "shared" / "data" / "ptxbench_turns.csv"


@pytest.fixture(scope="session")
def original() -> list[Turn]:
    """Every turn of the original's table."""
    if not TABLE.exists():
        pytest.skip("the original's per-turn table is no part of this project and is not here")
    return read_ptxbench(TABLE)
