"""Both kinds of server that a container can be on: our gateway, and one that is flat as OpenAI's is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from openai import OpenAI
from tests.gateway.houses import House
from tests.helpers.openai import FlatContainers


class Server(Protocol):
    def client(self) -> OpenAI: ...

    def expire(self, container_id: str) -> None:
        """Let its idle time run out."""

    def code_writes(self, container_id: str, path: str, content: bytes) -> None:
        """As a run of the code interpreter would."""


class Gateway:
    def __init__(self, house: House) -> None:
        self.house = house

    def client(self) -> OpenAI:
        return OpenAI(base_url=self.house.base_url, api_key="none", max_retries=0)

    def expire(self, container_id: str) -> None:
        with sqlite3.connect(self.house.state / "records.db", timeout=30) as records:
            records.execute("UPDATE containers SET last_active_at = 1 WHERE id = ?", (container_id,))
        records.close()

    def code_writes(self, container_id: str, path: str, content: bytes) -> None:
        code = f"import pathlib\np = pathlib.Path({path!r})\np.parent.mkdir(parents=True, exist_ok=True)\n"
        with self.client() as client:
            answer = client.responses.create(
                model="belljar",
                input=f"```python\n{code}p.write_bytes({content!r})\n```",
                tools=[{"type": "code_interpreter", "container": container_id}],
            )
        assert answer.status == "completed"


class Flat:
    def __init__(self, server: FlatContainers) -> None:
        self.server = server

    def client(self) -> OpenAI:
        return self.server.client()

    def expire(self, container_id: str) -> None:
        del self.server.containers[container_id]

    def code_writes(self, container_id: str, path: str, content: bytes) -> None:
        self.server.write(container_id, path, content)


@contextmanager
def gateway(state: Path) -> Iterator[Gateway]:
    with House(state) as house:
        yield Gateway(house)


@contextmanager
def flat() -> Iterator[Flat]:
    with FlatContainers() as server:
        yield Flat(server)
