"""A provider's container behind one of ours: what it is given, how long an upload counts, what is kept of it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from belljar.config import Upstream
from belljar.errors import Declined, InvalidRequest, ProviderError, Unreachable
from belljar.gateway.containers import Containers, Policy
from belljar.gateway.engine.citations import Citations
from belljar.gateway.engine.inline_files import Inliner
from belljar.gateway.engine.provider_execution import ProviderExecution, VendorContainer
from belljar.gateway.store.base import ContainerRecord
from belljar.gateway.store.local_store import open_store
from belljar.gateway.upstream.endpoint import Endpoint
from belljar.gateway.upstream.models import ModelRoute
from belljar.gateway.upstream.transport import Transport
from belljar.gateway.upstream.vendor_files import HostedFiles
from belljar.sandbox.base import SandboxSource
from belljar.testing import FakeClock, LoopbackUpstream
from belljar.vendors.anthropic.dialect import AnthropicDialect
from belljar.vendors.deltas import Cited, ContainerUsed, Delta, Finish, HostedCode, HostedEnd, Text, Traits, UsageDelta
from belljar.vendors.hosted_sandbox import HostedSandbox
from belljar.vendors.request import HostedFile, ModelRequest
from belljar.wire.items import CellEnd, CodeInterpreterCall, ContainerFileCitation, Image, Message
from belljar.wire.responses import Usage
from belljar.wire.tools import AutoContainer, CodeInterpreterTool

AUTO = CodeInterpreterTool(container=AutoContainer())
PNG = f"data:image/png;base64,{base64.b64encode(b'png').decode()}"
Turn = Sequence[Delta] | ProviderError


class Scripted:
    """A model that says each turn what it was given, and remembers what it was asked."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.asked: list[ModelRequest] = []

    async def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        self.asked.append(request)
        for delta in self._next():
            if isinstance(delta, ProviderError):
                raise delta
            yield [delta]

    def _next(self) -> Sequence[Delta | ProviderError]:
        turn = self.turns.pop(0)
        return [turn] if isinstance(turn, ProviderError) else turn


class Bench:
    """Everything that a provider's container needs of the house, on one temporary directory."""

    def __init__(self, state: Path, base_url: str, dialect: str, transport: Transport) -> None:
        self.records, self.blobs = open_store(state)
        source = cast(SandboxSource, None)  # no code of ours is run
        self.clock = FakeClock()
        self.containers = Containers(self.records, self.blobs, source, Policy(), clock=self.clock)
        quirks = "vertex" if dialect == "gemini" else None
        upstream = Upstream(name="lab", base_url=base_url, dialect=dialect, quirks=quirks)
        endpoint = Endpoint(upstream)
        self.model = Scripted()
        files = HostedFiles(endpoint, transport)
        self.route = ModelRoute(self.model, "m", Traits(runs=True), "lab", files)
        self.citations = Citations()
        self.container: ContainerRecord
        self._before: ProviderExecution | None = None

    async def hosting(self, tool: CodeInterpreterTool = AUTO, upstream: str = "lab") -> ProviderExecution:
        """Of the next response: the one before has ended."""
        if self._before is not None:
            await self._before.close()

        async def hold() -> ContainerRecord:
            return self.container

        route = msgspec.structs.replace(self.route, upstream=upstream)
        self._before = ProviderExecution(
            route, tool, self.containers, self.blobs, self.citations, Inliner(self.blobs, wanted=True), hold, self.clock
        )
        return self._before

    async def fresh(self) -> ContainerRecord:
        self.container = await self.containers.get(self.container.id, "me")
        return self.container

    async def there(self) -> VendorContainer:
        return msgspec.json.decode((await self.fresh()).hosted, type=VendorContainer)

    async def put(self, name: str, data: bytes) -> None:
        async with self.blobs.write() as writer:
            await writer.write(data)
            blob = await writer.finish()
        await self.containers.put_file(self.container, name, blob, type="text/csv")


@pytest.fixture
def server() -> Any:
    with LoopbackUpstream() as server:
        yield server


