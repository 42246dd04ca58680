"""Method and path to a handler: a table of templates, looked up segment by segment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from belljar.http_server.reply import Answer

Handler: TypeAlias = Callable[[Any], Awaitable[Answer]]
"""Takes the application's own kind of `Request`."""


class Content(Struct, frozen=True):
    """What a body holds: a type that JSON is made of, or bytes where there is none."""

    type: Any
    media: str = "application/json"
    """Of lines of JSON, such as application/x-ndjson, the type is that of each."""
    examples: tuple[Any, ...] = ()


class Parameter(Struct, frozen=True):
    """Something that a request may say: in its path, its query, or a header."""

    name: str
    type: Any
    description: str = ""


class Operation(Struct, frozen=True):
    """What a route says of itself, for the description that is made of all of them."""

    summary: str
    gives: tuple[Content, ...] = ()
    takes: tuple[Content, ...] = ()
    query: tuple[Parameter, ...] = ()
    also: tuple[tuple[int, str], ...] = ()
    """Further statuses that say the same in other circumstances, and which these are."""
    done: tuple[int, str] = (200, "Done")
    """The status of what it gives, and what that means."""
    path: tuple[Parameter, ...] = ()
    """What there is to say of the names in its path."""
    headers: tuple[Parameter, ...] = ()
    """What a request may say beside what all may."""
    refuses: tuple[tuple[int, str], ...] = ()
    """Refusals that are worth naming, with their circumstances."""
    error: Any = None
    """The type of the body of its errors, where that is not everybody's."""


def json_of(type: Any) -> tuple[Content, ...]:
    return (Content(type),)


class Route(Struct, frozen=True):
    """`/v1/files/{id}`: a name in braces takes one segment, `{id+}` at the end takes all that are left."""

    method: str
    template: str
    handler: Handler
    about: Operation
    open: bool = False
    """Needs no key."""


class Found(Struct, frozen=True):
    route: Route
    params: dict[str, str]


class Missed(Struct, frozen=True):
    """No such path, or not with this method: then `allowed` names those there are."""

    allowed: tuple[str, ...] = ()


@dataclass(slots=True)
class _Node:
    below: dict[str, _Node] = field(default_factory=dict)
    any: _Node | None = None
    rest: bool = False
    """This node takes all segments that are left."""
    routes: dict[str, tuple[Route, tuple[str, ...]]] = field(default_factory=dict)
    """By method, with the names of the segments taken on the way."""


class Router:
    """Paths are split before they are percent-decoded: an escaped slash is part of an id.

    GET routes answer HEAD too, and one trailing slash means nothing. Not so where it is `exact`: every slash and method
    counts, a segment may be empty, and those that are taken stay as they came, to be decoded by whoever knows how.
    """

    def __init__(self, routes: Iterable[Route], *, exact: bool = False) -> None:
        self._root = _Node()
        self._exact = exact
        for route in routes:
            node, names = self._root, []
            for segment in route.template.strip("/").split("/"):
                if segment.startswith("{"):
                    names.append(segment.strip("{+}"))
                    node.any = node.any or _Node()
                    node = node.any
                    node.rest = segment.endswith("+}")
                else:
                    node = node.below.setdefault(segment, _Node())
            node.routes[route.method] = (route, tuple(names))

    def find(self, method: str, path: str) -> Found | Missed:
        """The route of a raw path."""
        node, taken, exact = self._root, [], self._exact
        path = path.removeprefix("/")
        segments = (path if exact else path.removesuffix("/")).split("/")
        for at, segment in enumerate(segments):
            known = node.below.get(segment)
            if known is not None:
                node = known
            elif node.any is not None and (segment or exact):
                node = node.any
                raw = "/".join(segments[at:]) if node.rest else segment
                value = raw if exact else _decode(raw)
                if value is None:
                    return Missed()
                taken.append(value)
                if node.rest:
                    break
            else:
                return Missed()
        match = node.routes.get("GET" if method == "HEAD" and not exact else method)
        if match is None:
            return Missed(self._allowed(node))
        route, names = match
        return Found(route, dict(zip(names, taken, strict=True)))

    def _allowed(self, node: _Node) -> tuple[str, ...]:
        if self._exact or not node.routes:
            return tuple(node.routes)
        return tuple(sorted({*node.routes, "OPTIONS"} | ({"HEAD"} if "GET" in node.routes else set())))


def _decode(segment: str) -> str | None:
    """None for what cannot be the name of anything."""
    if "%" in segment:
        try:
            segment = unquote(segment, errors="strict")
        except UnicodeDecodeError:
            return None
    return segment if segment.isprintable() else None
