"""MiniPTXAgent with help in the conversation: the expert's rules, or repairs of failures like the one at hand.

The help is part of what the environment says, so that any policy over the environment can have it: :class:`InContext`
is an ordinary wrapper.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, SupportsFloat, get_args

import gymnasium as gym

import knowledge
from baselines.fixit.sources import fenced
from baselines.mini_ptx_agent import Message, MiniPTXAgent, ModelPolicy, SetupError, Turn, endpoint_policy
from baselines.retrieval.index import Hit, Index
from baselines.retrieval.repairs import Repair, read_repairs

Shown = Literal["guidance", "notes", "notes+kernel"]
"""What is put into the conversation."""

NEAREST, MOST_NOTES = 3, 8
"""Repairs that are looked at, and notes that are shown of them, as in the paper."""

_NAMES: dict[Shown, str] = {
    "guidance": "in context: expert guidance",
    "notes": "in context: repair notes",
    "notes+kernel": "in context: repair notes and fixed kernel",
}


def describe(hits: Sequence[Hit], with_kernel: bool) -> str:
    """Repairs as a policy reads them; empty without any. No file's name and no row's id stands in it."""
    if not hits:
        return ""
    notes = [note for hit in hits for note in hit.repair.notes][:MOST_NOTES]
    text = "Failures like this one were repaired before. What was found then:\n"
    text += "".join(f"{number}. {note}\n" for number, note in enumerate(notes, start=1))
    if with_kernel:
        text += "\nThe repaired kernel of the most similar failure, which may be of another task:\n\n"
        text += fenced(hits[0].repair.fixed) + "\n"
    return text


@dataclass(frozen=True)
class Retriever:
    """Finds help for a failing kernel."""

    index: Index
    other_problems: bool = False
    """Whether repairs of the very problem are kept back."""

    def hits(self, problem: str, source: str) -> list[Hit]:
        """The repairs that are shown for a source that failed at a problem."""

        def allowed(repair: Repair) -> bool:
            return not self.other_problems or repair.problem != problem

        return self.index.nearest(source, NEAREST, allowed)


class InContext(gym.Wrapper[Any, str, Any, str]):
    """An environment that says more: guidance behind its prompt, or repairs behind the feedback on a failure.

    Args:
        env: A :class:`ptxgym.envs.KernelEnv`, wrapped or not.
        shown: What is added.
        retriever: Where repairs come from; guidance needs none.

    Raises:
        SetupError: There is no guidance for the environment's task.
    """

    def __init__(self, env: gym.Env[Any, str], shown: Shown, retriever: Retriever | None = None) -> None:
        super().__init__(env)
        self.shown, self.retriever = shown, retriever
        self._guidance = guidance(env.unwrapped.task) if shown == "guidance" else ""  # type: ignore[attr-defined]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, and put the guidance behind the prompt."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._more(observation, self._guidance), info

    def step(self, action: str) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and put repairs of similar failures behind the feedback when the submission failed."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.retriever and not info["is_success"] and info["valid"]:
            task: Any = self.env.unwrapped.task  # type: ignore[attr-defined]
            text = describe(self.retriever.hits(task.id, action), with_kernel=self.shown == "notes+kernel")
            observation = self._more(observation, text)
        return observation, reward, terminated, truncated, info

    @staticmethod
    def _more(observation: Any, text: str) -> Any:
        return {**observation, "feedback": f"{observation['feedback']}\n{text}"} if text else observation


def guidance(task: Any) -> str:
    """The expert's rules for a task.

    Raises:
        SetupError: There are none for its operator.
    """
    if "expert" not in knowledge.variants(task):
        raise SetupError(f"There is no expert guidance for {task.id}; attention has one.")
    return "\n".join(part.text for part in knowledge.knowledge_parts(task, "none", "expert"))


@dataclass(frozen=True, slots=True)
class InContextPolicy:
    """Another policy, in environments that say more."""

    base: ModelPolicy
    wrap: Callable[[gym.Env[Any, str]], gym.Env[Any, str]]
    added: Mapping[str, Any]
    """What the run's record says of the help."""

    @property
    def model(self) -> str:
        """The language model's name."""
        return self.base.model

    @property
    def settings(self) -> Mapping[str, Any]:
        """Those of the policy itself, and what is shown."""
        return {**self.base.settings, **self.added}

    def start(
        self,
        env: gym.Env[Any, str],
        *,
        seed: int,
        max_turns: int,
        messages: Sequence[Message],
        save: Callable[[Turn], None],
    ) -> MiniPTXAgent:
        """The agent of one trajectory."""
        return self.base.start(self.wrap(env), seed=seed, max_turns=max_turns, messages=messages, save=save)


def with_help(
    base: ModelPolicy, shown: str, repairs: Path | None = None, other_problems: bool = False
) -> InContextPolicy:
    """A policy with help in its conversations.

    Args:
        base: The policy.
        shown: ``guidance``, ``notes`` or ``notes+kernel``.
        repairs: The Parquet that notes and kernels come from.
        other_problems: Keep back repairs of the problem that is played.

    Raises:
        SetupError: ``shown`` is none of these, or has no repairs to show.
    """
    for kind in get_args(Shown):
        if kind == shown:
            break
    else:
        raise SetupError(f"shown={shown!r} is none of {', '.join(get_args(Shown))}.")
    added: dict[str, Any] = {"adaptation": _NAMES[kind], "shown": kind}
    if kind == "guidance":
        text = (Path(knowledge.__file__).parent / "operators" / "attention.expert.md").read_bytes()
        added["guidance_sha256"] = hashlib.sha256(text).hexdigest()
        return InContextPolicy(base, lambda env: InContext(env, "guidance"), added)
    if repairs is None:
        raise SetupError(f"shown={shown} needs repairs: a Parquet of `ptxgym fixit build`.")
    found = read_repairs(repairs)
    retriever = Retriever(Index(found.repairs), other_problems)
    added |= {
        "repairs": str(repairs.resolve()),
        "repairs_sha256": found.sha256,
        "other_problems": other_problems,
    }
    return InContextPolicy(base, lambda env: InContext(env, kind, retriever), added)


def in_context_policy(
    *,
    shown: str,
    model: str,
    repairs: str = "",
    other_problems: str = "no",
    base_url: str | None = None,
    api: str | None = None,
    models: Path | None = None,
) -> InContextPolicy:
    """MiniPTXAgent with help, behind an OpenAI-compatible endpoint; for ``ptxgym run --policy in-context``.

    Args:
        shown: ``guidance``, ``notes`` or ``notes+kernel``.
        model: As of :func:`baselines.mini_ptx_agent.endpoint_policy`, like the last three.
        repairs: A Parquet of ``ptxgym fixit build``.
        other_problems: ``yes`` keeps back repairs of the problem that is played.
        base_url: The endpoint.
        api: The dialect.
        models: A file of settings.

    Raises:
        SetupError: A setting cannot be.
    """
    if other_problems not in ("yes", "no"):
        raise SetupError(f"other_problems={other_problems!r} should be yes or no.")
    base = endpoint_policy(model=model, base_url=base_url, api=api, models=models)
    return with_help(base, shown, Path(repairs) if repairs else None, other_problems == "yes")
