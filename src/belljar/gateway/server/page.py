"""The page at /: what this is, where it is, and how to try it. Plain HTML, made here; nothing in it runs."""

from __future__ import annotations

import asyncio
import re
from html import escape
from importlib.resources import files
from string import Template

from belljar.gateway.server.http import Request
from belljar.gateway.server.ports import Services
from belljar.gateway.server.routing import Route
from belljar.wire.codec import encode

_PATIENCE = 1.0
"""Seconds that an upstream which has not told its models yet may hold up the page."""
_SHOWN = 12
"""Models of one upstream that are named."""
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_POLICY = (
    b"default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
    (b"vary", b"accept"),
)


class PageRoutes:
    def __init__(self, services: Services) -> None:
        self._models = services.models
        self._health = services.health
        self._keyless = services.keys is None
        web = files("belljar.gateway") / "web"
        self._template = Template((web / "index.html").read_text("utf-8"))
        self._style = (web / "style.css").read_bytes()

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/", self.show, open=True),
            Route("GET", "/web/style.css", self.style, open=True),
        ]

    async def show(self, request: Request) -> None:
        accepted = request.headers.get(b"accept", b"")
        if b"application/json" in accepted and b"text/html" not in accepted:
            told = {"name": "belljar", "api": "/v1", "models": "/v1/models", "health": "/healthz"}
            await request.reply(200, encode(told), headers=_HEADERS)
            return
        html = self._template.substitute(
            base_url=escape(f"{_origin(request)}/v1"),
            key="No key is needed on this machine." if self._keyless else "Every request needs a key of this gateway.",
            api_key="none" if self._keyless else "YOUR_KEY",
            curl_key="" if self._keyless else " -H 'Authorization: Bearer YOUR_KEY'",
            # What stands behind it is nobody's business who has no key.
            details=await self._details() if self._keyless else "",
            links=_links("/v1/models", "/healthz", "/readyz", "/metrics") if self._keyless else _links("/healthz"),
        )
        await request.reply(200, html.encode(), type=b"text/html; charset=utf-8", headers=_HEADERS)

    async def style(self, request: Request) -> None:
        await request.reply(200, self._style, type=b"text/css; charset=utf-8", headers=_HEADERS)

    async def _details(self) -> str:
        by_upstream: dict[str, list[str]] = {}
        try:
            async with asyncio.timeout(_PATIENCE):
                for info in await self._models.list():
                    by_upstream.setdefault(info.owned_by, []).append(info.id)
        except TimeoutError:
            by_upstream = {"models": []}
        models = "".join(f"<dt>{escape(name)}</dt><dd>{_named(some)}</dd>" for name, some in by_upstream.items())
        isolation = f"<dl><dt>isolation</dt><dd>{escape(self._health.isolation)}</dd></dl>"
        return f"<h2>Models</h2>\n<dl>{models}</dl>\n<h2>Sandbox</h2>\n{isolation}"


def _origin(request: Request) -> str:
    """How the browser got here, as far as that is an address at all."""
    host = request.headers.get(b"host", b"").decode("latin-1")
    if not _HOST.fullmatch(host):
        name, port = request.scope["server"]
        host = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
    # A proxy may have taken off the encryption. Nothing but this line of text depends on it.
    scheme = "https" if request.headers.get(b"x-forwarded-proto") == b"https" else request.scope["scheme"]
    return f"{scheme}://{host}"


def _named(models: list[str]) -> str:
    names = ", ".join(f"<code>{escape(name)}</code>" for name in models[:_SHOWN])
    more = f" and {len(models) - _SHOWN} more" if len(models) > _SHOWN else ""
    return f"{names}{more}" if names else "no list yet"


def _links(*paths: str) -> str:
    return "".join(f'<a href="{path}">{path}</a>' for path in paths)
