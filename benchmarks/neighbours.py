"""Whether a timing feels its neighbours on a Hopper GPU: ``python -m benchmarks.neighbours`` from the repository.

A judge lets others start processes and make contexts while it times. Here gemm.cu is timed alone, then beside eight
threads that do nothing else: first as the judge does it, where contexts are made at any time and ended only while
nobody times, then ending them at any time too, which the judge does not do.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from ptxgym.bench import EXAMPLES
from ptxgym.devices import get_device
from ptxgym.devices.cuda.device import CudaDevice
from ptxgym.devices.cuda.nsight import nsight_command
from ptxgym.devices.cuda.sanitizer import sanitizer_command
from ptxgym.errors import PtxgymError
from ptxgym.evaluation import EvaluationOptions, Evaluator
from ptxgym.evaluation.records import TimingEvidence
from ptxgym.tasks import get_task
from ptxgym.toolchain import compile_source, read_source
from ptxgym.toolchain.scratch import scratch_folder

TASK = "PTXBench-GEMM-H100"
VERDICTS, NEIGHBOURS = 6, 8


@contextmanager
def neighbours(device: CudaDevice, leaving: Callable[[], AbstractContextManager[object]]) -> Iterator[list[int]]:
    """Threads that make contexts as fast as they can; yields how many were made, a number for each."""
    task = get_task(TASK)
    program = compile_source(read_source((EXAMPLES / "gemm.cu").read_text(encoding="utf-8")), task)
    over, made = threading.Event(), [0] * NEIGHBOURS

    def make(number: int) -> None:
        while not over.is_set():
            with scratch_folder() as folder:
                tool = [None, sanitizer_command(folder / "log"), nsight_command(folder / "log", from_start=False)]
                session = device._open(program, task, wrapper=tool[number % 3])
                made[number] += 1
                with leaving():
                    session.close()

    threads = [threading.Thread(target=make, args=(number,)) for number in range(NEIGHBOURS)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        over.set()
        for thread in threads:
            thread.join()


def measure(name: str, evaluator: Evaluator, made: list[int]) -> str:
    """A row of the table."""
    source = (EXAMPLES / "gemm.cu").read_text(encoding="utf-8")
    before = sum(made)
    evaluations = [evaluator.evaluate(source) for _ in range(VERDICTS)]
    contexts = (sum(made) - before) / VERDICTS
    found = [evaluation.stage("timing").evidence for evaluation in evaluations]
    times = [evidence for evidence in found if isinstance(evidence, TimingEvidence)]
    if len(times) < VERDICTS:
        return f"{name}: {[evaluation.status for evaluation in evaluations]}"
    speedups = [evidence.speedup for evidence in times]
    width = statistics.median(evidence.speedup_high - evidence.speedup_low for evidence in times)
    own, library = (
        np.concatenate([[getattr(round_, side) for round_ in evidence.report.rounds] for evidence in times]) * 1e6
        for side in ("candidate", "reference")
    )
    wall = statistics.median(evidence.report.wall_seconds_per_call for evidence in times) * 1e6
    spread = f"{min(speedups):.3f} to {max(speedups):.3f}"
    return _row(name, spread, f"{width:.4f}", _tail(own), _tail(library), f"{wall:.0f}", f"{contexts:.1f}")


def _tail(microseconds: np.ndarray) -> str:
    return " / ".join(f"{value:.0f}" for value in np.percentile(microseconds, [50, 95, 100]))


def _row(*cells: str) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, (30, 14, 8, 18, 18, 5, 8), strict=True))


def main() -> None:
    """Alone, beside contexts being made, beside contexts being made and ended."""
    try:
        device = get_device("cuda", get_task(TASK).architecture)
        assert isinstance(device, CudaDevice)
        options = EvaluationOptions(device="cuda", cache=False, stages=("timing",))
        evaluator = Evaluator(get_task(TASK), options)
        evaluator.evaluate((EXAMPLES / "gemm.cu").read_text(encoding="utf-8"))  # brings up the judge
        print(_row("gemm.cu timed", "speedups", "interval", "µs at 50/95/100 %", "the library's", "wall", "contexts"))
        print(measure("alone", evaluator, [0]), flush=True)
        with neighbours(device, device.sharing) as made:
            print(measure("beside contexts made", evaluator, made), flush=True)
        with neighbours(device, nullcontext) as made:
            print(measure("beside contexts made and ended", evaluator, made), flush=True)
    except PtxgymError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
