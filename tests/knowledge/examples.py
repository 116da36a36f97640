"""The example kernels of the knowledge pack, run on the simulator against numpy; ``source`` may be a mutant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ptxgym.devices.simulator.machine import LaunchReport, Limits
from tests.corpus.harness import Device
from tests.corpus.kernels import from_bf16, numbers, to_bf16
from tests.knowledge.cases import Array, Outcome
from tests.knowledge.harness import module_of

KNOWLEDGE = Path(__file__).parents[2] / "knowledge"
LIMITS = Limits(seconds=20, spins=20_000)
Result = tuple[LaunchReport, Outcome]


def example(architecture: str, name: str) -> str:
    """The text of an example."""
    return (KNOWLEDGE / architecture / "examples" / f"{name}.cu").read_text()


def _kernel(source: str, target: str) -> tuple[object, str]:
    module = module_of(source, target)
    (name,) = module.kernels
    return module, name


def _launch(device: Device, source: str, *how: object, **options: object) -> LaunchReport:
    module, name = _kernel(source, device.architecture)
    return device.launch(module, name, *how, limits=LIMITS, **options)  # type: ignore[arg-type]


def gemm(source: str, target: str = "90a", threads: int = 384, rows: int = 64) -> Result:
    """Two by two tiles, nine k-steps: the ring of four wraps twice."""
    m, n, k = 256, 256, 576
    a, b = to_bf16(numbers(1, m, k)), to_bf16(numbers(2, n, k))
    d = Device(target)
    maps = [d.tile_map(d.upload(a), "bf16", (m, k), (128, 64)), d.tile_map(d.upload(b), "bf16", (n, k), (128, 64))]
    c = d.upload(np.zeros((m, n), np.uint16))
    report = _launch(d, source, (n // 128, m // 128), threads, *maps, d.tile_map(c, "bf16", (m, n), (rows, 64)), k,
                     shared=200_000)  # fmt: skip
    return report, [(from_bf16(d.array(c)), from_bf16(a) @ from_bf16(b).T, 0.3)]


def softmax_attention(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """O and LSE of [heads, rows, d], in fp64."""
    s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    top = s.max(-1, keepdims=True)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    return p / total @ v, (top + np.log(total))[..., 0]


def attention(source: str, target: str = "90a", threads: int = 160, block: int = 64) -> Result:
    """Two heads of five blocks, a ring of two."""
    heads, seqlen, dim = 2, 5 * block, 128
    q, k, v = (to_bf16(numbers(i, heads, seqlen, dim)) for i in range(3))
    d = Device(target)
    rows = heads * seqlen
    o, lse = d.upload(np.zeros((rows, dim), np.uint16)), d.upload(np.zeros((heads, seqlen), np.float32))
    maps = [
        d.tile_map(address, "bf16", (rows, dim), (block, 64)) for address in (d.upload(q), d.upload(k), d.upload(v), o)
    ]
    report = _launch(d, source, (seqlen // block, heads), threads, *maps, lse, seqlen, shared=200_000)
    expected_o, expected_lse = softmax_attention(*map(from_bf16, (q, k, v)))
    got = from_bf16(d.array(o)).reshape(expected_o.shape)
    return report, [(got, expected_o, 0.01), (d.array(lse), expected_lse, 1e-3)]


def multicast(source: str) -> Result:
    """Three tiles of 32 rows, added up by both CTAs."""
    values = to_bf16(numbers(1, 96, 64))
    d = Device("90a")
    out = d.upload(np.zeros((2, 64), np.float32))
    box = d.tile_map(d.upload(values), "bf16", (96, 64), (16, 64))
    report = _launch(d, source, 2, 64, box, out, 3, cluster=(2, 1, 1))
    sums = from_bf16(values).sum(0, dtype=np.float64)
    return report, [(d.array(out), np.stack([sums, 2 * sums]), 1e-3)]


def pair(source: str) -> Result:
    """Seven k-steps: the ring of three wraps twice."""
    m, n, k = 256, 128, 448
    a, b = to_bf16(numbers(1, m, k)), to_bf16(numbers(2, n, k))
    d = Device("100a")
    out = d.upload(np.zeros((m, n), np.float32))
    maps = [d.tile_map(d.upload(a), "bf16", (m, k), (128, 64)), d.tile_map(d.upload(b), "bf16", (n, k), (64, 64))]
    report = _launch(d, source, 2, 128, *maps, out, k, cluster=(2, 1, 1), shared=100_000)
    return report, [(d.array(out), from_bf16(a) @ from_bf16(b).T, 1e-3)]


def takeover(source: str) -> Result:
    """Eleven tiles, of which three blocks begin."""
    values = numbers(1, 11, 32, 32)
    d = Device("100a")
    sums = d.upload(np.zeros((11, 32), np.float32))
    report = _launch(d, source, 11, 64, d.tile_map(d.upload(values), "f32", (352, 32), (32, 32), "none"), sums)
    return report, [(d.array(sums), values.sum(1, dtype=np.float64), 1e-4)]


EXAMPLES: dict[tuple[str, str], Callable[[str], Result]] = {
    ("hopper", "gemm"): gemm,
    ("hopper", "attention"): attention,
    ("hopper", "multicast"): multicast,
    ("blackwell", "gemm"): lambda source: gemm(source, "100a", 192, 128),
    ("blackwell", "attention"): lambda source: attention(source, "100a", 192, 128),
    ("blackwell", "pair"): pair,
    ("blackwell", "takeover"): takeover,
}