def run(tmp_path: Path, server: LoopbackUpstream, test: Callable[[Bench], Awaitable[None]], dialect: str) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Bench]:
        transport = Transport()
        bench = Bench(tmp_path, server.base_url, dialect, transport)
        bench.container = await bench.containers.create("me", name="test", minutes=30 * 24 * 60)
        try:
            yield bench
        finally:
            await transport.close()
            await bench.records.close()

    async def main() -> None:
        async with opened() as bench:
            await test(bench)

    asyncio.run(main())


def asked(tool: CodeInterpreterTool = AUTO) -> ModelRequest:
    return ModelRequest(model="m", items=(Message(role="user", content="Hi"),), tools=(tool,))


async def said(hosting: ProviderExecution, request: ModelRequest | None = None) -> list[Delta]:
    return [delta async for batch in hosting.ask(request or asked()) for delta in batch]


def cell(container: str = "cntr_1", **more: Any) -> list[Delta]:
    fields: dict[str, Any] = {"status": "completed", "code": "1", "outputs": (), **more}
    item = CodeInterpreterCall(id="ci_1", container_id=container, **fields)
    return [HostedCode(0, "ci_1", container, "1"), HostedEnd(0, item)]


DONE: list[Delta] = [Text("ok"), Finish("stop")]


def test_an_upload_counts_until_shortly_before_it_expires(tmp_path: Path, server: LoopbackUpstream) -> None:
    async def test(bench: Bench) -> None:
        await bench.put("a.csv", b"1")
        for passed, uploads in ((0, 1), (22 * 3600, 1), (2 * 3600, 2)):
            bench.clock.advance(passed)
            hosting = await bench.hosting()
            await hosting.supply(await bench.fresh(), {}, "tools[0].container")
            bench.model.turns = [[ContainerUsed(""), *DONE]]
            await said(hosting)
            assert len(server.files) == uploads
        await bench.put("a.csv", b"other")
        await (await bench.hosting()).supply(await bench.fresh(), {}, "tools[0].container")
        assert len(server.files) == 3

    run(tmp_path, server, test, "anthropic")


@pytest.mark.parametrize("container", ["container_1", ""])
def test_a_cell_ran_in_our_container_whatever_its_vendor_calls_its_own(
    tmp_path: Path, server: LoopbackUpstream, container: str
) -> None:
    async def test(bench: Bench) -> None:
        bench.model.turns = [[*cell(container), *DONE]]
        code, end, *_ = await said(await bench.hosting())
        assert isinstance(code, HostedCode)
        assert isinstance(end, HostedEnd)
        assert code.container_id == end.item.container_id == bench.container.id

    run(tmp_path, server, test, "anthropic")


def test_what_another_upstream_had_does_not_count(tmp_path: Path, server: LoopbackUpstream) -> None:
    async def test(bench: Bench) -> None:
        await bench.put("a.csv", b"1")
        hosting = await bench.hosting()
        await hosting.supply(await bench.fresh(), {}, "")
        bench.model.turns = [[*cell(), *DONE], DONE]
        await said(hosting)
        assert (await bench.there()).container == "cntr_1"
        other = await bench.hosting(upstream="elsewhere")
        await other.supply(await bench.fresh(), {}, "")
        await said(other)
        assert isinstance(bench.model.asked[-1].tools[0], CodeInterpreterTool)
        assert bench.model.asked[-1].tools[0].container == AutoContainer()
        assert len(server.files) == 2

    run(tmp_path, server, test, "openai")


def test_a_named_container_has_its_memory_there_too(tmp_path: Path, server: LoopbackUpstream) -> None:
    async def test(bench: Bench) -> None:
        bench.container = await bench.containers.create("me", name="large", memory="4g")
        tool = CodeInterpreterTool(container=bench.container.id)
        hosting = await bench.hosting(tool)
        await hosting.supply(bench.container, {}, "")
        bench.model.turns = [DONE]
        await said(hosting, asked(tool))
        assert bench.model.asked[0].tools == (CodeInterpreterTool(container=AutoContainer(memory_limit="4g")),)

    run(tmp_path, server, test, "openai")


