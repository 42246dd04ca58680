"""Model servers that come and go while a gateway runs: found, told apart, and said why not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai import OpenAI
from tests.gateway.houses import House
from tests.gateway.test_workers import is_listening, worker
from tests.helpers import forked
from tests.helpers.forked import Forked
from tests.helpers.ports import free_port

from belljar.gateway.upstream import loop_guard
from belljar.testing import LoopbackUpstream

VARIABLES = ("LM_STUDIO", "OLLAMA", "VLLM", "LLAMA_CPP")


class Street:
    """A gateway that looks for model servers at four ports of its own."""

    def __init__(self, directory: Path, **variables: str) -> None:
        self.ports = {name: free_port() for name in VARIABLES}
        there = {f"{name}_BASE_URL": f"http://127.0.0.1:{port}/v1" for name, port in self.ports.items()}
        keyless = {name: "" for name in os.environ if name.endswith("_API_KEY")}
        self.environment = {**keyless, "BELLJAR_CODE_INTERPRETER": "false", **there, **variables}
        self.house = House(directory / "state", "--log-level", "info", environment=self.environment, discover=True)

    @contextmanager
    def client(self, **options: Any) -> Iterator[OpenAI]:
        with OpenAI(**{"base_url": self.house.base_url, "api_key": "none", "max_retries": 0, **options}) as client:
            yield client

    def listed(self) -> dict[str, str]:
        """Whose every model is."""
        with self.client() as client:
            return {model.id: model.owned_by for model in client.models.list()}

    def starts(self, at: str, kind: str, *models: str, script: Any = ()) -> LoopbackUpstream:
        return LoopbackUpstream(script, models=models, kind=kind, port=self.ports[at])

    def log(self) -> list[str]:
        return [line for line in self.house.log.read_text().splitlines() if " at http://127.0.0.1" in line]


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Street]:
    made = Street(tmp_path)
    with made.house:
        yield made


def until(true: Callable[[], object]) -> None:
    """pytest's own time limit ends a wait that is in vain."""
    while not true():
        time.sleep(0.05)


def refusal(street: Street, model: str, **options: Any) -> openai.APIStatusError:
    with street.client(**options) as client, pytest.raises(openai.APIStatusError) as caught:
        client.responses.create(model=model, input="hi")
    return caught.value


def test_one_that_starts_later_is_found_by_its_models_name(street: Street) -> None:
    assert street.house.told["models"] == {"belljar": ["belljar"]}
    assert len(street.house.told["nobody_at"]) == 4
    with street.starts("OLLAMA", "ollama", "qwen3:8b", script=["Hello."]), street.client(max_retries=4) as client:
        until(lambda: "qwen3:8b" in street.listed())
        assert client.responses.create(model="qwen3:8b", input="hi").output_text == "Hello."


def test_it_is_found_without_being_asked_for(street: Street) -> None:
    with street.starts("LLAMA_CPP", "llama_cpp", "m") as server:
        until(lambda: server.requests)
        asked = server.requests[0]
        assert (asked.method, asked.path, asked.headers.get("authorization")) == ("GET", "/v1/models", None)
        until(
            lambda: any(
                "llama_cpp at http://127.0.0.1" in line and "is there: 1 model" in line for line in street.log()
            )
        )
        assert street.listed() == {"belljar": "belljar", "m": "llama_cpp"}


def test_what_is_unknown_is_told_with_where_was_looked(street: Street) -> None:
    with street.starts("OLLAMA", "ollama") as empty, LoopbackUpstream(models=None, port=street.ports["VLLM"]):
        until(lambda: empty.requests)
        street.listed()
        error = refusal(street, "qwen3:8b")
    assert (error.status_code, error.code, error.param) == (400, "model_not_found", "model")
    for words in (
        "The requested model 'qwen3:8b' does not exist.",
        "Known models: belljar.",
        f"ollama at http://127.0.0.1:{street.ports['OLLAMA']}: it has no models; run: ollama pull NAME.",
        f"nobody answers at 127.0.0.1:{street.ports['LM_STUDIO']} (LM Studio)",
        f"127.0.0.1:{street.ports['LLAMA_CPP']} (llama.cpp)",
        "it is found while the gateway runs",
    ):
        assert words in error.message
    assert str(street.ports["VLLM"]) not in error.message  # whatever it is, it is no model server


