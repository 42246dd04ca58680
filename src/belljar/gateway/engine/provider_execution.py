"""Code that a provider runs itself, told as if we had: its container is ours to callers, and so are its files."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from typing import cast

import msgspec
from msgspec import Struct, UnsetType, structs

from belljar.errors import BelljarError, Declined, InvalidRequest, NotFound, ProviderError
from belljar.gateway.containers import Containers, Held
from belljar.gateway.engine.citations import Citations
from belljar.gateway.engine.hosted_files import HostedFileKeeper
from belljar.gateway.engine.inline_files import Inliner
from belljar.gateway.store.base import Blobs, ContainerFileRecord, ContainerRecord
from belljar.gateway.upstream.models import ModelRoute
from belljar.sandbox import explain
from belljar.vendors import deltas
from belljar.vendors.deltas import Delta
from belljar.vendors.request import HostedFile, ModelRequest
from belljar.wire.items import CellEnd, CodeInterpreterCall, ContainerFileCitation, Image, Message
from belljar.wire.tools import AutoContainer, CodeInterpreterTool, Tier

_log = logging.getLogger("belljar.engine")
_RENEWED = "[The sandbox is a new one: the files of earlier code are there, its variables are gone.]"
_MOVED = "[The sandbox is a new one: variables and files of earlier code are gone.]"
_MARGIN = 60 * 60
"""Seconds before an upload expires in which it is not relied on: the vendor must still have it when the code runs."""


class _Upload(Struct, frozen=True):
    """A file of our container that the vendor was given."""

    blob: str
    id: str
    until: float | None = None
    path: str = ""
    """Where it lies in the vendor's container, if that was said."""


class VendorContainer(Struct):
    """The vendor's side of a container, kept with its record."""

    upstream: str = ""
    container: str | None = None
    uploads: dict[str, _Upload] = msgspec.field(default_factory=dict)
    """By the path in our container."""
    placed: dict[str, str] = msgspec.field(default_factory=dict)
    """What the vendor's container has: the content by the path in ours."""


