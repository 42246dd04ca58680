"""Where an upstream is and how it is addressed: checked once, and silent about its keys ever after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import urlsplit

from belljar import __version__
from belljar.config import Upstream
from belljar.errors import BadKey, BadSettings, ProviderError, Unreachable
from belljar.gateway.upstream.http_response import ConnectionFailed
from belljar.vendors import bearer
from belljar.vendors.registry import PROFILES, VENDORS, guess_profile
from belljar.vendors.server_profile import ServerProfile

Keyed: TypeAlias = Callable[[str | None, str, ServerProfile], Mapping[str, str]]
"""The headers that show a key at an address to a kind of server."""

_SECRET = ("auth", "key", "token", "secret", "cookie")
_LEAST = 8
"""Characters of a secret: shorter ones are placeholders, and hiding them would maim the text around."""


class Endpoint:
    """An upstream as the network sees it."""

    def __init__(self, upstream: Upstream, keyed: Keyed = bearer.headers) -> None:
        """`keyed` is how the dialect shows the key."""
        parts = urlsplit(upstream.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise BadSettings(
                f"upstreams.{upstream.name}.base_url is not an address such as http://127.0.0.1:1234/v1;"
                " a key belongs into api_key"
            )
        self.name = upstream.name
        self.timeout = upstream.timeout
        self.quirks = _quirks(upstream)
        self.headers = MappingProxyType(_headers(upstream, self.quirks, keyed))
        self._base = upstream.base_url.rstrip("/")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        named = (value for name, value in upstream.headers.items() if any(word in name.lower() for word in _SECRET))
        secrets = (upstream.api_key or "", *named)
        self._secrets = tuple(secret.strip() for secret in secrets if len(secret.strip()) >= _LEAST)

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, {self._origin!r})"

    def __str__(self) -> str:
        return f"{self.name} at {self._origin}"

    def url(self, path: str) -> str:
        return self._base + path

    def beside(self, path: str) -> str:
        """An address at the same server, whatever the base has in its path."""
        return self._origin + path

    def unreachable(self, broken: ConnectionFailed) -> Unreachable:
        """The failure in words that name the upstream and what to do."""
        if not broken.resend:
            return Unreachable(f"{self}: {broken}; ask again, or look into its log")
        product = product_of(self.quirks.name)
        remedy = f"is {product} running?" if product else "is it running, and is base_url right?"
        return Unreachable(f"{self} cannot be reached: {broken}; {remedy}")

    def explain(self, error: ProviderError, status: int | None = None) -> None:
        """Put an error into an operator's words: what to do about it, and not our keys, as some servers repeat them."""
        text = str(error)
        if isinstance(error, BadKey):
            text += "; set the api_key of this upstream to one that it takes"
        elif type(error) is ProviderError and status == 404:
            text += "; check the base_url of this upstream"
        for secret in self._secrets:
            text = text.replace(secret, "[key]")
        if text != str(error):
            error.args = (text,)


def product_of(kind: str) -> str | None:
    """What people call a server of this row of quirks, where it is one that they run themselves."""
    row = VENDORS.get(kind)
    return row.title if row is not None and row.local else None


def without_models(kind: str) -> str:
    """What is said of a server that has no model to offer."""
    row = VENDORS.get(kind)
    return f"it has no models; {'load one there' if row is None else row.load_hint}"


def _quirks(upstream: Upstream) -> ServerProfile:
    if upstream.quirks is None:
        return guess_profile(upstream.name, upstream.base_url)
    if upstream.quirks not in PROFILES:
        raise BadSettings(
            f"upstreams.{upstream.name}.quirks: {upstream.quirks!r} is none of {', '.join(PROFILES)};"
            " change it, or leave it out to have it guessed"
        )
    return PROFILES[upstream.quirks]


def _headers(upstream: Upstream, quirks: ServerProfile, keyed: Keyed) -> dict[str, str]:
    headers = {
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"belljar/{__version__}",
    }
    key = (upstream.api_key or "").strip()
    shown = keyed(key or None, upstream.base_url, quirks)
    headers.update(shown)
    headers.update({name.lower(): value.strip() for name, value in upstream.headers.items()})
    for name, value in headers.items():
        if not (name.isascii() and name.isprintable() and value.isascii() and value.isprintable()):
            field = "api_key" if key and key in shown.get(name, "") else f"headers.{name!a}"
            raise BadSettings(
                f"upstreams.{upstream.name}.{field} holds a character that a header cannot; copy it again"
            )
    return headers
