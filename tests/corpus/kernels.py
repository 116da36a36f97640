"""The good kernels of the corpus: how each is launched, and what it must compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxgym.devices.simulator.machine import LaunchReport, Limits
from ptxgym.devices.simulator.module import Module
from tests.corpus.harness import CORPUS, Device

Array = np.ndarray[Any, Any]
Comparison = tuple[Array, Array, float]
"""What came out, what was expected, and the largest absolute error allowed."""
Runner = Callable[[Device, Module, Limits | None], tuple[LaunchReport, Callable[[], list[Comparison]]]]


@dataclass(frozen=True)
class Good:
    """A kernel that must run without a finding."""

    name: str
    file: str
    architectures: tuple[str, ...]
    run: Runner

    @property
    def source(self) -> str:
        return (CORPUS / "cuda" / f"{self.file}.cu").read_text()


GOOD: dict[str, Good] = {}


def good(file: str, architectures: str = "90a") -> Callable[[Runner], Runner]:
    def register(run: Runner) -> Runner:
        GOOD[run.__name__] = Good(run.__name__, file, tuple(architectures.split()), run)
        return run

    return register


def to_bf16(values: Any) -> Array:
    """Round to nearest even, by hand."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(codes: Array) -> Array:
    return (codes.astype(np.uint32) << 16).view(np.float32)


def numbers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(seed: int, low: int, high: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int32)


def _e4m3_table() -> Array:
    values = []
    for code in range(256):
        exponent, mantissa = code >> 3 & 15, code & 7
        magnitude = (mantissa / 8 + (exponent > 0)) * 2.0 ** (max(exponent, 1) - 7)
        values.append(-magnitude if code >> 7 else magnitude)
    return np.array(values, np.float32)


E4M3 = _e4m3_table()

# -- plain ---------------------------------------------------------------------------------------------

BOTH = "90a 100a"


