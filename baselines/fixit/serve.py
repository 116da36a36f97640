"""A small OpenAI-compatible endpoint for one model, so that `ptxgym run` can play against what was just trained.

It answers one request at a time and knows chat completions, streamed or whole, and the list of models. It is for trying
a checkpoint out; for real use serve the merged model, or the adapter, with vLLM.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_LARGEST_REQUEST = 16 << 20
_DEFAULT_ANSWER = 4096


class ChatMessage(BaseModel):
    """One message of a request."""

    role: str
    content: str


class StreamOptions(BaseModel):
    """What a stream ends with."""

    include_usage: bool = False


class ChatRequest(BaseModel):
    """The part of a chat completion's request that is obeyed; what could not be is refused, the rest passed over."""

    model_config = ConfigDict(extra="ignore")

    messages: list[ChatMessage] = Field(min_length=1)
    model: str = ""
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float = Field(1.0, ge=0, le=2)
    """0 takes the likeliest token."""
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=-1)
    """0 and -1 mean all."""
    min_p: float = Field(0.0, ge=0, le=1)
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    """Taken from the logit of every token that the answer already has."""
    seed: int | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int = Field(1, ge=1, le=1)
    stop: None = None
    tools: None = None


class RequestError(Exception):
    """A request that is refused, in OpenAI's words.

    Args:
        message: Why.
        code: OpenAI's code for it.
        status: Of HTTP.
    """

    def __init__(self, message: str, code: str = "invalid_request", status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer."""

    text: str
    finish: str
    """``stop``, or ``length`` when it was cut off."""
    prompt_tokens: int
    completion_tokens: int

    @property
    def usage(self) -> dict[str, int]:
        """As OpenAI writes it."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


@dataclass
class Served:
    """A model and how it is asked; requests wait for each other."""

    model: Any
    tokenizer: Any
    name: str
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def context(self) -> int:
        """Tokens of conversation and answer together."""
        return int(self.model.config.get_text_config().max_position_embeddings)

    def complete(self, request: ChatRequest, write: Callable[[str], None] = lambda text: None) -> Completion:
        """Answer a request.

        Args:
            request: What is asked.
            write: Given the text as it comes; what it raises ends the answer.

        Raises:
            RequestError: The conversation leaves no room for an answer, or the template refuses it.
        """
        import torch
        from transformers import set_seed

        prompt = self._prompt(request)
        length = int(prompt.shape[1])
        room = self.context - length
        if room < 1:
            raise RequestError(
                f"This model's context length is {self.context} tokens, and the messages have {length}.",
                "context_length_exceeded",
            )
        wanted = request.max_completion_tokens or request.max_tokens or _DEFAULT_ANSWER
        with self.lock, torch.no_grad():
            if request.seed is not None:
                set_seed(request.seed)
            streamer = _streamer(self.tokenizer, write)
            tokens = self.model.generate(
                input_ids=prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=min(wanted, room),
                pad_token_id=self._pad,
                streamer=streamer,
                **_decoding(request, length),
            )[0, length:].tolist()
        ended = bool(tokens) and tokens[-1] in self._ends
        text = self.tokenizer.decode(tokens[:-1] if ended else tokens, skip_special_tokens=True)
        return Completion(text, "stop" if ended else "length", length, len(tokens))

    def _prompt(self, request: ChatRequest) -> Any:
        messages = [message.model_dump() for message in request.messages]
        try:
            made = self.tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
        except Exception as error:  # a template raises whatever its author chose
            raise RequestError(f"The model's chat template refuses these messages: {error}") from None
        return made["input_ids"].to(self.model.device)

    @property
    def _ends(self) -> set[int]:
        found = self.model.generation_config.eos_token_id
        return {self.tokenizer.eos_token_id, *(found if isinstance(found, list) else [found])}

    @property
    def _pad(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(self.tokenizer.eos_token_id if pad is None else pad)


def _decoding(request: ChatRequest, prompt_length: int) -> dict[str, Any]:
    from transformers import LogitsProcessor, LogitsProcessorList

    class PresencePenalty(LogitsProcessor):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            said = input_ids[:, prompt_length:]
            return scores.scatter(1, said, scores.gather(1, said) - request.presence_penalty)

    chosen: dict[str, Any] = {"do_sample": request.temperature > 0}
    if request.temperature > 0:
        chosen |= {"temperature": request.temperature, "top_p": request.top_p, "top_k": max(0, request.top_k)}
        chosen |= {"min_p": request.min_p} if request.min_p else {}
    if request.presence_penalty:
        chosen["logits_processor"] = LogitsProcessorList([PresencePenalty()])
    return chosen


def _streamer(tokenizer: Any, write: Callable[[str], None]) -> Any:
    from transformers import TextStreamer

    class Streamer(TextStreamer):  # type: ignore[misc]
        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            if text:
                write(text)

    return Streamer(tokenizer, skip_prompt=True, skip_special_tokens=True)


def make_server(served: Served, host: str = "127.0.0.1", port: int = 8000) -> ThreadingHTTPServer:
    """A server that is bound and not yet running; port 0 takes a free one."""

    class Handler(_Handler):
        model = served

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    return server


@contextmanager
def running(served: Served, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """A server while the block runs; its base URL."""
    server = make_server(served, host, port)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ClassVar[Served]

    def log_message(self, *args: object) -> None:
        """Say nothing; the caller's own progress is enough."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") != "/v1/models":
            self._refuse(RequestError(f"There is nothing at {self.path}.", "not_found", 404))
            return
        self._send(200, {"object": "list", "data": [{"id": self.model.name, "object": "model", "created": 0}]})

    def do_POST(self) -> None:
        try:
            if self.path.rstrip("/") != "/v1/chat/completions":
                raise RequestError(f"There is nothing at {self.path}.", "not_found", 404)
            request = self._read()
            if request.stream:
                self._stream(request)
            else:
                self._send(200, self._whole(self.model.complete(request)))
        except RequestError as refused:
            self._refuse(refused)
        except ConnectionError:  # the client has gone, and with it the wish for an answer
            self.close_connection = True
        except RuntimeError as fault:  # of torch: out of memory above all
            self._refuse(RequestError(str(fault).splitlines()[0], "server_error", 500))

    def _read(self) -> ChatRequest:
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > _LARGEST_REQUEST:
            self.close_connection = True  # what follows on this connection cannot be told from the body
            raise RequestError(f"The request needs a content-length of at most {_LARGEST_REQUEST} bytes.")
        body = self.rfile.read(int(length))
        try:
            return ChatRequest.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise RequestError(f"{where or 'the body'}: {first['msg']}; this server can do no other.") from None

    def _whole(self, completion: Completion) -> dict[str, Any]:
        message = {"role": "assistant", "content": completion.text}
        choice = {"index": 0, "message": message, "finish_reason": completion.finish}
        return {**self._head("chat.completion"), "choices": [choice], "usage": completion.usage}

    def _stream(self, request: ChatRequest) -> None:
        head = self._head("chat.completion.chunk")
        begun = False

        def event(data: str) -> None:
            piece = f"data: {data}\n\n".encode()
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()

        def begin() -> None:
            nonlocal begun
            begun = True
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()

        def chunk(delta: dict[str, str], finish: str | None = None) -> None:
            if not begun:  # until the first text comes, a refusal can still be an ordinary error
                begin()
            event(json.dumps({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))

        try:
            completion = self.model.complete(request, lambda text: chunk({"content": text}))
        except RuntimeError:
            if not begun:
                raise
            self.close_connection = True  # without an end, so that the client knows that the answer is not whole
            return
        chunk({}, completion.finish)
        if request.stream_options and request.stream_options.include_usage:
            event(json.dumps({**head, "choices": [], "usage": completion.usage}))
        event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, kind: str) -> dict[str, Any]:
        now = int(time.time())
        return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": now, "model": self.model.name}

    def _refuse(self, refused: RequestError) -> None:
        error = {"message": str(refused), "type": "invalid_request_error", "code": refused.code, "param": None}
        self._send(refused.status, {"error": error})

    def _send(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
