"""Who may call, what each key sees and may use, and what is written down of it: over real servers, with the SDK."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httpx2
import openai
import pytest
from openai import OpenAI
from tests.gateway.houses import CODE, House, Scene
from tests.gateway.test_first_minute import cell, logs
from tests.gateway.test_loop import ask, messages
from tests.gateway.test_state import wait_for
from websockets.sync.client import connect

from belljar.testing import Reply, call

ERROR = {"message", "type", "param", "code"}
OUTPUT = "belljar:code_interpreter_call.output.delta"
SLEEP = "import time\nprint('on', flush=True)\ntime.sleep(600)"


class Key(NamedTuple):
    """A key as its holder has it."""

    id: str
    plain: str
    house: House

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.plain}"}

    def client(self) -> OpenAI:
        return OpenAI(base_url=self.house.base_url, api_key=self.plain, max_retries=0)

    def ask(self, method: str, path: str, body: object = None) -> httpx2.Response:
        url = f"{self.house.base_url}{path}"
        return httpx2.request(method, url, headers=self.headers, json=body, timeout=60)


def new_key(house: House, name: str) -> Key:
    """A further one; the gateway looks for new keys every second."""
    made = house.keys("add", name)
    key = Key(made["id"], made["key"], house)
    if hasattr(house, "url"):
        while key.ask("GET", "/models").status_code == 401:
            time.sleep(0.05)
    return key


@pytest.fixture(scope="module")
def guarded(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Key, Key]]:
    """Two holders of keys to one gateway, which tells all that it ever tells in its log."""
    house = House(
        tmp_path_factory.mktemp("guarded") / "state",
        *("--upstream", f"loop={_scene.server.base_url}", "--log-level", "debug", "--log-format", "json"),
        environment={"BELLJAR_LARGEST_BODY": "1m"},
    )
    ada, bob = new_key(house, "ada"), new_key(house, "bob")
    with house:
        yield ada, bob


@pytest.fixture
def ada(guarded: tuple[Key, Key]) -> Key:
    return guarded[0]


@pytest.fixture
def bob(guarded: tuple[Key, Key]) -> Key:
    return guarded[1]


def raw(house: House, head: str, body: bytes = b"") -> tuple[int, dict[str, str], Any]:
    """Status, headers and JSON of what is answered to this much of a request."""
    where = urlsplit(house.url)
    assert where.hostname is not None
    with socket.create_connection((where.hostname, where.port), 20) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        answer = b""
        while (at := answer.find(b"\r\n\r\n")) < 0 or len(answer) < at + 4 + _length(answer[:at]):
            part = connection.recv(65536)
            assert part, answer
            answer += part
    lines = answer[:at].decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return int(lines[0].split()[1]), headers, json.loads(answer[at + 4 :])


def _length(head: bytes) -> int:
    found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return int(found[1]) if found else 0


# -- with and without a key -------------------------------------------------------------------------------------------


def test_on_loopback_no_key_is_needed(house: House, client: OpenAI) -> None:
    assert httpx2.get(f"{house.base_url}/models").status_code == 200
    assert client.models.list().data
    assert client.with_options(api_key="bj-any").models.list().data


WRONG = {
    "none": {},
    "empty": {"authorization": "Bearer"},
    "another scheme": {"authorization": "Basic YWRhOmFkYQ=="},
    "not a key": {"authorization": "Bearer none"},
    "not ours": {"authorization": f"Bearer bj-{secrets.token_urlsafe(32)}"},
    "not ASCII": {"authorization": "Bearer bj-clé".encode("latin-1")},
}


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG.keys())
def test_without_a_good_key_nothing_is_answered(ada: Key, headers: dict[str, str]) -> None:
    answer = httpx2.get(f"{ada.house.base_url}/models", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["x-request-id"].startswith("req_")
    error = answer.json()["error"]
    assert error.keys() == ERROR
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, "invalid_api_key")
    assert "bj-" not in error["message"]


ROUTES = [
    ("POST", "/responses"), ("POST", "/responses/input_tokens"), ("POST", "/responses/compact"),
    ("GET", "/responses/resp_x"), ("DELETE", "/responses/resp_x"), ("POST", "/responses/resp_x/cancel"),
    ("GET", "/responses/resp_x/input_items"), ("POST", "/chat/completions"),
    ("POST", "/conversations"), ("GET", "/conversations/conv_x"), ("POST", "/conversations/conv_x"),
    ("DELETE", "/conversations/conv_x"), ("POST", "/conversations/conv_x/items"),
    ("GET", "/conversations/conv_x/items"), ("GET", "/conversations/conv_x/items/msg_x"),
    ("DELETE", "/conversations/conv_x/items/msg_x"),
    ("POST", "/containers"), ("GET", "/containers"), ("GET", "/containers/cntr_x"), ("DELETE", "/containers/cntr_x"),
    ("POST", "/containers/cntr_x/files"), ("GET", "/containers/cntr_x/files"),
    ("GET", "/containers/cntr_x/files/cfile_x"), ("DELETE", "/containers/cntr_x/files/cfile_x"),
    ("GET", "/containers/cntr_x/files/cfile_x/content"),
    ("POST", "/files"), ("GET", "/files"), ("GET", "/files/file-x"), ("DELETE", "/files/file-x"),
    ("GET", "/files/file-x/content"), ("GET", "/models"), ("GET", "/models/belljar"),
]  # fmt: skip


def test_every_door_is_locked_but_those_for_the_operator(ada: Key) -> None:
    with httpx2.Client(base_url=ada.house.base_url) as stranger:
        answers = {f"{method} {path}": stranger.request(method, path).status_code for method, path in ROUTES}
    assert set(answers.values()) == {401}, answers
    assert httpx2.get(f"{ada.house.url}/healthz").json() == {"status": "ok"}
    while (ready := httpx2.get(f"{ada.house.url}/readyz")).status_code == 503:
        assert ready.json() == {"status": "not ready", "problems": ["the sandbox is starting"]}
        time.sleep(0.05)
    assert ready.json() == {"status": "ready"}
    assert httpx2.get(f"{ada.house.url}/metrics").status_code == 200


def test_a_stranger_is_told_before_anything_is_sent(ada: Key) -> None:
    head = "POST /v1/files HTTP/1.1\nhost: x\ncontent-type: multipart/form-data; boundary=b\ncontent-length: 99999999"
    status, headers, body = raw(ada.house, head)
    assert (status, headers["connection"], body["error"]["code"]) == (401, "close", "invalid_api_key")


def test_the_sdk_says_so_in_its_own_words(ada: Key) -> None:
    with OpenAI(base_url=ada.house.base_url, api_key="bj-wrong", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError) as caught:
            stranger.responses.create(model="belljar", input="hi")
        with pytest.raises(openai.AuthenticationError):
            stranger.responses.create(model="belljar", input="hi", stream=True)
    assert caught.value.code == "invalid_api_key"
    assert caught.value.request_id
    with ada.client() as client:
        assert client.responses.create(model="belljar", input="hi").output_text


def test_a_revoked_key_counts_no_more(ada: Key) -> None:
    eve = new_key(ada.house, "eve")
    address = f"{ada.house.base_url}/responses".replace("http", "ws", 1)
    with eve.client() as client, connect(address, additional_headers=eve.headers, open_timeout=20) as talk:
        assert client.models.list().data
        ada.house.keys("revoke", eve.id)
        while eve.ask("GET", "/models").status_code == 200:
            time.sleep(0.05)
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
        talk.send(json.dumps({"type": "response.create", "model": "belljar", "input": "hi"}))
        told = json.loads(talk.recv(20))
    assert (told["type"], told["status"], told["error"]["code"]) == ("error", 401, "invalid_api_key")


# -- whose it is ------------------------------------------------------------------------------------------------------


class Things(NamedTuple):
    """What Ada has."""

    ids: dict[str, str]
    sealed: str


@pytest.fixture(scope="module")
def things(guarded: tuple[Key, Key], _scene: Scene) -> Things:
    ada, bob = guarded
    with ada.client() as client, bob.client() as other:
        file = client.files.create(file=("own.png", b"\x89PNG of Ada"), purpose="user_data")
        conversation = client.conversations.create(items=[{"type": "message", "role": "user", "content": "Ada's"}])
        [item] = client.conversations.items.list(conversation.id)
        code = "print('Ada printed this'); _ = open('made.txt', 'w').write('Ada made this')"
        _scene.play([call("code_interpreter", code=code)], "Ada's answer", "Later.", "Ada's summary")
        first = ask(client, "Ada's question")
        later = wait_for(client, ask(client, tools=[], background=True).id, "completed")
        [made] = client.containers.files.list(cell(first).container_id)
        compacted = client.responses.with_raw_response.compact(model="sim", previous_response_id=first.id)
        return Things(
            {
                "resp": first.id,
                "msg": cast(str, first.output[-1].id),
                "ci": cell(first).id,
                "bg": later.id,
                "conv": conversation.id,
                "item": cast(str, item.id),
                "cntr": cell(first).container_id,
                "cfile": made.id,
                "file": file.id,
                "own": other.containers.create(name="bob's").id,
            },
            json.loads(compacted.content)["output"][-1]["encrypted_content"],
        )


def interpreter(container: object) -> list[dict[str, Any]]:
    return [{"type": "code_interpreter", "container": container}]


def said(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


ASK = {"model": "sim", "input": "x"}
MINE: list[tuple[str, str, Any, int]] = [
    ("GET", "/responses/{resp}", None, 404),
    ("GET", "/responses/{bg}", None, 404),
    ("GET", "/responses/{bg}?stream=true", None, 404),
    ("GET", "/responses/{resp}/input_items", None, 404),
    ("POST", "/responses/{bg}/cancel", None, 404),
    ("DELETE", "/responses/{resp}", None, 404),
    ("POST", "/responses", {**ASK, "previous_response_id": "{resp}"}, 400),
    ("POST", "/responses", {**ASK, "previous_response_id": "{resp}", "stream": True}, 400),
    ("POST", "/responses", {**ASK, "previous_response_id": "{resp}", "background": True}, 400),
    ("POST", "/responses", {**ASK, "conversation": "{conv}"}, 404),
    ("POST", "/responses", {**ASK, "tools": interpreter("{cntr}")}, 404),
    ("POST", "/responses", {**ASK, "tools": interpreter({"type": "auto", "file_ids": ["{file}"]})}, 400),
    ("POST", "/responses", {**ASK, "input": said({"type": "input_file", "file_id": "{file}"}), "tools": CODE}, 400),
    ("POST", "/responses", {**ASK, "input": said({"type": "input_image", "file_id": "{file}", "detail": "auto"})}, 400),
    ("POST", "/responses", {**ASK, "input": [{"type": "item_reference", "id": "{msg}"}]}, 400),
    ("POST", "/responses/input_tokens", {**ASK, "previous_response_id": "{resp}"}, 400),
    ("POST", "/responses/compact", {"model": "sim", "previous_response_id": "{resp}"}, 400),
    ("GET", "/conversations/{conv}", None, 404),
    ("POST", "/conversations/{conv}", {"metadata": {"a": "b"}}, 404),
    ("GET", "/conversations/{conv}/items", None, 404),
    ("GET", "/conversations/{conv}/items/{item}", None, 404),
    ("POST", "/conversations/{conv}/items", {"items": said({"type": "input_text", "text": "x"})}, 404),
    ("DELETE", "/conversations/{conv}/items/{item}", None, 404),
    ("DELETE", "/conversations/{conv}", None, 404),
    ("GET", "/containers/{cntr}", None, 404),
    ("GET", "/containers/{cntr}/files", None, 404),
    ("GET", "/containers/{cntr}/files/{cfile}", None, 404),
    ("GET", "/containers/{cntr}/files/{cfile}/content", None, 404),
    ("GET", "/containers/{own}/files/{cfile}", None, 404),
    ("GET", "/containers/{own}/files/{cfile}/content", None, 404),
    ("DELETE", "/containers/{own}/files/{cfile}", None, 404),
    ("DELETE", "/containers/{cntr}/files/{cfile}", None, 404),
    ("POST", "/containers/{cntr}/files", {"file_id": "{file}"}, 404),
    ("POST", "/containers/{own}/files", {"file_id": "{file}"}, 400),
    ("POST", "/containers", {"name": "x", "file_ids": ["{file}"]}, 400),
    ("DELETE", "/containers/{cntr}", None, 404),
    ("GET", "/files/{file}", None, 404),
    ("GET", "/files/{file}/content", None, 404),
    ("DELETE", "/files/{file}", None, 404),
]


def filled(value: Any, ids: dict[str, str]) -> Any:
    """With the ids in place of their names."""
    text = json.dumps(value)
    for name, id in ids.items():
        text = text.replace(f"{{{name}}}", id)
    return json.loads(text)


def invented(ids: dict[str, str]) -> dict[str, str]:
    """Ids of the same kinds that nobody has; except Bob's own."""

    def other(id: str) -> str:
        kind = re.match(r"[a-z]+[-_]", id)
        assert kind is not None
        return kind[0] + secrets.token_hex(len(id) // 2)[: len(id) - len(kind[0])]

    return {name: id if name == "own" else other(id) for name, id in ids.items()}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"), MINE, ids=[f"{n}-{row[0]}" for n, row in enumerate(MINE)]
)
def test_what_is_somebody_elses_is_as_if_it_did_not_exist(
    things: Things, bob: Key, method: str, path: str, body: Any, status: int
) -> None:
    heard = []
    for ids in (things.ids, invented(things.ids)):
        answer = bob.ask(method, filled(path, ids), filled(body, ids))
        told = answer.text
        for name, id in ids.items():
            told = told.replace(id, name)
        heard.append((answer.status_code, told))
    assert heard[0] == heard[1]
    assert heard[0][0] == status, heard[0]
    assert json.loads(heard[0][1])["error"].keys() == ERROR


