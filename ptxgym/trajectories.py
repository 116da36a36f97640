"""Evaluations that can be judged again: one JSON line each, appended whole."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ptxgym.errors import InfrastructureError, MisuseError
from ptxgym.evaluation import Evaluation, EvaluationOptions, Evaluator
from ptxgym.tasks import get_task
from ptxgym.toolchain import Record


class EvaluationRecord(Record):
    """Everything that is needed to judge a submission again, and what was found the first time."""

    version: Literal[1] = 1
    task: str
    source: str
    options: EvaluationOptions
    evaluation: Evaluation
    reward: float
    turn: int
    """1 for the first submission of an episode."""
    created: str
    """UTC, ISO 8601."""


class Reproduction(Record):
    """What a second judgement says of a record."""

    record: EvaluationRecord
    again: Evaluation
    differences: tuple[str, ...]
    """Stages whose status or reason differs, in words; empty when everything reproduced."""
    speedup_agrees: bool | None
    """Whether the two speedups are within 3 % of each other; None where one has no timing."""


def make_record(
    source: str, options: EvaluationOptions, evaluation: Evaluation, reward: float, turn: int
) -> EvaluationRecord:
    """A record of now."""
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return EvaluationRecord(
        task=evaluation.task,
        source=source,
        options=options,
        evaluation=evaluation,
        reward=reward,
        turn=turn,
        created=created,
    )


def append_record(path: Path, record: EvaluationRecord) -> None:
    """Append one whole line and have it on disk.

    Raises:
        InfrastructureError: It cannot be written.
    """
    line = record.model_dump_json().encode("utf-8") + b"\n"
    try:
        with path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be written: {error.strerror}.") from None


def read_records(path: Path) -> Iterator[EvaluationRecord]:
    """Every record of a file. A last line that a crash cut off is passed over.

    Raises:
        MisuseError: Another line is no record; the message names it.
    """
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield EvaluationRecord.model_validate_json(line)
        except ValidationError as error:
            if number == len(lines):  # no newline behind it: it was being written
                return
            raise MisuseError(f"{path}:{number} is no evaluation record: {error.errors()[0]['msg']}.") from None


def reproduce(record: EvaluationRecord, device: str | None = None) -> Reproduction:
    """Judge a record's source again, with fresh seeds and without the cache.

    Args:
        record: The record.
        device: Another device than the record's.
    """
    changes: dict[str, object] = {"cache": False} | ({"device": device} if device else {})
    options = record.options.model_copy(update=changes)
    again = Evaluator(get_task(record.task), options).evaluate(record.source)
    differences = [
        f"{old.stage}: {old.status} {old.reason}".rstrip() + f" → {new.status} {new.reason}".rstrip()
        for old, new in zip(record.evaluation.stages, again.stages, strict=True)
        if (old.status, old.reason) != (new.status, new.reason)
    ]
    return Reproduction(
        record=record,
        again=again,
        differences=tuple(differences),
        speedup_agrees=_agree(record.evaluation, again),
    )


_SPEEDUP_SLACK = 0.03


def _agree(first: Evaluation, second: Evaluation) -> bool | None:
    ratio = second.speedup / first.speedup
    return None if ratio != ratio else abs(ratio - 1) <= _SPEEDUP_SLACK
