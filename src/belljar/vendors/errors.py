"""A server's errors as ours: by the code it gives, else by its words where no code tells, else by the HTTP status.

OpenAI's shape and what others made of it: nested or flat, an object or a bare text, before the stream or inside it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from types import MappingProxyType

import msgspec
from msgspec import Struct

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
from belljar.wire import codec
from belljar.wire.items import Json

_CODES: Mapping[str, type[ProviderError]] = MappingProxyType(
    {
        "invalid_api_key": BadKey,
        "authentication_error": BadKey,
        "account_deactivated": BadKey,
        "insufficient_quota": QuotaExceeded,
        "billing_hard_limit_reached": QuotaExceeded,
        "billing_not_active": QuotaExceeded,
        "arrearage": QuotaExceeded,
        "rate_limit_exceeded": RateLimited,
        "rate_limit_error": RateLimited,
        "too_many_requests": RateLimited,
        "slow_down": RateLimited,
        "context_length_exceeded": ContextTooLong,
        "exceed_context_size_error": ContextTooLong,
        "content_filter": Filtered,
        "content_policy_violation": Filtered,
        "image_content_policy_violation": Filtered,
        "data_inspection_failed": Filtered,
        "invalid_prompt": Filtered,
        "bio_policy": Filtered,
        "misalignment_policy_violation": Filtered,
        "model_not_found": Declined,
        "server_is_overloaded": Unreachable,
    }
)
_REASONS: Mapping[type[ProviderError], str] = MappingProxyType(
    {
        BadKey: "AUTH_ERROR",
        QuotaExceeded: "QUOTA_EXCEEDED",
        ContextTooLong: "CONTEXT_LENGTH_EXCEEDED",
        Filtered: "CONTENT_POLICY",
    }
)
"""The library's codes of those that have only one."""
_SCHEMAS = frozenset(["invalid_function_parameters", "invalid_json_schema"])
_REQUEST = ("invalid_", "image_", "empty_image", "unsupported_image", "failed_to_download_image")
"""How codes begin that find fault with the request. They come with any status, and count where there is none."""
_STATUSES: Mapping[int, type[ProviderError]] = MappingProxyType(
    {
        400: Declined,
        401: BadKey,
        402: QuotaExceeded,
        403: BadKey,
        404: ProviderError,  # not the model, which was looked for: the address, which is the operator's
        408: Unreachable,
        409: Declined,
        413: ContextTooLong,
        415: Declined,
        422: Declined,
        429: RateLimited,
        498: RateLimited,
        502: Unreachable,
        503: Unreachable,
        504: Unreachable,
        529: RateLimited,
    }
)
_TOO_LONG = re.compile(
    r"maximum context length"
    r"|context[ _](length|size|window)\b[^.]{0,80}\bexceed"
    r"|exceed[^.]{0,80}\bcontext[ _](length|size|window)"
    r"|(greater|larger) than the context (length|size|window)"
    r"|context length of only|context the overflows|reached context length"
    r"|maximum model length|too long to fit into the model|prompt (is )?too long"
    r"|maximum prompt length is|input tokens exceed"
    r"|range of input length|reduce the length of (the|your)|request too large",
    re.IGNORECASE,
)
_UNFIT = re.compile(
    r"(image|audio|video|vision|tool|function)s?( input| calling| use)? (is|are) not (supported|enabled)"
    r"|(does not|doesn't|do not|don't|cannot) support (images?|audio|vision|video|multi-?modal|tools?|functions?)\b"
    r"|no endpoints found that support|missing data required for image input|not a multi-?modal model"
    r"|vision add-on is not loaded|at most 0 (image|audio|video)|only '?text'? content type is supported"
    r"|content must be a string|failed to parse (tools|messages|tool_choice|grammar)|\bjson\.exception\.",
    re.IGNORECASE,
)
"""What servers write of a request that their model or its template cannot take, some as of a fault of their own."""
_PICTURES = re.compile(r"image|vision|multi-?modal", re.IGNORECASE)
_WRONG_KEY = re.compile(r"incorrect api key provided", re.IGNORECASE)
_SPENT = re.compile(r"used all available credits|monthly spending limit|have any credits", re.IGNORECASE)
"""xAI's words: a wrong key is a 400 there, and an empty account a 403 or a 429."""
_FLAGGED = re.compile(r"\bmoderation|\bflagged\b|content polic|inappropriate content", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"\bmodel\b.{0,200}\b(not found|does(n't| not) exist|is not (available|a valid))|no such model|unknown model"
    r"|not a valid model",
    re.IGNORECASE | re.DOTALL,
)
_LOADING = re.compile(
    r"\bloading (the )?model\b|\bmodel\b.{0,200}\bis (currently |still )?(being )?load(ing|ed)\b", re.IGNORECASE
)
_WAIT = re.compile(r"try again in (?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(ms|s)\b)?", re.IGNORECASE)
_LONGEST = 2000
_BLIND = ". Send this model no images, or ask one that sees them."
_VAGUE = frozenset(["server_error", "api_error", "internal_server_error"])
"""Codes of a server that takes a caller's fault for its own."""


class _Said(Struct, frozen=True):
    message: str
    codes: tuple[str, ...] = ()
    param: str | None = None
    status: int | None = None


def fault(status: int, headers: Mapping[str, str], body: bytes, upstream: str) -> ProviderError:
    """The error that an answer other than 200 means; `upstream` names the server in the message.

    It says what is wrong. What to do about a key or an address is another thing to each who shows it, who adds it.
    """
    try:
        said = _read(codec.decode(body))
    except msgspec.DecodeError:
        text = " ".join(body.decode(errors="replace").split())
        said = _Said("" if text.startswith("<") else text)
    return _classify_error(said, status, {name.lower(): value for name, value in headers.items()}, upstream)


