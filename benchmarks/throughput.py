"""Evaluations per minute through a pool against one after the other: ``python -m benchmarks.throughput``.

Every kernel is a variant of ``examples/kernels/hopper/gemm.cu`` that no cache has, so that nvcc runs for each; nothing
else should run meanwhile. *compile* stops after the compiler; *simulator* judges the probe shapes as well. The serial
loop is one :class:`~ptxgym.Evaluator`; *pool* is one process with many threads, *8 processes* a pool that eight of them
share over its socket, and *groups of 4* has every kernel submitted by four rollouts at once.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ptxgym import EvaluationOptions, Evaluator, get_task
from ptxgym.evaluation import Evaluation, EvaluationPool, PoolClient, PoolServer

TASK = "PTXBench-GEMM-H100"
KERNEL = Path(__file__).parents[1] / "examples" / "kernels" / "hopper" / "gemm.cu"
PROCESSES = 8
GOAL = 1.8
"""Times the serial loop, on two processors."""


@dataclass(frozen=True)
class Row:
    """One way of doing the same work."""

    name: str
    evaluations: int
    """That were asked for."""
    seconds: float
    processor_seconds: float
    """Of this process and of those it waited for."""

    @property
    def per_minute(self) -> float:
        """Evaluations a minute."""
        return 60 * self.evaluations / self.seconds


def fresh_sources(count: int) -> list[str]:
    """As many sources that were never compiled; a constant that nothing uses tells them apart in the binary, too."""
    text = KERNEL.read_text(encoding="utf-8")
    return [f"{text}\n__device__ unsigned long long variant = 0x{uuid.uuid4().hex[:15]}ull;\n" for _ in range(count)]


def measure(options: EvaluationOptions, count: int) -> Iterator[Row]:
    """The rows of one table, each with its own fresh sources."""
    evaluator = Evaluator(get_task(TASK), options)
    evaluator.evaluate(fresh_sources(1)[0])  # loads what is loaded once
    yield _row("serial loop", count, lambda sources: [evaluator.evaluate(source) for source in sources])
    yield _row("pool", count, lambda sources: _through_pool(sources, options))
    yield _row(f"pool, {PROCESSES} processes", count, lambda sources: _through_processes(sources, options))
    yield _row(
        "pool, groups of 4", count, lambda sources: _through_pool([s for s in sources for _ in range(4)], options), 4
    )


def _row(name: str, count: int, work: Callable[[list[str]], list[Evaluation]], times: int = 1) -> Row:
    sources = fresh_sources(count)
    wall, processor = time.perf_counter(), _processor_seconds()
    evaluations = work(sources)
    row = Row(name, count * times, time.perf_counter() - wall, _processor_seconds() - processor)
    assert len(evaluations) == count * times
    wrong = [e for e in evaluations if e.failed_stage or e.stage("compile").status != "passed"]
    assert not wrong, wrong[0]
    return row


def _through_pool(sources: list[str], options: EvaluationOptions) -> list[Evaluation]:
    with EvaluationPool() as pool:
        futures = [pool.submit(s, TASK, options, trajectory=str(n)) for n, s in enumerate(sources)]
        return [future.result() for future in futures]


def _through_processes(sources: list[str], options: EvaluationOptions) -> list[Evaluation]:
    with EvaluationPool() as pool, PoolServer(pool) as server, tempfile.TemporaryDirectory() as folder:
        workers = []
        for number in range(PROCESSES):
            share = Path(folder) / f"{number}.txt"
            share.write_text("\f".join(sources[number::PROCESSES]), encoding="utf-8")
            command = [sys.executable, "-m", "benchmarks.throughput", "--rollouts", str(server.path), str(share)]
            workers.append(subprocess.Popen([*command, options.model_dump_json()], stdout=subprocess.PIPE, text=True))
        outputs = [worker.communicate()[0] for worker in workers]
        assert not any(worker.returncode for worker in workers)
    return [Evaluation.model_validate_json(line) for output in outputs for line in output.splitlines()]


def _rollouts(path: str, share: str, options: str) -> None:
    """A rollout worker: one thread per kernel."""
    sources = [source for source in Path(share).read_text(encoding="utf-8").split("\f") if source]
    how = EvaluationOptions.model_validate_json(options)
    with PoolClient(path) as client, ThreadPoolExecutor(max(1, len(sources))) as threads:

        def play(number: int) -> Future[Evaluation]:
            return client.submit(sources[number], TASK, how, trajectory=str(number))

        for future in threads.map(play, range(len(sources))):
            print(future.result().model_dump_json())


def _processor_seconds() -> float:
    return sum(os.times()[:4])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=16, help="kernels a row")
    parser.add_argument("--only", choices=("compile", "simulator"))
    parser.add_argument("--rollouts", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rollouts:
        _rollouts(*asked.rollouts)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PTXGYM_CACHE"] = folder  # so that this leaves nothing behind
        _print_tables(asked.count, asked.only)


def _print_tables(count: int, only: str | None) -> None:
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} processors, {platform.machine()}, load before the first row {load:.2f}")
    print(f"{'':12}{'':22}{'evaluations':>12}{'seconds':>10}{'per minute':>12}{'× serial':>10}{'processors':>12}")
    tables = {"compile": "none", "simulator": "simulator"}
    for name, device in tables.items():
        if only in (None, name):
            serial = 0.0
            for row in measure(EvaluationOptions(device=device), count):
                serial = serial or row.per_minute
                busy = row.processor_seconds / row.seconds
                print(
                    f"{name:12}{row.name:22}{row.evaluations:12}{row.seconds:10.1f}{row.per_minute:12.1f}"
                    f"{row.per_minute / serial:10.2f}{busy:12.2f}",
                    flush=True,
                )
    print(f"goal for pool against serial loop where nvcc dominates, on two processors: ≥ {GOAL}")


if __name__ == "__main__":
    main()
