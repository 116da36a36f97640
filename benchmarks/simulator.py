"""Times the PTX executor on the kernels that its targets name, nvcc excluded, all checks on.

Run with ``python -m benchmarks.simulator`` from the repository's root.  Columns: best wall-clock of three runs, the
same run's processor time (what counts when the machine is shared), the target, and executed thread instructions. The
last rows are whole calls of ``run`` of the examples, through the candidate's and the simulator's process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from knowledge.headers import INCLUDE
from ptxgym.devices.simulator.machine import LaunchReport
from ptxgym.devices.simulator.module import Module, load_module
from ptxgym.devices.simulator.runtime.session import SimulatorSession
from ptxgym.tasks import get_task
from ptxgym.toolchain import compile_source, read_source
from tests.corpus.harness import Device, compile_ptx
from tests.corpus.kernels import GOOD, from_bf16, numbers, to_bf16

ROOT = Path(__file__).resolve().parents[1]
Launch = Callable[[], tuple[LaunchReport, Callable[[], float]]]
"""Runs once; returns the report, and a function that gives the largest error relative to the largest expected value."""


@dataclass(frozen=True)
class Benchmark:
    """One line of the table."""

    name: str
    target: float
    """Seconds on two cores."""
    prepare: Callable[[], Launch]


def _module(file: str, architecture: str) -> Module:
    return load_module(compile_ptx(GOOD[file].source, architecture))


def _error(got: Any, expected: Any) -> float:
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def _naive() -> Launch:
    module = _module("naive_gemm", "90a")
    a, b = to_bf16(numbers(1, 256, 128)), to_bf16(numbers(2, 128, 256))

    def launch() -> tuple[LaunchReport, Callable[[], float]]:
        device = Device("90a")
        out = device.upload(np.zeros((256, 256), np.float32))
        report = device.launch(
            module, "naive_gemm", (16, 16), (16, 16), device.upload(a), device.upload(b), out, 256, 256, 128
        )
        return report, lambda: _error(device.array(out), from_bf16(a) @ from_bf16(b))

    return launch


def _wgmma(m: int, n: int, k: int) -> Launch:
    source = (ROOT / "examples/kernels/hopper/gemm.cu").read_text()
    module = load_module(compile_ptx(source, "90a", f"-I{INCLUDE}"))
    (kernel,) = module.kernels
    a, b = to_bf16(numbers(1, m, k)), to_bf16(numbers(2, n, k))

    def launch() -> tuple[LaunchReport, Callable[[], float]]:
        device = Device("90a")
        pa, pb, pc = device.upload(a), device.upload(b), device.upload(np.zeros((m, n), np.uint16))
        maps = b"".join(
            device.tile_map(p, "bf16", s, (r, 64))
            for p, s, r in ((pa, a.shape, 256), (pb, b.shape, 88), (pb, b.shape, 88), (pc, (m, n), 16))
        )
        report = device.launch(module, kernel, (4,), 384, maps, m, n, k, cluster=(2, 1, 1), shared=232448)
        return report, lambda: _error(from_bf16(device.array(pc)), from_bf16(a) @ from_bf16(b).T)

    return launch


def _attend(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.T / 8
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v


def _attention() -> Launch:
    # As many multiply-adds as one head of 512x128; the corpus kernel is 64 wide.
    module = _module("attention", "90a")
    length = 704
    q, k, v = (to_bf16(numbers(s, length, 64)) for s in (1, 2, 3))

    def launch() -> tuple[LaunchReport, Callable[[], float]]:
        device = Device("90a")
        out, lse = device.upload(np.zeros((length, 64), np.uint16)), device.upload(np.zeros(length, np.float32))
        maps = [device.tile_map(device.upload(x), "bf16", (length, 64), (64, 64)) for x in (q, k, v)]
        report = device.launch(module, "attention", length // 64, 128, *maps, out, lse, length, shared=5 * 8192)
        return report, lambda: _error(from_bf16(device.array(out)), _attend(*(from_bf16(x) for x in (q, k, v))))

    return launch


def _tcgen05(m: int, n: int, k: int) -> Launch:
    module = _module("gemm_tcgen05", "100a")
    a, b = to_bf16(numbers(1, m, k)), to_bf16(numbers(2, n, k))

    def launch() -> tuple[LaunchReport, Callable[[], float]]:
        device = Device("100a")
        out = device.upload(np.zeros((m, n), np.float32))
        maps = [device.tile_map(device.upload(x), "bf16", x.shape, (r, 64)) for x, r in ((a, 128), (b, 128))]
        report = device.launch(module, "gemm_tcgen05", (n // 128, m // 128), 192, *maps, out, n, k, shared=3 * 32768)
        return report, lambda: _error(device.array(out), from_bf16(a) @ from_bf16(b).T)

    return launch


BENCHMARKS = (
    Benchmark("plain CUDA GEMM 256x256x128", 0.2, _naive),
    Benchmark("wgmma + TMA GEMM 256x256x128", 0.08, lambda: _wgmma(256, 256, 128)),
    Benchmark("wgmma + TMA GEMM 512x512x1024", 0.6, lambda: _wgmma(512, 512, 1024)),
    Benchmark("attention forward 704x64", 0.3, _attention),
    Benchmark("tcgen05 GEMM 512x512x1024", 0.25, lambda: _tcgen05(512, 512, 1024)),
)


WHOLE_CALLS = (
    ("mha_forward.cu, one head 512x128", 0.3, "PTXBench-MHAForward-H100", "mha_forward"),
    ("mha_backward.cu, one head 512x128", 1.5, "PTXBench-MHABackward-H100", "mha_backward"),
)
"""Name, target, task and example."""


def _whole_call(task_id: str, example: str, repeat: int) -> tuple[float, int, float]:
    """Seconds of the fastest call, its executed thread instructions, and its largest relative error."""
    task = get_task(task_id)
    program = compile_source(read_source((ROOT / f"examples/kernels/hopper/{example}.cu").read_text()), task)
    shape = {**task.workload, "batch": 1, "heads": 1, "seqlen": 512}
    inputs = task.operator.make_inputs(shape, "normal", torch.Generator().manual_seed(0))
    times = []
    with SimulatorSession(program, task) as session:
        session.bind(shape)
        for _ in range(repeat + 1):  # the first decodes
            start = time.perf_counter()
            outputs, _ = session.run(inputs)
            times.append(time.perf_counter() - start)
            launches = session.evidence["launches"]
    error = max(
        float((outputs[name].float() - exact.float()).abs().max() / exact.abs().max())
        for name, exact in task.operator.reference(inputs).items()
    )
    return min(times[1:]), sum(sum(launch["executed"].values()) for launch in launches), error


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    print(f"{'kernel':34} {'wall s':>8} {'cpu s':>8} {'target':>8} {'instructions':>14} {'error':>9}")
    for benchmark in BENCHMARKS:
        launch = benchmark.prepare()
        launch()  # decoding and caches
        best = (float("inf"), 0.0)
        for _ in range(repeat):
            wall, cpu = time.perf_counter(), time.process_time()
            report, error = launch()
            best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
            assert report.error is None
            assert not report.findings, report.findings
        executed = sum(report.executed.values())
        print(
            f"{benchmark.name:34} {best[0]:8.3f} {best[1]:8.3f} {benchmark.target:8.2f} {executed:14,} {error():9.1e}"
        )
    for name, target, task_id, example in WHOLE_CALLS:
        wall, executed, worst = _whole_call(task_id, example, repeat)
        print(f"{name:34} {wall:8.3f} {'':8} {target:8.2f} {executed:14,} {worst:9.1e}")


if __name__ == "__main__":
    main()