def read_stream_error(error: Json, upstream: str) -> ProviderError:
    """The error that a stream itself reports."""
    said = _read(error)
    return _classify_error(said, said.status, {}, upstream)


def is_loading(status: int | None, words: str) -> bool:
    """Whether a server says that its model is not there yet, as llama.cpp does while it reads it."""
    return status == 503 and _LOADING.search(words) is not None


def _read(error: Json) -> _Said:
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, dict):
        inner = error.get("error") or error.get("detail") or error
        if isinstance(inner, dict):
            code = inner.get("code")
            number = isinstance(code, int) and 400 <= code < 600
            return _Said(
                str(inner.get("message") or ""),
                tuple(str(value).lower() for value in (code, inner.get("type")) if value),
                inner["param"] if isinstance(inner.get("param"), str) else None,
                code if number else None,
            )
        error = inner
    return _Said(error if isinstance(error, str) else msgspec.json.encode(error).decode())


def _classify_error(said: _Said, status: int | None, headers: Mapping[str, str], upstream: str) -> ProviderError:
    kind = _kind(said, status)
    error = _error(kind, said, status, headers, upstream)
    error.reason = _reason(error, said, status, headers)
    error.again = _again(error, status, headers)
    if error.after is None and (error.again or error.retryable):
        error.after = _after(headers, "")
    return error


def _again(error: ProviderError, status: int | None, headers: Mapping[str, str]) -> bool | None:
    """The server has the last word; what failed inside of it is taken to pass. The rest its class tells."""
    told = headers.get("x-should-retry", "").strip().lower()
    if told in ("true", "false"):
        return told == "true"
    return True if type(error) is ProviderError and (status or 500) >= 500 else None


def _reason(error: ProviderError, said: _Said, status: int | None, headers: Mapping[str, str]) -> str:
    """Which of the library's codes it is. What broke before the server could say a word has none here."""
    match error:
        case Declined():
            if error.fault == "model_not_found":
                return "INVALID_MODEL"
            return "INVALID_SCHEMA" if _SCHEMAS.intersection(said.codes) else "BAD_REQUEST"
        case RateLimited():
            if status == 529 or "overloaded_error" in said.codes:
                return "SERVER_OVERLOADED"
            spent = "tokens" in said.codes or headers.get("x-ratelimit-remaining-tokens") == "0"
            return "TOKEN_RATE_LIMIT" if spent or "tokens per min" in said.message else "RATE_LIMIT"
        case Unreachable():
            late = status in (408, 504) or "timeout_error" in said.codes
            return "TIMEOUT" if late else "SERVER_OVERLOADED"
        case _:
            return _REASONS.get(type(error), "API_ERROR")


def _error(
    kind: type[ProviderError], said: _Said, status: int | None, headers: Mapping[str, str], upstream: str
) -> ProviderError:
    what = said.message[:_LONGEST] or (f"it answered {status}" if status else "it reported an error without a word")
    if kind is BadKey:  # its words may hold part of the key
        shown = f" ({status})" if status else ""
        return BadKey(f"{upstream} refused the key{shown}")
    if kind is RateLimited:
        return RateLimited(f"{upstream}: {what}", after=_after(headers, said.message))
    if kind is Declined:
        lost = _NO_MODEL.search(said.message) is not None or "model_not_found" in said.codes
        named = [code for code in said.codes if not code.isdigit() and code not in _VAGUE]
        blind = _UNFIT.search(said.message) and _PICTURES.search(said.message)
        return Declined(
            f"{upstream}: {what}{_BLIND if blind else ''}",
            param="model" if lost else said.param,
            fault="model_not_found" if lost else next(iter(named), None),
        )
    if kind is Unreachable and is_loading(status, said.message):
        wait = _after(headers, said.message)
        what = f"{upstream} is still loading its model; ask again in a moment"
        return Loading(what) if wait is None else Loading(what, after=wait)
    return kind(f"{upstream}: {what}")


def _kind(said: _Said, status: int | None) -> type[ProviderError]:
    if _TOO_LONG.search(said.message):  # first: some say so under the code of a rate limit
        return ContextTooLong
    for code in said.codes:
        if code in _CODES:
            return _CODES[code]
    if status not in (401, 402, 403, 429) and _UNFIT.search(said.message):
        return Declined
    if status in (403, 429, None) and _SPENT.search(said.message):
        return QuotaExceeded
    if status in (400, 403, 404, None):
        if _NO_MODEL.search(said.message):
            return Declined
        if _WRONG_KEY.search(said.message):
            return BadKey
        if _FLAGGED.search(said.message):
            return Filtered
    if status is None and any(code.startswith(_REQUEST) for code in said.codes):
        return Declined
    return _STATUSES.get(status or 500, ProviderError)


def _after(headers: Mapping[str, str], message: str) -> float | None:
    """Seconds to wait. A date is counted from the answer's own date, so that no clock is read here."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is not None:
        return seconds
    if given and "date" in headers:
        try:
            wait = parsedate_to_datetime(given) - parsedate_to_datetime(headers["date"])
        except (ValueError, TypeError):  # no date, or one of the two without a zone
            return None
        return max(0.0, wait.total_seconds())
    found = _WAIT.search(message)
    if found is None or not (found[1] or found[2]):
        return None
    seconds = float(found[2] or 0) / (1000 if found[3] == "ms" else 1)
    return 60.0 * int(found[1] or 0) + seconds


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
