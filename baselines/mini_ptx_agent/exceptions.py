"""What interrupts the agent's loop.

::

    Interruption            carries the messages to append to the conversation
    ├── UnusableAnswer      the answer holds no kernel: the model is told, and the turn is spent
    └── Stop                the trajectory ends, and ``reason`` says why
        ├── ContextFull     ``context_full``
        └── PolicyDone      ``policy_done``

    EndpointError           no answer could be had; the trajectory can go on later
    SetupError              the policy cannot be built: no endpoint, no such folder, a wrong setting
"""

from __future__ import annotations

from baselines.mini_ptx_agent.conversation import Message


class Interruption(Exception):  # noqa: N818 these are not errors: they direct the loop
    """Something that is not an error and not an ordinary turn."""

    def __init__(self, *messages: Message) -> None:
        super().__init__(*(message["content"] for message in messages))
        self.messages = list(messages)


class UnusableAnswer(Interruption):
    """No kernel could be taken from an answer."""

    def __init__(self, complaint: str) -> None:
        super().__init__({"role": "user", "content": complaint})


class Stop(Interruption):
    """The end of a trajectory."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__()
        self.args = (detail or reason,)
        self.reason = reason
        self.detail = detail


class ContextFull(Stop):
    """The conversation leaves no room for another answer."""

    def __init__(self, detail: str) -> None:
        super().__init__("context_full", detail)


class PolicyDone(Stop):
    """The policy has nothing more to submit."""

    def __init__(self, detail: str) -> None:
        super().__init__("policy_done", detail)


class EndpointError(Exception):
    """The endpoint gave no answer.

    Args:
        kind: The cause's type, e.g. ``RateLimitError``.
        message: A sentence that says what to do.
        ends_run: Whether every other trajectory would meet the same, as with a wrong key.
    """

    def __init__(self, kind: str, message: str, ends_run: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.ends_run = ends_run


class SetupError(ValueError):
    """The policy cannot be built; the message says what to do."""
