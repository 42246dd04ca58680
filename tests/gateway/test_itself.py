"""A gateway whose model is itself: noticed by the address, or at the first request that comes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import openai
import pytest
from openai import OpenAI
from tests.gateway.houses import House, Scene
from tests.helpers.ports import free_port


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_environment_of_a_client_is_no_upstream(tmp_path: Path, name: str) -> None:
    port = free_port()
    ours = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://{name}:{port}/v1"}
    with House(tmp_path / "state", "--port", str(port), environment=ours, discover=True) as house:
        assert "openai" not in house.told["models"]
        with OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
            assert "belljar" in [model.id for model in client.models.list()]
    [line] = [line for line in house.log.read_text().splitlines() if "left out" in line]
    for word in ("openai", f"http://{name}:{port}/v1"):
        assert word in line


def test_a_configured_one_stops_the_start(tmp_path: Path) -> None:
    port = free_port()
    ran = House(tmp_path / "state", "--port", str(port), "--upstream", f"me=http://localhost:{port}/v1").run()
    assert ran.returncode == 3
    for word in ("upstreams.me.base_url", f"http://localhost:{port}/v1", "--upstream", "leave it out"):
        assert word in ran.stderr
    assert "Traceback" not in ran.stderr


class Relay:
    """What a proxy is to a gateway: another address of it."""

    def __init__(self) -> None:
        self.port = 0
        self.target = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Relay:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass(reader, there[1]), _pass(there[0], writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except OSError:
        pass
    finally:
        writer.close()


@pytest.fixture
def relayed(tmp_path: Path) -> Iterator[House]:
    with Relay() as relay, House(tmp_path / "state", "--upstream", f"me=http://127.0.0.1:{relay.port}/v1") as house:
        relay.target = int(house.url.rpartition(":")[2])
        yield house


def test_what_comes_back_to_it_is_refused_and_says_why(relayed: House) -> None:
    with OpenAI(base_url=relayed.base_url, api_key="none", max_retries=0) as client:
        for model in ("me/belljar", "me/me/belljar"):
            with pytest.raises(openai.InternalServerError, match="leads back to it") as caught:
                client.responses.create(model=model, input="hi")
            assert caught.value.status_code == 502
            with pytest.raises(openai.InternalServerError, match="leads back to it"):
                client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}])
        assert client.responses.create(model="belljar", input="hi").output_text
    assert httpx2.get(f"{relayed.base_url}/models", headers={"belljar-from": "another"}).status_code == 200


def test_two_gateways_that_ask_each_other_are_told_so(tmp_path: Path) -> None:
    port = free_port()
    names = "--upstream", f"two=http://127.0.0.1:{port}/v1"
    with House(tmp_path / "one", *names) as one:
        back = "--port", str(port), "--upstream", f"one={one.base_url}"
        with House(tmp_path / "two", *back), OpenAI(base_url=one.base_url, api_key="none", max_retries=0) as client:
            assert client.responses.create(model="two/belljar", input="hi").output_text
            for stream in (False, True):
                with pytest.raises(openai.APIError, match=r"through another one.*leads back to it") as caught:
                    list(client.responses.create(model="two/one/belljar", input="hi", stream=stream))
                for word in ("two: one: ", "base_url", "belljar-from"):
                    assert word in str(caught.value)
            assert client.responses.create(model="belljar", input="hi").output_text


def test_the_marks_of_honest_gateways_add_up_and_there_is_an_end_to_them(scene: Scene, tmp_path: Path) -> None:
    asked = {"model": "sim", "input": "hi"}
    with (
        House(tmp_path / "one", "--upstream", f"loop={scene.server.base_url}") as one,
        House(tmp_path / "two", "--upstream", f"one={one.base_url}") as two,
    ):
        scene.play("Hello.", "Hello.")
        with OpenAI(base_url=two.base_url, api_key="none", max_retries=0) as client:
            assert client.responses.create(model="one/sim", input="hi").output_text == "Hello."
        marks = scene.asked[0].headers["belljar-from"].split(",")
        assert (len(marks), len(set(marks))) == (2, 2)
        came = {"belljar-from": "a, <b>, c"}
        assert httpx2.post(f"{one.base_url}/responses", headers=came, json=asked).status_code == 200
        assert scene.asked[1].headers["belljar-from"] == f"a,c,{marks[-1]}"
        many = {"belljar-from": ",".join("abcdefgh")}
        refused = httpx2.post(f"{one.base_url}/responses", headers=many, json=asked)
        assert (refused.status_code, refused.json()["error"]["code"]) == (508, "upstream_loop")
        assert "come through 8 gateways" in refused.json()["error"]["message"]
        assert len(scene.asked) == 2
