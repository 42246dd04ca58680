"""What the operator may set of the server: limits, patience, quotas, whose pages may call."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What one key may use; None for no limit."""

    requests: int | None = None
    """A minute."""
    responses: int | None = None
    """At once."""
    bytes: int | None = None
    """Stored, files and container files together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    largest_body: int = 32 << 20
    """Bytes of a JSON body, and of a WebSocket message."""
    largest_upload: int = 512 << 20
    """Bytes of an uploaded file."""
    ping: float = 15.0
    """Seconds of silence in a stream before a comment shows that it lives."""
    patience: float = 60.0
    """Seconds to wait for the next bytes of a request."""
    socket_life: float = 3600.0
    """Seconds that a WebSocket may stay open."""
    quota: Quota = field(default_factory=Quota)
    origins: frozenset[str] = frozenset()
    """Web pages that may call from a browser, such as https://example.org, besides our own."""
    page: bool = True
    """Whether GET / answers."""
    project: Path | None = None
    """The directory that the page may read and, when its user agrees, write."""
    interpreter: bool = True
    """Whether code is run here."""
