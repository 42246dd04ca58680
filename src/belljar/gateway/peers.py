"""The other gateways over this store: a request that one of them must answer is passed on to it, signed, and once.

A container whose sandbox lives in another gateway, or a response that runs there, cannot be had from here. Who asks
should not know: the whole request goes to the address in that gateway's row, with the caller's own key, and its answer
comes back as it is. The signature is by a secret of the store. It says that the request was counted here, and that it
must not be passed on again; without it a request is like any other.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from belljar.errors import HeldElsewhere, Lost
from belljar.gateway.membership import Membership
from belljar.gateway.store.base import Records
from belljar.http_server.reply import Answer, Stream

if TYPE_CHECKING:
    import aiohttp  # a quarter of a second and 10 MB, and not everybody's: loaded when another gateway is asked

HEADER = b"belljar-peer"
DROP = "/internal/containers/{id}/drop"
LOOK = "/internal/models/look"
"""POST: the container was deleted; what runs for it ends."""
_UNIX = "unix:"
_SECRET = "peers"
_STALE = 120.0
"""Seconds after which a signature counts no more."""
_CONNECT = 5.0
_NUDGE = 2.0
"""Seconds that telling another gateway of a deletion may take: it finds out by itself at its next write."""
_HOP_BY_HOP = frozenset(
    {b"connection", b"content-length", b"expect", b"host", b"keep-alive", b"te", b"trailer", b"transfer-encoding",
     b"upgrade", HEADER}
)  # fmt: skip
_TOLD = frozenset({"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"})
"""Headers of an answer that the server here writes itself."""
_OURS = frozenset({"x-request-id", "openai-processing-ms", "openai-version"})
_log = logging.getLogger("belljar.gateway")


class Peers:
    """How the others are asked, and how what they ask is known."""

    def __init__(self, records: Records, membership: Membership) -> None:
        self._records = records
        self.membership = membership
        self._secret: bytes | None = None
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def is_signed(self, method: str, target: str, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a gateway of this store has passed this on."""
        given = headers.get(HEADER)
        if given is None:
            return False
        gateway_id, _, rest = given.decode("latin-1").partition(" ")
        told, _, signature = rest.partition(" ")
        if not told.isdigit() or abs(self.membership.now() - int(told)) > _STALE:
            return False
        return hmac.compare_digest(signature, await self._sign(gateway_id, told, method, target))

    async def pass_on(
        self, error: HeldElsewhere, method: str, target: str, headers: Mapping[bytes, bytes], body: bytes
    ) -> Answer:
        """The answer of the gateway that has it; the error itself where that cannot be asked."""
        found = await self.membership.find(error.gateway_id)
        if found is None or not found.address:
            raise error
        sent = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers.items()
            if name not in _HOP_BY_HOP
        }
        try:
            response = await self._send(found.address, method, target, sent, body, timeout=_CONNECT)
        except (OSError, TimeoutError) as failure:
            _log.warning("gateway %s could not be asked: %s", found.id, failure)
            raise error from failure
        told = tuple(
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in response.headers.items()
            if name.lower() not in _TOLD and name.lower() not in _OURS
        )
        return Stream(pieces=_read(response), headers=told, status=response.status)

    async def tell_dropped(self, gateway_id: str, container_id: str) -> None:
        """A container that this gateway holds was deleted; as far as it can be reached."""
        found = await self.membership.find(gateway_id)
        if found is None or not found.address:
            return
        target = DROP.format(id=quote(container_id, safe=""))
        try:
            async with asyncio.timeout(_NUDGE):
                response = await self._send(found.address, "POST", target, {}, b"", timeout=_NUDGE)
                response.release()
        except (OSError, TimeoutError) as failure:
            _log.warning("gateway %s was not told that container %s is deleted: %s", gateway_id, container_id, failure)

    async def tell_of_models(self) -> None:
        """The models have changed: the other gateways look too, those that can be reached."""

        async def tell(address: str) -> None:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_NUDGE):
                    (await self._send(address, "POST", LOOK, {}, b"", timeout=_NUDGE)).release()

        others = [one for one in await self._records.get_gateways() if one.id != self.membership.id]
        await asyncio.gather(*(tell(one.address) for one in others if one.address))

    async def fetch_beside(self, target: str) -> list[bytes]:
        """What the other workers behind the same port answer to this; those that do not are left out."""
        others = [one for one in await self._records.get_gateways() if one.id != self.membership.id]
        beside = [one.address for one in others if one.address.startswith(_UNIX)]
        found = await asyncio.gather(*(self._fetch(address, target) for address in beside))
        return [body for body in found if body is not None]

    async def _fetch(self, address: str, target: str) -> bytes | None:
        try:
            async with asyncio.timeout(_NUDGE):
                response = await self._send(address, "GET", target, {}, b"", timeout=_NUDGE)
                async with response:
                    with _connection_errors():
                        return await response.read() if response.status == 200 else None
        except (OSError, TimeoutError):
            return None

    async def _send(
        self, address: str, method: str, target: str, headers: Mapping[str, str], body: bytes, *, timeout: float
    ) -> aiohttp.ClientResponse:
        me, now = self.membership.id, str(int(self.membership.now()))
        signed = {**headers, HEADER.decode(): f"{me} {now} {await self._sign(me, now, method, target)}"}
        base = "http://localhost" if address.startswith(_UNIX) else address.rstrip("/")
        import aiohttp
        from yarl import URL

        with _connection_errors():
            return await self._session(address).request(
                method,
                URL(base + target, encoded=True),
                headers=signed,
                data=body or None,
                timeout=aiohttp.ClientTimeout(connect=timeout),
                allow_redirects=False,
            )

    def _session(self, address: str) -> aiohttp.ClientSession:
        """One for each address: those that are gone have no open connections, and cost little."""
        import aiohttp

        found = self._sessions.get(address)
        if found is None:
            connector: aiohttp.BaseConnector
            if address.startswith(_UNIX):
                connector = aiohttp.UnixConnector(address.removeprefix(_UNIX), limit=0)
            else:
                connector = aiohttp.TCPConnector(limit=0)
            found = self._sessions[address] = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            )
        return found

    async def _sign(self, gateway_id: str, now: str, method: str, target: str) -> str:
        if self._secret is None:
            self._secret = await self._records.secret(_SECRET)
        what = "\n".join((gateway_id, now, method, target))
        return hmac.new(self._secret, what.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


@contextmanager
def _connection_errors() -> Iterator[None]:
    """What aiohttp raises within comes out as Python's own error."""
    import aiohttp

    try:
        yield
    except aiohttp.ClientError as error:
        raise ConnectionError(str(error)) from error


async def _read(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    try:
        yield b""  # the answer begins as soon as the other's does
        while data := await response.content.readany():
            yield data
    except aiohttp.ClientError as failure:
        raise Lost(f"the gateway that answered this is gone ({failure}); try again") from failure
    finally:
        response.close()
