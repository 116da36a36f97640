"""Rows that touch more than one lane's registers: carries, atomics, barriers, copies, control flow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptxgym.devices.simulator import instructions
from ptxgym.devices.simulator.findings import SourceLine
from ptxgym.devices.simulator.ptx.parser import parse
from ptxgym.devices.simulator.table import TABLE
from tests.corpus.harness import Device, compile_ptx, nvcc
from tests.corpus.kernels import GOOD
from tests.devices.simulator.executor.one_instruction import execute

instructions.load()
RNG = np.random.default_rng(7)
N = 300
HEAD = ".version 9.0\n.target sm_{}\n.address_size 64\n"
DECLARE = ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<24>; .reg .b64 %d<16>; .reg .f32 %f<8>;"
SHARED = ".shared .align 128 .b8 buf[4096]; .shared .align 8 .b64 bar;"


def bits(width: int, count: int = N) -> Any:
    return RNG.integers(0, 1 << width, count, dtype=f"u{width // 8}")


def run(body: str, *arrays: Any, threads: int = 32, architecture: str = "90a", cluster: int = 1) -> list[Any]:
    """Run a kernel whose parameters p0, p1, ... are arrays; returns them afterwards."""
    device = Device(architecture)
    addresses = [device.upload(a) for a in arrays]
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(arrays)))
    load = " ".join(f"ld.param.u64 %d{i}, [p{i}];" for i in range(len(arrays)))
    text = f"""{HEAD.format(architecture)}{SHARED}\n.visible .entry k({parameters}) {{ {DECLARE}
        mov.u32 %r0, %tid.x; mov.u32 %r20, buf; mov.u32 %r21, bar; {load}\n{body}\nret; }}"""
    report = device.launch(text, "k", cluster, threads, *addresses, cluster=(cluster, 1, 1))
    assert report.error is None, [str(f) for f in report.findings]
    assert [str(f) for f in report.findings] == []
    return [device.array(a) for a in addresses]


STORE = "mul.wide.u32 %d14, %r0, 4; add.u64 %d14, %d14, %d0; st.global.u32 [%d14], {};"

# -- carries -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [32, 64])
def test_addition_carries(width: int) -> None:
    low_a, high_a, low_b, high_b = (bits(width) for _ in range(4))
    low_a[:50], low_b[:50] = (1 << width) - 1, 1
    u = f"u{width}"
    got = execute(f".reg .{u} %x; add.cc.{u} %x, {{0}}, {{2}}; addc.{u} {{d}}, {{1}}, {{3}}", u,
                  [(u, low_a), (u, high_a), (u, low_b), (u, high_b)])  # fmt: skip
    for i in range(N):
        total = (int(high_a[i]) << width | int(low_a[i])) + (int(high_b[i]) << width | int(low_b[i]))
        assert int(got[i]) == total >> width & ((1 << width) - 1)


@pytest.mark.parametrize("width", [32, 64])
def test_subtraction_borrows(width: int) -> None:
    low_a, high_a, low_b, high_b = (bits(width) for _ in range(4))
    low_a[:50] = low_b[:50]
    u = f"u{width}"
    got = execute(f".reg .{u} %x; sub.cc.{u} %x, {{0}}, {{2}}; subc.{u} {{d}}, {{1}}, {{3}}", u,
                  [(u, low_a), (u, high_a), (u, low_b), (u, high_b)])  # fmt: skip
    for i in range(N):
        total = (int(high_a[i]) << width | int(low_a[i])) - (int(high_b[i]) << width | int(low_b[i]))
        assert int(got[i]) == total >> width & ((1 << width) - 1)


def test_multiply_add_carries() -> None:
    a, b, low, high = (bits(32) for _ in range(4))
    text = ".reg .u32 %x; mad.lo.cc.u32 %x, {0}, {1}, {2}; madc.hi.u32 {d}, {0}, {1}, {3}"
    got = execute(text, "u32", [("u32", a), ("u32", b), ("u32", low), ("u32", high)])
    for i in range(N):
        total = int(a[i]) * int(b[i]) + (int(high[i]) << 32 | int(low[i]))
        assert int(got[i]) == total >> 32 & 0xFFFFFFFF


# -- packed and logical --------------------------------------------------------------------------------


@pytest.mark.parametrize("types", ["u32.u32", "u32.s32", "s32.u32", "s32.s32"])
@pytest.mark.parametrize("form", ["dp4a", "dp2a.lo", "dp2a.hi"])
def test_dot_products(form: str, types: str) -> None:
    a, b, c = (bits(32) for _ in range(3))
    got = execute(f"{form}.{types} {{d}}, {{0}}, {{1}}, {{2}}", "u32", [("u32", x) for x in (a, b, c)])
    first, second = types.split(".")

    def part(value: int, index: int, size: int, kind: str) -> int:
        raw = value >> (size * index) & ((1 << size) - 1)
        return raw - (1 << size) if kind == "s32" and raw >> (size - 1) else raw

    for i in range(N):
        x, y = int(a[i]), int(b[i])
        if form == "dp4a":
            total = sum(part(x, j, 8, first) * part(y, j, 8, second) for j in range(4))
        else:
            offset = 2 if form.endswith("hi") else 0
            total = sum(part(x, j, 16, first) * part(y, j + offset, 8, second) for j in range(2))
        assert int(got[i]) == (total + int(c[i])) & 0xFFFFFFFF


@pytest.mark.parametrize("table", [0, 0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B, 0xFF])
def test_three_input_logic(table: int) -> None:
    a, b, c = (bits(32) for _ in range(3))
    got = execute(f"lop3.b32 {{d}}, {{0}}, {{1}}, {{2}}, {table}", "b32", [("b32", x) for x in (a, b, c)])
    for i in range(20):
        value = sum((table >> ((int(a[i]) >> k & 1) * 4 + (int(b[i]) >> k & 1) * 2 + (int(c[i]) >> k & 1)) & 1) << k
                    for k in range(32))  # fmt: skip
        assert int(got[i]) == value


def test_set_gives_all_ones_or_one() -> None:
    a, b = bits(32), bits(32)
    b[:100] = a[:100]
    got = execute("set.le.u32.s32 {d}, {0}, {1}", "u32", [("s32", a), ("s32", b)])
    assert (got == np.where(a.view(np.int32) <= b.view(np.int32), 0xFFFFFFFF, 0)).all()
    got = execute("set.eq.f32.s32 {d}, {0}, {1}", "f32", [("s32", a), ("s32", b)])
    assert (got.view(np.float32) == (a == b)).all()


@pytest.mark.parametrize("name", ["lt", "ge", "equ", "neu", "ltu", "num", "nan", "ne"])
def test_float_comparisons_and_nan(name: str) -> None:
    a = np.array([0, 1, -1, np.nan, np.inf, -0.0, 2.5, np.nan], np.float32)
    b = np.array([0, 2, -1, 1, np.inf, 0.0, np.nan, np.nan], np.float32)
    got = execute(f"setp.{name}.f32 {{d}}, {{0}}, {{1}}", "pred", [("f32", a.view("u4")), ("f32", b.view("u4"))])
    for x, y, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        unordered = x != x or y != y
        plain = {"lt": x < y, "ge": x >= y, "equ": x == y, "neu": x != y, "ltu": x < y, "ne": x != y}.get(name, False)
        expected = {"num": not unordered, "nan": unordered}.get(name, plain if not unordered else name[-1] == "u")
        assert bool(result) == expected, (x, y)


def test_a_comparison_combines_and_gives_the_opposite() -> None:
    a, b, p = bits(32), bits(32), RNG.integers(0, 2, N)
    text = (".reg .pred %q, %s; setp.lt.and.u32 %q|%s, {0}, {1}, {2}; .reg .b32 %x, %y; selp.u32 %x, 1, 0, %q; "
            "selp.u32 %y, 2, 0, %s; or.b32 {d}, %x, %y")  # fmt: skip
    got = execute(text, "u32", [("u32", a), ("u32", b), ("pred", p)])
    assert (got == ((a < b) & (p == 1)) + 2 * (~(a < b) & (p == 1))).all()


@pytest.mark.parametrize(("kind", "low", "high"), [("s8", -128, 127), ("u8", 0, 255)])
def test_pack_with_saturation(kind: str, low: int, high: int) -> None:
    a, b = (RNG.integers(-400, 400, N).astype(np.int32) for _ in range(2))
    c = bits(32)
    text = f"cvt.pack.sat.{kind}.s32.b32 {{d}}, {{0}}, {{1}}, {{2}}"
    got = execute(text, "b32", [("s32", a.view("u4")), ("s32", b.view("u4")), ("b32", c)])
    x, y = np.clip(a, low, high) & 0xFF, np.clip(b, low, high) & 0xFF
    assert (got == ((c.astype(np.int64) & 0xFFFF) << 16 | x << 8 | y)).all()


# -- atomics -------------------------------------------------------------------------------------------

_UPDATES: dict[str, Any] = {
    "add": lambda old, v: old + v & 0xFFFFFFFF,
    "min": min,
    "max": max,
    "and": lambda old, v: old & v,
    "or": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v,
    "exch": lambda old, v: v,
    "inc": lambda old, v: 0 if old >= v else old + 1,
    "dec": lambda old, v: v if old == 0 or old > v else old - 1,
}


@pytest.mark.parametrize("name", sorted(_UPDATES))
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics_apply_in_lane_order(name: str, space: str) -> None:
    values, slots = bits(32, 64), RNG.integers(0, 5, 64).astype(np.uint32)
    start = bits(32, 8)
    body = """mul.wide.u32 %d4, %r0, 4; add.u64 %d5, %d0, %d4; ld.global.u32 %r1, [%d5];
        add.u64 %d6, %d1, %d4; ld.global.u32 %r2, [%d6];
        setp.ge.u32 %p1, %r0, 8; @%p1 bra GO; add.u64 %d7, %d2, %d4; ld.global.u32 %r3, [%d7];
        shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r20; st.shared.u32 [%r4], %r3; GO: bar.sync 0;
        mul.wide.u32 %d8, %r2, 4; add.u64 %d8, %d8, %d2; shl.b32 %r5, %r2, 2; add.u32 %r5, %r5, %r20;
        atom.{space}.{name}.{kind} %r6, [{address}], %r1; bar.sync 0;
        add.u64 %d9, %d3, %d4; st.global.u32 [%d9], %r6;
        @%p1 bra END; ld.shared.u32 %r7, [%r4]; """
    body += "st.global.u32 [%d7], %r7; END:" if space == "shared" else "END:"
    kind = "b32" if name in ("and", "or", "xor", "exch") else "u32"
    text = body.format(space=space, name=name, kind=kind, address="%r5" if space == "shared" else "%d8")
    _, _, memory, old = run(text, values, slots, start, np.zeros(64, np.uint32), threads=64)
    expected, previous = [int(v) for v in start], []
    for value, slot in zip(values.tolist(), slots.tolist(), strict=True):
        previous.append(expected[slot])
        expected[slot] = _UPDATES[name](expected[slot], value)
    assert memory.tolist() == expected
    assert old.tolist() == previous


def test_compare_and_swap_lets_one_lane_win() -> None:
    body = "atom.global.cas.b32 %r1, [%d0], 0, %r0;" + STORE.replace("%d0", "%d1").format("%r1")
    lock, old = run(body, np.zeros(1, np.uint32), np.full(32, 9, np.uint32))
    # Lane 0 swaps its own number, 0, for 0; lane 1 is the first to change something.
    assert lock[0] == 1
    assert old.tolist() == [0, 0] + [1] * 30


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64), ("u32", np.uint32)])
def test_reductions_without_a_result(kind: str, dtype: type) -> None:
    register = {"f32": "%f1", "f64": "%d5", "u32": "%r0"}[kind]
    convert = {"f32": "cvt.rn.f32.u32 %f1, %r0;", "f64": "cvt.rn.f64.u32 %d5, %r0;", "u32": ""}[kind]
    (total,) = run(f"{convert} red.global.add.{kind} [%d0], {register};", np.zeros(1, dtype), threads=64)
    assert total[0] == 64 * 63 / 2


def test_packed_half_reductions() -> None:
    (total,) = run("red.global.add.noftz.f16x2 [%d0], 0x3C004000;", np.zeros(2, np.float16))
    assert total.tolist() == [64, 32]


# -- control flow --------------------------------------------------------------------------------------


def test_an_indexed_branch_reaches_every_target() -> None:
    body = f"""and.b32 %r1, %r0, 3; T: .branchtargets A, B, C, D;
        brx.idx %r1, T; A: mov.u32 %r2, 10; bra E; B: mov.u32 %r2, 20; bra E; C: mov.u32 %r2, 30; bra E;
        D: mov.u32 %r2, 40; E: {STORE.format("%r2")}"""
    (out,) = run(body, np.zeros(32, np.uint32))
    assert out.tolist() == [10, 20, 30, 40] * 8


def test_exit_ends_some_threads_only() -> None:
    (out,) = run(f"setp.lt.u32 %p1, %r0, 7; @%p1 exit; {STORE.format('%r0')}", np.zeros(32, np.uint32))
    assert out.tolist() == [0] * 7 + list(range(7, 32))


def test_trap_is_a_fault() -> None:
    device = Device()
    report = device.launch(HEAD.format("90a") + ".visible .entry k() { trap; }", "k", 1, 1)
    assert (report.error, report.findings[0].code) == ("fault", "trap")


@pytest.mark.parametrize(
    "name", ["bar.sync", "barrier.sync", "bar.cta.sync", "barrier.cta.sync", "barrier.sync.aligned"]
)
@pytest.mark.parametrize("operands", ["0", "3", "3, 64"])
def test_all_spellings_of_a_barrier(name: str, operands: str) -> None:
    body = f"""shl.b32 %r1, %r0, 2; add.u32 %r2, %r20, %r1; st.shared.u32 [%r2], %r0; {name} {operands};
        xor.b32 %r3, %r1, 252; add.u32 %r3, %r3, %r20; ld.shared.u32 %r4, [%r3]; {STORE.format("%r4")}"""
    (out,) = run(body, np.zeros(64, np.uint32), threads=64)
    assert out.tolist() == list(range(63, -1, -1))


@pytest.mark.parametrize("prefix", ["bar", "barrier", "bar.cta", "barrier.cta"])
def test_arrivals_and_reductions_at_barriers(prefix: str) -> None:
    body = f"""setp.lt.u32 %p1, %r0, 32; @%p1 bra W; {prefix}.arrive 2, 64; bra R; W: {prefix}.sync 2, 64;
        R: setp.lt.u32 %p2, %r0, 5; {prefix}.red.popc.u32 %r1, 0, %p2; {prefix}.red.and.pred %p3, 0, %p2;
        {prefix}.red.or.pred %p4, 0, !%p2; selp.u32 %r2, 100, 0, %p3; selp.u32 %r3, 1000, 0, %p4;
        add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; {STORE.format("%r1")}"""
    (out,) = run(body, np.zeros(64, np.uint32), threads=64)
    assert set(out.tolist()) == {1005}


# -- mbarriers and copies ------------------------------------------------------------------------------

WAIT = "W{0}: mbarrier.try_wait.parity.shared.b64 %p7, [%r21], {0}; @!%p7 bra W{0};"


def test_transactions_are_expected_and_completed_by_hand() -> None:
    body = f"""setp.ne.u32 %p1, %r0, 0; @%p1 bra S; mbarrier.init.shared.b64 [%r21], 1;
        mbarrier.expect_tx.relaxed.cta.shared.b64 [%r21], 64; mbarrier.arrive.shared.b64 _, [%r21];
        mbarrier.complete_tx.relaxed.cta.shared.b64 [%r21], 64; S: bar.sync 0; {WAIT.format(0)}
        bar.sync 0; @%p1 bra T; mbarrier.inval.shared.b64 [%r21]; T: {STORE.format("%r0")}"""
    (out,) = run(body, np.zeros(32, np.uint32))
    assert out.tolist() == list(range(32))


def test_a_thread_that_drops_out_is_not_awaited_again() -> None:
    body = f"""setp.ne.u32 %p1, %r0, 0; @%p1 bra S; mbarrier.init.shared.b64 [%r21], 32; S: bar.sync 0;
        setp.lt.u32 %p2, %r0, 8; @%p2 bra DROP; mbarrier.arrive.shared.b64 %d2, [%r21]; bra J;
        DROP: mbarrier.arrive_drop.shared.b64 _, [%r21]; J: {WAIT.format(0)}
        @%p2 bra END; mbarrier.arrive.shared.b64 _, [%r21]; {WAIT.format(1)} END: {STORE.format("1")}"""
    (out,) = run(body, np.zeros(32, np.uint32))
    assert out.tolist() == [1] * 32


def test_a_state_token_names_its_phase() -> None:
    body = f"""setp.ne.u32 %p1, %r0, 0; @%p1 bra S; mbarrier.init.shared.b64 [%r21], 32; S: bar.sync 0;
        mbarrier.arrive.shared.b64 %d2, [%r21]; L: mbarrier.test_wait.shared.b64 %p2, [%r21], %d2; @!%p2 bra L;
        {STORE.format("7")}"""
    (out,) = run(body, np.zeros(32, np.uint32))
    assert out.tolist() == [7] * 32


def test_cp_async_with_zero_fill() -> None:
    body = f"""shl.b32 %r1, %r0, 2; add.u32 %r2, %r20, %r1; mul.wide.u32 %d3, %r0, 4; add.u64 %d4, %d1, %d3;
        and.b32 %r3, %r0, 1; shl.b32 %r3, %r3, 2; cp.async.ca.shared.global [%r2], [%d4], 4, %r3;
        cp.async.wait_all; bar.sync 0; ld.shared.u32 %r4, [%r2]; {STORE.format("%r4")}"""
    values = bits(32, 32)
    out, _ = run(body, np.zeros(32, np.uint32), values)
    assert (out == np.where(np.arange(32) & 1, values, 0)).all()


@pytest.mark.parametrize(("form", "count"), [("", 1), (".noinc", 32)])
def test_cp_async_signals_a_barrier(form: str, count: int) -> None:
    extra = "@%p1 bra K; mbarrier.arrive.shared.b64 _, [%r21]; K:" if not form else ""
    body = f"""setp.ne.u32 %p1, %r0, 0; @%p1 bra S; mbarrier.init.shared.b64 [%r21], {count}; S: bar.sync 0;
        shl.b32 %r1, %r0, 2; add.u32 %r2, %r20, %r1; mul.wide.u32 %d3, %r0, 4; add.u64 %d4, %d1, %d3;
        cp.async.ca.shared.global [%r2], [%d4], 4; cp.async.mbarrier.arrive{form}.shared.b64 [%r21]; bar.sync 0; {extra}
        {WAIT.format(0)} bar.sync 0; xor.b32 %r3, %r1, 124; add.u32 %r3, %r3, %r20; ld.shared.u32 %r4, [%r3];
        {STORE.format("%r4")}"""
    values = bits(32, 32)
    out, _ = run(body, np.zeros(32, np.uint32), values)
    assert (out == values[::-1]).all()


def test_a_remote_reduction_signals_the_peer() -> None:
    body = f"""mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; setp.ne.u32 %p1, %r0, 0; @%p1 bra S;
        st.shared.u32 [%r20], 5; mbarrier.init.shared.b64 [%r21], 1;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r21], 128;
        S: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        mapa.shared::cluster.u32 %r3, %r20, %r2; mapa.shared::cluster.u32 %r4, %r21, %r2;
        red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r3], %r0, [%r4];
        {WAIT.format(0)} ld.shared.u32 %r5, [%r20]; mad.lo.u32 %r0, %r1, 32, %r0; {STORE.format("%r5")}
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    (out,) = run(body, np.zeros(64, np.uint32), cluster=2)
    assert set(out.tolist()) == {5 + 31 * 16}


