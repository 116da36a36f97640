"""``ptxgym fixit train|merge|serve|compare|sets|leakage``: parse and print; the work lives elsewhere."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ptxgym.errors import MisuseError

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)

EXIT_INTERRUPTED = 130

Json = Annotated[bool, typer.Option("--json", help="Print the record as JSON.")]
Base = Annotated[str | None, typer.Option(help="Where the adapter's base lies now, if elsewhere than it says.")]


def attach(app: typer.Typer) -> None:
    """Add the commands to ``ptxgym fixit``."""
    for command in (train, merge, serve, compare, sets, leakage):
        app.command()(command)


def train(
    data: Annotated[Path, typer.Argument(metavar="DATA.parquet", help="Columns id, messages and metadata.")],
    model: Annotated[str, typer.Option(help="A folder, or a name of the Hugging Face hub.")],
    folder: Annotated[Path, typer.Option("--out", metavar="TRAINING", help="The training's folder.")],
    validation: Annotated[Path | None, typer.Option(help="Another Parquet; its loss is measured every epoch.")] = None,
    epochs: Annotated[float, typer.Option(help="Passes over the data.")] = 5.0,
    batch: Annotated[int, typer.Option(help="Rows per step, over all GPUs.")] = 2,
    micro_batch: Annotated[int, typer.Option(help="Rows a GPU holds at a time; 0: all of its share.")] = 0,
    learning_rate: Annotated[float, typer.Option(help="Falls linearly to zero.")] = 4.65e-4,
    rank: Annotated[int, typer.Option(help="Of the adapter.")] = 32,
    alpha: Annotated[int, typer.Option(help="The adapter's scale is alpha ÷ rank.")] = 32,
    max_length: Annotated[int, typer.Option(help="Tokens of a row; longer ones are refused.")] = 65_536,
    checkpoint_every: Annotated[int, typer.Option(help="Steps.")] = 50,
    max_steps: Annotated[int, typer.Option(help="End early, to try things out; -1: do not.")] = -1,
    seed: Annotated[int, typer.Option(help="Of the adapter's first weights and the order of rows.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")] = False,
    as_json: Json = False,
) -> None:
    """Train a LoRA adapter, with the loss on the last answer alone.

    On several GPUs: accelerate launch --num_processes 8 --module ptxgym fixit train …, with a --batch to spread.
    """
    from baselines.fixit.train import train as train_adapter
    from baselines.fixit.train_records import ADAPTER, TrainSettings

    asked = dict(locals())
    try:
        settings = TrainSettings(**{name: asked[name] for name in TrainSettings.model_fields if name in asked})
    except ValidationError as error:
        first = error.errors()[0]
        raise MisuseError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}.") from None

    def watch(step: int, steps: int, loss: float) -> None:
        err.print(f"step {step} of {steps}  loss {loss:.4f}", style="dim")

    try:
        record = train_adapter(data, model, folder, settings, validation=validation, resume=resume, watch=watch)
    except KeyboardInterrupt:
        err.print("Stopped. Go on from the last checkpoint with --resume.", markup=False)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if os.environ.get("RANK", "0") != "0":
        return  # one process speaks for all
    if as_json:
        print(record.model_dump_json())
        return
    first_loss, last_loss = record.fall
    out.print(f"{record.steps} steps, loss {first_loss:.3f} → {last_loss:.3f}")
    out.print(
        f"{record.seconds_per_step:.2f} s per step, {record.tokens_per_second:,.0f} tokens per second, "
        f"{record.peak_memory_bytes / 2**30:.1f} GiB at most, {escape(record.device)}"
    )
    out.print(f"{folder / ADAPTER}", markup=False)


def merge(
    adapter: Annotated[Path, typer.Argument(metavar="ADAPTER", help="The folder `adapter` of a training.")],
    folder: Annotated[Path, typer.Option("--out", metavar="MODEL", help="The folder to write.")],
    base: Base = None,
) -> None:
    """Write an adapter and its base as one model, which any server loads."""
    from baselines.fixit.train_adapter import merge as merge_adapter

    out.print(f"{merge_adapter(adapter, folder, base)}", markup=False)


def serve(
    model: Annotated[str, typer.Argument(metavar="ADAPTER|MODEL", help="An adapter's folder, or a model.")],
    host: Annotated[str, typer.Option(help="There is no password: keep it on loopback.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8000,
    name: Annotated[str | None, typer.Option(help="What requests call it; its folder's name by default.")] = None,
    base: Base = None,
) -> None:
    """Answer chat completions, one at a time, so that `ptxgym run` can play against it. For real use take vLLM."""
    from baselines.fixit.serve import Served, make_server
    from baselines.fixit.train_adapter import load

    loaded, tokenizer = load(model, base)
    called = name or Path(model).resolve().name
    try:
        server = make_server(Served(loaded, tokenizer, called), host, port)
    except OSError as error:
        raise MisuseError(f"{host}:{port} cannot be listened on: {error.strerror}.") from None
    out.print(f"http://{host}:{server.server_address[1]}/v1  {called}", markup=False)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        server.server_close()


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, and of import-ptxbench.")],
    names: Annotated[list[str] | None, typer.Option("--set", help="An evaluation set; all by default.")] = None,
    file: Annotated[Path | None, typer.Option("--sets", help="Your own evaluation sets.")] = None,
    rule: Annotated[str, typer.Option(help="paper (which the original can be counted by), or work.")] = "paper",
    written: Annotated[Path | None, typer.Option("--out", help="Write the tables here, as Markdown.")] = None,
    as_json: Json = False,
) -> None:
    """Compare adapted models with in-context help: one table per claim, with intervals, the original's beside."""
    from baselines.fixit.compare import SETS, as_markdown, choose_sets, load_sets
    from baselines.fixit.compare import compare as compare_runs
    from ptxgym.metrics import RULES

    if rule not in RULES:
        raise MisuseError(f"--rule {rule} is none of {', '.join(RULES)}.")
    chosen = choose_sets(names or [], load_sets(file or SETS))
    tables = compare_runs(runs, chosen, cast("Any", rule))
    if as_json:
        print(json.dumps([_plain(table) for table in tables]))
    elif written:
        draft = written.with_name(f"{written.name}.tmp")
        draft.write_text(as_markdown(tables), encoding="utf-8")
        out.print(f"{draft.replace(written)}", markup=False)
    else:
        print(as_markdown(tables), end="")


