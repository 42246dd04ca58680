"""Google's errors in the terms that `faults` reads: its status as a code, the pause it asks for as a header."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from belljar.errors import ProviderError
from belljar.vendors import errors
from belljar.wire import codec
from belljar.wire.items import Json

_CODES = MappingProxyType(
    {
        "UNAUTHENTICATED": "invalid_api_key",
        "PERMISSION_DENIED": "invalid_api_key",
        "RESOURCE_EXHAUSTED": "rate_limit_exceeded",
        "UNAVAILABLE": "server_is_overloaded",
        "DEADLINE_EXCEEDED": "server_is_overloaded",
        "NOT_FOUND": "model_not_found",
    }
)
_TOO_LONG = re.compile(r"token count.{0,80}exceeds|exceeds the maximum number of (input )?tokens", re.IGNORECASE)
_BAD_KEY = re.compile(r"api key (not valid|expired|not found)|API_KEY_INVALID", re.IGNORECASE)
_SPENT = re.compile(r"PerDay|prepay|credits? (are|is) depleted|billing account", re.IGNORECASE)
"""A quota that waiting a moment does not give back."""
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


def fault(status: int, headers: Mapping[str, str], body: bytes, upstream: str) -> ProviderError:
    """The error that an answer other than 200 means; `upstream` names the server in the message."""
    try:
        error = _error(codec.decode(body))
    except msgspec.DecodeError:
        error = None
    if error is None:
        return errors.fault(status, headers, body, upstream)
    wait = _wait(error)
    told = headers if wait is None else {**headers, "retry-after": wait}
    said = {"error": {"code": _code(error), "message": error.get("message")}}
    meant = errors.fault(status, told, msgspec.json.encode(said), upstream)
    if meant.reason == "RATE_LIMIT" and any("Token" in quota for quota in _list_violated_quotas(error)):
        meant.reason = "TOKEN_RATE_LIMIT"
    elif meant.reason == "BAD_REQUEST" and "function_declarations" in str(meant):
        meant.reason = "INVALID_SCHEMA"
    return meant


def read_stream_error(error: Json, upstream: str) -> ProviderError:
    """The error that a stream itself reports."""
    found = _error({"error": error})
    code = found.get("code") if found else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return fault(status, {}, msgspec.json.encode({"error": error}), upstream)


def _error(data: Json) -> dict[str, Any] | None:
    """A stream that was never begun answers with a list of one."""
    if isinstance(data, list) and data:
        data = data[0]
    error = data.get("error") if isinstance(data, dict) else None
    return error if isinstance(error, dict) and isinstance(error.get("status"), str) else None


def _code(error: Mapping[str, Any]) -> str:
    status = str(error["status"])
    message = str(error.get("message") or "")
    details = msgspec.json.encode(error.get("details") or []).decode()
    if status == "INVALID_ARGUMENT":
        if _TOO_LONG.search(message):
            return "context_length_exceeded"
        if _BAD_KEY.search(message) or _BAD_KEY.search(details):
            return "invalid_api_key"
    if status == "RESOURCE_EXHAUSTED" and (_SPENT.search(details) or _SPENT.search(message)):
        return "insufficient_quota"
    return _CODES.get(status, status.lower())


def _list_violated_quotas(error: Mapping[str, Any]) -> list[str]:
    """The quotas that were used up."""
    details = [one for one in error.get("details") or () if isinstance(one, dict)]
    violations = [one for detail in details for one in detail.get("violations") or () if isinstance(one, dict)]
    return [str(one.get("quotaId")) for one in violations]


def _wait(error: Mapping[str, Any]) -> str | None:
    for detail in error.get("details") or ():
        if isinstance(detail, dict) and str(detail.get("@type")).endswith("google.rpc.RetryInfo"):
            found = _SECONDS.fullmatch(str(detail.get("retryDelay")))
            return found[1] if found else None
    return None
