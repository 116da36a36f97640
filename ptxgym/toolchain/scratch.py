"""Folders that a judge makes for a while, and what becomes of them when it is killed.

A folder holds a locked file for as long as its maker lives; the kernel lets go of the lock however that ends. Whoever
makes a folder next removes those that nobody holds, and ends the process that was running in them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "ptxgym-judge-"
_LOCK, _PROCESS = "held", "process"
_SETTLED_SECONDS = 10.0
"""Younger folders are left alone: their makers may not have locked them yet."""

_SWEEP_EVERY = 60.0
_last_sweep = -_SWEEP_EVERY


class ScratchFolder:
    """A folder under the system's temporary one, held until :meth:`remove`."""

    def __init__(self) -> None:
        _sweep_sometimes()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def belongs_to(self, pid: int) -> None:
        """Note the leader of the process group that runs in here, to be ended should this judge be killed."""
        (self.path / _PROCESS).write_text(f"{pid} {_started(pid)}")

    def remove(self) -> None:
        """Remove the folder; does nothing a second time."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    folder = ScratchFolder()
    try:
        yield folder.path
    finally:
        folder.remove()


def sweep() -> int:
    """Remove this user's folders whose makers are gone, and end what ran in them; returns how many there were."""
    swept = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _SETTLED_SECONDS and _let_go(folder):
                _end_process_of(folder)
                shutil.rmtree(folder, ignore_errors=True)
                swept += 1
    return swept


def _sweep_sometimes() -> None:
    global _last_sweep
    if time.monotonic() - _last_sweep > _SWEEP_EVERY:
        _last_sweep = time.monotonic()
        sweep()


def _let_go(folder: Path) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _end_process_of(folder: Path) -> None:
    """End the process group that was noted, if the number still is that process's."""
    with contextlib.suppress(OSError, ValueError):
        pid, started = (folder / _PROCESS).read_text().split()
        if _started(int(pid)) == started:
            os.killpg(int(pid), signal.SIGKILL)


def _started(pid: int) -> str:
    """When a process began, in the kernel's ticks; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
