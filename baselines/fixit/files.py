"""Files that are whole or not there, and lists of work that a crash does not undo."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ptxgym.errors import InfrastructureError
from ptxgym.toolchain import Record


@contextmanager
def writing_whole(path: Path) -> Iterator[Callable[[Record], None]]:
    """Write a JSONL file of records that appears under its name only when it is complete and on disk.

    Raises:
        InfrastructureError: It cannot be written.
    """
    draft = path.with_suffix(".tmp")
    try:
        with draft.open("wb") as file:
            yield lambda record: _write(file.write, record)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be written: {error.strerror}.") from None


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _write(write: Callable[[bytes], int], record: Record) -> None:
    write(record.model_dump_json().encode("utf-8") + b"\n")
