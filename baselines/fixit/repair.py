"""A teacher repairs failures; the environment says whether it did.

What a teacher claims is never read. An answer counts when the environment passes it with the target instructions
executed, within the turns that a failure is given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

import ptxgym  # noqa: F401 registers the environments
from baselines.fixit.files import now
from baselines.fixit.pool import Progress, Step, Unjudged, work_through
from baselines.fixit.prompts import REPAIR, REPAIR_SYSTEM, REPEATED, TOO_SLOW, UNCHANGED
from baselines.fixit.records import REPAIRS, Failure, Pair, Repair, content_id, read_failures
from baselines.fixit.sources import fenced, kept_share, normalise
from baselines.fixit.teacher import Teacher, add_usage
from baselines.fixit.verify import fault_of_the_machine, is_fast, is_verified
from baselines.mini_ptx_agent import Answer, ContextFull, Message, UnusableAnswer, extract_kernel
from ptxgym.errors import MisuseError
from ptxgym.evaluation import Evaluation
from ptxgym.runs.records import Usage
from ptxgym.trajectories import EvaluationRecord


@dataclass(frozen=True)
class RepairSettings:
    """How failures are repaired."""

    turns: int = 5
    """Answers per failure."""
    min_speedup: float = 0.0
    """A repair that was timed must reach it."""
    env_settings: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environments: device, shapes, instruction rule."""


def repair(
    work: Path,
    teacher: Teacher,
    settings: RepairSettings,
    *,
    concurrency: int = 4,
    tell: Callable[[str], None] = lambda text: None,
) -> Progress:
    """Repair every failure of a work folder that has no repair record yet.

    Raises:
        MisuseError: Nothing was mined there, or the environments cannot be made.
        InfrastructureError: The records cannot be written.
    """
    if settings.turns < 1:
        raise MisuseError(f"--turns {settings.turns} leaves no turn.")
    step = Step[Failure, Repair](
        path=work / REPAIRS,
        record=Repair,
        key_of_item=lambda failure: failure.id,
        key_of_record=lambda record: record.failure,
        work=lambda failure: _Attempt(failure, teacher, settings).run(),
        outcome=lambda record: record.outcome,
    )
    return work_through(step, _for_the_environments(read_failures(work)), concurrency=concurrency, tell=tell)


def _for_the_environments(failures: Iterator[Failure]) -> Iterator[Failure]:
    for failure in failures:
        if failure.problem.env not in gym.registry:
            raise MisuseError(f"{failure.problem.env} is no instance here; failure {failure.id} cannot be repaired.")
        yield failure


class _Attempt:
    """One failure and its teacher."""

    def __init__(self, failure: Failure, teacher: Teacher, settings: RepairSettings) -> None:
        self.failure, self.teacher, self.settings = failure, teacher, settings
        self.words: list[str] = []
        self.usage = Usage()
        self._seen = {_code_hash(failure.source)}
        self._failing = normalise(failure.source)
        asked = REPAIR.format(
            prompt=failure.problem.prompt.rstrip(), kernel=fenced(failure.source), feedback=failure.feedback.rstrip()
        )
        self.messages: list[Message] = [
            {"role": "system", "content": REPAIR_SYSTEM},
            {"role": "user", "content": asked},
        ]

    def run(self) -> Repair:
        """Ask until the environment passes an answer, or the turns are spent."""
        settings = {"target_speedup": float("inf"), **self.settings.env_settings, "max_turns": self.settings.turns}
        with closing(gym.make(self.failure.problem.env, disable_env_checker=True, **settings)) as env:
            env.reset()
            while len(self.words) < self.settings.turns:
                try:
                    answer = self.teacher.model.query(self.messages)
                except ContextFull:
                    return self._record("context_full", None)
                self.usage = add_usage(self.usage, answer.usage)
                if pair := self._judge(env, answer):
                    return self._record("repaired", pair)
        return self._record("turn_budget", None)

    def _judge(self, env: gym.Env[Any, str], answer: Answer) -> Pair | None:
        """The pair, when the environment passes the answer; otherwise the teacher is told why not."""
        try:
            source = extract_kernel(answer)
        except UnusableAnswer as unusable:
            self._refuse(answer, "unusable", str(unusable.messages[0]["content"]))
            return None
        word, told = self._known(source)
        if not word:
            word, told = self._evaluate(env, source)
        if word != "passed":
            self._refuse(answer, word, told)
            return None
        self.words.append(word)
        return self._pair(env.unwrapped.history[-1], answer)  # type: ignore[attr-defined]

    def _known(self, source: str) -> tuple[str, str]:
        """A word and a sentence for a kernel that need not be judged again; empty for a new one."""
        if normalise(source) == self._failing:
            return "unchanged", UNCHANGED.format(feedback=self.failure.feedback)
        if (name := _code_hash(source)) in self._seen:
            return "repeated", REPEATED
        self._seen.add(name)
        return "", ""

    def _evaluate(self, env: gym.Env[Any, str], source: str) -> tuple[str, str]:
        """The environment's verdict in a word, and its feedback.

        Raises:
            Unjudged: This machine could not tell.
        """
        observation, _, _, _, info = env.step(source)
        evaluation: Evaluation = info["evaluation"]
        if fault := fault_of_the_machine(evaluation):
            raise Unjudged(fault)
        feedback = str(observation["feedback"])
        if not is_verified(evaluation):  # a stage that was left out is no pass
            return evaluation.status if evaluation.status != "passed" else "incomplete", feedback
        wanted = self.settings.min_speedup
        if not is_fast(evaluation, wanted):
            return "slow", TOO_SLOW.format(speedup=evaluation.speedup, wanted=wanted, feedback=feedback)
        return "passed", feedback

    def _refuse(self, answer: Answer, word: str, told: str) -> None:
        self.words.append(word)
        self.messages += [answer.message, {"role": "user", "content": told}]

    def _pair(self, record: EvaluationRecord, answer: Answer) -> Pair:
        failure, kernel = self.failure, record.source
        return Pair(
            id=content_id(failure.id, normalise(kernel)),
            problem=failure.problem,
            failure=failure,
            kernel=kernel,
            verification=record,
            made_by="teacher",
            teacher=self.teacher.name,
            notes=_around(answer.text, kernel),
            kept=kept_share(failure.source, kernel),
            round=failure.round,
        )

    def _record(self, outcome: Literal["repaired", "turn_budget", "context_full"], pair: Pair | None) -> Repair:
        return Repair(
            failure=self.failure.id,
            outcome=outcome,
            pair=pair,
            attempts=tuple(self.words),
            usage=self.usage,
            teacher=self.teacher.name,
            created=now(),
        )


def _code_hash(source: str) -> str:
    return hashlib.sha256(normalise(source).encode("utf-8", "surrogatepass")).hexdigest()


def _around(text: str, kernel: str) -> str:
    """The answer without its code."""
    rest = text.replace("\r\n", "\n").replace(kernel, "")
    return "\n".join(line for line in rest.splitlines() if not line.lstrip().startswith(("```", "~~~"))).strip()
