"""Google's faults: by its status, its details, and its words."""

from __future__ import annotations

from typing import Any

from tests.library.providers.replay import Reply, recorded
from tests.parity.rows import Fault
from tests.parity.server import failing

_THE_FILE: Any = ("files",)
"""Where the Files API answers so, the file is meant."""


def _row(id: str, status: int, name: str, kind: str, reason: str, message: str = "No.", **more: Any) -> Fault:
    details = more.pop("details", [])
    body = {"error": {"code": status, "message": message, "status": name, "details": details}}
    return Fault(id=id, vendor="gemini", reply=failing(status, body), kind=kind, reason=reason, **more)


def _violated(quota: str) -> list[Any]:
    return [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}]


_BAD, _OUT = "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"
_INVALID = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]

GEMINI = (
    _row("no key", 401, "UNAUTHENTICATED", "BadKey", "AUTH_ERROR"),
    _row("no permission", 403, "PERMISSION_DENIED", "BadKey", "AUTH_ERROR"),
    _row("wrong key", 400, _BAD, "BadKey", "AUTH_ERROR", "API key not valid. Please pass a valid API key."),
    _row("wrong key by its reason", 400, _BAD, "BadKey", "AUTH_ERROR", details=_INVALID),
    _row("expired key", 400, _BAD, "BadKey", "AUTH_ERROR", "API key expired. Please renew the API key."),
    Fault(
        id="rate limit, as it was recorded", vendor="gemini",
        reply=failing(429, recorded("gemini/google-429-retry-info.json")), kind="RateLimited", reason="RATE_LIMIT",
        after=35,
    ),
    _row("rate limit", 429, _OUT, "RateLimited", "RATE_LIMIT"),
    _row(
        "token limit", 429, _OUT, "RateLimited", "TOKEN_RATE_LIMIT",
        details=_violated("GenerateContentInputTokensPerModelPerMinute"),
    ),
    _row(
        "daily quota", 429, _OUT, "QuotaExceeded", "QUOTA_EXCEEDED",
        details=_violated("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
    ),
    _row(
        "prepaid credits", 429, _OUT, "QuotaExceeded", "QUOTA_EXCEEDED", "Your prepayment credits are depleted.",
    ),
    _row("unavailable", 503, "UNAVAILABLE", "Unreachable", "SERVER_OVERLOADED", "The model is overloaded."),
    _row("deadline", 504, "DEADLINE_EXCEEDED", "Unreachable", "TIMEOUT"),
    _row("internal", 500, "INTERNAL", "ProviderError", "API_ERROR"),
    _row(
        "no such model", 404, "NOT_FOUND", "Declined", "INVALID_MODEL", "models/x is not found for API version v1",
        apart=_THE_FILE,
    ),
    _row(
        "context", 400, _BAD, "ContextTooLong", "CONTEXT_LENGTH_EXCEEDED",
        "The input token count (9) exceeds the maximum number of tokens allowed (8).",
    ),
    _row(
        "bad schema", 400, _BAD, "Declined", "INVALID_SCHEMA", "tools[0].function_declarations[0].parameters: bad"
    ),
    _row("bad request", 400, _BAD, "Declined", "BAD_REQUEST", "Unknown name"),
    _row("wrong place", 400, "FAILED_PRECONDITION", "Declined", "BAD_REQUEST", "User location is not supported"),
    Fault(
        id="a page at a wrong address", vendor="gemini", reply=failing(404, b"<html>Not here</html>"),
        kind="ProviderError", reason="API_ERROR", apart=_THE_FILE,
    ),
    Fault(
        id="a page of a proxy", vendor="gemini", reply=failing(502, b"<html>Bad Gateway</html>"), kind="Unreachable",
        reason="SERVER_OVERLOADED",
    ),
    Fault(
        id="blocked", vendor="gemini", reply=Reply(events=[{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}]),
        kind="Filtered", reason="CONTENT_POLICY", streamed=True,
    ),
    Fault(
        id="stream: unavailable", vendor="gemini",
        reply=Reply(events=[{"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}]),
        kind="Unreachable", reason="SERVER_OVERLOADED", streamed=True,
    ),
)  # fmt: skip
