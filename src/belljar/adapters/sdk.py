"""What the calls of all vendors' SDKs have around them: patience up to the deadline, and our errors."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Any, TypeVar

from belljar.providers.failures import ClientError, Handle
from belljar.runtime import Deadline

if TYPE_CHECKING:
    from openai import OpenAI

T = TypeVar("T")
_SOON = 0.001


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


async def friendly_stream(items: AsyncIterable[T], handle: Handle) -> AsyncIterator[T]:
    """The items of an SDK's stream. Only taking the next is guarded: what the caller does with it is his own."""
    iterator = aiter(items)
    while True:
        try:
            item = await anext(iterator)
        except StopAsyncIteration:
            return
        except ClientError:
            raise
        except Exception as error:
            raise handle(error) from error
        yield item
