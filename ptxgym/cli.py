"""The command line: parses and prints; the work lives elsewhere. Results go to stdout, progress to stderr."""

from __future__ import annotations

import json
import math
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from baselines.fixit.commands import app as fixit_app
from ptxgym import __version__
from ptxgym.errors import InfrastructureError, MisuseError
from ptxgym.integrations.commands import app as tasks_app
from ptxgym.report.commands import import_ptxbench, report
from ptxgym.runs.commands import run, show
from ptxgym.tasks import TASKS, format_shape, get_task

app = typer.Typer(
    name="ptxgym",
    help="Judge CUDA kernels that must use architecture-specific PTX.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)

_MARKS = {"passed": "[green]✓[/]", "failed": "[red]✗[/]", "unknown": "[yellow]?[/]", "skipped": "[dim]–[/]"}
_LEVELS = {"ok": "[green]✓[/]", "limited": "[yellow]?[/]", "missing": "[red]✗[/]"}

EXIT_FAILED, EXIT_MISUSE, EXIT_UNKNOWN = 1, 2, 3

Json = Annotated[bool, typer.Option("--json", help="Print the record as JSON.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cuda, simulator, or none (compile and inspect only).")]
EnvOption = Annotated[str, typer.Option("--env", help="A task's id; `ptxgym list` shows them.")]


@app.command("list")
def list_tasks(as_json: Json = False) -> None:
    """Show every task: id, workload and FLOPs."""
    if as_json:
        rows = [
            {"id": t.id, "workload": dict(t.workload), "flops": t.operator.flops(t.workload)} for t in TASKS.values()
        ]
        print(json.dumps(rows))
        return
    table = Table("id", "workload", "TFLOP", box=None, header_style="bold")
    for task in TASKS.values():
        table.add_row(task.id, format_shape(task.workload), f"{task.operator.flops(task.workload) / 1e12:.2f}")
    out.print(table)


@app.command()
def describe(task_id: Annotated[str, typer.Argument(metavar="ID")], as_json: Json = False) -> None:
    """Show one task as a policy sees it, and what stands behind it."""
    from ptxgym.envs.prompt import task_prompt
    from ptxgym.evaluation import EvaluationOptions
    from ptxgym.rewards import TARGET_SPEEDUP

    task = get_task(task_id)
    operator, shape = task.operator, task.workload
    prompt = task_prompt(task, EvaluationOptions(), TARGET_SPEEDUP, 8, "")
    if as_json:
        record = {
            "id": task.id,
            "target": f"sm_{task.architecture.target}",
            "signature": operator.signature(),
            "workload": dict(shape),
            "probes": [dict(probe) for probe in task.probes],
            "flops": operator.flops(shape),
            "bytes": operator.bytes(shape),
            "prompt": prompt,
        }
        print(json.dumps(record))
        return
    out.print(escape(prompt), end="")
    flops, moved = operator.flops(shape), operator.bytes(shape)
    out.print(f"\n{flops:.4g} FLOPs, {moved:.4g} bytes at least, {flops / moved:.0f} FLOPs per byte")


@app.command()
def prompt(
    task_id: Annotated[str, typer.Argument(metavar="ID")],
    level: Annotated[str, typer.Option(help="none, parameters, templates, contracts or full.")] = "full",
    variant: Annotated[str, typer.Option(help="base, or one of the variants with a hint.")] = "base",
    gpu: Annotated[str | None, typer.Option(help="A GPU whose parameters are meant, e.g. H200.")] = None,
    as_json: Json = False,
) -> None:
    """Print a task's prompt with its knowledge; the tokens of every part go to stderr."""
    import knowledge

    task = get_task(task_id)
    try:
        made = knowledge.prompt(task, cast("Any", level), variant, gpu=gpu)
    except ValueError as error:
        raise MisuseError(f"{error}.") from None
    if as_json:
        print(json.dumps({"text": made.text, "tokens": made.tokens, "total": made.total}))
        return
    print(made.text)
    for name, tokens in made.tokens.items():
        err.print(f"{tokens:>7}  {name}", style="dim", markup=False)
    err.print(f"{made.total:>7}  tokens", style="dim")


@app.command()
def evaluate(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL.cu", help="The source; - reads standard input.")],
    env: EnvOption,
    device: DeviceOption = "auto",
    regime: Annotated[str, typer.Option(help="Timing: hot (under load) or cool (idle before each call).")] = "hot",
    shapes: Annotated[str, typer.Option(help="all, or workload (the paper's rule).")] = "all",
    instruction_rule: Annotated[str, typer.Option(help="work, or paper (one execution is enough).")] = "work",
    cache: Annotated[bool, typer.Option(help="Answer from a kept evaluation of the same program.")] = True,
    records: Annotated[Path | None, typer.Option(help="Append the evaluation's record to this JSONL file.")] = None,
    as_json: Json = False,
) -> None:
    """Judge a kernel. Exit code 0: passed; 1: failed; 2: misuse; 3: this machine could not tell."""
    from pydantic import ValidationError

    from ptxgym.destinations import check_appendable
    from ptxgym.evaluation import EvaluationOptions, Evaluator, feedback
    from ptxgym.progress import StageProgress
    from ptxgym.rewards import staged
    from ptxgym.trajectories import append_record, make_record

    source = _source(kernel)
    try:
        options = EvaluationOptions.model_validate(
            {
                "device": device,
                "regime": regime,
                "shapes": shapes,
                "instruction_rule": instruction_rule,
                "cache": cache,
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise MisuseError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}.") from None
    evaluator = Evaluator(get_task(env), options)
    if records is not None:
        check_appendable(records, "--records")
    with StageProgress(err) as progress:
        evaluation = evaluator.evaluate(source, progress)
    if as_json:
        print(evaluation.model_dump_json())
    else:
        out.print(f"[bold]{kernel.name}[/] · {env} · {evaluation.device.name}{' · cached' * evaluation.cached}")
        for stage in evaluation.stages:
            seconds = f"{stage.seconds:5.1f} s" if stage.status != "skipped" else "       "
            out.print(f"{_MARKS[stage.status]} {stage.stage:<13}{seconds}   {escape(_summary(stage))}")
        out.print()
        out.print(escape(feedback(evaluation)))
    if records is not None:
        append_record(records, make_record(source, options, evaluation, staged(evaluation), 1))
    raise typer.Exit(0 if evaluation.status == "passed" else EXIT_FAILED if evaluation.valid else EXIT_UNKNOWN)


@app.command()
def simulate(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL.cu", help="The source; - reads standard input.")],
    env: EnvOption,
    shape: Annotated[str | None, typer.Option(help="E.g. M=512,N=768,K=640; the first probe shape by default.")] = None,
    explain: Annotated[bool, typer.Option(help="Show the source line of every finding.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate one call and show launches, counts and every finding.

    Exit code 0: right, and no error found; 1: wrong, or no program; 2: misuse; 3: the simulator could not tell.
    """
    from ptxgym.simulation import parse_shape
    from ptxgym.simulation import simulate as simulate_call

    task, source = get_task(env), _source(kernel)
    with err.status("simulating") if err.is_terminal else nullcontext():
        seen = simulate_call(source, task, parse_shape(shape, task) if shape else task.probes[0])
    if as_json:
        print(json.dumps({**asdict(seen), "comparisons": [c.model_dump(mode="json") for c in seen.comparisons]}))
        raise typer.Exit(0 if seen.clean else EXIT_FAILED)
    out.print(f"[bold]{kernel.name}[/] · {env} · {seen.shape}")
    for launch in seen.launches:
        _print_launch(launch)
    lines = source.splitlines()
    for finding in seen.findings:
        mark = _MARKS["failed" if finding["severity"] == "error" else "unknown"]
        out.print(f"{mark} {escape(finding['text'])}")
        if explain and finding["file"].endswith("kernel.cu") and 0 < finding["line"] <= len(lines):
            out.print(f"    {finding['line']:>5} | {escape(lines[finding['line'] - 1])}", style="dim")
    for note in seen.notes:
        out.print(f"{_MARKS['unknown']} {escape(note)}")
    if seen.printed:
        out.print(escape(seen.printed), end="")
    if seen.failure:
        out.print(f"{_MARKS['failed']} {escape(seen.failure)}")
    for comparison in seen.comparisons:
        mark = _MARKS["passed" if comparison.passed else "failed"]
        out.print(
            f"{mark} {comparison.output}: {comparison.bad_elements} of {comparison.elements} elements wrong, norm "
            f"error {comparison.norm_error:.1e}"
        )
    raise typer.Exit(0 if seen.clean else EXIT_FAILED)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Tell what this machine can do, and how to get what is missing. Exit code 1: nothing can be compiled."""
    from ptxgym.doctor import examine

    findings = list(examine())
    if as_json:
        print(json.dumps([{"name": f.name, "level": f.level, "detail": f.detail} for f in findings]))
    else:
        for finding in findings:
            out.print(f"{_LEVELS[finding.level]} {finding.name:<28}{escape(finding.detail)}")
    raise typer.Exit(EXIT_FAILED if any(f.level == "missing" for f in findings) else 0)


@app.command()
def validate(
    records: Annotated[Path, typer.Argument(help="A JSONL file of evaluation records, or a run's folder.")],
    device: Annotated[str | None, typer.Option(help="Judge on another device than the records'.")] = None,
    as_json: Json = False,
) -> None:
    """Judge recorded submissions again and say what reproduced. Exit code 0: all did; 1: something did not."""
    from ptxgym.runs.submissions import read_submissions
    from ptxgym.trajectories import reproduce

    failures = number = 0
    for number, record in enumerate(read_submissions(records), start=1):
        err.print(f"judging {number}: {record.task} turn {record.turn}", style="dim")
        again = reproduce(record, device)
        good = not again.differences and again.speedup_agrees is not False
        failures += not good
        if as_json:
            print(again.model_dump_json())
            continue
        speeds = "".join(
            f" {label} {value:.3f}"
            for label, value in (("was", record.evaluation.speedup), ("is", again.again.speedup))
            if not math.isnan(value)
        )
        what = "; ".join(again.differences) or ("reproduced" if good else "the speedup differs")
        out.print(f"{_MARKS['passed' if good else 'failed']} {record.task} turn {record.turn}: {escape(what)}{speeds}")
    if not number:
        raise MisuseError(f"{records} holds no record, so there is nothing to judge again.")
    raise typer.Exit(EXIT_FAILED if failures else 0)


@app.command()
def bench(
    only: Annotated[list[str] | None, typer.Argument(help="Names of benchmarks; all that run here by default.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
    page: Annotated[Path | None, typer.Option(help="With kernels: write the table here, as Markdown.")] = None,
    regime: Annotated[str, typer.Option(help="With kernels: hot or cool.")] = "hot",
) -> None:
    """Measure ptxgym itself: start-up, cache, compilation, and on a GPU verdicts per minute and repeatability.

    ``bench kernels [NAME ...]`` judges the example kernels instead, on a Hopper GPU.
    """
    from ptxgym.bench import run_benchmarks
    from ptxgym.destinations import check_replaceable

    for file, option in ((json_file, "--json"), (page, "--page")):
        if file is not None:
            check_replaceable(file, option)
    if only and only[0] == "kernels":
        _bench_kernels(only[1:], page, regime)
        return
    measured = []
    for figure in run_benchmarks(only or [], lambda text: err.print(f"{text} …", style="dim")):
        measured.append(figure)
        mark = _MARKS["passed" if figure.reached else "failed"]
        out.print(f"{mark} {figure.name:<36}{figure.text:<18}{figure.goal:<18}{escape(figure.detail)}")
        if json_file is not None:
            text = json.dumps([figure.as_json() for figure in measured], indent=1)
            json_file.with_suffix(".tmp").write_text(text + "\n", encoding="utf-8")
            json_file.with_suffix(".tmp").replace(json_file)


def _bench_kernels(only: list[str], page: Path | None, regime: str) -> None:
    """Exit code 1: an example did not pass, or not at its goal."""
    from ptxgym.bench_kernels import COLUMNS, judge_examples, write

    if regime not in ("hot", "cool"):
        raise MisuseError(f"--regime is hot or cool, not {regime!r}.")
    widths = (25, 9, 16, 6, 11, 11, 14, 10, 8, 7, 10)
    out.print("  " + "".join(name.ljust(width) for name, width in zip(COLUMNS, widths, strict=True)), style="bold")
    judged = []
    for one in judge_examples(only, cast("Any", regime), lambda text: err.print(f"{text} …", style="dim")):
        judged.append(one)
        row = "".join(cell.ljust(width) for cell, width in zip(one.row, widths, strict=True))
        out.print(f"{_MARKS['passed' if one.reached else 'failed']} {escape(row)}")
        if page is not None:
            write(page, judged)
    raise typer.Exit(0 if all(one.reached for one in judged) else EXIT_FAILED)


app.command()(run)
app.command()(show)
app.command()(report)
app.command("import-ptxbench")(import_ptxbench)
app.add_typer(tasks_app)
app.add_typer(fixit_app)


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit


_SHOWN_OPCODES = 12


def _print_launch(launch: dict[str, Any]) -> None:
    """One launch: its configuration, its most executed instructions, its FLOPs and bytes."""
    grid, block, cluster = (" × ".join(map(str, launch[name])) for name in ("grid", "block", "cluster"))
    out.print(
        f"\n{escape(launch['name'])}\n  grid {grid}, block {block}, cluster {cluster}, "
        f"{launch['dynamic_shared']} bytes dynamic shared memory"
    )
    counts = sorted(launch["executed"].items(), key=lambda item: -item[1])
    for opcode, threads in counts[:_SHOWN_OPCODES]:
        out.print(f"  {threads:>14,}  {escape(opcode)}")
    if len(counts) > _SHOWN_OPCODES:
        out.print(f"  {sum(n for _, n in counts[_SHOWN_OPCODES:]):>14,}  {len(counts) - _SHOWN_OPCODES} others")
    for kind, flops in launch["tensor_flops"].items():
        out.print(f"  {flops:>14,}  FLOPs by {kind}")
    for kind, count in launch["bytes"].items():
        out.print(f"  {count:>14,}  bytes {kind}")


def _summary(stage: object) -> str:
    from ptxgym.evaluation import (
        CompileEvidence,
        CorrectnessEvidence,
        InstructionEvidence,
        MemoryEvidence,
        StageResult,
        TimingEvidence,
    )

    assert isinstance(stage, StageResult)
    if stage.message:
        return stage.message
    match stage.evidence:
        case CompileEvidence() as e:
            return f"{e.registers} registers, {f'{e.spill_bytes} bytes spilled' if e.spill_bytes else 'no spills'}"
        case MemoryEvidence() as e:
            return f"{e.reports[0].tool}: {e.verdict}"
        case CorrectnessEvidence(worst=worst) as e if worst:
            return f"{len(e.comparisons)} comparisons, norm error {worst.norm_error:.1e} at most"
        case InstructionEvidence() as e:
            return f"work fraction {e.work_fraction:.3f} ({e.tool})"
        case TimingEvidence() as e:
            return (
                f"{e.candidate_seconds * 1e3:.3f} ms, speedup {e.speedup:.3f} [{e.speedup_low:.3f}, "
                f"{e.speedup_high:.3f}] over {e.report.reference}, {e.regime} at {e.sm_clock_mhz} MHz"
            )
    return ""


def _source(path: Path) -> str:
    """The file's text; ``-`` is standard input."""
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise MisuseError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise MisuseError(f"{path} is not UTF-8 text.") from None


def main() -> NoReturn:
    """The entry point: a sentence instead of a traceback for what the caller can mend."""
    try:
        app()
    except MisuseError as error:
        err.print(f"ptxgym: {error}", style="red", markup=False)
        sys.exit(EXIT_MISUSE)
    except InfrastructureError as error:
        err.print(f"ptxgym: {error}", style="yellow", markup=False)
        sys.exit(EXIT_UNKNOWN)
    except OSError as error:
        if not error.filename:  # of a socket or a pipe: no file that the caller named
            raise
        err.print(f"ptxgym: {error.filename} cannot be used: {error.strerror}.", style="red", markup=False)
        sys.exit(EXIT_MISUSE)
    sys.exit(0)
