"""The commands ``report`` and ``import-ptxbench``: they parse and print; the work lives elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ptxgym.errors import MissingToolError


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, or imported ones.")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
) -> None:
    """Write a report of runs: one page of tables and figures, a page per trajectory, every figure as SVG and PNG."""
    try:
        from ptxgym.report.page import write_report
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "markupsafe"):
            raise
        raise MissingToolError("jinja2", "Install it with: pip install 'ptxgym[report]'") from None
    written = write_report(runs, out)
    typer.echo(
        f"{written.index}  {written.turns} turns, {written.trajectories} trajectory pages, {written.figures} figures"
    )
    for run in written.unfinished:
        typer.echo(f"Not finished, and the page says so: {run}", err=True)


def import_ptxbench(
    table: Annotated[Path, typer.Argument(metavar="CSV", help="The original's per-turn table.")],
    out: Annotated[Path, typer.Option(help="The folder to write to; `ptxgym report` takes it like a run.")],
) -> None:
    """Import the original PTXBench's published turns, so that a report can show them beside your own."""
    from ptxgym.ptxbench_import import read_ptxbench
    from ptxgym.report.runs import write_imported

    turns = read_ptxbench(table)
    typer.echo(f"{write_imported(turns, out)}  {len(turns)} turns of {len({turn.run for turn in turns})} runs")
