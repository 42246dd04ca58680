"""The container of one response: found or made when it is needed first, and the version of it that the model knows."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from belljar.errors import NotFound
from belljar.gateway.containers import Differences
from belljar.gateway.engine import replay
from belljar.gateway.engine.citations import Citations
from belljar.gateway.engine.deadline import ResponseDeadline
from belljar.gateway.engine.emitter import Emitter
from belljar.gateway.engine.history import History
from belljar.gateway.engine.input_files import InputFiles, has_files
from belljar.gateway.engine.provider_execution import ProviderExecution
from belljar.gateway.engine.services import EngineServices
from belljar.gateway.store.base import ContainerFileRecord, ContainerRecord, FoundContainer
from belljar.wire import ids
from belljar.wire.extras import LeftContainer
from belljar.wire.items import CodeInterpreterCall
from belljar.wire.tools import AutoContainer, CodeInterpreterTool


class ResponseContainer:
    """The one that the request names, else that of the responses before, else a new one; `param` names it in faults."""

    def __init__(
        self,
        services: EngineServices,
        tool: CodeInterpreterTool | None,
        param: str,
        emitter: Emitter,
        citations: Citations,
        files: InputFiles,
        *,
        owner: str,
        response_id: str,
    ) -> None:
        self._services = services
        self._tool = tool
        self._param = param
        self._emitter = emitter
        self._citations = citations
        self._files = files
        self._owner = owner
        self._response_id = response_id
        self._history = History()
        self.record: ContainerRecord | None = None
        """None as long as nobody needed one."""
        self._prospect: ContainerRecord | None = None
        """The container that the first call will get, where there is none yet."""
        self.version: int | None = None
        """Of either, that the model knows."""

    @property
    def current(self) -> ContainerRecord | None:
        """The container, or the one that a call would get."""
        return self.record or self._prospect

    @property
    def id(self) -> str | None:
        """None also for one that would be made."""
        return None if self.current is None else self.current.id or None

    async def hold(self, ahead: FoundContainer | None = None) -> ContainerRecord:
        """The container, found or made; what was read `ahead`, a moment ago, is not looked for again."""
        if self.record is None:
            tool, containers = self._tool, self._services.containers
            assert tool is not None
            if self._prospect is not None and self._prospect.id and containers.is_warm(self._prospect):
                self.record = self._prospect
                return self.record
            if isinstance(tool.container, str):
                try:
                    found = await containers.named(tool.container, self._owner)
                except NotFound as error:
                    error.param = self._param
                    raise
            else:
                id = ids.beside("cntr", self._response_id)
                memory = self._read_memory_limit()
                earlier = self._history.containers
                found = await containers.auto(self._owner, earlier, memory=memory, id=id, ahead=ahead)
            self.record = found.record
            await containers.check_here(self.record)
            if self._prospect is not None and self._prospect.id != self.record.id:  # it was deleted meanwhile
                self._citations.remove(self._citations.files)
            if self._prospect is None or self._prospect.id != self.record.id:
                id, version = self.record.id, self.record.version
                self.set_version(id, min(version, self._history.versions.get(id, version)))
            self._add_known(found.files)
        return self.record

    async def furnish(
        self, history: History, provider: ProviderExecution | None, deadline: ResponseDeadline
    ) -> History:
        """Put the files of the conversation into it where there are any, and add to the request what it has by now.

        Where a `provider` runs the code, its container is supplied with what ours has.
        """
        tool = self._tool
        assert tool is not None
        self._history = history
        file_ids = tool.container.file_ids if isinstance(tool.container, AutoContainer) else ()
        earlier = provider is not None and history.containers
        if isinstance(tool.container, str) or file_ids or has_files(history.items) or earlier:
            container = await self.hold(history.container)
            missed = await self._find_differences(container)
            if file_ids:
                await self._files.place_ids(container, file_ids, f"{self._param}.file_ids")
            if file_ids or has_files(history.items):
                await self._files.place_again(container, history.before)
                history = structs.replace(history, own=await self._files.place_parts(container, history.own))
            if self._files.placed:
                await self._look_again()
            else:
                self.set_version(container.id, container.version)
            if provider is not None:
                if self.has_moved():
                    provider.tell_moved()
                await deadline.wait(provider.supply(container, self._files.params, self._param))
        else:
            missed = await self._find_differences(await self._foresee()) if provider is None else Differences()
        return self._add_note(history, missed) if provider is None else history

    def has_moved(self) -> bool:
        """The newest code ran elsewhere: its container was deleted meanwhile, or the caller names another."""
        earlier = self._history.containers
        if self.record is None or not earlier or earlier[0] == self.record.id:
            return False
        return not any(type(item) is CodeInterpreterCall for item in self._emitter.items)

    async def refresh_version(self) -> None:
        """The container, if there is one, is known as it is by now."""
        if self.record is not None:
            fresh = await self._services.records.get_container(self.record.id, self.record.owner)
            if fresh is not None:
                self.set_version(fresh.id, fresh.version)

    def set_version(self, container_id: str, version: int) -> None:
        """The model knows this one; the caller is told that the container is left so."""
        self.version = version
        self._emitter.set_container(LeftContainer(id=container_id, version=version))

    async def _foresee(self) -> ContainerRecord:
        """Look at the container that a call would get: the model is told of it before it calls, if it ever does."""
        memory, history = self._read_memory_limit(), self._history
        found = await self._services.containers.prospect(
            self._owner, history.containers, memory=memory, ahead=history.container
        )
        self._prospect = found.record
        if self._prospect.id:
            await self._services.containers.check_here(self._prospect)
            self.set_version(self._prospect.id, self._prospect.version)
            self._add_known(found.files)
        return self._prospect

    def _add_note(self, history: History, missed: Differences) -> History:
        """With what the container has by now, unless the model knows: told at the end, where it spoils no prefix."""
        container = self.current
        assert container is not None, "it is held, or was looked for"
        if missed and not replay.can_note(history.own):
            self.set_version(container.id, history.versions[container.id])  # its first call is told
        known = replay.find_last_note(history.items)
        note = self._services.interpreter.write_note(container, self._citations.files, known, missed)
        return history if note is None else structs.replace(history, own=replay.attach_note(history.own, note))

    async def _find_differences(self, container: ContainerRecord) -> Differences:
        """What became of the container since the model knew it last."""
        since = self._history.versions.get(container.id, container.version)
        return await self._services.containers.differences(container, since, container.version)

    async def _look_again(self) -> None:
        """The container is known as it is by now, with its files."""
        assert self.record is not None
        found = await self._services.records.find_container([self.record.id], self.record.owner)
        if found is not None:
            self.set_version(found.record.id, found.record.version)
            self._add_known(found.files)

    def _add_known(self, there: Sequence[ContainerFileRecord]) -> None:
        """To be cited, and to be told of."""
        self._citations.add_known(there)
        self._files.add_known(there)

    def _read_memory_limit(self) -> str | None:
        container = self._tool.container if self._tool is not None else None
        memory = container.memory_limit if isinstance(container, AutoContainer) else None
        return memory if isinstance(memory, str) else None
