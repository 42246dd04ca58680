"""What the calls of all vendors' SDKs have around them: patience up to the deadline, and our errors."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from belljar.adapters.steps import Ask, Heard
from belljar.adapters.validation import fault
from belljar.errors import InvalidRequest
from belljar.providers.failures import Handle, translate_errors
from belljar.runtime import Deadline
from belljar.vendors.deltas import Begun, Delta, Refused, Text

if TYPE_CHECKING:
    from openai import OpenAI

T = TypeVar("T")
_SOON = 0.001
_PLAIN = ("AsyncOpenAI", "AsyncAnthropic")
_OWN_HTTP = "AsyncHttpxClientWrapper"
"""What the SDKs use where the caller brings no HTTP client."""


def options(timeout: Any, deadline: Deadline | None) -> dict[str, Any]:
    """For a client with this timeout: the adapter itself tries again, and nothing waits beyond the deadline."""
    if deadline is None:
        return {"max_retries": 0}
    patience = getattr(timeout, "read", timeout)
    left = max(deadline.remaining().total_seconds(), _SOON)
    return {"max_retries": 0, "timeout": left if patience is None else min(left, patience)}


def within(client: OpenAI, deadline: Deadline | None) -> OpenAI:
    """The client for one more request: as it is, or with what is left until the deadline, which may be nothing."""
    if deadline is None:
        return client
    deadline.check()
    return client.with_options(**options(client.timeout, deadline))


def blocking_twin(client: Any, kind: Callable[..., T], where: str, *more: str) -> T:
    """A blocking client of the same server as this one of asyncio, for what is done in threads.

    One that lives inside the program gives it itself. What a caller built into his HTTP client, such as a proxy, cannot
    be taken over, and going without it would be wrong. `more` are members that only this SDK's clients have.
    """
    inside: T | None = client.blocking_inside() if hasattr(client, "blocking_inside") else None
    if inside is not None:
        return inside
    key = getattr(client, "api_key", None)
    if type(client).__name__ not in _PLAIN or type(client._client).__name__ != _OWN_HTTP or not key:
        raise InvalidRequest(
            f"{where}: something has to be done by a blocking client, and async_client has an HTTP client, a login or "
            "a kind of its own that cannot be taken over; pass client as well",
            param="client",
        )
    return kind(
        api_key=key,
        base_url=client.base_url,
        timeout=client.timeout,
        max_retries=client.max_retries,
        default_headers=client._custom_headers,
        default_query=client._custom_query,
        **{name: getattr(client, name) for name in more},
    )


def check_clients(where: str, client: object, async_client: object, blocking: str, asynchronous: str) -> None:
    """Whether each is of its kind, told by the names of the SDK's classes: neither is imported for it."""
    for name, given, wanted, other in (
        ("client", client, blocking, asynchronous),
        ("async_client", async_client, asynchronous, blocking),
    ):
        names = [one.__name__ for one in type(given).__mro__]
        if given is not None and (other in names or isinstance(given, str)):
            raise fault(f"{where}.{name}", type(given).__name__, f"use an instance of {wanted}")


class Hearing:
    """An answer on its way in: read as it comes, its text handed on, for as long as the deadline is ahead."""

    def __init__(self, ask: Ask, handle: Handle, member: str) -> None:
        """`member` is where the vendor has what it answers."""
        self._ask = ask
        self._handle = handle
        self._member = member
        self._deltas: list[Delta] = []

    def hear(self, answer: AbstractContextManager[tuple[Iterable[bytes], str | None]]) -> Heard:
        """The whole of it: pieces as they come, and the vendor's id of the request."""
        with answer as (pieces, request_id):
            for data in pieces:
                self._feed(data)
        return self._end(request_id)

    async def hear_async(self, answer: AbstractAsyncContextManager[tuple[AsyncIterable[bytes], str | None]]) -> Heard:
        async with answer as (pieces, request_id):
            async for data in pieces:
                self._feed(data)
        return self._end(request_id)

    def _feed(self, data: bytes) -> None:
        if self._ask.deadline is not None:
            self._ask.deadline.check()
        with translate_errors(self._handle):
            batch = self._ask.decoder.feed(data)
        self._hear(batch)

    def _end(self, request_id: str | None) -> Heard:
        with translate_errors(self._handle):
            batch = self._ask.decoder.close()
        self._hear(batch)
        begun = next((one.id for one in self._deltas if isinstance(one, Begun)), None)
        verbatim = self._ask.decoder.verbatim()
        payload = {"id": begun, self._member: [] if verbatim is None else list(verbatim.blocks)}
        return Heard(payload, request_id, self._deltas, verbatim)

    def _hear(self, batch: Sequence[Delta]) -> None:
        self._deltas += batch
        for delta in batch:
            if self._ask.on_text is not None and isinstance(delta, Text | Refused):
                self._ask.on_text(delta.text)