def test_a_model_that_is_loading_is_worth_waiting_for(street: Street) -> None:
    with street.starts("LLAMA_CPP", "llama_cpp", "qwen", script=["Hello."]) as server:
        server.loading = True
        until(lambda: server.requests)
        street.listed()
        error = refusal(street, "qwen")
        assert (error.status_code, error.code) == (503, "model_loading")
        assert error.response.headers["retry-after"] == "5"
        assert f"llama_cpp at http://127.0.0.1:{street.ports['LLAMA_CPP']}: it is still loading its model" in str(error)
        ready = threading.Timer(0.5, lambda: setattr(server, "loading", False))
        ready.start()
        with street.client(max_retries=4) as client:  # the SDK comes again by itself
            assert client.responses.create(model="qwen", input="hi").output_text == "Hello."
        ready.join()


def test_one_that_reads_its_model_again_says_so_to_who_asks_for_it(street: Street) -> None:
    with street.starts("LLAMA_CPP", "llama_cpp", "qwen", script=["Hello."]) as server:
        until(lambda: "qwen" in street.listed())
        server.loading = True
        for stream in (False, True):
            with street.client() as client, pytest.raises(openai.APIError, match="still loading its model") as caught:
                list(client.responses.create(model="qwen", input="hi", stream=stream))
            if not stream:
                assert isinstance(caught.value, openai.InternalServerError)
                assert (caught.value.status_code, caught.value.response.headers["retry-after"]) == (503, "5")
        assert "qwen" in street.listed()


def test_a_server_that_comes_back_with_another_model(street: Street) -> None:
    with street.starts("OLLAMA", "ollama", "old"):
        until(lambda: "old" in street.listed())
    with street.starts("OLLAMA", "ollama", "new", script=["Hello."]), street.client() as client:
        until(lambda: "new" in street.listed())
        assert "old" not in street.listed()
        assert client.responses.create(model="ollama/new", input="hi").output_text == "Hello."


def test_a_server_that_is_gone_takes_its_models_along(street: Street) -> None:
    with street.starts("OLLAMA", "ollama", "qwen"):
        until(lambda: "qwen" in street.listed())
    until(lambda: "qwen" not in street.listed())
    for name in ("qwen", "ollama/qwen"):
        error = refusal(street, name)
        assert (error.status_code, error.code) == (502, "unreachable")
        assert f"The model '{name}' was there and is gone: ollama at http://127.0.0.1" in str(error)
        assert "is Ollama running?" in str(error)


def test_what_it_is_is_asked_of_it_and_not_of_its_port(street: Street) -> None:
    with ExitStack() as stack:
        here = {
            at: stack.enter_context(street.starts(at, kind, *models, script=["Hello."] * 3))
            for at, kind, *models in [
                ("OLLAMA", "llama_cpp", "a"),
                ("VLLM", "vllm", "b"),
                ("LLAMA_CPP", "lm_studio", "c"),
                ("LM_STUDIO", "ollama"),
            ]
        }
        until(lambda: len(street.listed()) == 4)
        assert street.listed() == {
            "belljar": "belljar",
            "a": f"llama_cpp-{street.ports['OLLAMA']}",
            "b": "vllm",
            "c": f"lm_studio-{street.ports['LLAMA_CPP']}",
        }
        assert f"ollama-{street.ports['LM_STUDIO']} at " in str(refusal(street, "d"))
        tools: Any = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("f", "g")]
        with street.client() as client:
            client.responses.create(model="a", input="hi", tools=tools, tool_choice={"type": "function", "name": "g"})
        *trials, asked = [one.json for one in here["OLLAMA"].requests if one.method == "POST"]
        assert [len(one.get("tools", ())) for one in trials] == [0, 1]  # whether tools reach this model
        assert (asked["tool_choice"], [one["function"]["name"] for one in asked["tools"]]) == ("required", ["g"])


