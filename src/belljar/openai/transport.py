"""An httpx transport to a gateway inside the program: requests go to its loop, answers stream back."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent import futures
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from openai import APIConnectionError, DefaultHttpxClient

from belljar.openai.asgi_exchange import BrokenAnswer, Exchange, Message

if TYPE_CHECKING:
    import httpx2 as httpx

    from belljar.openai.embedded_gateway import Inside
else:  # the SDK's own: its third version has another than its second
    httpx = import_module(DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])

T = TypeVar("T")


class InsideTransport(httpx.BaseTransport):
    """For threads: each request waits in the thread that made it."""

    def __init__(self, inside: Inside, *, is_owner: bool = True) -> None:
        """`is_owner`: the gateway ends with it."""
        self._inside = inside
        self._is_owner = is_owner
        if is_owner:  # a client that nobody has any more cannot be closed by anybody either
            weakref.finalize(self, inside.stop).atexit = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        _check(self._inside, request)
        pieces = iter(cast(httpx.SyncByteStream, request.stream))
        data, following = next(pieces, b""), next(pieces, None)
        exchange = self._inside.exchange(_scope(request))
        try:
            _result(self._inside, self._inside.open(exchange, data, last=following is None), request)
            while following is not None:
                if not _result(self._inside, exchange.wanting(), request):
                    break
                data, following = following, next(pieces, None)
                _result(self._inside, _put(exchange, data, following is None), request)
            status, headers = _result(self._inside, exchange.head(), request)
            return httpx.Response(status, headers=headers, stream=_Answer(self._inside, exchange, request))
        except BaseException:
            self._inside.hang_up(exchange)
            raise

    def close(self) -> None:
        if self._is_owner:
            self._inside.close()


class _Answer(httpx.SyncByteStream):
    def __init__(self, inside: Inside, exchange: Exchange, request: httpx.Request) -> None:
        self._inside = inside
        self._exchange = exchange
        self._request = request
        weakref.finalize(self, inside.hang_up, exchange).atexit = False  # of an answer that nobody closed

    def __iter__(self) -> Iterator[bytes]:
        while data := _result(self._inside, self._exchange.read(), self._request):
            yield data

    def close(self) -> None:
        self._inside.hang_up(self._exchange)


class AsyncInsideTransport(httpx.AsyncBaseTransport):
    """For asyncio, on whichever loop the client is used."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        weakref.finalize(self, inside.stop).atexit = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        _check(self._inside, request)
        pieces = aiter(cast(httpx.AsyncByteStream, request.stream))
        data, following = await anext(pieces, b""), await anext(pieces, None)
        exchange = self._inside.exchange(_scope(request))
        try:
            await _await_result(self._inside, self._inside.open(exchange, data, last=following is None), request)
            while following is not None:
                if not await _await_result(self._inside, exchange.wanting(), request):
                    break
                data, following = following, await anext(pieces, None)
                await _await_result(self._inside, _put(exchange, data, following is None), request)
            status, headers = await _await_result(self._inside, exchange.head(), request)
            return httpx.Response(status, headers=headers, stream=_AsyncAnswer(self._inside, exchange, request))
        except BaseException:
            self._inside.hang_up(exchange)
            raise

    def blocking(self) -> InsideTransport:
        """Another way to the same gateway, which ends with this one."""
        return InsideTransport(self._inside, is_owner=False)

    async def aclose(self) -> None:
        await asyncio.to_thread(self._inside.close)


class _AsyncAnswer(httpx.AsyncByteStream):
    def __init__(self, inside: Inside, exchange: Exchange, request: httpx.Request) -> None:
        self._inside = inside
        self._exchange = exchange
        self._request = request
        weakref.finalize(self, inside.hang_up, exchange).atexit = False  # of an answer that nobody closed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await _await_result(self._inside, self._exchange.read(), self._request):
            yield data

    async def aclose(self) -> None:
        self._inside.hang_up(self._exchange)


async def _put(exchange: Exchange, data: bytes, last: bool) -> None:
    exchange.put(data, last=last)


def _scope(request: httpx.Request) -> Message:
    path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": path,
        "query_string": query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": None,
        "client": None,
    }


def _check(inside: Inside, request: httpx.Request) -> None:
    if absence := inside.absence:
        # As the SDK's own error: it would try any other again before it tells.
        raise APIConnectionError(message=absence, request=request)


def _result(inside: Inside, coroutine: Coroutine[Any, Any, T], request: httpx.Request) -> T:
    try:
        return inside.call(coroutine).result(_read_timeout(request))
    except TimeoutError:
        raise _timeout_error(request) from None
    except (BrokenAnswer, futures.CancelledError) as error:  # cancelled: the loop ended in the middle of it
        raise _broken_error(error, request) from None


async def _await_result(inside: Inside, coroutine: Coroutine[Any, Any, T], request: httpx.Request) -> T:
    task = asyncio.current_task()
    assert task is not None
    try:
        async with asyncio.timeout(_read_timeout(request)):
            return await asyncio.wrap_future(inside.call(coroutine))
    except TimeoutError:
        raise _timeout_error(request) from None
    except BrokenAnswer as error:
        raise _broken_error(error, request) from None
    except asyncio.CancelledError as error:
        if task.cancelling():
            raise
        raise _broken_error(error, request) from None


def _timeout_error(request: httpx.Request) -> httpx.ReadTimeout:
    return httpx.ReadTimeout("the gateway has said nothing for too long", request=request)


def _broken_error(error: BaseException, request: httpx.Request) -> httpx.RemoteProtocolError:
    return httpx.RemoteProtocolError(str(error) or "the gateway was closed", request=request)


def _read_timeout(request: httpx.Request) -> float | None:
    """Seconds that the client waits for the next bytes; None for ever."""
    patience: float | None = request.extensions.get("timeout", {}).get("read")
    return patience
