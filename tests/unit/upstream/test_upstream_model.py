"""A model server through a dialect: answers, faults, cancellation, and keys that stay where they are."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from itertools import repeat
from typing import Any

import pytest
from tests.helpers.ports import unused_port

from belljar.config import Upstream
from belljar.errors import (
    BadKey,
    BadSettings,
    ContextTooLong,
    Declined,
    Garbled,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unreachable,
)
from belljar.gateway.upstream.endpoint import Endpoint
from belljar.gateway.upstream.upstream_model import DialectModel
from belljar.testing import BREAK, LoopbackUpstream, Reply, call
from belljar.vendors.deltas import Begun, Delta, Finish, Text, UsageDelta

from .conftest import KEY, PATIENCE, Run, answer, asking, calls_of, text_of, transport, until, upstream


@pytest.fixture(params=["chat", "openai", "anthropic"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refused(status: int, **error: object) -> Reply:
    import json

    return Reply(status=status, body=json.dumps({"error": error}).encode())


async def one_answer(settings: Upstream) -> list[Any]:
    async with transport() as sender:
        return await answer(DialectModel(settings, sender))


def test_a_turn_over_the_wire(run: Run, dialect: str) -> None:
    with LoopbackUpstream([["It is ", call("code_interpreter", code="6 * 7")]]) as server:
        deltas = run(one_answer(upstream(server.base_url, dialect=dialect)))
    assert text_of(deltas) == "It is "
    assert calls_of(deltas) == [("code_interpreter", '{"code": "6 * 7"}')]
    assert Finish("calls") in deltas
    assert isinstance(deltas[-1], UsageDelta)
    (received,) = server.requests
    paths = {"chat": "chat/completions", "openai": "responses", "anthropic": "messages"}
    assert received.path == f"/v1/{paths[dialect]}"
    assert received.json["model"] == "sim"
    assert received.json["stream"] is True


def test_headers(run: Run) -> None:
    settings = {"headers": {"X-Team": "lab", "User-Agent": "mine"}, "api_key": f" {KEY}\n"}
    with LoopbackUpstream(["hi"]) as server:
        run(one_answer(upstream(f"{server.base_url}/", **settings)))
    (received,) = server.requests
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.headers["x-team"] == "lab"
    assert received.headers["user-agent"] == "mine"
    assert received.headers["content-type"] == "application/json"
    assert received.path == "/v1/chat/completions"


def test_without_a_key_nothing_is_sent_as_one(run: Run) -> None:
    with LoopbackUpstream(["hi"]) as server:
        run(one_answer(upstream(server.base_url, api_key=None)))
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (refused(401, message=f"Incorrect API key provided: {KEY}", code="invalid_api_key"), BadKey),
        (refused(429, message="slow down", code="rate_limit_exceeded"), RateLimited),
        (refused(429, message="pay first", code="insufficient_quota"), QuotaExceeded),
        (refused(400, message="too much", code="context_length_exceeded"), ContextTooLong),
        (refused(500, message=f"oops {KEY}"), ProviderError),
        (Reply(status=503, body=f"<html>{KEY}</html>".encode()), Unreachable),
        (Reply(status=418, body=f"no {KEY}".encode()), ProviderError),
        (Reply(body=f"not a stream {KEY}".encode()), Garbled),
        (Reply(steps=[f'data: {{"error": {{"message": "no {KEY}"}}}}\n\n'.encode()]), ProviderError),
        (Reply(steps=[f"data: {KEY}\n\n".encode()]), ProviderError),
        (Reply(steps=["half", 0.01, BREAK]), Unreachable),
        (Reply(before=threading.Event()), Unreachable),
    ],
)
def test_what_fails_is_ours_names_the_upstream_and_keeps_the_key(
    dialect: str, reply: Reply, error: type[ProviderError], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    timeout = 0.2 if isinstance(reply.before, threading.Event) else PATIENCE
    with LoopbackUpstream(repeat(reply)) as server, pytest.raises(error) as caught:
        asyncio.run(one_answer(upstream(server.base_url, dialect=dialect, timeout=timeout)), debug=True)
    assert "lab" in str(caught.value)
    shown = f"{caught.value!r}{''.join(traceback.format_exception(caught.value))}{caplog.text}"
    assert KEY not in shown


def test_a_key_is_in_nothing_that_is_shown() -> None:
    settings = upstream("http://127.0.0.1:1/v1", headers={"X-Api-Key": "another-secret-key"})
    endpoint = Endpoint(settings)
    error = ProviderError(f"{KEY} and another-secret-key were refused")
    endpoint.explain(error)
    assert str(error) == "[key] and [key] were refused"
    assert KEY not in f"{settings!r}{endpoint!r}{error!r}"


@pytest.mark.parametrize(
    ("error", "status", "remedy"),
    [
        (BadKey("lab refused the key (401)"), 401, "; set the api_key of this upstream to one that it takes"),
        (ProviderError("lab: no such page"), 404, "; check the base_url of this upstream"),
        (ProviderError("lab: it broke"), 500, ""),
        (Declined("lab: no such model"), 404, ""),
    ],
    ids=["key", "address", "broken", "model"],
)
def test_an_operator_is_told_what_to_do(error: ProviderError, status: int, remedy: str) -> None:
    before = str(error)
    Endpoint(upstream("http://127.0.0.1:1/v1")).explain(error, status)
    assert str(error) == before + remedy


def test_a_server_that_is_not_there(run: Run) -> None:
    with unused_port() as port:
        base_url = f"http://127.0.0.1:{port}/v1"
        with pytest.raises(Unreachable, match=rf"studio at http://127.0.0.1:{port} cannot .*is LM Studio running\?"):
            run(one_answer(upstream(base_url, name="studio", quirks="lm_studio")))
        with pytest.raises(Unreachable, match=r"is it running, and is base_url right\?"):
            run(one_answer(upstream(base_url)))


async def _saying(stream: AsyncIterator[list[Delta]]) -> AsyncIterator[Sequence[Delta]]:
    """Without the vendor's id of the answer, which comes alone or with the first words, as the reads fall."""
    async for batch in stream:
        if said := [delta for delta in batch if not isinstance(delta, Begun)]:
            yield said


