"""Who may use a GPU at a time: many that only run, or one that times. Holds across threads and processes."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class GpuLock:
    """A readers-writer lock in the file system, released by the kernel however its holder ends.

    A writer closes a gate first, so that a stream of readers cannot keep it out.

    Args:
        uuid: The GPU.
    """

    def __init__(self, uuid: str) -> None:
        folder = Path(tempfile.gettempdir()) / f"ptxgym-locks-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        self._gate = folder / f"{uuid}.gate"
        self._room = folder / f"{uuid}.room"
        self._counters = folder / f"{uuid}.counters"

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Run beside others; waits while somebody times or wants to."""
        with _held(self._gate, fcntl.LOCK_EX):
            room = _open(self._room, fcntl.LOCK_SH)
        try:
            yield
        finally:
            os.close(room)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Have the performance counters. Entered within :meth:`shared`, never the other way round."""
        with _held(self._counters, fcntl.LOCK_EX):
            yield

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Be alone on the GPU."""
        with _held(self._gate, fcntl.LOCK_EX), _held(self._room, fcntl.LOCK_EX):
            yield


@contextmanager
def _held(path: Path, mode: int) -> Iterator[None]:
    descriptor = _open(path, mode)
    try:
        yield
    finally:
        os.close(descriptor)


def _open(path: Path, mode: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, mode)
    return descriptor
