"""The files of the adversarial suite: what each says of itself, and how it is judged without a GPU.

An attack begins with two lines::

    // attack: FAMILY: what it tries
    // caught by: simulator STAGE REASON; gpu STAGE REASON

The second may leave out a device that cannot show it (``// caught by: gpu only: STAGE REASON``), or be
``// not caught: …`` with the evidence that ought to catch it: a test then expects the failure. An honest look-alike
begins with ``// honest: why it looks odd`` and may have ``// expect: STATUS``. ``// with: FILE`` puts another file
before it, up to that file's own ``run``.

An attack that *reaches* for something computes honestly if it got it and leaves C alone otherwise, so that ``passed``
always means a hole.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ptxgym.devices.process import CandidateProcess
from ptxgym.devices.simulator.device import SimulatorDevice
from ptxgym.devices.simulator.runtime import session
from ptxgym.evaluation import Evaluation, EvaluationOptions, Evaluator
from ptxgym.tasks import Task, get_task
from ptxgym.toolchain import compiler
from ptxgym.toolchain.process import Limits

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
ATTACKS = sorted((FOLDER / "attacks").glob("*.cu"))
HONEST = sorted((FOLDER / "honest").glob("*.cu"))
REFUSES_WORKLOAD = "refuses_shapes"
"""The honest file that cannot pass on a GPU, where the workload is run."""

_PROBES = ({"M": 256, "N": 256, "K": 128}, {"M": 128, "N": 256, "K": 192})
_RUN = 'extern "C" cudaError_t run('
_EVIDENCE = re.compile(r"(simulator|gpu) (\w+) (\w+)")

RUN_SECONDS, HOST_SECONDS, SLACK_SECONDS, LOAD_SECONDS, COMPILE_SECONDS = 6.0, 4.0, 4.0, 5.0, 6.0
"""Instead of the judge's, so that what never ends is stopped sooner. Only compile bombs get the last."""

Evidence = tuple[str, str]
"""(stage, reason)"""


@dataclasses.dataclass(frozen=True)
class Attack:
    """What an attack's file says."""

    path: Path
    family: str
    idea: str
    caught: bool
    simulator: Evidence | None
    gpu: Evidence | None

    @classmethod
    def read(cls, path: Path) -> Attack:
        """Parse the first two lines."""
        first, second, *_ = path.read_text(encoding="utf-8").splitlines()
        kind, family, idea = first.removeprefix("// ").split(": ", 2)
        assert kind == "attack", f"{path}: {first}"
        verdict, said = second.removeprefix("// ").split(": ", 1)
        assert verdict in ("caught by", "not caught"), f"{path}: {second}"
        found = {where: (stage, reason) for where, stage, reason in _EVIDENCE.findall(said.replace(" only:", ""))}
        return cls(path, family, idea, verdict == "caught by", found.get("simulator"), found.get("gpu"))


def source(path: Path) -> str:
    """A file's text with what it builds on."""
    text = path.read_text(encoding="utf-8")
    name = _said(text, "with")
    if not name:
        return text
    return source(FOLDER / name if (FOLDER / name).exists() else ROOT / name).partition(f"\n{_RUN}")[0] + "\n" + text


def expected_status(path: Path) -> str:
    """What an honest file is judged."""
    return _said(path.read_text(encoding="utf-8"), "expect") or "passed"


def task() -> Task:
    """GEMM on Hopper, on shapes that take the simulator no time."""
    return dataclasses.replace(get_task("PTXBench-GEMM-H100"), probes=_PROBES)


def judge(path: Path) -> Evaluation:
    """Judge a file on the simulator."""
    evaluator = Evaluator(task(), EvaluationOptions(device="simulator", cache=False))
    evaluator.__dict__["device"] = SimulatorDevice(evaluator.task.architecture, RUN_SECONDS)
    _short.compile = "simulator compile timeout" in path.read_text(encoding="utf-8")
    return evaluator.evaluate(source(path))


@contextmanager
def impatience(folder: Path) -> Iterator[None]:
    """Shorter limits, and a folder of our own for the judge's files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "_HOST_SECONDS", HOST_SECONDS)
        patch.setattr(session, "_SLACK_SECONDS", SLACK_SECONDS)
        patch.setattr(CandidateProcess, "load", functools.partialmethod(CandidateProcess.load, timeout=LOAD_SECONDS))
        patch.setattr(compiler, "Limits", _limits)
        patch.setattr(tempfile, "tempdir", str(folder))
        yield


class _Short(threading.local):
    compile = False


_short = _Short()


def _limits() -> Limits:
    return Limits(seconds=COMPILE_SECONDS) if _short.compile else Limits()


def _said(text: str, what: str) -> str:
    found = re.search(rf"^// {what}: (.+)$", text, re.MULTILINE)
    return found[1] if found else ""
