"""The exceptions of ptxgym.

::

    PtxgymError
    ├── MisuseError             the caller asked for something that does not exist (wrong id, closed env)
    │   └── UnknownTaskError    no task of that name; the message offers the nearest
    ├── InfrastructureError     this machine could not do its part; never a verdict on a candidate
    │   └── MissingToolError    a program or library is not installed; the message says how to get it
    └── CandidateError          the candidate did it: it crashed, hung, or returned an error
        ├── OutOfMemoryError    it asked for more than the device had
        └── CrowdedError        it ran out of time or memory beside others; alone it may not

``step`` lets only :class:`MisuseError` out. The other two are decided where they happen, at the boundary
to the compiler or to the candidate's process, and become stage results.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PtxgymError(Exception):
    """Base of every exception that ptxgym raises on purpose."""


class MisuseError(PtxgymError, ValueError):
    """The caller asked for something that cannot be; the message says what to do instead."""


class UnknownTaskError(MisuseError):
    """No task has this id."""

    def __init__(self, task_id: str, known: Iterable[str]) -> None:
        known = list(known)
        nearest = difflib.get_close_matches(task_id, known, n=1, cutoff=0.3)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        super().__init__(f"There is no task {task_id!r}.{hint} `ptxgym list` shows all {len(known)}.")


class InfrastructureError(PtxgymError):
    """This machine could not do its part. The candidate is not to blame, and its result is unknown."""


class MissingToolError(InfrastructureError):
    """A program or library is missing; the message says how to get it."""

    def __init__(self, tool: str, remedy: str) -> None:
        super().__init__(f"{tool} was not found. {remedy}")
        self.tool = tool
        self.remedy = remedy


class CandidateError(PtxgymError):
    """The candidate's own doing.

    Args:
        reason: A stable code: ``refused`` (``run`` returned an error), ``device_error``, ``crash``, ``exit``,
            ``timeout``, ``load_error`` or ``protocol``.
        message: A sentence for the kernel's writer.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class OutOfMemoryError(CandidateError):
    """``run`` returned ``cudaErrorMemoryAllocation``: a refusal, unless others had the memory."""


class CrowdedError(CandidateError):
    """A lack of time or memory while others used the device too. Who catches it tries again alone on the device."""
