"""The HTTP client for models elsewhere: TLS by the system's certificates, proxies, compression."""

from __future__ import annotations

import asyncio
import io
import os
import ssl
from collections.abc import AsyncIterator, Mapping

import aiohttp
from yarl import URL

from belljar.gateway.upstream.http_response import (
    CONNECT_SECONDS,
    ConnectionFailed,
    HttpResponse,
    make_break_error,
    make_connect_error,
    make_drop_error,
    make_protocol_error,
    make_silence_error,
)
from belljar.gateway.upstream.origins import origin_of
from belljar.net import find_proxy

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
            self._proxies[origin] = find_proxy(url)
        try:
            response = await self._session.request(
                method,
                URL(url, encoded=True),
                headers=headers,
                data=_stream_body(body),
                proxy=self._proxies[origin],
                timeout=aiohttp.ClientTimeout(connect=CONNECT_SECONDS, sock_read=timeout),
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            broken = _convert_error(error, timeout)
        else:
            return _Response(response, timeout)
        raise broken

    async def close(self) -> None:
        session, self._session = self._session, None
        if session:
            await session.close()


def _stream_body(body: bytes | AsyncIterator[bytes]) -> io.BytesIO | AsyncIterator[bytes] | None:
    """Always in pieces: plain bytes would hold up the loop."""
    if isinstance(body, bytes):
        return io.BytesIO(body) if body else None
    return body


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
            broken = make_silence_error(self._timeout)
        except (aiohttp.ClientError, OSError):
            broken = make_break_error()
        self._response.close()
        raise broken

    def close(self) -> None:
        self._response.close()


def _convert_error(error: aiohttp.ClientError | OSError, timeout: float) -> ConnectionFailed:
    """Our words for aiohttp's: its own may quote the request."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return make_connect_error(f"no connection within {CONNECT_SECONDS:g} s")
        case TimeoutError():
            return make_silence_error(timeout)
        case aiohttp.ClientConnectorCertificateError():
            return ConnectionFailed(
                "its TLS certificate is not trusted; set SSL_CERT_FILE if it is your own authority's"
            )
        case aiohttp.ClientConnectorDNSError():
            return make_connect_error("its host name is not known")
        case aiohttp.ClientHttpProxyError():
            return ConnectionFailed(f"the proxy answered {error.status}")
        case aiohttp.ClientProxyConnectionError():
            return make_connect_error("the proxy cannot be reached")
        case aiohttp.ClientSSLError():
            return ConnectionFailed("TLS cannot be agreed on; is it https?")
        case aiohttp.ClientConnectorError():
            why = os.strerror(error.errno) if error.errno else "no connection"
            return make_connect_error(why[0].lower() + why[1:])
        case aiohttp.ServerDisconnectedError() | ConnectionError() | aiohttp.ClientOSError():
            return make_drop_error()
        case _:
            return make_protocol_error()
