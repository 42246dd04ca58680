"""The names of what an ASGI server hands over and takes, so that signatures can be read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

STOPPING: Message = {"type": "belljar.stopping"}
"""Among the messages of a WebSocket: the server ends. What runs may finish, and nothing new begins."""
HURRY = "belljar.hurry"
"""In the scope of a request: called where its answer is about something that goes on meanwhile, and must not wait."""