def sets(
    file: Annotated[Path | None, typer.Option("--sets", help="Your own evaluation sets.")] = None,
    as_json: Json = False,
) -> None:
    """Show the evaluation sets, and what to give `ptxgym run` to play one."""
    from baselines.fixit.compare import SETS, load_sets

    found = load_sets(file or SETS)
    if as_json:
        print(json.dumps({name: one.model_dump() for name, one in found.items()}))
        return
    for name, one in found.items():
        out.print(f"[bold]{escape(name)}[/]  {escape(one.claim)}")
        out.print("  " + " ".join(f"--env {env}" for env in one.envs), markup=False)


def leakage(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run of the policy in-context that shows kernels.")],
    repairs: Annotated[Path | None, typer.Option(help="Where its data set lies now, if elsewhere.")] = None,
    as_json: Json = False,
) -> None:
    """Tell how near the kernels that were shown are to those that were then submitted."""
    from baselines.retrieval import leakage as measure

    report = measure(run, repairs)
    if as_json:
        rows = [{**dataclasses.asdict(leak), "same_problem": leak.same_problem} for leak in report.leaks]
        print(json.dumps({"trajectories": report.trajectories, "leaks": rows}))
        return
    table = Table("trajectory", "shown", "of the problem", "before", "after", "words", "correct", box=None)
    for leak in report.leaks:
        table.add_row(
            escape(f"{leak.env} {leak.variant} {leak.trajectory}"),
            escape(f"{leak.nearest} of {leak.shown}"),
            "the same" if leak.same_problem else escape(leak.problem or "unknown"),
            f"{leak.asked.common:.0%}",
            f"{leak.answered.common:.0%}",
            f"{leak.answered.token_set:.0%}",
            "yes" if leak.correct else "no",
        )
    out.print(table)
    before, after = report.median_common
    out.print(
        f"A kernel was shown in {len(report.leaks)} of {report.trajectories} trajectories, in {report.same_problem} "
        f"one of the same problem. {report.copied} ended with all but that kernel; of {report.correct} that ended "
        f"right, {report.correct_and_copied} did."
    )
    if report.leaks:
        out.print(f"Median share of it in the failing kernel {before:.0%}, in the last submission {after:.0%}.")


def _plain(value: Any) -> Any:
    """A table as JSON has it: NaN, which JSON lacks, as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and value != value else value