def test_movmatrix_transposes() -> None:
    matrix = bits(16, 64).reshape(8, 8)
    body = f"""mul.wide.u32 %d3, %r0, 4; add.u64 %d4, %d1, %d3; ld.global.u32 %r1, [%d4];
        movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; {STORE.format("%r2")}"""
    out, _ = run(body, np.zeros((8, 8), np.uint16), matrix)
    assert (out == matrix.T).all()


def test_a_wmma_accumulator_can_be_loaded() -> None:
    values = RNG.standard_normal((16, 16)).astype(np.float32)
    names = ", ".join(f"%g{i}" for i in range(8))
    body = f""".reg .f32 %g<8>; wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {{{names}}}, [%d1], 16;
        wmma.store.d.sync.aligned.col.m16n16k16.global.f32 [%d0], {{{names}}}, 16;"""
    out, _ = run(body, np.zeros((16, 16), np.float32), values)
    assert (out == values.T).all()


def test_shuffles_follow_the_isa() -> None:
    for mode, delta in (("up", 3), ("down", 5), ("bfly", 6), ("idx", 9)):
        for width in (32, 8):
            clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
            body = f"shfl.sync.{mode}.b32 %r1|%p1, %r0, {delta}, {clamp}, -1; selp.u32 %r2, 100, 0, %p1; " \
                   f"add.u32 %r1, %r1, %r2; {STORE.format('%r1')}"  # fmt: skip
            (out,) = run(body, np.zeros(32, np.uint32))
            for lane in range(32):
                base = lane // width * width
                source = {"up": lane - delta, "down": lane + delta, "bfly": lane ^ delta, "idx": base + delta % width}[
                    mode
                ]
                valid = base <= source < base + width
                assert out[lane] == (source if valid else lane) + 100 * valid, (mode, width, lane)


