"""The page at /: its files as they lie in `gateway/web`, and what it asks of the server beside the API."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from msgspec import Struct

from belljar.errors import NotFound
from belljar.gateway.server.interfaces import ServerServices
from belljar.gateway.server.options import ServerOptions
from belljar.gateway.server.page_bodies import PageInfo, Welcome
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.request import Request
from belljar.gateway.server.routes.container_downloads import DownloadRoutes
from belljar.http_server.asgi import Headers
from belljar.http_server.reply import NOSNIFF, Answer, Reply
from belljar.http_server.routing import Content, Operation, Route, json_of
from belljar.sandbox.remedies import REMEDIES, Reader
from belljar.wire.codec import encode

_TYPES = {".html": b"text/html", ".css": b"text/css", ".js": b"text/javascript", ".svg": b"image/svg+xml"}
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    # No text becomes markup or code, whatever our own scripts get wrong.
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Headers = (
    (b"content-security-policy", _POLICY),
    NOSNIFF,
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)
_LARGE = 100 << 20
"""Bytes of a file above which the page asks before it sends it: a slip of the hand should not send gigabytes."""


def routes(services: ServerServices, quotas: Quotas, options: ServerOptions) -> list[Route]:
    """The page and all that only the page calls."""
    found = [*PageRoutes(services, options).routes(), *DownloadRoutes(services).routes()]
    if options.project is not None:
        from belljar.gateway.server.routes.project import ProjectRoutes  # the library's files take a while to load

        found += ProjectRoutes(options.project, services, quotas, options).routes()
    return found


_SHOW = Operation("The chat page, or where the API is", (Content(None, "text/html"), Content(Welcome)))
_ASSET = Operation(
    "A file of the page",
    (
        Content(None, "text/html"),
        Content(None, "text/css"),
        Content(None, "text/javascript"),
        Content(None, "image/svg+xml"),
    ),
)


class _Asset(Struct, frozen=True):
    data: bytes
    type: bytes
    tag: bytes


class PageRoutes:
    def __init__(self, services: ServerServices, options: ServerOptions) -> None:
        self._health = services.health
        self._options = options
        self._assets = dict(_read_assets(files("belljar.gateway") / "web", ""))

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/", self.show, _SHOW, open=True),
            Route("GET", "/web/{name+}", self.send_asset, _ASSET, open=True),
            Route("GET", "/belljar/page", self.describe, Operation("What the page must know", json_of(PageInfo))),
        ]

    async def show(self, request: Request) -> Answer:
        accepted = request.headers.get(b"accept", b"")
        if b"application/json" in accepted and b"text/html" not in accepted:
            return Reply(200, encode(Welcome()), headers=(*_HEADERS, (b"vary", b"accept")))
        return _send_asset(request, self._assets["index.html"], ((b"vary", b"accept"),))

    async def send_asset(self, request: Request) -> Answer:
        name = request.params["name"]
        if name not in self._assets:
            raise NotFound(f"The page has no file {name!r}.")
        return _send_asset(request, self._assets[name])

    async def describe(self, request: Request) -> Answer:
        """What the page must know; whoever may not ask gets the 401 that makes it ask for a key."""
        options = self._options
        about = PageInfo(
            isolation=self._health.isolation,
            interpreter=options.interpreter,
            packages=tuple(self._health.packages),
            largest_upload=options.largest_upload,
            large_upload=min(_LARGE, options.largest_upload),
            project=None if options.project is None else str(options.project),
            remedies={limit: one.of(Reader.PAGE) for limit, one in REMEDIES.items()},
        )
        return Reply(200, encode(about), headers=((b"cache-control", b"no-store"),))


def _send_asset(request: Request, asset: _Asset, headers: Headers = ()) -> Answer:
    headers = (*_HEADERS, (b"etag", asset.tag), *headers)
    if request.headers.get(b"if-none-match") == asset.tag:
        return Reply(304, headers=headers)
    return Reply(200, asset.data, asset.type, headers)


def _read_assets(folder: Traversable, above: str) -> Iterator[tuple[str, _Asset]]:
    for one in folder.iterdir():
        name = f"{above}{one.name}"
        if one.is_dir():
            yield from _read_assets(one, f"{name}/")
            continue
        data, kind = one.read_bytes(), _TYPES.get(f".{one.name.rpartition('.')[2]}")
        if kind is not None:
            digest = hashlib.sha256(data).hexdigest()[:32].encode()
            yield name, _Asset(data, kind + b"; charset=utf-8", b'"' + digest + b'"')
