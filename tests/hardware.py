"""The kernels of the corpus and of the wrapper tests on a real GPU: the same launches, the same references.

``python -m tests.hardware`` runs each under Nsight Compute, simulates it too, prints the counts of tensor
instructions side by side and keeps them for docs/simulator.md. ``tests/gpu/test_hardware.py`` compares results alone.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptxgym.devices.cuda.nsight import nsight_command, parse_nsight_log
from ptxgym.devices.device import KernelExecution
from ptxgym.devices.simulator import tensor_map
from ptxgym.devices.simulator.machine import LaunchReport
from ptxgym.devices.simulator.module import load_module
from tests.corpus.harness import Device, compile_ptx, parameter_bytes, three
from tests.corpus.kernels import GOOD
from tests.knowledge import cases_math, cases_sync, cases_tma, cases_wgmma  # noqa: F401 -- they register
from tests.knowledge.cases import CASES, Bench
from tests.knowledge.harness import module_of, ptx_of

ARCHITECTURE = "90a"
KEPT = Path(__file__).parent / "corpus" / "hardware.json"

ALLOWANCE = {"corpus/wgmma_e4m3_128": 10.0}
"""How many times the simulator's tolerance a GPU may use. FP8 products are added in about 14 bits on Hopper
(DeepSeek-V3 technical report, 3.3.2), in full precision on the simulator."""

Comparison = tuple[np.ndarray[Any, Any], Any, float]
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_MAP_ALIGNMENT = 64


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: an id, padding, and a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint32 * 16))


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class HardwareModule:
    """PTX on a GPU, and where its kernels' parameters lie."""

    def __init__(self, ptx: str) -> None:
        self.text = ptx.encode() + b"\0"
        self.kernels = load_module(ptx).kernels
        self.handle = ctypes.c_void_p()
        """Of the driver, once it is loaded."""


@functools.cache
def module(ptx: str) -> HardwareModule:
    """The module of this text; one per process, since the driver compiles what it loads."""
    return HardwareModule(ptx)


class HardwareDevice:
    """:class:`tests.corpus.harness.Device` on the first GPU."""

    launched = ""
    """The name of the last kernel."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self._arrays: dict[int, np.ndarray[Any, Any]] = {}
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def upload(self, array: np.ndarray[Any, Any], label: str = "") -> int:
        """Copy an array to the device; returns its address."""
        data, address = np.ascontiguousarray(array).copy(), ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(data.nbytes, 1)))
        self._call("cuMemcpyHtoD_v2", address, data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(data.nbytes))
        self._arrays[address.value] = data
        return address.value

    def array(self, address: int) -> np.ndarray[Any, Any]:
        """What an uploaded array holds now."""
        data = self._arrays[address]
        target = data.ctypes.data_as(ctypes.c_void_p)
        self._call("cuMemcpyDtoH_v2", target, ctypes.c_uint64(address), ctypes.c_size_t(data.nbytes))
        return data

    def launch(
        self, module: HardwareModule, kernel: str, grid: Any, block: Any, *arguments: Any, cluster: Any = None,
        shared: int = 0, limits: object = None,
    ) -> LaunchReport:  # fmt: skip
        """Launch and wait; the report has only what the kernel printed."""
        HardwareDevice.launched = kernel
        function = ctypes.c_void_p()
        if not module.handle:
            self._call("cuModuleLoadData", ctypes.byref(module.handle), module.text)
        self._call("cuModuleGetFunction", ctypes.byref(function), module.handle, kernel.encode())
        if shared:
            self._call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, ctypes.c_int(shared))
        sizes = [parameter.size for parameter in module.kernels[kernel].parameters]
        blocks = [_aligned(parameter_bytes(value, size)) for value, size in zip(arguments, sizes, strict=True)]
        pointers = (ctypes.c_void_p * len(blocks))(*(place for _, place in blocks))
        attribute = _Attribute(_CLUSTER_DIMENSION, b"", (ctypes.c_uint32 * 16)(*three(cluster or 1)))
        config = _Config(
            (ctypes.c_uint * 3)(*three(grid)),
            (ctypes.c_uint * 3)(*three(block)),
            shared,
            None,
            ctypes.pointer(attribute),
            int(cluster is not None),
        )
        with _printed() as text:
            self._call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)
            self._call("cuCtxSynchronize")
        return LaunchReport(executed={}, tensor_flops={}, bytes={}, findings=(), error=None, printf=text())

    def tile_map(
        self, address: int, kind: str, shape: tuple[int, ...], box: tuple[int, ...], swizzle: str = "128B",
        strides: tuple[int, ...] | None = None, **extra: Any,
    ) -> bytes:  # fmt: skip
        """The driver's own encoding; ``shape`` and ``box`` are outermost first, as in NumPy."""
        size, rank = tensor_map.ELEMENT_BYTES[kind], len(shape)
        if strides is None:
            strides = tuple(int(np.prod(shape[i + 1 :])) * size for i in range(rank - 1))
        encoded = (ctypes.c_char * (128 + _MAP_ALIGNMENT))()
        place = -(-ctypes.addressof(encoded) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
        self._call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(place),
            tensor_map.KINDS.index(kind),
            ctypes.c_uint(rank),
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*shape[::-1]),
            (ctypes.c_uint64 * max(rank - 1, 1))(*strides[::-1]),
            (ctypes.c_uint32 * rank)(*box[::-1]),
            (ctypes.c_uint32 * rank)(*(extra.pop("element_strides", (1,) * rank))),
            tensor_map.INTERLEAVES.index(extra.pop("interleave", "none")),
            tensor_map.SWIZZLES.index(swizzle),
            int(extra.pop("l2_promotion", 0)),
            tensor_map.FILLS.index(extra.pop("fill", "none")),
        )
        assert not extra, extra
        return ctypes.string_at(place, 128)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.driver, name)(*arguments)
        assert code == 0, f"{name} returned CUDA error {code}"


