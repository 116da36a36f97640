"""Tensor memory, products, copies and pairs of Blackwell."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptxgym.devices.simulator.layouts import decode_sm100
from ptxgym.devices.simulator.products import decode_instruction
from tests.corpus.kernels import from_bf16, numbers, to_bf16
from tests.knowledge.cases import BLACKWELL, Array, Bench, Outcome, case

COMMON = (
    "tcgen05_alloc tcgen05_dealloc tcgen05_fence_before_thread_sync tcgen05_fence_after_thread_sync tcgen05_address"
)
SHARED = 200_000

# Where register i of lane t of a warp lies: lane of the warp's sixteen or thirty-two, column.
REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
COLUMNS = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 2}


def place_of(shape: str, t: int, i: int, count: int) -> tuple[int, int]:
    """By cases, one 64-, 128- or 256-bit row of a repetition at a time."""
    if shape == "32x32b":
        return t, i
    if shape == "16x32bx2":
        return t % 16, i + (count if t >= 16 else 0)  # the test splits by `count` columns
    quad, inner = divmod(t, 4)
    if shape == "16x64b":
        return quad + (8 if inner % 2 else 0), 2 * i + inner // 2
    if shape == "16x128b":
        repetition, half = divmod(i, 2)
        return quad + 8 * half, 4 * repetition + inner
    repetition, part = divmod(i, 4)
    return quad + 8 * (part // 2), 8 * repetition + 2 * inner + part % 2


def _shape(b: Bench, shape: str, count: int) -> Outcome:
    registers, columns = count * REGISTERS[shape], count * COLUMNS[shape]
    halves = 1 if shape == "32x32b" else 2
    values = np.random.default_rng(count).integers(0, 1 << 32, (halves, 4, 32, registers)).astype(np.uint32)
    rows, out = b.empty((128, columns), np.uint32), b.empty(values.shape, np.uint32)
    b.launch(1, 128, b.give(values), rows, out)
    expected = np.zeros((128, columns), np.uint32)
    for half, warp, t, i in np.ndindex(values.shape):
        lane, column = place_of(shape, t, i, count)
        expected[32 * warp + 16 * half + lane, column] = values[half, warp, t, i]
    return [(b[rows], expected, 0), (b[out], values, 0)]


for _s, _per in REGISTERS.items():
    for _count in (1, 2, 4, 8, 16, 32, 64, 128):
        if _count * _per <= 128:
            case(
                "tcgen05", f"shape_{_s}_{_count}",
                f"{COMMON} tcgen05_relinquish_alloc_permit tcgen05_ld_{_s} tcgen05_st_{_s} tcgen05_wait_ld "
                "tcgen05_wait_st",
                r"LDTM STTM UTCATOMSWS\.FIND_AND_SET\.ALIGN UTCATOMSWS\.AND UVIRTCOUNT\.DEALLOC\.SMPOOL "
                r"FENCE\.VIEW\.ASYNC\.T", BLACKWELL,
            )(partial(_shape, shape=_s, count=_count))  # fmt: skip


def rows_of(d: Array, m: int, group: int) -> Array:
    """D from the lanes that hold it: [group, 128, n] to [m, n] (the pair's M = 256: each CTA its half)."""
    if m == 64:
        return np.concatenate([d[0, 32 * i : 32 * i + 16] for i in range(4)])
    return d.reshape(-1, d.shape[-1])[:m] if group == 1 or m == 256 else d


def _product(b: Bench, group: int, m: int, n: int) -> Outcome:
    left, right = to_bf16(numbers(1, m, 64)), to_bf16(numbers(2, n, 64))
    out = b.empty((group, 128, n), np.float32)
    b.launch(group, 128, b.give(left), b.give(right), out, m, n, cluster=(group, 1, 1), shared=SHARED)
    expected = from_bf16(left).astype(np.float64) @ from_bf16(right).astype(np.float64).T
    return [(rows_of(b[out], m, group), expected, 1e-4)]


def _every_n(b: Bench) -> Outcome:
    """All N of M = 128."""
    return [outcome for n in range(16, 257, 16) for outcome in _product(b, 1, 128, n)]


PRODUCT = f"{COMMON} tcgen05_wait_ld tcgen05_ld_32x32b"


def _register(kernel: str, covers: str, sass: str, group: int, m: int, n: int) -> None:
    run = partial(_product, group=group, m=m, n=n)
    case("tcgen05", kernel, f"{PRODUCT} {covers}", sass, BLACKWELL)(run)


MAKERS = {"NONE": "tcgen05_descriptor"}
for _swizzle in ("B128", "B64", "B32", "NONE"):
    _maker = MAKERS.get(_swizzle, "tcgen05_descriptor_k_major tcgen05_descriptor_mn_major")
    for _majors in ("k_k", "k_mn", "mn_k", "mn_mn"):
        _covers = f"tcgen05_mma tcgen05_commit {_maker}"
        _register(f"one_{_swizzle}_{_majors}", _covers, r"UTCHMMA$ UTCBAR$ LDTM", group=1, m=128, n=96)
case("tcgen05", "one_B128_k_k", f"{PRODUCT} tcgen05_mma", "UTCHMMA$", BLACKWELL)(_every_n)
for _n in (8, 24, 64, 256):
    _register("one_B128_k_k", "tcgen05_mma", "UTCHMMA$", group=1, m=64, n=_n)
_register("one_ts", "tcgen05_mma_ts tcgen05_st_32x32b tcgen05_wait_st", "UTCHMMA$ STTM", group=1, m=128, n=96)
PAIR = r"UTCHMMA\.2CTA UTCBAR\.2CTA\.MULTICAST UTCATOMSWS\.2CTA\.FIND_AND_SET\.ALIGN"
for _n in (32, 128, 256):
    for _kernel, _extra in (("k_k", "tcgen05_mma"), ("mn_mn", "tcgen05_mma"), ("ts", "tcgen05_mma_ts")):
        _register(f"two_{_kernel}", f"{_extra} tcgen05_commit_multicast", PAIR, group=2, m=256, n=_n)


@case("tcgen05", "two_commit", "tcgen05_commit", r"UTCBAR\.2CTA$", BLACKWELL)
def two_commit(b: Bench) -> Outcome:
    out = b.empty(2)
    b.launch(2, 32, out, cluster=(2, 1, 1))
    return [(b[out], [1, 1], 0)]


def _copies(b: Bench, group: int) -> Outcome:
    lines = np.random.default_rng(1).integers(0, 1 << 32, (256, 4)).astype(np.uint32)
    out = b.empty((group, 128, 32), np.uint32)
    b.launch(group, 128, b.give(lines), out, cluster=(group, 1, 1), shared=SHARED)
    narrow, wide = lines[:128], np.concatenate([lines[:128], lines[128:]], axis=1)  # a row's halves, 2048 bytes apart
    expected = np.zeros((128, 32), np.uint32)
    expected[:, 0:8], expected[:, 8:12], expected[::32, 12:20] = wide, narrow, wide[:4]
    for warp in range(4):
        lanes = slice(32 * warp, 32 * warp + 32)
        expected[lanes, 20:24] = narrow[32 * (warp % 2) :][:32]
        expected[lanes, 24:28] = narrow[32 * (warp // 2) :][:32]
        expected[lanes, 28:32] = narrow[:32]
    return [(b[out], np.broadcast_to(expected, (group, 128, 32)), 0)]


COPIES = " ".join(
    f"tcgen05_cp_{s}" for s in ("128x256b", "128x128b", "4x256b", "64x128b_02_13", "64x128b_01_23", "32x128b")
)
SHAPES = ("$", r"\.128dp128bit", r"\.4dp256bit", r"\.2x64dp128bit_lw02_lw13", r"\.2x64dp128bit_lw01_lw23",
          r"\.4x32dp128bit")  # fmt: skip
for _group, _pair in ((1, ""), (2, r"\.2CTA")):
    _sass = " ".join(rf"UTCCP\.T\.S{_pair}{shape}" for shape in SHAPES) + rf" UTCBAR{_pair}\.MULTICAST"
    _covers = f"{COMMON} {COPIES} tcgen05_commit_multicast tcgen05_relinquish_alloc_permit"
    case("tcgen05", f"{('one', 'two')[_group - 1]}_copies", _covers, _sass, BLACKWELL)(partial(_copies, group=_group))


@case("tcgen05", "pair_loads",
      " ".join(f"tma_load_{r}d_pair tma_load_{r}d_pair_multicast" for r in (2, 3, 4)),
      r"UTMALDG\.2D\.2CTA UTMALDG\.3D\.2CTA UTMALDG\.4D\.2CTA UTMALDG\.2D\.MULTICAST\.2CTA "
      r"UTMALDG\.3D\.MULTICAST\.2CTA UTMALDG\.4D\.MULTICAST\.2CTA", BLACKWELL)  # fmt: skip
def pair_loads(b: Bench) -> Outcome:
    values = numbers(1, 16, 32)
    address = b.give(values)
    shapes = ((16, 32), (1, 16, 32), (1, 1, 16, 32))
    maps = b"".join(b.device.tile_map(address, "f32", s, (*(1,) * (len(s) - 2), 4, 8), "none") for s in shapes)
    out = b.empty((2, 6, 4, 8), np.float32)
    b.launch(2, 32, maps, out, cluster=(2, 1, 1))

    def box(column: int, row: int) -> Array:
        return values[row : row + 4, column : column + 8]

    expected = [
        [box(8 * rank, row) for row in (0, 4, 8)] + [box(16 + 8 * rank, row) for row in (0, 4, 8)] for rank in (0, 1)
    ]
    return [(b[out], np.array(expected), 0)]


@case("tcgen05", "pairs", "fma_f32x2 add_f32x2 mul_f32x2 max3", "FFMA2 FADD2 FMUL2 FMNMX3", BLACKWELL)
def pairs(b: Bench) -> Outcome:
    x, y = numbers(1, 32, 2), numbers(2, 32, 2)
    fma, add, mul = (b.empty((32, 2), np.float32) for _ in range(3))
    most = b.empty(32, np.float32)
    b.launch(1, 32, b.give(x), b.give(y), fma, add, mul, most)
    swapped = x.reshape(16, 2, 2)[:, ::-1].reshape(32, 2)
    exact = x.astype(np.float64) * y + swapped
    greatest = np.maximum(np.maximum(x[:, 0], x[:, 1]), y[:, 0])
    return [(b[fma], exact, 1e-6), (b[add], x + y, 0), (b[mul], x * y, 0), (b[most], greatest, 0)]


@case("tcgen05", "descriptors", "tcgen05_descriptor tcgen05_instruction_descriptor", "", BLACKWELL)
def descriptors(b: Bench) -> Outcome:
    """Both kinds of descriptors, over their whole range, as the simulator decodes them."""
    distances = [16 << i for i in range(14)]
    out, start = b.empty((4, 14, 14), np.uint64), b.empty(1, np.uint32)
    shapes = [(m, n, a, c) for m in (64, 128, 256) for n in range(8, 257, 8) for a in (0, 1) for c in (0, 1)]
    instructions = b.empty(len(shapes), np.uint32)
    b.launch(1, 1, out, start, instructions, shared=4096)
    bits = [int(word) for word in b[out].reshape(-1)]
    place = int(b[start][0])
    expected = [
        (place, leading, stride, 0, mode, 1)
        for mode in ("none", "32B", "64B", "128B")
        for leading in distances
        for stride in distances
    ]
    got = []
    for word in bits:
        d = decode_sm100(word)
        got.append((d.start, d.leading, d.stride, d.base_offset, d.swizzle, word >> 46 & 3))
    right = [g == e for g, e in zip(got, expected, strict=True)]
    for word, (m, n, a, c) in zip(b[instructions].tolist(), shapes, strict=True):
        i = decode_instruction(word, "f16")
        right.append((i.a, i.b, i.result, i.m, i.n, i.transpose_a, i.transpose_b) == ("bf16", "bf16", 1, m, n, a, c))
    return [(np.array(right), np.ones(len(right)), 0)]


@case("tcgen05", "take_over", "clusterlaunchcontrol_try_cancel clusterlaunchcontrol_query_cancel",
      r"UGETNEXTWORKID\.SELFCAST", BLACKWELL)  # fmt: skip
def take_over(b: Bench) -> Outcome:
    """Two blocks begin and take over the other six in turn."""
    out = b.empty(8)
    b.launch(8, 64, out)
    return [(b[out], [1, 2, 1, 2, 1, 2, 1, 2], 0)]


@case("tcgen05", "take_over_pairs", "clusterlaunchcontrol_try_cancel_multicast", r"UGETNEXTWORKID\.BROADCAST",
      BLACKWELL)  # fmt: skip
def take_over_pairs(b: Bench) -> Outcome:
    """One pair begins and takes over the other three."""
    out = b.empty(8)
    b.launch(8, 64, out, cluster=(2, 1, 1))
    return [(b[out], [1, 2, 1, 2, 1, 2, 1, 2], 0)]
