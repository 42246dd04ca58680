"""Anthropic's errors, each by its own code, its type, its words or its status."""

import json
from typing import Any

import pytest

from belljar.errors import (
    BadKey,
    ContextTooLong,
    Declined,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unreachable,
)
from belljar.vendors.anthropic.errors import fault


def body(type: str, message: str = "it did not work", code: str | None = None) -> bytes:
    error: dict[str, Any] = {"type": type, "message": message}
    if code:
        error["details"] = {"error_code": code}
    return json.dumps({"type": "error", "error": error, "request_id": "req_1"}).encode()


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (401, body("authentication_error", "invalid x-api-key"), BadKey),
        (403, body("permission_error"), BadKey),
        (403, body("permission_error", code="api_key_scope_missing"), BadKey),
        (402, body("billing_error"), QuotaExceeded),
        (400, body("invalid_request_error", "Your credit balance is too low to access the API."), QuotaExceeded),
        (429, body("rate_limit_error", code="enforced_spend_limit_reached"), QuotaExceeded),
        (429, body("rate_limit_error"), RateLimited),
        (429, body("rate_limit_error", code="ramp_limit_exceeded"), RateLimited),
        (529, body("overloaded_error", "Overloaded"), RateLimited),
        (529, b"", RateLimited),
        (413, body("request_too_large", "Request exceeds the maximum size"), ContextTooLong),
        (413, b"<html>", ContextTooLong),
        (400, body("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), ContextTooLong),
        (
            400,
            body(
                "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"
            ),
            ContextTooLong,
        ),
        (400, body("invalid_request_error", "messages: at least one message is required"), Declined),
        (400, body("invalid_request_error", code="tool_name_conflict"), Declined),
        (404, body("not_found_error", "model: claude-nine"), Declined),
        (404, body("not_found_error", "Not found"), ProviderError),
        (503, body("api_error", code="cmek_context_unavailable"), Unreachable),
        (504, body("timeout_error"), Unreachable),
        (500, body("api_error", "Internal server error"), ProviderError),
        (500, b"oops", ProviderError),
    ],
)
def test_errors(status: int, said: bytes, kind: type[ProviderError]) -> None:
    error = fault(status, {}, said, "acme")
    assert type(error) is kind
    assert "acme" in str(error)


@pytest.mark.parametrize(
    ("status", "headers", "said", "reason"),
    [
        (429, {}, body("rate_limit_error"), "RATE_LIMIT"),
        (429, {"anthropic-ratelimit-tokens-remaining": "7"}, body("rate_limit_error"), "RATE_LIMIT"),
        (429, {"anthropic-ratelimit-tokens-remaining": "0"}, body("rate_limit_error"), "TOKEN_RATE_LIMIT"),
        (400, {}, body("invalid_request_error", "messages: is required"), "BAD_REQUEST"),
        (400, {}, body("invalid_request_error", "tools.0.input_schema: is invalid"), "INVALID_SCHEMA"),
    ],
)
def test_reasons(status: int, headers: dict[str, str], said: bytes, reason: str) -> None:
    assert fault(status, headers, said, "acme").reason == reason


def test_when_to_come_again() -> None:
    error = fault(429, {"Retry-After": "7"}, body("rate_limit_error"), "acme")
    assert isinstance(error, RateLimited)
    assert error.after == 7


def test_which_field_and_why() -> None:
    lost = fault(404, {}, body("not_found_error", "model: claude-nine"), "acme")
    assert isinstance(lost, Declined)
    assert (lost.param, lost.fault) == ("model", "model_not_found")
    clash = fault(400, {}, body("invalid_request_error", code="tool_name_conflict"), "acme")
    assert isinstance(clash, Declined)
    assert clash.fault == "tool_name_conflict"


def test_a_refused_key_is_not_repeated() -> None:
    said = body("authentication_error", "invalid x-api-key: sk-ant-secret")
    assert "sk-ant-secret" not in str(fault(401, {}, said, "acme"))
