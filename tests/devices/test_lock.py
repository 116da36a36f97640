import contextlib
import fcntl
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ptxgym.devices.cuda.device import CudaDevice
from ptxgym.devices.cuda.lock import GpuLock, Stay, _held
from ptxgym.errors import CandidateError, CrowdedError, OutOfMemoryError


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuLock:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return GpuLock("GPU-test")


def test_many_may_run_but_one_that_times_is_alone(lock: GpuLock):
    inside, most, alone = [], [], []

    def run() -> None:
        with lock.shared():
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.05)
            inside.pop()

    def time_it() -> None:
        with lock.exclusive():
            alone.append(len(inside))
            time.sleep(0.05)
            alone.append(len(inside))

    threads = [threading.Thread(target=run) for _ in range(6)] + [threading.Thread(target=time_it) for _ in range(2)]
    _side_by_side(threads)
    assert max(most) > 1
    assert alone == [0, 0, 0, 0]


def test_counters_belong_to_one_of_those_that_run_and_hold_off_who_times(lock: GpuLock):
    counting, most, alone = [], [], []

    def count() -> None:
        with lock.counting(), lock.shared():
            counting.append(1)
            most.append(len(counting))
            time.sleep(0.03)
            counting.pop()

    def time_it() -> None:
        with lock.exclusive():
            alone.append(len(counting))

    threads = [threading.Thread(target=work) for work in (count, count, time_it, count, time_it, count)]
    _side_by_side(threads)
    assert most == [1, 1, 1, 1]
    assert alone == [0, 0]


def test_who_has_the_gpu_alone_has_the_counters_too(lock: GpuLock):
    counted = threading.Event()

    def count() -> None:
        with lock.counting():
            counted.set()
            with lock.shared():
                pass

    with lock.exclusive():
        other = threading.Thread(target=count)
        other.start()
        assert counted.wait(10)
        with lock.counting(), lock.shared():
            pass
    other.join(timeout=10)
    assert not other.is_alive()


def test_few_wait_with_memory_of_their_own_and_who_is_alone_does_not(lock: GpuLock):
    with contextlib.ExitStack() as all_turns, lock.exclusive():
        for path in lock._turns:
            all_turns.enter_context(_held(path, fcntl.LOCK_EX))
        with lock.turn(), lock.shared():
            pass
    inside, most = [], []

    def wait() -> None:
        with lock.turn():
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.02)
            inside.pop()

    threads = [threading.Thread(target=wait) for _ in range(20)]
    _side_by_side(threads)
    assert len(most) == 20
    assert max(most) == 4
    before = os.listdir("/proc/self/fd")
    with lock.turn(), lock.turn(), lock.turn(), lock.turn():
        pass
    assert os.listdir("/proc/self/fd") == before


def test_who_cannot_tell_that_it_leaves_has_left_all_the_same(lock: GpuLock, monkeypatch: pytest.MonkeyPatch):
    def leave() -> None:
        with lock.shared():
            monkeypatch.setattr(lock, "_left", Path("/nowhere/left"))

    with pytest.raises(FileNotFoundError):
        leave()
    entered = threading.Event()

    def time_it() -> None:
        with lock.exclusive():
            entered.set()

    threading.Thread(target=time_it, daemon=True).start()
    assert entered.wait(10)


def test_a_stream_of_runners_does_not_keep_out_one_that_times(lock: GpuLock):
    stop = threading.Event()

    def run_on() -> None:
        while not stop.is_set():
            with lock.shared():
                time.sleep(0.02)

    runners = [threading.Thread(target=run_on) for _ in range(4)]
    for runner in runners:
        runner.start()
    start = time.monotonic()
    with lock.exclusive():
        waited = time.monotonic() - start
    stop.set()
    for runner in runners:
        runner.join()
    assert waited < 5


def test_a_stay_knows_whether_somebody_else_was_there_meanwhile(lock: GpuLock):
    with lock.shared() as stay:
        assert not stay.disturbed()
        with _elsewhere(lock) as other:
            assert stay.disturbed()
            assert other.disturbed(), "it found somebody there"
        assert stay.disturbed(), "also when the other has left"
    with lock.shared() as later:
        assert not later.disturbed()


def test_a_stay_knows_since_when_nobody_else_is_there(lock: GpuLock):
    with lock.shared() as stay:
        assert stay.seconds_alone() == math.inf, "nobody ever was"
        with _elsewhere(lock) as other:
            assert (stay.seconds_alone(), other.seconds_alone()) == (0, 0)
        assert 0 <= stay.seconds_alone() < 60
        _backdate(lock, 100)
        assert stay.seconds_alone() == pytest.approx(100, abs=30)
        with _elsewhere(lock):
            assert stay.seconds_alone() == 0
    with lock.exclusive(), lock.shared() as own:
        assert own.seconds_alone() == math.inf


def test_who_was_killed_may_still_be_there_until_the_gpu_was_empty(lock: GpuLock):
    with lock.shared() as stay:
        _enter_and_be_killed(lock)
        _backdate(lock, 100)
        assert stay.seconds_alone() == 0
    with lock.shared() as stay, _elsewhere(lock):
        assert stay.seconds_alone() == 0
    with lock.shared() as stay:
        with _elsewhere(lock):
            pass
        _backdate(lock, 100)
        assert stay.seconds_alone() == pytest.approx(100, abs=30)


@pytest.mark.parametrize(
    ("error", "seconds_alone", "excused"),
    [
        (CandidateError("timeout", ""), 0, True),
        (CandidateError("timeout", ""), 100, False),
        (CandidateError("crash", ""), 0, False),
        (OutOfMemoryError("refused", ""), 100, True),
    ],
)
def test_others_excuse_a_lack_of_memory_and_of_time_that_they_may_have_taken(
    lock: GpuLock, error: CandidateError, seconds_alone: float, excused: bool
):
    device = CudaDevice.__new__(CudaDevice)
    device.__dict__["_lock"] = lock

    def fail() -> None:
        with device._beside_others():
            with _elsewhere(lock):
                pass
            _backdate(lock, seconds_alone)
            raise error

    with pytest.raises(CandidateError) as raised:
        fail()
    assert isinstance(raised.value, CrowdedError) == excused


def test_who_has_the_gpu_to_himself_may_share_it_with_himself(lock: GpuLock):
    with lock.exclusive(), lock.shared() as stay, lock.exclusive():
        assert not stay.disturbed()
        entered = threading.Event()
        thread = threading.Thread(target=lambda: _enter_and_tell(lock, entered))
        thread.start()
        assert not entered.wait(0.2), "another thread may not"
    thread.join(timeout=10)
    assert entered.is_set()


def _side_by_side(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)


def _enter_and_be_killed(lock: GpuLock) -> None:
    """A process of its own."""
    program = (
        "from ptxgym.devices.cuda.lock import GpuLock\nwith GpuLock('GPU-test').shared(): print(flush=True); input()"
    )
    environment = os.environ | {"TMPDIR": str(lock._gate.parent.parent)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        process.kill()


def _backdate(lock: GpuLock, seconds: float) -> None:
    """As if nobody had come or gone for so long."""
    for path in (lock._gate, lock._left):
        os.utime(path, (time.time() - seconds,) * 2)


def _enter_and_tell(lock: GpuLock, entered: threading.Event) -> None:
    with lock.shared():
        entered.set()


@contextmanager
def _elsewhere(lock: GpuLock) -> Iterator[Stay]:
    """The same lock as another process has it."""
    other = GpuLock.__new__(GpuLock)
    other.__dict__.update({**lock.__dict__, "_thread": threading.local()})
    with other.shared() as stay:
        yield stay