def test_hints_change_nothing() -> None:
    body = f"""prefetch.global.L2 [%d0]; prefetchu.L1 [%d0]; discard.global.L2 [%d0], 128; griddepcontrol.wait;
        applypriority.global.L2::evict_normal [%d0], 128; griddepcontrol.launch_dependents; pmevent 3;
        cp.async.bulk.prefetch.L2.global [%d0], 128; createpolicy.fractional.L2::evict_first.b64 %d5, 1.0;
        ldu.global.u32 %r1, [%d0]; nanosleep.u32 5; membar.gl; fence.acq_rel.gpu; {STORE.format("%r0")}"""
    (out,) = run(body, np.zeros(32, np.uint32))
    assert out.tolist() == list(range(32))


NOT_EXECUTED = {
    "brkpt": "stops like trap",
    "setmaxnreg.inc": "", "setmaxnreg.dec": "", "cp.async.bulk.prefetch.tensor": "a hint",
    "tcgen05.relinquish_alloc_permit": "in a mutant", "tcgen05.shift": "in test_tcgen05.py",
    "tcgen05.mma.ws": "in test_tcgen05.py",
}  # fmt: skip


@pytest.mark.skipif(nvcc() is None, reason="needs nvcc for the corpus")
def test_every_other_row_is_executed_by_a_test_or_the_corpus() -> None:
    texts = {(g.file, a): g.source for g in GOOD.values() for a in g.architectures}
    used = set()
    for (_, architecture), source in texts.items():
        for function in parse(compile_ptx(source, architecture)).functions.values():
            for instruction in function.body:
                used.add(id(TABLE.find(instruction.opcode, architecture, SourceLine()).row))
    here = Path(__file__).read_text()
    for row in TABLE.rows():
        if re.search(rf"(?<![\w.]){re.escape(row.opcode)}[.;\s{{\"]", here):
            used.add(id(row))
        spelled = row.opcode.startswith(("bar", "barrier"))
        if spelled:
            used.add(id(row))
    missing = {row.opcode for row in TABLE.rows() if not row.signature and id(row) not in used}
    assert missing <= set(NOT_EXECUTED)


