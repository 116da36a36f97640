"""The data set's form: Parquet with columns ``id, messages, metadata``, written in row groups and checked when read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxgym.errors import MissingToolError, MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT = 1
"""Raise it when the columns or the fields of ``metadata`` change their meaning."""

TRAIN, VALIDATION, CARD, RECORD = "train.parquet", "validation.parquet", "README.md", "build.json"

_METADATA = {
    "format": "int64",
    "method": "string",
    "problem": "string",
    "error_class": "string",
    "turn": "int64",
    "round": "int64",
    "run": "string",
    "model": "string",
    "made_by": "string",
    "teacher": "string",
    "reasoning": "string",
    "contract": "string",
    "finding": "string",
    "kept": "float64",
    "source_sha256": "string",
    "verification": "string",
    "device": "string",
    "recipe": "string",
}


@dataclass(frozen=True)
class Sample:
    """One row."""

    id: str
    messages: tuple[Mapping[str, str], ...]
    """``role`` and ``content``. The loss is on the last one alone, which is the assistant's."""
    metadata: Mapping[str, Any]
    """The fields of the schema's ``metadata``: where it comes from and what verified it."""


def schema() -> Any:
    """The Arrow schema.

    Raises:
        MissingToolError: pyarrow is not installed.
    """
    arrow = _arrow()
    message = arrow.struct([("role", arrow.string()), ("content", arrow.string())])
    metadata = arrow.struct([(name, getattr(arrow, kind)()) for name, kind in _METADATA.items()])
    return arrow.schema([("id", arrow.string()), ("messages", arrow.list_(message)), ("metadata", metadata)])


@contextmanager
def writing(path: Path, group_rows: int = 128) -> Iterator[Callable[[Sample], None]]:
    """Write a Parquet file row group by row group, so that memory does not grow with it."""
    arrow, form = _arrow(), schema()
    from pyarrow import parquet

    rows: list[Sample] = []
    with parquet.ParquetWriter(path, form, compression="zstd") as writer:

        def flush() -> None:
            columns = {
                "id": [row.id for row in rows],
                "messages": [[dict(message) for message in row.messages] for row in rows],
                "metadata": [dict(row.metadata) for row in rows],
            }
            writer.write_table(arrow.table(columns, schema=form))
            rows.clear()

        def write(row: Sample) -> None:
            rows.append(row)
            if len(rows) >= group_rows:
                flush()

        yield write
        if rows:
            flush()


def check_form(path: Path) -> int:
    """Check that a file is a data set of this form; returns its rows.

    Raises:
        MisuseError: It is no Parquet file, or one of another schema; the message says what differs.
        MissingToolError: pyarrow is not installed.
    """
    arrow = _arrow()
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            found, rows = file.schema_arrow, int(file.metadata.num_rows)
    except (OSError, arrow.ArrowInvalid) as error:
        raise MisuseError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    for field in schema():
        if field.name not in found.names:
            raise MisuseError(
                f"{path} has columns {', '.join(found.names)} and no {field.name!r}; `ptxgym fixit build` writes id, "
                "messages and metadata."
            )
        if not found.field(field.name).type.equals(field.type):
            raise MisuseError(f"{path}: the column {field.name!r} is {found.field(field.name).type}, not {field.type}.")
    return rows


def read_samples(path: Path) -> Iterator[Sample]:
    """The rows of a data set, one batch in memory at a time.

    Raises:
        MisuseError: It is none; see :func:`check_form`.
    """
    check_form(path)
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=64):
            for row in batch.to_pylist():
                yield Sample(row["id"], tuple(row["messages"]), row["metadata"])


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingToolError("pyarrow", "Install it with: pip install 'ptxgym[train]'") from None
    return pyarrow
