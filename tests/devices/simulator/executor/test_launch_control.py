"""Cluster launch control: every tile of a grid is done once, by a block that began or by one that took it over."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest

from ptxgym.devices.simulator.findings import SourceLine
from ptxgym.devices.simulator.instructions.launch_control import Answers, Request, encode
from ptxgym.devices.simulator.machine import LaunchReport, Limits
from tests.corpus.harness import Device

Extent = tuple[int, int, int]

_REGISTERS = """.reg .pred %p<4>; .reg .b128 %q; .reg .b64 %d<8>; .reg .b32 %r<8>; .reg .b32 %bar, %ans, %rank, %own;
    .reg .b32 %f<3>, %c<3>, %n<3>, %phase, %tile;"""
_ASK = "clusterlaunchcontrol.try_cancel.async{}.mbarrier::complete_tx::bytes{}.b128 [{}], [{}];"
_SYNC = "barrier.cluster.arrive; barrier.cluster.wait;"
_EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16;"
_WAIT = "WAIT{0}: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%bar], {1}; @!%p0 bra WAIT{0};"
_CANCELED = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q;"
_TILE = """mad.lo.u32 %tile, %f2, %n1, %f1; mad.lo.u32 %tile, %tile, %n0, %f0;
    mul.wide.u32 %d2, %tile, 4; add.u64 %d3, %d0, %d2; atom.global.add.u32 %r0, [%d3], 1;
    add.u64 %d3, %d1, %d2; st.global.u32 [%d3], %own;"""


def ptx(body: str, architecture: str = "100a") -> str:
    """A kernel of single threads; ``%c`` is the block's place in its cluster, ``%f`` the block whose tile it does."""
    special = "".join(
        f"mov.u32 %n{i}, %nctaid.{axis}; mov.u32 %c{i}, %cluster_ctaid.{axis}; mov.u32 %f{i}, %ctaid.{axis};\n"
        for i, axis in enumerate("xyz")
    )
    return f""".version 9.0
.target sm_{architecture}
.address_size 64
.visible .entry k(.param .u64 count, .param .u64 owner) {{
{_REGISTERS}
.shared .align 16 .b8 answer[64]; .shared .align 8 .b64 barrier[2];
ld.param.u64 %d0, [count]; ld.param.u64 %d1, [owner];
{special}mov.u32 %rank, %cluster_ctarank; mov.u32 %ans, answer; mov.u32 %bar, barrier;
mad.lo.u32 %own, %f2, %n1, %f1; mad.lo.u32 %own, %own, %n0, %f0;
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
{_SYNC}
{body}
}}
"""


def take_over(multicast: bool) -> str:
    """A persistent kernel whose rank 0 asks; the others get the answer by multicast, or read it in rank 0's memory."""
    if multicast:
        request = _ASK.format(".shared::cta", ".multicast::cluster::all", "%ans", "%bar")
        ask = f"{_EXPECT} setp.eq.u32 %p2, %rank, 0; @%p2 {request}"
        learn = f"{_WAIT.format(1, '%phase')} ld.shared.b128 %q, [%ans];"
    else:
        ask = f"""setp.ne.u32 %p2, %rank, 0; @%p2 bra ASKED; {_EXPECT} cvt.u64.u32 %d6, %ans; cvta.shared.u64 %d6, %d6;
            cvt.u64.u32 %d7, %bar; cvta.shared.u64 %d7, %d7; {_ASK.format("", "", "%d6", "%d7")} ASKED:"""
        learn = f"""setp.ne.u32 %p2, %rank, 0; @%p2 bra TOLD; {_WAIT.format(1, "%phase")} TOLD: {_SYNC}
            mapa.shared::cluster.u32 %r1, %ans, 0; ld.shared::cluster.v2.u64 {{%d4, %d5}}, [%r1];
            mov.b128 %q, {{%d4, %d5}};"""
    move = "".join(f"add.u32 %f{i}, %f{i}, %c{i};" for i in range(3))
    return ptx(f"""mov.u32 %phase, 0;
        LOOP: {ask} {_TILE} {learn}
        {_CANCELED} @!%p1 bra END;
        clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%f0, %f1, %f2, _}}, %q; {move}
        xor.b32 %phase, %phase, 1; fence.proxy.async.shared::cta; {_SYNC} bra LOOP;
        END: {_SYNC} ret;""")


def launch(
    text: str, grid: Extent, cluster: Extent = (1, 1, 1), *, checks: bool = True, limits: Limits | None = None
) -> tuple[LaunchReport, Any, Any]:
    """The report, how often each tile was done and by which block, as [z, y, x]."""
    device = Device("100a", checks=checks)
    shape = grid[::-1] if np.prod(grid) < 1 << 20 else (1, 1, 1)
    arrays = [device.upload(np.zeros(shape, np.int32)), device.upload(np.full(shape, -1, np.int32))]
    report = device.launch(text, "k", grid, 1, *arrays, cluster=cluster, limits=limits)
    return report, device.array(arrays[0]), device.array(arrays[1])


def clean(report: LaunchReport) -> bool:
    return report.error is None and not report.findings


