"""A model that reads its answers from a script: the loop can be run whole, with no endpoint and no key."""

from __future__ import annotations

from collections.abc import Sequence

from baselines.mini_ptx_agent.conversation import Answer, Message, Usage
from baselines.mini_ptx_agent.exceptions import PolicyDone


def turns_taken(messages: Sequence[Message]) -> int:
    """How many answers a conversation already has. Scripts look at nothing else, so that a resumed one goes on."""
    return sum(message["role"] == "assistant" for message in messages)


class ScriptedModel:
    """Answers with the n-th text of a list at turn n.

    Args:
        answers: The texts, or whole answers. After the last one the policy is done.
        done: A sentence on why there are no more; how many there were by default.
    """

    def __init__(self, answers: Sequence[str | Answer], done: str = "") -> None:
        self._done = done or f"The script has {len(answers)} answers."
        self._answers = [a if isinstance(a, Answer) else Answer(a, usage=Usage(cost=0.0)) for a in answers]

    def query(self, messages: Sequence[Message]) -> Answer:
        """The next answer."""
        turn = turns_taken(messages)
        if turn >= len(self._answers):
            raise PolicyDone(self._done)
        return self._answers[turn]