def _aligned(raw: bytes) -> tuple[Any, int]:
    """The bytes at an address that suits a tensor map; returns what keeps them alive, and the address."""
    room = (ctypes.c_char * (len(raw) + _MAP_ALIGNMENT))()
    place = -(-ctypes.addressof(room) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
    ctypes.memmove(place, raw, len(raw))
    return room, place


@contextlib.contextmanager
def _printed() -> Iterator[Callable[[], str]]:
    """What the process itself, not Python, writes to standard output meanwhile."""
    sys.stdout.flush()
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        said: list[str] = []
        try:
            yield lambda: said[0] if said else _said(file)
        finally:
            ctypes.CDLL(None).fflush(None)
            said.append(_said(file))
            os.dup2(kept, 1)
            os.close(kept)


def _said(file: Any) -> str:
    return os.pread(file.fileno(), 1 << 20, 0).decode(errors="replace")


# -- the launches ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launch:
    """One launch that a simulator and a GPU can do."""

    name: str
    on_gpu: Callable[[], Sequence[Comparison]]
    simulated: Callable[[], LaunchReport]


def launches() -> Iterator[Launch]:
    """Every Hopper kernel of the corpus, and every wrapper case."""
    for name, kernel in GOOD.items():
        if ARCHITECTURE not in kernel.architectures:
            continue

        def on_gpu(kernel: Any = kernel) -> Sequence[Comparison]:
            device: Any = HardwareDevice()
            _, outputs = kernel.run(device, module(compile_ptx(kernel.source, ARCHITECTURE)), None)
            return outputs()

        def simulated(kernel: Any = kernel) -> LaunchReport:
            return kernel.run(Device(ARCHITECTURE), load_module(compile_ptx(kernel.source, ARCHITECTURE)), None)[0]

        yield Launch(f"corpus/{name}", on_gpu, simulated)
    for case in CASES:
        if ARCHITECTURE not in case.architectures:
            continue

        def on_gpu_(case: Any = case) -> Sequence[Comparison]:
            loaded: Any = module(ptx_of(case.source, ARCHITECTURE).read_text())
            device: Any = HardwareDevice()
            return case.run(Bench(loaded, case.kernel, ARCHITECTURE, device))

        def simulated_(case: Any = case) -> LaunchReport:
            bench = Bench(module_of(case.source, ARCHITECTURE), case.kernel, ARCHITECTURE)
            case.run(bench)
            assert bench.report is not None
            return bench.report

        yield Launch(f"{case.file}/{case.kernel}", on_gpu_, simulated_)


def worst(outputs: Sequence[Comparison]) -> float:
    """The largest error as a multiple of what is allowed; 0 where nothing differs."""
    ratios = [0.0]
    for got, expected, tolerance in outputs:
        error = np.abs(got.astype(np.float64) - np.asarray(expected, np.float64).reshape(got.shape)).max(initial=0)
        ratios.append(float(error / tolerance) if tolerance else float(np.inf if error else 0))
    return max(ratios)


# -- counts ------------------------------------------------------------------------------------------------------------

FAMILIES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "wgmma": (("wgmma.mma_async",), ("HGMMA", "IGMMA", "QGMMA", "BGMMA")),
    "mma": (("mma.sync", "wmma.mma"), ("HMMA", "IMMA", "QMMA", "DMMA")),
    "bulk copies": (
        ("cp.async.bulk.tensor", "cp.async.bulk.shared", "cp.async.bulk.global", "cp.reduce.async.bulk"),
        ("UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED"),
    ),
}
"""Name to the beginnings of its PTX and SASS opcodes."""


