"""The fifth generation's instructions, as nvcc emits them, against formulas written element by element."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptxgym.devices.simulator.machine import LaunchReport
from ptxgym.devices.simulator.module import Module, load_module
from ptxgym.devices.simulator.tensor_map import TensorMapFields, encode
from tests.corpus.harness import Device, compile_ptx, nvcc

Array = Any
COLUMNS = 512
SOURCE = Path(__file__).parent / "cuda" / "tcgen05.cu"

pytestmark = pytest.mark.skipif(nvcc() is None, reason="needs nvcc")


@pytest.fixture(scope="module")
def module() -> Module:
    return load_module(compile_ptx(SOURCE.read_text(), "100a"))


def words(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(0, 1 << 32, shape, np.uint32)


def test_ptxas_accepts_every_form(tmp_path: Path) -> None:
    text = tmp_path / "tcgen05.ptx"
    text.write_text(compile_ptx(SOURCE.read_text(), "100a"))
    ptxas = Path(nvcc() or "").with_name("ptxas")
    done = subprocess.run([ptxas, "-arch=sm_100a", "-o", tmp_path / "out", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -- formats -------------------------------------------------------------------------------------------
FORMATS = {"e4m3": (0, 4, 3), "e5m2": (1, 5, 2), "e2m3": (3, 2, 3), "e3m2": (4, 3, 2), "e2m1": (5, 2, 1)}
"""Code in the instruction descriptor, exponent bits, mantissa bits."""


def value(code: int, exponent_bits: int, mantissa_bits: int) -> float:
    """A small float without the special values that e4m3 and e5m2 have at the top."""
    bias = (1 << (exponent_bits - 1)) - 1
    mantissa, exponent = code % (1 << mantissa_bits), code >> mantissa_bits & ((1 << exponent_bits) - 1)
    fraction = mantissa / (1 << mantissa_bits) + (exponent > 0)
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) & 1 else 1.0
    return float(sign * fraction * 2.0 ** (max(exponent, 1) - bias))


def numbers(seed: int, kind: str, rows: int, k: int) -> tuple[Array, Array]:
    """Random codes of a format, of moderate size, and what they stand for."""
    _, exponent_bits, mantissa_bits = FORMATS[kind]
    codes = np.random.default_rng(seed).integers(0, 1 << (1 + exponent_bits + mantissa_bits), (rows, k))
    if exponent_bits > 3:  # far from infinity and NaN
        top = 1 << (exponent_bits + mantissa_bits - 1)
        codes = np.where(codes & top, codes & ~(top >> 1), codes)
    table = np.array([value(c, exponent_bits, mantissa_bits) for c in range(256)])
    return codes.astype(np.uint8), table[codes]


def grouped(codes: Array, bits: int) -> Array:
    """Sixteen codes packed into the low bits of 128, as bytes; the rest is filled with ones."""
    rows = []
    for row in codes.tolist():
        for start in range(0, len(row), 16):
            packed = sum(c << bits * i for i, c in enumerate(row[start : start + 16]))
            rows += (packed | ((1 << (128 - 16 * bits)) - 1) << 16 * bits).to_bytes(16, "little")
    return np.array(rows, np.uint8).reshape(codes.shape)


def stored(codes: Array, kind: str) -> Array:
    """Bytes of a row in shared memory."""
    bits = 1 + FORMATS[kind][1] + FORMATS[kind][2]
    return codes if bits == 8 else grouped(codes, bits)


# -- shared memory and tensor memory -------------------------------------------------------------------


def k_major(tile: Array) -> Array:
    """[rows, bytes] in the canonical layout without swizzle, 8-row groups 128 bytes times the chunks apart."""
    rows, width = tile.shape
    image = np.zeros(tile.size, np.uint8)
    for row in range(rows):
        for chunk in range(width // 16):
            at = row // 8 * 8 * width + chunk * 128 + row % 8 * 16
            image[at : at + 16] = tile[row, 16 * chunk : 16 * chunk + 16]
    return image


def descriptor(start: int, width: int) -> int:
    """Of such a tile ``width`` bytes wide."""
    return start >> 4 | 128 >> 4 << 16 | 8 * width >> 4 << 32 | 1 << 46


@dataclass
class Trial:
    """What a kernel of ``tcgen05.cu`` gets; addresses are lane << 16 | column."""

    image: Array = field(default_factory=lambda: np.zeros(16, np.uint8))
    before: Array = field(default_factory=lambda: words(99, 1, 128, COLUMNS))
    a: int = 0
    b: int = 0
    d: int = 0
    idesc: int = 0
    enable: bool = False
    scale_a: int = 0
    scale_b: int = 0
    a_tmem: int = 0
    mask: tuple[int, ...] = (0,) * 8

    def run(self, module: Module, kernel: str) -> Array:
        """Tensor memory afterwards, [CTAs, lanes, columns]."""
        report, after = self.launch(module, kernel)
        assert report.error is None
        assert not report.findings
        return after

    def launch(self, module: Module, kernel: str) -> tuple[LaunchReport, Array]:
        device = Device("100a")
        ctas = len(self.before)
        image = np.zeros((ctas, -(-self.image.size // ctas // 16) * 16), np.uint8)
        image[...] = self.image.reshape(ctas, -1)
        out = device.upload(np.zeros_like(self.before))
        longs = np.array([self.a, self.b], np.uint64).view(np.uint32)
        rest = (self.d, self.idesc, self.enable, self.scale_a, self.scale_b, self.a_tmem, *self.mask)
        operands = np.concatenate([longs, np.array(rest, np.uint32)])
        report = device.launch(
            module, kernel, ctas, 128, device.upload(image), image.shape[1] // 16, device.upload(self.before), out,
            device.upload(operands), shared=image.shape[1], cluster=(ctas, 1, 1),
        )  # fmt: skip
        return report, device.array(out)


def product(
    a: Array, b: Array, idesc: int, *, share: int = 1, **more: Any
) -> Trial:  # fmt: skip
    """A trial whose shared memory holds the rows of A (bytes) and then those of B, split between CTAs."""
    parts = zip(np.split(a, share), np.split(b, share), strict=True)
    image = np.concatenate([k_major(tile) for part in parts for tile in part])
    width = a.shape[1]
    return Trial(image, a=descriptor(0, width), b=descriptor(a.size // share, width), idesc=idesc, **more)


def shape(m: int, n: int, result: int = 1, a: int = 0, b: int = 0) -> int:
    return result << 4 | a << 7 | b << 10 | n >> 3 << 17 | m >> 4 << 24


def halves(seed: int, rows: int, k: int = 16) -> tuple[Array, Array]:
    """f16 rows as bytes, and their values."""
    x = np.random.default_rng(seed).integers(-64, 64, (rows, k)).astype(np.float16) / np.float16(8)
    return x.view(np.uint8), x.astype(np.float64)


def floats(tensor: Array) -> Array:
    return tensor.view(np.float32)


# -- movement ------------------------------------------------------------------------------------------


def place(kind: str, t: int, r: int) -> tuple[int, int]:
    """Row, and column in units of 32 bits, of register r of thread t: figures 183 to 187 of PTX ISA 9.1."""
    if kind == "32x32b":
        return t, r
    if kind == "16x64b":
        return t // 4 + t % 2 * 8, 2 * r + t % 4 // 2
    if kind == "16x128b":
        return t // 4 + r % 2 * 8, r // 2 * 4 + t % 4
    if kind == "16x256b":
        return t // 4 + r // 2 * 8, t % 4 * 2 + r % 2
    return t % 16, r


@pytest.mark.parametrize("kind", ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"])
def test_packing_joins_the_low_halves_of_two_columns(module: Module, kind: str) -> None:
    before, values = words(1, 128, 64), words(2, 128, 4)
    device = Device("100a")
    loaded, after = device.upload(np.zeros((128, 4), np.uint32)), device.upload(np.zeros((128, 64), np.uint32))
    report = device.launch(
        module, f"move_{kind}", 1, 128, device.upload(before), device.upload(values), loaded, after
    )  # fmt: skip
    assert not report.findings
    expected, first = before.copy(), 16 if kind in ("16x64b", "16x256b") else 0
    for thread in range(128):
        for r in range(4):
            row, column = place(kind, thread % 32, r)
            lane = thread // 32 * 32 + first + row
            at = 2 * column + (12 if kind == "16x32bx2" and thread % 32 >= 16 else 0)
            low, high = before[lane, at] & 0xFFFF, before[lane, at + 1] & 0xFFFF
            assert device.array(loaded)[thread, r] == low | high << 16
            expected[lane, 32 + at], expected[lane, 33 + at] = values[thread, r] & 0xFFFF, values[thread, r] >> 16
    assert (device.array(after) == expected).all()


def shifted(table: Array, column: int) -> Array:
    result = table.copy()
    for lane in range(128):
        if lane % 32 != 31:
            result[lane, column : column + 8] = table[lane + 1, column : column + 8]
    return result


def test_shift_moves_eight_columns_down_within_each_quarter(module: Module) -> None:
    trial = Trial(d=64 << 16 | 40)
    assert (trial.run(module, "shift")[0] == shifted(trial.before[0], 40)).all()


def test_shift_of_a_pair_changes_both_ctas(module: Module) -> None:
    trial = Trial(np.zeros(32, np.uint8), words(3, 2, 128, COLUMNS), d=8)
    after = trial.run(module, "pair_shift")
    assert (after[0] == shifted(trial.before[0], 8)).all()
    assert (after[1] == shifted(trial.before[1], 8)).all()


def test_a_copy_of_four_rows_refreshes_the_last_lane_of_each_quarter(module: Module) -> None:
    rows = np.arange(128, dtype=np.uint8).reshape(4, 32)
    # Four rows of two chunks: row r of chunk c stands at 16 * r + 128 * c.
    image = np.zeros(256, np.uint8)
    for r in range(4):
        for c in range(2):
            image[128 * c + 16 * r : 128 * c + 16 * r + 16] = rows[r, 16 * c : 16 * c + 16]
    trial = Trial(image, a=descriptor(0, 32), d=24, a_tmem=31 << 16 | 24)
    expected = shifted(trial.before[0], 24)
    expected[31::32, 24:32] = rows.view(np.uint32)
    assert (trial.run(module, "shift_and_refresh")[0] == expected).all()


@pytest.mark.parametrize(("kernel", "bits", "shift", "width"), [("unpack_4bit", 4, 2, 32), ("unpack_6bit", 6, 0, 16)])
def test_a_copy_unpacks_narrow_elements_into_bytes(
    module: Module, kernel: str, bits: int, shift: int, width: int
) -> None:
    codes = np.random.default_rng(5).integers(0, 1 << bits, (128, width)).astype(np.uint8)
    trial = Trial(k_major(grouped(codes, bits)), a=descriptor(0, width), d=16)
    expected = trial.before[0].copy()
    expected[:, 16 : 16 + width // 4] = (codes << shift).astype(np.uint8).view(np.uint32)
    assert (trial.run(module, kernel)[0] == expected).all()


# -- products of narrow types --------------------------------------------------------------------------


@pytest.mark.parametrize("right", FORMATS)
@pytest.mark.parametrize("left", FORMATS)
def test_every_pair_of_narrow_types_multiplies(module: Module, left: str, right: str) -> None:
    (a, x), (b, y) = numbers(1, left, 128, 32), numbers(2, right, 24, 32)
    trial = product(stored(a, left), stored(b, right), shape(128, 24, 1, FORMATS[left][0], FORMATS[right][0]))
    after = trial.run(module, "f8f6f4")[0]
    expected = x @ y.T
    assert np.allclose(floats(after[:, :24]), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert (after[:, 24:] == trial.before[0][:, 24:]).all()


def containers(codes: Array, kind: str) -> Array:
    """Bytes of tensor memory, ones where the format leaves bits free."""
    if kind == "e2m1":
        return (codes << 2 | 0b11000011).astype(np.uint8)
    return (codes | 0b11000000).astype(np.uint8) if kind in ("e2m3", "e3m2") else codes


@pytest.mark.parametrize("kind", FORMATS)
def test_narrow_rows_of_a_can_stand_in_tensor_memory(module: Module, kind: str) -> None:
    (a, x), (b, y) = numbers(3, kind, 128, 32), numbers(4, "e4m3", 16, 32)
    trial = product(b, b, shape(128, 16, 1, FORMATS[kind][0]), a_tmem=200)
    trial.before[0][:, 200:208] = containers(a, kind).view(np.uint32)
    assert np.allclose(floats(trial.run(module, "f8f6f4_ts")[0][:, :16]), x @ y.T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("side", ["a", "b"])
def test_bytes_can_be_contiguous_along_m_or_n(module: Module, side: str) -> None:
    (a, x), (b, y) = numbers(5, "e2m1", 128, 32), numbers(6, "e3m2", 32, 32)
    rows = {"a": stored(a, "e2m1"), "b": stored(b, "e3m2")}
    images = {name: k_major(tile) for name, tile in rows.items()}
    codes = {"a": (a, "e2m1"), "b": (b, "e3m2")}[side]
    # Chunks of sixteen rows, 512 bytes apart; 8 values of k 16 bytes apart in each, the next 8 128 bytes on.
    across = stored(np.ascontiguousarray(codes[0].T), codes[1])
    images[side] = np.concatenate([
        across[k, 16 * c : 16 * c + 16] for c in range(across.shape[1] // 16) for k in range(32)
    ])  # fmt: skip
    transposed = 128 >> 4 << 16 | 512 >> 4 << 32 | 1 << 46
    trial = Trial(np.concatenate([images["a"], images["b"]]), a=descriptor(0, 32), b=descriptor(4096, 32))
    trial.idesc = shape(128, 32, 1, 5, 4) | (1 << 15 if side == "a" else 1 << 16)
    if side == "a":
        trial.a = transposed
    else:
        trial.b = transposed | 4096 >> 4
    assert np.allclose(floats(trial.run(module, "f8f6f4")[0][:, :32]), x @ y.T, rtol=1e-5, atol=1e-5)


def test_tf32_can_be_contiguous_along_m_in_atoms_of_32_bytes(module: Module) -> None:
    rng = np.random.default_rng(7)
    x, y = (rng.integers(-64, 64, (rows, 8)).astype(np.float32) / 4 for rows in (128, 8))
    image = np.zeros(4096 + 256, np.uint8)
    for m in range(128):
        for k in range(8):
            # 32 values of m make 128 bytes; four values of k a pattern of 512, in which 32-byte atoms are permuted.
            at = m // 32 * 512 + k // 4 * 2048 + k % 4 * 128 + (m % 32 // 8 ^ k % 4) * 32 + m % 8 * 4
            image[at : at + 4] = x[m, k : k + 1].view(np.uint8)
    image[4096:] = k_major(y.view(np.uint8))
    trial = Trial(image, a=512 >> 4 << 16 | 2048 >> 4 << 32 | 1 << 46 | 1 << 61, b=descriptor(4096, 32))
    trial.idesc = shape(128, 8, 1, 2, 2) | 1 << 15
    assert np.allclose(floats(trial.run(module, "tf32")[0][:, :8]), x @ y.T)


# -- block scaling -------------------------------------------------------------------------------------


def scale_words(scales: Array, seed: int) -> Array:
    """[rows, up to 4] scale bytes of one instruction as 32 lanes of words, the other bytes random."""
    rows, count = scales.shape
    table = words(seed, 32, -(-rows // 32)).view(np.uint8).reshape(32, -1, 4)
    for row in range(rows):
        table[row % 32, row // 32, :count] = scales[row]
    return table


def scaled_trial(left: Array, right: Array, idesc: int, scales: list[Array], which: tuple[int, int]) -> Trial:
    """Scales in columns 300 and 400, the same in every quarter, from byte ``which`` of their words."""
    trial = product(left, right, idesc | which[0] << 29 | which[1] << 4, scale_a=300, scale_b=400)
    for column, table, first in zip((300, 400), scales, which, strict=True):
        moved = np.roll(scale_words(table, column), first, axis=2)
        packed = np.ascontiguousarray(moved).view(np.uint32)[..., 0]
        trial.before[0][:, column : column + packed.shape[1]] = np.tile(packed, (4, 1))
    return trial


def powers(seed: int, *shape_: int) -> tuple[Array, Array]:
    """ue8m0 scales and their values."""
    codes = np.random.default_rng(seed).integers(122, 132, shape_).astype(np.uint8)
    return codes, 2.0 ** (codes.astype(np.float64) - 127)


def close(after: Array, expected: Array) -> bool:
    return bool(np.allclose(floats(after), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max()))


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize(("left", "right"), [("e2m1", "e3m2"), ("e2m3", "e4m3"), ("e5m2", "e2m1")])
def test_mxf8f6f4_scales_rows_by_the_chosen_byte(module: Module, left: str, right: str, which: int) -> None:
    n = 168  # more columns of scales than A has
    (a, x), (b, y) = numbers(1, left, 128, 32), numbers(2, right, n, 32)
    (sa, p), (sb, q) = powers(3, 128, 1), powers(4, n, 1)
    idesc = FORMATS[left][0] << 7 | FORMATS[right][0] << 10 | n >> 3 << 17 | 1 << 23 | 1 << 27
    trial = scaled_trial(stored(a, left), stored(b, right), idesc, [sa, sb], (which, 3 - which))
    assert close(trial.run(module, "mxf8f6f4")[0][:, :n], (x * p) @ (y * q).T)


def test_scaled_a_can_stand_in_tensor_memory(module: Module) -> None:
    (a, x), (b, y), (sa, p), (sb, q) = (
        numbers(1, "e3m2", 128, 32), numbers(2, "e2m1", 8, 32), powers(3, 128, 1), powers(4, 8, 1)
    )  # fmt: skip
    right = stored(b, "e2m1")
    trial = scaled_trial(right, right, 4 << 7 | 5 << 10 | 1 << 17 | 1 << 23 | 1 << 27, [sa, sb], (0, 0))
    trial.a_tmem = 200
    trial.before[0][:, 200:208] = containers(a, "e3m2").view(np.uint32)
    assert close(trial.run(module, "mxf8f6f4_ts")[0][:, :8], (x * p) @ (y * q).T)


def nibbles(codes: Array) -> Array:
    return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)


FOUR_BIT = 1 << 7 | 1 << 10 | 40 >> 3 << 17 | 1 << 27


@pytest.mark.parametrize("kernel", ["mxf4", "mxf4_ts", "mxf4nvf4_2x"])
@pytest.mark.parametrize("which", [(0, 2), (2, 0)])
def test_two_scales_for_64_elements(module: Module, kernel: str, which: tuple[int, int]) -> None:
    (a, x), (b, y) = numbers(1, "e2m1", 128, 64), numbers(2, "e2m1", 40, 64)
    (sa, p), (sb, q) = powers(3, 128, 2), powers(4, 40, 2)
    trial = scaled_trial(nibbles(a), nibbles(b), FOUR_BIT | 1 << 23, [sa, sb], which)
    trial.a_tmem = 200
    trial.before[0][:, 200:208] = nibbles(a).view(np.uint32)
    expected = (x * np.repeat(p, 32, axis=1)) @ (y * np.repeat(q, 32, axis=1)).T
    assert close(trial.run(module, kernel)[0][:, :40], expected)


@pytest.mark.parametrize("powers_of_two", [True, False])
def test_four_scales_for_64_elements(module: Module, powers_of_two: bool) -> None:
    (a, x), (b, y) = numbers(1, "e2m1", 128, 64), numbers(2, "e2m1", 40, 64)
    if powers_of_two:
        (sa, p), (sb, q) = powers(3, 128, 4), powers(4, 40, 4)
    else:
        (sa, p), (sb, q) = ((np.abs(c.astype(np.int8)).astype(np.uint8) & 0x7F, np.abs(v)) for c, v in (
            numbers(3, "e4m3", 128, 4), numbers(4, "e4m3", 40, 4)))  # fmt: skip
        sa, sb = (numbers(s, "e4m3", r, 4)[0] & 0x7F for s, r in ((3, 128), (4, 40)))
    trial = scaled_trial(nibbles(a), nibbles(b), FOUR_BIT | int(powers_of_two) << 23, [sa, sb], (0, 0))
    expected = (x * np.repeat(p, 16, axis=1)) @ (y * np.repeat(q, 16, axis=1)).T
    assert close(trial.run(module, "mxf4nvf4_4x")[0][:, :40], expected)


def test_every_quarter_uses_its_own_copy_of_the_scales(module: Module) -> None:
    (a, x), (b, y) = numbers(1, "e2m1", 128, 32), numbers(2, "e2m1", 8, 32)
    ones = np.full((128, 1), 127, np.uint8)
    trial = scaled_trial(stored(a, "e2m1"), stored(b, "e2m1"), 5 << 7 | 5 << 10 | 1 << 17 | 1 << 23 | 1 << 27,
                         [ones, ones[:8]], (0, 0))  # fmt: skip
    trial.before[0][64:96, 400] += 1  # B counts twice in the third quarter
    factor = np.where(np.arange(128) // 32 == 2, 2.0, 1.0)[:, None]
    assert close(trial.run(module, "mxf8f6f4")[0][:, :8], x @ y.T * factor)


# -- what becomes of D ---------------------------------------------------------------------------------


@pytest.mark.parametrize("enable", [False, True])
def test_f16_accumulators_fill_the_low_half_of_their_words(module: Module, enable: bool) -> None:
    (a, x), (b, y) = halves(1, 128), halves(2, 16)
    trial = product(a, b, shape(128, 16, 0), enable=enable)
    old = np.random.default_rng(3).standard_normal((128, 16)).astype(np.float16)
    trial.before[0][:, :16] = old.view(np.uint16) | np.uint32(0xABCD0000)
    after = trial.run(module, "f16")[0]
    expected = (x @ y.T + (old.astype(np.float64) if enable else 0)).astype(np.float16)
    assert (after[:, :16] == expected.view(np.uint16)).all()
    assert (after[:, 16:] == trial.before[0][:, 16:]).all()


def test_f16_accumulators_of_narrow_types_overflow_to_infinity(module: Module) -> None:
    a, b = np.full((64, 32), 0x78, np.uint8), np.full((8, 32), 0x78, np.uint8)  # 256 in e4m3
    after = product(a, b, shape(64, 8, 0)).run(module, "f8f6f4")[0]
    assert (after[np.arange(64) // 16 * 32 + np.arange(64) % 16, :8] == 0x7C00).all()


MASK = (0xF0F00FF1, 0, 0xFFFFFFFF, 0x80000000)


def off(mask: tuple[int, ...]) -> Array:
    return np.array([mask[lane // 32] >> lane % 32 & 1 for lane in range(32 * len(mask))], bool)


@pytest.mark.parametrize(("kernel", "scale"), [("f16_masked", 1.0), ("f16_masked_scaled", 0.5), ("f16_scaled", 0.125)])
def test_lane_masks_and_input_scales(module: Module, kernel: str, scale: float) -> None:
    (a, x), (b, y) = halves(1, 128), halves(2, 16)
    trial = product(a, b, shape(128, 16), enable=True, d=32, mask=(*MASK, 0, 0, 0, 0))
    old = np.random.default_rng(3).integers(-99, 99, (128, 16)).astype(np.float32)
    trial.before[0][:, 32:48] = old.view(np.uint32)
    expected = floats(trial.before[0]).copy()
    lanes = np.flatnonzero(~off(MASK)) if "masked" in kernel else np.arange(128)
    expected[lanes, 32:48] = (x @ y.T + old * scale)[lanes]
    assert (trial.run(module, kernel)[0] == expected.view(np.uint32)).all()


def test_a_is_shifted_after_the_product(module: Module) -> None:
    (a, x), (b, y) = halves(1, 128), halves(2, 8)
    trial = product(b, b, shape(128, 8), a_tmem=100)
    trial.before[0][:, 100:108] = np.ascontiguousarray(a).view(np.uint32)
    after = trial.run(module, "f16_ashift")[0]
    assert np.allclose(floats(after[:, :8]), x @ y.T)
    assert (after[:, 8:] == shifted(trial.before[0], 100)[:, 8:]).all()


@pytest.mark.parametrize("saturate", [False, True])
def test_integer_sums_wrap_or_stop_at_their_ends(module: Module, saturate: bool) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, (rows, 32)).astype(np.int8) for rows in (128, 8))
    trial = product(a.view(np.uint8), b.view(np.uint8), shape(128, 8, 2, 1, 1) | int(saturate) << 3, enable=True)
    old = np.where(rng.integers(0, 2, (128, 8)), (1 << 31) - 9, -(1 << 31)).astype(np.int64)
    trial.before[0][:, :8] = (old & 0xFFFFFFFF).astype(np.uint32)
    total = a.astype(np.int64) @ b.astype(np.int64).T + old
    expected = np.clip(total, -(1 << 31), (1 << 31) - 1) if saturate else (total + (1 << 31)) % (1 << 32) - (1 << 31)
    assert (trial.run(module, "i8")[0][:, :8].view(np.int32) == expected).all()


def test_sixty_four_rows_can_begin_at_lane_16(module: Module) -> None:
    (a, x), (b, y) = halves(1, 64), halves(2, 8)
    trial = product(a, b, shape(64, 8), d=16 << 16)
    expected = floats(trial.before[0]).copy()
    for row in range(64):
        expected[row // 16 * 32 + 16 + row % 16, :8] = (x @ y.T)[row]
    assert (trial.run(module, "f16")[0] == expected.view(np.uint32)).all()


# -- where D is ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["ws_f16", "ws_f16_ts"])
@pytest.mark.parametrize("m", [32, 64, 128])
def test_weight_stationary_products_fill_all_lanes(module: Module, m: int, kernel: str) -> None:
    (a, x), (b, y) = halves(1, m), halves(2, 64)
    trial = product(a, b, shape(m, 64), a_tmem=200, enable=True)
    trial.before[0][:, :64] = np.float32(3).view(np.uint32)
    trial.before[0][:, 200:208] = np.tile(np.ascontiguousarray(a).view(np.uint32), (128 // m, 1))
    expected, width = floats(trial.before[0]).copy(), 64 * m // 128
    for row in range(m):
        for column in range(64):
            expected[row + column // width * m, column % width] = 3 + x[row] @ y[column]
    assert (trial.run(module, kernel)[0] == expected.view(np.uint32)).all()


@pytest.mark.parametrize(
    ("m", "starts", "firsts", "shift", "masks"),
    [
        (128, (0,), (0,), 0, ("0000111",)),
        (64, (0, 0), (1, 0), 0, ("1110000", "0000111")),
        (32, (0, 1, 2, 1), (1, 1, 0, 0), 2, ("1110000", "1100001", "0011100", "0001110")),
    ],
)
def test_zero_column_masks_are_those_of_the_isas_examples(
    module: Module, m: int, starts: tuple[int, ...], firsts: tuple[int, ...], shift: int, masks: tuple[str, ...]
) -> None:
    """Each mask repeats; column 0 first."""
    (a, x), (b, y) = halves(1, m), halves(2, 72)
    bits = 1 << 39 | 2 << 40 | 3 << 48 | shift << 56
    bits |= sum(s << 8 * i for i, s in enumerate(starts)) | sum(f << 32 + i for i, f in enumerate(firsts))
    trial = product(a, b, shape(m, 64), mask=(bits & 0xFFFFFFFF, bits >> 32, 0, 0, 0, 0, 0, 0))
    after, width = floats(trial.run(module, "ws_f16_zeros")[0]), 64 * m // 128
    for group, mask in enumerate(masks):
        for at in range(width):
            expected = np.zeros(m) if mask[at % 7] == "1" else x @ y[width * group + at + shift]
            assert (after[m * group : m * group + m, at] == expected).all()


def test_weight_stationary_integers(module: Module) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 256, (rows, 32)).astype(np.uint8) for rows in (32, 64))
    after = product(a, b, shape(32, 64, 2)).run(module, "ws_i8")[0].view(np.int32)
    total = a.astype(np.int64) @ b.astype(np.int64).T
    assert all((after[32 * q : 32 * q + 32, :16] == total[:, 16 * q : 16 * q + 16]).all() for q in range(4))


@pytest.mark.parametrize("m", [128, 256])
def test_a_pair_masks_lanes_of_both_ctas(module: Module, m: int) -> None:
    (a, x), (b, y) = halves(1, m), halves(2, 32)
    mask = (*MASK, 0x12345678, 0, 0xFFFF, 1)
    trial = product(a, b, shape(m, 32), share=2, before=words(5, 2, 128, COLUMNS), mask=mask)
    expected, keeps = floats(trial.before).copy(), off(mask).reshape(2, 128)
    for row in range(m):
        cta, inside = divmod(row, m // 2)
        for column in range(32):
            lane, at = (inside + column // 16 * 64, column % 16) if m == 128 else (inside, column)
            if not keeps[cta, lane]:
                expected[cta, lane, at] = x[row] @ y[column]
    assert (trial.run(module, "pair_f16") == expected.view(np.uint32)).all()


def test_a_pair_reads_a_from_the_lanes_of_each_half_of_d(module: Module) -> None:
    (b, y), (left, x), (right, z) = halves(1, 32), halves(2, 128), halves(3, 128)
    trial = product(b, b, shape(128, 32), share=2, before=words(5, 2, 128, COLUMNS), a_tmem=200)
    for cta in range(2):
        trial.before[cta][:, 200:208] = np.concatenate(
            [part[64 * cta : 64 * cta + 64] for part in (left, right)]
        ).view(np.uint32)  # fmt: skip
    after = floats(trial.run(module, "pair_f16_ts"))
    for cta in range(2):
        rows = slice(64 * cta, 64 * cta + 64)
        assert np.allclose(after[cta, :64, :16], x[rows] @ y[:16].T)
        assert np.allclose(after[cta, 64:, :16], z[rows] @ y[16:].T)


@pytest.mark.parametrize("m", [128, 256])
def test_scales_of_a_pair(module: Module, m: int) -> None:
    n, rows = 96, m // 2
    (a, x), (b, y), (sa, p), (sb, q) = numbers(1, "e2m1", m, 32), numbers(2, "e3m2", n, 32), powers(3, m), powers(4, n)
    idesc = 5 << 7 | 4 << 10 | n >> 3 << 17 | 1 << 23 | m >> 7 << 27
    trial = product(stored(a, "e2m1"), stored(b, "e3m2"), idesc, share=2, before=words(5, 2, 128, COLUMNS),
                    scale_a=300, scale_b=400)  # fmt: skip
    table = trial.before.view(np.uint8).reshape(2, 128, COLUMNS, 4)
    for cta in range(2):
        for lane in range(128):
            for word in range(rows // 32):
                table[cta, lane, 300 + word, 0] = sa[rows * cta + 32 * word + lane % 32]
            first, count = (n // 2 * (lane // 64), n // 2) if m == 128 else (0, n)
            for word in range(-(-count // 32)):
                row = 32 * word + lane % 32
                if row < count:
                    table[cta, lane, 400 + word, 0] = sb[first + row]
    after, expected = trial.run(module, "pair_mxf8f6f4"), (x * p[:, None]) @ (y * q[:, None]).T
    for cta in range(2):
        part = expected[rows * cta : rows * cta + rows]
        if m == 128:
            part = np.concatenate([part[:, : n // 2], part[:, n // 2 :]])
        assert close(after[cta, :, : part.shape[1]], part)


# -- packed tensor maps --------------------------------------------------------------------------------


def packed_map(device: Device, kind: str, bits: int, codes: Array, swizzle: str) -> tuple[int, bytes]:
    """Global memory with nothing between the codes, and a map of it with a box of 128 by 8."""
    rows, columns = codes.shape
    table = [sum(c << bits * i for i, c in enumerate(row)).to_bytes(columns * bits // 8, "little")
             for row in codes.tolist()]  # fmt: skip
    address = device.upload(np.frombuffer(b"".join(table), np.uint8))
    fields = TensorMapFields(kind, address, (columns, rows), (columns * bits // 8,), (128, 8), (1, 1), swizzle=swizzle)
    return address, encode(fields)


def swizzled(tile: Array) -> Array:
    """Eight rows of 128 bytes after the 128-byte swizzle."""
    chunks = tile.reshape(8, 8, 16)
    return np.stack([chunks[row][np.arange(8) ^ row] for row in range(8)]).reshape(8, 128)


PACKED = [("b4x16_p64", 4), ("b6x16_p32", 6)]


@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize(("kind", "bits"), PACKED)
def test_a_tensor_copy_pads_packed_elements(module: Module, kind: str, bits: int, swizzle: str) -> None:
    codes = np.random.default_rng(1).integers(0, 1 << bits, (16, 256))
    device = Device("100a")
    _, tensor_map = packed_map(device, kind, bits, codes, swizzle)
    tile = device.upload(np.zeros((8, 128), np.uint8))
    report = device.launch(module, "packed_tile", 1, 64, tensor_map, 8 * 16 * bits, 128, 12, tile)
    assert not report.findings
    inside = np.concatenate([codes[12:, 128:], np.zeros((4, 128), int)])  # rows 16 to 19 do not exist
    expected, data = grouped(inside, bits), np.arange(128) % 16 < 2 * bits
    if swizzle == "128B":
        expected = swizzled(expected)
    assert (device.array(tile)[:, data] == expected[:, data]).all()


def test_a_tensor_copy_leaves_unpadded_nibbles_as_they_are(module: Module) -> None:
    codes = np.random.default_rng(1).integers(0, 16, (8, 160))
    device = Device("100a")
    _, tensor_map = packed_map(device, "b4x16", 4, codes, "none")
    tile = device.upload(np.zeros((8, 64), np.uint8))
    report = device.launch(module, "packed_tile", 1, 32, tensor_map, 512, 64, 0, tile)
    assert not report.findings
    expected = nibbles(np.pad(codes[:, 64:], ((0, 0), (0, 32))))  # columns 160 to 191 do not exist
    assert (device.array(tile) == expected).all()


def test_padding_does_not_count_as_transferred(module: Module) -> None:
    device = Device("100a")
    _, tensor_map = packed_map(device, "b4x16_p64", 4, np.zeros((8, 128), int), "none")
    report = device.launch(
        module, "packed_tile", 1, 64, tensor_map, 1024, 0, 0, device.upload(np.zeros(1024, np.uint8))
    )
    assert [finding.code for finding in report.findings] == ["deadlock"]


def test_a_tensor_store_packs_six_bits_of_each_byte(module: Module) -> None:
    device = Device("100a")
    address, tensor_map = packed_map(device, "b6x16_p32", 6, np.zeros((16, 256), int), "128B")
    tile = words(1, 8, 32).view(np.uint8)
    report = device.launch(module, "packed_store", 1, 64, tensor_map, device.upload(swizzled(tile)), 128, 4)
    assert not report.findings
    codes = np.zeros((16, 256), int)
    codes[4:12, 128:] = tile & 63
    expected = [sum(c << 6 * i for i, c in enumerate(row)).to_bytes(192, "little") for row in codes.tolist()]
    assert device.array(address).tobytes() == b"".join(expected)


@pytest.mark.parametrize(
    ("kernel", "kind", "x", "code"),
    [
        ("packed_store", "b4x16_p64", 0, "tensor-store"),
        ("packed_store", "b6x16_p32", 64, "tensor-coordinate"),
        ("packed_tile", "b4x16", 16, "tensor-coordinate"),
    ],
)
def test_what_a_copy_of_packed_elements_cannot_do(module: Module, kernel: str, kind: str, x: int, code: str) -> None:
    device = Device("100a")
    _, tensor_map = packed_map(device, kind, 6 if "6" in kind[:2] else 4, np.zeros((16, 256), int), "none")
    tile = device.upload(np.zeros((8, 128), np.uint8))
    arguments = (tensor_map, tile, x, 0) if kernel == "packed_store" else (tensor_map, 512, x, 0, tile)
    report = device.launch(module, kernel, 1, 64, *arguments)
    assert [finding.code for finding in report.findings] == [code]


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["sparse", "sparse_ws"])
def test_forms_without_a_row_are_unknown_by_name(module: Module, kernel: str) -> None:
    report, _ = Trial(idesc=shape(128, 64)).launch(module, kernel)
    (finding,) = report.findings
    assert finding.code == "unknown-instruction"
    assert "tcgen05.mma" in finding.message
    assert "modifier .sp" in finding.message


@pytest.mark.parametrize(
    ("kernel", "trial", "code"),
    [
        ("shift", Trial(d=8 << 16), "tmem-lane"),
        ("shift", Trial(d=508), "tmem-out-of-bounds"),
        ("f16", Trial(idesc=shape(128, 8), d=16 << 16), "tmem-lane"),
        ("f16", Trial(idesc=shape(96, 8)), "instruction-descriptor"),
        ("f16", Trial(idesc=shape(128, 8, 0, 1)), "instruction-descriptor"),
        ("tf32", Trial(idesc=shape(128, 8, 0, 2, 2)), "instruction-descriptor"),
        ("f16_ashift", Trial(idesc=shape(64, 8)), "instruction-descriptor"),
        ("ws_f16", Trial(idesc=shape(64, 16)), "instruction-descriptor"),
        ("f8f6f4_ts", Trial(idesc=shape(128, 8), a_tmem=508), "tmem-out-of-bounds"),
        ("mxf4", Trial(idesc=FOUR_BIT | 1 << 23, scale_b=511), "tmem-out-of-bounds"),
        ("mxf4", Trial(idesc=FOUR_BIT | 1 << 23 | 1 << 16), "instruction-descriptor"),
    ],
)
def test_a_wrong_operand_is_a_fault(module: Module, kernel: str, trial: Trial, code: str) -> None:
    trial.image = np.zeros(65536, np.uint8)
    trial.a = trial.b = descriptor(0, 32)
    report, _ = trial.launch(module, kernel)
    assert [finding.code for finding in report.findings] == [code]
