"""What the model behind an endpoint does with good, bad and no answers: a real server, real sockets."""

from __future__ import annotations

import json
import math
import socket
import threading
import time

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.mini_ptx_agent import ContextFull, EndpointError, EndpointModel, ModelSettings, SetupError
from baselines.mini_ptx_agent.endpoint import retry_after
from tests.baselines.endpoint import KEY, Fault, Reply, error, serve

PROMPT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Write a kernel."}]
STREAM = {"content-type": "text/event-stream"}
FAST = {"first_wait": 0.01, "silence": 10.0}
DIALECTS = [("chat", True), ("chat", False), ("responses", True), ("responses", False)]


def ask(script, key=KEY, messages=PROMPT, **settings):
    """One question to a server; the answer or what was raised, and the requests it took."""
    with serve(script) as endpoint:
        model = EndpointModel(ModelSettings(name="test", **{**FAST, **settings}), endpoint.base_url, key)
        try:
            return model.query(messages), endpoint.requests
        except (EndpointError, ContextFull) as raised:
            return raised, endpoint.requests
        finally:
            model.client.close()


@pytest.mark.parametrize(("api", "stream"), DIALECTS)
def test_every_dialect_gives_the_same_answer(api, stream):
    answer, requests = ask([Reply("An answer. " * 20, "A thought.")], api=api, stream=stream)
    assert answer.text == "An answer. " * 20
    assert answer.reasoning == "A thought."
    assert answer.finish == "stop"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.reasoning_tokens) == (100, 20, 5)
    assert answer.usage.counted
    assert len(requests) == 1


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("stream", [True, False])
def test_reasoning_is_kept_apart_whatever_its_field_is_called(field, stream):
    answer, _ = ask([Reply("code", "why", reasoning_field=field)], stream=stream)
    assert (answer.text, answer.reasoning) == ("code", "why")


@pytest.mark.parametrize("text", ["<think>why</think>code", "why</think>\n\ncode"])
def test_reasoning_inside_the_answer_is_taken_out(text):
    answer, _ = ask([Reply(text)])
    assert (answer.text, answer.reasoning) == ("code", "why")


def test_a_thought_that_was_cut_off_is_no_answer():
    answer, _ = ask([Reply("<think>why and why", finish="length")])
    assert (answer.text, answer.reasoning, answer.finish) == ("", "why and why", "length")


def test_reasoning_is_never_sent_back():
    said = [*PROMPT, {"role": "assistant", "content": "a", "reasoning": "secret"}, {"role": "user", "content": "b"}]
    _, requests = ask([Reply("c")], messages=said)
    assert all(set(message) == {"role", "content"} for message in requests[0].messages)


def test_decoding_settings_reach_the_endpoint():
    settings = {"request": {"temperature": 0.5, "top_k": 20, "reasoning": {"effort": "xhigh"}}, "max_tokens": 99}
    _, (request,) = ask([Reply("c")], **settings)
    assert {**settings["request"], "max_tokens": 99, "model": "test", "stream": True}.items() <= request.body.items()
    _, (request,) = ask([Reply("c")], max_tokens_field="max_completion_tokens")
    assert "max_tokens" not in request.body
    assert request.body["max_completion_tokens"] == 65536


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_what_may_pass_is_asked_again(status):
    answer, requests = ask([error(status), error(status), Reply("at last")])
    assert answer.text == "at last"
    assert len(requests) == 3


@pytest.mark.parametrize(("api", "stream"), DIALECTS)
def test_a_connection_cut_in_the_answer_is_asked_again(api, stream):
    replies = [Reply("long " * 100, cut_after=3) if stream else Fault(drop=True), Reply("whole")]
    answer, requests = ask(replies, api=api, stream=stream)
    assert answer.text == "whole"
    assert len(requests) == 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault(200, 'data: {"choices": [{"delta": {"content": "ha', STREAM),
        Fault(
            200, 'data: {"error": {"message": "overloaded", "code": 503}}\n\n', {"content-type": "text/event-stream"}
        ),
        Fault(200, "", STREAM),
        Fault(200, "", {**STREAM, "content-length": "500"}),
        Fault(drop=True),
    ],
    ids=["half a line", "an error inside", "nothing", "shorter than promised", "no reply"],
)
def test_a_broken_stream_is_asked_again(fault):
    answer, requests = ask([fault, Reply("whole")])
    assert answer.text == "whole"
    assert len(requests) == 2