def test_a_crowd_that_asks_for_nothing_there_is_makes_few_looks(street: Street) -> None:
    with street.starts("OLLAMA", "ollama", "qwen") as server:
        until(lambda: "qwen" in street.listed())
        began, before = time.monotonic(), len(server.requests)
        with httpx2.Client(base_url=street.house.base_url) as client:
            for number in range(60):
                asked = {"model": f"http://127.0.0.1:22/{number}", "input": "hi"}
                assert client.post("/responses", json=asked).status_code == 400
                assert client.get("/models").status_code == 200
        looks = len(server.requests) - before
        assert looks <= 2 + (time.monotonic() - began) / 2.0  # one that was under way, and one for each two seconds
        assert all(one.path == "/v1/models" for one in server.requests)


def test_the_log_tells_what_changed_once(street: Street) -> None:
    for _ in range(3):
        refusal(street, "nothing")
    with street.starts("LLAMA_CPP", "llama_cpp", "m") as server:
        until(lambda: "m" in street.listed())
        server.loading = True
        until(lambda: street.listed() and len(street.log()) == 2)
        refusal(street, "nothing")
        server.loading = False
        until(lambda: len(street.log()) == 3)
    until(lambda: "m" not in street.listed())
    street.listed()
    assert ["is there: 1 model" in line for line in street.log()] == [True, False, True, False]


def test_belljar_models_makes_the_gateway_look(street: Street, tmp_path: Path) -> None:
    port = street.house.url.rpartition(":")[2]

    def models() -> dict[str, Any]:
        variables = {**os.environ, **street.environment, "BELLJAR_PORT": port}
        ran = forked.run("models", "--json", env=variables, cwd=tmp_path)
        ran.check_returncode()
        return {one["provider"]: one for one in json.loads(ran.stdout)}

    found = models()
    assert found["belljar"]["models"] == ["belljar"]
    assert found["ollama"]["why"] == f"nobody answers at http://127.0.0.1:{street.ports['OLLAMA']}/v1"
    with (
        street.starts("LLAMA_CPP", "llama_cpp", "m"),
        street.starts("OLLAMA", "ollama"),
        street.starts("VLLM", "llama_cpp", "n") as loading,
    ):
        loading.loading = True
        until(lambda: "m" in (found := models())["belljar"]["models"] and found)
        found = models()
        assert found["belljar"]["models"] == ["belljar", "m"]
        assert not found["ollama"]["usable"]
        assert found["ollama"]["why"].endswith("it has no models; run: ollama pull NAME")
        assert found["vllm"]["why"].endswith("it is still loading its model")


def test_a_gateway_at_a_usual_port_does_not_ask_itself(tmp_path: Path) -> None:
    street = Street(tmp_path)
    with House(
        tmp_path / "own", "--port", str(street.ports["VLLM"]), environment=street.environment, discover=True
    ) as house:
        assert len(house.told["nobody_at"]) == 3
        assert str(street.ports["VLLM"]) not in str(house.told["nobody_at"])


def test_two_gateways_that_look_for_each_other_come_to_an_end(street: Street, tmp_path: Path) -> None:
    other = Street(tmp_path / "other", OLLAMA_BASE_URL=street.house.base_url)
    with House(
        tmp_path / "two",
        "--port",
        str(street.ports["VLLM"]),
        environment=other.environment,
        discover=True,
    ) as two:
        for url in (street.house.base_url, two.base_url):
            [own] = httpx2.get(f"{url}/models", timeout=30).json()["data"]
            assert own["id"] == "belljar"


def test_a_configured_one_that_starts_later_is_found_too(tmp_path: Path) -> None:
    port = free_port()
    with House(tmp_path / "state", "--upstream", f"mine=http://127.0.0.1:{port}/v1") as house:
        assert "connection refused" in house.told["troubles"]["mine"]
        with LoopbackUpstream(models=["m"], port=port) as server:
            until(lambda: server.requests)
            with OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
                until(lambda: "m" in [model.id for model in client.models.list()])