def test_and_their_owner_has_all_of_it(things: Things, ada: Key, bob: Key) -> None:
    """After everything that Bob tried: the table above asks for the right ids."""
    ids = things.ids
    for method, path, _, _ in MINE:
        if method == "GET" and "{own}" not in path:
            answer = ada.ask(method, filled(path, ids))
            assert answer.status_code == 200, (path, answer.text)
    assert ada.ask("GET", f"/containers/{ids['cntr']}/files/{ids['cfile']}/content").content == b"Ada made this"
    for path in ("/files", "/containers"):
        listed = {one["id"] for one in ada.ask("GET", path).json()["data"]}
        assert listed & set(ids.values())
        assert not listed & {one["id"] for one in bob.ask("GET", path).json()["data"]}


def test_a_stream_in_the_background_is_its_owners_alone(ada: Key, bob: Key, scene: Scene) -> None:
    gate = threading.Event()
    scene.play(Reply(steps=["secret ", gate, "words"]))
    try:
        with ada.client() as client:
            begun = ask(client, tools=[], background=True)
        for path in ("?stream=true", "?stream=true&starting_after=1", ""):
            assert bob.ask("GET", f"/responses/{begun.id}{path}").status_code == 404
        for method, path in (("POST", "/cancel"), ("DELETE", "")):
            assert bob.ask(method, f"/responses/{begun.id}{path}").status_code == 404
    finally:
        gate.set()
    with ada.client() as client:
        assert wait_for(client, begun.id, "completed").output_text == "secret words"


