"""``ptxgym fixit …``: parse and print; the work lives elsewhere, and is imported when a command runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from baselines.fixit.train_commands import attach
from ptxgym.errors import MisuseError

app = typer.Typer(
    name="fixit", help="Training data from a model's own failures.", no_args_is_help=True, add_completion=False
)
recipes = typer.Typer(name="recipes", help="What a data set is made of, declared in TOML.", no_args_is_help=True)
app.add_typer(recipes)

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)

EXIT_LACKING, EXIT_UNFINISHED, EXIT_INTERRUPTED = 1, 3, 130

Work = Annotated[Path, typer.Argument(metavar="WORK", help="The work folder.")]
Works = Annotated[list[Path], typer.Argument(metavar="WORK...", help="Work folders.")]
Json = Annotated[bool, typer.Option("--json", help="Print the record as JSON.")]
Model = Annotated[str | None, typer.Option(help="The teacher: a table of models.toml, or a name the endpoint knows.")]
BaseUrl = Annotated[str | None, typer.Option(help="The endpoint; OPENAI_BASE_URL by default.")]
Api = Annotated[str | None, typer.Option(help="chat or responses.")]
Models = Annotated[Path | None, typer.Option(help="Your own file of model settings.")]
Concurrency = Annotated[int, typer.Option(help="How many at a time.")]
Device = Annotated[str, typer.Option(help="auto, cuda, or simulator.")]
RecipeName = Annotated[str | None, typer.Option("--recipe", help="A shipped recipe (s0 to s6), or a .toml file.")]


@app.command()
def mine(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of `ptxgym run`.")],
    work: Annotated[Path, typer.Option("--out", metavar="WORK", help="The work folder.")],
    recipe: RecipeName = None,
    classes: Annotated[list[str] | None, typer.Option("--class", help="An error class; repeatable.")] = None,
    problem: Annotated[list[str] | None, typer.Option(help="An instance; repeatable. All by default.")] = None,
    last_turn: Annotated[int, typer.Option(help="Leave out later turns.")] = 5,
    per_stratum: Annotated[int, typer.Option(help="At most so many per problem, class and turn; 0: all.")] = 0,
    per_problem: Annotated[int, typer.Option(help="At most so many per problem; 0: all.")] = 0,
    passed: Annotated[bool, typer.Option("--passed", help="Take turns that passed, for KernelGen.")] = False,
    seed: Annotated[int, typer.Option(help="Of the choice within a stratum.")] = 0,
    round_: Annotated[int, typer.Option("--round", help="Which checkpoint's runs these are.")] = 0,
    as_json: Json = False,
) -> None:
    """Take failed turns out of runs: stratified by problem, error class and turn, each kernel once."""
    from baselines.fixit.mine import ERROR_CLASSES, MineSettings
    from baselines.fixit.mine import mine as mine_runs
    from baselines.fixit.recipe import load_recipe

    if recipe:
        settings = load_recipe(recipe).mining(round_)
    else:
        settings = MineSettings(
            classes=tuple(classes or ERROR_CLASSES),
            problems=tuple(problem or ()),
            last_turn=last_turn,
            per_stratum=per_stratum,
            per_problem=per_problem,
            seed=seed,
            round=round_,
            passed=passed,
        )
    mined = mine_runs(runs, work, settings)
    rows = [{**stratum._asdict(), "taken": number} for stratum, number in sorted(mined.taken.items())]
    if as_json:
        counts = {"seen": mined.seen, "eligible": mined.eligible, "duplicates": mined.duplicates}
        print(json.dumps({**counts, "taken": mined.taken.total(), "strata": rows}))
        return
    table = Table("problem", "class", "turn", "taken", box=None, header_style="bold")
    for row in rows:
        table.add_row(*map(str, row.values()))
    out.print(table)
    out.print(f"{mined.taken.total()} of {mined.eligible} eligible turns, {mined.duplicates} duplicates left out")


@app.command()
def repair(
    work: Work,
    model: Model = None,
    base_url: BaseUrl = None,
    api: Api = None,
    models: Models = None,
    turns: Annotated[int, typer.Option(help="Answers per failure.")] = 5,
    min_speedup: Annotated[float, typer.Option(help="What a timed repair must reach.")] = 0.0,
    device: Device = "auto",
    concurrency: Concurrency = 4,
) -> None:
    """Let a teacher repair mined failures; the environment says whether it did. Run it again to go on."""
    from baselines.fixit.repair import RepairSettings
    from baselines.fixit.repair import repair as repair_work

    teacher = _teacher(model, base_url, api, models)
    settings = RepairSettings(turns, min_speedup, {"device": device})
    _worked(lambda: repair_work(work, teacher, settings, concurrency=concurrency, tell=_tell))


@app.command()
def reason(
    work: Work,
    model: Model = None,
    base_url: BaseUrl = None,
    api: Api = None,
    models: Models = None,
    reasoning: Annotated[
        str, typer.Option(help="teacher, or finding: from the simulator's finding, no model.")
    ] = "teacher",
    method: Annotated[str, typer.Option(help="fixit or kernelgen.")] = "fixit",
    tries: Annotated[int, typer.Option(help="Answers per pair.")] = 3,
    longest: Annotated[int, typer.Option(help="Characters of a reasoning.")] = 60_000,
    concurrency: Concurrency = 4,
) -> None:
    """Have the way from failure to fix written in the first person; leaks, forbidden tokens and excess are redone."""
    from baselines.fixit.filters import Limits
    from baselines.fixit.reason import ReasonSettings
    from baselines.fixit.reason import reason as reason_work

    _one_of("--method", method, ("fixit", "kernelgen"))
    _one_of("--reasoning", reasoning, ("teacher", "finding"))
    teacher = None if reasoning == "finding" else _teacher(model, base_url, api, models)
    settings = ReasonSettings(cast("Any", method), tries, Limits(longest=longest))
    _worked(lambda: reason_work(work, teacher, settings, concurrency=concurrency, tell=_tell))


@app.command()
def synthesize(
    work: Work,
    kernels: Annotated[list[Path] | None, typer.Argument(metavar="KERNEL.cu...", help="Passing kernels.")] = None,
    env: Annotated[str | None, typer.Option(help="The kernels' task.")] = None,
    examples: Annotated[bool, typer.Option("--examples", help="Take the example kernels, each for its task.")] = False,
    run: Annotated[list[Path] | None, typer.Option(help="Take the turns of a run that passed; repeatable.")] = None,
    mutation: Annotated[
        list[str] | None, typer.Option(help="One of the mutations; repeatable. All by default.")
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many mutants per kernel; 0: all.")] = 0,
    seed: Annotated[int, typer.Option(help="Of that choice.")] = 0,
    device: Device = "simulator",
    concurrency: Concurrency = 2,
) -> None:
    """Break passing kernels in known ways and keep what the simulator finds: verified pairs, without any teacher."""
    from collections import Counter
    from itertools import chain

    from baselines.fixit import synthesize as synthesis
    from baselines.fixit.records import TWINS, Twin
    from ptxgym.runs.records import read_lines
    from ptxgym.tasks import get_task

    if kernels and not env:
        raise MisuseError("Say which task the kernels are for: --env.")
    if not (kernels or examples or run):
        raise MisuseError("Say what to break: KERNEL.cu files with --env, --examples, or --run.")
    parents = chain(
        synthesis.parents_from_files(kernels or [], get_task(env).id if env else ""),
        synthesis.parents_from_examples() if examples else (),
        synthesis.parents_from_runs(run or []),
    )
    settings = synthesis.SynthesizeSettings(tuple(mutation or ()), limit, seed, {"device": device})
    _worked(lambda: synthesis.synthesize(work, parents, settings, concurrency=concurrency, tell=_tell))
    broken = [twin.pair.broken for twin in read_lines(work / TWINS, Twin) if twin.pair and twin.pair.broken]
    for contract, number in sorted(Counter(b.contract or "none" for b in broken).items()):
        out.print(f"{number:>6} pairs break contract {contract}", markup=False)


@app.command()
def build(
    works: Works,
    folder: Annotated[Path, typer.Option("--out", metavar="DATA", help="The data set's folder.")],
    recipe: RecipeName = None,
    method: Annotated[str, typer.Option(help="fixit or kernelgen; a recipe has its own.")] = "fixit",
    tokenizer: Annotated[str | None, typer.Option(help="The student's tokenizer: a folder or a name.")] = None,
    chat_template: Annotated[Path | None, typer.Option(help="A chat template, where the tokenizer has none.")] = None,
    max_tokens: Annotated[int, typer.Option(help="The longest conversation.")] = 65_536,
    min_kept: Annotated[
        float, typer.Option(help="Least share of the failing kernel's lines that a repair keeps.")
    ] = 0.0,
    validation: Annotated[
        float, typer.Option(help="Share of the problems held out, where no recipe says which.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the order and of the problems held out.")] = 0,
    as_json: Json = False,
) -> None:
    """Write chat records in Parquet, with a validation split by problem and a data card. Every sample is verified."""
    from baselines.fixit.build import BuildSettings
    from baselines.fixit.build import build as build_data
    from baselines.fixit.recipe import load_recipe
    from baselines.fixit.student import load_student

    _one_of("--method", method, ("fixit", "kernelgen"))
    settings = BuildSettings(
        method=cast("Any", method),
        recipe=load_recipe(recipe) if recipe else None,
        student=load_student(tokenizer, chat_template, max_tokens) if tokenizer else None,
        min_kept=min_kept,
        validation_share=validation,
        seed=seed,
    )
    if not tokenizer:
        err.print("No --tokenizer: lengths and the chat template are not checked.", style="yellow")
    record = build_data(works, folder, settings, _tell)
    if as_json:
        print(record.model_dump_json())
        return
    for why, number in record.dropped.items():
        out.print(f"[dim]–[/] {number:>6} left out: {escape(why)}")
    out.print(
        f"[green]✓[/] {record.samples('train'):>6} to train on, {record.samples('validation')} to validate: {folder}"
    )


@app.command()
def iterate(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="The folder of all rounds.")],
    runs: Annotated[list[Path] | None, typer.Argument(metavar="RUN...", help="The newest checkpoint's runs.")] = None,
    recipe: Annotated[str, typer.Option(help="A .toml file, or a shipped recipe; its rounds say what is mixed.")] = "",
    model: Model = None,
    reasoner: Annotated[
        str | None, typer.Option(help="Who reasons: a model, or finding. The teacher by default.")
    ] = None,
    base_url: BaseUrl = None,
    api: Api = None,
    models: Models = None,
    turns: Annotated[int, typer.Option(help="Answers per failure.")] = 5,
    tokenizer: Annotated[str | None, typer.Option(help="The student's tokenizer: a folder or a name.")] = None,
    device: Device = "auto",
    concurrency: Concurrency = 4,
) -> None:
    """Mine, repair, reason and build for the current checkpoint's runs; the same command goes on where it stopped."""
    from baselines.fixit.iterate import Iteration
    from baselines.fixit.pool import Progress
    from baselines.fixit.reason import ReasonSettings
    from baselines.fixit.recipe import load_recipe
    from baselines.fixit.repair import RepairSettings
    from baselines.fixit.student import load_student

    if not recipe:
        raise MisuseError("Say what is built: --recipe with a .toml file or a shipped recipe.")
    loaded = load_recipe(recipe)
    teacher = _teacher(model, base_url, api, models) if model else None
    who = reasoner or model
    rounds = Iteration(
        root,
        loaded,
        teacher=teacher,
        reasoner=None if who == "finding" else _teacher(who, base_url, api, models),
        repairs=RepairSettings(turns, 0.0, {"device": device}),
        reasons=ReasonSettings(loaded.method),
        student=load_student(tokenizer) if tokenizer else None,
        concurrency=concurrency,
        tell=_tell,
    )
    ended: list[Any] = []

    def play() -> Any:
        ended[:] = rounds.run(runs or [])
        return ended[1] if isinstance(ended[1], Progress) else None

    _worked(play)
    played, built = ended
    out.print(f"round {played.number}: {built.samples('train')} samples in {rounds.work(played.number) / 'data'}")


