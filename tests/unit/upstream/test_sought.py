"""Upstreams that may come to be there: when they are asked, how often, and what they are taken for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.helpers.ports import unused_port

from belljar.config import Upstream
from belljar.errors import InvalidRequest, Loading
from belljar.gateway.upstream import upstream_models
from belljar.gateway.upstream.models import Models
from belljar.testing import FakeClock, LoopbackUpstream

from .conftest import request_of, serving, transport, upstream


@asynccontextmanager
async def seeking(*sought: Upstream, given: tuple[Upstream, ...] = (), clock: FakeClock) -> AsyncIterator[Models]:
    async with transport() as sender:
        made = Models(given, sender, sought=sought, clock=clock)
        try:
            yield made
        finally:
            await made.close()
        assert len(asyncio.all_tasks()) == 1


def ids(made: Models) -> dict[str, str]:
    return {info.id: info.owned_by for info in made.list_known()}


def test_it_is_watched_for_only_while_there_is_nothing_else() -> None:
    clock = FakeClock()

    async def main() -> None:
        assert server.models is not None
        async with seeking(upstream(server.base_url, name="ollama"), clock=clock) as made:
            await made.watch()
            await made.watch()
            assert len(server.requests) == 3  # what it is was asked once: a list of nothing does not tell
            server.models.append("m")
            await made.watch()
            assert ids(made) == {"belljar": "belljar", "m": "ollama"}
            asked = len(server.requests)
            for _ in range(5):
                clock.advance(5)
                await made.watch()
            assert len(server.requests) == asked
            server.loading = True
            await made.look()
            asked = len(server.requests)
            await made.watch()
            assert len(server.requests) == asked + 1  # it will be there soon

    with LoopbackUpstream(models=[], kind="ollama") as server:
        asyncio.run(main())


def test_nothing_is_watched_where_nothing_is_sought() -> None:
    async def main() -> None:
        async with seeking(clock=FakeClock()) as made:
            await made.watch()
            assert ids(made) == {"belljar": "belljar"}
            assert list(made.list_silent_places()) == []

    asyncio.run(main())


def test_looks_are_shared_and_not_made_all_the_time() -> None:
    clock = FakeClock()

    async def main() -> None:
        async with seeking(upstream(server.base_url, name="vllm"), clock=clock) as made:
            await made.list()
            assert len(server.requests) == 1
            clock.advance(2)
            asking = [made.resolve(f"x{number}") for number in range(50)]
            found = await asyncio.gather(*asking, *(made.look() for _ in range(50)), return_exceptions=True)
            assert sum(isinstance(one, InvalidRequest) for one in found) == 50
            assert len(server.requests) == 2
            clock.advance(1.9)
            await made.look()
            assert len(server.requests) == 2
            clock.advance(0.1)
            await made.look()
            assert len(server.requests) == 3

    with LoopbackUpstream(models=["m"], kind="vllm") as server:
        asyncio.run(main())


def test_one_that_is_slow_for_once_stays_and_one_that_is_gone_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_models, "PROBE_SECONDS", 0.2)
    clock = FakeClock()
    deaf = False

    async def main() -> None:
        async def sometimes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request_of(reader)
            if deaf:
                await reader.read()
            body = b'{"data":[{"id":"m","owned_by":"vllm"}]}'
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

        nonlocal deaf
        async with transport() as sender:
            async with serving(sometimes) as url:
                made = Models((), sender, sought=[upstream(f"{url}/v1", name="vllm")], clock=clock)
                await made.list()
                deaf = True
                clock.advance(2)
                await made.look()
                assert ids(made)["m"] == "vllm"
                assert "longer than 0.2 s" in made.list_troubles()["vllm"]
                deaf = False
            clock.advance(2)
            await made.look()
            assert ids(made) == {"belljar": "belljar"}

    asyncio.run(main())


def test_what_is_no_model_server_is_let_be() -> None:
    async def main() -> None:
        places = [
            upstream(unlisted.base_url, name="vllm"),
            upstream(another_of_us.base_url, name="ollama"),
            upstream(f"http://127.0.0.1:{port}/v1", name="lm_studio"),
        ]
        async with seeking(*places, clock=FakeClock()) as made:
            await made.list()
            assert ids(made) == {"belljar": "belljar"}
            assert made.list_troubles() == {}
            assert list(made.list_silent_places()) == [f"127.0.0.1:{port} (LM Studio)"]

    with (
        LoopbackUpstream(models=None) as unlisted,
        LoopbackUpstream(models=["belljar", "a"]) as another_of_us,
        unused_port() as port,
    ):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("kind", "named", "called"),
    [
        ("ollama", "ollama", "ollama"),
        ("lm_studio", "lm_studio", "lm_studio"),
        ("ollama", "vllm", "ollama-{port}"),
        ("lm_studio", "vllm", "lm_studio-{port}"),
        (None, "vllm", "local-{port}"),
    ],
)
@pytest.mark.parametrize("models", [["m"], []], ids=["full", "empty"])
def test_it_is_called_by_what_it_is(kind: str | None, named: str, called: str, models: list[str]) -> None:
    async def main() -> None:
        async with seeking(upstream(server.base_url, name=named), clock=FakeClock()) as made:
            await made.list()
            name = called.format(port=server.base_url.split(":")[2].removesuffix("/v1"))
            for spelling in (name, name.replace("_", "")):  # which it once had
                assert (await made.resolve(f"{spelling}/m")).upstream == name

    with LoopbackUpstream(models=models, kind=kind) as server:
        asyncio.run(main())


def test_what_is_found_changes_nothing_for_what_was_given() -> None:
    async def main() -> None:
        given = upstream(ours.base_url, name="ours"), upstream(theirs.base_url, name="ollama-1", models=("a-*",))
        async with seeking(upstream(found.base_url, name="ollama"), given=given, clock=FakeClock()) as made:
            await made.list()
            assert (await made.resolve("m")).upstream == "ours"
            assert (await made.resolve("ollama/m")).upstream == "ollama"
            assert (await made.resolve("own")).upstream == "ollama"
            assert ids(made) == {"belljar": "belljar", "m": "ours", "ollama/m": "ollama", "own": "ollama"}

    with (
        LoopbackUpstream(models=["m"]) as ours,
        LoopbackUpstream(models=[]) as theirs,
        LoopbackUpstream(models=["m", "own"], kind="ollama") as found,
    ):
        asyncio.run(main())


def test_a_given_server_is_told_apart_too_and_kept_when_it_loads() -> None:
    async def main() -> None:
        async with seeking(given=(upstream(server.base_url, name="openai"),), clock=(clock := FakeClock())) as made:
            route = await made.resolve("m")
            assert route.upstream == "openai"
            assert vars(route.model)["endpoint"].vendor.name == "llama_cpp"
            server.loading = True
            clock.advance(5)
            with pytest.raises(Loading, match=r"openai at .*: it is still loading its model"):
                await made.resolve("n")
            assert (await made.resolve("m")).model is route.model

    with LoopbackUpstream(models=["m"], kind="llama_cpp") as server:
        asyncio.run(main())