def test_half_a_body_is_asked_again():
    half = Fault(200, '{"id": "c", "choices": [{"mess', {"content-type": "application/json"})
    answer, requests = ask([half, Reply("whole")], stream=False)
    assert answer.text == "whole"
    assert len(requests) == 2


def test_a_silent_endpoint_is_asked_again():
    answer, requests = ask([Fault(200, pause=2.5), Reply("awake")], silence=1.0)
    assert answer.text == "awake"
    assert len(requests) == 2


def test_an_endless_answer_is_given_up():
    raised, requests = ask(lambda request: Reply("x" * 4000, pause=0.02), call_seconds=0.1, attempts=2)
    assert raised.kind == "BrokenOffError"
    assert len(requests) == 2


def test_a_slow_answer_is_waited_for():
    answer, requests = ask([Reply("x" * 400, pause=0.12)], silence=0.9)
    assert answer.text == "x" * 400
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("fault", "kind", "advice"),
    [
        (error(400, "temperature is too high"), "BadRequestError", "temperature is too high"),
        (error(403, "not for you"), "PermissionDeniedError", "does not allow"),
        (error(404, "no such model"), "NotFoundError", "/v1"),
        (error(422, "what"), "UnprocessableEntityError", "what"),
        (error(429, "pay first", "insufficient_quota"), "RateLimitError", "pay first"),
        (Fault(200, "<html>hello</html>", {"content-type": "text/html"}), "ForeignReplyError", "/v1"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_what_will_not_pass_is_asked_once_and_explained(fault, kind, advice, stream):
    raised, requests = ask([fault], stream=stream)
    assert raised.kind == kind
    assert advice in str(raised)
    assert len(requests) == 1


def test_a_wrong_key_ends_the_run():
    raised, requests = ask([], key="wrong")
    assert raised.kind == "AuthenticationError"
    assert raised.ends_run
    assert "OPENAI_API_KEY" in str(raised)
    assert "wrong" not in str(raised).replace("wrong key", "")
    assert len(requests) == 1


def test_a_storm_is_given_up_and_can_be_weathered_later():
    raised, requests = ask(lambda request: error(503, "busy"), attempts=4)
    assert raised.kind == "InternalServerError"
    assert not raised.ends_run
    assert len(requests) == 4


def test_an_endpoint_that_is_not_there_ends_the_run_soon():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    model = EndpointModel(ModelSettings(name="test", **FAST), url, KEY)
    with pytest.raises(EndpointError, match="cannot be reached") as raised:
        model.query(PROMPT)
    model.client.close()
    assert raised.value.ends_run
    assert raised.value.kind == "APIConnectionError"


def test_retry_after_is_obeyed():
    start = time.monotonic()
    answer, requests = ask([error(429, retry_after="0.4"), Reply("later")])
    assert time.monotonic() - start >= 0.4
    assert answer.text == "later"
    assert len(requests) == 2


def test_a_wait_that_outlasts_patience_is_not_begun():
    start = time.monotonic()
    raised, requests = ask([error(429, retry_after="3600")], patience=5.0)
    assert raised.kind == "RateLimitError"
    assert time.monotonic() - start < 5
    assert len(requests) == 1


def test_retry_after_may_be_a_date_and_nonsense_is_passed_over():
    from email.utils import formatdate

    assert retry_after({"retry-after": formatdate(time.time() + 30, usegmt=True)}) == pytest.approx(30, abs=2)
    assert retry_after({"retry-after": formatdate(time.time() - 30, usegmt=True)}) == 0
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    for nonsense in ("soon", "-1", "nan", "inf", ""):
        assert retry_after({"retry-after": nonsense}) is None
    assert retry_after({}) is None


def test_one_that_is_told_to_wait_makes_all_wait():
    with serve([error(429, retry_after="0.5"), Reply("a"), Reply("b")]) as endpoint:
        model = EndpointModel(ModelSettings(name="test", **FAST), endpoint.base_url, KEY)
        first = threading.Thread(target=model.query, args=(PROMPT,))
        first.start()
        while not endpoint.requests:
            time.sleep(0.01)
        time.sleep(0.1)
        start = time.monotonic()
        model.query(PROMPT)
        first.join()
        model.client.close()
    assert time.monotonic() - start >= 0.3


def test_requests_keep_to_their_rate():
    with serve(lambda request: Reply("a")) as endpoint:
        settings = ModelSettings(name="test", requests_per_minute=600, **FAST)
        model = EndpointModel(settings, endpoint.base_url, KEY)
        start = time.monotonic()
        for _ in range(4):
            model.query(PROMPT)
        model.client.close()
    assert time.monotonic() - start >= 0.3


@pytest.mark.parametrize(
    "fault",
    [
        error(400, "too long", "context_length_exceeded"),
        error(400, "This model's maximum context length is 4096 tokens."),
        error(413, "prompt is too long: 300000 tokens"),
    ],
)
def test_a_conversation_that_the_endpoint_finds_too_long_is_a_full_context(fault):
    raised, requests = ask([fault])
    assert isinstance(raised, ContextFull)
    assert raised.reason == "context_full"
    assert len(requests) == 1


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("code", "asked"),
    [("server_error", 2), ("rate_limit_exceeded", 2), ("invalid_prompt", 1), ("context_length_exceeded", 1)],
)
def test_a_response_that_failed_is_asked_again_when_that_may_help(code, asked, stream):
    failed = {
        "id": "r",
        "object": "response",
        "status": "failed",
        "output": [],
        "error": {"code": code, "message": "so"},
    }
    if stream:
        fault = Fault(200, f"data: {json.dumps({'type': 'response.failed', 'response': failed})}\n\n", STREAM)
    else:
        fault = Fault(200, json.dumps(failed), {"content-type": "application/json"})
    raised, requests = ask([fault, Reply("whole")], api="responses", stream=stream)
    assert len(requests) == asked
    assert isinstance(raised, ContextFull) == (code == "context_length_exceeded")
    assert isinstance(raised, EndpointError) == (code == "invalid_prompt")


@pytest.mark.parametrize(("code", "asked"), [(502, 2), (None, 2), ("overloaded_error", 2), (400, 1), ("moderation", 1)])
def test_an_error_inside_a_stream_is_asked_again_when_that_may_help(code, asked):
    fault = Fault(200, f"data: {json.dumps({'error': {'message': 'so', 'code': code}})}\n\n", STREAM)
    answer, requests = ask([fault, Reply("whole")])
    assert len(requests) == asked
    assert isinstance(answer, EndpointError) == (asked == 1)


def test_a_full_context_is_seen_before_asking_and_a_nearly_full_one_shortens_the_answer():
    long = [{"role": "user", "content": "x" * 3000}]
    raised, requests = ask([], messages=long, context=1500, smallest_answer=600, max_tokens=1000)
    assert isinstance(raised, ContextFull)
    assert not requests
    _, (request,) = ask([Reply("a")], messages=long, context=1500, smallest_answer=400, max_tokens=1000)
    assert request.body["max_tokens"] == 500


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": "not a list"},
        {"tool_calls": [{"index": "x", "function": {"arguments": {"a": 1}}}]},
        {"tool_calls": None, "function_call": [], "content": None},
        {"reasoning_details": {"text": 3}, "refusal": 7},
        {"reasoning_details": [{"text": None}, "odd", {"summary": []}]},
    ],
)
def test_malformed_fields_do_no_harm(message, stream):
    answer, _ = ask([Reply("code", message=message)], stream=stream)
    assert answer.text in ("code", "")


