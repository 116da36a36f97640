"""From a verified pair and its reasoning to a conversation in the form in which the student will be asked."""

from __future__ import annotations

from typing import Any

from baselines.fixit.dataset import FORMAT, Sample
from baselines.fixit.records import Pair, Reasoning
from baselines.fixit.sources import fenced
from baselines.fixit.verify import record_hash
from baselines.mini_ptx_agent import Answer, UnusableAnswer, extract_kernel


def make_sample(reasoning: Reasoning, recipe: str = "") -> Sample:
    """The sample of an accepted reasoning.

    Fixit: system, problem, the failing kernel as the student's own answer, the feedback, then reasoning and kernel:
    what MiniPTXAgent's conversation looks like after a failed turn. KernelGen: system, problem, reasoning and kernel.
    """
    pair = reasoning.pair
    messages = [_message("system", pair.problem.system), _message("user", pair.problem.prompt)]
    if reasoning.method == "fixit" and pair.failure:
        messages += [_message("assistant", fenced(pair.failure.source)), _message("user", pair.failure.feedback)]
    return Sample(
        reasoning.id, (*messages, _message("assistant", answer_text(reasoning))), _metadata(reasoning, recipe)
    )


def answer_text(reasoning: Reasoning) -> str:
    """The answer that is trained: the reasoning as a thought, then the kernel.

    The white space is that of the templates that take a thought apart and put it together again.
    """
    return f"<think>\n{reasoning.text.strip()}\n</think>\n\n{fenced(reasoning.pair.kernel)}"


def can_be_submitted(pair: Pair) -> bool:
    """Whether the agent would take exactly this kernel out of the answer."""
    try:
        taken = extract_kernel(Answer(fenced(pair.kernel)))
    except UnusableAnswer:
        return False
    return taken.rstrip() == pair.kernel.rstrip()


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _metadata(reasoning: Reasoning, recipe: str) -> dict[str, Any]:
    pair = reasoning.pair
    failure, broken, evaluation = pair.failure, pair.broken, pair.verification.evaluation
    return {
        "format": FORMAT,
        "method": reasoning.method,
        "problem": pair.problem.env,
        "error_class": pair.error_class,
        "turn": failure.origin.turn if failure else pair.verification.turn,
        "round": pair.round,
        "run": failure.origin.run if failure else "",
        "model": failure.origin.model if failure else pair.teacher,
        "made_by": pair.made_by,
        "teacher": pair.teacher,
        "reasoning": reasoning.teacher,
        "contract": broken.contract if broken else "",
        "finding": broken.code if broken else "",
        "kept": pair.kept,
        "source_sha256": evaluation.source_sha256,
        "verification": record_hash(pair.verification),
        "device": evaluation.device.name,
        "recipe": recipe,
    }
