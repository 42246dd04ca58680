"""Show a client's stream while it arrives: the code as it is written, and its output as it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from belljar.vendors.sse import Lines

Event: TypeAlias = Mapping[str, Any]
See: TypeAlias = Callable[[Event], None]


class Watched:
    """OpenAI's SDK, whose streams are shown to `see` event by event; all else is the SDK's own.

    `memory` is asked for where a container is made.
    """

    def __init__(self, client: Any, see: See, *, memory: str | None = None) -> None:
        self._client = client
        self._see = see
        self._memory = memory
        self.failed: Exception | None = None
        """What `see` raised, which the client takes for a failure of the stream."""

    @property
    def responses(self) -> Any:
        return _Responses(self._client.responses, self._show, self._memory)

    def _show(self, event: Event) -> None:
        try:
            self._see(event)
        except Exception as error:
            self.failed = error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class _Responses:
    def __init__(self, responses: Any, see: See, memory: str | None) -> None:
        self._responses = responses
        self._see = see
        self._memory = memory

    @property
    def with_streaming_response(self) -> _Responses:
        return self

    @contextmanager
    def create(self, *, extra_body: dict[str, Any], **body: Any) -> Iterator[_Answer]:
        if self._memory is not None and "tools" in extra_body:
            tools = [_with_memory(tool, self._memory) for tool in extra_body["tools"]]
            extra_body = {**extra_body, "tools": tools}
        with self._responses.with_streaming_response.create(extra_body=extra_body, **body) as answer:
            yield _Answer(answer, self._see)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._responses, name)


class _Answer:
    def __init__(self, answer: Any, see: See) -> None:
        self._answer = answer
        self._see = see

    @property
    def headers(self) -> Any:
        return self._answer.headers

    def iter_bytes(self) -> Iterator[bytes]:
        """An event at a time, so that what is shown of it comes before what the client makes of it."""
        lines = Lines()
        for data in self._answer.iter_bytes():
            yield from map(self._seen, lines.feed(data))
        yield from map(self._seen, lines.close())

    def _seen(self, payload: bytes) -> bytes:
        try:
            event = json.loads(payload)
        except ValueError:  # the mark at the end of the stream, or what the client says more of
            event = None
        if isinstance(event, dict):
            self._see(event)
        return b"data: %b\n\n" % payload.replace(b"\n", b"\ndata: ")


def _with_memory(tool: Any, memory: str) -> Any:
    container = tool.get("container") if isinstance(tool, dict) else None
    if not isinstance(container, dict):
        return tool
    return {**tool, "container": {**container, "memory_limit": memory}}
