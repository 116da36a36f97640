"""Failures that were repaired, out of a Fixit data set: the failing kernel, what was learned, the fixed kernel."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baselines.fixit.sources import changed_lines
from baselines.mini_ptx_agent import Answer, UnusableAnswer, extract_kernel
from ptxgym.errors import MissingToolError, MisuseError

LONGEST_NOTE = 600
"""Characters; a longer one is cut at the end of a sentence or a word."""

LONGEST_CHANGE = 400
"""Characters of the lines that differ; a longer change is told by the end of the reasoning."""

_THOUGHT = re.compile(r"\A\s*(?:<think>)?(?P<thought>.*?)</think>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Repair:
    """One repaired failure."""

    id: str
    problem: str
    """The instance; empty when the data set does not say."""
    failing: str
    feedback: str
    """What the environment said of the failing kernel."""
    notes: tuple[str, ...]
    """What was wrong and what mended it, a sentence or two each."""
    fixed: str


@dataclass(frozen=True, slots=True)
class RepairSet:
    """The repairs of a data set."""

    path: Path
    sha256: str
    repairs: tuple[Repair, ...]


def read_repairs(path: Path) -> RepairSet:
    """The repairs in a Parquet that ``ptxgym fixit build`` wrote; rows that begin with no failing kernel are left out.

    Raises:
        MisuseError: It cannot be read, has another schema, or holds no repair.
        MissingToolError: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MissingToolError("pyarrow", "Install it with: pip install 'ptxgym[retrieval]'") from None
    try:
        table = pyarrow.parquet.read_table(path, columns=["id", "messages", "metadata"])
    except FileNotFoundError:
        raise MisuseError(f"There is no file {path}. `ptxgym fixit build` makes one.") from None
    except (OSError, pyarrow.ArrowException) as error:
        raise MisuseError(f"{path} is no data set of repairs: {str(error).splitlines()[0]}") from None
    found = [_repair(*row) for row in zip(*table.to_pydict().values(), strict=True)]
    repairs = tuple(repair for repair in found if repair)
    if not repairs:
        raise MisuseError(
            f"{path} holds no repair: no row with a problem, a failing kernel, feedback and a fixed kernel. KernelGen "
            "rows have no failing kernel to retrieve by."
        )
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return RepairSet(path, digest, repairs)


def _repair(identity: Any, messages: Any, metadata: Any) -> Repair | None:
    """A row's repair; None when its last messages are not failing kernel, feedback and answer."""
    try:
        failed, feedback, answer = (str(message["content"]) for message in messages[-3:])
        roles = [message["role"] for message in messages[-3:]]
    except (TypeError, ValueError, KeyError):
        return None
    if roles != ["assistant", "user", "assistant"]:
        return None
    thought = _THOUGHT.match(answer)
    failing, fixed = _kernel(failed), _kernel(answer[thought.end() :] if thought else answer)
    if not failing or not fixed:
        return None
    known: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    problem = next((str(known[name]) for name in ("env", "problem", "task") if known.get(name)), "")
    notes = _notes(known, feedback, failing, fixed, thought["thought"] if thought else "")
    return Repair(str(identity), problem, failing, feedback, notes, fixed)


def _kernel(text: str) -> str:
    try:
        return extract_kernel(Answer(text))
    except UnusableAnswer:
        return ""


def _notes(metadata: Mapping[str, Any], feedback: str, failing: str, fixed: str, thought: str) -> tuple[str, ...]:
    """The data set's own notes where it has some; else what the judge found, and what was changed."""
    own = metadata.get("notes")
    texts = own if isinstance(own, list) else str(own or "").split("\n\n")
    if not any(str(text).strip() for text in texts):
        texts = [f"Failure: {_finding(feedback)}", f"Repair: {_change(failing, fixed) or _conclusion(thought)}"]
    return tuple(_clipped(" ".join(str(text).split())) for text in texts if str(text).strip())


def _finding(feedback: str) -> str:
    """The line that says which stage failed and why; without one the first, which is the verdict."""
    lines = [line.strip() for line in feedback.splitlines() if line.strip()]
    return next((line for line in lines if ": failed." in line), lines[0] if lines else "unknown")


def _change(failing: str, fixed: str) -> str:
    """The lines that differ, when they are few."""
    old, new = (" ".join(lines.split()) for lines in changed_lines(failing, fixed))
    if not old or not new:
        return (
            f"{'added' if new else 'taken out'}: {new or old}" if len(old + new) <= LONGEST_CHANGE and old + new else ""
        )
    return f"{old} became {new}" if len(old + new) <= LONGEST_CHANGE else ""


def _conclusion(thought: str) -> str:
    """The last paragraph of prose; code is passed over."""
    prose = [part for part in re.sub(r"(?s)```.*?```", "", thought).split("\n\n") if part.strip()]
    return prose[-1] if prose else "the kernel was rewritten"


def _clipped(text: str) -> str:
    if len(text) <= LONGEST_NOTE:
        return text
    cut = text[:LONGEST_NOTE]
    end = max(cut.rfind(". "), cut.rfind("; "))
    return cut[: end + 1] if end > LONGEST_NOTE // 2 else cut.rpartition(" ")[0] + " …"