@good("plain", BOTH)
def vector_add(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = numbers(1, 1000), numbers(2, 1000)
    out = d.upload(np.zeros(1000, np.float32), "c")
    r = d.launch(m, "vector_add", 4, 256, d.upload(a, "a"), d.upload(b, "b"), out, 1000, limits=limits)
    return r, lambda: [(d.array(out), a + b, 0)]


@good("plain", BOTH)
def naive_gemm(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = to_bf16(numbers(1, 48, 40)), to_bf16(numbers(2, 40, 32))
    out = d.upload(np.zeros((48, 32), np.float32))
    r = d.launch(m, "naive_gemm", (2, 3), (16, 16), d.upload(a), d.upload(b), out, 48, 32, 40, limits=limits)
    return r, lambda: [(d.array(out), from_bf16(a) @ from_bf16(b), 1e-4)]


@good("plain", BOTH)
def tiled_gemm(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = numbers(1, 48, 64), numbers(2, 64, 32)
    out = d.upload(np.zeros((48, 32), np.float32))
    r = d.launch(m, "tiled_gemm", (2, 3), (16, 16), d.upload(a), d.upload(b), out, 48, 32, 64, limits=limits)
    return r, lambda: [(d.array(out), a @ b, 1e-4)]


@good("plain", BOTH)
def softmax(d: Device, m: Module, limits: Limits | None) -> Any:
    x = numbers(1, 5, 300)
    out = d.upload(np.zeros_like(x))
    r = d.launch(m, "softmax", 5, 128, d.upload(x), out, 300, limits=limits)
    e = np.exp(x - x.max(1, keepdims=True))
    return r, lambda: [(d.array(out), e / e.sum(1, keepdims=True), 1e-6)]


@good("plain", BOTH)
def histogram(d: Device, m: Module, limits: Limits | None) -> Any:
    x = integers(1, 0, 1000, 3000)
    out = d.upload(np.zeros(64, np.uint32))
    r = d.launch(m, "histogram", 3, 256, d.upload(x), out, 3000, limits=limits)
    return r, lambda: [(d.array(out), np.bincount(x & 63, minlength=64), 0)]


@good("plain", BOTH)
def warp_scan(d: Device, m: Module, limits: Limits | None) -> Any:
    x = integers(1, -50, 50, 256)
    out = d.upload(np.zeros_like(x))
    r = d.launch(m, "warp_scan", 2, 128, d.upload(x), out, limits=limits)
    return r, lambda: [(d.array(out), np.cumsum(x.reshape(-1, 32), axis=1).reshape(-1), 0)]


@good("plain", BOTH)
def transpose(d: Device, m: Module, limits: Limits | None) -> Any:
    x = numbers(1, 64, 96)
    out = d.upload(np.zeros((96, 64), np.float32))
    r = d.launch(m, "transpose", (3, 2), (32, 8), d.upload(x), out, 64, 96, limits=limits)
    return r, lambda: [(d.array(out), x.T, 0)]


@good("plain", BOTH)
def last_block_sum(d: Device, m: Module, limits: Limits | None) -> Any:
    x = integers(1, -9, 9, 5000).astype(np.float32)
    out = d.upload(np.zeros(1, np.float32))
    partial = d.upload(np.zeros(6, np.float32))
    r = d.launch(m, "last_block_sum", 6, 256, d.upload(x), partial, out, 5000, limits=limits)
    return r, lambda: [(d.array(out), np.array([x.sum()]), 0)]


@good("plain", BOTH)
def grid_barrier(d: Device, m: Module, limits: Limits | None) -> Any:
    n = 12 * 1024
    x = integers(1, 0, 100, n)
    out = d.upload(np.zeros(2 * n, np.int32))
    r = d.launch(m, "grid_barrier", 12, 1024, d.upload(x), out, n, limits=limits)
    return r, lambda: [(d.array(out), np.concatenate([2 * x, 2 * x[::-1]]), 0)]


@good("plain", BOTH)
def calls(d: Device, m: Module, limits: Limits | None) -> Any:
    x = numbers(1, 64)
    px, out = d.upload(x), d.upload(np.zeros(10, np.int32))
    r = d.launch(m, "calls", 1, 64, px, out, limits=limits)
    expected = np.where(np.arange(64) & 1, 2 * x, x / 2)
    return r, lambda: [(d.array(px), expected, 0), (d.array(out), np.array([0, 1, 1, 2, 3, 5, 8, 13, 21, 34]), 0)]


@good("plain", BOTH)
def constants_and_locals(d: Device, m: Module, limits: Limits | None) -> Any:
    index = integers(1, 0, 32, 20)
    out = d.upload(np.zeros(48, np.float32))
    r = d.launch(m, "constants_and_locals", 1, 48, d.upload(index), out, 20, limits=limits)
    total = float(((index & 31) % 8 + 1).sum())
    expected = total * (np.arange(48) + 1)
    assert r.error or r.printf == f"thread 3: {4 * total:.2f} ok 0x123456789ab\n", r.printf
    return r, lambda: [(d.array(out), expected, 1e-3)]


@good("plain", BOTH)
def switch_table(d: Device, m: Module, limits: Limits | None) -> Any:
    x = integers(1, -1000, 1000, 96)
    out = d.upload(np.zeros_like(x))
    r = d.launch(m, "switch_table", 1, 96, d.upload(x), out, limits=limits)
    cases = [x + 11, x * 3, x - 5, x ^ 0x55, x * x, -x, x << 3, ~x]
    return r, lambda: [(d.array(out), np.choose(x & 7, cases), 0)]


@good("plain", BOTH)
def math_functions(d: Device, m: Module, limits: Limits | None) -> Any:
    x = numbers(1, 500) * 3
    y, z = d.upload(np.zeros(500, np.float32)), d.upload(np.zeros(500))
    r = d.launch(m, "math_functions", 2, 256, d.upload(x), y, z, 500, limits=limits)

    def single(v: float) -> float:
        return (
            math.tanh(v) + math.erf(v) + math.sin(np.float32(v) * np.float32(100)) * math.cos(v) + abs(v) ** 0.3
            + math.log1p(abs(v)) + 1 / math.sqrt(abs(v) + 1) + math.fmod(v, 1.5) + math.copysign(1, v) + round(v)
        )  # fmt: skip

    double = [math.exp(v) + abs(v) + 1 / (1 + v * v) + math.sin(v) for v in x.tolist()]
    return r, lambda: [
        (d.array(y), np.array([single(v) for v in x.tolist()]), 2e-5),
        (d.array(z), np.array(double), 1e-12),
    ]


@good("plain", BOTH)
def number_formats(d: Device, m: Module, limits: Limits | None) -> Any:
    import torch

    x = numbers(1, 400) * 20
    e, b, h = d.upload(np.zeros(400, np.uint8)), d.upload(np.zeros(400, np.uint16)), d.upload(np.zeros(400, np.float16))
    r = d.launch(m, "number_formats", 2, 256, d.upload(x), e, b, h, 400, limits=limits)
    fp8 = torch.from_numpy(x).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    bf = to_bf16(from_bf16(to_bf16(x)).astype(np.float64) * 3 + 1)
    half = (x.astype(np.float16) * np.float16(0.5)) + np.float16(1)
    return r, lambda: [(d.array(e), fp8, 0), (d.array(b), bf, 0), (d.array(h), half, 0)]


@good("plain", BOTH)
def named_barriers(d: Device, m: Module, limits: Limits | None) -> Any:
    x = numbers(1, 6, 64)
    out = d.upload(np.zeros_like(x))
    r = d.launch(m, "named_barriers", 1, 128, d.upload(x), out, 6, limits=limits)
    return r, lambda: [(d.array(out), 2 * x[:, ::-1], 0)]


@good("plain", BOTH)
def warp_votes(d: Device, m: Module, limits: Limits | None) -> Any:
    x = integers(1, 0, 30, 64)
    out = d.upload(np.zeros(64, np.uint32))
    r = d.launch(m, "warp_votes", 1, 64, d.upload(x), out, limits=limits)
    expected = []
    for t in range(64):
        w = x[t // 32 * 32 : t // 32 * 32 + 32]
        ballot = sum(1 << i for i in range(32) if w[i] & 1)
        same = sum(1 << i for i in range(32) if w[i] & 3 == x[t] & 3)
        value = ballot ^ same ^ int(w.sum()) ^ int(x[t // 8 * 8 + 3])
        value += bin(sum(1 << i for i in range(32) if w[i] & 4)).count("1") if x[t] & 4 else 0
        expected.append((value + int((x == 17).any()) + int((x & 1).sum())) & 0xFFFFFFFF)
    return r, lambda: [(d.array(out), np.array(expected), 0)]


# -- Ampere --------------------------------------------------------------------------------------------


@good("ampere", BOTH)
def mma_gemm(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = to_bf16(numbers(1, 128, 160)), to_bf16(numbers(2, 64, 160))
    out = d.upload(np.zeros((128, 64), np.float32))
    r = d.launch(m, "mma_gemm", (1, 2), 128, d.upload(a), d.upload(b), out, 128, 64, 160, limits=limits)
    return r, lambda: [(d.array(out), from_bf16(a) @ from_bf16(b).T, 1e-4)]


@good("ampere", BOTH)
def wmma_gemm(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = numbers(1, 32, 48).astype(np.float16), numbers(2, 32, 48).astype(np.float16)
    out = d.upload(np.zeros((32, 32), np.float32))
    r = d.launch(m, "wmma_gemm", (2, 2), 32, d.upload(a), d.upload(b), out, 32, 32, 48, limits=limits)
    return r, lambda: [(d.array(out), 2 * a.astype(np.float32) @ b.astype(np.float32).T, 1e-4)]


@good("ampere", BOTH)
def mma_shapes(d: Device, m: Module, limits: Limits | None) -> Any:
    a8, b8 = integers(1, -128, 128, 16, 32).astype(np.int8), integers(2, -128, 128, 8, 32).astype(np.int8)
    at, bt = from_bf16(to_bf16(numbers(3, 16, 8))), from_bf16(to_bf16(numbers(4, 8, 8)))
    ah, bh = numbers(5, 16, 16).astype(np.float16), numbers(6, 8, 16).astype(np.float16)
    c8, ct, ch = (d.upload(np.zeros((16, 8), t)) for t in (np.int32, np.float32, np.float16))
    r = d.launch(m, "mma_shapes", 1, 32, d.upload(a8), d.upload(b8), c8, d.upload(at), d.upload(bt), ct, d.upload(ah),
                 d.upload(bh), ch, limits=limits)  # fmt: skip
    return r, lambda: [
        (d.array(c8), a8.astype(np.int32) @ b8.astype(np.int32).T + 7, 0),
        (d.array(ct), at @ bt.T, 1e-5),
        (d.array(ch).astype(np.float32), ah.astype(np.float32) @ bh.astype(np.float32).T, 0.02),
    ]


# -- Hopper copies -------------------------------------------------------------------------------------


@good("hopper", BOTH.replace(" 100a", ""))
def tma_round_trip(d: Device, m: Module, limits: Limits | None) -> Any:
    x = numbers(1, 64, 96)
    px, out = d.upload(x), d.upload(np.zeros_like(x))
    maps = [d.tile_map(p, "f32", (64, 96), (32, 32), "none") for p in (px, out)]
    r = d.launch(m, "tma_round_trip", (3, 2), 128, *maps, limits=limits)
    return r, lambda: [(d.array(out), 2 * x, 0)]


@good("hopper")
def tma_out_of_bounds(d: Device, m: Module, limits: Limits | None) -> Any:
    x = np.arange(5 * 6 * 40, dtype=np.uint32).reshape(5, 6, 40) + 1
    box = (4, 8, 32)
    words = int(np.prod(box))
    out = d.upload(np.zeros(words, np.uint32))
    tensor = d.tile_map(d.upload(x), "u32", x.shape, box, "none")
    r = d.launch(m, "tma_out_of_bounds", 1, 64, tensor, out, 20, -3, 3, words, shared=words * 4, limits=limits)
    padded = np.zeros((20, 30, 100), np.uint32)
    padded[:5, 10:16, :40] = x
    return r, lambda: [(d.array(out).reshape(box), padded[3:7, 7:15, 20:52], 0)]


@good("hopper")
def tma_reduce(d: Device, m: Module, limits: Limits | None) -> Any:
    out = d.upload(np.ones((16, 32), np.float32))
    r = d.launch(m, "tma_reduce", 3, 64, d.tile_map(out, "f32", (16, 32), (16, 32), "none"), limits=limits)
    return r, lambda: [(d.array(out), 1 + 3 * np.arange(512).reshape(16, 32) + 3, 0)]


@good("hopper")
def bulk_copies(d: Device, m: Module, limits: Limits | None) -> Any:
    x = integers(1, 0, 100, 3, 256).astype(np.float32)
    out, total = d.upload(np.zeros_like(x)), d.upload(np.zeros(256, np.float32))
    r = d.launch(m, "bulk_copies", 3, 256, d.upload(x), out, total, limits=limits)
    return r, lambda: [(d.array(out), x + 1, 0), (d.array(total), (x + 1).sum(0), 0)]


@good("hopper")
def ring_sum(d: Device, m: Module, limits: Limits | None) -> Any:
    x = integers(1, 0, 100, 10, 128).astype(np.float32)
    out = d.upload(np.zeros(128, np.float32))
    r = d.launch(m, "ring_sum", 1, 160, d.upload(x), out, 10, limits=limits)
    return r, lambda: [(d.array(out), x.sum(0)[::-1], 0)]


@good("hopper")
def polling(d: Device, m: Module, limits: Limits | None) -> Any:
    x = numbers(1, 64)
    out = d.upload(np.zeros(64, np.float32))
    r = d.launch(m, "polling", 1, 64, d.upload(x), out, limits=limits)
    return r, lambda: [(d.array(out), x, 0)]


@good("hopper")
def cluster_exchange(d: Device, m: Module, limits: Limits | None) -> Any:
    x = numbers(1, 8, 64)
    out = d.upload(np.zeros_like(x))
    r = d.launch(m, "cluster_exchange", 8, 64, d.upload(x), out, limits=limits)
    return r, lambda: [(d.array(out), x[[1, 2, 3, 0, 5, 6, 7, 4]], 0)]


@good("hopper")
def send_async(d: Device, m: Module, limits: Limits | None) -> Any:
    x = numbers(1, 4, 64)
    out = d.upload(np.zeros_like(x))
    r = d.launch(m, "send_async", 4, 64, d.upload(x), out, limits=limits)
    return r, lambda: [(d.array(out), x[[1, 0, 3, 2]], 0)]


@good("hopper")
def multicast(d: Device, m: Module, limits: Limits | None) -> Any:
    x = numbers(1, 32, 32)
    out = d.upload(np.zeros((2, 32, 32), np.float32))
    tensor = d.tile_map(d.upload(x), "f32", (32, 32), (16, 32), "none")
    r = d.launch(m, "multicast", 2, 64, tensor, out, limits=limits)
    return r, lambda: [(d.array(out), np.stack([x, x]), 0)]


# -- wgmma ---------------------------------------------------------------------------------------------


def _product(kernel: str, kind: str, swizzle: str, codes: tuple[Array, Array], values: tuple[Array, Array]) -> Runner:
    def run(d: Device, m: Module, limits: Limits | None) -> Any:
        out = d.upload(np.zeros((codes[0].shape[0], codes[1].shape[0]), np.float32))
        maps = [d.tile_map(d.upload(c), kind, c.shape, c.shape, swizzle) for c in codes]
        r = d.launch(m, kernel, 1, 128, *maps, out, limits=limits)
        expected = values[0].astype(np.float64) @ values[1].astype(np.float64).T
        return r, lambda: [(d.array(out), expected, 1e-4 * max(1.0, float(np.abs(expected).max())))]

    run.__name__ = kernel
    return run


def _bf16_pair(rows: int, k: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    codes = to_bf16(numbers(1, rows, k)), to_bf16(numbers(2, 64, k))
    return codes, (from_bf16(codes[0]), from_bf16(codes[1]))


def _fp8_pair(rows: int, k: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    codes = tuple(integers(s, 0, 120, r, k).astype(np.uint8) | (integers(s + 9, 0, 2, r, k) << 7).astype(np.uint8)
                  for s, r in ((1, rows), (2, 64)))  # fmt: skip
    return (codes[0], codes[1]), (E4M3[codes[0]], E4M3[codes[1]])


_HALF = tuple(numbers(s, 64, 32).astype(np.float16) for s in (1, 2))
_TF32 = tuple(from_bf16(to_bf16(numbers(s, 64, 8))) for s in (1, 2))
good("hopper")(_product("wgmma_bf16_128", "bf16", "128B", *_bf16_pair(64, 64)))
good("hopper")(_product("wgmma_f16_64", "f16", "64B", (_HALF[0], _HALF[1]), (_HALF[0], _HALF[1])))
good("hopper")(_product("wgmma_tf32_32", "f32", "32B", (_TF32[0], _TF32[1]), (_TF32[0], _TF32[1])))
good("hopper")(_product("wgmma_e4m3_128", "u8", "128B", *_fp8_pair(64, 128)))


@good("hopper")
def wgmma_s8_plain(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = (integers(s, -128, 128, 64, 32).astype(np.int8) for s in (1, 2))
    out = d.upload(np.zeros((64, 64), np.int32))
    r = d.launch(m, "wgmma_s8_plain", 1, 128, d.upload(a), d.upload(b), out, limits=limits)
    return r, lambda: [(d.array(out), a.astype(np.int32) @ b.astype(np.int32).T, 0)]


@good("hopper")
def wgmma_rs_transposed(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = to_bf16(numbers(1, 64, 64)), to_bf16(numbers(2, 64, 64))
    out = d.upload(np.zeros((64, 64), np.float32))
    tensor = d.tile_map(d.upload(b), "bf16", (64, 64), (64, 64))
    r = d.launch(m, "wgmma_rs_transposed", 1, 128, d.upload(a), tensor, out, limits=limits)
    return r, lambda: [(d.array(out), from_bf16(a) @ from_bf16(b), 1e-4)]


@good("hopper")
def wgmma_both_transposed(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = to_bf16(numbers(1, 64, 64)), to_bf16(numbers(2, 64, 64))
    out = d.upload(np.zeros((64, 64), np.float32))
    maps = [d.tile_map(d.upload(x), "bf16", (64, 64), (64, 64)) for x in (a, b)]
    r = d.launch(m, "wgmma_both_transposed", 1, 128, *maps, out, limits=limits)
    return r, lambda: [(d.array(out), from_bf16(a).T @ from_bf16(b), 1e-4)]


@good("hopper_gemm")
def gemm(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = to_bf16(numbers(1, 128, 576)), to_bf16(numbers(2, 128, 576))
    pa, pb, out = d.upload(a, "A"), d.upload(b, "B"), d.upload(np.zeros((128, 128), np.uint16), "C")
    maps = [d.tile_map(p, "bf16", s, (64, 64)) for p, s in ((pa, a.shape), (pb, b.shape), (out, (128, 128)))]
    r = d.launch(m, "gemm", (2, 2), 256, *maps, 576, shared=7 * 8192, limits=limits)
    return r, lambda: [(from_bf16(d.array(out)), from_bf16(a) @ from_bf16(b).T, 0.3)]


@good("hopper_attention")
def attention(d: Device, m: Module, limits: Limits | None) -> Any:
    q, k, v = (to_bf16(numbers(s, 320, 64)) for s in (1, 2, 3))
    out, lse = d.upload(np.zeros((320, 64), np.uint16)), d.upload(np.zeros(320, np.float32))
    maps = [d.tile_map(d.upload(x), "bf16", (320, 64), (64, 64)) for x in (q, k, v)]
    r = d.launch(m, "attention", 5, 128, *maps, out, lse, 320, shared=5 * 8192, limits=limits)
    s = from_bf16(q).astype(np.float64) @ from_bf16(k).T / 8
    e = np.exp(s - s.max(1, keepdims=True))
    expected_lse = s.max(1) + np.log(e.sum(1))
    expected = e / e.sum(1, keepdims=True) @ from_bf16(v)
    return r, lambda: [(from_bf16(d.array(out)), expected, 0.01), (d.array(lse), expected_lse, 1e-3)]


# -- Blackwell -----------------------------------------------------------------------------------------


@good("blackwell", "100a")
def gemm_tcgen05(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = to_bf16(numbers(1, 256, 448)), to_bf16(numbers(2, 128, 448))
    out = d.upload(np.zeros((256, 128), np.float32))
    maps = [d.tile_map(d.upload(a), "bf16", a.shape, (128, 64)), d.tile_map(d.upload(b), "bf16", b.shape, (128, 64))]
    r = d.launch(m, "gemm_tcgen05", (1, 2), 192, *maps, out, 128, 448, shared=3 * 32768, limits=limits)
    return r, lambda: [(d.array(out), from_bf16(a) @ from_bf16(b).T, 1e-3)]


@good("blackwell_overlap", "100a")
def overlapped_products(d: Device, m: Module, limits: Limits | None) -> Any:
    tiles = 5
    a, b = to_bf16(numbers(1, 128 * tiles, 64)), to_bf16(numbers(2, 64, 64))
    out = d.upload(np.zeros((128 * tiles, 64), np.float32))
    maps = [d.tile_map(d.upload(a), "bf16", a.shape, (128, 64)), d.tile_map(d.upload(b), "bf16", b.shape, (64, 64))]
    r = d.launch(m, "overlapped_products", 1, 192, *maps, out, tiles, limits=limits)
    return r, lambda: [(d.array(out), from_bf16(a) @ from_bf16(b).T, 1e-3)]


_TF32_WIDE = tuple(from_bf16(to_bf16(numbers(s, r, 32))) for s, r in ((1, 128), (2, 64)))
good("blackwell", "100a")(
    _product("mma_tf32", "f32", "128B", (_TF32_WIDE[0], _TF32_WIDE[1]), (_TF32_WIDE[0], _TF32_WIDE[1]))
)
good("blackwell", "100a")(_product("mma_e4m3", "u8", "128B", *_fp8_pair(128, 128)))


@good("blackwell", "100a")
def mma_s8(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = (integers(s, -128, 128, r, 128).astype(np.int8) for s, r in ((1, 128), (2, 64)))
    out = d.upload(np.zeros((128, 64), np.int32))
    maps = [d.tile_map(d.upload(x), "u8", x.shape, x.shape) for x in (a, b)]
    r = d.launch(m, "mma_s8", 1, 128, *maps, out, limits=limits)
    return r, lambda: [(d.array(out), a.astype(np.int32) @ b.astype(np.int32).T, 0)]


@good("blackwell", "100a")
def mma_pair(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = to_bf16(numbers(1, 256, 64)), to_bf16(numbers(2, 64, 64))
    out = d.upload(np.zeros((256, 64), np.float32))
    maps = [d.tile_map(d.upload(a), "bf16", a.shape, (128, 64)), d.tile_map(d.upload(b), "bf16", b.shape, (32, 64))]
    r = d.launch(m, "mma_pair", 2, 128, *maps, out, limits=limits)
    return r, lambda: [(d.array(out), from_bf16(a) @ from_bf16(b).T, 1e-4)]


@good("blackwell", "100a")
def mma_ts(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = to_bf16(numbers(1, 128, 64)), to_bf16(numbers(2, 64, 64))
    out = d.upload(np.zeros((128, 64), np.float32))
    r = d.launch(
        m, "mma_ts", 1, 128, d.upload(a), d.tile_map(d.upload(b), "bf16", (64, 64), (64, 64)), out, limits=limits
    )
    return r, lambda: [(d.array(out), from_bf16(a) @ from_bf16(b).T, 1e-4)]


@good("blackwell", "100a")
def tmem_shapes(d: Device, m: Module, limits: Limits | None) -> Any:
    x = integers(1, 0, 1 << 30, 128, 8).astype(np.uint32)
    out = d.upload(np.zeros_like(x))
    r = d.launch(m, "tmem_shapes", 1, 128, d.upload(x), out, limits=limits)
    return r, lambda: [(d.array(out), x, 0)]


@good("blackwell", "100a")
def packed_floats(d: Device, m: Module, limits: Limits | None) -> Any:
    a, b = numbers(1, 64, 2), numbers(2, 64, 2)
    out = d.upload(np.zeros_like(a))
    r = d.launch(m, "packed_floats", 1, 64, d.upload(a), d.upload(b), out, limits=limits)
    return r, lambda: [(d.array(out), (a.astype(np.float64) * b + a).astype(np.float32), 0)]


def _scaled(d: Device, m: Module, limits: Limits | None, kernel: str, data: tuple[Array, Array, Array, Array]) -> Any:
    """``data``: codes of A and B as bytes, scale bytes of A and B as [rows, blocks of K]."""
    a, b, scale_a, scale_b = data
    out = d.upload(np.zeros((128, 64), np.float32))
    maps = [d.tile_map(d.upload(x), "u8", x.shape, x.shape) for x in (a, b)]
    atoms = [d.upload(_scale_atoms(s)) for s in (scale_a, scale_b)]
    return d.launch(m, kernel, 1, 128, *maps, *atoms, out, limits=limits), out


def _scale_atoms(scales: Array) -> Array:
    """[rows, blocks] to atoms of 32 lines of 16 bytes, one for every four blocks."""
    rows, blocks = scales.shape
    atoms = np.zeros((blocks // 4, 32, 4, 4), np.uint8)
    for row in range(rows):
        for block in range(blocks):
            atoms[block // 4, row % 32, row // 32, block % 4] = scales[row, block]
    return atoms


@good("blackwell", "100a")
def mma_mxf8(d: Device, m: Module, limits: Limits | None) -> Any:
    (a, b), (x, y) = _fp8_pair(128, 128)
    scales = [integers(7, 120, 132, 128, 4).astype(np.uint8), integers(8, 120, 132, 64, 4).astype(np.uint8)]
    r, out = _scaled(d, m, limits, "mma_mxf8", (a, b, scales[0], scales[1]))
    wide = [np.repeat(2.0 ** (s.astype(np.float64) - 127), 32, axis=1) for s in scales]
    expected = (x * wide[0]) @ (y * wide[1]).T
    return r, lambda: [(d.array(out), expected, 1e-4 * float(np.abs(expected).max()))]


@good("blackwell", "100a")
def mma_nvf4(d: Device, m: Module, limits: Limits | None) -> Any:
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    codes = [integers(s, 0, 16, rows, 256).astype(np.uint8) for s, rows in ((1, 128), (2, 64))]
    packed = [c[:, ::2] | c[:, 1::2] << 4 for c in codes]
    scales = [integers(s, 0, 120, rows, 16).astype(np.uint8) for s, rows in ((3, 128), (4, 64))]
    r, out = _scaled(d, m, limits, "mma_nvf4", (packed[0], packed[1], scales[0], scales[1]))
    left, right = (values[c] * np.repeat(E4M3[s].astype(np.float64), 16, axis=1)
                   for c, s in zip(codes, scales, strict=True))  # fmt: skip
    expected = left @ right.T
    return r, lambda: [(d.array(out), expected, 1e-4 * float(np.abs(expected).max()))]


@good("launch_control", "100a")
def steal_tiles(d: Device, m: Module, limits: Limits | None) -> Any:
    """Three dimensions; a quarter of the twelve blocks begins, the others are taken over."""
    x = integers(1, -1000, 1000, 12, 256)
    out, begun = d.upload(np.zeros(12, np.int32)), d.upload(np.zeros(1, np.int32))
    r = d.launch(m, "steal_tiles", (3, 2, 2), 256, d.upload(x), out, begun, limits=limits)
    return r, lambda: [(d.array(out), x.sum(axis=1), 0), (d.array(begun), np.array([3]), 0)]


@good("launch_control", "100a")
def steal_clusters(d: Device, m: Module, limits: Limits | None) -> Any:
    """Six clusters of two by two; two begin and take over the others in turn."""
    out = d.upload(np.zeros((4, 6), np.int32))
    r = d.launch(m, "steal_clusters", (6, 4), 32, out, cluster=(2, 2, 1), limits=limits)
    workers = np.array([[1, 2, 1], [2, 1, 2]])
    return r, lambda: [(d.array(out), np.kron(workers, np.ones((2, 2), int)), 0)]


@good("launch_control_library", "100a")
def steal_by_library(d: Device, m: Module, limits: Limits | None) -> Any:
    """A kernel that nobody here wrote: six of 24 blocks begin and take over the others in turn."""
    out = d.upload(np.zeros((24, 64), np.int32))
    r = d.launch(m, "steal_by_library", (4, 3, 2), 64, out, limits=limits)
    return r, lambda: [(d.array(out), np.repeat(np.arange(24) % 6 + 1, 64), 0)]


@good("hopper")
def tensormap_replace(d: Device, m: Module, limits: Limits | None) -> Any:
    x = np.arange(2048, dtype=np.float32).reshape(64, 32)
    px, out = d.upload(x), d.upload(np.zeros((16, 32), np.float32))
    tensor = d.tile_map(px, "f32", (16, 32), (16, 32), "none")
    scratch = d.upload(np.zeros(128, np.uint8))
    r = d.launch(m, "tensormap_replace", 1, 32, tensor, px + 16 * 128, scratch, out, limits=limits)
    expected = x[16:32].copy()
    expected[10:] = 0
    return r, lambda: [(d.array(out), expected, 0)]