@recipes.command("list")
def list_recipes(as_json: Json = False) -> None:
    """Show the shipped recipes."""
    from baselines.fixit.recipe import load_recipe, shipped

    loaded = [load_recipe(name) for name in shipped()]
    if as_json:
        print(json.dumps([recipe.model_dump(mode="json") for recipe in loaded]))
        return
    table = Table("recipe", "method", "problems", "balance", "reasoning", "size", "", box=None, header_style="bold")
    for recipe in loaded:
        row = (
            recipe.name,
            recipe.method,
            len(recipe.problems),
            recipe.balance,
            recipe.reasoning,
            recipe.size,
            recipe.note,
        )
        table.add_row(*map(str, row))
    out.print(table)


@recipes.command("show")
def show_recipe(name: Annotated[str, typer.Argument(help="A shipped recipe, or a .toml file.")]) -> None:
    """Show every field of a recipe, defaults included."""
    from baselines.fixit.recipe import load_recipe

    print(load_recipe(name).model_dump_json(indent=2))


@recipes.command("diff")
def diff_recipes(
    a: Annotated[str, typer.Argument()], b: Annotated[str, typer.Argument()], as_json: Json = False
) -> None:
    """Show the fields in which two recipes differ."""
    from baselines.fixit.recipe import differences, load_recipe

    found = differences(load_recipe(a), load_recipe(b))
    if as_json:
        print(json.dumps(found))
        return
    for field, (left, right) in found.items():
        only_left = [x for x in left if x not in cast("Any", right)] if isinstance(left, list) else left
        only_right = [x for x in cast("Any", right) if x not in left] if isinstance(left, list) else right
        out.print(f"{field}: {_shown(only_left, a)} → {_shown(only_right, b)}", markup=False)
    if not found:
        out.print("no difference")


