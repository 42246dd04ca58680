"""Anthropic's faults: its types, its codes in `details`, and the words of those that come as a plain bad request."""

from __future__ import annotations

from typing import Any

from tests.library.providers.replay import Reply
from tests.parity.rows import Fault
from tests.parity.server import failing


def _said(type: str, message: str = "It did not work.", code: str | None = None) -> dict[str, Any]:
    error: dict[str, Any] = {"type": type, "message": message}
    if code:
        error["details"] = {"error_code": code}
    return {"type": "error", "error": error, "request_id": "req_1"}


def _row(
    id: str, status: int, type: str, kind: str, reason: str, message: str = "It did not work.", **more: Any
) -> Fault:
    reply = failing(status, _said(type, message, more.pop("code", None)), **more.pop("headers", {}))
    return Fault(id=id, vendor="anthropic", reply=reply, kind=kind, reason=reason, **more)


def _inside(id: str, type: str, kind: str, reason: str, message: str = "It did not work.", **more: Any) -> Fault:
    """Reported by a stream."""
    reply = Reply(events=[_said(type, message, more.pop("code", None))])
    return Fault(id=id, vendor="anthropic", reply=reply, kind=kind, reason=reason, streamed=True, **more)


_BAD, _LOST = "invalid_request_error", "not_found_error"
_THE_FILE: Any = ("files",)
"""Where the Files API answers so, the file is meant."""

ANTHROPIC = (
    _row("wrong key", 401, "authentication_error", "BadKey", "AUTH_ERROR", "invalid x-api-key"),
    _row("no permission", 403, "permission_error", "BadKey", "AUTH_ERROR"),
    _row("scope missing", 403, "permission_error", "BadKey", "AUTH_ERROR", code="api_key_scope_missing"),
    _row("billing", 402, "billing_error", "QuotaExceeded", "QUOTA_EXCEEDED"),
    _row(
        "credit balance", 400, _BAD, "QuotaExceeded", "QUOTA_EXCEEDED",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.",
    ),
    _row(
        "usage limits", 400, _BAD, "QuotaExceeded", "QUOTA_EXCEEDED",
        "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
    ),
    _row(
        "spend limit", 429, "rate_limit_error", "QuotaExceeded", "QUOTA_EXCEEDED", code="enforced_spend_limit_reached"
    ),
    _row("on hold", 403, "permission_error", "QuotaExceeded", "QUOTA_EXCEEDED", code="organization_on_hold"),
    _row("storage full", 403, "permission_error", "QuotaExceeded", "QUOTA_EXCEEDED", code="storage_quota_exceeded"),
    _row(
        "rate limit", 429, "rate_limit_error", "RateLimited", "RATE_LIMIT",
        "This request would exceed your organization's rate limit.", headers={"retry_after": "7"}, after=7,
    ),
    _row("ramp", 429, "rate_limit_error", "RateLimited", "RATE_LIMIT", code="ramp_limit_exceeded"),
    _row(
        "token limit", 429, "rate_limit_error", "RateLimited", "TOKEN_RATE_LIMIT",
        headers={"anthropic_ratelimit_tokens_remaining": "0"},
    ),
    _row("overloaded", 529, "overloaded_error", "RateLimited", "SERVER_OVERLOADED", "Overloaded"),
    _row("cmek", 503, "api_error", "Unreachable", "SERVER_OVERLOADED", code="cmek_context_unavailable"),
    _row("timeout", 504, "timeout_error", "Unreachable", "TIMEOUT"),
    _row("internal", 500, "api_error", "ProviderError", "API_ERROR", "Internal server error"),
    _row(
        "prompt too long", 400, _BAD, "ContextTooLong", "CONTEXT_LENGTH_EXCEEDED",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ),
    _row(
        "context limit", 400, _BAD, "ContextTooLong", "CONTEXT_LENGTH_EXCEEDED",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    ),
    _row("request too large", 413, "request_too_large", "ContextTooLong", "CONTEXT_LENGTH_EXCEEDED", apart=_THE_FILE),
    _row("no such model", 404, _LOST, "Declined", "INVALID_MODEL", "model: claude-nine", apart=_THE_FILE),
    _row("wrong path", 404, _LOST, "ProviderError", "API_ERROR", "Not found", apart=_THE_FILE),
    _row("bad request", 400, _BAD, "Declined", "BAD_REQUEST", "messages: at least one message is required"),
    _row(
        "bad schema", 400, _BAD, "Declined", "INVALID_SCHEMA", "tools.0.custom.input_schema: JSON schema is invalid"
    ),
    _row("name conflict", 400, _BAD, "Declined", "BAD_REQUEST", code="tool_name_conflict"),
    Fault(
        id="a page at a wrong address", vendor="anthropic", reply=failing(404, b"<html>Not Found</html>"),
        kind="ProviderError", reason="API_ERROR", apart=_THE_FILE,
    ),
    Fault(
        id="a page of a proxy", vendor="anthropic", reply=failing(502, b"<html>Bad Gateway</html>"),
        kind="Unreachable", reason="SERVER_OVERLOADED",
    ),
    Fault(
        id="overloaded without a word", vendor="anthropic", reply=failing(529, b""), kind="RateLimited",
        reason="SERVER_OVERLOADED",
    ),
    _inside("stream: overloaded", "overloaded_error", "RateLimited", "SERVER_OVERLOADED", "Overloaded"),
    _inside("stream: rate limit", "rate_limit_error", "RateLimited", "RATE_LIMIT"),
    _inside("stream: internal", "api_error", "ProviderError", "API_ERROR"),
    _inside("stream: timeout", "timeout_error", "Unreachable", "TIMEOUT"),
    _inside(
        "stream: spend limit", "rate_limit_error", "QuotaExceeded", "QUOTA_EXCEEDED",
        code="enforced_spend_limit_reached",
    ),
    _inside(
        "stream: credit balance", _BAD, "QuotaExceeded", "QUOTA_EXCEEDED",
        "Your credit balance is too low to access the Anthropic API.",
    ),
)  # fmt: skip
