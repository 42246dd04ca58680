"""Turn exceptions into HTTP status, headers and OpenAI's error body."""

from __future__ import annotations

import math

import msgspec
from msgspec import Struct

from belljar import errors
from belljar.errors import BelljarError

_NONE_FREE_AFTER = 5.0
_TOO_MANY = 429
_SOON = 5.0
_LATER = 60.0
"""Seconds after which to come again where nobody told: to a limit on the rate, and to one that time hardly mends."""
_TOO_LONG = (
    "Your input exceeds the context window of this model (context_length_exceeded): its maximum context length is"
    " reached. Send less, or compact the conversation."
)
"""The words by which LangChain, LiteLLM, CrewAI and others know it: not all of them look at the code."""


class Fault(Struct, frozen=True, kw_only=True):
    """What an HTTP answer, an `error` event or a failed response says of an error."""

    status: int
    type: str
    message: str
    param: str | None = None
    code: str | None = None
    retry_after: float | None = None
    """Seconds."""
    retryable: bool | None = None

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Whether and when to come again: left alone, the SDKs decide by the status."""
        headers = []
        after = self.retry_after
        if after is None and self.status == _TOO_MANY:
            after = _LATER if self.retryable is False else _SOON
        if after is not None:
            headers.append((b"retry-after", b"%d" % max(1, math.ceil(after))))
        if self.retryable is False:
            headers.append((b"x-should-retry", b"false"))
        return headers


class ErrorSaid(Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(Struct, frozen=True):
    """The one shape of an error on this wire; all four keys are always there."""

    error: ErrorSaid


def body(fault: Fault) -> bytes:
    # A file name that is not UTF-8 may be part of the message.
    message = fault.message.encode(errors="replace").decode()
    return msgspec.json.encode(ErrorBody(ErrorSaid(message, fault.type, fault.param, fault.code)))


def of(error: BelljarError) -> Fault:
    """Most follow from the branch of the tree they are on; the rest are told apart here."""
    kind, code = _find_type(error)
    return Fault(
        status=502 if isinstance(error, errors.BadKey) else error.status,
        type=kind,
        message=_read_message(error),
        param=_param(error),
        code=code,
        retry_after=_after(error),
        retryable=error.retryable,
    )


def unexpected(request_id: str) -> Fault:
    """An exception that is none of ours: the log has it, under this id; the caller learns nothing of our insides."""
    return Fault(
        status=500,
        type="server_error",
        message=f"Internal error. Tell the operator of this server the request id {request_id}: the log has the cause.",
    )


def _find_type(error: BelljarError) -> tuple[str, str | None]:
    """Type and code."""
    match error:
        case errors.InvalidRequest() | errors.Declined():
            return "invalid_request_error", error.fault
        case errors.Unauthenticated():
            return "invalid_request_error", "invalid_api_key"
        case errors.OverQuota() | errors.RateLimited():
            return "rate_limit_error", "rate_limit_exceeded"
        case errors.QuotaExceeded() | errors.StorageExceeded():
            return "insufficient_quota", "insufficient_quota"
        case errors.ContextTooLong():
            return "invalid_request_error", "context_length_exceeded"
        case errors.Filtered():
            return "invalid_request_error", "content_filter"
        case errors.BadKey():
            return "server_error", "upstream_bad_key"
        case errors.CallerError():
            return "invalid_request_error", None
        case errors.WorkspaceError():
            return "invalid_request_error", error.code
        case _:
            return "server_error", error.code


def _read_message(error: BelljarError) -> str:
    if isinstance(error, errors.BadKey):
        return f"The model's provider refused the key that this server has for it; its operator must change it. {error}"
    if isinstance(error, errors.ContextTooLong):
        return f"{_TOO_LONG} {error}"
    return str(error)


def _param(error: BelljarError) -> str | None:
    match error:
        case errors.InvalidRequest() | errors.NotFound() | errors.Declined():
            return error.param
        case errors.ContextTooLong():
            return "input"
        case _:
            return None


def _after(error: BelljarError) -> float | None:
    match error:
        case errors.OverQuota() | errors.ProviderError() | errors.StoreUnavailable():
            return error.after
        case errors.NoneFree():
            return _NONE_FREE_AFTER
        case _:
            return None
