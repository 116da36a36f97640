"""A judge in a process of its own, which the soak may kill at any time."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Literal

from ptxgym.evaluation import EvaluationOptions, Evaluator, StageName
from ptxgym.tasks import get_task

from .suite import ROOT, impatience, judge, source

Where = Literal["simulator", "cuda"]
Verdict = tuple[str, str, str]
"""(stage, reason, status) of the first failure; empty strings and the status where nothing failed."""

TASK = "PTXBench-GEMM-H100"
_ANSWER_SECONDS = 180.0
_WARM = 5
"""Evaluations of a judge before its memory and descriptors must stay as they are."""
_MORE_BYTES, _MORE_DESCRIPTORS = 256 << 20, 4


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a judge says of a file."""

    verdict: Verdict
    message: str
    """Of the stage that failed or could not tell."""
    seconds: dict[str, float]
    """By stage."""


class Judge:
    """A judge's process.

    Args:
        where: The device.
        folder: For its files.
        gpu: The only one that it sees, as nvidia-smi names it; empty for what this process sees.
    """

    def __init__(self, where: Where, folder: Path, gpu: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, where, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | ({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}),
        )
        self._sizes: list[tuple[int, int]] = []

    def evaluate(self, path: Path, stages: tuple[StageName, ...]) -> Answer | None:
        """What it says of a file; None when it was killed over it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        order = {"path": str(path), "stages": stages}
        watchdog = threading.Timer(_ANSWER_SECONDS, self.process.kill)
        watchdog.start()
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        if not line:
            return None
        reply = json.loads(line)
        self._sizes.append(reply["size"])
        return Answer(tuple(reply["verdict"]), reply["message"], reply["seconds"])

    def grew(self) -> str:
        """How it grew, empty when it did not."""
        warm = self._sizes[_WARM - 1 :]
        if len(warm) < 2:
            return ""
        bytes_, descriptors = (last - first for first, last in zip(warm[0], warm[-1], strict=True))
        if bytes_ <= _MORE_BYTES and descriptors <= _MORE_DESCRIPTORS:
            return ""
        return f"a judge grew by {bytes_ >> 20} MiB and {descriptors} descriptors over {len(warm)} evaluations"

    def close(self) -> None:
        """End it as one that is done."""
        with contextlib.suppress(BrokenPipeError):
            if self.process.stdin:
                self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


def serve(where: Where, folder: Path) -> None:
    """Judge what comes in by line, as a process that may be killed at any time."""
    answers, sys.stdout = sys.stdout, sys.stderr
    with impatience(folder) if where == "simulator" else contextlib.nullcontext():
        tempfile.tempdir = str(folder)
        for line in sys.stdin:
            order = json.loads(line)
            path = Path(order["path"])
            if where == "simulator":
                evaluation = judge(path)
            else:
                evaluation = _evaluator(tuple(order["stages"])).evaluate(source(path))
            failed = evaluation.failed_stage
            verdict = (failed.stage, failed.reason) if failed else ("", "")
            unlike = failed or next((stage for stage in evaluation.stages if stage.status == "unknown"), None)
            answer = {
                "verdict": [*verdict, evaluation.status],
                "message": unlike.message if unlike else "",
                "seconds": {stage.stage: round(stage.seconds, 2) for stage in evaluation.stages if stage.seconds},
                "size": _size(),
            }
            print(json.dumps(answer), file=answers, flush=True)


@functools.cache
def _evaluator(stages: tuple[StageName, ...]) -> Evaluator:
    return Evaluator(get_task(TASK), EvaluationOptions(device="cuda", cache=False, stages=stages))


def _size() -> tuple[int, int]:
    """Bytes of memory, and open descriptors."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(os.listdir("/proc/self/fd"))


if __name__ == "__main__":
    serve("cuda" if sys.argv[1] == "cuda" else "simulator", Path(sys.argv[2]))
