"""The data card: what a data set holds, in a page that a person reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from baselines.fixit.build import BuildRecord, Count

_CARD = """\
---
configs:
- config_name: default
  data_files:
  - split: train
    path: train.parquet
{validation_file}---

# {title}

{train:,} samples to train on, {validation:,} to validate, method {method}. Columns: `id`, `messages` (role, content)
and `metadata`. The last message is the answer, and the only one that is trained on.

Every kernel in an answer was passed by the environment: compiled, clean in the memory check, correct, with the target
instructions executed. `metadata.verification` is the SHA-256 of that record, `metadata.source_sha256` that of the
source.

## By problem and error class

{by_class}

## By round, maker of the pair, and writer of the reasoning

{by_origin}
{contracts}
## What was left out

{dropped}

## How it was built

| | |
| --- | --- |
| built | {created} |
| from | {works} |
| recipe | {recipe} |
| tokenizer | {tokenizer} |
| longest conversation | {max_tokens} |
| smallest share of lines kept | {min_kept} |
| seed | {seed} |
| format | {format} |
"""


def data_card(record: BuildRecord) -> str:
    """The card of a data set, as Markdown."""
    validation = record.samples("validation")
    recipe = record.recipe
    return _CARD.format(
        title=f"ptxgym {record.method}{f', recipe {recipe.name}' if recipe else ''}",
        train=record.samples("train"),
        validation=validation,
        validation_file="  - split: validation\n    path: validation.parquet\n" if validation else "",
        method=record.method,
        by_class=_by_class(record),
        by_origin=_table(
            ["split", "round", "made by", "reasoning"],
            _counted(record, lambda c: (c.split, str(c.round), c.made_by, c.reasoning)),
        ),
        contracts=_contracts(record),
        dropped=_dropped(record),
        created=record.created,
        works=", ".join(record.works),
        recipe=f"{recipe.name}: {recipe.note}" if recipe else "none",
        tokenizer=record.tokenizer or "none: lengths and the chat template were not checked",
        max_tokens=f"{record.max_tokens:,} tokens" if record.max_tokens else "unchecked",
        min_kept=record.min_kept,
        seed=record.seed,
        format=record.format,
    )


def _by_class(record: BuildRecord) -> str:
    classes = sorted({count.error_class for count in record.counts})
    cells = _counted(record, lambda c: (c.split, c.problem, c.error_class))
    rows = sorted({key[:2] for key in cells})
    lines = [["split", "problem", *classes, "all"]]
    for row in rows:
        numbers = [cells[(*row, error_class)] for error_class in classes]
        lines.append([*row, *map(str, numbers), str(sum(numbers))])
    return _lines(lines)


def _contracts(record: BuildRecord) -> str:
    cells = _counted(record, lambda c: (c.contract,))
    cells.pop(("",), None)
    return f"\n## By broken contract\n\n{_table(['contract'], cells)}\n" if cells else ""


def _dropped(record: BuildRecord) -> str:
    lines = [f"- {number:,}: {why}" for why, number in record.dropped.items()]
    lines += [f"- {record.unchosen:,}: good, and not chosen by the recipe"] * bool(record.unchosen)
    return "\n".join(lines) or "Nothing."


def _counted(record: BuildRecord, key: Callable[[Count], tuple[str, ...]]) -> Counter[tuple[str, ...]]:
    cells: Counter[tuple[str, ...]] = Counter()
    for count in record.counts:
        cells[key(count)] += count.samples
    return cells


def _table(heads: list[str], cells: Counter[tuple[str, ...]]) -> str:
    return _lines([[*heads, "samples"], *([*key, str(number)] for key, number in sorted(cells.items()))])


def _lines(rows: list[list[str]]) -> str:
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body])
