"""Where a run is written: whole lines, on disk before anything follows, by one process at a time."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from ptxgym.errors import InfrastructureError, MisuseError
from ptxgym.toolchain import Record

_TAIL_BYTES = 1 << 16


class Journal:
    """A JSONL file that grows by whole records. Threads may share it.

    Args:
        path: The file; it is created with its first record. A last line that a crash cut off is mended or removed.
        record: The type of its records.

    Raises:
        InfrastructureError: The file cannot be opened.
    """

    def __init__(self, path: Path, record: type[Record]) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._mend(record)
            _sync_folder(path.parent)
        except OSError as error:
            raise _unwritable(path, error) from None

    def append(self, record: Record) -> None:
        """Write one line and have it on disk.

        Raises:
            InfrastructureError: The disk is full or broken; the file ends with the last whole record.
        """
        line = memoryview(record.model_dump_json().encode("utf-8") + b"\n")
        with self._lock:
            before = -1
            try:
                before = os.fstat(self._file).st_size
                while line:
                    line = line[os.write(self._file, line) :]
                os.fsync(self._file)
            except OSError as error:
                with suppress(OSError):  # what cannot be cut off now is passed over by readers, and mended on resume
                    os.ftruncate(self._file, before)  # refused for −1, when there was nothing to write to
                raise _unwritable(self.path, error) from None

    def close(self) -> None:
        """Wait for a record that is being written, then close."""
        with self._lock:
            os.close(self._file)
            self._file = -1  # a late append fails; its number may be another file's by then

    def _mend(self, record: type[Record]) -> None:
        """End the last line: with its newline when only that is missing, else before it began."""
        size = os.fstat(self._file).st_size
        if not size or os.pread(self._file, 1, size - 1) == b"\n":
            return
        start = self._start_of_last_line(size)
        try:
            record.model_validate_json(os.pread(self._file, size - start, start))
        except ValidationError:
            os.ftruncate(self._file, start)
        else:
            os.write(self._file, b"\n")

    def _start_of_last_line(self, size: int) -> int:
        end = size
        while end:
            begin = max(0, end - _TAIL_BYTES)
            newline = os.pread(self._file, end - begin, begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            end = begin
        return 0


class FolderLock:
    """Keeps a second run out of a folder. It dies with its process, so that a killed run leaves no lock behind.

    Args:
        folder: The run's folder; it is created.

    Raises:
        MisuseError: Another process is running there, or the folder cannot be made.
        InfrastructureError: It holds records, and cannot be written to.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MisuseError(f"The folder {folder} cannot be made: {error.strerror}.") from None
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if any(folder.glob("*.jsonl")):
                raise _unwritable(self._path, error) from None
            raise MisuseError(f"The folder {folder} cannot be written to: {error.strerror}.") from None

    def __enter__(self) -> Self:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace") or "unknown"
            os.close(self._file)
            raise MisuseError(
                f"Another run (process {holder}) is writing to {self._path.parent}. Wait for it, or choose another "
                "--out."
            ) from None
        with suppress(OSError):  # only for the message above; on a full disk the lock holds all the same
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode("ascii"), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)


def write_by_rename(path: Path, text: str) -> None:
    """Replace a file so that a crash leaves the old one or the new one.

    Raises:
        InfrastructureError: It cannot be written.
    """
    draft = path.with_suffix(".tmp")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from None


def _sync_folder(folder: Path) -> None:
    """A new name is on disk only once its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(path: Path, error: OSError) -> InfrastructureError:
    return InfrastructureError(
        f"{path} cannot be written: {error.strerror}. Every turn recorded before is safe; mend it and go on with "
        "--resume."
    )