def test_a_server_that_wants_a_key_is_told_of(tmp_path: Path) -> None:
    street = Street(tmp_path)
    with street.house, Locked(street.ports["VLLM"]):
        until(lambda: "it wants a key (401)" in str(refusal(street, "m")))


class Locked(LoopbackUpstream):
    """It has nothing to say to whoever has no key."""

    def __init__(self, port: int) -> None:
        super().__init__(port=port)

    def _next(self, received: Any) -> Any:
        from belljar.testing import Reply

        return Reply(status=401, body=b'{"error":"Unauthorized"}')


def test_the_banner_says_what_is_not_there_yet(tmp_path: Path) -> None:
    street = Street(tmp_path)

    def banner() -> str:
        options = ("serve", "--port", "0", "--state-dir", str(tmp_path / "banner"))
        variables = {**os.environ, **street.environment}
        with Forked(*options, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                assert process.stdout is not None
                return "".join(takewhile("Ctrl-C stops it.\n".__ne__, process.stdout))
            finally:
                process.terminate()

    nobody = f"no model server yet; one is found when it starts at 127.0.0.1:{street.ports['LM_STUDIO']} (LM Studio), "
    assert nobody in banner()
    with street.starts("OLLAMA", "ollama"), street.starts("VLLM", "llama_cpp", "m") as loading:
        loading.loading = True
        told = banner()
    assert nobody not in told
    port = street.ports["OLLAMA"]
    assert f"ollama at http://127.0.0.1:{port}: it has no models; run: ollama pull NAME" in told
    port = street.ports["VLLM"]
    assert f"llama_cpp-{port} at http://127.0.0.1:{port}: it is still loading its model" in told


# -- several gateways behind one port ---------------------------------------------------------------------------------


def names_at(house: House, worker: int, *, looking: bool = True) -> set[str]:
    """What a worker offers; another gateway that asks does not make it look first."""
    transport = httpx2.HTTPTransport(uds=str(house.state / "workers" / f"{worker}.sock"), retries=0)
    headers = {} if looking else {loop_guard.HEADER: "another"}
    with httpx2.Client(transport=transport, timeout=60, headers=headers) as client:
        return {one["id"] for one in client.get("http://localhost/v1/models").json()["data"]}


def test_what_one_worker_finds_all_of_them_offer(tmp_path: Path) -> None:
    street = Street(tmp_path)
    house = House(street.house.state, "--workers", "2", environment=street.environment, discover=True)
    # One that is there keeps them from looking by themselves: its list is asked for again after a minute.
    with street.starts("VLLM", "vllm", "first"), house:
        for number in (0, 1):
            assert names_at(house, number, looking=False) == {"belljar", "first"}
        with street.starts("OLLAMA", "ollama", "late"):
            until(lambda: "late" in names_at(house, 0))
            late = time.monotonic() + 40
            until(lambda: "late" in names_at(house, 1, looking=False) or time.monotonic() > late)
            assert "late" in names_at(house, 1, looking=False)


def test_a_worker_that_is_replaced_has_the_settings_of_the_others(tmp_path: Path) -> None:
    street = Street(tmp_path)
    settings = tmp_path / "config.toml"
    with street.starts("VLLM", "vllm", "given") as server:
        settings.write_text(f'[upstreams.lab]\nbase_url = "{server.base_url}"\n')
        flags = ("--workers", "2", "--config", str(settings))
        with House(street.house.state, *flags, environment=street.environment) as house:
            settings.write_text("this is = not TOML")
            before = worker(house, 1)
            os.kill(before, signal.SIGKILL)
            until(lambda: not Path(f"/proc/{before}").exists())
            until(lambda: house.process.poll() is not None or is_listening(house.state / "workers" / "1.sock"))
            assert names_at(house, 1) == names_at(house, 0) == {"belljar", "given"}
