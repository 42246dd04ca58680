"""Google's errors as ours."""

import json
from typing import Any

import pytest
from tests.unit.vendors.conftest import RECORDINGS

from belljar.errors import (
    BadKey,
    ContextTooLong,
    Declined,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unreachable,
)
from belljar.vendors.gemini.errors import fault, read_stream_error

INFO = "type.googleapis.com/google.rpc.ErrorInfo"
QUOTA = "type.googleapis.com/google.rpc.QuotaFailure"
RETRY = "type.googleapis.com/google.rpc.RetryInfo"


def said(code: int, status: str, message: str = "m", *details: dict[str, Any]) -> bytes:
    error = {"code": code, "message": message, "status": status, **({"details": details} if details else {})}
    return json.dumps({"error": error}).encode()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, said(400, "INVALID_ARGUMENT", "Unknown name"), Declined),
        (
            400,
            said(
                400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."
            ),
            ContextTooLong,
        ),
        (400, said(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), BadKey),
        (400, said(400, "INVALID_ARGUMENT", "no", {"@type": INFO, "reason": "API_KEY_INVALID"}), BadKey),
        (400, said(400, "FAILED_PRECONDITION", "User location is not supported"), Declined),
        (401, said(401, "UNAUTHENTICATED", "invalid authentication credentials"), BadKey),
        (403, said(403, "PERMISSION_DENIED"), BadKey),
        (404, said(404, "NOT_FOUND", "models/x is not found for API version v1"), Declined),
        (429, said(429, "RESOURCE_EXHAUSTED"), RateLimited),
        (
            429,
            said(
                429,
                "RESOURCE_EXHAUSTED",
                "m",
                {"@type": QUOTA, "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
            ),
            QuotaExceeded,
        ),
        (500, said(500, "INTERNAL"), ProviderError),
        (503, said(503, "UNAVAILABLE", "The model is overloaded."), Unreachable),
        (504, said(504, "DEADLINE_EXCEEDED"), Unreachable),
        (429, b"[" + said(429, "RESOURCE_EXHAUSTED") + b"]", RateLimited),
        (404, b"<html>Not here</html>", ProviderError),
        (502, b'{"error": "odd"}', Unreachable),
        (500, b"[]", ProviderError),
    ],
)
def test_errors(status: int, body: bytes, error: type[ProviderError]) -> None:
    found = fault(status, {}, body, "acme")
    assert type(found) is error
    assert str(found).startswith("acme")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (said(429, "RESOURCE_EXHAUSTED"), "RATE_LIMIT"),
        (
            said(
                429,
                "RESOURCE_EXHAUSTED",
                "m",
                {"@type": QUOTA, "violations": [{"quotaId": "GenerateContentInputTokensPerModelPerMinute"}]},
            ),
            "TOKEN_RATE_LIMIT",
        ),
        (said(400, "INVALID_ARGUMENT", "Unknown name"), "BAD_REQUEST"),
        (said(400, "INVALID_ARGUMENT", "tools[0].function_declarations[0]: schema is wrong"), "INVALID_SCHEMA"),
    ],
)
def test_reasons(body: bytes, reason: str) -> None:
    status = json.loads(body)["error"]["code"]
    assert fault(status, {}, body, "acme").reason == reason


def test_a_recorded_limit_says_when_to_come_again() -> None:
    found = fault(429, {}, (RECORDINGS / "gemini/google-429-retry-info.json").read_bytes(), "acme")
    assert isinstance(found, RateLimited)
    assert found.after == 34.4
    assert "You exceeded your current quota" in str(found)


def test_a_pause_that_cannot_be_read_is_none() -> None:
    found = fault(429, {}, said(429, "RESOURCE_EXHAUSTED", "m", {"@type": RETRY, "retryDelay": "soon"}), "acme")
    assert isinstance(found, RateLimited)
    assert found.after is None


def test_a_model_that_is_not_there() -> None:
    found = fault(404, {}, said(404, "NOT_FOUND", "models/x is not found"), "acme")
    assert isinstance(found, Declined)
    assert (found.param, found.fault) == ("model", "model_not_found")


def test_inside_a_stream() -> None:
    assert type(read_stream_error({"code": 503, "message": "m", "status": "UNAVAILABLE"}, "acme")) is Unreachable
    assert type(read_stream_error({"message": "m", "status": "RESOURCE_EXHAUSTED"}, "acme")) is RateLimited
    assert type(read_stream_error({"message": "m"}, "acme")) is ProviderError
