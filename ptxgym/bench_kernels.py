"""The example kernels, judged on this machine's GPU: a table to look at, and a Markdown page to keep.

Each kernel is judged alone, one after the other, all stages. A page holds what one run on one device gave; nothing is
added up over runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxgym.bench import EXAMPLES
from ptxgym.devices import Regime, get_device
from ptxgym.errors import InfrastructureError, MisuseError
from ptxgym.evaluation import CompileEvidence, Evaluation, EvaluationOptions, Evaluator, TimingEvidence
from ptxgym.tasks import HOPPER, Task, get_task

NOT_MEANT_TO_BE_FAST = {"gemm_plain_cuda"}
GOALS = {"gemm": 1.0, "mha_forward": 0.95, "mha_forward_causal": 0.95}
"""The speedup that an example must reach. Others: 0.9 for a forward pass, 0.8 for a backward pass."""

COLUMNS = ("kernel", "speedup", "interval", "goal", "time", "library", "rate", "clock", "regime", "work", "verdict")

_ABOUT = """\
Written by `ptxgym bench kernels`. Speedup is the library's time over the kernel's: the median over rounds in which both
run in turn on one device with a cold L2, and its 95 % bootstrap interval. A row is marked ✓ when all stages passed,
target instructions did at least 0.99 of the work, ptxas spilled nothing and had nothing to say about wgmma, and the
goal was reached."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One example and its evaluation."""

    name: str
    goal: float
    evaluation: Evaluation

    @property
    def reached(self) -> bool:
        """Whether it passed, with all of its work on target instructions, nothing spilled, and at least the goal."""
        built = self.evaluation.stage("compile").evidence
        clean = isinstance(built, CompileEvidence) and not built.spill_bytes and not built.advisories
        fast = self.evaluation.speedup >= self.goal
        return self.evaluation.status == "passed" and self.evaluation.work_fraction >= 0.99 and clean and fast

    @property
    def timing(self) -> TimingEvidence | None:
        """Its timing, if it came so far."""
        evidence = self.evaluation.stage("timing").evidence
        return evidence if isinstance(evidence, TimingEvidence) else None

    @property
    def row(self) -> tuple[str, ...]:
        """The table's columns."""
        end = (f"{self.evaluation.work_fraction:.3f}", self.evaluation.status)
        if (timing := self.timing) is None:
            return (self.name, "–", "–", f"{self.goal:.2f}", *["–"] * 5, *end)
        return (
            self.name,
            f"{timing.speedup:.3f}",
            f"{timing.speedup_low:.3f}–{timing.speedup_high:.3f}",
            f"{self.goal:.2f}",
            f"{timing.candidate_seconds * 1e3:.3f} ms",
            f"{timing.reference_seconds * 1e3:.3f} ms",
            f"{timing.tflops:.0f} TFLOP/s",
            f"{timing.sm_clock_mhz} MHz",
            timing.regime,
            *end,
        )


def task_of(name: str) -> Task:
    """The task of an example by its file's name: ``mha_forward_causal_d64`` is MHAForwardCausal with head_dim 64."""
    words, _, head_dim = name.removesuffix("_plain_cuda").partition("_d")
    operator = "".join(
        word.upper() if word in ("gemm", "mha", "gqa") else word.capitalize() for word in words.split("_")
    )
    return get_task(f"PTXBench-{operator}-H100" + (f"-D{head_dim}" if head_dim else ""))


def examples(only: Sequence[str] = ()) -> dict[str, Path]:
    """Names and files of the kernels that are meant to be fast, or of those named.

    Raises:
        MisuseError: There is no example of that name, or no checkout around the package.
    """
    files = {path.stem: path for path in sorted(EXAMPLES.glob("*.cu")) if path.stem not in NOT_MEANT_TO_BE_FAST}
    if not files:
        raise MisuseError("The example kernels are part of a checkout: run this from a clone of the repository.")
    if unknown := [name for name in only if name not in files]:
        raise MisuseError(f"There is no example kernel {unknown[0]!r}; there are {', '.join(files)}.")
    return {name: files[name] for name in only or files}


def judge_examples(
    only: Sequence[str] = (), regime: Regime = "hot", say: Callable[[str], None] = lambda text: None
) -> Iterator[Judged]:
    """Judge them one after the other.

    Raises:
        MisuseError: A name is unknown.
        InfrastructureError: There is no Hopper GPU.
    """
    chosen = examples(only)
    if not get_device("auto", HOPPER).gives_times:
        raise InfrastructureError("Kernels can only be timed on a Hopper GPU, and this machine has none.")
    options = EvaluationOptions(device="cuda", cache=False, regime=regime)
    for name, path in chosen.items():
        say(name)
        evaluation = Evaluator(task_of(name), options).evaluate(path.read_text(encoding="utf-8"))
        yield Judged(name, _goal(name), evaluation)


def page(judged: Sequence[Judged]) -> str:
    """The Markdown page: device, versions and clocks, then the table."""
    lines = ["# The Hopper kernels, measured", "", *_conditions(judged), ""]
    lines += ["| " + " | ".join((*COLUMNS, "")) + " |", "| " + " | ".join(["---"] * (len(COLUMNS) + 1)) + " |"]
    for one in judged:
        lines.append("| " + " | ".join((*one.row, "✓" if one.reached else "✗")) + " |")
    return "\n".join(lines) + "\n"


def _conditions(judged: Sequence[Judged]) -> Iterator[str]:
    first = judged[0].evaluation
    built = first.stage("compile").evidence
    compiler = built.compiler if isinstance(built, CompileEvidence) else "nvcc unknown"
    timings = [one.timing for one in judged if one.timing]
    libraries = sorted({f"{t.report.reference} {t.report.reference_version}".strip() for t in timings})
    versions = ", ".join((compiler, *libraries, *(f"{name} {version}" for name, version in first.software.items())))
    yield _ABOUT
    yield ""
    device = first.device
    yield f"- Device: {device.name}, {device.multiprocessors} multiprocessors, driver {device.driver}."
    yield f"- Versions: {versions}."
    if timings:
        clocks = sorted(t.sm_clock_mhz for t in timings)
        limits = sorted({f"{t.report.power_limit_watts:.0f} W" for t in timings})
        reasons = sorted({reason for t in timings for reason in t.report.throttle_reasons}) or ["none"]
        yield f"- Clocks: medians of {clocks[0]} to {clocks[-1]} MHz, at most {device.max_clock_mhz} MHz; power limit"
        yield f"  {', '.join(limits)}; throttled by: {', '.join(reasons)}."


def _goal(name: str) -> float:
    return GOALS.get(name, 0.8 if "backward" in name else 0.9)


def write(path: Path, judged: Sequence[Judged]) -> None:
    """Write the page, whole or not at all."""
    unfinished = path.with_suffix(path.suffix + ".tmp")
    unfinished.write_text(page(judged), encoding="utf-8")
    unfinished.replace(path)
