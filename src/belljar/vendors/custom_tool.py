"""Read what a custom tool is given, on a wire that has only functions: a call of one with the text as its `input`."""

from __future__ import annotations

import msgspec

from belljar.wire import codec


def read_input(arguments: str) -> str:
    """The text; the arguments themselves where they are none of such a call."""
    try:
        data = codec.decode(arguments)
    except msgspec.DecodeError:
        return arguments
    text = data.get("input") if isinstance(data, dict) else data
    return text if isinstance(text, str) else arguments