def count(executed: Mapping[str, int], beginnings: tuple[str, ...]) -> int:
    """Thread executions of the opcodes that begin so."""
    return sum(threads for opcode, threads in executed.items() if opcode.startswith(beginnings))


def profile() -> list[dict[str, Any]]:
    """Every launch under Nsight Compute, beside its simulation."""
    with tempfile.TemporaryDirectory() as folder:
        log, results = Path(folder) / "log", Path(folder) / "results"
        command = [
            *nsight_command(log, from_start=True),
            *(sys.executable, "-m", "tests.hardware", "--launch-all", str(results)),
        ]
        subprocess.run(command, check=True)
        profiled = list(parse_nsight_log(log.read_text(errors="replace")))
        done = json.loads(results.read_text())
    rows = []
    for launch in launches():
        kernel = _next_of(profiled, done[launch.name]["kernel"])
        ptx = launch.simulated().executed
        counts = {n: (count(ptx, p), count(kernel.threads, s) if kernel else None) for n, (p, s) in FAMILIES.items()}
        rows.append({"name": launch.name, "error": done[launch.name]["error"], "counts": counts})
    return rows


def _next_of(profiled: list[KernelExecution], name: str) -> KernelExecution | None:
    """The first kernel of this name, taken off with its twins: the tool lists some kernels twice, and may miss one."""
    at = next((at for at, kernel in enumerate(profiled) if kernel.name == name), None)
    if at is None:
        return None
    found = profiled[at]
    while at < len(profiled) and profiled[at] == found:
        del profiled[at]
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: result and thread executions of the kernels that have any, and how the others did.

    Kernels of one file that are alike share a line.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    others = []
    for row in rows:
        pairs = row["counts"].values()
        result = "same" if row["error"] <= 1 else "DIFFERENT"
        if any(map(any, pairs)):
            cells = (
                "" if not any(pair) else "?" if value is None else f"{value:,}" for pair in pairs for value in pair
            )
            groups.setdefault((row["name"].partition("/")[0], result, *cells), []).append(row["name"])
        else:
            others.append(result)
    lines = [
        "| kernel | result | " + " | ".join(f"{name}: simulator | GPU" for name in FAMILIES) + " |",
        "| --- | --- |" + " ---: | ---: |" * len(FAMILIES),
        *(f"| {_several(names)} | {' | '.join(cells)} |" for (_, *cells), names in groups.items()),
    ]
    same = others.count("same")
    return "\n".join([*lines, "", f"Without any: {len(others)} kernels, of which {same} compute the same."])


def _cell(value: int | None, pair: Sequence[int | None]) -> str:
    return "" if not any(pair) else "?" if value is None else f"{value:,}"


def _several(names: Sequence[str]) -> str:
    first, *_, last = (*names, names[-1])
    return ", ".join(names) if len(names) < 5 else f"{first} … {last} ({len(names)} kernels)"


def main() -> None:
    """Profile everything, print the table, keep the figures."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--launch-all", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=Path, default=KEPT, help="where the figures go")
    options = parser.parse_args()
    if options.launch_all:
        done: dict[str, dict[str, Any]] = {}
        for launch in launches():
            error = worst(launch.on_gpu()) / ALLOWANCE.get(launch.name, 1.0)
            done[launch.name] = {"error": error, "kernel": HardwareDevice.launched}
            options.launch_all.write_text(json.dumps(done))
        return
    rows = profile()
    print(table(rows))
    options.keep.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
