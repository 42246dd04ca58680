"""Every server's way of saying what is wrong comes to the same few errors."""

import json
from typing import Any

import pytest
from tests.unit.vendors.conftest import RECORDINGS

from belljar.errors import (
    BadKey,
    ContextTooLong,
    Declined,
    Filtered,
    Loading,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unreachable,
)
from belljar.vendors.errors import fault, read_stream_error
from belljar.vendors.registry import WIRES
from belljar.vendors.vendor import GENERIC


def said(message: str, code: Any = None, kind: str | None = None, param: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}}).encode()


@pytest.mark.parametrize("wire", WIRES)
def test_every_dialect_names_the_server_it_is_bound_to(wire: str) -> None:
    for server in ("acme", "lab"):
        meant = GENERIC.dialect(server, WIRES[wire]).fault(401, {}, b"{}")
        assert (type(meant), str(meant)) == (BadKey, f"{server} refused the key (401)")


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, said("bad", "context_length_exceeded"), ContextTooLong),
        (429, said("bad", "insufficient_quota", "insufficient_quota"), QuotaExceeded),
        (429, said("slow down", "rate_limit_exceeded", "tokens"), RateLimited),
        (400, said("no", "content_filter"), Filtered),
        (400, said("no", "invalid_prompt"), Filtered),
        (400, said("no", None, "data_inspection_failed"), Filtered),
        (404, said("gone", "model_not_found"), Declined),
        (503, said("busy", "server_is_overloaded"), Unreachable),
        (401, said("bad key"), BadKey),
        (403, said("not here", "unsupported_country_region_territory"), BadKey),
        (403, said("Your input was flagged by moderation"), Filtered),
        (403, said("You have used all available credits"), QuotaExceeded),
        (400, said("Incorrect API key provided: xai-***"), BadKey),
        (402, said("Insufficient Balance", "invalid_request_error", "unknown_error"), QuotaExceeded),
        (400, said("Invalid 'temperature'", "decimal_below_min_value"), Declined),
        (422, b'{"detail":[{"msg":"field required"}]}', Declined),
        (408, b"", Unreachable),
        (502, b"<html><body>Bad Gateway</body></html>", Unreachable),
        (503, b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}', Loading),
        (503, b'{"error":"Model acme/m is currently loading","estimated_time":20.0}', Loading),
        (503, said("no model is free"), Unreachable),
        (504, b"timeout", Unreachable),
        (429, b"too many", RateLimited),
        (498, b"flex tier", RateLimited),
        (529, b"overloaded", RateLimited),
        (413, b"too big", ContextTooLong),
        (500, said("boom", None, "server_error"), ProviderError),
        (404, b"404 page not found", ProviderError),
        (404, b'{"error":{"message":"model \\"qwen\\" not found, try pulling it first","type":"api_error"}}', Declined),
        (400, b'{"error":{"message":"zzz is not a valid model ID","code":400}}', Declined),
        (418, b"{}", ProviderError),
    ],
)
def test_by_code_then_by_status(status: int, body: bytes, error: type[ProviderError]) -> None:
    found = fault(status, {}, body, "acme")
    assert type(found) is error
    assert str(found).startswith("acme")


@pytest.mark.parametrize(
    "message",
    [
        # OpenAI
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 477469 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 40000.",
        # vLLM
        "This model's maximum context length is 1024 tokens. However, you requested 1029 tokens (1028 messages).",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
        # llama.cpp
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "Context size has been exceeded.",
        # Ollama
        "prompt too long; exceeded max context length by 12 tokens",
        "the input length exceeds the context length",
        # LM Studio
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context"
        " length of only 32768 tokens, which is not enough.",
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>="
        " n_ctx: 4096).",
        "Reached context length of 4096 tokens with model (arch: qwen3vlmoe) that does not currently support this",
        # Groq, DeepSeek, OpenRouter, Alibaba
        "Please reduce the length of the messages or completion.",
        "This model's maximum context length is 131072 tokens. However, you requested 150000 tokens.",
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens.",
        "Range of input length should be [1, 98304]",
    ],
)
def test_a_conversation_that_does_not_fit_is_known_by_its_words(message: str) -> None:
    for code, kind in ((None, None), ("rate_limit_exceeded", "tokens"), (400, "BadRequestError")):
        assert type(fault(400, {}, said(message, code, kind), "acme")) is ContextTooLong
    assert type(read_stream_error({"message": message}, "acme")) is ContextTooLong
    assert type(read_stream_error(message, "acme")) is ContextTooLong


MMPROJ = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"


@pytest.mark.parametrize(
    ("status", "message", "blind"),
    [
        (500, MMPROJ, True),  # llama.cpp
        (500, "audio input is not supported - hint: if this is unexpected, you may need to provide the mmproj", False),
        (500, "Failed to parse tools: [json.exception.out_of_range.403] key 'description' not found", False),
        (500, "[json.exception.type_error.302] type must be string, but is null", False),
        (500, "this model is missing data required for image input", True),  # Ollama
        (400, "registry.ollama.ai/library/gemma:2b does not support tools", False),
        (500, "gemma:2b does not support tools", False),
        (400, "At most 0 image(s) may be provided in one request.", True),  # vLLM
        (500, "tiny is not a multimodal model", True),
        (400, "Image input is not enabled for this model", True),  # Mistral
        (400, "Model does not support images. Please use a model that does.", True),  # LM Studio
        (500, "Vision add-on is not loaded, but images were provided for processing", True),
        (404, "No endpoints found that support image input", True),  # OpenRouter
        (404, "No endpoints found that support tool use. To learn more about provider routing, visit: x", False),
        (400, "messages[0].content must be a string", False),  # Groq
    ],
)
def test_what_a_model_cannot_take_is_the_callers_to_change(status: int, message: str, blind: bool) -> None:
    for error in (
        fault(status, {}, said(message, status, "server_error"), "acme"),
        read_stream_error({"code": status, "message": message, "type": "server_error"}, "acme"),
        read_stream_error({"message": message, "type": "api_error"}, "acme"),
    ):
        assert type(error) is Declined
        assert error.status == 400
        assert error.fault is None
        assert ("one that sees them" in str(error)) is blind


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (500, "failed to decode the image: out of memory", ProviderError),
        (500, "CUDA error: an illegal memory access was encountered", ProviderError),
        (401, "tools are not enabled for this key", BadKey),
        (429, "Image input is not enabled in the free tier", RateLimited),
        (503, "Vision is loading", Unreachable),
    ],
)
def test_a_servers_own_trouble_is_not(status: int, message: str, error: type[ProviderError]) -> None:
    assert type(fault(status, {}, said(message), "acme")) is error


