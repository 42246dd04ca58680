"""Faults in OpenAI's shape: OpenAI's own, xAI's, and what the servers of chat completions made of it."""

from __future__ import annotations

from typing import Any

from tests.library.providers.replay import Reply, recorded
from tests.parity.rows import Fault
from tests.parity.server import failing

_THE_FILE: Any = ("files",)
"""Where the Files API answers so, the file is meant."""
_LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."


def _said(message: str, code: object = None, type: str | None = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def _row(vendor: str, id: str, status: int, body: Any, kind: str, reason: str, **more: Any) -> Fault:
    reply = failing(status, body, **more.pop("headers", {}))
    return Fault(id=id, vendor=vendor, reply=reply, kind=kind, reason=reason, **more)


def _openai(id: str, status: int, body: Any, kind: str, reason: str, **more: Any) -> Fault:
    return _row("openai", id, status, body, kind, reason, **more)


def _inside(id: str, kind: str, reason: str, *events: dict[str, Any], vendor: str = "openai") -> Fault:
    """Reported by a stream."""
    reply = Reply(events=[{"sequence_number": n, **event} for n, event in enumerate(events)])
    return Fault(id=id, vendor=vendor, reply=reply, kind=kind, reason=reason, streamed=True)


_QUOTA, _SPENT = "QuotaExceeded", "QUOTA_EXCEEDED"
_SLOW, _BUSY = "RateLimited", "SERVER_OVERLOADED"

OPENAI = (
    _openai("wrong key", 401, _said("Incorrect API key", "invalid_api_key"), "BadKey", "AUTH_ERROR"),
    _openai("no permission", 403, _said("No."), "BadKey", "AUTH_ERROR"),
    _openai(
        "country", 403, _said("Not here.", "unsupported_country_region_territory", "request_forbidden"), "BadKey",
        "AUTH_ERROR",
    ),
    _openai("deactivated", 401, _said("Gone.", "account_deactivated"), "BadKey", "AUTH_ERROR"),
    _openai("quota, as it was recorded", 429, recorded("openai/openai-error.1.json"), _QUOTA, _SPENT),
    _openai("billing limit", 400, _said("Limit reached.", "billing_hard_limit_reached"), _QUOTA, _SPENT),
    _openai("billing inactive", 429, _said("Not active.", "billing_not_active"), _QUOTA, _SPENT),
    _openai("payment required", 402, _said("Pay."), _QUOTA, _SPENT),
    _openai(
        "rate limit", 429, _said("Slow down.", "rate_limit_exceeded", "requests"), _SLOW, "RATE_LIMIT",
        headers={"retry_after": "7"}, after=7,
    ),
    _openai(
        "rate limit in words", 429, _said("Please try again in 1m30s."), _SLOW, "RATE_LIMIT", after=90,
    ),
    _openai("token limit", 429, _said("Limit 30000", "rate_limit_exceeded", "tokens"), _SLOW, "TOKEN_RATE_LIMIT"),
    _openai("token limit in words", 429, _said("Reached on tokens per min (TPM)"), _SLOW, "TOKEN_RATE_LIMIT"),
    _openai(
        "token limit by header", 429, _said("No."), _SLOW, "TOKEN_RATE_LIMIT",
        headers={"x_ratelimit_remaining_tokens": "0"},
    ),
    _openai("slow down", 503, _said("Slow down", "slow_down"), _SLOW, "RATE_LIMIT"),
    _openai("overloaded", 503, _said("Busy.", None, "server_error"), "Unreachable", _BUSY),
    _openai("overloaded by code", 500, _said("Busy.", "server_is_overloaded"), "Unreachable", _BUSY),
    _openai("overloaded by number", 529, _said("Busy."), _SLOW, _BUSY),
    _openai("timeout", 504, _said("Late."), "Unreachable", "TIMEOUT"),
    _openai("request timeout", 408, _said("Late."), "Unreachable", "TIMEOUT"),
    _openai("internal", 500, _said("Oh.", None, "server_error"), "ProviderError", "API_ERROR"),
    _openai("a page of a proxy", 502, b"<html>Bad Gateway</html>", "Unreachable", _BUSY),
    _openai("a page at a wrong address", 404, b"<html>Not Found</html>", "ProviderError", "API_ERROR", apart=_THE_FILE),
    _openai("wrong path", 404, {}, "ProviderError", "API_ERROR", apart=_THE_FILE),
    _openai(
        "no such model", 404, _said("The model `x` does not exist or you do not have access to it.", "model_not_found"),
        "Declined", "INVALID_MODEL", apart=_THE_FILE,
    ),
    _openai(
        "no such model, as a bad request", 400, _said("The requested model 'x' does not exist.", "model_not_found"),
        "Declined", "INVALID_MODEL",
    ),
    _openai(
        "context", 400, _said("Too long.", "context_length_exceeded"), "ContextTooLong", "CONTEXT_LENGTH_EXCEEDED"
    ),
    _openai("context in words", 400, _said(_LONG), "ContextTooLong", "CONTEXT_LENGTH_EXCEEDED"),
    _openai(
        "context under a rate limit", 429,
        _said("Request too large for gpt-4o on tokens per min (TPM): Limit 30000.", "rate_limit_exceeded", "tokens"),
        "ContextTooLong", "CONTEXT_LENGTH_EXCEEDED",
    ),
    _openai("too large", 413, _said("Large."), "ContextTooLong", "CONTEXT_LENGTH_EXCEEDED", apart=_THE_FILE),
    _openai("policy", 400, _said("No.", "content_policy_violation"), "Filtered", "CONTENT_POLICY"),
    _openai("invalid prompt", 400, _said("Flagged.", "invalid_prompt"), "Filtered", "CONTENT_POLICY"),
    _openai("bad schema", 400, _said("Schema.", "invalid_function_parameters"), "Declined", "INVALID_SCHEMA"),
    _openai("bad form", 400, _said("Schema.", "invalid_json_schema"), "Declined", "INVALID_SCHEMA"),
    _openai(
        "bad value, as it was recorded", 400, _said("Invalid 'temperature'", "decimal_below_min_value"), "Declined",
        "BAD_REQUEST",
    ),
    _openai("unprocessable", 422, _said("No."), "Declined", "BAD_REQUEST"),
    _inside("stream: quota, as it was recorded", _QUOTA, _SPENT, *recorded("openai/openai-error.1.chunks.txt")),
    _inside(
        "stream: rate limit", _SLOW, "RATE_LIMIT",
        {"type": "error", "error": {"type": "requests", "code": "rate_limit_exceeded", "message": "Slow down."}},
    ),
    _inside(
        "stream: token limit", _SLOW, "TOKEN_RATE_LIMIT",
        {"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "Slow down."}},
    ),
    _inside(
        "stream: flat", _SLOW, "RATE_LIMIT",
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down.", "param": None},
    ),
    _inside(
        "stream: overloaded", "Unreachable", _BUSY,
        {"type": "error", "error": {"type": "server_error", "code": "server_is_overloaded", "message": "Busy."}},
    ),
    _inside(
        "stream: internal", "ProviderError", "API_ERROR",
        {"type": "error", "error": {"type": "server_error", "code": "server_error", "message": "Oh."}},
    ),
)  # fmt: skip


def _xai(id: str, status: int, body: Any, kind: str, reason: str, **more: Any) -> Fault:
    return _row("xai", id, status, body, kind, reason, **more)


XAI = (
    _xai(
        "wrong key", 400,
        {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: ab***"},
        "BadKey", "AUTH_ERROR",
    ),
    _xai("no key", 401, {"code": "unauthenticated", "error": "No key."}, "BadKey", "AUTH_ERROR"),
    _xai("blocked", 403, {"code": "The caller is not permitted", "error": "Blocked."}, "BadKey", "AUTH_ERROR"),
    _xai("payment required", 402, {"error": "Pay."}, _QUOTA, _SPENT),
    _xai(
        "no credits", 403,
        {"code": "The caller does not have permission", "error": "Your team has used all available credits or reached"
         " its monthly spending limit."},
        _QUOTA, _SPENT,
    ),
    _xai(
        "no credits, as a rate limit", 429,
        {"error": "Your team has either used all available credits or reached its monthly spending limit."},
        _QUOTA, _SPENT,
    ),
    _xai("rate limit", 429, {"error": "Too many."}, _SLOW, "RATE_LIMIT", headers={"retry_after": "3"}, after=3),
    _xai("overloaded", 503, {"error": "At capacity."}, "Unreachable", _BUSY),
    _xai("timeout", 504, {"error": "Late."}, "Unreachable", "TIMEOUT"),
    _xai("internal", 500, {"error": "Oh."}, "ProviderError", "API_ERROR"),
    _xai(
        "no such model", 404, {"code": "not-found", "error": "The model grok-9 does not exist."}, "Declined",
        "INVALID_MODEL", apart=_THE_FILE,
    ),
    _xai("a page at a wrong address", 404, b"<html>Not Found</html>", "ProviderError", "API_ERROR", apart=_THE_FILE),
    _xai(
        "context", 400, {"code": "invalid", "error": "This model's maximum prompt length is 256000 but the request"
                         " contains 300000 tokens."},
        "ContextTooLong", "CONTEXT_LENGTH_EXCEEDED",
    ),
    _xai("bad request", 400, {"code": "invalid", "error": "Argument not supported: effort"}, "Declined", "BAD_REQUEST"),
    _xai("unprocessable", 422, {"error": "Failed to deserialize."}, "Declined", "BAD_REQUEST"),
    _xai("flagged", 403, {"error": "Content violates usage guidelines: flagged."}, "Filtered", "CONTENT_POLICY"),
    _inside(
        "stream: rate limit", _SLOW, "RATE_LIMIT",
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down.", "param": None}, vendor="xai",
    ),
)  # fmt: skip


def _chat(vendor: str, id: str, status: int, body: Any, kind: str, reason: str, **more: Any) -> Fault:
    return _row(vendor, id, status, body, kind, reason, **more)


_TOO_LONG = ("ContextTooLong", "CONTEXT_LENGTH_EXCEEDED")
_EVERY_CHAT = tuple(
    row
    for vendor in ("lm_studio", "ollama", "vllm")
    for row in (
        _chat(vendor, "wrong key", 401, {"error": "Unauthorized"}, "BadKey", "AUTH_ERROR"),
        _chat(vendor, "forbidden", 403, {"error": "Forbidden"}, "BadKey", "AUTH_ERROR"),
        _chat(vendor, "busy", 429, {"error": "busy"}, _SLOW, "RATE_LIMIT", headers={"retry_after": "2"}, after=2),
        _chat(vendor, "unavailable", 503, {"error": "no model is free"}, "Unreachable", _BUSY),
        _chat(vendor, "internal", 500, {"error": "oh"}, "ProviderError", "API_ERROR"),
        _chat(vendor, "a page at a wrong address", 404, b"404 page not found", "ProviderError", "API_ERROR"),
        _chat(vendor, "a page of a proxy", 502, b"<html>Bad Gateway</html>", "Unreachable", _BUSY),
        _chat(vendor, "timeout", 504, b"timeout", "Unreachable", "TIMEOUT"),
        _chat(vendor, "bad request", 400, {"error": "bad"}, "Declined", "BAD_REQUEST"),
        _chat(
            vendor, "loading", 503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
            "Loading", _BUSY, after=5,
        ),
        Fault(
            id="stream: in words", vendor=vendor, reply=Reply(events=[{"error": {"message": "model runner crashed"}}]),
            kind="ProviderError", reason="API_ERROR", streamed=True,
        ),
        Fault(
            id="stream: context", vendor=vendor, reply=Reply(events=[{"error": {"message": _LONG}}]),
            kind=_TOO_LONG[0], reason=_TOO_LONG[1], streamed=True,
        ),
    )
)  # fmt: skip
CHAT = (
    *_EVERY_CHAT,
    _chat(
        "lm_studio", "context", 400,
        {"error": "The number of tokens to keep from the initial prompt is greater than the context length"
         " (n_keep: 13055>= n_ctx: 4096)."}, *_TOO_LONG,
    ),
    _chat(
        "lm_studio", "context overflow", 400,
        {"error": "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with"
         " context length of only 32768 tokens, which is not enough."}, *_TOO_LONG,
    ),
    _chat(
        "ollama", "no such model", 404,
        {"error": {"message": 'model "qwen" not found, try pulling it first', "type": "api_error"}}, "Declined",
        "INVALID_MODEL",
    ),
    _chat("ollama", "context", 400, {"error": "the input length exceeds the context length"}, *_TOO_LONG),
    _chat(
        "ollama", "no tools", 400, {"error": {"message": "qwen does not support tools", "type": "api_error"}},
        "Declined", "BAD_REQUEST",
    ),
    _chat(
        "vllm", "no such model", 404,
        {"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404},
        "Declined", "INVALID_MODEL",
    ),
    _chat("vllm", "context", 400, {"object": "error", "message": _LONG, "type": "BadRequestError"}, *_TOO_LONG),
    _chat("vllm", "unprocessable", 422, {"detail": [{"msg": "field required"}]}, "Declined", "BAD_REQUEST"),
)  # fmt: skip
