"""What a machine lacks is told by what is lost with it."""

import pytest

from ptxgym import doctor
from ptxgym.doctor import Finding, examine

TOOLS = ("ncu", "compute-sanitizer", "cupti", "pynvml", "performance counters")


def _found(monkeypatch: pytest.MonkeyPatch, gpu: doctor.Level) -> dict[str, Finding]:
    monkeypatch.setattr(doctor, "_gpu", lambda: Finding("GPU", gpu, "made"))
    monkeypatch.setattr(doctor.shutil, "which", lambda program: None)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda module: None)
    monkeypatch.setattr(doctor, "_counters", lambda: Finding("performance counters", "limited", "No driver is here."))
    return {finding.name: finding for finding in examine()}


def test_without_a_gpu_its_tools_are_not_missed(monkeypatch: pytest.MonkeyPatch):
    found = _found(monkeypatch, "limited")
    ncu = found["Nsight Compute (ncu)"]
    assert ncu.level == "ok"
    assert ncu.detail == "Not found. Needed on a GPU only: the simulator serves the instruction stage here."
    assert "the simulator serves the memory stage" in found["compute-sanitizer"].detail
    assert {found[name].level for name in found if any(tool in name.lower() for tool in TOOLS)} == {"ok"}


def test_on_a_gpu_its_tools_are_missed(monkeypatch: pytest.MonkeyPatch):
    found = _found(monkeypatch, "ok")
    assert found["compute-sanitizer"].level == "limited"
    assert "The memory stage needs it" in found["compute-sanitizer"].detail
    assert "pip install" in found["CUPTI (cupti-python)"].detail
