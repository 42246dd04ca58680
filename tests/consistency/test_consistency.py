"""Gateways that are killed, stopped, cut off and lied to, and clients that must not notice: see `invariants.py`."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, NotFoundError
from tests.consistency.deployment import GATEWAYS, Deployment
from tests.consistency.faults import KINDS
from tests.consistency.run import run_round
from tests.gateway.houses import CODE, OUTPUTS
from tests.gateway.test_first_minute import cell, logs
from tests.helpers.postgres import Postgres

SHORT = ("kill", "stop half", "stop two", "lose commit", "lose sandbox", "restart database")
TURNS = 20
TRIES = 3
BY_ITSELF = ("INTO belljar.gateways", "FROM belljar.responses WHERE status IN", "belljar.turns", "belljar.garbage")
"""What is in statements of its heartbeat, and of looking after what others have left."""
WRITE = "```python\nimport time; open('made', 'w').write(str(time.time_ns()))\n```"
BUDGET = {
    "plain": 1,
    "chained": 2,
    "code": 4,
    "code that writes": 4,
    "code in a chain": 4,
    "code in a branch": 6,
    "code in a new container": 7,
    "code with a file": 11,
    "code in a chain with a file": 5,
}
"""Round trips to the store of a request of each kind, at most; one of those of a new container beside the cell."""


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def deployment(
    runner: asyncio.Runner, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    running = Deployment(tmp_path_factory.mktemp("gateways"), postgres, 2.0, sandboxes=16).run()
    yield runner.run(running.__aenter__())
    runner.run(running.__aexit__(None, None, None))
    postgres.restart()  # one that was started by another thread ends with it


def test_a_chain_of_twenty_turns_each_at_another_gateway(runner: asyncio.Runner, deployment: Deployment) -> None:
    async def chain() -> None:
        clients = [_patient(url) for url in deployment.urls]
        tools, previous, container = CODE, None, ""
        # What is asked again may have run before: each turn says which it is.
        code = (
            "import json; {}; log = open('log', 'a+'); log.seek(0); log = log.read().split(',')[:{turn}]; "
            "_ = open('log', 'w').write(''.join(f'{{one}},' for one in [*log, {turn}])); "
            "print(json.dumps([x, open('log').read(), {}]))"
        )
        for turn in range(TURNS):
            client = clients[turn % GATEWAYS]
            given = b"turn %d" % turn
            if container and turn % 5 == 0:  # a file from elsewhere, new or in place of the one before
                await clients[(turn + 1) % GATEWAYS].containers.files.create(container, file=("given", given))
            read = "open('given').read()" if container and turn % 5 == 0 else "None"
            line = code.format(f"x[{turn}:] = [{turn}]" if turn else "x = [0]", read, turn=turn)
            asked: dict[str, Any] = {"tools": tools, "include": OUTPUTS, "previous_response_id": previous}
            made = await client.responses.create(model="belljar", input=f"```python\n{line}\n```", **asked)
            x, log, seen = json.loads(logs(made))
            assert x == [*range(turn + 1)]
            assert log == "".join(f"{one}," for one in x)
            assert seen == (given.decode() if read != "None" else None)
            assert container in ("", cell(made).container_id)
            previous, container = made.id, cell(made).container_id
            # By the chain alone, or by the name of the container too.
            tools = [{"type": "code_interpreter", "container": container}] if turn % 2 else CODE
        for client in clients:
            files = {one.path: one.id async for one in client.containers.files.list(container)}
            content = await client.containers.files.content.retrieve(files["/mnt/data/log"], container_id=container)
            assert content.content.decode() == "".join(f"{one}," for one in range(TURNS))
        async for response_id in _ancestors(clients[0], previous):
            with suppress(NotFoundError):  # asked again, it is gone
                await clients[1].responses.delete(response_id)
        with suppress(NotFoundError):
            await clients[2].containers.delete(container)
        for client in clients:
            await client.close()

    runner.run(chain())


def test_a_request_asks_the_store_no_more_often_than_it_may(runner: asyncio.Runner, deployment: Deployment) -> None:
    """Round trips to PostgreSQL, as they are on the wire, without what a gateway asks by itself.

    The least of several: on a slow machine, the idle clock of a container may want to be written in between.
    """

    async def count() -> dict[str, list[str]]:
        proxy = deployment.databases[0]
        client = _patient(deployment.urls[0])
        code: dict[str, Any] = {"input": "```python\n1\n```", "tools": CODE}
        plain = await client.responses.create(model="belljar", input="hello")
        ran = await client.responses.create(model="belljar", **code)
        container = [{"type": "code_interpreter", "container": cell(ran).container_id}]
        upload = await client.files.create(file=("given.csv", b"1,2\n"), purpose="user_data")
        content = [{"type": "input_file", "file_id": upload.id}, {"type": "input_text", "text": code["input"]}]
        kinds: dict[str, dict[str, Any]] = {
            "plain": {"input": "hello"},
            "chained": {"input": "hello", "previous_response_id": plain.id},
            "code": {**code, "tools": container},
            "code that writes": {"input": WRITE, "tools": container},
            "code in a chain": {**code, "previous_response_id": ran.id},
            "code in a branch": {**code, "previous_response_id": ran.id},
            "code in a new container": code,
            "code with a file": {"input": [{"role": "user", "content": content}], "tools": CODE},
            "code in a chain with a file": {**code},
        }
        responses, containers = [plain.id, ran.id], {cell(ran).container_id}
        least: dict[str, list[str]] = {}
        for kind, asked in kinds.items():
            if kind == "code in a chain with a file":
                asked["previous_response_id"] = responses[-1]  # of one with a file
            for _ in range(TRIES):
                proxy.statements.clear()
                made = await client.responses.create(model="belljar", **asked)
                sent = [one for one in proxy.statements if not any(mark in one for mark in BY_ITSELF)]
                least[kind] = min(least.get(kind, sent), sent, key=len)
                responses.append(made.id)
                if "chain" in kind:
                    asked["previous_response_id"] = made.id
                if "code" in kind:
                    containers.add(cell(made).container_id)
        for id in responses:
            with suppress(NotFoundError):
                await client.responses.delete(id)
        for id in containers:
            with suppress(NotFoundError):
                await client.containers.delete(id)
        await client.files.delete(upload.id)
        await client.close()
        return least

    found = runner.run(count())
    assert {kind: sent for kind, sent in found.items() if len(sent) > BUDGET[kind]} == {}


def _patient(url: str | None) -> AsyncOpenAI:
    """One that asks again: on a busy machine a gateway is late with its sign of life, and says so with a 503."""
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=8)


async def _ancestors(client: AsyncOpenAI, id: str | None) -> Any:
    while id is not None:
        found = await client.responses.retrieve(id)
        yield id
        id = found.previous_response_id


def test_nobody_notices_what_happens_to_gateways(runner: asyncio.Runner, deployment: Deployment) -> None:
    path = deployment.home / "journal.jsonl"
    broken = runner.run(run_round(deployment, path, seed=1, clients=4, steps=14, faults=SHORT, say=print))
    assert not broken, "\n".join(broken)


@pytest.mark.soak
def test_nobody_notices_for_minutes(tmp_path: Path, postgres: Postgres, capsys: pytest.CaptureFixture[str]) -> None:
    """Rounds of all faults until the time is over, each with the next seed: a round is run again by its seed.

    `make soak SOAK_CLIENTS=200 SOAK_STEPS=30 SOAK_SEED=7 SOAK_MINUTES=10`
    """
    began = time.monotonic()
    given: Callable[[str, str], str] = lambda name, usual: os.environ.get(f"SOAK_{name}", usual)  # noqa: E731
    clients, steps, first = (int(given(*one)) for one in (("CLIENTS", "50"), ("STEPS", "30"), ("SEED", "1")))
    ends = began + 60 * float(given("MINUTES", "5"))

    def say(what: str) -> None:
        with capsys.disabled():
            print(f"\n{time.monotonic() - began:6.0f} s  {what}", end="", flush=True)

    async def work() -> list[str]:
        async with Deployment(tmp_path, postgres, 3.0, sandboxes=max(16, clients)).run() as deployment:
            seed, broken = first, list[str]()
            while not broken and (seed == first or time.monotonic() < ends):
                path = tmp_path / f"journal-{seed}.jsonl"
                options: dict[str, Any] = {"clients": clients, "steps": steps, "faults": KINDS, "say": say}
                broken = await run_round(deployment, path, seed=seed, **options)
                seed += 1
            return broken

    broken = asyncio.run(work())
    postgres.restart()
    assert not broken, "\n".join(broken)