def test_another_container_than_was_named_has_no_files_yet(tmp_path: Path, server: LoopbackUpstream) -> None:
    async def test(bench: Bench) -> None:
        await bench.put("a.csv", b"1")
        hosting = await bench.hosting()
        await hosting.supply(await bench.fresh(), {}, "")
        bench.model.turns = [[*cell("c1"), *DONE], [*cell("c2"), *DONE], [*cell("c2"), *DONE]]
        for _ in range(2):
            await said(hosting)
        assert [len(one.files) for one in bench.model.asked] == [1, 0]
        then = await bench.hosting()
        await then.supply(await bench.fresh(), {}, "")
        await said(then)
        assert [file.name for file in bench.model.asked[-1].files] == ["a.csv"]
        assert (await bench.there()).placed.keys() == {"a.csv"}

    run(tmp_path, server, test, "anthropic")


@pytest.mark.parametrize(
    "error", [Declined("lab: the prompt is bad"), Unreachable("lab: the container is far"), ProviderError("lab: no")]
)
def test_other_failures_are_no_lost_container(tmp_path: Path, server: LoopbackUpstream, error: ProviderError) -> None:
    async def test(bench: Bench) -> None:
        hosting = await bench.hosting()
        bench.model.turns = [[*cell(), *DONE], error]
        await said(hosting)
        with pytest.raises(type(error)):
            await said(hosting)
        assert len(bench.model.asked) == 2

    run(tmp_path, server, test, "openai")


def test_what_was_begun_is_not_asked_again(tmp_path: Path, server: LoopbackUpstream) -> None:
    gone = Declined("lab: Container is expired.")

    async def test(bench: Bench) -> None:
        hosting = await bench.hosting()
        bench.model.turns = [[*cell(), *DONE], [Text("Well"), cast(Delta, gone)]]
        await said(hosting)
        with pytest.raises(Declined, match="expired"):
            await said(hosting)
        bench.model.turns = [gone, gone]
        with pytest.raises(Declined, match="expired"):
            await said(hosting)
        assert len(bench.model.asked) == 4, "a new container was lost too, and that is told"

    run(tmp_path, server, test, "openai")


def test_a_request_without_the_tool_passes(tmp_path: Path, server: LoopbackUpstream) -> None:
    async def test(bench: Bench) -> None:
        bench.model.turns = [[Text("a"), Finish("stop")]]
        plain = ModelRequest(model="m", items=())
        assert await said((await bench.hosting()), plain) == [Text("a"), Finish("stop")]
        assert bench.model.asked == [plain]

    run(tmp_path, server, test, "openai")


def test_nothing_of_the_vendors_is_told(tmp_path: Path, server: LoopbackUpstream) -> None:
    server.files["cfile_1"] = ("a.csv", b"data")
    citation = ContainerFileCitation(
        container_id="cntr_1", file_id="cfile_1", filename="a.csv", start_index=0, end_index=2
    )

    async def test(bench: Bench) -> None:
        pictures = (Image(url=PNG), Image(url="https://x.example/a.png"), Image(url="data:image/png;base64,~"))
        bench.model.turns = [
            [*cell(outputs=pictures), ContainerUsed("cntr_1"), Text("ok"), Cited(citation), Cited(citation)]
        ]
        bench.model.turns[0] = [*cast(Sequence[Delta], bench.model.turns[0]), Finish("stop")]
        hosting = await bench.hosting()
        heard = await said(hosting)
        assert [type(delta).__name__ for delta in heard] == ["HostedCode", "HostedEnd", "Text", "Finish"]
        assert "'cntr_1'" not in str(heard)  # one of ours may begin so
        files = await bench.records.all_container_files(bench.container.id)
        assert sorted(file.size for file in files) == [3, 4]
        cited = bench.citations.cite("ok", True)
        assert [(one.filename.rpartition(".")[2], one.start_index, one.end_index) for one in cited] == [  # type: ignore[union-attr]
            ("csv", 0, 2),
            ("csv", 0, 2),
            ("png", 0, 0),
        ]
        assert len([one for one in server.requests if one.method == "GET"]) == 2  # where it lies, and its bytes

    run(tmp_path, server, test, "openai")


def test_a_container_that_is_deleted_meanwhile(tmp_path: Path, server: LoopbackUpstream) -> None:
    async def test(bench: Bench) -> None:
        bench.model.turns = [[*cell(), *DONE]]
        hosting = await bench.hosting()
        await bench.containers.delete(bench.container.id, "me")
        assert (await said(hosting))[-1] == Finish("stop")

    run(tmp_path, server, test, "openai")


