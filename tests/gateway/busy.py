"""Users of all habits at one gateway at once, and what the gateway has left of them afterwards."""

from __future__ import annotations

import asyncio
import os
import random
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import httpx2
import openai
from openai import AsyncOpenAI
from openai.types.responses import Response
from tests import traces
from tests.gateway.houses import CODE, OUTPUTS, House
from tests.gateway.test_first_minute import cell, logs

from belljar.gateway.store.local_store import open_store

SANDBOXES = 8
"""That a gateway under test may have: fewer than the containers that are in use."""
TOGETHER = 4
"""Users at once: with each one's last sandbox that is still being ended, all places may be busy."""
FLAGS = ("--max-sandboxes", str(SANDBOXES), "--warm", "2")
AT_REST = {"busy": 0, "idle": 0, "warm": 2}
SLEEP = "import time\nprint('on', flush=True)\ntime.sleep(600)"
_PATIENCE = 60.0
_STEP = 100
"""Deeds between two words about how it goes."""


class Users:
    """What they do, one deed after the other. Each checks what it gets, and may leave things behind."""

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client
        self.cells = 0
        """Pieces of code that were run for them."""
        self.healed = 0
        """Times that a sandbox had been ended for the sake of others."""
        self.deeds: Counter[str] = Counter()
        self.responses: list[str] = []
        self.conversations: list[str] = []
        self._chains: list[str] = []

    async def work(self, cells: int, tell: Callable[[], None] = lambda: None) -> None:
        """Until so many cells were run in all; `tell` is called now and then."""

        async def keep_on() -> None:
            while self.cells < cells:
                [deed] = random.choices(list(DEEDS), list(DEEDS.values()))
                await deed(self)
                self.deeds[deed.__name__] += 1
                if self.deeds.total() % _STEP == 0:
                    tell()

        async with asyncio.TaskGroup() as group:
            for _ in range(TOGETHER):
                group.create_task(keep_on())

    async def clear(self) -> None:
        """Delete everything that there is to be seen of what they did."""
        client = self._client
        for id in self.responses:
            try:
                await client.responses.delete(id)
            except openai.NotFoundError:  # its stream was cut, and nothing was kept
                pass
        for id in self.conversations:
            await client.conversations.delete(id)
        # Lists first: a page begins after the last of the page before, which must still be there.
        for container in [one async for one in client.containers.list(limit=100)]:
            await client.containers.delete(container.id)
        for file in [one async for one in client.files.list()]:
            await client.files.delete(file.id)
        self.responses, self.conversations, self._chains = [], [], []

    # -- asking ---------------------------------------------------------------------------------------------------

    async def ask(self, code: str, **more: Any) -> Any:
        given = {"model": "belljar", "tools": CODE, "include": OUTPUTS, "input": f"```python\n{code}\n```", **more}
        answer = await cast(Any, self._client.responses.create)(**given)
        if isinstance(answer, Response):
            self.responses.append(answer.id)
        return answer

    async def run(self, code: str, **more: Any) -> Response:
        response = cast(Response, await self.ask(code, **more))
        self.cells += 1
        assert response.status == "completed", response.error
        return response

    async def drop(self, response: Response) -> None:
        """Most people never tidy up."""
        if random.random() < 0.3:
            await self._client.containers.delete(cell(response).container_id)
        if random.random() < 0.3:
            await self._client.responses.delete(response.id)
            self.responses.remove(response.id)

    # -- deeds ----------------------------------------------------------------------------------------------------

    async def compute(self) -> None:
        number = random.randrange(10**6)
        response = await self.run(f"{number} + 1")
        assert logs(response) == str(number + 1)
        await self.drop(response)

    async def go_on(self) -> None:
        """Along a chain, with variables and files."""
        response = await self.run("x = 'x'\n_ = open('x', 'w').write(x)")
        for _ in range(random.randrange(1, 5)):
            response = await self._look_back(response.id)
        if random.random() < 0.5:
            self._chains.append(response.id)
        else:
            await self.drop(response)

    async def take_up(self) -> None:
        """A chain that was left long ago, and whose sandbox others have needed since."""
        if self._chains:
            await self._look_back(self._chains.pop(random.randrange(len(self._chains))))

    async def _look_back(self, previous: str) -> Response:
        """Files are always there; variables too, unless it is said that they are gone."""
        code = "was = globals().get('x'); x = 'x'; (was, open('x').read())"
        response = await self.run(code, previous_response_id=previous)
        healed = bool(cast(Any, cell(response)).belljar.get("healed"))
        assert logs(response) == ("(None, 'x')" if healed else "('x', 'x')")
        self.healed += healed
        return response

    async def keep_house(self) -> None:
        """In a container of one's own, with files in and out."""
        client = self._client
        container = await client.containers.create(name="own")
        tools = [{"type": "code_interpreter", "container": container.id}]
        content = random.randbytes(random.randrange(1, 50_000))
        given = await client.containers.files.create(container.id, file=("in.bin", content))
        await self.run("_ = open('out.bin', 'wb').write(open('in.bin', 'rb').read()[::-1])", tools=tools)
        files = {file.path: file.id async for file in client.containers.files.list(container.id)}
        made = await client.containers.files.content.retrieve(files["/mnt/data/out.bin"], container_id=container.id)
        assert made.content == content[::-1]
        await client.containers.files.delete(given.id, container_id=container.id)
        response = await self.run("import os; os.listdir()", tools=tools)
        assert logs(response) == "['out.bin']"
        if random.random() < 0.7:
            await client.containers.delete(container.id)

    async def attach(self) -> None:
        content = random.randbytes(1000)
        file = await self._client.files.create(file=("data.bin", content), purpose="user_data")
        tools = [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": [file.id]}}]
        assert logs(await self.run("len(open('data.bin', 'rb').read())", tools=tools)) == "1000"
        if random.random() < 0.7:
            await self._client.files.delete(file.id)

    async def plot(self) -> None:
        response = await self.run("import matplotlib.pyplot as plt; plt.plot([1, 2])")
        assert [one.type for one in cell(response).outputs or []].count("image") == 1
        await self.drop(response)

    async def fail(self) -> None:
        assert "ZeroDivisionError" in logs(await self.run("1 / 0"))

    async def leave(self) -> None:
        assert cell(await self.run("import os; os._exit(3)")).status == "failed"

    async def shout(self) -> None:
        assert "output-1.log" in logs(await self.run("for _ in range(20_000): print('x' * 99)"))

    async def be_nobody(self) -> None:
        response = await self.run("'unseen'", store=False)
        self.responses.remove(response.id)
        await self._client.containers.delete(cell(response).container_id)

    async def converse(self) -> None:
        conversation = await self._client.conversations.create()
        self.conversations.append(conversation.id)
        for _ in range(2):
            await self.run("'said'", conversation=conversation.id)

    async def stream(self) -> None:
        events = [event async for event in await self.ask("print('on')", stream=True)]
        self.responses.append(events[0].response.id)
        self.cells += 1
        assert events[-1].type == "response.completed"

    async def hang_up(self) -> None:
        """At any moment: before the code, or in its middle."""
        last = random.choice(
            ["response.created", "response.output_item.added", "belljar:code_interpreter_call.output.delta"]
        )
        async with await self.ask(SLEEP, stream=True) as stream:
            async for event in stream:
                if event.type == "response.created":
                    self.responses.append(event.response.id)
                if event.type == last:
                    break
        self.cells += 1

    async def pull_the_rug(self) -> None:
        """The container is deleted while its code runs."""
        container = await self._client.containers.create(name="short")
        tools = [{"type": "code_interpreter", "container": container.id}]
        kinds = []
        try:
            async for event in await self.ask(SLEEP, stream=True, tools=tools):
                if event.type == "response.created":
                    self.responses.append(event.response.id)
                elif event.type == "belljar:code_interpreter_call.output.delta":
                    await self._client.containers.delete(container.id)
                kinds.append(event.type)
        except openai.APIError:  # the stream says that it failed
            pass
        assert "belljar:code_interpreter_call.output.delta" in kinds
        self.cells += 1

    async def call_off(self) -> None:
        begun = await self.ask(SLEEP, background=True)
        await asyncio.sleep(random.random() / 10)
        assert (await self._client.responses.cancel(begun.id)).status == "cancelled"
        self.cells += 1

    async def come_back(self) -> None:
        begun = await self.ask("print('later')", background=True)
        events: list[Any] = []
        async with await self._client.responses.retrieve(begun.id, stream=True) as stream:
            async for event in stream:
                events.append(event)
                if random.random() < 0.1:
                    break
        last = events[-1].sequence_number
        async with await self._client.responses.retrieve(begun.id, stream=True, starting_after=last) as stream:
            events += [event async for event in stream]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert events[-1].type == "response.completed"
        self.cells += 1

    async def delete_too_soon(self) -> None:
        begun = await self.ask(SLEEP, background=True)
        await asyncio.sleep(random.random() / 10)
        await self._client.responses.delete(begun.id)
        self.responses.remove(begun.id)
        self.cells += 1


DEEDS: dict[Callable[[Users], Awaitable[None]], int] = {
    Users.compute: 40, Users.go_on: 30, Users.take_up: 10, Users.keep_house: 20, Users.attach: 10, Users.plot: 5,
    Users.fail: 5, Users.leave: 3, Users.shout: 2, Users.be_nobody: 5, Users.converse: 5, Users.stream: 10,
    Users.hang_up: 10, Users.pull_the_rug: 4, Users.call_off: 6, Users.come_back: 6, Users.delete_too_soon: 3,
}  # fmt: skip


# -- what is left -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Footprint:
    """What a gateway has of the machine, and of its own store."""

    processes: Counter[str]
    """By name; the jail's own, and the sandboxes kept ready, are always there."""
    descriptors: Counter[str]
    cgroups: Counter[str]
    mounts: Counter[str]
    """Of this machine's root, and in each of the namespaces that the gateway has made."""
    temporary: Counter[str]
    rows: Counter[str]
    incoming: Counter[str]
    """Uploads that were never finished."""

    def beside(self, other: Footprint) -> str:
        """What is not the same, a line for each kind: how many there were in the other, and are here."""
        lines = []
        for kind in fields(self):
            mine, theirs = getattr(self, kind.name), getattr(other, kind.name)
            changed = [f"{name}: {theirs[name]} -> {mine[name]}" for name in sorted(mine | theirs)
                       if mine[name] != theirs[name]]  # fmt: skip
            lines += [f"{kind.name}: {', '.join(changed)}"] * bool(changed)
        return "\n".join(lines)


def footprint(house: House, temporary: Path) -> Footprint:
    pid = house.process.pid
    seen = traces.of(pid)
    return Footprint(
        processes=Counter(one.partition(" ")[2] for one in seen.processes),
        descriptors=_kinds(seen.descriptors),
        cgroups=Counter({"all": len(seen.cgroups)}),
        mounts=Counter(here=len(seen.mounts)) + Counter(f"{_mounts(child)} in a namespace" for child in below(house)),
        temporary=Counter(os.listdir(temporary)),
        rows=Counter(rows(house)),
        incoming=Counter(os.listdir(house.state / "blobs" / "incoming")),
    )


def below(house: House) -> list[int]:
    return traces.descendants(house.process.pid)


def _kinds(descriptors: Iterable[tuple[str, int]]) -> Counter[str]:
    """Files by their own names: a directory may be named after the sandbox that it belongs to."""
    kinds: Counter[str] = Counter()
    for target, count in descriptors:
        kinds["deleted" if target.endswith("(deleted)") else target.rpartition("/")[2]] += count
    return kinds


def _mounts(pid: int) -> int:
    try:
        return len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
    except OSError:
        return 0


def rows(house: House) -> dict[str, int]:
    """How many there are in each table."""
    connection = sqlite3.connect(f"file:{house.state / 'records.db'}?mode=ro", uri=True)
    try:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
    finally:
        connection.close()


def blobs_left(house: House) -> list[str]:
    """What lies there once everything that no record names is swept away, as an hour later."""
    home = house.state / "blobs"

    async def sweep() -> None:
        records, blobs = open_store(house.state)
        try:
            await blobs.sweep(records)
        finally:
            await records.close()

    long_ago = time.time() - 7200
    for path in home.rglob("*"):
        if path.is_file():
            os.utime(path, (long_ago, long_ago))
    asyncio.run(sweep())
    return [str(path) for path in home.rglob("*") if path.is_file()]


def settled(house: House, temporary: Path, wanted: Footprint | None = None) -> Footprint:
    """What is there once it is as wanted, or once nothing is in use any more and it stays as it is."""
    deadline = time.monotonic() + _PATIENCE
    seen, since = footprint(house, temporary), time.monotonic()
    while time.monotonic() < deadline and seen != wanted:
        time.sleep(0.1)
        again = footprint(house, temporary)
        if again != seen or (wanted is None and sandboxes(house) != AT_REST):
            seen, since = again, time.monotonic()
        elif wanted is None and time.monotonic() - since > 1:
            break
    return seen


def sandboxes(house: House) -> dict[str, int]:
    """By what they do, as the gateway counts them."""
    text = httpx2.get(f"{house.url}/metrics").text
    return {state: int(count) for state, count in re.findall(r'belljar_sandboxes\{state="(\w+)"\} (\d+)', text)}


def let_in(house: House, act: Callable[[Users], Awaitable[None]]) -> None:
    """Users, for as long as they act."""

    async def main() -> None:
        async with AsyncOpenAI(base_url=house.base_url, api_key="none", max_retries=5, timeout=120) as client:
            await act(Users(client))

    asyncio.run(main())


@dataclass(frozen=True)
class Watched:
    """A gateway, and what it had before its users came."""

    house: House
    before: Footprint
    temporary: Path

    def check(self) -> None:
        """All users are gone and have deleted what they made: it has what it had before them."""
        after = settled(self.house, self.temporary, self.before)
        left = after.beside(self.before)
        if "processes" in left:
            left += "".join(f"\n{pid}: {_command(pid)}" for pid in below(self.house))
        assert after == self.before, f"left behind, were -> are:\n{left}"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "gone"


@contextmanager
def leaving_nothing(home: Path) -> Iterator[Watched]:
    """A gateway that has nothing left of its users, neither while it runs nor when it has ended."""
    temporary = home / "temporary"
    temporary.mkdir()

    async def warm_up(users: Users) -> None:
        await users.work(20)
        await users.clear()

    with House(home / "state", *FLAGS, environment={"TMPDIR": str(temporary)}) as house:
        let_in(house, warm_up)
        watched = Watched(house, settled(house, temporary), temporary)
        yield watched
        watched.check()
        processes = below(house)
    assert house.process.returncode == 0
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    assert not traces.cgroups(house.process.pid)
    assert not os.listdir(temporary)
    assert not blobs_left(house)
    assert not house.log.read_text()
