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


class Parameter(Struct, frozen=True):
    """Something that the query of an address may say."""

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
    """Paths are split before they are percent-decoded: an escaped slash is part of an id."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
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
        """The route of a raw path. GET routes answer HEAD too; one trailing slash means nothing."""
        node, taken = self._root, []
        segments = path.removeprefix("/").removesuffix("/").split("/")
        for at, segment in enumerate(segments):
            known = node.below.get(segment)
            if known is not None:
                node = known
            elif node.any is not None and segment:
                node = node.any
                value = _decode("/".join(segments[at:]) if node.rest else segment)
                if value is None:
                    return Missed()
                taken.append(value)
                if node.rest:
                    break
            else:
                return Missed()
        match = node.routes.get("GET" if method == "HEAD" else method)
        if match is None:
            allowed = {*node.routes, "OPTIONS"} | ({"HEAD"} if "GET" in node.routes else set())
            return Missed(tuple(sorted(allowed)) if node.routes else ())
        route, names = match
        return Found(route, dict(zip(names, taken, strict=True)))


def _decode(segment: str) -> str | None:
    """None for what cannot be the name of anything."""
    if "%" in segment:
        try:
            segment = unquote(segment, errors="strict")
        except UnicodeDecodeError:
            return None
    return segment if segment.isprintable() else None
