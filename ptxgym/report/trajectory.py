"""One trajectory as a page shows it: every kernel, what changed, the feedback, the evidence."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptxgym.evaluation import (
    CompileEvidence,
    CorrectnessEvidence,
    Evaluation,
    InstructionEvidence,
    MemoryEvidence,
    StageResult,
    TimingEvidence,
    feedback,
)
from ptxgym.metrics import Outcome, outcome
from ptxgym.report.figures import OUTCOME_NAMES, task_name
from ptxgym.report.runs import turn_of_record
from ptxgym.report.text import DiffLine, difference, lines, visible
from ptxgym.runs.records import TurnRecord

STOP_NAMES = {
    "": "did not end (the run was cut off, or goes on)",
    "target_speedup": "reached the target speedup",
    "passed": "passed, where nothing is timed",
    "turn_budget": "took all its turns",
    "context_full": "filled the model's context",
    "policy_done": "the policy had nothing more to submit",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of one evaluation."""

    name: str
    status: str
    seconds: float
    message: str
    evidence: str
    """JSON; empty when there is none."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation."""

    role: str
    content: str
    reasoning: str


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn. All text is already visible, and not yet escaped."""

    number: int
    outcome: Outcome
    verdict: str
    status: str
    facts: tuple[tuple[str, str], ...]
    """Names and values of what is known."""
    stages: tuple[Stage, ...]
    feedback: str
    kernel: tuple[str, ...]
    change: tuple[DiffLine, ...] | None
    """The difference from the turn before; None where it would take too long to find."""
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class TrajectoryView:
    """One trajectory, and what the report's list of trajectories needs of it."""

    task: str
    series: str
    variant: str
    number: int
    run: str
    file: str
    """Where its page lies, from the report's folder."""
    strip: tuple[tuple[int, Outcome, str], ...]
    """Turn, outcome and its words."""
    best: float
    """The largest speedup; NaN where nothing was timed."""
    stop: str
    turns: tuple[TurnView, ...] = ()
    """Empty once the page is written."""

    @property
    def heading(self) -> str:
        """The task as headings have it."""
        return task_name(self.task)


def trajectory_view(records: Sequence[TurnRecord], file: str) -> TrajectoryView:
    """A trajectory from its turns, in order."""
    first, last = records[0], records[-1]
    before = [None, *records[:-1]]
    turns = tuple(_turn(record, previous) for record, previous in zip(records, before, strict=True))
    speedups = [record.evaluation.speedup for record in records if not math.isnan(record.evaluation.speedup)]
    return TrajectoryView(
        task=first.env,
        series=visible(first.model or first.policy),
        variant=visible(first.variant),
        number=first.trajectory,
        run=visible(first.run),
        file=file,
        strip=tuple((turn.number, turn.outcome, turn.verdict) for turn in turns),
        best=max(speedups, default=math.nan),
        stop=STOP_NAMES.get(last.stop) or f"stopped: {visible(last.stop)}",
        turns=turns,
    )


def _turn(record: TurnRecord, before: TurnRecord | None) -> TurnView:
    evaluation = record.evaluation
    kind = outcome(turn_of_record(record), "work")
    change = difference(before.source, record.source) if before else []
    return TurnView(
        number=record.turn,
        outcome=kind,
        verdict=OUTCOME_NAMES[kind],
        status=evaluation.status,
        facts=tuple(_facts(record)),
        stages=tuple(map(_stage, evaluation.stages)),
        feedback=visible(feedback(evaluation)),
        kernel=tuple(lines(record.source)) if record.source else (),
        change=None if change is None else tuple(change),
        messages=tuple(
            Message(message.role, visible(message.content), visible(message.reasoning)) for message in record.messages
        ),
    )


def _facts(record: TurnRecord) -> list[tuple[str, str]]:
    evaluation, usage = record.evaluation, record.usage
    facts = [("status", evaluation.status), ("reward", f"{record.reward:.3f}")]
    facts += _measured(evaluation)
    if record.model:
        facts += [
            ("reasoning tokens", f"{usage.reasoning_tokens:,}"),
            ("completion tokens", f"{usage.completion_tokens:,}"),
            ("prompt tokens", f"{usage.prompt_tokens:,}"),
            ("cost", "unknown" if math.isnan(usage.cost) else f"${usage.cost:.4f}"),
            ("model time", f"{record.timing.model_seconds:.1f} s"),
        ]
    facts += [
        ("evaluation time", f"{record.timing.evaluation_seconds:.1f} s"),
        ("judged on", evaluation.device.name),
        ("at", record.created),
    ]
    return [(name, visible(value)) for name, value in facts]


def _measured(evaluation: Evaluation) -> list[tuple[str, str]]:
    numbers = (("speedup", evaluation.speedup), ("work fraction", evaluation.work_fraction))
    return [(name, f"{value:.3f}") for name, value in numbers if not math.isnan(value)]


def _stage(stage: StageResult) -> Stage:
    evidence: dict[str, Any] = stage.evidence.model_dump(mode="json") if stage.evidence else {}
    return Stage(
        name=stage.stage,
        status=stage.status,
        seconds=stage.seconds,
        message=visible(stage.message or _summary(stage)),
        evidence=visible(json.dumps(evidence, indent=1, ensure_ascii=False)) if evidence else "",
    )


def _summary(stage: StageResult) -> str:
    """A passed stage's evidence in a few words."""
    match stage.evidence:
        case CompileEvidence() as e:
            return f"{e.registers} registers, {f'{e.spill_bytes} bytes spilled' if e.spill_bytes else 'no spills'}"
        case MemoryEvidence() as e:
            return f"{', '.join(dict.fromkeys(report.tool for report in e.reports))} on {len(e.shapes)} shapes"
        case CorrectnessEvidence(worst=worst) as e if worst is not None:
            return f"{len(e.comparisons)} comparisons, norm error {worst.norm_error:.1e} at most"
        case InstructionEvidence() as e:
            share = "unknown" if math.isnan(e.work_fraction) else f"{e.work_fraction:.3f}"
            return f"work fraction {share} ({e.tool})"
        case TimingEvidence() as e:
            return (
                f"{e.candidate_seconds * 1e3:.3f} ms, speedup {e.speedup:.3f} [{e.speedup_low:.3f}, "
                f"{e.speedup_high:.3f}] over {e.report.reference}, {e.regime} at {e.sm_clock_mhz} MHz"
            )
    return ""
