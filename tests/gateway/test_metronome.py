"""No request that a caller can send keeps another owner's small requests waiting.

Not by the wall clock, which tells of the machine: a watch over the gateway's event loop tells what held it for longer
than `MOST` seconds of its own processor time, or asleep though there was something to do.
"""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from tests.gateway.houses import CODE, House, Scene
from tests.helpers.loop_guard import BLOCKED

MOST = 0.1


class Metronome(House):
    """A gateway with two owners: one who sends what the test sends, and one who asks for little all the time."""

    scene: Scene

    def __enter__(self) -> Metronome:
        super().__enter__()
        self.hostile, self.small = (
            httpx2.Client(base_url=self.url, headers={"authorization": f"Bearer {self.add_key(name)}"}, timeout=120)
            for name in ("hostile", "small")
        )
        for client in (self.hostile, self.small):  # what is loaded or made at the first request is nobody's fault
            self.ask_little(client)
        return self

    def add_key(self, name: str) -> str:
        return str(self.keys("add", name)["key"])

    def ask_little(self, client: httpx2.Client) -> None:
        asked = {"model": "belljar", "input": "print(1)", "tools": CODE}
        assert client.post("/v1/responses", json=asked).status_code == 200

    def __exit__(self, *error: object) -> None:
        self.hostile.close()
        self.small.close()
        self.log.write_text("")  # looked at after each test
        super().__exit__(*error)

    def beside(self, send: Callable[[], Any]) -> Any:
        """What it answers, while the other owner goes on asking; fails where the loop was held meanwhile."""
        before = self.log.stat().st_size
        done, answered = threading.Event(), 0
        told: list[Any] = []

        def work() -> None:
            try:
                told.append(send())
            finally:
                done.set()

        thread = threading.Thread(target=work)
        thread.start()
        while answered < 3 or not done.is_set():
            assert self.small.get("/v1/models").status_code == 200
            answered += 1
            done.wait(0.01)
        thread.join()
        held = self.log.read_bytes()[before:].decode(errors="replace")
        assert BLOCKED not in held, held
        assert told, "it was not answered"
        return told[0]


@pytest.fixture(scope="module")
def metronome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metronome]:
    scene = Scene()
    with scene.server:
        state = tmp_path_factory.mktemp("metronome") / "state"
        with Metronome(state, "--upstream", f"loop={scene.server.base_url}", most=MOST) as house:
            house.scene = scene
            yield house


def body(text: bytes) -> bytes:
    return b'{"model":"belljar","input":' + text + b"}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[" + b"[]," * (10 << 20) + b"[]]", "too many values"),
        (b"[" * 100_000, "nested too deep"),
        (b'["' + b"\\ud83d" * (4 << 20) + b'"]', "not valid JSON"),
        (b"[" + b"1," * 150_000 + b"1]", "input[0]"),
        (b'"' + b'a, [b], {c} \\\\ \\" ' * (1 << 20) + b'"', "maximum"),
    ],
    ids=["lists", "deep", "surrogates", "numbers", "text"],
)
def test_a_large_body(metronome: Metronome, text: bytes, why: str) -> None:
    content = body(text)
    answer = metronome.beside(
        lambda: metronome.hostile.post("/v1/responses", content=content, headers={"content-type": "application/json"})
    )
    assert answer.status_code == 400, answer.text
    assert why in answer.json()["error"]["message"]


def test_many_items(metronome: Metronome) -> None:
    asked = {"model": "belljar", "input": [{"role": "user", "content": "a"}] * 30_000}
    answer = metronome.beside(lambda: metronome.hostile.post("/v1/responses", json=asked))
    assert answer.status_code == 400, answer.text
    assert "At most 10000 are allowed" in answer.json()["error"]["message"]


def test_a_conversation_that_grew(metronome: Metronome) -> None:
    """What was stored counts as well."""
    asked: dict[str, Any] = {"model": "belljar", "input": [{"role": "user", "content": "a"}] * 6_000}
    first = metronome.beside(lambda: metronome.hostile.post("/v1/responses", json=asked))
    asked["previous_response_id"] = first.json()["id"]
    answer = metronome.beside(lambda: metronome.hostile.post("/v1/responses", json=asked))
    assert answer.status_code == 400, answer.text
    assert "would have 12001 items" in answer.json()["error"]["message"]


def test_a_message_that_is_slow_to_read_as_python(metronome: Metronome) -> None:
    asked = {"model": "belljar", "input": "a\n" * 130_000}
    answer = metronome.beside(lambda: metronome.hostile.post("/v1/responses", json=asked))
    assert answer.status_code == 200, answer.text


def pack(paths: Iterable[str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in paths:
            archive.addfile(tarfile.TarInfo(path))
    return packed.getvalue()


def test_many_files_and_links_to_them(metronome: Metronome) -> None:
    paths = [f"d{n % 10}/f {n}.txt" for n in range(5_000)]
    container = metronome.hostile.post("/v1/containers", json={"name": "many"}).json()["id"]
    where, archive = f"/v1/containers/{container}/files", pack(paths)
    sent: dict[str, Any] = {
        "params": {"extract": "true"},
        "content": archive,
        "headers": {"content-type": "application/x-tar"},
    }
    assert metronome.beside(lambda: metronome.hostile.post(where, **sent)).status_code == 200
    metronome.scene.play(" ".join(f"[it](sandbox:/mnt/data/{quote(path)})" for path in paths[:1_000]))
    asked = {"model": "sim", "input": "go", "tools": [{"type": "code_interpreter", "container": container}]}
    answer = metronome.beside(lambda: metronome.hostile.post("/v1/responses", json=asked))
    assert len(answer.json()["output"][0]["content"][0]["annotations"]) == 1_000
