"""One turn, reduced to what metrics need, and how turns form trajectories."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from ptxgym.evaluation import WORK_FRACTION_LIMIT, Evaluation, InstructionEvidence
from ptxgym.toolchain import Record

BUDGET = 8
"""Turns that a trajectory may take, in the paper and here."""

Rule = Literal["work", "paper"]
"""When a correct kernel counts as using the target instructions. ``work``: they executed at least 0.9 of the
operator's FLOPs. ``paper``: one of them was executed at all."""

RULES: tuple[Rule, ...] = ("work", "paper")


class Turn(Record):
    """One submission of one trajectory, and what was found. ``None`` and NaN always mean "not known"."""

    version: Literal[1] = 1
    run: str
    """Names the run; trajectories of different runs are never joined."""
    model: str
    """The model, or the policy where there is no model."""
    architecture: str
    """The suffix of task ids: ``H100`` or ``B200``."""
    task: str
    """A task id such as ``PTXBench-GEMM-H100``."""
    variant: str
    """Which of the prompt variants. Curves are means over them."""
    trajectory: str
    """Which trajectory of its variant."""
    turn: PositiveInt
    """1 for the first submission."""
    status: str
    """The verdict in one word; see :data:`ptxgym.evaluation.Status`."""
    correct: bool | None
    """Whether the outputs were right; None when the machine could not tell."""
    target_work: bool | None = None
    """Whether target instructions did the work; says something only where ``correct`` is True."""
    target_paper: bool | None = None
    """Whether a target instruction was executed; says something only where ``correct`` is True."""
    speedup: float = math.nan
    """Library time ÷ kernel time of a correct kernel."""
    work_fraction: float = math.nan
    """Share in [0, 1] of the operator's FLOPs that target tensor instructions executed."""
    reasoning_tokens: NonNegativeInt | None = None
    """Tokens the model spent on reasoning in this turn."""
    ended: bool = False
    """Whether the trajectory ended here of its own accord: the target was reached, or the policy was content."""
    budget: PositiveInt = BUDGET
    """Turns that the run allowed the trajectory."""
    study: str = ""
    """What the run belongs to; series of one study are shown together."""
    condition: str = ""
    """What sets this run apart from others of the same model in the same study."""

    @property
    def series(self) -> str:
        """Model and condition: what one line of a figure stands for."""
        return f"{self.model} · {self.condition}" if self.condition else self.model

    @property
    def trajectory_key(self) -> tuple[str, ...]:
        """What tells one trajectory from all others."""
        return self.run, self.model, self.condition, self.task, self.variant, self.trajectory

    @property
    def variant_key(self) -> tuple[str, ...]:
        """What tells one prompt variant of one run from all others."""
        return self.trajectory_key[:-1]

    def target(self, rule: Rule) -> bool | None:
        """Whether the target instructions were used, by this rule."""
        return self.target_work if rule == "work" else self.target_paper


def qualifies(turn: Turn, rule: Rule | None = None) -> bool | None:
    """Whether a turn counts as a success; None when that is not known.

    Args:
        turn: The turn.
        rule: None asks for correct outputs only; a rule also asks for target instructions.
    """
    if not turn.correct or rule is None:
        return turn.correct
    return turn.target(rule)


def usable_rules(turns: Iterable[Turn]) -> tuple[Rule, ...]:
    """The rules by which at least one correct turn could be decided."""
    right = [turn for turn in turns if turn.correct]
    return tuple(rule for rule in RULES if any(turn.target(rule) is not None for turn in right))


def trajectories(turns: Iterable[Turn]) -> list[list[Turn]]:
    """Turns by trajectory, each in the order taken, in the order of first appearance.

    Raises:
        ValueError: A trajectory holds one turn number twice.
    """
    grouped: dict[tuple[str, ...], dict[int, Turn]] = {}
    for turn in turns:
        own = grouped.setdefault(turn.trajectory_key, {})
        if turn.turn in own:
            raise ValueError(f"turn {turn.turn} of trajectory {' / '.join(filter(None, turn.trajectory_key))} twice")
        own[turn.turn] = turn
    return [[own[number] for number in sorted(own)] for own in grouped.values()]


def within(trajectory: list[Turn], first: int) -> list[Turn | None]:
    """The first ``first`` turns of a trajectory, as far as its budget goes; None for a turn that was not taken.

    A trajectory that ended of its own accord keeps its last result for the turns it no longer needed: succeeding early
    must not look worse than succeeding late. The original's trajectories never reached their target.
    """
    by_number = {turn.turn: turn for turn in trajectory}
    last = trajectory[-1]
    held = last if last.ended else None
    numbers = range(1, min(first, last.budget) + 1)
    return [by_number.get(n) or (held if n > last.turn else None) for n in numbers]


def make_turn(
    evaluation: Evaluation,
    *,
    run: str,
    model: str,
    variant: str,
    trajectory: str,
    turn: int,
    reasoning_tokens: int | None = None,
    ended: bool = False,
    budget: int = BUDGET,
) -> Turn:
    """The turn that an evaluation amounts to."""
    correct = _correct(evaluation)
    executed, worked = _targets(evaluation)
    return Turn(
        run=run,
        model=model,
        architecture=architecture_of(evaluation.task),
        task=evaluation.task,
        variant=variant,
        trajectory=trajectory,
        turn=turn,
        status=evaluation.status,
        correct=correct,
        target_work=worked if correct else None,
        target_paper=executed if correct else None,
        speedup=evaluation.speedup if correct else math.nan,
        work_fraction=evaluation.work_fraction,
        reasoning_tokens=reasoning_tokens,
        ended=ended,
        budget=budget,
    )


def architecture_of(task: str) -> str:
    """``H100`` of ``PTXBench-MHAForward-H100-D64``; empty when the id has another form."""
    parts = task.split("-")
    return parts[2] if len(parts) > 2 else ""


def operator_of(task: str) -> str:
    """``MHAForward-D64`` of ``PTXBench-MHAForward-H100-D64``; the id itself when it has another form."""
    parts = task.split("-")
    return "-".join([parts[1], *parts[3:]]) if len(parts) > 2 and parts[0] == "PTXBench" else task


def _correct(evaluation: Evaluation) -> bool | None:
    status = evaluation.stage("correctness").status
    if status == "passed":
        return True
    failed = evaluation.failed_stage
    return False if failed is not None and failed.stage not in ("instructions", "timing") else None


def _targets(evaluation: Evaluation) -> tuple[bool | None, bool | None]:
    """(executed, did the work) as the evidence says it, whatever rule the run was judged by."""
    stage = evaluation.stage("instructions")
    evidence = stage.evidence
    if not isinstance(evidence, InstructionEvidence):
        return None, None
    if evidence.foreign_kernels:  # work done by kernels that are not the candidate's own does not count
        return False, False
    if not evidence.executed:
        return False, False
    share = evidence.work_fraction
    return True, None if math.isnan(share) else share >= WORK_FRACTION_LIMIT
