"""Clients with plain habits, each of which remembers what it was told. The seed fixes what each does, and where."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import aiohttp
from tests.consistency.deployment import GATEWAYS, Deployment
from tests.consistency.journal import Entry, Journal, Outcome

INCLUDE = "include[]=code_interpreter_call.outputs"
LAST = ("response.completed", "response.failed", "response.incomplete", "response.cancelled")
_CELL = """
import hashlib, json, os, time
try:
    seen.append({token!r})
except NameError:
    seen = [{token!r}]
with open('log', 'a') as _log:
    _log.write({token!r} + '\\n')
time.sleep({pause})
_files = {{n: hashlib.sha256(open(n, 'rb').read()).hexdigest() for n in os.listdir() if n.startswith('f-')}}
print(json.dumps({{'seen': seen, 'log': open('log').read().split(), 'files': _files}}))
"""
_LINES = "import time\nfor n in range({count}):\n    print({token!r}, n, flush=True)\n    time.sleep(0.03)"
_DEEDS = {
    "run_cell": 12, "run_in_chain": 10, "run_in_shared": 6, "put_file": 6, "delete_file": 2, "read_file": 4,
    "run_in_background": 3, "cancel": 1, "upload": 2, "read_upload": 2, "delete_upload": 1, "add_item": 2,
    "read_response": 3, "delete_response": 1, "delete_container": 1,
}  # fmt: skip


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def plan_deeds(seed: int, client: int, steps: int) -> list[str]:
    return Random(f"deeds {seed} {client}").choices(list(_DEEDS), list(_DEEDS.values()), k=steps)


class Client:
    """One that does one thing after the other, each at any of the gateways."""

    def __init__(
        self,
        number: int,
        seed: int,
        deployment: Deployment,
        journal: Journal,
        session: aiohttp.ClientSession,
        shared: dict[int, str],
    ) -> None:
        self.number = number
        self._seed = seed
        self._deployment = deployment
        self._journal = journal
        self._session = session
        self._shared = shared
        """By pair of clients: a container that both use."""
        self._container: str | None = None
        self._previous: str | None = None
        self._conversation: str | None = None
        self._put: dict[str, str] = {}
        """Files that we put into our container and know for sure: their ids by name."""
        self._uploads: dict[str, str] = {}
        self._responses: list[str] = []

    async def work(self, deeds: list[str]) -> None:
        for step, name in enumerate(deeds):
            self._random = Random(f"{self._seed} {self.number} {step}")
            self._token = f"c{self.number}s{step}"
            deed: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
            await deed()

    # -- asking -------------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        kind: str,
        method: str,
        path: str,
        *,
        body: Any = None,
        file: tuple[str, bytes] | None = None,
        raw: bool = False,
        **asked: Any,
    ) -> Entry:
        """One request at any gateway, and what was told; the answer's digest in place of it where it is `raw`."""
        gateway = self._random.randrange(GATEWAYS)
        while self._deployment.urls[gateway] is None:
            gateway = (gateway + 1) % GATEWAYS
            await asyncio.sleep(0.01)
        entry = self._journal.begin(self.number, kind, gateway, **asked)
        outcome: Outcome
        status, told = 0, None
        form = None
        if file is not None:
            form = aiohttp.FormData({"purpose": "user_data"} if path == "/v1/files" else {})
            form.add_field("file", file[1], filename=file[0])
        try:
            async with asyncio.timeout(6 * self._deployment.life + 10):
                url = f"{self._deployment.urls[gateway]}{path}"
                async with self._session.request(method, url, json=body, data=form) as answer:
                    status = answer.status
                    data = await answer.read()
            told = digest(data) if raw and status == 200 else json.loads(data) if data else None
            outcome = "told" if status < 300 else "refused" if status < 500 and status != 409 else "unknown"
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            outcome, told = "unknown", repr(error)
        self._journal.end(entry, outcome, status, told)
        return entry

    async def _run(self, kind: str, tool: Any, **more: Any) -> Entry:
        pause = self._random.choice((0, 0, 0.1, 0.4))
        code = _CELL.format(token=self._token, pause=pause)
        body = {
            "model": "belljar",
            "input": f"```python\n{code}\n```",
            "tools": [{"type": "code_interpreter", "container": tool}],
            "include": ["code_interpreter_call.outputs"],
            "metadata": {"token": self._token},
            **more,
        }
        asked: dict[str, Any] = {"token": self._token, "container": tool if isinstance(tool, str) else None}
        entry = await self._ask(kind, "POST", "/v1/responses", body=body, **asked, previous=more.get(_PREVIOUS))
        if entry.outcome == "told" and kind == "cell":  # a chain needs all that it is made of
            self._responses.append(entry.told["id"])
        return entry

    # -- deeds --------------------------------------------------------------------------------------------------------

    async def _find_container(self) -> str | None:
        if self._container is None:
            name = self._token
            made = await self._ask("create", "POST", "/v1/containers", body={"name": name}, name=name)
            if made.outcome == "told":
                self._container = made.told["id"]
                self._put = {}
        return self._container

    async def _run_cell(self) -> None:
        if (container := await self._find_container()) is not None:
            await self._run("cell", container)

    async def _run_in_shared(self) -> None:
        pair = self.number // 2
        if pair not in self._shared and (container := await self._find_container()) is not None:
            self._shared[pair] = container
            self._container = None
        if pair in self._shared:
            await self._run("cell", self._shared[pair])

    async def _run_in_chain(self) -> None:
        more = {} if self._previous is None else {_PREVIOUS: self._previous}
        entry = await self._run("chained", {"type": "auto"}, **more)
        if entry.outcome == "told":
            self._previous = entry.told["id"]

    async def _put_file(self) -> None:
        if (container := await self._find_container()) is None:
            return
        old = sorted(self._put)
        name = self._random.choice(old) if old and self._random.random() < 0.4 else f"f-{self._token}"
        content = self._random.randbytes(self._random.randrange(1, 5000))
        path = f"/v1/containers/{container}/files"
        asked: dict[str, Any] = {"container": container, "name": name, "digest": digest(content)}
        entry = await self._ask("put", "POST", path, file=(name, content), **asked)
        self._put.pop(name, None)  # where the answer was lost it may come true at any time: never used again
        if entry.outcome == "told":
            self._put[name] = entry.told["id"]

    async def _delete_file(self) -> None:
        if self._container is None or not self._put:
            return
        name = self._random.choice(sorted(self._put))
        path = f"/v1/containers/{self._container}/files/{self._put.pop(name)}"
        await self._ask("unput", "DELETE", path, container=self._container, name=name)

    async def _read_file(self) -> None:
        if self._container is None or not self._put:
            return
        name = self._random.choice(sorted(self._put))
        path = f"/v1/containers/{self._container}/files/{self._put[name]}/content"
        await self._ask("read", "GET", path, raw=True, container=self._container, name=name)

    async def _delete_container(self) -> None:
        if self._container is not None:
            container, self._container = self._container, None
            await self._ask("drop", "DELETE", f"/v1/containers/{container}", container=container)

    async def _upload(self) -> None:
        content = self._random.randbytes(self._random.randrange(1, 20_000))
        asked: dict[str, Any] = {"name": self._token, "digest": digest(content)}
        entry = await self._ask("upload", "POST", "/v1/files", file=(self._token, content), **asked)
        if entry.outcome == "told":
            self._uploads[self._token] = entry.told["id"]

    async def _read_upload(self) -> None:
        if self._uploads:
            name = self._random.choice(sorted(self._uploads))
            await self._ask("fetch", "GET", f"/v1/files/{self._uploads[name]}/content", raw=True, name=name)

    async def _delete_upload(self) -> None:
        if self._uploads:
            name = self._random.choice(sorted(self._uploads))
            await self._ask("unload", "DELETE", f"/v1/files/{self._uploads.pop(name)}", name=name)

    async def _add_item(self) -> None:
        if self._conversation is None:
            made = await self._ask("converse", "POST", "/v1/conversations", body={})
            if made.outcome != "told":
                return
            self._conversation = made.told["id"]
        item = {"type": "message", "role": "user", "content": self._token}
        path = f"/v1/conversations/{self._conversation}/items"
        asked: dict[str, Any] = {"conversation": self._conversation, "token": self._token}
        await self._ask("item", "POST", path, body={"items": [item]}, **asked)

    async def _read_response(self) -> None:
        if self._responses:
            id = self._random.choice(self._responses)
            await self._ask("retrieve", "GET", f"/v1/responses/{id}?{INCLUDE}", response=id)

    async def _delete_response(self) -> None:
        if self._responses:
            id = self._random.choice(self._responses)
            self._responses.remove(id)
            await self._ask("delete", "DELETE", f"/v1/responses/{id}", response=id)

    # -- in the background --------------------------------------------------------------------------------------------

    async def _begin(self, count: int) -> str | None:
        code = _LINES.format(count=count, token=self._token)
        body = {
            "model": "belljar",
            "input": f"```python\n{code}\n```",
            "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
            "metadata": {"token": self._token},
            "background": True,
        }
        begun = await self._ask("begin", "POST", "/v1/responses", body=body, token=self._token)
        if begun.outcome != "told":
            return None
        id: str = begun.told["id"]
        self._responses.append(id)
        return id

    async def _run_in_background(self) -> None:
        if (id := await self._begin(self._random.randrange(2, 20))) is not None:
            await self.follow(id)

    async def _cancel(self) -> None:
        if (id := await self._begin(2000)) is not None:
            entry = await self._ask("cancel", "POST", f"/v1/responses/{id}/cancel", response=id)
            if entry.outcome != "told":  # else it would run for a minute
                self._random = Random(f"{self._seed} {self.number} {id}")
                await self._ask("cancel", "POST", f"/v1/responses/{id}/cancel", response=id)

    async def follow(self, id: str) -> None:
        """Its events up to the last, in as many parts as it takes, each from any gateway."""
        after = -1
        deadline = asyncio.get_running_loop().time() + 60 + 10 * self._deployment.life
        while asyncio.get_running_loop().time() < deadline:
            gateway = self._random.randrange(GATEWAYS)
            entry = self._journal.begin(self.number, "follow", gateway, response=id, after=after)
            events: list[tuple[int, str, str]] = []
            most = self._random.choice((5, 1000))
            status = 0
            with suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
                async with asyncio.timeout(3 * self._deployment.life + 5):
                    status = await self._read_events(gateway, id, after, most, events)
            refused = status in range(400, 500) and status != 409
            self._journal.end(entry, "told" if events else "refused" if refused else "unknown", status, events)
            if events and events[-1][1] in LAST:
                return
            # Now and then some that are known are asked for again.
            after = max(-1, (events[-1][0] if events else after) - self._random.choice((0, 0, 3)))
            if not events:
                await asyncio.sleep(0.1)

    async def _read_events(
        self, gateway: int, id: str, after: int, most: int, events: list[tuple[int, str, str]]
    ) -> int:
        query = f"?stream=true&starting_after={after}" if after >= 0 else "?stream=true"
        async with self._session.get(f"{self._deployment.urls[gateway]}/v1/responses/{id}{query}") as answer:
            async for line in answer.content:
                if answer.status == 200 and line.startswith(b"data: {"):
                    event = json.loads(line[6:])
                    events.append((event["sequence_number"], event["type"], digest(line)))
                    if len(events) == most or event["type"] in LAST:
                        break
            return answer.status


_PREVIOUS = "previous_response_id"


def find_cell(response: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the cell of a response told, None where it did not come to its end."""
    for item in response["output"]:
        if item["type"] == "code_interpreter_call" and item["status"] == "completed":
            text = "".join(one["logs"] for one in item["outputs"] or () if one["type"] == "logs")
            with suppress(ValueError):
                told: dict[str, Any] = json.loads(text)
                return {**told, "container": item["container_id"], "healed": item.get("belljar", {}).get("healed")}
    return None
