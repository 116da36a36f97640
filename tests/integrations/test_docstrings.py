"""The examples in the adaptors' docstrings."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["extras", "trl", "verl", "skyrl"])
def test_examples_in_docstrings_run(name):
    if name == "skyrl":
        pytest.importorskip("skyrl_gym", reason="skyrl-gym is not installed: pip install 'ptxgym[skyrl]'")
    result = doctest.testmod(importlib.import_module(f"ptxgym.integrations.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
