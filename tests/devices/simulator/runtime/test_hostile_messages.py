"""Whatever a candidate's process sends, the simulator goes on or ends, and the judge's buffers stay as they are."""

from __future__ import annotations

import mmap
import os
import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ptxgym.devices.simulator.runtime.arena import Arena
from ptxgym.devices.simulator.runtime.process import HostProcess
from ptxgym.devices.simulator.runtime.protocol import (
    BOUNCE_BYTES,
    MOST_BYTES,
    MOST_WORDS,
    REQUEST,
    Code,
    MemoryKind,
    Operation,
)

from .hostile_client import HostileClient

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry put(.param .u64 p, .param .u32 n) {
    .reg .b64 %a; .reg .b32 %n;
    ld.param.u64 %a, [p]; ld.param.u32 %n, [n]; st.global.u32 [%a], %n; ret;
}
.visible .entry forever(.param .u64 p) {
    .reg .b64 %a; .reg .b32 %v;
    ld.param.u64 %a, [p];
again: ld.global.u32 %v, [%a]; add.u32 %v, %v, 1; st.global.u32 [%a], %v; bra again;
}
"""
SECRET = 0x5A


class Judge:
    """A simulator with one buffer of the judge's."""

    def __init__(self, folder: Path) -> None:
        (folder / "kernel.ptx").write_text(PTX)
        self.arena = Arena()
        self.host = HostProcess(self.arena)
        self.host.order("start", architecture="90a", ptx=str(folder / "kernel.ptx"), resources={})
        made = self.host.order("allocate", size=4096, label="A", initialised=True)
        self.address, self.handle = made["address"], bytes.fromhex(made["handle"])
        self.arena.view(self.address, 4096)[:] = SECRET
        self.begin()

    def begin(self, seconds: float = 30.0) -> None:
        self.host.order("begin", seconds=seconds, poisoned=[])

    def untouched(self) -> bool:
        return bool(np.all(self.arena.view(self.address, 4096) == SECRET))

    def client(self) -> HostileClient:
        return HostileClient(self.host.address)


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Judge]:
    judge = Judge(tmp_path)
    yield judge
    judge.host.close()
    judge.arena.close()


def test_noise_ends_the_connection_and_not_the_simulator(judge: Judge):
    with judge.client() as client:
        client.socket.sendall(random.Random(1).randbytes(1 << 16))
        with pytest.raises(ConnectionError):
            client.exactly(1 << 20)
    evidence = judge.host.order("collect")
    assert evidence["protocol"]
    assert judge.untouched()


@pytest.mark.parametrize(("words", "size"), [(MOST_WORDS + 1, 0), (0, MOST_BYTES + 1), (0xFFFFFFFF, 0), (0, 1 << 63)])
def test_a_request_that_announces_too_much_is_cut_off_at_once(judge: Judge, words: int, size: int):
    with judge.client() as client:
        client.socket.sendall(REQUEST.pack(Operation.POINTER, words, size))
        with pytest.raises(ConnectionError):
            client.exactly(1)
    assert judge.host.order("collect")["protocol"]


def test_a_request_that_never_ends_does_not_hold_up_the_judge(judge: Judge):
    with judge.client() as client:
        client.socket.sendall(REQUEST.pack(Operation.LOAD_MODULE, 0, MOST_BYTES) + b"x" * 1000)
        start = time.monotonic()
        judge.host.order("collect")
        assert time.monotonic() - start < 2


def test_whoever_reads_no_reply_is_cut_off(judge: Judge):
    def talk_on(client: HostileClient) -> None:
        for _ in range(200_000):
            client.send(Operation.POINTER, judge.address)

    with judge.client() as client, pytest.raises(ConnectionError):
        talk_on(client)
    assert "replies" in judge.host.order("collect")["protocol"][0]


def test_a_second_connection_is_not_taken(judge: Judge):
    with judge.client() as client:
        client.hello()
        with pytest.raises(OSError), judge.client() as other:  # noqa: PT011 refused or reset, by timing
            other.hello()


