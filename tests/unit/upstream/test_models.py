"""Which model a name means, with real servers to list them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.helpers.ports import unused_port

from belljar.config import Upstream
from belljar.errors import BadSettings, InvalidRequest
from belljar.gateway.builtin_model.model import BuiltIn
from belljar.gateway.upstream.models import ModelInfo, Models
from belljar.testing import FakeClock, LoopbackUpstream, ScriptedModel

from .conftest import answer, asking, text_of, transport, until, upstream


@asynccontextmanager
async def models(*upstreams: Upstream, clock: FakeClock | None = None) -> AsyncIterator[Models]:
    async with transport() as sender:
        made = Models(upstreams, sender, clock=clock or FakeClock())
        try:
            yield made
        finally:
            await made.close()


def asked_for_lists(server: LoopbackUpstream) -> int:
    return sum(received.path == "/v1/models" for received in server.requests)


async def unknown(made: Models, name: str) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        await made.resolve(name)
    assert (caught.value.param, caught.value.fault) == ("model", "model_not_found")
    return caught.value


def test_our_own_model_needs_nothing() -> None:
    async def main() -> None:
        async with models() as made:
            route = await made.resolve("belljar")
            assert isinstance(route.model, BuiltIn)
            assert (route.name, route.upstream, route.traits.dialect) == ("belljar", "belljar", "belljar")
            assert await made.list() == [ModelInfo("belljar", "belljar")]
            assert "does not exist. Known models: belljar." in str(await unknown(made, "gpt-5"))

    asyncio.run(main())


def test_another_may_stand_in_for_it() -> None:
    async def main() -> None:
        own = ScriptedModel([["mine"]])
        async with transport() as sender:
            route = await Models((), sender, own=own).resolve("belljar")
            assert text_of(await answer(route.model)) == "mine"

    asyncio.run(main())


def test_names() -> None:
    async def main() -> None:
        async with models(upstream(one.base_url, name="one"), upstream(two.base_url, name="two")) as made:
            for name, expected in {
                "a": ("one", "a"),
                "b": ("two", "b"),
                "org/c": ("two", "org/c"),
                "one/a": ("one", "a"),
                "two/a": ("two", "a"),
                "one/shared": ("one", "shared"),
                "two/org/c": ("two", "org/c"),
                "one/never/heard of": ("one", "never/heard of"),
                "belljar": ("belljar", "belljar"),
                "two/belljar": ("two", "belljar"),
            }.items():
                route = await made.resolve(name)
                assert (route.upstream, route.name) == expected, name

    with (
        LoopbackUpstream(models=["a", "shared", "two/x"]) as one,
        LoopbackUpstream(models=["b", "org/c", "shared", "belljar"]) as two,
    ):
        asyncio.run(main())


def test_the_list_says_each_name_in_the_way_that_leads_to_it() -> None:
    async def main() -> None:
        async with models(upstream(one.base_url, name="one"), upstream(two.base_url, name="two")) as made:
            infos = await made.list()
            assert [info.id for info in infos] == [
                "belljar",
                "a",
                "one/shared",
                "one/two/x",
                "b",
                "org/c",
                "two/shared",
                "two/belljar",
            ]
            assert [info.owned_by for info in infos] == ["belljar", *["one"] * 3, *["two"] * 4]
            for info in infos:
                assert (await made.resolve(info.id)).upstream == info.owned_by

    with (
        LoopbackUpstream(models=["a", "shared", "two/x"]) as one,
        LoopbackUpstream(models=["b", "org/c", "shared", "belljar"]) as two,
    ):
        asyncio.run(main())


def test_a_model_called_like_its_upstream_has_its_bare_name() -> None:
    async def main() -> None:
        async with models(upstream(server.base_url, name="sim")) as made:
            assert [info.id for info in await made.list()] == ["belljar", "sim"]
            for name in ("sim", "sim/sim"):
                assert (await made.resolve(name)).name == "sim"

    with LoopbackUpstream(models=["sim"]) as server:
        asyncio.run(main())


def test_a_route_leads_to_the_server() -> None:
    async def main() -> None:
        async with models(upstream(server.base_url)) as made:
            route = await made.resolve("a")
            assert text_of(await answer(route.model, asking(model=route.name))) == "here"

    with LoopbackUpstream(["here"], models=["a"]) as server:
        asyncio.run(main())
    assert server.requests[-1].json["model"] == "a"


def test_a_name_that_several_have_must_be_said_in_full() -> None:
    async def main() -> None:
        both = upstream(server.base_url, name="one"), upstream(server.base_url, name="two")
        async with models(*both) as made:
            assert "offered by several upstreams: say 'one/a' or 'two/a'." in str(await unknown(made, "a"))

    with LoopbackUpstream(models=["a"]) as server:
        asyncio.run(main())


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    async def main() -> None:
        async with models(upstream(server.base_url), upstream(f"http://127.0.0.1:{port}", name="gone")) as made:
            message = str(await unknown(made, "qwen-7c"))
            assert message.startswith("The requested model 'qwen-7c' does not exist. Did you mean 'qwen-7b'?")
            assert "Known models: belljar, qwen-7b, m0, " in message
            assert "and 10 more, which GET /v1/models lists." in message
            assert f"No models from gone at http://127.0.0.1:{port} cannot be reached: connection refused" in message
            long = str(await unknown(made, "x" * 10_000))
            assert len(long) < 1000
            for wrong in ("", "/", "lab/", "gone", "LAB/a"):
                await unknown(made, wrong)

    offered = ["qwen-7b", *(f"m{number}" for number in range(20))]
    with LoopbackUpstream(models=offered) as server, unused_port() as port:
        asyncio.run(main())


@pytest.mark.parametrize("offered", [None, ["a"]], ids=["no list", "not there"])
def test_an_upstream_without_a_list_is_reached_by_prefix_and_pattern(offered: list[str] | None) -> None:
    async def main() -> None:
        base_url = server.base_url if offered is None else f"http://127.0.0.1:{port}/v1"
        async with models(upstream(base_url, models=("fixed", "gpt-*", "*-mini", "a.b*"))) as made:
            for name in ("fixed", "gpt-5", "gpt-", "x-mini", "a.bc"):
                assert (await made.resolve(name)).name == name
            for name in ("Fixed", "gpt", "mini", "aXbc"):
                await unknown(made, name)
                assert (await made.resolve(f"lab/{name}")).name == name
            assert [info.id for info in await made.list()] == ["belljar", "fixed"]

    with LoopbackUpstream(models=offered) as server, unused_port() as port:
        asyncio.run(main())


def test_patterns_choose_from_the_list() -> None:
    async def main() -> None:
        async with models(upstream(server.base_url, models=("gpt-*", "own"))) as made:
            assert [info.id for info in await made.list()] == ["belljar", "own", "gpt-5"]
            await unknown(made, "whisper")

    with LoopbackUpstream(models=["gpt-5", "whisper"]) as server:
        asyncio.run(main())


def test_names_that_are_all_given_need_no_list() -> None:
    async def main() -> None:
        async with models(upstream(server.base_url, models=("a", "b"))) as made:
            assert (await made.resolve("a")).upstream == "lab"
            assert [info.id for info in await made.list()] == ["belljar", "a", "b"]
            await unknown(made, "c")

    with LoopbackUpstream(models=["c"]) as server:
        asyncio.run(main())
    assert not server.requests


def test_a_list_counts_more_than_a_pattern() -> None:
    async def main() -> None:
        async with models(
            upstream(listing.base_url, name="has"), upstream(other.base_url, name="any", models=("*",))
        ) as made:
            assert (await made.resolve("a")).upstream == "has"
            assert (await made.resolve("z")).upstream == "any"

    with LoopbackUpstream(models=["a"]) as listing, LoopbackUpstream(models=[]) as other:
        asyncio.run(main())


def test_lists_are_kept_and_renewed_in_the_background() -> None:
    clock = FakeClock()

    async def main() -> None:
        assert server.models is not None
        async with models(upstream(server.base_url), clock=clock) as made:
            await asyncio.gather(*(made.resolve("a") for _ in range(20)))
            assert asked_for_lists(server) == 1
            clock.advance(59)
            await made.resolve("a")
            await made.list()
            assert asked_for_lists(server) == 1
            server.models.append("b")
            clock.advance(2)
            await made.resolve("a")  # answered from what is known
            assert [info.id for info in await made.list()] == ["belljar", "a"]
            await until(lambda: asked_for_lists(server) == 2, "the list is renewed")
            assert (await made.resolve("b")).name == "b"
            assert asked_for_lists(server) == 2

    with LoopbackUpstream(models=["a"]) as server:
        asyncio.run(main())


def test_an_unknown_name_asks_again_but_not_all_the_time() -> None:
    clock = FakeClock()

    async def main() -> None:
        assert server.models is not None
        async with models(upstream(server.base_url), clock=clock) as made:
            await made.resolve("a")
            server.models.append("new")
            for _ in range(5):
                await unknown(made, "new")
            assert asked_for_lists(server) == 1
            clock.advance(5)
            assert (await made.resolve("new")).name == "new"
            assert asked_for_lists(server) == 2

    with LoopbackUpstream(models=["a"]) as server:
        asyncio.run(main())


def test_what_was_known_stays_when_the_server_goes() -> None:
    clock = FakeClock()

    async def main() -> None:
        async with models(upstream(server.base_url), clock=clock) as made:
            await made.resolve("a")
            server.models = None
            clock.advance(100)
            await unknown(made, "z")
            assert (await made.resolve("a")).upstream == "lab"
            assert "No models from lab at http://127.0.0.1:" in (message := str(await unknown(made, "z")))
            assert ": it answered 404." in message

    with LoopbackUpstream(models=["a"]) as server:
        asyncio.run(main())


def test_one_who_gives_up_waiting_does_not_spoil_it_for_the_others() -> None:
    async def main() -> None:
        async with models(upstream(server.base_url)) as made:
            impatient = asyncio.create_task(made.resolve("a"))
            patient = asyncio.create_task(made.resolve("a"))
            await until(lambda: bool(server.requests), "the list is asked for")
            impatient.cancel()
            assert (await patient).name == "a"

    with LoopbackUpstream(models=["a"]) as server:
        asyncio.run(main())


def test_closing_stops_asking() -> None:
    async def main() -> None:
        async with models(upstream(server.base_url)) as made:
            await made.resolve("lab/a")
        assert len(asyncio.all_tasks()) == 1

    with LoopbackUpstream() as server:
        asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "name", "sees", "hosted"),
    [
        ({"dialect": "openai", "base_url": "https://api.openai.com/v1"}, "gpt-5", True, True),
        ({"dialect": "openai", "base_url": "https://api.openai.com/v1"}, "something-new", True, True),
        ({"dialect": "openai"}, "qwen-7b", False, False),
        ({}, "qwen-7b", False, False),
        ({}, "qwen2.5-vl-7b", True, False),
        ({}, "llama-3.2-11b-vision", True, False),
        ({}, "google/gemma-3-12b", True, False),
        ({}, "google/gemma-3-1b", False, False),
        ({}, "gpt-4o-mini", True, False),
        ({}, "deepseek-r1", False, False),
        ({}, "novel", False, False),
    ],
)
def test_traits(settings: dict[str, Any], name: str, sees: bool, hosted: bool) -> None:
    async def main() -> None:
        async with models(upstream(**{"base_url": "http://127.0.0.1:1/v1", **settings}, models=(name,))) as made:
            traits = (await made.resolve(name)).traits
            assert (traits.sees, traits.hosted) == (sees, hosted)
            assert traits.dialect == settings.get("dialect", "chat")

    asyncio.run(main())


def test_two_of_one_name_are_refused() -> None:
    async def main() -> None:
        async with models(upstream("http://127.0.0.1:1"), upstream("http://127.0.0.1:2")):
            pass

    with pytest.raises(BadSettings, match="two are called 'lab'"):
        asyncio.run(main())
