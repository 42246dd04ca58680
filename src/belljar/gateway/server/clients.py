"""What is known of clients: which of them read over an event that OpenAI does not send."""

from __future__ import annotations

from collections.abc import Mapping

from belljar.errors import InvalidRequest

HEADER = "belljar-live-output"
_SPOKEN = {b"true": True, b"false": False}
_KNOWN = frozenset([b"python"])
"""Languages of OpenAI's own SDKs, as these name themselves. The one for Node throws at types that it does not know."""


def wants_live_output(headers: Mapping[bytes, bytes]) -> bool:
    """Whether to tell live output: to those who ask, or are known to take it. Others may know only OpenAI's types."""
    asked = headers.get(HEADER.encode())
    if asked is None:
        return headers.get(b"x-stainless-lang") in _KNOWN
    spoken = _SPOKEN.get(asked.strip().lower())
    if spoken is None:
        raise InvalidRequest(f"Invalid header {HEADER}: '{asked.decode('latin-1')}'. Send 'true' or 'false'.")
    return spoken
