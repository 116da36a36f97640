"""Parsers of text that a candidate or a tool makes: whatever they read, only the named errors come out.

Seeded random mutations of real text; a failure prints the input. `make fuzz` tries 100,000 on every parser, any other
run as many as take a second or two.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ptxgym.devices.cuda.nsight import parse_nsight_log
from ptxgym.devices.cuda.sanitizer import ERROR_EXIT, parse_sanitizer_log
from ptxgym.devices.cuda.timing import without_flush
from ptxgym.devices.device import KernelLaunch
from ptxgym.devices.process import read_reply
from ptxgym.devices.simulator.findings import SimulatorError
from ptxgym.devices.simulator.ptx.parser import parse
from ptxgym.devices.simulator.runtime.protocol import REQUEST, ProtocolError, take_request
from ptxgym.errors import CandidateError, InfrastructureError, MisuseError
from ptxgym.runs.records import TurnRecord, read_lines
from ptxgym.toolchain.ptxas import parse_advisories, parse_resources
from ptxgym.toolchain.sass import parse_disassembly
from ptxgym.toolchain.source import Source, SourceRefusedError, read_source
from ptxgym.trajectories import read_records

PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90a'
ptxas info    : Function properties for _Z1kPf
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1024 bytes smem
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
"""
NSIGHT = """\
==PROF== Connected to process 740 (/usr/bin/python3.12)
"Kernel Name","_Z1kPf",
"Address","Source","inst_executed","thread_inst_executed_true"
"0x20","@!P0  BRA 0x990","64","0"
"0x30","      FFMA R24, R4, R24","8","256"
"""
SANITIZER = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 2 bytes
=========     at oob(__nv_bfloat16 *)+0xb0 in kernel.cu:3
=========     Saved host backtrace up to driver entry point
========= \n\
========= ERROR SUMMARY: 1 error
"""
SASS = json.dumps([{}, [{"function-name": "k", "sass-instructions": [{"opcode": "FFMA"}, {"opcode": "EXIT"}]}]])
_RECORDS = [["memset", "", 1, 2, 0], ["kernel", "k", 3, 4, 8]]
REPLY = json.dumps({"code": 0, "sync": 700, "name": "x", "text": "y", "activities": _RECORDS})
PTX = """\
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 .ptr .align 1 p, .param .align 64 .b8 m[128])
.maxntid 128, 1, 1
{
\t.reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %rd<3>; .shared .align 16 .b8 s[64];
\tld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;
\tsetp.ne.s32 %p1, %r1, 0;
$L: @%p1 bra $L;
\tst.global.u32 [%rd1+4], %r1;
\tret;
}
"""
SOURCE = '```cuda\n#include <cuda.h>\nstatic int x = 1;\nextern "C" int run() { return x; }\n```\n'


def _count(usual: int) -> int:
    """How many inputs to try."""
    return int(os.environ.get("PTXGYM_FUZZ", usual))


_PIECES = (*"\n\"',{}[]-=\0é", "1" * 30, "1e999", "NaN", "\\ud800", "PASSED", " " * 50)


def mutate(random_: random.Random, text: str) -> str:
    """A few deletions, repetitions, exchanges and insertions."""
    for _ in range(random_.randint(1, 5)):
        i, j = sorted(random_.randint(0, len(text)) for _ in range(2))
        j = min(j, i + random_.randint(0, 60))
        piece = random_.choice((random_.choice(_PIECES), chr(random_.randint(1, 255)), text[i:j] * 2, ""))
        text = text[:i] + piece + text[random_.choice((i, j)) :]
    return text


def _fuzz(seed: str, count: int, read: Callable[[str], object], *expected: type[Exception]) -> None:
    random_ = random.Random(seed)
    for number in range(_count(count)):
        text = mutate(random_, seed)
        try:
            read(text)
        except expected:
            pass
        except Exception as error:
            pytest.fail(f"input {number}, {text!r}: {type(error).__name__}: {error}")


def test_the_report_of_ptxas() -> None:
    _fuzz(PTXAS, 20_000, lambda text: (parse_resources(text), parse_advisories(text)))


def test_the_log_of_nsight_compute_never_gains_a_tensor_instruction() -> None:
    def read(text: str) -> None:
        kernels = parse_nsight_log(text)
        assert not any("GMMA" in opcode for kernel in kernels for opcode in kernel.threads)

    _fuzz(NSIGHT, 20_000, read, InfrastructureError)


def test_the_log_of_the_memory_checker_never_loses_an_error_that_its_exit_code_tells() -> None:
    def read(text: str) -> None:
        assert parse_sanitizer_log(text, ERROR_EXIT).errors

    _fuzz(SANITIZER, 20_000, read, InfrastructureError)


def test_the_disassembly() -> None:
    # What ptxgym.toolchain.sass.disassemble turns into an InfrastructureError.
    _fuzz(SASS, 20_000, parse_disassembly, ValueError, LookupError, TypeError, AttributeError)


def test_the_replies_of_a_candidates_process() -> None:
    def read(text: str) -> None:
        reply = read_reply(text.encode("utf-8", "replace"))
        assert isinstance(reply.get("code", 0), int)
        json.dumps(reply, allow_nan=False).encode()
        for record in without_flush("candidate", reply.get("activities"), 1):
            KernelLaunch(name=record[1], warps=record[4])

    _fuzz(REPLY, 20_000, read, ValueError, CandidateError)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"code": "0"}',
        b'{"code": null}',
        b'{"code": true}',
        b'{"sync": 1e999}',
        b'{"activities": [["kernel", "k", -Infinity, 1]]}',
        b'{"text": "\\ud800"}',
        b'{"code": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b"7",
    ],
    ids=range(11),
)
def test_a_reply_that_no_process_of_ours_gives_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- json's own is one
        read_reply(line)


def test_the_requests_to_the_simulator() -> None:
    random_ = random.Random(1)
    whole = REQUEST.pack(9, 2, 3) + bytes(16) + b"abc"
    for _ in range(_count(20_000)):
        data = bytearray(whole)
        for _ in range(random_.randint(1, 4)):
            data[random_.randrange(len(data))] = random_.randrange(256)
        try:
            request = take_request(data)
        except ProtocolError:
            continue
        assert request is None or len(request.words) <= 40


def test_ptx() -> None:
    _fuzz(PTX, 4_000, parse, SimulatorError)


@pytest.mark.parametrize(
    "read",
    [
        lambda digits: parse_resources(PTXAS.replace("Used 32", f"Used {digits}")),
        lambda digits: parse_sanitizer_log(SANITIZER.replace("1 error", f"{digits} errors"), ERROR_EXIT),
    ],
    ids=["ptxas", "sanitizer"],
)
def test_a_number_of_5000_digits(read: Callable[[str], object]) -> None:
    read("9" * 5000)


@pytest.mark.parametrize("text", ["static " * 4000, "#include " + "<" * 28_000], ids=["static", "include"])
def test_reading_a_hostile_source_takes_no_time(text: str) -> None:
    start = time.process_time()
    Source(read_source(text).text).flags()
    assert time.process_time() - start < 0.15


def test_sources() -> None:
    def read(text: str) -> None:
        Source(read_source(text).text).flags()

    _fuzz(SOURCE, 20_000, read, SourceRefusedError)


def test_records_in_files(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    line = '{"id": "x", "task": "PTXBench-GEMM-H100", "turn": 1, "status": "incorrect", "reward": 0.0}'

    def read(text: str) -> None:
        file.write_text(text, encoding="utf-8", errors="replace")
        for reader in (lambda: read_records(file), lambda: read_lines(file, TurnRecord)):
            try:
                assert not list(reader())
            except MisuseError:
                continue

    _fuzz(line + "\n" + line, 1_000, read)
