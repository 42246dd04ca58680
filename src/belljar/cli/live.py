"""Show a client's stream while it arrives: the code as it is written, and its output as it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self, TypeAlias

See: TypeAlias = Callable[[Any], None]


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

    def _show(self, event: Any) -> None:
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

    def create(self, **body: Any) -> Any:
        if self._memory is not None:
            body["tools"] = [_with_memory(tool, self._memory) for tool in body.get("tools") or ()]
        answer = self._responses.create(**body)
        return _Stream(answer, self._see) if body.get("stream") else answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._responses, name)


class _Stream:
    def __init__(self, stream: Any, see: See) -> None:
        self._stream = stream
        self._see = see

    def __iter__(self) -> Iterator[Any]:
        for event in self._stream:
            self._see(event)
            yield event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()


def _with_memory(tool: Any, memory: str) -> Any:
    container = tool.get("container") if isinstance(tool, dict) else None
    if not isinstance(container, dict):
        return tool
    return {**tool, "container": {**container, "memory_limit": memory}}
