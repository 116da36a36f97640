"""Hostile kernels end with a message; reports are complete, exact and repeatable."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from ptxgym.devices.simulator import launch
from ptxgym.devices.simulator.findings import PtxSyntaxError, Severity
from ptxgym.devices.simulator.machine import LaunchReport, Limits
from ptxgym.devices.simulator.module import load_module
from tests.corpus.harness import Device

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, parameters: str = ".param .u64 p", extra: str = "") -> str:
    registers = ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .f32 %f<8>;"
    return f"{HEAD}{extra}\n.visible .entry k({parameters}) {{\n{registers}\n{body}\n}}\n"


def run(body: str, *, grid: object = 1, block: object = 32, size: int = 1024, limits: Limits | None = None) -> tuple[
    LaunchReport, np.ndarray
]:  # fmt: skip
    device = Device("90a")
    out = device.upload(np.zeros(size, np.uint32), "out")
    report = device.launch(kernel(body), "k", grid, block, out, limits=limits)
    return report, device.array(out)


SPIN = "L: bra L; ret;"


def test_an_endless_loop_ends_as_a_timeout() -> None:
    report, _ = run(SPIN, limits=Limits(spins=10_000))
    assert report.error == "timeout"
    assert report.findings[-1].code == "endless-loop"


def test_the_instruction_limit_holds() -> None:
    report, _ = run(SPIN, limits=Limits(instructions=100_000))
    assert report.error == "timeout"
    assert report.findings[-1].code == "instruction-limit"


class Clocks:
    """Stands for the module ``time``: every look finds both clocks further on."""

    def __init__(self, processor: float, wall: float) -> None:
        self._steps = processor, wall
        self._processor = self._wall = 0.0

    def process_time(self) -> float:
        self._processor += self._steps[0]
        return self._processor

    def monotonic(self) -> float:
        self._wall += self._steps[1]
        return self._wall


LOOP = "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 2000; @%p1 bra L; ret;"


@pytest.mark.parametrize(
    ("processor", "wall", "code"), [(0.1, 50, ""), (20, 50, "time-limit"), (0.1, 1000, "wall-clock-limit")]
)
def test_a_launch_has_its_processor_time_however_busy_the_machine_is(
    processor: float, wall: float, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "time", Clocks(processor, wall))
    report, _ = run(LOOP, limits=Limits(seconds=30, wall_seconds=3000))
    assert [finding.code for finding in report.findings] == ([code] if code else [])


def test_a_limit_names_the_line_where_threads_were_last() -> None:
    body = ".loc 1 41 0\nmov.u32 %r1, 0;\n.loc 1 42 0\nL: add.u32 %r1, %r1, 1;\nbra L;\nret;\n"
    device = Device("90a")
    source = kernel(body) + '.file 1 "kernel.cu"\n'
    out = device.upload(np.zeros(8, np.uint32), "out")
    for limits in (Limits(spins=10_000), Limits(instructions=100_000)):
        finding = device.launch(source, "k", 3, 64, out, limits=limits).findings[-1]
        assert str(finding.where) == "kernel.cu:42"
        assert "last here: 64 threads of block (0, 0, 0) (and 2 more blocks), warp 0-1" in finding.message


def test_the_processor_time_limit_holds() -> None:
    start = time.process_time()
    report, _ = run(SPIN, limits=Limits(seconds=0.3, spins=1 << 60, instructions=1 << 60))
    assert report.error == "timeout"
    assert time.process_time() - start < 3


def test_a_billion_threads_end_within_the_limit() -> None:
    body = "mov.u32 %r1, %tid.x; add.u32 %r1, %r1, 1; ret;"
    start = time.process_time()
    report, _ = run(body, grid=(1_000_000, 1, 1), block=1024, limits=Limits(seconds=1.0))
    assert report.error == "timeout"
    assert time.process_time() - start < 5


@pytest.mark.parametrize("grid", [(2**31 - 1, 1, 1), (65535, 65535, 65535)])
def test_the_largest_grids_end_within_the_limit(grid: tuple[int, int, int]) -> None:
    start = time.process_time()
    report, _ = run(SPIN, grid=grid, limits=Limits(seconds=0.5))
    assert report.error == "timeout"
    assert time.process_time() - start < 5


def test_a_defect_of_the_simulator_is_not_held_against_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("ptxgym.devices.simulator.launch.Launch.run", broken)
    report, _ = run("ret;")
    assert report.error == "unknown_instruction"
    assert "not counted against the kernel" in report.findings[0].message


def test_a_cluster_that_does_not_fit_is_refused() -> None:
    device = Device("90a")
    report = device.launch(kernel("ret;"), "k", 8, 1024, 0, cluster=(8, 1, 1), limits=Limits(memory_bytes=1000))
    assert report.error == "timeout"
    assert report.findings[-1].code == "memory-limit"


def test_an_unknown_opcode_is_named_with_its_line() -> None:
    report, _ = run("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d1, {%r1}]; ret;")
    assert report.error == "unknown_instruction"
    assert "tex.1d.v4.f32.s32 at " in report.findings[0].message
    assert report.findings[0].message.endswith("this is not counted against the kernel")
    assert report.findings[0].severity is Severity.WARNING


def test_an_instruction_of_another_architecture_is_unknown() -> None:
    report, _ = run("tcgen05.fence::before_thread_sync; ret;")
    assert report.error == "unknown_instruction"
    assert "not an instruction of sm_90a" in report.findings[0].message


@pytest.mark.parametrize("name", ["__import__", "x__class__", "os_system", "_lambda_0", "exec"])
def test_hostile_identifiers_are_only_names(name: str) -> None:
    text = f"{HEAD}.visible .entry {name}(.param .u64 p) {{ .reg .b32 {name}_r; mov.u32 {name}_r, 1; {name}_l: ret; }}"
    module = load_module(text)
    report = Device("90a").launch(module, name, 1, 1, 0)
    assert report.error is None


def test_no_module_of_the_executor_generates_code() -> None:
    from ptxgym.devices import simulator

    for folder in simulator.__path__:
        for root, _, files in os.walk(folder):
            for file in files:
                if file.endswith(".py") and "runtime" not in root:
                    with open(os.path.join(root, file)) as handle:
                        text = handle.read()
                    assert "exec(" not in text.replace("Popen", "") or file in ("host.py", "device.py"), file
                    assert "eval(" not in text, file


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        ".version 9.0 .target sm_90a .entry k( { ret; }",
        HEAD + ".entry k() { add.s32 %r1 %r2; ret; }",
        HEAD + ".entry k() { ret;",
    ],
)
def test_bad_text_is_refused_with_a_line(text: str) -> None:
    if text == "":
        assert load_module(text).kernels == {}
        return
    with pytest.raises(PtxSyntaxError, match=r"PTX line \d+: expected"):
        load_module(text).image("k", "90a")


def test_out_of_bounds_names_the_allocation_and_the_thread() -> None:
    body = """ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
              st.global.u32 [%d1+64], %r1; ret;"""
    report, out = run(body, size=32)
    (finding,) = report.findings
    assert report.error == "fault"
    assert finding.code == "out-of-bounds"
    assert "past the end of out (128 bytes)" in finding.message
    assert finding.message.endswith("thread (16,0,0) of block (0,0,0)")
    assert not out.any(), "a refused store must not be partly done"


def test_freed_memory_is_found() -> None:
    device = Device("90a")
    address = device.upload(np.zeros(16, np.uint32), "gone")
    device.memory.remove(address)
    report = device.launch(kernel("ld.param.u64 %d1, [p]; ld.global.u32 %r1, [%d1]; ret;"), "k", 1, 1, address)
    assert report.findings[0].code == "use-after-free"


def test_uninitialised_global_memory_is_found_where_the_owner_knows() -> None:
    device = Device("90a")
    flags = np.zeros(64, np.bool_)
    flags[:32] = True
    device.memory.add(0x7E_0000_0000, 64, np.zeros(64, np.uint8), "raw", initialised=flags)
    body = "ld.param.u64 %d1, [p]; ld.global.u32 %r1, [%d1+{offset}]; ret;"
    clean = device.launch(kernel(body.format(offset=28)), "k", 1, 1, 0x7E_0000_0000)
    assert clean.findings == ()
    found = device.launch(kernel(body.format(offset=32)), "k", 1, 1, 0x7E_0000_0000)
    assert [f.code for f in found.findings] == ["uninitialised-global"]


def test_executed_counts_only_true_predicates() -> None:
    body = """mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; @%p1 add.u32 %r2, %r1, 1; @!%p1 bra END;
              mul.lo.u32 %r2, %r2, %r2; END: ret;"""
    report, _ = run(body)
    assert report.executed == {"mov.u32": 32, "setp.lt.u32": 32, "add.u32": 5, "bra": 27, "mul.lo.u32": 5, "ret": 32}


def test_a_deadlock_says_who_waits_where_for_what() -> None:
    body = """mov.u32 %r1, %tid.x; mov.u32 %r2, bar; setp.ne.u32 %p1, %r1, 0; @%p1 bra W;
              mbarrier.init.shared.b64 [%r2], 3; W: bar.sync 0;
              mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 48;
              @%p1 bra END;
              WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra WAIT; END: ret;"""
    device = Device("90a")
    report = device.launch(kernel(body, extra=".shared .align 8 .b64 bar;"), "k", 1, 2, 0)
    (finding,) = report.findings
    assert report.error == "deadlock"
    assert finding.code == "deadlock"
    assert "1 thread of block (0, 0, 0), warp 0, wait for ever: mbarrier bar" in finding.message
    assert "phase 0 (parity 0): 1 of 3 arrivals are missing and 96 bytes more were expected" in finding.message


def test_a_barrier_that_lacks_threads_is_counted() -> None:
    report, _ = run("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bar.sync 1, 96; ret;", block=64)
    assert report.error == "deadlock"
    assert "barrier 1: 32 of 96 threads arrived" in report.findings[0].message


def test_threads_that_ended_do_not_block_the_others() -> None:
    body = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 40; @%p1 bra GO; ret; GO: bar.sync 0; ret;"
    report, _ = run(body, block=64)
    assert report.error is None


def test_divided_lanes_meet_again_at_a_shuffle() -> None:
    body = """ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
              and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra EVEN;
              add.u32 %r3, %r1, 100; bra JOIN; EVEN: add.u32 %r3, %r1, 200;
              JOIN: shfl.sync.bfly.b32 %r4, %r3, 1, 31, 0xffffffff; st.global.u32 [%d1], %r4; ret;"""
    report, out = run(body)
    t = np.arange(32) ^ 1
    assert report.error is None
    assert (out[:32] == t + np.where(t % 2 == 0, 200, 100)).all()


_PROBE = """
import sys
sys.path.insert(0, '.')
from tests.corpus.harness import Device
from tests.devices.simulator.executor.test_limits_and_reports import kernel
body = '''mov.u32 %r1, %tid.x; mov.u32 %r3, buf; mul.lo.u32 %r2, %r1, 4; add.u32 %r3, %r3, %r2;
st.shared.u32 [%r3], %r1; xor.b32 %r4, %r2, 252; mov.u32 %r5, buf; add.u32 %r5, %r5, %r4; ld.shared.u32 %r6, [%r5];
bar.sync 1, 96; ret;'''
r = Device('90a').launch(kernel(body, extra='.shared .align 4 .b8 buf[256];'), 'k', 3, 64, 0)
print(r)
"""


def test_the_report_does_not_depend_on_the_hash_seed() -> None:
    outputs = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        outputs.add(subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, check=True,
                                   env=environment).stdout)  # fmt: skip
    assert len(outputs) == 1
    assert "shared-race" in outputs.pop()


def test_cost_grows_linearly_with_executed_instructions() -> None:
    body = """ld.param.u64 %d1, [p]; mov.u32 %r1, {n}; mov.u32 %r2, 0;
              L: add.u32 %r2, %r2, 3; xor.b32 %r2, %r2, 5; sub.u32 %r1, %r1, 1;
              setp.ne.u32 %p1, %r1, 0; @%p1 bra L; ret;"""
    times = []
    for n in (2000, 4000, 8000):
        start = time.process_time()
        report, _ = run(body.replace("{n}", str(n)), block=128)
        times.append(time.process_time() - start)
        assert report.error is None
    assert times[2] < 8 * times[0]


@pytest.mark.parametrize(("give", "take", "codes"), [(40, 232, []), (40, 240, ["setmaxnreg-pool"])])
def test_registers_that_do_not_fit_the_pool_are_found(give: int, take: int, codes: list[str]) -> None:
    body = f"""mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 128; @%p1 bra P;
               setmaxnreg.inc.sync.aligned.u32 {take}; bra E;
               P: setmaxnreg.dec.sync.aligned.u32 {give}; E: ret;"""
    report, _ = run(body, block=384)
    assert [f.code for f in report.findings] == codes
