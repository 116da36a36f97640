"""The way from a failure to its fix, or from a task to its kernel, written in the first person.

By a reasoning teacher, whose text is asked for again while it is too long, leaks the answer or holds forbidden tokens;
or without any teacher from the simulator's finding and the contract that it names (``--reasoning finding``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from baselines.fixit.explain import explain
from baselines.fixit.files import now
from baselines.fixit.filters import Limits, objection
from baselines.fixit.pool import Progress, Step, work_through
from baselines.fixit.prompts import REASON_FIXIT, REASON_KERNELGEN, REASON_SYSTEM, REDO
from baselines.fixit.records import REASONS, Method, Pair, Reasoning, content_id, read_pairs
from baselines.fixit.sources import fenced
from baselines.fixit.teacher import Teacher, add_usage
from baselines.fixit.verify import objection as unverified
from baselines.mini_ptx_agent import Answer, ContextFull, Message
from ptxgym.errors import MisuseError
from ptxgym.runs.records import Usage

FINDING = "finding"
"""The name of the teacher that is none."""

_TAGGED = re.compile(r"<reasoning>(.*)</reasoning>", re.DOTALL)
_CHARACTERS_PER_WORD = 7


@dataclass(frozen=True)
class ReasonSettings:
    """How reasonings are written."""

    method: Method = "fixit"
    tries: int = 3
    """Answers per pair."""
    limits: Limits = field(default_factory=Limits)


def reason(
    work: Path,
    teacher: Teacher | None,
    settings: ReasonSettings,
    *,
    concurrency: int = 4,
    tell: Callable[[str], None] = lambda text: None,
) -> Progress:
    """Write a reasoning for every verified pair of a work folder that has none by this teacher.

    Args:
        work: The work folder.
        teacher: Who writes; None writes from the simulator's finding, without a model.
        settings: Method, tries and lengths.
        concurrency: Pairs at a time.
        tell: Told a line per pair.

    Raises:
        MisuseError: There are no pairs.
        InfrastructureError: The records cannot be written.
    """
    if settings.tries < 1:
        raise MisuseError(f"--tries {settings.tries} leaves no answer.")
    if teacher is None and settings.method != "fixit":
        raise MisuseError("--reasoning finding explains failures; KernelGen needs a reasoning teacher (--model).")
    name = teacher.name if teacher else FINDING
    fits = (pair for pair in read_pairs(work) if _fits(pair, settings.method))
    step = Step[Pair, Reasoning](
        path=work / REASONS,
        record=Reasoning,
        key_of_item=lambda pair: content_id(pair.id, settings.method, name),
        key_of_record=lambda record: record.id,
        work=lambda pair: _Writer(pair, teacher, settings).run(),
        outcome=lambda record: record.outcome,
    )
    return work_through(step, fits, concurrency=concurrency, tell=tell)


def _fits(pair: Pair, method: Method) -> bool:
    """Reasoning costs answers: what a data set would refuse is not explained."""
    return (pair.failure is not None or method == "kernelgen") and not unverified(pair)


class _Writer:
    def __init__(self, pair: Pair, teacher: Teacher | None, settings: ReasonSettings) -> None:
        self.pair, self.teacher, self.settings = pair, teacher, settings
        self.rejections: list[str] = []
        self.usage = Usage()

    def run(self) -> Reasoning:
        """A reasoning, accepted or not."""
        text = self._from_finding() if self.teacher is None else self._from_teacher(self.teacher)
        name = self.teacher.name if self.teacher else FINDING
        return Reasoning(
            id=content_id(self.pair.id, self.settings.method, name),
            method=self.settings.method,
            pair=self.pair,
            outcome="accepted" if text else "rejected",
            text=text,
            rejections=tuple(self.rejections),
            teacher=name,
            usage=self.usage,
            created=now(),
        )

    def _from_finding(self) -> str:
        return self._checked(explain(self.pair))

    def _from_teacher(self, teacher: Teacher) -> str:
        messages = self._question()
        for _ in range(self.settings.tries):
            try:
                answer = teacher.model.query(messages)
            except ContextFull:
                self.rejections.append("context full")
                return ""
            self.usage = add_usage(self.usage, answer.usage)
            if text := self._checked(self._taken(answer)):
                return text
            messages = [*self._question(), {"role": "assistant", "content": answer.text or "…"}, self._redo()]
        return ""

    def _taken(self, answer: Answer) -> str:
        """The text between the tags. Endpoints that keep a model's own thoughts apart keep them out of this."""
        tagged = _TAGGED.search(answer.text)
        if answer.finish == "length" and not tagged:
            return "x" * (self.settings.limits.longest + 1)  # cut off: too long, whatever stands there
        return tagged[1].strip() if tagged else ""

    def _checked(self, text: str) -> str:
        """The text, or nothing with the reason noted."""
        seen = self.pair.problem.prompt + (self.pair.failure.feedback if self.pair.failure else "")
        problem = objection(text, self.settings.limits, seen) if text else "no text between the tags"
        if self.teacher is None and not text:
            problem = "no finding to explain"
        if problem:
            self.rejections.append(problem)
        return "" if problem else text

    def _question(self) -> list[Message]:
        pair, failure = self.pair, self.pair.failure
        words = self.settings.limits.longest // _CHARACTERS_PER_WORD
        if self.settings.method == "fixit" and failure:
            asked = REASON_FIXIT.format(
                prompt=pair.problem.prompt.rstrip(),
                failing=fenced(failure.source),
                feedback=failure.feedback.rstrip(),
                kernel=fenced(pair.kernel),
                words=words,
            )
        else:
            asked = REASON_KERNELGEN.format(
                prompt=pair.problem.prompt.rstrip(), kernel=fenced(pair.kernel), words=words
            )
        return [{"role": "system", "content": REASON_SYSTEM}, {"role": "user", "content": asked}]

    def _redo(self) -> Message:
        reason = self.rejections[-1]
        words = self.settings.limits.longest // _CHARACTERS_PER_WORD // 2
        shorter = f", in at most {words} words" if reason == "too long" else ""
        return {"role": "user", "content": REDO.format(reason=reason, shorter=shorter)}
