"""A model behind an OpenAI-compatible endpoint: what is tried again, how long to wait, what a failure means."""

from __future__ import annotations

import dataclasses
import email.utils
import logging
import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import openai
import tenacity

from baselines.mini_ptx_agent.conversation import Answer, Message
from baselines.mini_ptx_agent.dialects import DIALECTS, BrokenOffError, ForeignReplyError, estimate_tokens
from baselines.mini_ptx_agent.exceptions import ContextFull, EndpointError, SetupError
from baselines.mini_ptx_agent.settings import ModelSettings

log = logging.getLogger(__name__)

_LONGEST_WAIT = 60.0
_FIRST_CONTACT_ATTEMPTS = 3
"""Nobody ever answered there: more likely a wrong address than a bad day."""

_TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_TRANSIENT_CODES = frozenset({"", "server_error", "rate_limit_exceeded", "overloaded", "overloaded_error", "timeout"})
"""What endpoints report inside an answer that had begun with status 200, when asking again may help."""

_TOO_LONG = ("context length", "context_length", "context window", "prompt is too long")

_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes of a 429 that no waiting mends."""


class EndpointModel:
    """A model behind an endpoint. Threads share it: one that is told to wait makes all wait.

    Args:
        settings: How the model is asked.
        base_url: The endpoint, e.g. ``http://localhost:8000/v1``; ``OPENAI_BASE_URL`` by default, else OpenAI.
        api_key: ``OPENAI_API_KEY`` by default. A local endpoint needs none.

    Raises:
        SetupError: Neither an endpoint nor a key is given.
    """

    def __init__(self, settings: ModelSettings, base_url: str | None = None, api_key: str | None = None) -> None:
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        api_key = api_key or os.environ.get("OPENAI_API_KEY") or None
        if not base_url and not api_key:
            raise SetupError(
                "There is no endpoint. Set OPENAI_BASE_URL (or --base-url) to an OpenAI-compatible one, such as "
                "http://localhost:8000/v1, or OPENAI_API_KEY for OpenAI's. The policies replay, oracle and mutate need "
                "none."
            )
        if base_url and urlsplit(base_url).scheme not in ("http", "https"):
            raise SetupError(f"The endpoint {base_url!r} is no URL; it should begin with http:// or https://.")
        self.settings = settings
        self.client = openai.OpenAI(
            base_url=base_url,
            api_key=api_key or "none",
            max_retries=0,  # tenacity decides, and only there
            timeout=openai.Timeout(settings.silence if settings.stream else settings.call_seconds, connect=20.0),
        )
        self.endpoint = _without_credentials(str(self.client.base_url))
        self._gate = _Gate(settings.requests_per_minute)
        self._reached = False

    def query(self, messages: Sequence[Message], seed: int | None = None) -> Answer:
        """The answer to a conversation; see :class:`baselines.mini_ptx_agent.Model`."""
        max_tokens = self._room(messages)
        settings = self.settings
        if seed is not None:
            settings = dataclasses.replace(settings, request={**settings.request, "seed": seed})
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(can_retry),
            stop=self._gives_up,
            wait=self._wait,
            before_sleep=self._before_sleep,
            reraise=True,
        )
        try:
            return retrying(self._ask, settings, messages, max_tokens)
        except (openai.OpenAIError, BrokenOffError, ForeignReplyError) as error:
            if _is_context_full(error):
                raise ContextFull(f"The endpoint says: {_said(error)}") from None
            raise self._explained(error) from error

    def _ask(self, settings: ModelSettings, messages: Sequence[Message], max_tokens: int) -> Answer:
        self._gate.wait()
        try:
            answer = DIALECTS[settings.api](self.client, settings, messages, max_tokens)
        except openai.APIStatusError:
            self._reached = True
            raise
        self._reached = True
        return answer

    def _room(self, messages: Sequence[Message]) -> int:
        """Tokens for the answer.

        Raises:
            ContextFull: There are too few.
        """
        settings = self.settings
        if not settings.context:
            return settings.max_tokens
        used = estimate_tokens(messages, settings)
        left = settings.context - used
        if left < min(settings.smallest_answer, settings.max_tokens):
            raise ContextFull(f"About {used:,} of {settings.context:,} tokens are used.")
        return min(settings.max_tokens, left)

    def _gives_up(self, state: tenacity.RetryCallState) -> bool:
        attempts = self.settings.attempts if self._reached else min(_FIRST_CONTACT_ATTEMPTS, self.settings.attempts)
        over = (state.seconds_since_start or 0.0) + state.upcoming_sleep > self.settings.patience
        return over or state.attempt_number >= attempts

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        told = retry_after(error.response.headers) if isinstance(error, openai.APIStatusError) else None
        if told is not None:
            return told
        first = self.settings.first_wait
        wait = tenacity.wait_exponential(multiplier=first, max=_LONGEST_WAIT) + tenacity.wait_random(0, first / 4)
        return float(wait(state))

    def _before_sleep(self, state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        wait = state.next_action.sleep if state.next_action else 0.0
        if isinstance(error, openai.RateLimitError):
            self._gate.hold(wait)
        log.warning("%s; attempt %d in %.1f s", _said(error), state.attempt_number + 1, wait)

    def _explained(self, error: Exception) -> EndpointError:
        """The error as a sentence that says what to do."""
        said, where, name = _said(error), self.endpoint, self.settings.name
        advice = {
            openai.AuthenticationError: f"{where} refuses the key. Set OPENAI_API_KEY to one of that endpoint",
            openai.PermissionDeniedError: f"{where} does not allow this key to use {name!r}",
            openai.NotFoundError: f"{where} knows no model {name!r}, or its address is wrong (most end in /v1)",
            openai.BadRequestError: f"{where} refuses the request. Check the settings of {name!r} in models.toml",
            openai.APITimeoutError: f"{where} did not answer in time",
            openai.APIConnectionError: f"{where} cannot be reached. Is it running, and is the address right",
            openai.RateLimitError: f"{where} allows no more requests now. Lower --concurrency, or go on later",
            openai.InternalServerError: f"{where} fails",
            BrokenOffError: f"{where} {'broke its answer off every time' if can_retry(error) else 'gives no answer'}",
            ForeignReplyError: f"{where} did not answer as an OpenAI-compatible endpoint (most addresses end in /v1)",
        }
        sentence = next((text for kind, text in advice.items() if isinstance(error, kind)), f"{where} failed")
        everywhere = not self._reached or isinstance(
            error,
            openai.AuthenticationError | openai.PermissionDeniedError | openai.NotFoundError | ForeignReplyError,
        )
        return EndpointError(type(error).__name__, f"{sentence}. It says: {said}", ends_run=everywhere or _spent(error))


@dataclasses.dataclass(frozen=True, slots=True)
class SeededModel:
    """A model asked with one trajectory's seed."""

    model: EndpointModel
    seed: int

    def query(self, messages: Sequence[Message]) -> Answer:
        """See :meth:`EndpointModel.query`."""
        return self.model.query(messages, self.seed)


