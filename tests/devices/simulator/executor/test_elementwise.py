"""Every elementwise row of the table against an independent formula."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from ptxgym.devices.simulator import instructions
from ptxgym.devices.simulator.findings import SourceLine
from ptxgym.devices.simulator.table import TABLE
from ptxgym.devices.simulator.types import SIZES
from tests.devices.simulator.executor.exact import FORMATS, NAN, decode, signed
from tests.devices.simulator.executor.one_instruction import execute
from tests.devices.simulator.executor.references import CASES, Case

instructions.load()
COUNT = 600

_SPECIAL_FLOATS = {
    2: [0, 0x8000, 1, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7BFF, 0x0400, 0x3F80, 0x7F80, 0xFF80, 0x7FC0],
    4: [0, 0x80000000, 1, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0x00800000,
        0x007FFFFF, 0x4B800001, 0x3F000000, 0x477FF000],
    8: [0, 1 << 63, 1, 0x3FF0000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
        0x7FEFFFFFFFFFFFFF, 0x0010000000000000, 0x41EFFFFFFFF00000, 0x43E0000000000000],
}  # fmt: skip


def operand_bits(kind: str, rng: np.random.Generator, modulus: int | None) -> np.ndarray[Any, Any]:
    """Random bits, edge cases, and (for floats) numbers of ordinary size."""
    size = SIZES[kind]
    bits = rng.integers(0, 1 << (8 * size), COUNT, dtype=f"u{size}")
    if kind == "pred":
        return bits & 1
    width = 8 * size
    edges = [0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1, 2, 31, 32, 33]
    edges += _SPECIAL_FLOATS.get(size, []) if "f" in kind else []
    bits[: len(edges) * 12] = rng.permutation(np.resize(np.array(edges, f"u{size}"), len(edges) * 12))
    if "f" in kind and kind in FORMATS:
        ordinary = rng.standard_normal(COUNT // 2) * 2.0 ** rng.integers(-9, 9, COUNT // 2)
        if kind == "bf16":
            bits[-len(ordinary) :] = ordinary.astype(np.float32).view(np.uint32) >> 16
        else:
            bits[-len(ordinary) :] = ordinary.astype(f"f{size}").view(f"u{size}")
    return bits % modulus if modulus else bits


def agrees(got: int, expected: int | str, test: Case) -> bool:
    if expected == "skip":
        return True
    form = FORMATS.get(test.result)
    if expected == NAN:
        assert form is not None
        return decode(got, form)[1] == NAN
    if got == expected or (form is None and test.tolerance < 0 and _close_halves(got, int(expected))):
        return True
    if form is None:
        return False
    x, y = signed(got, form), signed(int(expected), form)
    if isinstance(x, str) or isinstance(y, str):
        return x == y
    if x == y == 0 and test.opcode.startswith(("min", "max")):
        return True  # which zero wins is not modelled
    if test.tolerance == 0:
        return False
    return abs(float(x) - float(y)) <= max(test.tolerance * abs(float(y)), test.tolerance)


def _close_halves(got: int, expected: int) -> bool:
    return all(abs((got >> s & 0x7FFF) - (expected >> s & 0x7FFF)) <= 1 for s in (0, 16))


@pytest.mark.parametrize("test", CASES, ids=[c.text.split(" ")[0] for c in CASES])
def test_an_instruction_computes_its_formula(test: Case) -> None:
    rng = np.random.default_rng(zlib.crc32(test.text.encode()))
    small = test.small or {}
    inputs = [(kind, operand_bits(kind, rng, small.get(i))) for i, kind in enumerate(test.operands)]
    got = execute(test.text, test.result, inputs, architecture=test.architecture)
    columns = [bits.tolist() for _, bits in inputs]
    wrong = []
    for position, values in enumerate(zip(*columns, strict=True)):
        expected = test.reference(*values)
        if not agrees(int(got[position]), expected, test):
            wrong.append(([hex(v) for v in values], hex(int(got[position])), expected))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:4]}"


def test_every_elementwise_row_has_a_case() -> None:
    covered = set()
    for test in CASES:
        covered.add(id(TABLE.find(test.opcode, test.architecture, SourceLine()).row))
    missing = [f"{r.opcode} ({' '.join(r.types)})" for r in TABLE.rows() if r.signature and id(r) not in covered]
    assert missing == []


@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_bf16_rounding_is_exhaustively_right(mode: str) -> None:
    """Every bf16 value, its neighbourhood, and every midpoint between two of them."""
    import torch

    high = np.arange(1 << 16, dtype=np.uint32) << 16
    bits = np.concatenate([high | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    got = execute(f"cvt.{mode}.bf16.f32 {{d}}, {{0}}", "bf16", [("f32", bits)])
    finite = ~np.isnan(bits.view(np.float32))
    if mode == "rn":
        reference = torch.from_numpy(bits.view(np.float32)).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    else:
        reference = (bits >> 16).astype(np.uint16)
    assert (got[finite] == reference[finite]).all()
    assert (got[~finite] == 0x7FFF).all()


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_fp8_codes_survive_a_round_trip(name: str) -> None:
    codes = np.arange(256, dtype=np.uint16)
    halves = execute(f"cvt.rn.f16x2.{name}x2 {{d}}, {{0}}", "b32", [("b16", codes | codes << 8)])
    values = (halves & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float32)
    back = execute(f"cvt.rn.satfinite.{name}x2.f32 {{d}}, {{0}}, {{0}}", "b16", [("f32", values.view(np.uint32))])
    finite = np.isfinite(values)
    assert (back[finite] & 0xFF == codes[finite]).all()
