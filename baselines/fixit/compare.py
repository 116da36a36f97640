"""Adaptation against in-context help: one table per claim, from runs and from the original's imported table."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ptxgym.errors import MisuseError
from ptxgym.metrics import Interval, Rule, Turn
from ptxgym.report.adaptation import AdaptationTable, Line, Result, adaptation_table, arms_of
from ptxgym.report.runs import RunFacts, is_imported, read_imported, read_trajectories, run_name, turn_of_record
from ptxgym.tasks import get_task
from ptxgym.toolchain import Record

SETS = Path(__file__).with_name("compare_sets.toml")


class EvaluationSet(Record):
    """The tasks that a claim is held against."""

    claim: str
    envs: tuple[str, ...]
    seen_by: tuple[str, ...] = ()
    """Recipes that are trained on them."""


def load_sets(file: Path = SETS) -> dict[str, EvaluationSet]:
    """Evaluation sets by name.

    Raises:
        MisuseError: The file is none, or names a task that does not exist.
    """
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
        sets = TypeAdapter(dict[str, EvaluationSet]).validate_python(tables)
    except OSError as error:
        raise MisuseError(f"{file} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MisuseError(f"{file} is not TOML: {error}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise MisuseError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
    for one in sets.values():
        for env in one.envs:
            get_task(env)
    return sets


def choose_sets(names: Sequence[str], sets: dict[str, EvaluationSet]) -> dict[str, EvaluationSet]:
    """Some of the sets; all without a name.

    Raises:
        MisuseError: There is no such set.
    """
    for name in names:
        if name not in sets:
            nearest = difflib.get_close_matches(name, sets, n=1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise MisuseError(f"There is no evaluation set {name!r}.{hint} There are {', '.join(sets)}.")
    return {name: sets[name] for name in names or sets}


@dataclass(frozen=True, slots=True)
class Compared:
    """Turns that can be compared, by where they come from."""

    own: tuple[Turn, ...]
    plain: frozenset[str]
    """Runs of a model as it is."""
    imported: tuple[Turn, ...]


def read_compared(paths: Sequence[Path]) -> Compared:
    """The turns of runs and imported tables.

    Raises:
        MisuseError: A path is neither, or a run was given twice.
    """
    own: list[Turn] = []
    plain: set[str] = set()
    imported: list[Turn] = []
    for path in paths:
        if is_imported(path):
            imported += read_imported(path)
            continue
        facts, seen = RunFacts(run_name(path), path), {turn.run for turn in own}
        for records in read_trajectories(path, facts):
            if records[0].run in seen:
                raise MisuseError(f"The run in {path} was given twice, or a copy of it.")
            own += [turn_of_record(record, facts.budget, facts.adaptation) for record in records]
            plain |= set() if facts.adaptation else {records[0].run}
    return Compared(tuple(own), frozenset(plain), tuple(imported))


def compare(
    paths: Sequence[Path], sets: dict[str, EvaluationSet] | None = None, rule: Rule = "paper"
) -> list[AdaptationTable]:
    """One table per evaluation set that any of the turns belongs to.

    Args:
        paths: Run folders, and folders of ``import-ptxbench``.
        sets: The claims; the shipped ones by default.
        rule: When a correct kernel counts.

    Raises:
        MisuseError: Nothing that was given belongs to a set.
    """
    found, sets = read_compared(paths), load_sets() if sets is None else sets
    arms = arms_of(found.own, found.plain, found.imported)
    asked = {turn.task for turn in (*found.own, *found.imported)}
    tables = [
        adaptation_table(arms, one.envs, rule, name, _claim(one)) for name, one in sets.items() if asked & set(one.envs)
    ]
    if not tables:
        raise MisuseError(f"No turn of what was given belongs to a task of {', '.join(sets)}.")
    return tables


def _claim(one: EvaluationSet) -> str:
    seen = f"Trained on some of them: {', '.join(one.seen_by)}." if one.seen_by else "Held out from every recipe."
    return f"{one.claim} {seen}"


def as_markdown(tables: Sequence[AdaptationTable]) -> str:
    """Tables as Markdown: per cent of turns at ≤ 8, its 95 % interval, and the peak speedup."""
    return "\n\n".join(map(_table, tables)) + "\n"


def _table(table: AdaptationTable) -> str:
    rows = [("", *table.headings, "all", "difference")]
    rows += [
        (_cell(line.name), *map(_result, line.cells), _result(line.all), _difference(line)) for line in table.lines
    ]
    lines = [f"## {table.name}", "", table.claim, ""]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(5, "| " + " | ".join("---" for _ in rows[0]) + " |")
    return "\n".join([*lines, *(f"\n{note}" for note in table.notes)])


def _result(cell: Result | float | None) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:.1f}"
    unknown = f", {cell.rate.unknown} unknown" if cell.rate.unknown else ""
    peak = "" if math.isnan(cell.peak) else f", peak {cell.peak:.3f}"
    interval = _interval(cell.interval, ".1f") if cell.rate.successes else ""  # without a success it has no width
    return f"{cell.rate.share * 100:.1f}{interval} ({cell.rate.successes}/{cell.rate.total}{unknown}){peak}"


def _difference(line: Line) -> str:
    if line.difference is None:
        return "–"
    interval = _interval(line.difference.interval, "+.1f")
    return f"{line.difference.share * 100:+.1f}{interval} from {_cell(line.base)}"


def _interval(interval: Interval, form: str) -> str:
    if math.isnan(interval.low):
        return ""
    return f" [{interval.low * 100:{form}}, {interval.high * 100:{form}}]"


def _cell(text: str) -> str:
    """Text that a run's author wrote, in one cell."""
    return " ".join(text.replace("|", "\\|").split())
