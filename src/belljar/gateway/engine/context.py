"""The conversation of one response as its model knows it: items, what code printed, and the pictures it made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from belljar.gateway.engine import replay, unsealing
from belljar.gateway.engine.deadline import ResponseDeadline
from belljar.gateway.engine.history import History, HistoryRequest, list_turn_items, read_history
from belljar.gateway.engine.input_files import InputFiles
from belljar.gateway.engine.provider_execution import ProviderExecution
from belljar.gateway.engine.readable_files import ReadableFiles
from belljar.gateway.engine.response_container import ResponseContainer
from belljar.gateway.engine.services import EngineServices
from belljar.gateway.engine.turn_calls import Stray
from belljar.gateway.store.base import ResponseRecord
from belljar.gateway.upstream.models import ModelRoute
from belljar.wire.items import InputItem, OutputItem
from belljar.wire.requests import CreateResponse


class Context:
    """Empty until it is loaded; it grows with each turn of the model and each cell that ran."""

    def __init__(self, services: EngineServices, files: InputFiles, *, owner: str, response_id: str) -> None:
        self._services = services
        self._files = files
        self._owner = owner
        self._response_id = response_id
        self._sees = False
        self.history = History()
        self.items: tuple[InputItem, ...] = ()
        self.call_outputs: dict[str, str] = {}
        """What each cell said, by the item's id."""
        self.call_images: dict[str, tuple[str, ...]] = {}
        """The pictures of each, for a model that sees."""

    async def recall(
        self, request: CreateResponse, memory: Mapping[str, ResponseRecord] | None = None, *, housed: bool = False
    ) -> None:
        """Find what came before the request; `housed` says that its container is wanted as well."""
        asked, records = HistoryRequest.of(request), self._services.records
        self.history = await read_history(records, asked, self._owner, self._response_id, memory, housed=housed)

    async def furnish(
        self, container: ResponseContainer, provider: ProviderExecution | None, deadline: ResponseDeadline
    ) -> None:
        """Put its files into the container."""
        self.history = await container.furnish(self.history, provider, deadline)

    async def load(self, route: ModelRoute, *, housed: bool, model: str) -> None:
        """Make the items ready for the model; `housed` says that there is a container for files."""
        before, items = len(self.history.before), self.history.items
        reader = ReadableFiles.of(route, self._services.blobs, model)
        await self._files.load(items, before=before, housed=housed, reader=reader, model=model)
        await self.replace(self._files.show_items(replay.add_notes(items)), first=before)
        self.call_outputs = replay.list_call_outputs(self.items)
        self._sees = route.traits.sees
        self.call_images = replay.list_call_images(self.items) if self._sees else {}

    def add_turn(self, items: Sequence[OutputItem], strays: Sequence[Stray]) -> None:
        """What the model said in one turn."""
        self.items += list_turn_items(items, strays)

    def add_cell(self, item_id: str, told: str, images: tuple[str, ...]) -> None:
        """What the model is told of a cell that ran."""
        self.call_outputs[item_id] = told
        if self._sees and images:
            self.call_images[item_id] = images

    async def replace(self, items: Sequence[InputItem], *, first: int = 0) -> None:
        """Other items instead, opened where they are sealed; `first` is where the caller's own input begins."""
        self.items = await unsealing.unseal_items(items, self._services.sealer, self._owner, first=first)
