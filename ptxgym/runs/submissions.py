"""What was submitted, as records that can be judged again: from a file of evaluations, or from a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ptxgym.errors import MisuseError
from ptxgym.evaluation import EvaluationOptions
from ptxgym.runs.records import SETTINGS, TURNS, read_run, read_turns
from ptxgym.trajectories import EvaluationRecord, read_records


def read_submissions(path: Path) -> Iterator[EvaluationRecord]:
    """Every submission of a file of evaluation records, of a run's folder, or of its ``turns.jsonl``.

    Raises:
        MisuseError: There is no such file or run, or a line is no record.
    """
    if path.is_dir() or path.name == TURNS:
        return _of_run(path)
    if not path.exists():
        raise MisuseError(f"There is no file {path}.")
    return read_records(path)


def _of_run(path: Path) -> Iterator[EvaluationRecord]:
    """A run's turns, judged by the run's own options; a lone ``turns.jsonl`` by the defaults, on its own device."""
    folder = path if path.is_dir() else path.parent
    options = _options(folder) if (folder / SETTINGS).exists() else None
    for turn in read_turns(path):
        yield EvaluationRecord(
            task=turn.env,
            source=turn.source,
            options=options or EvaluationOptions.model_validate({"device": turn.evaluation.device.kind}),
            evaluation=turn.evaluation,
            reward=turn.reward,
            turn=turn.turn,
            created=turn.created,
        )


def _options(folder: Path) -> EvaluationOptions:
    settings = read_run(folder).env_settings
    return EvaluationOptions.model_validate({k: v for k, v in settings.items() if k in EvaluationOptions.model_fields})