def test_a_cell_of_somebody_elses_gives_neither_its_container_nor_what_it_printed(
    things: Things, bob: Key, scene: Scene
) -> None:
    item = {"type": "code_interpreter_call", "id": things.ids["ci"], "container_id": things.ids["cntr"]}
    given = [{**item, "status": "completed", "code": "1", "outputs": None}, {"role": "user", "content": "again"}]
    scene.play([call("code_interpreter", code="import os; os.listdir()")], "nothing here")
    with bob.client() as client:
        response = ask(client, cast(Any, given))
    assert cell(response).container_id != things.ids["cntr"]
    assert logs(response) == "[]"
    assert "Ada" not in json.dumps(messages(scene, 0))


def test_a_compaction_is_sealed_for_its_owner(things: Things, ada: Key, bob: Key, scene: Scene) -> None:
    given: Any = [{"type": "compaction", "encrypted_content": things.sealed}, {"role": "user", "content": "and?"}]
    scene.play("Ada's, as said.")
    with ada.client() as client, bob.client() as other:
        assert ask(client, given, tools=[]).output_text == "Ada's, as said."
        assert "Ada's summary" in json.dumps(messages(scene))
        with pytest.raises(openai.BadRequestError) as caught:
            ask(other, given, tools=[])
        given[0]["encrypted_content"] = things.sealed[:-8] + "AAAAAAA="
        with pytest.raises(openai.BadRequestError) as changed:
            ask(client, given, tools=[])
    assert caught.value.body == changed.value.body
    assert (caught.value.param, caught.value.code) == ("input[0].encrypted_content", "invalid_encrypted_content")


