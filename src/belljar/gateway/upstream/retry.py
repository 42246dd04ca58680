"""When to ask again, and after how long: rules without I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from belljar.gateway.upstream.http_response import ConnectionFailed

RETRIES = 2
RETRIED = frozenset({429, 500, 502, 503, 504, 529})
FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0
"""A server that asks for a longer pause is answered to the caller, who can decide."""


def after_break(broken: ConnectionFailed, attempt: int, chance: float) -> float | None:
    """Seconds to wait after attempt 0, 1, …; None to give up. `chance` is from 0 to 1."""
    if attempt >= RETRIES or not broken.resend:
        return None
    return 0.0 if broken.dropped and attempt == 0 else _backoff(attempt, chance)


def after_answer(status: int, headers: Mapping[str, str], attempt: int, *, chance: float, now: float) -> float | None:
    """Seconds to wait before asking again; None if the answer stands. `now` is in seconds since the epoch."""
    if status < 400 or attempt >= RETRIES:
        return None
    wanted = headers.get("x-should-retry", "").strip().lower()
    if wanted == "false" or (wanted != "true" and status not in RETRIED):
        return None
    asked = _asked(headers, now)
    if asked is None:
        return _backoff(attempt, chance)
    if asked > LONGEST_SECONDS:
        return None
    return asked + chance * FIRST_SECONDS / 2  # those who were sent away together do not come back together


def _backoff(attempt: int, chance: float) -> float:
    return FIRST_SECONDS * 2.0**attempt * (0.5 + chance / 2)


def _asked(headers: Mapping[str, str], now: float) -> float | None:
    """The pause that the server asks for: milliseconds, seconds or a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
