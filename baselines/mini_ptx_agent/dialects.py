"""Two ways to ask an OpenAI-compatible endpoint, each streamed or whole: chat completions and responses.

A dialect makes the request and reads the reply into an :class:`Answer`. It trusts no field of a reply: endpoints leave
fields out, add their own, and send the wrong types.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from baselines.mini_ptx_agent.conversation import Answer, Message, Usage
from baselines.mini_ptx_agent.settings import ModelSettings

_THOUGHT = re.compile(r"\A(?:\s*<think>)?(?P<thought>.*?)</think>", re.DOTALL)
_OPEN_THOUGHT = re.compile(r"\A\s*<think>(?P<thought>.*)\Z", re.DOTALL)


class BrokenOffError(Exception):
    """A reply ended before it was whole, or went on for too long, or the endpoint gave up on it half-way.

    Args:
        message: What happened.
        code: The endpoint's own word for it, if it gave one.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class ForeignReplyError(Exception):
    """What answered does not speak this dialect. Asking again does not help."""


def ask_chat(client: Any, settings: ModelSettings, messages: Sequence[Message], max_tokens: int) -> Answer:
    """One chat completion."""
    body = {settings.max_tokens_field: max_tokens, **settings.request}
    asked: dict[str, Any] = {"model": settings.name, "messages": _without_reasoning(messages), "extra_body": body}
    parts = _Parts(settings)
    if not settings.stream:
        reply = _read_whole(client.chat.completions.create, asked)
        choice = _first(_get(reply, "choices"))
        if choice is None:
            raise ForeignReplyError(_shown(reply))
        parts.add_chat(_get(choice, "message"), _get(choice, "finish_reason"))
        parts.usage = _get(reply, "usage")
        return parts.answer(messages)
    asked |= {"stream": True, "stream_options": {"include_usage": True}}
    for chunk in _read_stream(client.chat.completions.create(**asked), settings):
        parts.usage = _get(chunk, "usage") or parts.usage
        if (choice := _first(_get(chunk, "choices"))) is not None:
            parts.add_chat(_get(choice, "delta"), _get(choice, "finish_reason"))
    if not parts.finish:  # the connection was closed in good order, but the answer has no end
        raise BrokenOffError("the stream ended without a finish_reason")
    return parts.answer(messages)


def ask_responses(client: Any, settings: ModelSettings, messages: Sequence[Message], max_tokens: int) -> Answer:
    """One response."""
    body = {"max_output_tokens": max_tokens, "store": False, **settings.request}
    asked: dict[str, Any] = {"model": settings.name, "input": _without_reasoning(messages), "extra_body": body}
    parts = _Parts(settings)
    if not settings.stream:
        reply = _read_whole(client.responses.create, asked)
    else:
        reply = None
        for event in _read_stream(client.responses.create(**asked, stream=True), settings):
            kind = _text(_get(event, "type"))
            if kind in ("response.completed", "response.incomplete", "response.failed"):
                reply = _get(event, "response")
            elif kind == "error":
                raise _failure(event, "the stream reported an error")
        if reply is None:
            raise BrokenOffError("the stream ended without response.completed")
    parts.add_response(reply)
    return parts.answer(messages)


DIALECTS = {"chat": ask_chat, "responses": ask_responses}