@pytest.mark.parametrize("seed", range(4))
def test_random_arguments_to_every_operation_change_nothing_of_the_judges(judge: Judge, seed: int):
    draw = random.Random(seed)
    interesting = [0, 1, 2, 3, 7, 64, 4096, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    interesting += [judge.arena.start, judge.arena.shown_start, judge.arena.start + judge.arena.size]
    operations = [*Operation, 0, 27, 1 << 31, (1 << 32) - 1]
    with judge.client() as client:
        client.hello()
        for _ in range(1500):
            words = [draw.choice(interesting) + draw.choice((0, 0, -1, 1)) for _ in range(draw.randrange(MOST_WORDS))]
            data = draw.randbytes(draw.choice((0, 1, 64, 128, 1000)))
            operation = draw.choice(operations)
            if operation == Operation.HELLO:
                continue  # it alone hands over a descriptor
            client.ask(operation, *words, data=data)
        assert client.ask(Operation.POINTER, judge.address)[1][1:] == [judge.address, 4096]
    assert judge.host.order("collect")["problems"] == []
    assert judge.untouched()


def test_the_judges_buffers_cannot_be_freed_and_open_by_their_handle_alone(judge: Judge):
    with judge.client() as client:
        client.hello()
        for kind in MemoryKind:
            assert client.ask(Operation.FREE, judge.address, kind)[0] == Code.INVALID_VALUE
        forged = bytearray(judge.handle)
        forged[-1] ^= 1
        assert client.ask(Operation.OPEN_HANDLE, data=bytes(forged))[0] == Code.INVALID_VALUE
        assert client.ask(Operation.OPEN_HANDLE, data=judge.handle[:16])[0] == Code.INVALID_VALUE
        assert client.ask(Operation.OPEN_HANDLE, data=judge.handle)[:2] == (0, [judge.address])
        assert client.ask(Operation.CLOSE_HANDLE, judge.address)[0] == 0
        assert client.ask(Operation.CLOSE_HANDLE, judge.address)[0] == Code.INVALID_VALUE
    assert judge.untouched()


def test_the_memory_that_a_candidate_may_map_is_neither_the_devices_nor_resizable(judge: Judge):
    with judge.client() as client:
        _, shown = client.hello()
        size = os.fstat(shown).st_size
        assert size == judge.arena.shown_size
        with pytest.raises(OSError, match="not permitted"):
            os.ftruncate(shown, 0)
        with mmap.mmap(shown, size) as mapped:
            mapped[: 1 << 20] = b"\xee" * (1 << 20)
        os.close(shown)
    assert judge.untouched()
    assert judge.host.order("collect")["problems"] == []


def test_copies_stay_inside_one_allocation(judge: Judge):
    with judge.client() as client:
        client.hello()
        _, (own,), _ = client.ask(Operation.ALLOCATE, 1000, MemoryKind.DEVICE)
        refused = [
            (Operation.COPY, own, 0, judge.address + 4000, 0, 97, 1),
            (Operation.COPY, own + 990, 0, judge.address, 0, 11, 1),
            (Operation.COPY, own, 100, judge.address, 100, 100, 11),
            (Operation.COPY, own, 1 << 63, judge.address, 0, 1, 2),
            (Operation.FILL, own, 0, 0, 4, 251, 1),
            (Operation.FILL, own, 0, 0, 3, 1, 1),
            (Operation.FILL, own, 0, 0, 4, 1 << 62, 1),
            (Operation.UPLOAD, own, 0, BOUNCE_BYTES + 1, 1),
            (Operation.DOWNLOAD, judge.address + 4095, 0, 2, 1),
            (Operation.CHECK, own, 1, 2, 1 << 40),
        ]
        for operation, *words in refused:
            assert client.ask(operation, *words)[0] == Code.INVALID_VALUE, (operation.name, words)
        assert client.ask(Operation.COPY, own, 0, judge.address, 0, 1000, 1)[0] == 0
    assert judge.untouched()


def test_allocating_without_end_runs_out_and_says_so(judge: Judge):
    with judge.client() as client:
        client.hello()
        codes = {client.ask(Operation.ALLOCATE, 1 << 30, MemoryKind.DEVICE)[0] for _ in range(20)}
        small = {client.ask(Operation.ALLOCATE, 1, MemoryKind.DEVICE)[0] for _ in range(100)}
        assert client.ask(Operation.ALLOCATE, 1 << 62, MemoryKind.DEVICE)[0] == Code.OUT_OF_MEMORY
        assert client.ask(Operation.ALLOCATE, 0, MemoryKind.DEVICE)[0] == Code.INVALID_VALUE
    assert codes == {0, Code.OUT_OF_MEMORY}
    assert small <= {0, Code.OUT_OF_MEMORY}
    assert "allocation" in judge.host.order("collect")["limits"][0]


def function(client: HostileClient, name: str) -> int:
    code, words, _ = client.ask(Operation.FUNCTION, 0, data=name.encode())
    assert code == 0
    return words[0]


def test_a_launch_that_never_ends_is_ended(judge: Judge):
    judge.begin(2.0)
    with judge.client() as client:
        client.hello()
        _, (own,), _ = client.ask(Operation.ALLOCATE, 64, MemoryKind.DEVICE)
        forever, data = function(client, "forever"), struct.pack("Q", own)
        code, words, _ = client.ask(Operation.LAUNCH, forever, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, data=data)
        assert (code, words) == (0, [Code.LAUNCH_TIMEOUT])
        code, words, _ = client.ask(Operation.LAUNCH, forever, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, data=data)
    evidence = judge.host.order("collect")
    assert evidence["launches"][0]["error"]


def test_a_thousand_million_threads_end_within_the_limit(judge: Judge):
    judge.begin(3.0)
    with judge.client() as client:
        client.hello()
        _, (own,), _ = client.ask(Operation.ALLOCATE, 64, MemoryKind.DEVICE)
        grid = (1 << 31) - 1, 65535, 65535
        data = struct.pack("QI", own, 1)
        code, words, _ = client.ask(
            Operation.LAUNCH, function(client, "put"), *grid, 1024, 1, 1, 0, 0, 0, 0, 0, data=data
        )
        assert code or words[0]
    judge.host.order("collect")
    assert judge.untouched()


def test_launches_with_wrong_handles_or_short_parameters_are_refused(judge: Judge):
    with judge.client() as client:
        client.hello()
        put = function(client, "put")
        shape = (1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0)
        assert client.ask(Operation.LAUNCH, put + 1000, *shape)[0] == Code.INVALID_HANDLE
        assert client.ask(Operation.LAUNCH, put, *shape, data=b"short")[0] == Code.INVALID_VALUE
        assert client.ask(Operation.FUNCTION, 0, data=b"nobody")[0] == Code.NOT_FOUND
        assert client.ask(Operation.FUNCTION, 0, data=b"\xff\xfe")[0] == Code.NOT_FOUND
        assert client.ask(Operation.FUNCTION, 99, data=b"put")[0] == Code.INVALID_HANDLE


def test_nothing_on_the_device_changes_outside_a_run(judge: Judge):
    judge.host.order("collect")
    with judge.client() as client:
        client.hello()
        data = struct.pack("QI", judge.address, 1)
        requests = [
            (Operation.LAUNCH, function(client, "put"), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0),
            (Operation.UPLOAD, judge.address, 0, 64, 1),
            (Operation.FILL, judge.address, 0, 0, 1, 64, 1),
            (Operation.COPY, judge.address, 0, judge.address + 64, 0, 64, 1),
        ]
        for operation, *words in requests:
            assert client.ask(operation, *words, data=data)[0] == Code.NOT_PERMITTED
        assert judge.untouched()
        assert len(judge.host.order("collect")["protocol"]) == len(requests)
        judge.begin()
        assert client.ask(*requests[1], data=data)[0] == 0


@pytest.mark.parametrize("text", ["", "hello", ".version", ".version 8.0\n.target sm_90\n" + "(" * 10000, "\0" * 100])
def test_modules_that_are_no_ptx_are_refused(judge: Judge, text: str):
    with judge.client() as client:
        client.hello()
        code, _, _ = client.ask(Operation.LOAD_MODULE, data=text.encode())
        assert code in (Code.INVALID_IMAGE, Code.INVALID_PTX)
    assert judge.host.order("collect")["problems"] == []