class ProviderExecution:
    """The code of one response, run by its provider. A `Model` itself, so that nobody else need know.

    `hold` gives our container, which is made when it is needed.
    """

    def __init__(
        self,
        route: ModelRoute,
        tool: CodeInterpreterTool,
        containers: Containers,
        blobs: Blobs,
        citations: Citations,
        inliner: Inliner,
        hold: Callable[[], Awaitable[ContainerRecord]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        assert route.files is not None
        assert route.files.premises is not None
        self._model = route.model
        self._files = route.files
        self._premises = route.files.premises
        self._tool = tool
        self._containers = containers
        self._blobs = blobs
        self._citations = citations
        self._hold = hold
        self._clock = clock
        self._inliner = inliner
        self._keeper = HostedFileKeeper(route.files, containers, blobs)
        self._there = VendorContainer(upstream=route.upstream)
        self._container: ContainerRecord | None = None
        self._hosting: Held | None = None
        self._stack = AsyncExitStack()
        self._params: Mapping[str, str] = {}
        self._otherwise = "tools"
        self._given: dict[str, tuple[ContainerFileRecord, HostedFile]] = {}
        """What goes with the next request, by its path in our container."""
        self._notes: list[str] = []
        self._cited: dict[str, ContainerFileRecord | None] = {}
        self._pictures: list[HostedFile] = []

    # -- before -----------------------------------------------------------------------------------------------------

    async def supply(self, container: ContainerRecord, params: Mapping[str, str], otherwise: str) -> None:
        """See to it that the provider's code finds the files of our container.

        `params` says by its path which parameter gave a file, `otherwise` what to name where none did.
        """
        container = await self._host(container)
        self._container, self._params, self._otherwise = container, params, otherwise
        if container.hosted:
            kept = msgspec.json.decode(container.hosted, type=VendorContainer)
            if kept.upstream == self._there.upstream:
                self._there = kept
        await self._supply(container)

    async def _host(self, container: ContainerRecord) -> ContainerRecord:
        """Have our container to ourselves until `close`: two runs of a provider's would each go on from the same."""
        if self._hosting is None:
            self._hosting = await self._stack.enter_async_context(self._containers.host(container))
        return self._hosting.record

    async def close(self) -> None:
        """The response has ended: others may have the container."""
        self._hosting = None
        await self._stack.aclose()

    def tell_moved(self) -> None:
        """Earlier code ran in another container than ours of now; it matters where a provider's is kept."""
        if self._premises.keeps:
            self._notes.append(_MOVED)

    async def _supply(self, container: ContainerRecord) -> None:
        there, premises = self._there, self._premises
        files = await self._containers.all_files(container)
        if not premises.keeps:
            files = [file for file in files if file.source == "user"]
        self._given = {}
        for file in files:
            if there.container is None or there.placed.get(file.path) != file.blob:
                self._given[file.path] = (file, await self._give(file))
        if premises.placing is not None and there.container is not None and self._given:
            try:
                await self._place(there.container)
            except ProviderError as error:
                if not self._is_lost(error):
                    raise
                self._renew()
                await self._supply(container)

    async def _give(self, file: ContainerFileRecord) -> HostedFile:
        """The file as the provider can be given it."""
        premises = self._premises
        name = file.path.replace("/", "_")
        carried = sum(len(one.data or b"") for _, one in self._given.values())
        if file.size + carried <= premises.inline:
            data = b"".join([chunk async for chunk in self._blobs.stream(file.blob)])
            return HostedFile(name=name, type=file.type, data=data)
        if premises.upload is None:
            raise self._build_refusal(file, f"takes {explain.size(premises.inline)} in all", "file_too_large")
        if file.size > premises.largest:
            raise self._build_refusal(file, f"takes {explain.size(premises.largest)} a file", "file_too_large")
        known = self._there.uploads.get(file.path)
        now = self._clock()
        if known is None or known.blob != file.blob or (known.until is not None and known.until - _MARGIN < now):
            try:
                id = await self._files.upload(name, file.type, self._blobs.stream(file.blob), file.size)
            except ProviderError as error:
                if type(error) not in (Declined, ProviderError):
                    raise
                raise self._build_refusal(file, f"did not take it ({error})", "unsupported_value") from None
            until = None if premises.life is None else now + premises.life
            known = self._there.uploads[file.path] = _Upload(file.blob, id, until)
        return HostedFile(name=name, type=file.type, id=known.id)

    def _build_refusal(self, file: ContainerFileRecord, why: str, fault: str) -> InvalidRequest:
        param = self._params.get(file.path, self._otherwise)
        return InvalidRequest(
            f"Invalid value for '{param}': {file.path!r} has {explain.size(file.size)}, and {self._there.upstream},"
            f" which is to run the code, {why}. Send less, or have the code run here, with"
            ' "belljar": {"executor": "belljar"}.',
            param=param,
            fault=fault,
        )

    async def _place(self, container_id: str) -> None:
        """Into a container that is there already, and tell the model where: nobody else does."""
        for path, (file, given) in self._given.items():
            assert given.id is not None
            lies = await self._files.place(container_id, given.id)
            self._there.uploads[path] = structs.replace(self._there.uploads[path], path=lies)
            self._there.placed[path] = file.blob
            self._notes.append(f"[The file {given.name!r} is {self.describe_place(path)}]")
        self._given = {}

    def describe_place(self, path: str) -> str:
        """What the model is told of where a file is."""
        known = self._there.uploads.get(path)
        if known is not None and known.path:
            return f"at {known.path}"
        name = path.replace("/", "_")
        return self._premises.where.replace("{name}", name).replace("{id}", known.id if known else "")

    # -- asked ------------------------------------------------------------------------------------------------------

    async def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        """One turn, in the provider's container of before where there is one, else in a new one."""
        if not any(isinstance(tool, CodeInterpreterTool) for tool in request.tools):
            async with aclosing(self._model.ask(request)) as answer:
                async for batch in answer:
                    yield batch
            return
        while True:
            begun = False
            try:
                async with aclosing(self._model.ask(self._prepare_request(request))) as answer:
                    async for batch in answer:
                        begun = True
                        yield await self._translate_deltas(batch)
                return
            except ProviderError as error:
                if begun or not self._is_lost(error):
                    raise
            self._renew()
            await self._supply(await self._hold())

    def _prepare_request(self, request: ModelRequest) -> ModelRequest:
        container = self._there.container or self._choose_container()
        tools = tuple(
            structs.replace(tool, container=container) if isinstance(tool, CodeInterpreterTool) else tool
            for tool in request.tools
        )
        notes = tuple(Message(role="developer", content=note) for note in self._notes)
        files = tuple(given for _, given in self._given.values())
        return structs.replace(request, tools=tools, items=(*request.items, *notes), files=files)

    def _choose_container(self) -> AutoContainer:
        """A container of the vendor's for ours: with what the caller wants of it, but for the files, which are ours."""
        wanted = self._tool.container
        if isinstance(wanted, AutoContainer):
            return structs.replace(wanted, file_ids=msgspec.UNSET)
        assert self._container is not None, "one that is named was looked up"
        return AutoContainer(memory_limit=cast(Tier, self._container.memory))

    def _is_lost(self, error: ProviderError) -> bool:
        """Whether the vendor no longer has the container that we named."""
        named = self._there.container is not None
        return named and type(error) in (Declined, ProviderError) and "container" in str(error).lower()

    def _renew(self) -> None:
        self._there.container, self._there.placed = None, {}
        self._notes = [_RENEWED]

    # -- answered ---------------------------------------------------------------------------------------------------

    async def _translate_deltas(self, batch: list[Delta]) -> list[Delta]:
        """The deltas as if we had run the code: no container but ours, and every file in it."""
        received: list[Delta] = []
        for delta in batch:
            match delta:
                case deltas.Text():
                    pass
                case deltas.HostedCode():
                    container = await self._note_container(delta.container_id)
                    delta = structs.replace(delta, container_id=container.id)
                case deltas.HostedEnd():
                    delta = await self._end_cell(delta)
                case deltas.ContainerUsed(id):
                    if self._container is not None:  # else no code ran, and there are no files to find again
                        await self._note_container(id)
                    continue
                case deltas.Cited(ContainerFileCitation() as citation):
                    await self._keep_cited(citation)
                    continue
                case deltas.Finish() if self._container is not None:
                    await self._finish(self._container)
            received.append(delta)
        return received

    async def _note_container(self, container_id: str) -> ContainerRecord:
        """Our container for the code, and what is known by now of the vendor's."""
        container = self._container = await self._hold()
        with suppress(NotFound):  # somebody deleted it meanwhile
            container = self._container = await self._host(container)
        there = self._there
        if container_id and container_id != there.container:
            there.container, there.placed = container_id, {}
        if container_id:
            there.placed |= {path: file.blob for path, (file, _) in self._given.items()}
            self._given = {}
        return container

    async def _end_cell(self, end: deltas.HostedEnd) -> deltas.HostedEnd:
        container = await self._note_container(end.item.container_id)
        item = structs.replace(end.item, container_id=container.id, belljar=_drop_files(end.item.belljar))
        if not end.files:
            self._pictures += _list_pictures(item)
            return deltas.HostedEnd(end.index, item)
        told, files = await self._keeper.keep(deltas.HostedEnd(end.index, item, end.files), container)
        self._add_made(files)
        assert isinstance(told.item.belljar, CellEnd), "it names the files"
        item = structs.replace(told.item, belljar=await self._inliner.add(told.item.belljar, files))
        return deltas.HostedEnd(told.index, item)

    async def _keep_cited(self, citation: ContainerFileCitation) -> None:
        """A file that the vendor cites is fetched, and cited as ours at the same place."""
        if citation.file_id not in self._cited:
            file = HostedFile(
                name=citation.filename or None, type="", id=citation.file_id, container_id=citation.container_id
            )
            kept: ContainerFileRecord | None = None
            try:
                kept, _ = await self._keeper.keep_file(file, await self._note_container(citation.container_id))
            except BelljarError as error:
                _log.warning("the file %s could not be kept: %s", citation.filename or citation.file_id, error)
            self._cited[citation.file_id] = kept
        record = self._cited[citation.file_id]
        if record is not None:
            self._add_made((record,))
            self._citations.add_relayed(record, citation.start_index, citation.end_index)

    def _add_made(self, files: tuple[ContainerFileRecord, ...]) -> None:
        self._citations.add_made(files)
        self._there.placed |= {file.path: file.blob for file in files}

    async def _finish(self, container: ContainerRecord) -> None:
        """Pictures that the vendor showed and did not cite are files too; and what is known of its side is kept."""
        cited = {record.blob for record in self._cited.values() if record is not None}
        for picture in self._pictures:
            assert picture.data is not None
            with suppress(BelljarError):
                figure = await self._keeper.keep_figure(picture.data, picture.type, container, cited)
                if figure is not None:
                    self._citations.add_made((figure,))
        self._pictures = []
        if self._hosting is not None:
            with suppress(NotFound):  # somebody deleted the container meanwhile
                await self._containers.note_hosted(self._hosting, msgspec.json.encode(self._there))


def _drop_files(end: CellEnd | UnsetType) -> CellEnd | UnsetType:
    """A gateway behind this one names the files by the ids that they have there."""
    if isinstance(end, UnsetType):
        return end
    return structs.replace(end, files=(), file_ids=(), inline_files=())


def _list_pictures(item: CodeInterpreterCall) -> list[HostedFile]:
    found: list[HostedFile] = []
    for output in item.outputs or ():
        if isinstance(output, Image) and output.url.startswith("data:image/"):
            head, _, data = output.url.partition(";base64,")
            with suppress(ValueError):
                found.append(
                    HostedFile(name=None, type=head.removeprefix("data:"), data=base64.b64decode(data, validate=True))
                )
    return found
