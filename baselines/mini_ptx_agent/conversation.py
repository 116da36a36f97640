"""What is said between a policy and a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

Message = dict[str, str]
"""``role`` and ``content``, and of an assistant ``reasoning`` where the endpoint shows it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one answer consumed."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Reasoning included."""
    reasoning_tokens: int = 0
    cost: float = math.nan
    """US dollars; NaN when nobody says."""
    counted: bool = True
    """False for estimates from lengths."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's whole answer to a conversation."""

    text: str
    reasoning: str = ""
    finish: str = "stop"
    """``stop``, ``length`` (cut off), ``content_filter``, ``refusal`` or ``tool_calls``."""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    source: str | None = None
    """Of a script: what is submitted as it is, kernel or not; otherwise the kernel is looked for in the text."""

    @property
    def message(self) -> Message:
        """The answer as a part of the conversation."""
        message = {"role": "assistant", "content": self.text}
        return message | {"reasoning": self.reasoning} if self.reasoning else message


class Model(Protocol):
    """Something that answers a conversation. Safe to share between threads."""

    def query(self, messages: Sequence[Message]) -> Answer:
        """The answer to a conversation.

        Raises:
            ContextFull: The conversation leaves no room for an answer.
            PolicyDone: A script has no further answer.
            EndpointError: The endpoint gave none, however often it was asked.
        """
