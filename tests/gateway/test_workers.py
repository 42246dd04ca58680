"""Several gateways over one store: what is made at one is there at the others, and none undoes another's work.

The workers of `belljar serve --workers 2` are asked one by one, each at the socket by which the others reach it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai import OpenAI
from tests.gateway.houses import CODE, OUTPUTS, House
from tests.gateway.test_first_minute import cell, logs
from tests.gateway.test_state import wait_for
from websockets.sync.client import unix_connect


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """With a limit that only its own test reaches."""
    state = tmp_path_factory.mktemp("workers") / "state"
    with House(state, "--workers", "2", environment={"BELLJAR_QUOTA_RESPONSES": "5"}) as house:
        yield house


def at(house: House, number: int, **options: Any) -> OpenAI:
    """One of the workers."""
    transport = httpx2.HTTPTransport(uds=str(house.state / "workers" / f"{number}.sock"))
    client = httpx2.Client(transport=transport, timeout=60)
    return OpenAI(base_url="http://localhost/v1", api_key="none", http_client=client, max_retries=0, **options)


@pytest.fixture
def a(house: House) -> Iterator[OpenAI]:
    with at(house, 0) as client:
        yield client


@pytest.fixture
def b(house: House) -> Iterator[OpenAI]:
    with at(house, 1) as client:
        yield client


def run(client: OpenAI, code: str, **more: Any) -> Any:
    more = {"model": "belljar", "tools": CODE, "include": OUTPUTS, **more}
    return client.responses.create(input=f"```python\n{code}\n```", **more)


def _is_healed(response: Any) -> bool:
    return bool(cell(response).to_dict().get("belljar", {}).get("healed"))  # type: ignore[attr-defined]


def named(container: str) -> list[dict[str, Any]]:
    return [{"type": "code_interpreter", "container": container}]


def children(house: House) -> dict[int, list[str]]:
    """Of the parent, with what they were started as; without those that end meanwhile."""
    found: dict[int, list[str]] = {}
    for pid in Path(f"/proc/{house.process.pid}/task/{house.process.pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return found


def worker(house: House, number: int) -> int:
    [pid] = [pid for pid, args in children(house).items() if any(one.startswith(f"{number}:") for one in args)]
    return pid


def test_a_chain_goes_on_at_any_gateway_with_its_variables(a: OpenAI, b: OpenAI) -> None:
    made = run(a, "x = 1\nx")
    for turn in range(2, 8):
        client = (a, b)[turn % 2]
        if turn % 3:
            made = run(client, "x += 1\nx", previous_response_id=made.id)
        else:
            with client.responses.stream(
                model="belljar",
                input="```python\nx += 1\nx\n```",
                tools=CODE,  # type: ignore[arg-type]
                include=["code_interpreter_call.outputs"],
                previous_response_id=made.id,
            ) as stream:
                events = [event.sequence_number for event in stream]
                made = stream.get_final_response()
            assert events == list(range(len(events)))
        assert logs(made) == str(turn)
        assert not _is_healed(made)


def test_a_refusal_of_the_other_gateway_is_told_as_it_is(a: OpenAI, b: OpenAI) -> None:
    container = cell(run(a, "1")).container_id
    asked: Any = [{"role": "user", "content": [{"type": "input_file", "file_id": "file-none"}]}]
    told = []
    for client in (a, b):
        with pytest.raises(openai.APIStatusError) as caught:
            client.responses.create(model="belljar", input=asked, tools=named(container))  # type: ignore[arg-type]
        told.append((caught.value.status_code, caught.value.body))
    assert told[0] == told[1]


def test_files_are_read_and_written_at_any(a: OpenAI, b: OpenAI) -> None:
    container = cell(run(a, "open('log', 'w').write('old')")).container_id
    [log] = b.containers.files.list(container)
    assert b.containers.files.content.retrieve(log.id, container_id=container).read() == b"old"
    b.containers.files.create(container, file=("log", b"NEW!"))
    b.containers.files.create(container, file=("more", b"2"))
    told = run(a, "open('log', 'a').write('+cell')\nprint(open('more').read())", tools=named(container))
    assert logs(told).strip() == "2"
    by_path = {one.path: one.id for one in a.containers.files.list(container)}
    content = b.containers.files.content.retrieve(by_path["/mnt/data/log"], container_id=container).read()
    assert content == b"NEW!+cell"
    b.containers.files.delete(by_path["/mnt/data/more"], container_id=container)
    assert logs(run(a, "import os; os.path.exists('more')", tools=named(container))) == "False"


def test_a_turn_of_a_websocket_goes_on_where_its_container_is(house: House, a: OpenAI) -> None:
    made = run(a, "x = 1\nx")
    asked = {"type": "response.create", "model": "belljar", "tools": named(cell(made).container_id), "include": OUTPUTS}
    with unix_connect(
        str(house.state / "workers" / "1.sock"), "ws://localhost/v1/responses", open_timeout=60
    ) as socket:

        def turn(code: str, **more: Any) -> list[dict[str, Any]]:
            socket.send(json.dumps({**asked, "input": f"```python\n{code}\n```", "stream_id": "lane", **more}))
            told = [json.loads(socket.recv(60))]
            while told[-1]["type"] not in ("response.completed", "error"):
                told.append(json.loads(socket.recv(60)))
            return told

        told = turn("x += 1\nx", previous_response_id=made.id)
        assert [one["sequence_number"] for one in told] == list(range(len(told)))
        assert {one["stream_id"] for one in told} == {"lane"}
        assert told[-1]["response"]["output"][0]["outputs"][0]["logs"] == "2"
        [refused] = turn("1", input=[{"role": "user", "content": [{"type": "input_file", "file_id": "file-none"}]}])
        assert (refused["status"], refused["error"]["param"]) == (400, "input[0].content[0].file_id")
        # What only this connection would remember is not asked of others.
        [refused] = turn("x", store=False)
        assert refused["error"]["code"] == "held_elsewhere"
        assert turn("x += 1\nx")[-1]["response"]["output"][0]["outputs"][0]["logs"] == "3"


SLOW = "import time\nfor n in range(40):\n    print(n, flush=True)\n    time.sleep(0.05)"


def test_what_runs_in_the_background_is_followed_from_any(a: OpenAI, b: OpenAI) -> None:
    begun = run(a, SLOW, background=True)
    assert b.responses.retrieve(begun.id).status in ("queued", "in_progress")
    seen = list(b.responses.retrieve(begun.id, stream=True))
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert seen[-1].type == "response.completed"
    again = list(a.responses.retrieve(begun.id, stream=True, starting_after=5))
    assert [event.to_dict() for event in again] == [event.to_dict() for event in seen[6:]]


def test_what_is_cancelled_anywhere_stays_cancelled(a: OpenAI, b: OpenAI) -> None:
    begun = run(a, "import time; time.sleep(60)", background=True)
    assert b.responses.cancel(begun.id).status == "cancelled"
    for client in (a, b):
        assert client.responses.retrieve(begun.id).status == "cancelled"


def test_responses_at_once_are_counted_over_all_workers(a: OpenAI, b: OpenAI) -> None:
    begun: list[str] = []
    try:
        for n in range(5):
            begun.append(run((a, b)[n % 2], "import time; time.sleep(600)", background=True).id)
        for client in (a, b):
            with pytest.raises(openai.RateLimitError, match="5 responses in progress"):
                run(client, "1")
    finally:
        for id in begun:
            a.responses.cancel(id)
    assert logs(run(b, "1 + 1")) == "2"


def test_what_is_deleted_anywhere_is_gone_everywhere(a: OpenAI, b: OpenAI) -> None:
    made = run(a, "1")
    assert run(a, "2", previous_response_id=made.id).id
    begun = run(a, "import time; time.sleep(60)", background=True)
    for id in (made.id, begun.id):
        b.responses.delete(id)
        for client in (a, b):
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(id)
    with pytest.raises(openai.BadRequestError):
        run(a, "3", previous_response_id=made.id)


def test_deleting_a_container_ends_what_runs_in_it_elsewhere(a: OpenAI, b: OpenAI) -> None:
    container = cell(run(a, "1")).container_id
    last = None
    for event in run(a, "import time; time.sleep(60)", tools=named(container), stream=True):
        if event.type == "response.code_interpreter_call.interpreting":
            b.containers.delete(container)
            with pytest.raises(openai.NotFoundError):
                a.containers.retrieve(container)
        last = event
    assert last is not None
    assert cell(last.response).status == "failed"


def test_one_scrape_has_the_counters_of_all(house: House, a: OpenAI, b: OpenAI) -> None:
    def count() -> float:
        text = httpx2.get(f"{house.url}/metrics").text
        [line] = [one for one in text.splitlines() if one.startswith('belljar_cells_total{exit="ok"}')]
        return float(line.rpartition(" ")[2])

    run(a, "1")
    before = count()
    run(a, "1")
    run(b, "1")
    assert [count() for _ in range(5)] == [before + 2] * 5


def test_nobody_passes_on_what_is_not_signed(house: House, a: OpenAI) -> None:
    container = cell(run(a, "1")).container_id
    for headers in ({}, {"belljar-peer": "gw_1 1 00"}, {"belljar-peer": f"gw_1 {int(time.time())} {'0' * 64}"}):
        told = httpx2.post(f"{house.url}/internal/containers/{container}/drop", headers=headers)
        assert told.status_code == 404
    assert logs(run(a, "2", tools=named(container))) == "2"


def test_from_the_first_key_on_all_of_them_ask_for_one(tmp_path: Path) -> None:
    with House(tmp_path / "state", "--workers", "2") as house, at(house, 0) as a, at(house, 1) as b:
        assert [client.models.list().data[0].id for client in (a, b)] == ["belljar"] * 2
        key = house.keys("add", "ann")["key"]
        for client in (a, b):
            while True:
                try:
                    client.models.list()
                except openai.AuthenticationError:
                    break
            assert client.with_options(api_key=key).models.list().data


def test_the_port_of_others_is_not_shared(house: House, tmp_path: Path) -> None:
    port = house.url.rpartition(":")[2]
    other = House(tmp_path / "state", "--workers", "2", "--port", port).run()
    assert other.returncode == 2
    assert f"port: {port} is in use" in other.stderr


def test_what_the_banner_tells_of_packages_is_so(house: House) -> None:
    assert "pandas" in house.told["packages"] or "data stack" in house.told["packages"]
    assert "pip install" not in house.told["packages"]


# -- workers that die -------------------------------------------------------------------------------------------------


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[House]:
    with House(tmp_path / "state", "--workers", "2") as house:
        yield house


def test_a_worker_that_is_killed_is_replaced_and_what_it_ran_has_failed(fragile: House) -> None:
    with at(fragile, 0) as a, at(fragile, 1) as b:
        made = run(a, "x = 1\nopen('kept', 'w').write('kept')")
        begun = run(a, SLOW.replace("40", "4000"), background=True)  # it is killed before its end
        followed: list[Any] = []

        def follow() -> None:
            for event in b.responses.retrieve(begun.id, stream=True):
                followed.append(event)
                if len(followed) == 12:
                    os.kill(worker(fragile, 0), signal.SIGKILL)

        with pytest.raises(openai.APIError):
            follow()
        assert wait_for(b, begun.id, "failed").error.code == "server_error"
        rest = list(_frames(b, begun.id, followed[-1].sequence_number))
        assert [one["sequence_number"] for one in rest] == list(range(len(followed), len(followed) + len(rest)))
        assert rest[-1]["type"] == "response.failed"
        # The other takes over the sandbox that it had, which outlives it at the one jail: nothing is lost.
        taken = run(b, "print(open('kept').read(), x)", previous_response_id=made.id)
        assert logs(taken).split() == ["kept", "1"]
        assert not _is_healed(taken)
    with at(fragile, 0) as again:
        while not is_listening(fragile.state / "workers" / "0.sock"):
            time.sleep(0.05)
        assert logs(run(again, "6 * 7")) == "42"


def is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as door:
        return door.connect_ex(str(path)) == 0


def _frames(client: OpenAI, id: str, after: int) -> Iterator[dict[str, Any]]:
    """Of a stream that ends with an error, at which the SDK would raise."""
    with client.responses.with_streaming_response.retrieve(id, stream=True, starting_after=after) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))


def test_nothing_is_left_of_a_parent_that_is_killed(fragile: House) -> None:
    with at(fragile, 0) as a:
        run(a, "1")
    born = children(fragile)
    assert len(born) == 3
    fragile.kill()
    while any(Path(f"/proc/{pid}").exists() for pid in born):
        time.sleep(0.02)
    with House(fragile.state, "--workers", "2") as again, at(again, 1) as b:
        assert logs(run(b, "1")) == "1"
