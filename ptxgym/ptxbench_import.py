"""The per-turn table of the original PTXBench, read as :class:`ptxgym.metrics.Turn` records.

The table names no prompt variant. Its trajectories are numbered within a run, and four in a row share a variant: only
so grouped do the paper's table of fine-tuned models (three of five variants) and its prompt ablation come out of the
rows. Variants are therefore called ``1``, ``2``, … here, in the table's order.

Not promised: that a turn was judged as it would be here. The original looked for target instructions by their tag
(the ``paper`` rule), never measured which share of the work they did, and took its outcome from feedback text.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ptxgym.errors import MisuseError
from ptxgym.metrics import Turn

COLUMNS = (
    "model",
    "arch",
    "definition",
    "run",
    "trajectory_id",
    "turn",
    "reasoning_tokens",
    "correctness",
    "speedup",
    "correct_with_arch",
)
"""The columns that are read; others are passed over. The original has the path ``exp_dir`` in place of ``run``."""

TRAJECTORIES_PER_VARIANT = 4

_ARCHITECTURES = {"hopper": "H100", "blackwell": "B200"}

_STATUSES = {
    "Correct": "passed",
    "Numerical error": "incorrect",
    "Compilation error": "compile_error",
    "Runtime error": "runtime_error",  # the original's memory checker ends here too
    "Kernel Execution Timeout": "timeout",
    "Sanitize Timeout": "timeout",
    "Extraction error": "invalid_action",
    "Profiling Service Timeout": "unknown",  # the service's own fault
    "Other error": "other_error",
}


def read_ptxbench(path: Path) -> list[Turn]:
    """Every turn of the original's table.

    Raises:
        MisuseError: The file cannot be read, lacks a column, or has a row that is no turn; the message names the line.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(_read(csv.DictReader(file), path))
    except OSError as error:
        raise MisuseError(f"{path} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise MisuseError(f"{path} is no CSV table: {error}.") from None


def _read(table: csv.DictReader[str], path: Path) -> Iterator[Turn]:
    present = {"run" if name == "exp_dir" else name for name in table.fieldnames or ()}
    missing = [name for name in COLUMNS if name not in present]
    if missing:
        raise MisuseError(f"{path} is not the original's per-turn table: it has no column {', '.join(missing)}.")
    for row in table:
        where = f"{path}:{table.line_num} is no turn of the original's table"
        if None in row.values():
            raise MisuseError(f"{where}: it is too short.")
        try:
            yield turn_of_row({"run": PurePosixPath(row.get("exp_dir", "")).name} | row)
        except LookupError as error:
            raise MisuseError(f"{where}: {error} is unknown.") from None
        except ValueError as error:
            raise MisuseError(f"{where}: {str(error).splitlines()[0]}.") from None


def turn_of_row(row: dict[str, str]) -> Turn:
    """One row of the table.

    Raises:
        LookupError: It names an architecture, an outcome or a trajectory that the original does not have.
        ValueError: A number is none.
    """
    architecture = _ARCHITECTURES[row["arch"]]
    number = int(row["trajectory_id"].removeprefix("exp_"))
    status = _STATUSES[row["correctness"]]
    correct = None if status == "unknown" else status == "passed"
    executed = bool(int(row["correct_with_arch"]))
    study, condition, variant = _place(row, number // TRAJECTORIES_PER_VARIANT)
    return Turn(
        run=row["run"],
        model=row["model"],
        architecture=architecture,
        task=task_of_definition(row["definition"], architecture),
        variant=variant,
        trajectory=row["trajectory_id"],
        turn=int(row["turn"]) + 1,
        status="target_instructions_missing" if correct and not executed else status,
        correct=correct,
        target_paper=executed if correct else None,
        speedup=float(row["speedup"]) if correct else math.nan,
        reasoning_tokens=int(row["reasoning_tokens"]),
        study=study,
        condition=condition,
    )


def task_of_definition(definition: str, architecture: str) -> str:
    """The task here that asks what one of the original's definitions asks.

    A definition without a counterpart (ragged and paged attention) gets an id of the same form, with its own name.
    """
    head, _, rest = definition.partition("_")
    if head == "gemm":
        return f"PTXBench-GEMM-{architecture}"
    if head != "mha":
        return f"PTXBench-{definition}-{architecture}"
    causal = "Causal" if rest.endswith("_causal") else ""
    rest = rest.removesuffix("_causal")
    operator = "MHABackward" if rest.startswith("bwd") else "MHAForward"
    head_dim = rest.rpartition("_d")[2]
    suffix = "" if head_dim == "128" else f"-D{head_dim}"
    return f"PTXBench-{operator}{causal}-{architecture}{suffix}"


# In the prompt ablation the blocks of four alternate between two prompts, in the order of the tags' names.
_ABLATION = (
    ("parameters only", "1"),
    ("parameters and templates", "1"),
    ("parameters only", "2"),
    ("parameters only", "3"),
    ("parameters and templates", "2"),
    ("parameters and templates", "3"),
)

STUDIES = tuple(
    f"Original PTXBench: {name}"
    for name in (
        "main runs",
        "fine-tuned models",
        "retrieval",
        "prompt ablation",
        "other shapes",
        "further runs",
    )
)
"""Which runs are compared with which."""

MAIN, FINE_TUNED, RETRIEVAL, ABLATION, OTHER_SHAPES, FURTHER = STUDIES


def _place(row: dict[str, str], block: int) -> tuple[str, str, str]:
    """(study, condition, variant) of a row, from its run's name."""
    model, run, definition = row["model"], row["run"], row["definition"]
    variant = str(block + 1)
    if "ablation" in run:
        condition, variant = _ABLATION[block]
        return ABLATION, condition, variant
    if "retrieved" in model:
        return RETRIEVAL, "", variant
    if definition.startswith("gqa") or "_d64" in definition or "_d96" in definition:
        return OTHER_SHAPES, "", variant
    if model.startswith("Qwen3.6-27B-"):  # fine-tuned; its main runs have the guidance
        return FINE_TUNED, "without guidance" if "nopatched" in run else "", variant
    if model == "Qwen3.6-27B" and "b200" not in run and "nopatched" not in run:
        return FINE_TUNED, "with guidance", variant
    if run.startswith("2026-"):
        return FURTHER, run, variant
    return MAIN, "", variant