class _Parts:
    """An answer as it comes in."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self.usage: Any = None
        self.finish = ""
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._start = time.monotonic()

    def add_chat(self, message: Any, finish: Any) -> None:
        """A message, or a piece of one. Three names for reasoning are in use."""
        self._text.append(_text(_get(message, "content")))
        reasoning = _text(_get(message, "reasoning_content")) or _text(_get(message, "reasoning"))
        self._reasoning.append(reasoning or _details(_get(message, "reasoning_details")))
        if _text(_get(message, "refusal")):
            self.finish = "refusal"
        self.finish = self.finish or _text(finish)

    def add_response(self, reply: Any) -> None:
        """A whole response."""
        status = _text(_get(reply, "status"))
        if status == "failed":
            raise _failure(_get(reply, "error"), "the response failed")
        if not isinstance(output := _get(reply, "output"), list):
            raise ForeignReplyError(_shown(reply))
        for item in output:
            pieces = [p for name in ("content", "summary") for p in _list(_get(item, name))]
            if _get(item, "type") == "reasoning":
                self._reasoning += [_text(_get(piece, "text")) for piece in pieces]
            elif _get(item, "type") == "message":
                self._text += [_text(_get(piece, "text")) for piece in pieces]
                self.finish = "refusal" if any(_text(_get(p, "refusal")) for p in pieces) else self.finish
            elif _text(_get(item, "type")).endswith("_call"):
                self.finish = self.finish or "tool_calls"
        if status == "incomplete":
            reason = _text(_get(_get(reply, "incomplete_details"), "reason"))
            self.finish = "length" if reason == "max_output_tokens" else reason or "length"
        self.finish = self.finish or "stop"
        self.usage = _get(reply, "usage")

    def answer(self, messages: Sequence[Message]) -> Answer:
        """The whole."""
        text, reasoning = _split_thought(_clean("".join(self._text)), _clean("".join(self._reasoning)))
        usage = _count(self.usage, self.settings, messages, text, reasoning)
        return Answer(text, reasoning, self.finish or "stop", usage, time.monotonic() - self._start)


def _failure(error: Any, otherwise: str) -> BrokenOffError:
    return BrokenOffError(_text(_get(error, "message")) or otherwise, _text(_get(error, "code")))


def _read_whole(create: Callable[..., Any], asked: dict[str, Any]) -> Any:
    try:
        return create(**asked)
    except json.JSONDecodeError as error:
        raise BrokenOffError(f"the reply is half a JSON document: {error}") from None


def _read_stream(stream: Any, settings: ModelSettings) -> Iterator[Any]:
    deadline = time.monotonic() + settings.call_seconds
    with closing(stream):
        kind = stream.response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream"):
            raise ForeignReplyError(f"a reply of type {kind or 'nothing'} where a stream was asked for (stream = true)")
        iterator: Iterable[Any] = stream
        try:
            for chunk in iterator:
                if time.monotonic() > deadline:
                    raise BrokenOffError(f"the answer took over {settings.call_seconds:g} s")
                yield chunk
        except ValueError as error:  # half a JSON line: the connection was cut inside it
            raise BrokenOffError(f"the stream is malformed: {error}") from None


def _split_thought(text: str, reasoning: str) -> tuple[str, str]:
    """Take ``<think>…</think>`` off an answer; where a template opens the tag in the prompt, only its end shows."""
    found = _THOUGHT.match(text) or _OPEN_THOUGHT.match(text)
    if not found:
        return text, reasoning
    return text[found.end() :].lstrip(), (reasoning + found["thought"]).strip()


def _count(usage: Any, settings: ModelSettings, messages: Sequence[Message], text: str, reasoning: str) -> Usage:
    """The endpoint's counts, in either dialect's words, or estimates from lengths."""
    prompt = _number(_get(usage, "prompt_tokens"), _get(usage, "input_tokens"))
    completion = _number(_get(usage, "completion_tokens"), _get(usage, "output_tokens"))
    details = _get(usage, "completion_tokens_details") or _get(usage, "output_tokens_details")
    thought = _number(_get(details, "reasoning_tokens"))
    counted = prompt is not None and completion is not None
    if prompt is None or completion is None:
        prompt = estimate_tokens(messages, settings)
        completion = math.ceil((len(text) + len(reasoning)) / settings.characters_per_token)
    if thought is None:
        thought = math.ceil(len(reasoning) / settings.characters_per_token)
    cost = _get(usage, "cost")
    if not isinstance(cost, int | float) or isinstance(cost, bool):
        cost = (prompt * settings.prompt_price + completion * settings.completion_price) / 1e6
    return Usage(prompt, completion, min(thought, completion), float(cost), counted)


def estimate_tokens(messages: Sequence[Message], settings: ModelSettings) -> int:
    """About how many tokens a conversation has: from its characters alone, so that a resumed one counts the same."""
    return math.ceil(sum(len(message["content"]) for message in messages) / settings.characters_per_token)


def _without_reasoning(messages: Sequence[Message]) -> list[Message]:
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _text(value: Any) -> str:
    """Text, or the text of content parts."""
    if isinstance(value, list):
        return "".join(_text(_get(part, "text")) for part in value)
    return value if isinstance(value, str) else ""


def _details(value: Any) -> str:
    return "".join(_text(_get(part, "text")) or _text(_get(part, "summary")) for part in _list(value))


def _number(*values: Any) -> int | None:
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and v >= 0), None)


def _clean(text: str) -> str:
    """Lone surrogates, which JSON can carry and no file can hold, become replacement characters."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _shown(reply: Any) -> str:
    return (reply if isinstance(reply, str) else repr(reply)).strip()[:200]
