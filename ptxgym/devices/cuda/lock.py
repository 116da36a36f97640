"""Who may use a GPU at a time: many that only run, or one that times. Holds across threads and processes."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

_TURNS = 4
"""So many may have buffers to be timed with, up to 5 GiB each."""


class Stay:
    """One stay under :meth:`GpuLock.shared`.

    Args:
        arrived: Grows by one byte with every stay that begins; None where the stay is within ``exclusive``.
        left: Grows by one byte with every stay that ends, whose process was not killed.
        alone: Whether nobody else was there when it began.
    """

    def __init__(self, arrived: Path | None, left: Path, alone: bool) -> None:
        self._arrived, self._left, self._alone = arrived, left, alone
        self._arrivals = arrived.stat().st_size if arrived else 0

    def disturbed(self) -> bool:
        """Whether somebody else was on the GPU at any time since it began."""
        return self._arrived is not None and (not self._alone or self._arrived.stat().st_size != self._arrivals)

    def seconds_alone(self) -> float:
        """How long it has had the GPU to itself; 0 while somebody else may be there, infinite if nobody ever was."""
        if self._arrived is None or not self.disturbed():
            return math.inf
        arrived, left = self._arrived.stat(), self._left.stat()
        if arrived.st_size - left.st_size > 1:
            return 0.0
        return max(0.0, time.time() - max(arrived.st_mtime, left.st_mtime))


class GpuLock:
    """A readers-writer lock in the file system, released by the kernel however its holder ends.

    A writer closes a gate first, so that a stream of readers cannot keep it out. A thread within ``exclusive`` may
    enter both again.

    Args:
        uuid: The GPU.
    """

    def __init__(self, uuid: str) -> None:
        folder = Path(tempfile.gettempdir()) / f"ptxgym-locks-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        self._gate = folder / f"{uuid}.gate"
        self._left = folder / f"{uuid}.left"
        self._room = folder / f"{uuid}.room"
        self._counters = folder / f"{uuid}.counters"
        self._turns = [folder / f"{uuid}.turn{number}" for number in range(_TURNS)]
        self._thread = threading.local()

    @contextmanager
    def shared(self) -> Iterator[Stay]:
        """Run beside others; waits while somebody times or wants to."""
        if self._has_all:
            yield Stay(None, self._left, alone=True)
            return
        with contextlib.ExitStack() as stack:
            with _held(self._gate, fcntl.LOCK_EX) as gate:
                room, alone = _enter(self._room)
                stack.callback(os.close, room)
                arrivals = os.fstat(gate).st_size
                if alone:  # whoever was killed here has left, too
                    with _held(self._left, fcntl.LOCK_EX) as left:
                        os.ftruncate(left, arrivals)
                os.ftruncate(gate, arrivals + 1)  # a hole: no byte is written
                stay = Stay(self._gate, self._left, alone)
            try:
                yield stay
            finally:
                with _held(self._left, fcntl.LOCK_EX) as left:
                    os.ftruncate(left, os.fstat(left).st_size + 1)

    def counting(self) -> AbstractContextManager[object]:
        """Have the performance counters. Entered before :meth:`shared`, never within it.

        Within :meth:`exclusive` nobody else can be using them, and who has them may be waiting to come in.
        """
        return contextlib.nullcontext() if self._has_all else _held(self._counters, fcntl.LOCK_EX)

    def turn(self) -> AbstractContextManager[object]:
        """Be one of the few whose turn to be alone may come, and who hold memory until it does.

        Entered before :meth:`shared`, never within it; nothing to wait for within :meth:`exclusive`.
        """
        return contextlib.nullcontext() if self._has_all else _any_held(self._turns)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Be alone on the GPU."""
        if self._has_all:
            yield
            return
        with _held(self._gate, fcntl.LOCK_EX), _held(self._room, fcntl.LOCK_EX):
            self._thread.has_all = True
            try:
                yield
            finally:
                self._thread.has_all = False

    @property
    def _has_all(self) -> bool:
        return getattr(self._thread, "has_all", False)


@contextmanager
def _held(path: Path, mode: int) -> Iterator[int]:
    descriptor = _open(path, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _any_held(paths: list[Path]) -> Iterator[None]:
    """One that is free, else the first to be waited for."""
    order = random.sample(paths, len(paths))
    with contextlib.ExitStack() as stack:
        for path in order:
            with contextlib.suppress(BlockingIOError):
                stack.enter_context(_held(path, fcntl.LOCK_EX | fcntl.LOCK_NB))
                break
        else:
            stack.enter_context(_held(order[0], fcntl.LOCK_EX))
        yield


def _enter(room: Path) -> tuple[int, bool]:
    """Share a room, whose gate is held; returns its descriptor, and whether nobody else was in it."""
    descriptor = os.open(room, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except BlockingIOError:
        alone = False
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor, alone


def _open(path: Path, mode: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
