"""wgmma of every N and every layout, and its descriptors."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptxgym.devices.simulator.layouts import decode_sm90
from tests.corpus.kernels import from_bf16, numbers, to_bf16
from tests.knowledge.cases import HOPPER, Bench, Outcome, case

COMMON = "wgmma_fence wgmma_mma_async wgmma_commit_group wgmma_wait_group wgmma_row wgmma_column"


def _product(b: Bench, n: int) -> Outcome:
    left, right = to_bf16(numbers(1, 64, 64)), to_bf16(numbers(2, n, 64))
    out = b.empty((64, n), np.float32)
    b.launch(1, 128, b.give(left), b.give(right), out)
    expected = from_bf16(left).astype(np.float64) @ from_bf16(right).astype(np.float64).T
    return [(b[out], expected, 1e-4)]


def _register(kernel: str, n: int, covers: str) -> None:
    # ptxas may end a group before the last product with a wait, so only the product's own shape is asked for.
    sass = rf"HGMMA\.64x{n}x16\.F32\.BF16 WARPGROUP\.ARRIVE WARPGROUP\.DEPBAR"
    case("wgmma", kernel, covers, sass, HOPPER)(partial(_product, n=n))


for _n in range(8, 257, 8):
    _register(f"ss_{_n}", _n, f"{COMMON} wgmma_descriptor_k_major")
    _register(f"rs_{_n}", _n, f"{COMMON} wgmma_a_operand wgmma_descriptor_k_major")
for _swizzle in ("B128", "B64", "B32", "NONE"):
    for _kernel in ("ss_{}_k_k", "ss_{}_k_mn", "ss_{}_mn_k", "ss_{}_mn_mn", "rs_{}_mn"):
        _maker = "wgmma_descriptor" if _swizzle == "NONE" else "wgmma_descriptor_k_major wgmma_descriptor_mn_major"
        _register(_kernel.format(_swizzle), 96, f"{COMMON} {_maker}")


@case("wgmma", "descriptors", "wgmma_descriptor", "", HOPPER)
def descriptors(b: Bench) -> Outcome:
    """Every swizzle, with distances over their whole range, as the simulator decodes them."""
    distances = [16 << i for i in range(14)]
    out, start = b.empty((4, 14, 14), np.uint64), b.empty(1, np.uint32)
    b.launch(1, 1, out, start, shared=4096)
    decoded = [decode_sm90(int(bits)) for bits in b[out].reshape(-1)]
    place = int(b[start][0])
    expected = [
        (place, leading, stride, 0, mode)
        for mode in ("none", "32B", "64B", "128B")
        for leading in distances
        for stride in distances
    ]
    got = [(d.start, d.leading, d.stride, d.base_offset, d.swizzle) for d in decoded]
    return [(np.array([g == e for g, e in zip(got, expected, strict=True)]), np.ones(len(got)), 0)]
