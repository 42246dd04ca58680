"""What a server answers over HTTP, as it arrives, and what happens when the connection does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

CONNECT_SECONDS = 5.0
"""A connection that takes longer is not going to be made."""


class HttpResponse(Protocol):
    """One answer: its head is here, its body is read as it comes. Whoever has it closes it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By name in lower case."""
        ...

    async def read(self) -> bytes:
        """All bytes that have arrived, or the next that do; empty at the end. Raises `ConnectionFailed`."""
        ...

    def close(self) -> None:
        """Done with it: before the end, this closes the connection, so that the server stops its work."""
        ...


class Client(Protocol):
    """Sends one request and gives the answer when its head is there. Raises `ConnectionFailed`."""

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, *, timeout: float
    ) -> HttpResponse: ...

    async def close(self) -> None: ...


class ConnectionFailed(Exception):
    """The connection failed; the text says how, and has nothing of the request in it."""

    def __init__(self, why: str, *, resend: bool = False, dropped: bool = False) -> None:
        super().__init__(why)
        self.resend = resend
        """Nothing of an answer had come: asking again is safe."""
        self.dropped = dropped
        """The connection stood and was closed without a word, as an idle one is: no reason to wait."""


def make_silence_error(seconds: float) -> ConnectionFailed:
    """The server stayed silent for as long as it may."""
    return ConnectionFailed(f"it sent nothing for {seconds:g} s, which is its `timeout`")


def make_connect_error(why: str) -> ConnectionFailed:
    """There never was a connection."""
    return ConnectionFailed(why, resend=True)


def make_drop_error() -> ConnectionFailed:
    """The server closed the connection instead of answering."""
    return ConnectionFailed("it closed the connection without an answer", resend=True, dropped=True)


def make_break_error() -> ConnectionFailed:
    """The answer had begun."""
    return ConnectionFailed("the connection broke off in the middle of the answer")


def make_protocol_error() -> ConnectionFailed:
    """What came is no answer at all."""
    return ConnectionFailed("it answered something that is not HTTP")