@recipes.command("check")
def check_recipe(
    works: Works,
    name: Annotated[str, typer.Option("--recipe", help="A shipped recipe, or a .toml file.")],
    as_json: Json = False,
) -> None:
    """Say whether work folders have the samples that a recipe takes. Exit code 1: some lack."""
    from baselines.fixit.build import BuildSettings, gather
    from baselines.fixit.recipe import lacks, load_recipe, quotas

    recipe = load_recipe(name)
    places = [p for p in gather(works, BuildSettings(recipe=recipe), _tell).places if p.problem in recipe.problems]
    missing = lacks(recipe, places)
    wanted = quotas(recipe, places)
    if as_json:
        rows = [{**cell._asdict(), "needed": number} for cell, number in wanted.items()]
        print(json.dumps({"present": len(places), "cells": rows, "lacking": [lack.text for lack in missing]}))
    for lack in [] if as_json else missing:
        out.print(f"[red]✗[/] {escape(lack.text)}")
    if not missing and not as_json:
        out.print(f"[green]✓[/] {sum(wanted.values())} of {len(places)} samples would be taken")
    raise typer.Exit(EXIT_LACKING if missing else 0)


def _teacher(name: str | None, base_url: str | None, api: str | None, models: Path | None) -> Any:
    from baselines.fixit.teacher import endpoint_teacher

    if not name:
        raise MisuseError("Say who teaches: --model with a table of models.toml, or a name that the endpoint knows.")
    return endpoint_teacher(name, base_url, api, models)


