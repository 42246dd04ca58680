"""What is known of clients: which of them stop at an event that OpenAI does not send."""

from __future__ import annotations

from collections.abc import Mapping

from belljar.errors import InvalidRequest

HEADER = "belljar-live-output"
_SPOKEN = {b"true": True, b"false": False}


def live(headers: Mapping[bytes, bytes]) -> bool:
    """Whether to tell live output. `responses.stream()` of openai for Node throws at types it does not know."""
    asked = headers.get(HEADER.encode())
    if asked is None:
        return headers.get(b"x-stainless-lang") != b"js"
    spoken = _SPOKEN.get(asked.strip().lower())
    if spoken is None:
        raise InvalidRequest(f"Invalid header {HEADER}: '{asked.decode('latin-1')}'. Send 'true' or 'false'.")
    return spoken
