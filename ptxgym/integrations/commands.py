"""The command ``ptxgym tasks export``: it parses and prints; the work lives in ``dataset``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

app = typer.Typer(name="tasks", help="Data sets of tasks, for trainers.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Data sets of tasks, for trainers."""


@app.command()
def export(
    out: Annotated[Path, typer.Option(metavar="FILE", help="tasks.jsonl or tasks.parquet.")],
    env: Annotated[list[str] | None, typer.Option(help="A task or a pattern; repeatable. All by default.")] = None,
    split: Annotated[list[str] | None, typer.Option(help="train, validation or test; repeatable.")] = None,
    phase: Annotated[list[str] | None, typer.Option(help="probes or workload; repeatable.")] = None,
    level: Annotated[str, typer.Option(help="none, parameters, templates, contracts or full.")] = "parameters",
    variant: Annotated[list[str] | None, typer.Option(help="base, a hint's name, or all; repeatable.")] = None,
    answers: Annotated[str, typer.Option(help="text: the kernel in the answer; tool: submit_kernel.")] = "text",
    turns: Annotated[int, typer.Option(help="Submissions per episode.")] = 8,
    device: Annotated[
        str, typer.Option(help="Where they will be judged: simulator, or none for a GPU elsewhere.")
    ] = "none",
) -> None:
    """Write prompts, splits and an order of difficulty: all that a trainer needs."""
    from collections import Counter

    from ptxgym.destinations import check_replaceable
    from ptxgym.errors import MisuseError
    from ptxgym.integrations.dataset import PHASES, SPLITS, make_rows, write_rows

    if answers not in ("text", "tool"):
        raise MisuseError(f"--answers {answers}: text or tool.")
    out.parent.mkdir(parents=True, exist_ok=True)
    check_replaceable(out, "--out")
    rows = make_rows(
        env or ("*",),
        splits=split or SPLITS,
        phases=phase or PHASES,
        level=level,
        variants=variant or ("base",),
        answers=cast("Any", answers),
        max_turns=turns,
        device=device,
    )
    if not rows:
        raise MisuseError("Nothing is left of the tasks by these splits, phases and variants.")
    write_rows(rows, out)
    counts = Counter(row["split"] for row in rows)
    longest = max(row["prompt_tokens"] for row in rows)
    parts = ", ".join(f"{counts[name]} {name}" for name in SPLITS if counts[name])
    typer.echo(f"{out}  {len(rows)} rows ({parts}), prompts of at most about {longest:,} tokens")