# -- quotas -----------------------------------------------------------------------------------------------------------

PER_MINUTE, STORED = 40, 100_000


@pytest.fixture(scope="module")
def rationed(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(
        tmp_path_factory.mktemp("rationed") / "state",
        *("--upstream", f"loop={_scene.server.base_url}"),
        environment={
            "BELLJAR_QUOTA_REQUESTS": str(PER_MINUTE),
            "BELLJAR_QUOTA_RESPONSES": "2",
            "BELLJAR_QUOTA_SANDBOXES": "1",
            "BELLJAR_CLAIM_TIMEOUT": "0.2",
            "BELLJAR_QUOTA_BYTES": str(STORED),
        },
    )
    house.keys("add", "first")
    with house:
        yield house


@pytest.fixture
def key(rationed: House) -> Key:
    return new_key(rationed, "somebody")


@pytest.fixture
def limited(key: Key) -> Iterator[OpenAI]:
    with key.client() as client:
        yield client


def test_requests_a_minute(rationed: House, key: Key, limited: OpenAI) -> None:
    def exhaust() -> None:
        for _ in range(2 * PER_MINUTE):
            limited.models.list()

    with pytest.raises(openai.RateLimitError) as caught:
        exhaust()
    assert (caught.value.code, caught.value.type) == ("rate_limit_exceeded", "rate_limit_error")
    assert f"{PER_MINUTE} requests a minute" in str(caught.value)
    assert 1 <= int(caught.value.response.headers["retry-after"]) <= 60 / PER_MINUTE + 1
    assert new_key(rationed, "another").ask("GET", "/models").status_code == 200
    assert httpx2.get(f"{rationed.url}/healthz").status_code == 200


def test_responses_at_once_in_sight_and_in_the_background(limited: OpenAI, scene: Scene) -> None:
    gate = threading.Event()
    scene.play(Reply(steps=["one", gate]), Reply(steps=["two", gate]), "three")
    try:
        stream = iter(cast(Any, ask(limited, tools=[], stream=True)))
        assert next(stream).type == "response.created"
        begun = ask(limited, tools=[], background=True)
        ways: list[dict[str, Any]] = [{}, {"stream": True}, {"background": True}]
        for more in ways:
            with pytest.raises(openai.RateLimitError, match="2 responses in progress") as caught:
                ask(limited, tools=[], **more)
            assert caught.value.response.headers["retry-after"] == "1"
    finally:
        gate.set()
    assert [event.type for event in stream][-1] == "response.completed"
    wait_for(limited, begun.id, "completed")
    assert ask(limited, tools=[]).output_text == "three"


def list_blobs(house: House) -> set[str]:
    return {path.name for path in (house.state / "blobs").glob("[0-9a-f][0-9a-f]/*")}


def test_stored_bytes_are_told_before_the_transfer(rationed: House, key: Key, limited: OpenAI) -> None:
    file = limited.files.create(file=("some.bin", bytes(STORED - 10)), purpose="user_data")
    container = limited.containers.create(name="c")
    for path in ("files", f"containers/{container.id}/files"):
        head = f"POST /v1/{path} HTTP/1.1\nhost: x\nauthorization: Bearer {key.plain}\n"
        status, headers, body = raw(
            rationed, f"{head}content-type: multipart/form-data; boundary=b\ncontent-length: {2 * STORED}"
        )
        assert (status, headers["x-should-retry"], headers["connection"]) == (429, "false", "close")
        assert body["error"].keys() == ERROR
        assert (body["error"]["type"], body["error"]["code"]) == ("insufficient_quota", "insufficient_quota")
        assert f"may store {STORED} bytes" in body["error"]["message"]
    with pytest.raises(openai.RateLimitError, match=f"may store {STORED} bytes"):
        limited.files.create(file=("more.bin", bytes(11)), purpose="user_data")
    with pytest.raises(openai.RateLimitError, match="Delete files"):
        limited.containers.files.create(container.id, file=("more.bin", bytes(11)))
    data = f"data:text/plain;base64,{base64.b64encode(os.urandom(11)).decode()}"
    inline = {"type": "input_file", "filename": "inline.txt", "file_data": data}
    before = list_blobs(rationed)
    with pytest.raises(openai.RateLimitError, match="quota_bytes"):
        ask(limited, input=[{"role": "user", "content": [inline]}], tools=interpreter(container.id))
    assert list_blobs(rationed) == before, "what is refused leaves nothing on the disk"
    assert limited.containers.files.create(container.id, file=("fits.bin", bytes(10))).bytes == 10
    limited.files.delete(file.id)
    assert limited.files.create(file=("more.bin", bytes(STORED - 10)), purpose="user_data").bytes == STORED - 10


def test_sandboxes_at_once(limited: OpenAI, scene: Scene) -> None:
    """The one that is busy is not taken away; the one that is idle is, with its files kept."""
    scene.play([call("code_interpreter", code=f"open('kept', 'w').close()\n{SLEEP}")], "never")
    with cast(Any, ask(limited, stream=True)) as stream:
        container = next(event.item.container_id for event in stream if event.type == "response.output_item.added")
        assert any(event.type == OUTPUT for event in stream)
        scene.play([call("code_interpreter", code="1")], "Too many.")
        assert "sandboxes that one key may have" in logs(ask(limited)), "it has waited, and the model was told"

    def other() -> str:
        """It may not have been noticed yet that nobody listens to the first any more."""
        scene.play([call("code_interpreter", code="'mine now'")], "ok")
        return logs(ask(limited))

    while (printed := other()) != "'mine now'":
        assert "sandboxes that one key may have" in printed
    scene.play([call("code_interpreter", code="import os; os.listdir()")], "ok")
    assert logs(ask(limited, tools=interpreter(container))) == "['kept']"


def test_a_body_that_is_too_large(ada: Key) -> None:
    head = f"POST /v1/responses HTTP/1.1\nhost: x\nauthorization: Bearer {ada.plain}\ncontent-type: application/json\n"
    chunk = b"%x\r\n%b\r\n" % (1 << 20, b" " * (1 << 20))
    for framing, sent in (("content-length: 9999999", b""), ("transfer-encoding: chunked", chunk * 2)):
        status, headers, body = raw(ada.house, head + framing, sent)
        assert (status, headers["connection"]) == (413, "close")
        assert body["error"].keys() == ERROR
        assert f"larger than {1 << 20} bytes" in body["error"]["message"]
    with ada.client() as client, pytest.raises(openai.APIStatusError) as caught:
        client.responses.create(model="belljar", input="x" * (1 << 20))
    assert caught.value.status_code == 413


# -- what is written down ---------------------------------------------------------------------------------------------

MARK = "qzx7"
"""In everything that is the callers' own business."""


def lines(house: House, logger: str, request_ids: Sequence[str]) -> list[dict[str, Any]]:
    """The log's lines about these requests; every line of the log must be a JSON object."""
    every = [json.loads(line) for line in house.log.read_text().splitlines()]
    assert all({"time", "level", "logger"} <= line.keys() for line in every)
    return [line for line in every if line["logger"] == logger and line.get("request_id") in request_ids]


def test_the_log_tells_who_and_how_and_nothing_of_what(ada: Key, scene: Scene) -> None:
    answers: list[httpx2.Response] = []
    hook = {"response": [answers.append]}
    codes = [f"print('{MARK}'[::-1][::-1])", f"raise ValueError('{MARK}')", f"open('{MARK}.txt', 'w').write('{MARK}')"]
    broken = Reply(status=500, body=json.dumps({"error": {"message": f"{MARK} broke"}}).encode())
    with httpx2.Client(event_hooks=cast(Any, hook)) as http, ada.client().with_options(http_client=http) as client:
        file = client.files.create(file=(f"{MARK}.csv", f"{MARK},{MARK}\n".encode()), purpose="user_data")
        client.files.content(file.id).read()
        conversation = client.conversations.create(items=[{"role": "user", "content": MARK, "type": "message"}])
        scene.play([call("code_interpreter", code=code) for code in codes], f"It is {MARK}.")
        response = ask(
            client, MARK, instructions=MARK, metadata={MARK: MARK}, conversation=conversation.id,
            tools=interpreter({"type": "auto", "file_ids": [file.id]}), extra_headers={"x-client-request-id": "mine"},
        )  # fmt: skip
        [made] = [one for one in client.containers.files.list(cell(response).container_id) if one.source == "assistant"]
        client.containers.files.content.retrieve(made.id, container_id=made.container_id).read()
        scene.play([call("code_interpreter", code=codes[0])], f"It is {MARK}.")
        for event in cast(Any, ask(client, MARK, stream=True)):
            last = event
        for wrong in ({"model": MARK}, {"previous_response_id": MARK}, {MARK: MARK}):
            with pytest.raises(openai.BadRequestError):
                client.responses.create(**cast(Any, {"model": "sim", "input": MARK, "extra_body": wrong}))
        scene.play(broken, broken, broken, broken)
        with pytest.raises(openai.APIStatusError):
            ask(client, MARK, tools=[])
        for path in (f"/{MARK}", f"/responses/{MARK}", f"/files?after={MARK}", f"/containers/{MARK}/files/{MARK}"):
            answers.append(ada.ask("GET", path))
        stranger = {"authorization": f"Bearer bj-{MARK}", "x-api-key": MARK}
        answers.append(httpx2.get(f"{ada.house.base_url}/models", headers=stranger))
    assert logs(response) == f"{MARK}\n"
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == len(answers) > 15
    while len(told := lines(ada.house, "belljar.requests", ids)) < len(answers):
        time.sleep(0.01)  # a line is written when its answer is out
    requests = {line["request_id"]: line for line in told}
    assert len(requests) == len(told)
    for answer in answers:
        line = requests[answer.headers["x-request-id"]]
        assert (line["method"], line["status"]) == (answer.request.method, answer.status_code)
        assert line["owner"] == ("" if answer.status_code == 401 or line["route"] == "unmatched" else ada.id)
        assert line["route"].startswith("/v1/") or line["route"] == "unmatched"
        assert line["ms"] >= 0
    assert requests[cast(str, response._request_id)]["client_request_id"] == "mine"

    written = ada.house.log.read_text()
    assert MARK not in written
    assert ada.plain.removeprefix("bj-") not in written

    audit = lines(ada.house, "belljar.audit", ids)
    asked = [answer.headers["x-request-id"] for answer in answers if answer.request.url.path == "/v1/responses"]
    assert [line["request_id"] for line in audit] == [asked[0]] * 3 + [asked[1]]
    assert [line["response_id"] for line in audit] == [response.id] * 3 + [last.response.id]
    assert [line["exit"] for line in audit] == ["ok", "raised", "ok", "ok"]
    assert [line["files"] for line in audit] == [0, 0, 1, 0]
    for line, code in zip(audit, [*codes, codes[0]], strict=True):
        assert (line["owner"], line["status"]) == (ada.id, "completed")
        assert line["container_id"].startswith("cntr_")
        assert line["code_sha256"] == hashlib.sha256(code.encode()).hexdigest()
        assert line["code_bytes"] == len(code)


SECRET = "hunter2-qzx8"
"""That code could have used at some server, were there a network."""
PASSWORD = {"domain": "example.org", "name": "TOKEN", "value": SECRET}
OFF = {"type": "disabled", "domain_secrets": [PASSWORD]}
POLICIES: list[Any] = [
    OFF,
    {"type": "allowlist", "allowed_domains": ["example.org"], "domain_secrets": [PASSWORD]},
    {"type": "allowlist", "domain_secrets": [PASSWORD]},
    {"type": "allowlist", "allowed_domains": [], "domain_secrets": [PASSWORD]},
    {"domain_secrets": [PASSWORD]},
    {"type": "open", "domain_secrets": [PASSWORD]},
    {"type": "disabled", "domain_secrets": SECRET},
    {"type": "disabled", "domain_secrets": [SECRET]},
    {"type": "disabled", "domain_secrets": {"value": SECRET}},
    {"type": "disabled", "domain_secrets": [{"domain": 5, "name": "TOKEN", "value": SECRET}]},
    {"type": "disabled", "domain_secrets": [{"value": SECRET}]},
    {"type": "disabled", "domain_secrets": [{**PASSWORD, "value": [SECRET]}]},
    {"type": "disabled", "domain_secrets": [{**PASSWORD, "value": {SECRET: SECRET}}]},
    {"type": "disabled", "secrets": [PASSWORD]},
    SECRET,
    [PASSWORD],
]


def test_secrets_of_a_network_policy_are_never_said_again(ada: Key, scene: Scene) -> None:
    heard: list[httpx2.Response] = []

    def ask(method: str, path: str, body: Any = None) -> httpx2.Response:
        heard.append(ada.ask(method, path, body))
        return heard[-1]

    for policy in POLICIES:
        tools = interpreter({"type": "auto", "network_policy": policy})
        ask("POST", "/containers", {"name": "c", "network_policy": policy})
        for more in ({}, {"stream": True}, {"background": True}, {"store": False}):
            scene.play([call("code_interpreter", code="1")], "ok")
            answer = ask("POST", "/responses", {**ASK, "tools": tools, **more})
            if answer.status_code == 200 and "background" in more:
                with ada.client() as client:
                    id = wait_for(client, answer.json()["id"], "completed").id
                for path in ("", "?stream=true", "/input_items"):
                    assert ask("GET", f"/responses/{id}{path}").status_code == 200
        ask("POST", "/responses/input_tokens", {**ASK, "tools": tools})
        ask("POST", "/chat/completions", {"model": "sim", "messages": [], "tools": tools})
    ask("GET", "/containers")
    assert {answer.status_code for answer in heard} == {200, 400}
    [echoed] = heard[1].json()["tools"]
    assert echoed["container"] == {"type": "auto", "network_policy": {"type": "disabled"}}
    address = f"{ada.house.base_url}/responses".replace("http", "ws", 1)
    with connect(address, additional_headers=ada.headers, open_timeout=20) as talk:
        for policy in POLICIES:
            scene.play("ok")
            tools = interpreter({"type": "auto", "network_policy": policy})
            talk.send(json.dumps({"type": "response.create", **ASK, "tools": tools}))
            while json.loads(told := talk.recv(20))["type"] not in ("error", "response.completed"):
                assert SECRET not in cast(str, told)
            assert SECRET not in cast(str, told)
    assert not [answer.text for answer in heard if SECRET in answer.text]
    assert SECRET not in ada.house.log.read_text()
    assert SECRET not in httpx2.get(f"{ada.house.url}/metrics").text
    kept = b"".join(path.read_bytes() for path in ada.house.state.rglob("*") if path.is_file())
    assert SECRET.encode() not in kept
    assert SECRET not in json.dumps([one.json for one in scene.asked])


def test_a_cell_whose_caller_left_is_written_down_too(ada: Key, scene: Scene) -> None:
    code = f"left = True\n{SLEEP}"
    with ada.client() as client:
        scene.play([call("code_interpreter", code=code)], "never")
        with cast(Any, ask(client, stream=True)) as stream:
            assert any(event.type == OUTPUT for event in stream)
        cut = stream.response.headers["x-request-id"]
        scene.play([call("code_interpreter", code=code)], "never")
        begun = ask(client, background=True)
        events = client.responses.retrieve(begun.id, stream=True)
        assert any(cast(str, event.type) == OUTPUT for event in events)
        client.responses.cancel(begun.id)
    ids = [cut, cast(str, begun._request_id)]
    while len(audit := lines(ada.house, "belljar.audit", ids)) < 2:
        time.sleep(0.01)  # the gateway has to notice first
    assert sorted(line["request_id"] for line in audit) == sorted(ids)
    for line in audit:
        assert (line["status"], line["exit"], line["reason"]) == ("incomplete", "killed", "interrupted")
        assert line["code_sha256"] == hashlib.sha256(code.encode()).hexdigest()
        assert line["ms"] > 0
    while [line["status"] for line in lines(ada.house, "belljar.requests", [cut])] != [499]:
        time.sleep(0.01)


# -- what is counted --------------------------------------------------------------------------------------------------

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

_SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? ([-+\w.]+)')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def parsed(text: str) -> Samples:
    """Prometheus's text format, strictly: families with HELP and TYPE, no sample twice, histograms that add up."""
    kinds: dict[str, str] = {}
    found: Samples = {}
    helped = family = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)[2]
            assert helped not in kinds
        elif line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family == helped
            assert kind in ("counter", "gauge", "histogram")
            kinds[family] = kind
        else:
            match = _SAMPLE.fullmatch(line)
            assert match is not None, line
            name, labels = match[1], tuple(_LABEL.findall(match[2] or ""))
            base = re.sub("_(bucket|sum|count)$", "", name) if kinds[family] == "histogram" else name
            assert base == family
            assert (name, labels) not in found
            assert kinds[family] != "counter" or name.endswith("_total")
            found[name, labels] = float(match[3])
    for family in (name for name, kind in kinds.items() if kind == "histogram"):
        series: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        for (name, labels), value in found.items():
            if name == f"{family}_bucket":
                rest = tuple(label for label in labels if label[0] != "le")
                series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
        for labels, buckets in series.items():
            assert buckets == sorted(buckets)
            assert [count for _, count in buckets] == sorted(count for _, count in buckets)
            assert buckets[-1] == (float("inf"), found[f"{family}_count", labels])
            assert (f"{family}_sum", labels) in found
    return found


