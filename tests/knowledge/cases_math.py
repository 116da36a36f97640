"""Arithmetic, ldmatrix and stmatrix, swizzles."""

from __future__ import annotations

import numpy as np

from tests.corpus.kernels import numbers, to_bf16
from tests.knowledge.cases import Array, Bench, Outcome, case


@case("math", "functions", "ex2_approx lg2_approx cvt_bf16x2 quad_max quad_sum",
      r"MUFU\.EX2 MUFU\.LG2 F2FP\.BF16 SHFL\.BFLY")  # fmt: skip
def functions(b: Bench) -> Outcome:
    x = numbers(1, 64) * 4
    exp2s, logs, most, sums = (b.empty(64, np.float32) for _ in range(4))
    pairs = b.empty(64, np.uint32)
    b.launch(1, 64, b.give(x), exp2s, logs, pairs, most, sums)
    neighbour = x.reshape(32, 2)[:, ::-1].reshape(64)
    expected = to_bf16(x).astype(np.uint32) | to_bf16(neighbour).astype(np.uint32) << 16
    quads = x.reshape(16, 4)
    return [
        (b[exp2s] / np.exp2(x), np.ones(64), 1e-6),
        (b[logs], np.log2(np.abs(x)), 1e-6),
        (b[pairs], expected, 0),
        (b[most], np.repeat(quads.max(1), 4), 0),
        (b[sums], np.repeat(quads.sum(1, dtype=np.float64), 4), 1e-5),
    ]


def _fragments(matrices: Array) -> Array:
    """Registers of the lanes: [matrices, 8, 8] halves to [matrices, 32] words."""
    return np.ascontiguousarray(matrices.reshape(-1, 32, 2)).view(np.uint32).reshape(-1, 32)


@case("math", "load_matrices",
      "ldmatrix_x1 ldmatrix_x2 ldmatrix_x4 ldmatrix_x1_trans ldmatrix_x2_trans ldmatrix_x4_trans",
      " ".join(rf"LDSM\.16\.{m}{n}" for m in ("M88", "MT88") for n in ("$", r"\.2", r"\.4")))  # fmt: skip
def load_matrices(b: Bench) -> Outcome:
    matrices = np.random.default_rng(2).integers(0, 65536, (4, 8, 8)).astype(np.uint16)
    out = b.empty((14, 32), np.uint32)
    b.launch(1, 32, b.give(matrices), out)
    plain, turned = _fragments(matrices), _fragments(matrices.transpose(0, 2, 1))
    rows = [each[:n] for each in (plain, turned) for n in (1, 2, 4)]
    return [(b[out], np.concatenate(rows), 0)]


@case("math", "store_matrices",
      "stmatrix_x1 stmatrix_x2 stmatrix_x4 stmatrix_x1_trans stmatrix_x2_trans stmatrix_x4_trans",
      " ".join(rf"STSM\.16\.{m}{n}" for m in ("M88", "MT88") for n in ("$", r"\.2", r"\.4")))  # fmt: skip
def store_matrices(b: Bench) -> Outcome:
    matrices = np.random.default_rng(3).integers(0, 65536, (4, 8, 8)).astype(np.uint16)
    out = b.empty((6, 4, 8, 8), np.uint16)
    b.launch(1, 32, b.give(_fragments(matrices)), out)
    expected = np.zeros((6, 4, 8, 8), np.uint16)
    for i, each in enumerate((matrices, matrices.transpose(0, 2, 1))):
        for j, n in enumerate((1, 2, 4)):
            expected[3 * i + j, :n] = each[:n]
    return [(b[out], expected, 0)]


def swizzled(row: int, byte: int, span: int) -> int:
    """The place of a byte, from the description: chunks permuted by the row, over as many rows as it takes."""
    chunks = span // 16
    rows_per_line = 128 // span  # the pattern advances once per 128 bytes
    chunk = byte // 16 ^ (row // rows_per_line) % chunks
    return row * span + chunk * 16 + byte % 16


@case("math", "offsets", "shared_address swizzled_offset step_k_major step_mn_major")
def offsets(b: Bench) -> Outcome:
    spans = (16, 32, 64, 128)
    expected: list[int] = []
    for span in spans:
        expected += [swizzled(row, byte, span) for row in range(64) for byte in range(span)]
        expected += [i * 16 * span // 16 for i in range(8)]  # sixteen rows, in units of 16 bytes
    for i in range(8):
        for span in spans[1:]:
            slab, column = divmod(i * 32, span)  # bytes of the first column of step i
            expected.append((slab * 4096 + column) // 16)
    out, address = b.empty(len(expected)), b.empty(1)
    b.launch(1, 1, out, address)
    return [(b[out], expected, 0), (b[address], [4], 0)]