def test_a_sink_takes_an_element_of_a_vector() -> None:
    body = f"ld.global.v4.u32 {{%r1, _, %r2, _}}, [%d1]; add.u32 %r1, %r1, %r2; {STORE.format('%r1')}"
    out, _ = run(body, np.zeros(32, np.uint32), np.array([1, 10, 100, 1000], np.uint32))
    assert set(out.tolist()) == {101}


def test_a_subnormal_result_beside_a_nan_is_rounded_once() -> None:
    a = np.array([np.nan, 1.5 * 2.0**-75, 1.0], np.float32)
    b = np.array([1.0, 1.25 * 2.0**-74, 1.0], np.float32)
    c = np.array([0.0, 2.0**-149, 0.0], np.float32)
    got = execute("fma.rn.f32 {d}, {0}, {1}, {2}", "f32", [("f32", x.view(np.uint32)) for x in (a, b, c)])
    exact = float(a[1]) * float(b[1]) + float(c[1])
    assert got.view(np.float32)[1] == np.float32(exact)


def test_a_volatile_flag_in_shared_memory_is_no_race() -> None:
    body = f"""setp.ne.u32 %p1, %r0, 0; @%p1 bra S; st.volatile.shared.u32 [%r20], 0; S: bar.sync 0;
        setp.ge.u32 %p2, %r0, 32; @%p2 bra W; @%p1 bra J; st.volatile.shared.u32 [%r20], 7; bra J;
        W: ld.volatile.shared.u32 %r1, [%r20]; setp.eq.u32 %p3, %r1, 0; @%p3 bra W; J: {STORE.format("7")}"""
    (out,) = run(body, np.zeros(64, np.uint32), threads=64)
    assert set(out.tolist()) == {7}
