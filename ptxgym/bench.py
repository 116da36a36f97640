"""ptxgym measured: start-up, cache and compilation anywhere; verdicts per minute and repeatability on a GPU.

Every figure stands beside its goal. Nothing here decides anything: a slow machine prints larger figures.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from ptxgym.devices import get_device
from ptxgym.errors import MisuseError
from ptxgym.evaluation import STAGES, Evaluation, EvaluationOptions, Evaluator, StageName
from ptxgym.runs.bench import harness_figures
from ptxgym.tasks import HOPPER, get_task
from ptxgym.toolchain import Cache, compile_source, read_source

EXAMPLES = Path(__file__).parent.parent / "examples" / "kernels" / "hopper"

T = TypeVar("T")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure."""

    name: str
    value: float
    unit: str
    goal: str
    """In words, e.g. ``≤ 6 s``."""
    reached: bool
    detail: str = ""

    @property
    def text(self) -> str:
        """The figure as people read it."""
        return f"{self.value:.3g} {self.unit}"

    def as_json(self) -> dict[str, object]:
        """The figure as a record."""
        return asdict(self)


def run_benchmarks(only: list[str], say: Say) -> Iterator[Figure]:
    """Run the benchmarks of these names, or all that this machine can run.

    Raises:
        MisuseError: A name is unknown, or the examples are not beside the package (run from a checkout).
    """
    if not EXAMPLES.exists():
        raise MisuseError("The benchmarks need the examples of a checkout: run them from a clone of the repository.")
    known = {**_ANYWHERE, **_ON_A_GPU}
    if unknown := [name for name in only if name not in known]:
        raise MisuseError(f"There is no benchmark {unknown[0]!r}; there are {', '.join(known)}.")
    here = known if get_device("auto", HOPPER).gives_times else _ANYWHERE
    for name in only or here:
        say(name)
        yield from known[name]()


def _at_most(name: str, value: float, unit: str, limit: float, detail: str = "") -> Figure:
    return Figure(name, value, unit, f"≤ {limit:g} {unit}", value <= limit, detail)


def _at_least(name: str, value: float, unit: str, limit: float, detail: str = "") -> Figure:
    return Figure(name, value, unit, f"≥ {limit:g} {unit}", value >= limit, detail)


def _import_time() -> Iterator[Figure]:
    program = (
        "import time; a = time.perf_counter(); import gymnasium; b = time.perf_counter(); import ptxgym; "
        "print(time.perf_counter() - b, b - a)"
    )
    runs = [
        [
            float(x)
            for x in subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split()
        ]
        for _ in range(7)
    ]
    own, gymnasium = (statistics.median(column) for column in zip(*runs, strict=True))
    yield _at_most("import ptxgym after gymnasium", own, "s", 0.15, f"gymnasium itself {gymnasium:.2f} s")


def _compile_time() -> Iterator[Figure]:
    source, task = read_source((EXAMPLES / "gemm.cu").read_text()), get_task("PTXBench-GEMM-H100")
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("PTXGYM_CACHE")
        os.environ["PTXGYM_CACHE"] = folder
        try:
            cold = [_timed(partial(compile_source, source, task, Cache(f"programs-{n}")))[0] for n in range(3)]
            warm = [_timed(lambda: compile_source(source, task, Cache("programs-0")))[0] for _ in range(20)]
        finally:
            del os.environ["PTXGYM_CACHE"]
            if before is not None:
                os.environ["PTXGYM_CACHE"] = before
    yield _at_most("gemm.cu compiled and inspected", statistics.median(cold), "s", 5)
    yield _at_most("identical source from the cache", statistics.median(warm) * 1e3, "ms", 50)


def _verdicts() -> Iterator[Figure]:
    for kernel, task, limit in (
        ("gemm.cu", "PTXBench-GEMM-H100", 6),
        ("mha_backward.cu", "PTXBench-MHABackward-H100", 12),
    ):
        if not (EXAMPLES / kernel).exists():
            continue
        evaluator, source = _evaluator(task), (EXAMPLES / kernel).read_text()
        evaluator.evaluate(source)  # compiles, and brings up the judge
        seconds, evaluations = zip(*(_timed(partial(evaluator.evaluate, source)) for _ in range(3)), strict=True)
        yield _at_most(
            f"full verdict of {kernel}", statistics.median(seconds), "s", limit, _stage_table(evaluations[-1])
        )


