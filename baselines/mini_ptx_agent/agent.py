"""The whole policy: ask the model, take the kernel out of its answer, submit it, show the feedback, repeat."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from baselines.mini_ptx_agent.conversation import Answer, Message, Model, Usage
from baselines.mini_ptx_agent.exceptions import Stop, UnusableAnswer
from baselines.mini_ptx_agent.extraction import extract_kernel

SYSTEM = """\
You write GPU kernels in CUDA C++ with inline PTX. Answer with one complete source file in one fenced block:

```cpp
// the whole of kernel.cu
```

You have no tools. After each answer the source is compiled, checked and timed, and you are told what was found. A
later answer replaces the earlier ones, so it repeats the whole file."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One submission and what came of it."""

    messages: list[Message]
    """What it added to the conversation; the first turn begins with the system message and the prompt."""
    source: str
    """Empty when the answer was unusable."""
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]
    """As ``env.step`` returned it."""
    usage: Usage = field(default_factory=Usage)
    model_seconds: float = 0.0
    evaluation_seconds: float = 0.0


class MiniPTXAgent:
    """A policy for one episode of one environment.

    Args:
        env: An environment whose actions are sources and whose observations have a ``feedback`` text.
        model: What answers.
        system: The system message.
        max_turns: Model calls per trajectory.
        save: Told of every turn before the next one starts.
        messages: A conversation to go on with, as :attr:`messages` was after a turn.
    """

    def __init__(
        self,
        env: gym.Env[Any, str],
        model: Model,
        *,
        system: str = SYSTEM,
        max_turns: int = 8,
        save: Callable[[Turn], None] = lambda turn: None,
        messages: Sequence[Message] = (),
    ) -> None:
        self.env, self.model, self.system, self.max_turns, self.save = env, model, system, max_turns, save
        self.messages = list(messages)
        self._saved = len(self.messages)

    def run(self, seed: int | None = None) -> Stop:
        """Play the episode to its end, and say why it ended.

        Raises:
            EndpointError: The model gave no answer; a new agent can go on from :attr:`messages`.
        """
        observation, _ = self.env.reset(seed=seed)
        if not self.messages:
            self.add("system", self.system)
            self.add("user", observation["feedback"])
        while True:
            try:
                self.step()
            except Stop as stop:
                return stop

    def step(self) -> None:
        """One turn: an answer, and what comes of it."""
        self.execute(self.query())

    def query(self) -> Answer:
        """Ask the model, with all that was said in view."""
        if self.turns >= self.max_turns:
            raise Stop("turn_budget")
        start = time.monotonic()
        answer = self.model.query(self.messages)
        self.messages.append(answer.message)
        self._model_seconds = time.monotonic() - start
        return answer

    def execute(self, answer: Answer) -> None:
        """Submit the answer's kernel; an answer without one spends the turn, and the model is told why."""
        source, complaint = "", list[Message]()
        try:
            source = extract_kernel(answer)
        except UnusableAnswer as unusable:
            complaint = unusable.messages
        start = time.monotonic()
        observation, reward, terminated, truncated, info = self.env.step(source)
        seconds = time.monotonic() - start
        self.messages += complaint or [{"role": "user", "content": observation["feedback"]}]
        added, self._saved = self.messages[self._saved :], len(self.messages)
        self.save(
            Turn(
                added,
                source,
                float(reward),
                terminated,
                truncated,
                info,
                answer.usage,
                self._model_seconds,
                seconds,
            )
        )
        if terminated or truncated:
            raise Stop(info.get("end") or ("target_speedup" if terminated else "turn_budget"))

    @property
    def turns(self) -> int:
        """Answers so far."""
        return sum(message["role"] == "assistant" for message in self.messages)

    def add(self, role: str, content: str) -> None:
        """Append a message."""
        self.messages.append({"role": role, "content": content})
