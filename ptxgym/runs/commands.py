"""``ptxgym run`` and ``ptxgym show``: parse and print; the work lives elsewhere."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ptxgym.errors import MisuseError

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)

EXIT_UNFINISHED, EXIT_INTERRUPTED = 3, 130

_POLICY_OPTIONS = ("model", "base_url", "api", "models", "kernels")
_ENV_OPTIONS = ("device", "reward", "target_speedup", "shapes", "instruction_rule", "regime", "cache")
_OF_THIS_PROCESS = ("folder", "resume", "concurrency", "base_url")
"""Options that a resumed run may have different from before."""


def run(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("--out", metavar="RUN", help="The run's folder.")],
    env: Annotated[
        list[str] | None, typer.Option(help="An instance or a pattern, 'PTXBench-*-H100'; repeatable.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="mini-ptx-agent, in-context, replay, oracle, mutate, or your own module:function."),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Another option of the policy; repeatable.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A table of models.toml, or a name the endpoint knows.")] = None,
    base_url: Annotated[str | None, typer.Option(help="The endpoint; OPENAI_BASE_URL by default.")] = None,
    api: Annotated[str | None, typer.Option(help="chat or responses.")] = None,
    models: Annotated[Path | None, typer.Option(help="Your own file of model settings.")] = None,
    kernels: Annotated[Path | None, typer.Option(help="The folder of kernels of a scripted policy.")] = None,
    variants: Annotated[int, typer.Option(help="Prompt variants per instance.")] = 1,
    prompts: Annotated[Path | None, typer.Option(help="Your own variants: a folder with one .md file each.")] = None,
    knowledge: Annotated[
        str | None,
        typer.Option(
            help="none, parameters, templates, contracts or full (the default); or a file with your own text."
        ),
    ] = None,
    trajectories: Annotated[int, typer.Option(help="Per instance and variant.")] = 1,
    turns: Annotated[int, typer.Option(help="Submissions per trajectory.")] = 8,
    concurrency: Annotated[int, typer.Option(help="Trajectories at a time.")] = 4,
    device: Annotated[str, typer.Option(help="auto, cuda, simulator, or none (compile and inspect only).")] = "auto",
    reward: Annotated[str, typer.Option(help="staged, fast_inst, speedup, binary or roofline.")] = "staged",
    target_speedup: Annotated[float, typer.Option(help="Ends a trajectory.")] = 1.2,
    shapes: Annotated[str, typer.Option(help="all, or workload (the paper's rule).")] = "all",
    instruction_rule: Annotated[str, typer.Option(help="work, or paper (one execution is enough).")] = "work",
    regime: Annotated[str, typer.Option(help="Timing: hot or cool.")] = "hot",
    cache: Annotated[bool, typer.Option(help="Answer from kept evaluations of the same program.")] = True,
    seed: Annotated[int, typer.Option(help="Of the policy's own choices.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out; its settings stay.")] = False,
) -> None:
    """Let a policy play. Every turn is on disk before the next: kill it at any moment, and go on with --resume.

    Exit code 0: every trajectory came to its end; 3: some did not, and --resume goes on with them.
    """
    asked = dict(locals())
    from ptxgym.runs import harness
    from ptxgym.runs.progress import LineWatcher, LiveWatcher

    given = {
        name: value
        for name, value in asked.items()
        if (source := context.get_parameter_source(name)) and source.name != "DEFAULT"
    }
    record, player = _resumed(folder, given) if resume else _new(asked)
    watcher = LiveWatcher(err) if err.is_terminal else LineWatcher(err)
    handler = _Notes(watcher)
    logging.getLogger("baselines").addHandler(handler)
    try:
        outcome = harness.run(folder, record, player, concurrency=concurrency, resume=resume, watcher=watcher)
    except KeyboardInterrupt:
        err.print(f"Stopped. Go on with: ptxgym run --out {folder} --resume", markup=False)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        logging.getLogger("baselines").removeHandler(handler)
    _conclude(folder, outcome)


def show(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    number: Annotated[int | None, typer.Argument(help="A trajectory's number in the list; all without it.")] = None,
    turn: Annotated[int | None, typer.Option(help="One turn, whole.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Everything that was said and submitted.")] = False,
    source: Annotated[bool, typer.Option("--source", help="Print nothing but the source submitted last.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records, one line each.")] = False,
) -> None:
    """Read a run: the list of its trajectories, or one of them turn by turn."""
    from ptxgym.runs import show as view
    from ptxgym.runs.records import read_turns

    if number is None:
        if turn is not None or source or whole:
            raise MisuseError(f"Say which trajectory: ptxgym show {folder} NUMBER …; without one, all are listed.")
        if as_json:
            for record in read_turns(folder):
                print(record.model_dump_json())
        else:
            view.show_run(folder, out)
        return
    turns = [record for record in view.select(folder, number) if turn in (None, record.turn)]
    if not turns:
        raise MisuseError(
            f"Trajectory {number} has no turn yet." if turn is None else f"Trajectory {number} has no turn {turn}."
        )
    if as_json:
        for record in turns:
            print(record.model_dump_json())
    elif source:
        print(turns[-1].source)
    else:
        view.show_trajectory(turns, out, whole=whole or turn is not None)


def _new(asked: dict[str, Any]) -> tuple[Any, Any]:
    """The record of a run that begins, and its policy."""
    from ptxgym.runs.policies import build_policy
    from ptxgym.runs.settings import new_run

    name = asked["policy"] or "mini-ptx-agent"
    options = {option: asked[option] for option in _POLICY_OPTIONS if asked[option] is not None}
    options |= _named(asked["option"])
    policy = build_policy(name, options)
    record = new_run(
        envs=asked["env"] or [],
        policy_name=name,
        policy=policy,
        policy_options={option: value for option, value in options.items() if option != "base_url"},
        variants=asked["variants"],
        prompts=asked["prompts"],
        knowledge=_knowledge(asked["knowledge"] or "full"),
        trajectories=asked["trajectories"],
        max_turns=asked["turns"],
        seed=asked["seed"],
        env_settings={option: asked[option] for option in _ENV_OPTIONS},
    )
    return record, policy


def _resumed(folder: Path, given: dict[str, Any]) -> tuple[Any, Any]:
    """The record of a run that was broken off, and its policy built again."""
    from ptxgym.runs.policies import build_policy
    from ptxgym.runs.records import read_run
    from ptxgym.runs.settings import recorded

    record = read_run(folder)
    named = _named(given.pop("option", None))
    for option, value in {**given, **named}.items():
        if option in _OF_THIS_PROCESS or value is None:
            continue
        now, then = recorded(record, option, value)
        if now != then:
            flag = f"--option {option}" if option in named else "--" + option.replace("_", "-")
            raise MisuseError(f"The run in {folder} has {flag} {then}, not {now}; a resumed run keeps its settings.")
    options = {k: Path(v) if k in ("models", "kernels") else v for k, v in record.policy_options.items()}
    endpoint = given.get("base_url") or os.environ.get("OPENAI_BASE_URL") or record.policy_settings.get("endpoint")
    return record, build_policy(record.policy, options | ({"base_url": endpoint} if endpoint else {}))


def _named(options: list[str] | None) -> dict[str, str]:
    """``NAME=VALUE`` by name."""
    named = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise MisuseError(f"--option {option} should be NAME=VALUE.")
        named[name.replace("-", "_")] = value
    return named


def _conclude(folder: Path, outcome: Any) -> None:
    """Say what is left to do, in the exit code too."""
    for kind, detail in {stop.stop: stop.detail for stop in outcome.errors}.items():
        err.print(f"ptxgym: {kind.removeprefix('error:')}: {detail}", style="yellow", markup=False)
    if outcome.unfinished:
        err.print(
            f"{outcome.unfinished} of {outcome.tally.trajectories} trajectories are unfinished. Go on with: "
            f"ptxgym run --out {folder} --resume",
            markup=False,
        )
        raise typer.Exit(EXIT_UNFINISHED)
    err.print(f"ptxgym show {folder} reads it.", style="dim", markup=False)


def _knowledge(level_or_file: str) -> str:
    """A level of the knowledge pack as it is, else the file's text."""
    import knowledge

    if level_or_file in knowledge.LEVELS:
        return level_or_file
    try:
        return Path(level_or_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MisuseError(
            f"--knowledge takes {', '.join(knowledge.LEVELS)}, or a file; {level_or_file} cannot be read: {error}."
        ) from None


class _Notes(logging.Handler):
    """A policy's warnings, such as a wait for the endpoint, among the run's events."""

    def __init__(self, watcher: Any) -> None:
        super().__init__(logging.WARNING)
        self._watcher = watcher

    def emit(self, record: logging.LogRecord) -> None:
        self._watcher.note(record.getMessage())
