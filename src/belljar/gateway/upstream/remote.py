"""The HTTP client for models elsewhere: TLS by the system's certificates, proxies, compression."""

from __future__ import annotations

import asyncio
import io
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from belljar.gateway.upstream.http_response import (
    CONNECT_SECONDS,
    ConnectionFailed,
    HttpResponse,
    cut,
    dropped,
    not_http,
    silent,
    unconnected,
)
from belljar.gateway.upstream.origins import on_this_machine, origin_of

_LONGEST_HEADER = 64 * 1024


class RemoteClient:
    """One session for the life of the process, made in the loop that first sends."""

    def __init__(self) -> None:
        self._trusted = ssl.create_default_context()
        self._session: aiohttp.ClientSession | None = None
        self._proxies: dict[str, str | None] = {}

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes],
        *,
        timeout: float,
    ) -> HttpResponse:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._trusted)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
            )
        origin = origin_of(url)
        if origin not in self._proxies:
            self._proxies[origin] = _proxy(url)
        try:
            response = await self._session.request(
                method,
                URL(url, encoded=True),
                headers=headers,
                data=_sent(body),
                proxy=self._proxies[origin],
                timeout=aiohttp.ClientTimeout(connect=CONNECT_SECONDS, sock_read=timeout),
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            broken = _unanswered(error, timeout)
        else:
            return _Response(response, timeout)
        raise broken

    async def close(self) -> None:
        session, self._session = self._session, None
        if session:
            await session.close()


def _sent(body: bytes | AsyncIterator[bytes]) -> io.BytesIO | AsyncIterator[bytes] | None:
    """Always in pieces: plain bytes would hold up the loop."""
    if isinstance(body, bytes):
        return io.BytesIO(body) if body else None
    return body


def _proxy(url: str) -> str | None:
    """The environment's proxy for this address.

    aiohttp's own `trust_env` would also take keys from .netrc, where ours are meant, and start two threads a request.
    """
    if on_this_machine(url):
        return None
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme, "")
    return proxy if proxy.startswith("http") and not proxy_bypass(parts.netloc) else None


class _Response:
    """aiohttp's answer behind ours."""

    __slots__ = ("_response", "_timeout", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, timeout: float) -> None:
        self._response = response
        self._timeout = timeout
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    async def read(self) -> bytes:
        try:
            return await self._response.content.readany()
        except asyncio.CancelledError:
            self._response.close()
            raise
        except TimeoutError:
            broken = silent(self._timeout)
        except (aiohttp.ClientError, OSError):
            broken = cut()
        self._response.close()
        raise broken

    def close(self) -> None:
        self._response.close()


def _unanswered(error: aiohttp.ClientError | OSError, timeout: float) -> ConnectionFailed:
    """Our words for aiohttp's: its own may quote the request."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return unconnected(f"no connection within {CONNECT_SECONDS:g} s")
        case TimeoutError():
            return silent(timeout)
        case aiohttp.ClientConnectorCertificateError():
            return ConnectionFailed(
                "its TLS certificate is not trusted; set SSL_CERT_FILE if it is your own authority's"
            )
        case aiohttp.ClientConnectorDNSError():
            return unconnected("its host name is not known")
        case aiohttp.ClientHttpProxyError():
            return ConnectionFailed(f"the proxy answered {error.status}")
        case aiohttp.ClientProxyConnectionError():
            return unconnected("the proxy cannot be reached")
        case aiohttp.ClientSSLError():
            return ConnectionFailed("TLS cannot be agreed on; is it https?")
        case aiohttp.ClientConnectorError():
            why = os.strerror(error.errno) if error.errno else "no connection"
            return unconnected(why[0].lower() + why[1:])
        case aiohttp.ServerDisconnectedError() | ConnectionError() | aiohttp.ClientOSError():
            return dropped()
        case _:
            return not_http()