def can_retry(error: BaseException) -> bool:
    """Whether asking again may help: too many requests, a server's fault, a broken or silent connection."""
    if isinstance(error, openai.APIConnectionError):
        return True
    if isinstance(error, BrokenOffError):
        return _is_transient(error.code)
    if isinstance(error, openai.APIStatusError):
        return error.status_code in _TRANSIENT_STATUS and not _spent(error)
    return type(error) is openai.APIError and _is_transient(error.code or "")  # reported inside a stream


def _is_transient(code: str) -> bool:
    return int(code) in _TRANSIENT_STATUS if code.isdecimal() else code in _TRANSIENT_CODES


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a reply asks to wait.

    ``Retry-After-Ms``, or ``Retry-After`` as a number or a date (RFC 9110 §10.2.3).
    """
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * scale
        except (KeyError, ValueError):
            continue
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    try:
        return max(0.0, email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    except (KeyError, ValueError):
        return None


class _Gate:
    """Lets requests through at a rate, and none while the endpoint wants a pause."""

    def __init__(self, requests_per_minute: float) -> None:
        self._interval = 60.0 / requests_per_minute
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait for one's turn."""
        with self._lock:
            start = max(time.monotonic(), self._next)
            self._next = start + self._interval
        time.sleep(max(0.0, start - time.monotonic()))

    def hold(self, seconds: float) -> None:
        """Let nobody through for a while."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)


def _is_context_full(error: Exception) -> bool:
    """Many servers give no code for it, so that the words must do; a wrong guess only ends one trajectory."""
    if not isinstance(error, openai.APIError | BrokenOffError):
        return False
    if error.code == "context_length_exceeded":
        return True
    said = _said(error).lower()
    return getattr(error, "status_code", 400) in (400, 413, 422) and any(words in said for words in _TOO_LONG)


def _spent(error: Exception) -> bool:
    return isinstance(error, openai.APIError) and (error.code in _SPENT or error.type in _SPENT)


def _said(error: BaseException | None) -> str:
    """The endpoint's own words, in one line."""
    body: Any = getattr(error, "body", None)
    words = body.get("message") if isinstance(body, dict) else None
    cause = error.__cause__ if isinstance(error, openai.APIConnectionError) and error.__cause__ else None
    text = words if isinstance(words, str) else f"{error} {cause or ''}"
    return f"{type(error).__name__}: {' '.join(text.split())[:300]}"


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")