@pytest.mark.parametrize(
    "message",
    [
        "Invalid 'max_tokens': too large",
        "the context of your question is unclear",
        "length must be above 0",
        "too long",
    ],
)
def test_other_complaints_are_not(message: str) -> None:
    assert type(fault(400, {}, said(message), "acme")) is Declined


@pytest.mark.parametrize(
    ("headers", "message", "after"),
    [
        ({"Retry-After": "7"}, "", 7.0),
        ({"retry-after": "1.5"}, "", 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, "", 0.25),
        ({"Retry-After": "Sun, 15 Nov 2026 10:00:30 GMT", "Date": "Sun, 15 Nov 2026 10:00:00 GMT"}, "", 30.0),
        ({"Retry-After": "Sun, 15 Nov 2026 10:00:30 GMT", "Date": "Sun, 15 Nov 2026 11:00:00 GMT"}, "", 0.0),
        ({"Retry-After": "Sun, 15 Nov 2026 10:00:30 GMT"}, "", None),
        ({"Retry-After": "soon", "Date": "now"}, "", None),
        ({"Retry-After": "Sun, 15 Nov 2026 10:00:30 -0000", "Date": "Sun, 15 Nov 2026 10:00:00 GMT"}, "", None),
        ({"retry-after-ms": "x"}, "", None),
        ({}, "Please try again in 7.66s. Visit", 7.66),
        ({}, "Please try again in 120ms.", 0.12),
        ({}, "Please try again in 1m30s.", 90.0),
        ({}, "Please try again in 2m.", 120.0),
        ({}, "Please try again in a while.", None),
        ({}, "Slow down.", None),
    ],
)
def test_when_to_come_again_is_kept(headers: dict[str, str], message: str, after: float | None) -> None:
    error = fault(429, headers, said(message), "acme")
    assert isinstance(error, RateLimited)
    assert error.after == pytest.approx(after)


def test_a_refused_request_keeps_where_and_what() -> None:
    error = fault(400, {}, said("Invalid 'temperature'.", "decimal_below_min_value", param="temperature"), "acme")
    assert isinstance(error, Declined)
    assert (error.param, error.fault) == ("temperature", "decimal_below_min_value")
    lost = fault(404, {}, said("The model `x` does not exist or you do not have access to it."), "acme")
    assert isinstance(lost, Declined)
    assert (lost.param, lost.fault) == ("model", "model_not_found")


def test_a_refused_key_is_not_quoted() -> None:
    error = fault(401, {}, said("Incorrect API key provided: sk-proj-abc***xyz.", "invalid_api_key"), "acme")
    assert type(error) is BadKey
    assert str(error) == "acme refused the key (401)"
    assert "(" not in str(read_stream_error({"code": "invalid_api_key"}, "acme"))


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"error":"a plain text"}', "acme: a plain text"),
        (b'[{"error":{"message":"in a list"}}]', "acme: in a list"),
        (b'{"object":"error","message":"flat","code":500}', "acme: flat"),
        (b'{"detail":"of FastAPI"}', "acme: of FastAPI"),
        (b"  not \n JSON ", "acme: not JSON"),
        (b"<html>a page</html>", "acme: it answered 500"),
        (b"", "acme: it answered 500"),
        (b"17", "acme: 17"),
        (b"[]", "acme: []"),
    ],
)
def test_the_words_are_found_in_any_shape(body: bytes, shown: str) -> None:
    assert str(fault(500, {}, body, "acme")) == shown


def test_a_wrong_address_is_the_operators() -> None:
    error = fault(404, {}, b"404 page not found", "acme")
    assert str(error) == "acme: 404 page not found"
    assert error.status == 502


def test_inside_a_stream_the_code_may_be_a_status() -> None:
    assert type(read_stream_error({"code": 429, "message": "x"}, "acme")) is RateLimited
    assert type(read_stream_error({"code": 400, "message": "x"}, "acme")) is Declined
    assert type(read_stream_error({"code": 600, "message": "x"}, "acme")) is ProviderError
    assert type(read_stream_error({"code": 7, "message": "x"}, "acme")) is ProviderError
    assert type(read_stream_error({"type": "invalid_request_error", "code": None, "message": "x"}, "acme")) is Declined
    assert type(read_stream_error({"code": "image_too_large", "message": "x"}, "acme")) is Declined
    assert type(fault(500, {}, said("x", kind="invalid_request_error"), "acme")) is ProviderError
    assert str(read_stream_error({}, "acme")) == "acme: it reported an error without a word"


def test_recorded_errors() -> None:
    body = (RECORDINGS / "openai" / "openai-error.1.json").read_bytes()
    assert type(fault(429, {}, body, "openai")) is QuotaExceeded
