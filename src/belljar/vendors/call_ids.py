"""Ids of calls, which every wire wants in its own form: one that fits goes as it is, for another a short one is made.

What is made is nine letters and digits, which every server takes that we know of, and depends on nothing but the
conversation: the same call has the same id in every later request, to whichever server of that kind it goes.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import deque

RESPONSES = r"[a-zA-Z0-9_-]{1,64}"
"""What fits the Responses API, OpenAI's and that of the few who speak it too."""
ANTHROPIC = r"[a-zA-Z0-9_-]{1,64}"
"""What fits Anthropic's Messages API, also where others serve it, who count."""
GEMINI = r"[!-~]{1,64}"
"""Gemini has ids of its own and takes others; its own go back as they came."""
CHAT = r"[!-~]{1,40}"
"""What fits most servers of chat completions: OpenAI's and Azure's count to 40, and so does who hands on to them."""
NINE = r"[a-zA-Z0-9]{9}"
"""What fits Mistral."""

_WRITTEN = "call_written_"
"""The id tells it, since that is all of a call that every client sends back as it was."""


def new_written_id() -> str:
    """An id for a call that the model only wrote into its answer."""
    return _WRITTEN + secrets.token_hex(12)


def is_written(call_id: str) -> bool:
    return call_id.startswith(_WRITTEN)


class CallIds:
    """The ids of one conversation, asked for in its order: each call has its own, though servers repeat theirs."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._used: set[str] = set()
        self._tried: dict[str, int] = {}
        """How many ids were thought of for the calls of one id."""
        self._waiting: dict[str, deque[str]] = {}

    def call(self, call_id: str) -> str:
        """The id under which the next call with this one goes out, and its output with it."""
        tried = self._tried.get(call_id, 0)
        id = call_id if not tried and re.fullmatch(self._form, call_id) else _make_id(call_id, tried)
        while id in self._used:
            tried += 1
            id = _make_id(call_id, tried)
        self._tried[call_id] = tried + 1
        self._used.add(id)
        return id

    def open_call(self, call_id: str) -> str:
        """The same, where the output stands further on."""
        id = self.call(call_id)
        self._waiting.setdefault(call_id, deque()).append(id)
        return id

    def keep(self, call_id: str) -> None:
        """For a call that goes out under the id that it has, as its output then must."""
        self._used.add(call_id)
        self._waiting.setdefault(call_id, deque()).append(call_id)

    def output(self, call_id: str) -> str:
        """The id of the first of such calls that still waits."""
        waiting = self._waiting.get(call_id)
        return waiting.popleft() if waiting else self.call(call_id)


def _make_id(call_id: str, number: int) -> str:
    return hashlib.sha256(f"{number}:{call_id}".encode(errors="surrogatepass")).hexdigest()[:9]