def scrape(house: House) -> Samples:
    answer = httpx2.get(f"{house.url}/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.text.endswith("\n")
    return parsed(answer.text)


def test_metrics_count_what_happens(ada: Key, scene: Scene) -> None:
    before = scrape(ada.house)
    with ada.client() as client:
        scene.play([call("code_interpreter", code="1")], "one", [call("code_interpreter", code="1 / 0")], "none")
        used = [response.usage for response in (ask(client), ask(client))]
        answered = scrape(ada.house)
        for _ in range(3):
            ada.ask("GET", "/responses/resp_no")
        scene.play([call("code_interpreter", code=SLEEP)], "never")
        with cast(Any, ask(client, stream=True)) as stream:
            assert any(event.type == OUTPUT for event in stream)
            during = scrape(ada.house)
    after = scrape(ada.house)

    def grown(name: str, **labels: str) -> float:
        sample = (name, tuple(labels.items()))
        return after[sample] - before.get(sample, 0)

    assert grown("belljar_http_requests_total", method="POST", route="/v1/responses", status="200") >= 2
    assert grown("belljar_http_requests_total", method="GET", route="/v1/responses/{id}", status="404") == 3
    assert grown("belljar_http_request_seconds_count", method="GET", route="/v1/responses/{id}") == 3
    assert grown("belljar_turns_total", upstream="loop", model="sim") == 5
    assert grown("belljar_turn_seconds_count", upstream="loop") == 5
    for kind in ("input", "output"):
        told = sum(getattr(usage, f"{kind}_tokens") for usage in used)
        tokens = ("belljar_tokens_total", (("upstream", "loop"), ("model", "sim"), ("kind", kind)))
        assert answered[tokens] - before.get(tokens, 0) == told > 0
    assert grown("belljar_cells_total", exit="ok") == 1
    assert grown("belljar_cells_total", exit="raised") == 1
    assert grown("belljar_cell_seconds_count") >= 2
    assert during["belljar_sandboxes", (("state", "busy"),)] == 1
    assert during["belljar_sandboxes", (("state", "idle"),)] >= 2
    assert during["belljar_http_requests_in_flight", ()] == 2
    assert ("belljar_sandboxes", (("state", "warm"),)) in during