def _correctness_and_timing() -> Iterator[Figure]:
    seconds, evaluations = _judge_many(16, 4, ("correctness", "timing"))
    yield _at_least(
        "correctness and timing, 4 in flight", len(evaluations) / seconds, "per second", 1, _outcome(evaluations)
    )


def _first_result() -> Iterator[Figure]:
    task = get_task("PTXBench-GEMM-H100")
    device = get_device("cuda", task.architecture)
    program = compile_source(read_source((EXAMPLES / "gemm.cu").read_text()), task)
    import torch

    generator = torch.Generator(device=device.torch_device)
    inputs = task.operator.make_inputs(task.probes[0], "normal", generator)

    def first() -> None:
        with device.session(program, task) as session:
            session.bind(task.probes[0])
            session.run(inputs)

    first()
    yield _at_most("spawn to first result", statistics.median(_timed(first)[0] for _ in range(7)), "s", 0.4)


def _in_flight() -> Iterator[Figure]:
    seconds, evaluations = _judge_many(24, 8, STAGES)
    yield _at_least(
        "full verdicts, 8 in flight", 60 * len(evaluations) / seconds, "per minute", 20, _outcome(evaluations)
    )


def _judge_many(count: int, in_flight: int, stages: tuple[StageName, ...]) -> tuple[float, list[Evaluation]]:
    """Judge gemm.cu ``count`` times; returns (wall-clock seconds, evaluations)."""
    source = (EXAMPLES / "gemm.cu").read_text()
    evaluators = [_evaluator("PTXBench-GEMM-H100", stages) for _ in range(in_flight)]
    evaluators[0].evaluate(source)
    with ThreadPoolExecutor(in_flight) as pool:
        return _timed(lambda: list(pool.map(lambda n: evaluators[n % in_flight].evaluate(source), range(count))))


def _outcome(evaluations: list[Evaluation]) -> str:
    passed = sum(evaluation.status == "passed" for evaluation in evaluations)
    speedups = [evaluation.speedup for evaluation in evaluations]
    return f"{passed}/{len(evaluations)} passed, speedups {min(speedups):.3f} to {max(speedups):.3f}"


def _repeatability() -> Iterator[Figure]:
    evaluator = _evaluator("PTXBench-GEMM-H100", ("correctness", "timing"))
    source = (EXAMPLES / "gemm.cu").read_text()
    speedups = [evaluator.evaluate(source).speedup for _ in range(10)]
    middle = statistics.median(speedups)
    spread = max(abs(speedup / middle - 1) for speedup in speedups) * 100
    detail = f"ten speedups, {min(speedups):.4f} to {max(speedups):.4f}, median {middle:.4f}"
    yield _at_most("timing repeatability", spread, "%", 1.5, detail)


def _evaluator(task: str, stages: tuple[StageName, ...] = STAGES) -> Evaluator:
    return Evaluator(get_task(task), EvaluationOptions(device="cuda", cache=False, stages=stages))


def _stage_table(evaluation: Evaluation) -> str:
    parts = [f"{s.stage} {s.seconds:.2f}" for s in evaluation.stages if s.status != "skipped" and s.seconds >= 0.01]
    return f"{evaluation.status}; {', '.join(parts)}"


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


_ANYWHERE: dict[str, Callable[[], Iterator[Figure]]] = {
    "import": _import_time,
    "compile": _compile_time,
    "harness": harness_figures,
}
_ON_A_GPU: dict[str, Callable[[], Iterator[Figure]]] = {
    "verdicts": _verdicts,
    "correctness-timing": _correctness_and_timing,
    "first-result": _first_result,
    "in-flight": _in_flight,
    "repeatability": _repeatability,
}