def test_names_in_directories_stay_apart(tmp_path: Path, server: LoopbackUpstream) -> None:
    async def test(bench: Bench) -> None:
        await bench.put("a/x.csv", b"1")
        await bench.put("b/x.csv", b"2")
        hosting = await bench.hosting()
        await hosting.supply(await bench.fresh(), {}, "")
        assert sorted(name for name, _ in server.files.values()) == ["a_x.csv", "b_x.csv"]
        assert hosting.describe_place("a/x.csv") == "at $INPUT_DIR/a_x.csv"

    run(tmp_path, server, test, "anthropic")


def test_what_fits_no_request_names_who_gave_it(tmp_path: Path, server: LoopbackUpstream) -> None:
    async def test(bench: Bench) -> None:
        await bench.put("a.csv", bytes(8 << 20))
        await bench.put("b.csv", bytes(7 << 20))
        with pytest.raises(InvalidRequest, match="takes 14 MiB in all") as caught:
            await (await bench.hosting()).supply(
                await bench.fresh(), {"b.csv": "input[0].content[1]"}, "tools[0].container"
            )
        assert (caught.value.param, caught.value.fault) == ("input[0].content[1]", "file_too_large")

    run(tmp_path, server, test, "gemini")


def test_a_file_that_is_larger_than_the_vendor_takes(
    tmp_path: Path, server: LoopbackUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = HostedSandbox(upload="/files", largest=3)
    monkeypatch.setattr(AnthropicDialect, "sandbox", small)

    async def test(bench: Bench) -> None:
        await bench.put("a.csv", b"1234")
        with pytest.raises(InvalidRequest, match=r"has 4 bytes, and lab, .* takes 3 bytes a file") as caught:
            await (await bench.hosting()).supply(await bench.fresh(), {}, "tools[0].container")
        assert caught.value.param == "tools[0].container"

    run(tmp_path, server, test, "anthropic")


def test_a_server_that_cannot_be_reached_is_that(tmp_path: Path, server: LoopbackUpstream) -> None:
    server.base_url = "http://127.0.0.1:1/v1"

    async def test(bench: Bench) -> None:
        await bench.put("a.csv", b"1")
        with pytest.raises(Unreachable, match="lab at"):
            await (await bench.hosting()).supply(await bench.fresh(), {}, "")

    run(tmp_path, server, test, "anthropic")


def test_a_container_without_code_is_none_of_ours(tmp_path: Path, server: LoopbackUpstream) -> None:
    async def test(bench: Bench) -> None:
        bench.model.turns = [[ContainerUsed("container_1"), *DONE]]
        assert await said(await bench.hosting()) == DONE
        assert (await bench.fresh()).hosted == b""

    run(tmp_path, server, test, "anthropic")


def test_small_files_come_with_the_cell_where_that_was_asked_for(tmp_path: Path, server: LoopbackUpstream) -> None:
    async def test(bench: Bench) -> None:
        files = (
            HostedFile(name="a.csv", type="text/csv", data=b"1,2"),
            HostedFile(name="b.bin", type="application/octet-stream", data=bytes(300_000)),
        )
        item = CodeInterpreterCall(id="ci_1", status="completed", code="x", container_id="", outputs=())
        bench.model.turns = [[HostedEnd(0, item, files), *DONE]]
        [end, *_] = await said(await bench.hosting())
        assert isinstance(end, HostedEnd)
        told = end.item.belljar
        assert isinstance(told, CellEnd)
        assert told.files == ("a.csv", "b.bin")
        [inline] = told.inline_files
        assert (inline.path, inline.file_id, inline.url) == ("a.csv", told.file_ids[0], "data:text/csv;base64,MSwy")

    run(tmp_path, server, test, "gemini")


def test_usage_passes(tmp_path: Path, server: LoopbackUpstream) -> None:
    async def test(bench: Bench) -> None:
        bench.model.turns = [[UsageDelta(Usage(total_tokens=3))]]
        assert await said(await bench.hosting()) == [UsageDelta(Usage(total_tokens=3))]

    run(tmp_path, server, test, "xai")
