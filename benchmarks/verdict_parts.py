"""Where the time of a verdict goes on a Hopper GPU: ``python -m benchmarks.verdict_parts`` from the repository's root.

The GPU's lock and the parts of a session and of a timing are watched by a clock while gemm.cu is judged: one verdict
after the other, correctness and timing with four in flight, and whole verdicts with eight. Parts contain each other
(what holds the lock also fills buffers), so their seconds do not add up to a verdict's.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ptxgym.bench import EXAMPLES
from ptxgym.devices.cuda.kernel_timer import KernelTimer
from ptxgym.devices.cuda.lock import GpuLock
from ptxgym.devices.cuda.session import CudaSession
from ptxgym.devices.cuda.timing import Rounds
from ptxgym.errors import PtxgymError
from ptxgym.evaluation import STAGES, EvaluationOptions, Evaluator, StageName
from ptxgym.tasks import get_task

LOCK = ("shared", "exclusive", "counting")
PARTS: dict[type, tuple[str, ...]] = {
    CudaSession: ("__init__", "lend", "load", "fill", "end_process"),
    Rounds: ("_preheat", "_prepare", "_time_candidate", "_call_library", "_look", "_rounds", "_wall"),
    KernelTimer: ("records",),
}
LOADS: tuple[tuple[int, int, tuple[StageName, ...]], ...] = (
    (1, 4, STAGES),
    (4, 8, ("correctness", "timing")),
    (8, 16, STAGES),
)
"""Verdicts in flight, verdicts in all, and their stages."""

seconds: defaultdict[str, list[float]] = defaultdict(list)


def watch(owner: type, name: str) -> None:
    """Have every call of a method write down how long it took."""
    method: Callable[..., Any] = getattr(owner, name)

    def watched(*arguments: Any, **named: Any) -> Any:
        start = time.monotonic()
        try:
            return method(*arguments, **named)
        finally:
            seconds[f"{owner.__name__}.{name}"].append(time.monotonic() - start)

    setattr(owner, name, watched)


def watch_lock(name: str) -> None:
    """Have every stay write down how long it was waited for, and how long it was."""
    method: Callable[..., Any] = getattr(GpuLock, name)

    @contextlib.contextmanager
    def watched(lock: GpuLock) -> Iterator[Any]:
        start = time.monotonic()
        with method(lock) as stay:
            entered = time.monotonic()
            seconds[f"{name}, waited for"].append(entered - start)
            try:
                yield stay
            finally:
                seconds[f"{name}, held"].append(time.monotonic() - entered)

    setattr(GpuLock, name, watched)


def judge(in_flight: int, count: int, stages: tuple[StageName, ...]) -> list[str]:
    """Judge so many verdicts; returns the table."""
    source = (EXAMPLES / "gemm.cu").read_text(encoding="utf-8")
    options = EvaluationOptions(device="cuda", cache=False, stages=stages)
    evaluator = Evaluator(get_task("PTXBench-GEMM-H100"), options)
    evaluator.evaluate(source)  # compiles, and brings up the judge
    seconds.clear()
    start = time.monotonic()
    with ThreadPoolExecutor(in_flight) as pool:
        list(pool.map(evaluator.evaluate, [source] * count))
    each = (time.monotonic() - start) / count
    lines = [f"{in_flight} in flight, {len(stages)} stages: {each:.2f} s each, {60 / each:.1f} per minute"]
    for name, found in sorted(seconds.items()):
        lines.append(f"  {name:28}{sum(found) / count:8.3f} s per verdict, {len(found) / count:6.1f} times")
    return lines


def main() -> None:
    """Watch, judge, print."""
    for name in LOCK:
        watch_lock(name)
    for owner, names in PARTS.items():
        for name in names:
            watch(owner, name)
    try:
        for load in LOADS:
            print("\n".join(judge(*load)), flush=True)
    except PtxgymError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
