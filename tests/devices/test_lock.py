import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ptxgym.devices.cuda.lock import GpuLock, Stay


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
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) > 1
    assert alone == [0, 0, 0, 0]


def test_counters_belong_to_one_of_those_that_run_and_hold_off_who_times(lock: GpuLock):
    counting, most, alone = [], [], []

    def count() -> None:
        with lock.shared(), lock.counting():
            counting.append(1)
            most.append(len(counting))
            time.sleep(0.03)
            counting.pop()

    def time_it() -> None:
        with lock.exclusive():
            alone.append(len(counting))

    threads = [threading.Thread(target=work) for work in (count, count, time_it, count, time_it, count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert most == [1, 1, 1, 1]
    assert alone == [0, 0]


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


def test_who_has_the_gpu_to_himself_may_share_it_with_himself(lock: GpuLock):
    with lock.exclusive(), lock.shared() as stay, lock.exclusive():
        assert not stay.disturbed()
        entered = threading.Event()
        thread = threading.Thread(target=lambda: _enter_and_tell(lock, entered))
        thread.start()
        assert not entered.wait(0.2), "another thread may not"
    thread.join(timeout=10)
    assert entered.is_set()


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