def test_an_answer_that_breaks_off_gives_what_came_and_then_the_reason(run: Run, dialect: str) -> None:
    go = threading.Event()

    async def main() -> None:
        async with transport() as sender:
            model = DialectModel(upstream(server.base_url, dialect=dialect), sender)
            async with aclosing(model.ask(asking())) as stream:
                assert await anext(_saying(stream)) == [Text("half")]
                go.set()
                with pytest.raises(Unreachable, match=r"lab at .* broke off in the middle"):
                    await anext(stream)

    with LoopbackUpstream([["half", go, BREAK], "again"]) as server:
        run(main())
    assert len(server.requests) == 1


@pytest.mark.parametrize("how", ["closed", "cancelled", "cancelled early"])
def test_a_run_that_is_called_off_stops_the_model(run: Run, dialect: str, how: str) -> None:
    never = threading.Event()
    reply = Reply(before=never) if how == "cancelled early" else Reply(steps=["word", never])

    async def main() -> None:
        begun = asyncio.Event()

        async def listen() -> None:
            async with aclosing(model.ask(asking())) as stream:
                begun.set()
                async for batch in _saying(stream):
                    assert batch == [Text("word")]
                    if how == "closed":
                        return

        async with transport() as sender:
            model = DialectModel(upstream(server.base_url, dialect=dialect), sender)
            listening = asyncio.create_task(listen())
            await begun.wait()
            await until(lambda: bool(server.requests), "the request is there")
            if how == "closed":
                await listening
            else:
                listening.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await listening
            assert await asyncio.to_thread(server.abandoned.wait, PATIENCE)

    with LoopbackUpstream([reply]) as server:
        run(main())


def test_sixty_four_streams_do_not_mix(run: Run, dialect: str) -> None:
    async def main() -> list[str]:
        async with transport() as sender:
            model = DialectModel(upstream(server.base_url, dialect=dialect), sender)
            answers = await asyncio.gather(*(answer(model) for _ in range(64)))
        return sorted(map(text_of, answers))

    texts = [" ".join(f"{stream}:{word}" for word in range(60)) for stream in range(64)]
    slowly = [[step for word in text.split(" ") for step in (f" {word}", 0.001)] for text in texts]
    with LoopbackUpstream(slowly) as server:
        assert run(main()) == sorted(f" {text}" for text in texts)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"dialect": "esperanto"}, r"upstreams\.lab\.dialect: 'esperanto' is none of chat, openai"),
        ({"quirks": "none such"}, r"upstreams\.lab\.quirks: 'none such' is none of generic"),
        ({"base_url": "127.0.0.1:1234"}, r"upstreams\.lab\.base_url"),
        ({"base_url": f"https://user:{KEY}@example.com/v1"}, r"upstreams\.lab\.base_url"),
        ({"api_key": f"{KEY}\r\nx-evil: 1"}, r"upstreams\.lab\.api_key"),
        ({"api_key": f"{KEY}…"}, r"upstreams\.lab\.api_key"),
        ({"headers": {"x-a": f"{KEY}\n"}, "api_key": None}, None),
        ({"headers": {"x-a": f"a\n{KEY}"}}, r"upstreams\.lab\.headers\.'x-a'"),
        ({"headers": {"x-a\r\nb": KEY}}, r"upstreams\.lab\.headers\.'x-a\\r\\nb'"),
    ],
)
def test_settings_that_cannot_work_are_named(settings: dict[str, Any], what: str | None) -> None:
    base = {"base_url": "http://127.0.0.1:1/v1", **settings}

    async def make() -> None:
        async with transport() as sender:
            DialectModel(upstream(**base), sender)

    if what is None:
        asyncio.run(make())
        return
    with pytest.raises(BadSettings, match=what) as caught:
        asyncio.run(make())
    assert KEY not in str(caught.value)
