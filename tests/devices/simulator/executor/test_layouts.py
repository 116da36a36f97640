"""Register fragments and descriptors against formulas written from the ISA's figures, element by element."""

from __future__ import annotations

import numpy as np
import pytest

from ptxgym.devices.simulator import layouts
from ptxgym.devices.simulator.instructions import mma
from ptxgym.devices.simulator.products import layout_of, result_place
from ptxgym.devices.simulator.tensor_memory import REGISTERS, fragment


@pytest.mark.parametrize("n", [8, 24, 64, 256])
def test_wgmma_accumulators(n: int) -> None:
    registers = np.arange(n // 2 * 128).reshape(n // 2, 128)
    matrix = layouts.accumulator_to_matrix(registers)
    for thread in (0, 1, 5, 31, 32, 77, 127):
        for i in range(n // 2):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
            column = 8 * (i // 4) + 2 * (thread % 4) + i % 2
            assert matrix[row, column] == registers[i, thread]
    assert (layouts.matrix_to_accumulator(matrix) == registers).all()


def test_packed_wgmma_accumulators() -> None:
    registers = np.random.default_rng(0).integers(0, 1 << 32, (16, 128)).astype(np.uint32)
    matrix = layouts.packed_accumulator_to_matrix(registers)
    for thread in (0, 3, 64, 127):
        for i in range(16):
            row, column = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i % 2), 8 * (i // 2) + 2 * (thread % 4)
            assert matrix[row, column] == registers[i, thread] & 0xFFFF
            assert matrix[row, column + 1] == registers[i, thread] >> 16
    assert (layouts.matrix_to_packed_accumulator(matrix) == registers).all()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_wgmma_a_registers(size: int) -> None:
    registers = np.random.default_rng(0).integers(0, 1 << 32, (4, 128)).astype(np.uint32)
    matrix = layouts.a_registers_to_matrix(registers, size)
    each = 4 // size
    for thread in (0, 6, 33, 127):
        for r in range(4):
            for e in range(each):
                row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (r % 2)
                k = r // 2 * 4 * each + thread % 4 * each + e
                assert matrix[row, k] == int(registers[r, thread]) >> (8 * size * e) & ((1 << (8 * size)) - 1)


@pytest.mark.parametrize(("m", "k", "kind"), [(16, 16, "bf16"), (16, 8, "bf16"), (16, 8, "tf32"), (16, 4, "tf32"),
                                              (16, 32, "s8"), (16, 16, "s8"), (8, 16, "s8")])  # fmt: skip
def test_mma_operands(m: int, k: int, kind: str) -> None:
    each = {"bf16": 2, "tf32": 1, "s8": 4}[kind]
    rng = np.random.default_rng(0)
    a = rng.integers(0, 1 << 32, (m // 8 * k // (4 * each), 1, 32)).astype(np.uint32)
    b = rng.integers(0, 1 << 32, (k // (4 * each), 1, 32)).astype(np.uint32)
    left, right = mma.a_matrix(a, m, k, kind)[0], mma.b_matrix(b, k, kind)[0]
    bits = 32 // each
    for lane in range(32):
        for e in range(each):
            for i in range(a.shape[0]):
                row, group = lane // 4 + 8 * (i % (m // 8)), i // (m // 8)
                value = int(a[i, 0, lane]) >> (bits * e) & ((1 << bits) - 1)
                assert left[row, group * 4 * each + lane % 4 * each + e] == value
            for i in range(b.shape[0]):
                value = int(b[i, 0, lane]) >> (bits * e) & ((1 << bits) - 1)
                assert right[lane // 4, i * 4 * each + lane % 4 * each + e] == value


def test_descriptor_fields() -> None:
    bits = 0x1234 | 0x55 << 16 | 0x66 << 32 | 3 << 49 | 1 << 62
    d = layouts.decode_sm90(bits)
    assert (d.start, d.leading, d.stride, d.base_offset, d.swizzle) == (0x12340, 0x550, 0x660, 3, "128B")
    assert layouts.decode_sm100(0x40 | 1 << 46 | 6 << 61).swizzle == "32B"


@pytest.mark.parametrize(("code", "span"), [(1, 128), (2, 64), (3, 32)])
def test_a_k_major_tile_is_read_as_tma_writes_it(code: int, span: int) -> None:
    """Write a tile with the XOR rule, read it through a descriptor."""
    rows, per_row = 64, span // 2
    tile = np.arange(rows * per_row, dtype=np.uint16)
    shared = np.zeros(32768, np.uint8)
    for i, value in enumerate(tile):
        address = 2048 + 2 * i
        shared[address ^ (address >> 7 & (span // 16 - 1)) << 4 :][:2] = np.frombuffer(value.tobytes(), np.uint8)
    for step in range(span // 32):
        bits = (2048 + 32 * step) >> 4 | 1 << 16 | (8 * span >> 4) << 32 | code << 62
        plan = layouts.plan(bits, False, rows, 2, 16, False)
        got = layouts.operand_matrix(shared.view(layouts.CHUNK).take(plan.chunks), np.dtype(np.uint16), False)
        assert (got == tile.reshape(rows, per_row)[:, 16 * step : 16 * step + 16]).all()


@pytest.mark.parametrize("shape", sorted(REGISTERS))
def test_tensor_memory_shapes_are_bijections(shape: str) -> None:
    rows, columns = fragment(shape, 4 * REGISTERS[shape], 64)
    places = set(zip(rows.reshape(-1).tolist(), columns.reshape(-1).tolist(), strict=True))
    assert len(places) == rows.size
    assert rows.max() < (32 if shape == "32x32b" else 16)


_LAYOUTS = [(128, False, False), (64, False, False), (256, True, False), (128, True, False), (64, False, True),
            (32, False, True), (128, False, True)]  # fmt: skip


@pytest.mark.parametrize(("m", "pair", "weight_stationary"), _LAYOUTS)
def test_result_layouts_are_bijections(m: int, pair: bool, weight_stationary: bool) -> None:
    layout = layout_of(m, pair, weight_stationary)
    rows, columns = result_place(layout, 64)
    places = set(zip(rows.reshape(-1).tolist(), columns.reshape(-1).tolist(), strict=True))
    assert len(places) == rows.size == m // (1 + pair) * 64
    assert rows.max() < 128
    assert columns.max() + 1 == 64 // layout.groups
