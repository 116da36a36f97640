"""An OpenAI-compatible server on loopback: it answers from a script, and fails in the ways that real ones do.

It speaks chat completions and responses, streamed and whole, over real sockets. A script is a function from the request
to what is done, so that answers can depend on the conversation and faults on how often it was asked.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "the-key"


@dataclass
class Request:
    """What a client asked."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    number: int
    """1 for the first request that this server has had."""

    @property
    def messages(self) -> list[dict[str, str]]:
        return self.body.get("messages") or self.body["input"]

    @property
    def turn(self) -> int:
        return 1 + sum(message["role"] == "assistant" for message in self.messages)


@dataclass
class Reply:
    """An ordinary answer."""

    text: str = ""
    reasoning: str = ""
    finish: str = "stop"
    usage: dict[str, Any] | None = field(default_factory=lambda: {"prompt": 100, "completion": 20, "reasoning": 5})
    reasoning_field: str = "reasoning_content"
    message: dict[str, Any] = field(default_factory=dict)
    """More fields of the message, right or wrong."""
    cut_after: int | None = None
    """Pieces after which the connection is closed."""
    pause: float = 0.0
    """Seconds before each piece."""


@dataclass
class Fault:
    """Something else than an answer."""

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0
    drop: bool = False
    """Close the connection with no reply at all."""


def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> Fault:
    """An error as OpenAI writes it."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": code, "param": None}})
    return Fault(status, body, {"content-type": "application/json", **headers})


Script = Callable[[Request], Reply | Fault]


class Endpoint:
    """The server and what it was asked."""

    def __init__(self, script: Script, port: int) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self.lock = threading.Lock()


@contextmanager
def serve(script: Script | list[Reply | Fault]) -> Iterator[Endpoint]:
    """A server while the block runs. A list answers the n-th request with its n-th entry."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.endpoint = Endpoint(_in_order(script) if isinstance(script, list) else script, server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _in_order(replies: list[Reply | Fault]) -> Script:
    spent = error(418, "The script has no more replies.")
    return lambda request: replies[request.number - 1] if request.number <= len(replies) else spent


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        endpoint: Endpoint = self.server.endpoint
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with endpoint.lock:
            request = Request(self.path, body, dict(self.headers.items()), len(endpoint.requests) + 1)
            endpoint.requests.append(request)
        if self.headers.get("authorization") not in (f"Bearer {KEY}", "Bearer none"):
            reply: Reply | Fault = error(401, "Incorrect API key provided.", "invalid_api_key")
        else:
            reply = endpoint.script(request)
        try:
            if isinstance(reply, Fault):
                self._fail(reply)
            elif body.get("stream"):
                self._stream(reply, body, responses=self.path.endswith("responses"))
            else:
                whole = _response(reply, body) if self.path.endswith("responses") else _completion(reply, body)
                self._send(200, json.dumps(whole), {"content-type": "application/json"}, reply.pause)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _fail(self, fault: Fault) -> None:
        if fault.drop:
            self.close_connection = True
            return
        self._send(fault.status, fault.body, fault.headers, fault.pause)
        self.close_connection = True

    def _send(self, status: int, text: str, headers: dict[str, str], pause: float) -> None:
        time.sleep(pause)
        data = text.encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, reply: Reply, body: dict[str, Any], responses: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        events = _response_events(reply, body) if responses else _chunks(reply, body)
        for number, event in enumerate(events):
            if number == reply.cut_after:
                return
            time.sleep(reply.pause)
            kind = f"event: {event['type']}\n" if responses else ""
            self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")


def _usage(reply: Reply, responses: bool) -> dict[str, Any] | None:
    if reply.usage is None:
        return None
    prompt, completion, thought = (reply.usage[name] for name in ("prompt", "completion", "reasoning"))
    names = ("input_tokens", "output_tokens", "output_tokens_details")
    if not responses:
        names = ("prompt_tokens", "completion_tokens", "completion_tokens_details")
    extra = {name: value for name, value in reply.usage.items() if name == "cost"}
    details = {names[2]: {"reasoning_tokens": thought}}
    return {names[0]: prompt, names[1]: completion, "total_tokens": prompt + completion, **details, **extra}


def _completion(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text, **reply.message}
    if reply.reasoning:
        message[reply.reasoning_field] = reply.reasoning
    choice = {"index": 0, "message": message, "finish_reason": reply.finish}
    head = {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"]}
    return {**head, "choices": [choice], "usage": _usage(reply, responses=False)}


def _chunks(reply: Reply, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": "", **reply.message})
    for piece in _pieces(reply.reasoning):
        yield chunk({reply.reasoning_field: piece})
    for piece in _pieces(reply.text):
        yield chunk({"content": piece})
    yield chunk({}, reply.finish)
    if reply.usage and (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(reply, responses=False)}


def _response(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if reply.reasoning:
        output.append({"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": reply.reasoning}]})
    content = [{"type": "output_text", "text": reply.text, "annotations": []}]
    output.append({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content})
    head = {"id": "r", "object": "response", "created_at": 0, "model": body["model"]}
    cut = reply.finish == "length"
    status = {"status": "incomplete" if cut else "completed"}
    details = {"incomplete_details": {"reason": "max_output_tokens"} if cut else None}
    return {**head, **status, **details, "output": output, "usage": _usage(reply, responses=True)}


def _response_events(reply: Reply, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    whole = _response(reply, body)
    yield {"type": "response.created", "response": {**whole, "output": []}, "sequence_number": 0}
    for piece in _pieces(reply.text):
        yield {"type": "response.output_text.delta", "delta": piece, "item_id": "m", "output_index": 0}
    ends = "response.incomplete" if reply.finish == "length" else "response.completed"
    yield {"type": ends, "response": whole}


def _pieces(text: str) -> list[str]:
    return [text[start : start + 40] for start in range(0, len(text), 40)]
