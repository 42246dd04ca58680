"""Anthropic's errors in the codes that `faults` knows: by its own code, its type, and its words where neither tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from belljar.errors import ProviderError
from belljar.vendors import errors

_CODES = MappingProxyType(
    {
        "api_key_scope_missing": "invalid_api_key",
        "enforced_spend_limit_reached": "insufficient_quota",
        "storage_quota_exceeded": "insufficient_quota",
        "organization_on_hold": "insufficient_quota",
        "ramp_limit_exceeded": "rate_limit_exceeded",
        "request_body_too_large_after_decoding": "context_length_exceeded",
        "cmek_context_unavailable": "server_is_overloaded",
        "authentication_error": "invalid_api_key",
        "permission_error": "invalid_api_key",
        "billing_error": "insufficient_quota",
        "rate_limit_error": "rate_limit_exceeded",
        "overloaded_error": "rate_limit_exceeded",
        "timeout_error": "server_is_overloaded",
        "request_too_large": "context_length_exceeded",
    }
)
_WORDS = (
    ("insufficient_quota", re.compile(r"credit balance is too low|usage limits", re.IGNORECASE)),
    ("context_length_exceeded", re.compile(r"prompt is too long|exceed context limit", re.IGNORECASE)),
    ("model_not_found", re.compile(r"^model: ", re.IGNORECASE)),
)
"""What comes as an invalid request, or as something that was not found, and is known by its message alone."""


class _Details(Struct, frozen=True):
    error_code: str | None = None


class _Error(Struct, frozen=True):
    type: str = ""
    message: str = ""
    details: _Details | None = None


class _Body(Struct, frozen=True):
    error: _Error


_body = msgspec.json.Decoder(_Body).decode


def fault(status: int, headers: Mapping[str, str], body: bytes, upstream: str) -> ProviderError:
    """The error that an answer other than 200 means; `upstream` names the server in the message."""
    error = errors.fault(status, headers, _add_code(body), upstream)
    if error.reason == "RATE_LIMIT" and headers.get("anthropic-ratelimit-tokens-remaining") == "0":
        error.reason = "TOKEN_RATE_LIMIT"
    elif error.reason == "BAD_REQUEST" and "input_schema" in str(error):
        error.reason = "INVALID_SCHEMA"
    return error


def read_stream_error(payload: bytes, upstream: str) -> ProviderError:
    """The error that a stream itself reports, as its whole event."""
    return errors.read_stream_error(msgspec.json.decode(_add_code(payload)), upstream)


def _add_code(body: bytes) -> bytes:
    """The same with a code that is known; as it is where there is none to give."""
    try:
        error = _body(body).error
    except msgspec.DecodeError:
        return body
    code = _code(error)
    if code is None:
        return body
    return msgspec.json.encode({"error": {"message": error.message, "code": code, "type": error.type}})


def _code(error: _Error) -> str | None:
    own = error.details.error_code if error.details else None
    for told in (own or "", error.type):
        if told in _CODES:
            return _CODES[told]
    if error.type in ("invalid_request_error", "not_found_error"):
        return next((code for code, words in _WORDS if words.search(error.message)), own)
    return own