def by_cluster(array: Any, cluster: Extent) -> Any:
    """[z, y, x] as [cluster, block], clusters in the order of their numbers."""
    z, y, x = array.shape
    cx, cy, cz = cluster
    parts = array.reshape(z // cz, cz, y // cy, cy, x // cx, cx).transpose(0, 2, 4, 1, 3, 5)
    return parts.reshape(-1, cx * cy * cz)


SHAPES: list[tuple[Extent, Extent]] = [
    ((1, 1, 1), (1, 1, 1)), ((2, 1, 1), (1, 1, 1)), ((7, 1, 1), (1, 1, 1)), ((5, 3, 2), (1, 1, 1)),
    ((2, 1, 1), (2, 1, 1)), ((6, 4, 1), (2, 2, 1)), ((4, 6, 2), (2, 3, 1)), ((3, 2, 8), (1, 2, 4)),
    ((40, 10, 1), (4, 1, 1)), ((300, 1, 1), (1, 1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize(("grid", "cluster"), SHAPES)
def test_every_tile_is_done_once_by_a_cluster_that_began(grid: Extent, cluster: Extent, multicast: bool) -> None:
    report, count, owner = launch(take_over(multicast), grid, cluster)
    assert clean(report), report.findings
    assert (count == 1).all()
    linear = np.arange(count.size).reshape(count.shape)
    own, owners = by_cluster(linear, cluster), by_cluster(owner, cluster)
    begun = -(-len(own) // 4)
    assert (owners[:begun] == own[:begun]).all()
    workers = {tuple(row) for row in own[:begun].tolist()}
    assert {tuple(row) for row in owners.tolist()} == workers
    # One request for each cluster that did not begin, and one refusal for each that did.
    assert sum(n for opcode, n in report.executed.items() if "try_cancel" in opcode) == len(own)


def test_without_checks_the_same_happens() -> None:
    one, two = (launch(take_over(True), (6, 4, 1), (2, 1, 1), checks=checks) for checks in (True, False))
    assert one[0].executed == two[0].executed
    assert (one[2] == two[2]).all()


def test_clusters_that_nobody_asks_for_begin_later() -> None:
    """Each block asks once, does what it is given, and leaves."""
    once = ptx(f"""{_EXPECT} {_ASK.format(".shared::cta", "", "%ans", "%bar")} {_TILE} {_WAIT.format(1, 0)}
        ld.shared.b128 %q, [%ans]; {_CANCELED} @!%p1 ret;
        clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %f0, %q;
        clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %f1, %q;
        clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %f2, %q; {_TILE} ret;""")
    report, count, owner = launch(once, (13, 2, 3))
    assert clean(report), report.findings
    assert (count == 1).all()
    # Twenty at a time begin, and each takes over one: 20 and 20, then 20 and 18.
    assert np.unique(owner).tolist() == [*range(20), *range(40, 60)]


def test_two_requests_may_be_refused_before_the_first_refusal_is_seen() -> None:
    second = _ASK.format(".shared::cta", "", "%ans+16", "%bar")
    body = f"""mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 32;
        {_ASK.format(".shared::cta", "", "%ans", "%bar")} {second} {_WAIT.format(1, 0)}
        ld.shared.b128 %q, [%ans]; {_CANCELED} ld.shared.b128 %q, [%ans+16]; {_CANCELED}"""
    assert clean(launch(ptx(f"{body} ret;"), (1, 1, 1))[0])
    report, _, _ = launch(ptx(f"{body} {_EXPECT} {second} {_WAIT.format(2, 1)} ret;"), (1, 1, 1))
    assert [finding.code for finding in report.findings] == ["cancel-after-refusal"]


def test_a_value_that_is_no_answer_is_found() -> None:
    body = f"""{_EXPECT} {_ASK.format(".shared::cta", "", "%ans", "%bar")} {_WAIT.format(1, 0)}
        mov.u64 %d4, 7; mov.b128 %q, {{%d4, %d4}}; {_CANCELED} ret;"""
    report, _, _ = launch(ptx(body), (1, 1, 1))
    assert [finding.code for finding in report.findings] == ["cancel-answer"]


def test_it_is_an_instruction_of_blackwell_alone() -> None:
    device = Device("90a")
    zeros = [device.upload(np.zeros(1, np.int32)) for _ in range(2)]
    report = device.launch(take_over(True).replace("sm_100a", "sm_90a"), "k", 1, 1, *zeros)
    assert report.error == "unknown_instruction"
    assert "not an instruction of sm_90a" in report.findings[0].message


def test_the_largest_grid_ends_within_the_limit() -> None:
    endless = take_over(False).replace(_TILE, "")
    start = time.monotonic()
    report, _, _ = launch(endless, (2**31 - 1, 1, 1), limits=Limits(seconds=0.5))
    assert report.error == "timeout"
    assert time.monotonic() - start < 5


def test_an_answer_holds_every_block_index() -> None:
    corners = list(itertools.product((0, 1, 2**31 - 2), (0, 1, 65534), (0, 1, 65534)))
    firsts: list[Extent | None] = [*corners, None]
    requests = [Request(number, SourceLine(), 0, [], [], True, first) for number, first in enumerate(firsts)]
    words = np.concatenate([encode(request) for request in requests]).view(np.uint64)
    answers = Answers(words[::2], words[1::2])
    assert answers.known.all()
    assert answers.granted.tolist() == [True] * len(corners) + [False]
    assert answers.numbers.tolist() == list(range(len(firsts)))
    assert list(zip(*(axis.tolist() for axis in answers.axes), strict=True))[:-1] == corners


def test_a_cluster_barrier_does_not_wait_for_threads_that_leave_after_the_others_arrived() -> None:
    leave = """setp.ne.u32 %p1, %rank, 1; @%p1 bra STAY; mov.u32 %r1, 0;
        SPIN: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 600; @%p2 bra SPIN; ret;"""
    report, count, _ = launch(ptx(f"{leave} STAY: {_SYNC} {_TILE} ret;"), (2, 1, 1), (2, 1, 1))
    assert clean(report), report.findings
    assert count.reshape(-1).tolist() == [1, 0]