def test_a_refusal_and_a_tool_call_are_told_from_an_answer():
    answer, _ = ask([Reply("", message={"refusal": "I will not."})])
    assert answer.finish == "refusal"
    answer, _ = ask([Reply("", finish="tool_calls", message={"tool_calls": []})])
    assert answer.finish == "tool_calls"


def test_lone_surrogates_become_replacement_characters():
    answer, _ = ask([Reply("a\ud800b")])
    assert answer.text.encode()
    assert answer.text.startswith("a")


def test_cost_is_the_endpoints_or_comes_from_prices_or_is_unknown():
    told = {"prompt": 10, "completion": 20, "reasoning": 0, "cost": 0.125}
    assert ask([Reply("a", usage=told)])[0].usage.cost == 0.125
    priced = ask([Reply("a")], prompt_price=1.0, completion_price=10.0)[0].usage.cost
    assert priced == pytest.approx((100 * 1 + 20 * 10) / 1e6)
    assert math.isnan(ask([Reply("a")])[0].usage.cost)


def test_tokens_that_nobody_counted_are_estimated_and_marked():
    usage = ask([Reply("x" * 300, "y" * 30, usage=None)])[0].usage
    assert not usage.counted
    assert (usage.completion_tokens, usage.reasoning_tokens) == (110, 10)
    assert usage.prompt_tokens == math.ceil(len("Be brief.Write a kernel.") / 3)