def _worked(work: Callable[[], Any]) -> None:
    """Run a step, say how it went, and in the exit code whether something is left to do."""
    handler = _Notes(logging.WARNING)
    logging.getLogger("baselines").addHandler(handler)
    try:
        progress = work()
    except KeyboardInterrupt:
        err.print("Stopped. The same command goes on.", markup=False)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        logging.getLogger("baselines").removeHandler(handler)
    if progress is None:
        return
    out.print(progress.text, markup=False)
    for reason in dict.fromkeys(progress.left_open):
        err.print(f"ptxgym: {reason}", style="yellow", markup=False)
    if progress.left_open:
        err.print("Something was left open; the same command goes on.", markup=False)
        raise typer.Exit(EXIT_UNFINISHED)


def _tell(text: str) -> None:
    err.print(text, style="dim", markup=False)


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise MisuseError(f"{option} {value!r} is none of {', '.join(allowed)}.")


def _shown(value: object, name: str) -> str:
    if isinstance(value, list):
        return f"only {name}: {', '.join(map(str, value))}" if value else f"nothing only in {name}"
    return str(value)


class _Notes(logging.Handler):
    """A teacher's warnings, such as a wait for the endpoint, as lines."""

    def emit(self, record: logging.LogRecord) -> None:
        _tell(record.getMessage())


attach(app)  # train, merge, serve, compare, sets, leakage
