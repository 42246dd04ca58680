"""Where an upstream is and how it is addressed: checked once, and silent about its keys ever after."""

from __future__ import annotations

from types import MappingProxyType
from urllib.parse import urlsplit

from belljar import __version__
from belljar.config import Upstream
from belljar.errors import BadKey, BadSettings, ProviderError, Unreachable
from belljar.gateway.upstream.http_response import ConnectionFailed
from belljar.vendors.dialect import Dialect
from belljar.vendors.registry import KINDS, WIRES, guess_vendor
from belljar.vendors.vendor import Vendor

_SECRET = ("auth", "key", "token", "secret", "cookie")
_LEAST = 8
"""Characters of a secret: shorter ones are placeholders, and hiding them would maim the text around."""


class Endpoint:
    """An upstream as the network sees it."""

    def __init__(self, upstream: Upstream) -> None:
        parts = urlsplit(upstream.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise BadSettings(
                f"upstreams.{upstream.name}.base_url is not an address such as http://127.0.0.1:1234/v1;"
                " a key belongs into api_key"
            )
        self.name = upstream.name
        self.timeout = upstream.timeout
        self.vendor = _vendor(upstream)
        self.dialect = _dialect(upstream, self.vendor)
        self.headers = MappingProxyType(_build_headers(upstream, self.dialect))
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

    def build_unreachable(self, broken: ConnectionFailed) -> Unreachable:
        """The failure in words that name the upstream and what to do."""
        if not broken.resend:
            return Unreachable(f"{self}: {broken}; ask again, or look into its log")
        product = find_product(self.vendor)
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


def find_product(vendor: Vendor) -> str | None:
    """What people call a server, where it is one that they run themselves."""
    return vendor.title if vendor.local else None


def explain_no_models(vendor: Vendor) -> str:
    """What is said of a server that has no model to offer."""
    return f"it has no models; {vendor.load_hint}"


def _vendor(upstream: Upstream) -> Vendor:
    if upstream.quirks is None:
        return guess_vendor(upstream.name, upstream.base_url)
    if upstream.quirks not in KINDS:
        raise BadSettings(
            f"upstreams.{upstream.name}.quirks: {upstream.quirks!r} is none of {', '.join(KINDS)};"
            " change it, or leave it out to have it guessed"
        )
    return KINDS[upstream.quirks]


def _dialect(upstream: Upstream, vendor: Vendor) -> Dialect:
    if upstream.dialect not in WIRES:
        raise BadSettings(
            f"upstreams.{upstream.name}.dialect: {upstream.dialect!r} is none of {', '.join(WIRES)}; change it"
        )
    return vendor.dialect(upstream.name, WIRES[upstream.dialect])


def _build_headers(upstream: Upstream, dialect: Dialect) -> dict[str, str]:
    headers = {
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"belljar/{__version__}",
    }
    key = (upstream.api_key or "").strip()
    shown = dialect.headers(key or None)
    headers.update(shown)
    headers.update({name.lower(): value.strip() for name, value in upstream.headers.items()})
    for name, value in headers.items():
        if not (name.isascii() and name.isprintable() and value.isascii() and value.isprintable()):
            field = "api_key" if key and key in shown.get(name, "") else f"headers.{name!a}"
            raise BadSettings(
                f"upstreams.{upstream.name}.{field} holds a character that a header cannot; copy it again"
            )
    return headers