def test_no_endpoint_is_a_sentence(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SetupError, match="OPENAI_BASE_URL"):
        EndpointModel(ModelSettings(name="test"))
    with pytest.raises(SetupError, match="http"):
        EndpointModel(ModelSettings(name="test"), "localhost:8000")


def test_credentials_in_an_address_are_not_shown():
    model = EndpointModel(ModelSettings(name="test"), "http://user:secret@localhost:1/v1?key=secret")
    model.client.close()
    assert model.endpoint == "http://localhost:1/v1"


KEYS = [
    *("choices", "message", "delta", "content", "finish_reason", "usage", "prompt_tokens", "completion_tokens"),
    *("reasoning", "reasoning_details", "refusal", "tool_calls", "type", "text", "output", "status", "response"),
    *("completion_tokens_details", "reasoning_tokens", "cost", "error", "summary", "incomplete_details"),
]
WORDS = st.sampled_from(["", "stop", "text", "length", "\ud800"])
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | WORDS
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


def test_whatever_json_comes_back_gives_an_answer_or_an_explained_error():
    current = {}
    with serve(lambda request: current["reply"]) as endpoint:
        models = {
            (api, stream): EndpointModel(
                ModelSettings(name="test", api=api, stream=stream, **{**FAST, "attempts": 1}), endpoint.base_url, KEY
            )
            for api, stream in DIALECTS
        }

        @given(st.sampled_from(DIALECTS), st.booleans(), JSON, JSON)
        @hypothesis.settings(max_examples=120, deadline=None, database=None)
        def check(dialect, wrapped, value, other):
            if wrapped and dialect[0] == "chat":
                value = {"choices": [{"message": value, "delta": value, "finish_reason": "stop"}], "usage": other}
            elif wrapped:
                value = {
                    "status": "completed",
                    "output": [value, {"type": "message", "content": value}],
                    "usage": other,
                }
                value = {"type": "response.completed", "response": value} if dialect[1] else value
            body = json.dumps(value)
            current["reply"] = (
                Fault(200, f"data: {body}\n\n", STREAM)
                if dialect[1]
                else Fault(200, body, {"content-type": "application/json"})
            )
            try:
                answer = models[dialect].query(PROMPT)
            except (EndpointError, ContextFull):
                return
            assert isinstance(answer.text, str)
            assert isinstance(answer.usage.prompt_tokens, int)

        check()
        for model in models.values():
            model.client.close()
