"""One response from its first event to its last: a fault becomes an event, and what there is of it is stored."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec import structs

from belljar.errors import BelljarError, Fenced
from belljar.gateway.engine import snapshots
from belljar.gateway.engine.caller import Caller
from belljar.gateway.engine.citations import Citations
from belljar.gateway.engine.deadline import ResponseDeadline
from belljar.gateway.engine.emitter import Emitter
from belljar.gateway.engine.loop import Loop
from belljar.gateway.engine.services import EngineServices
from belljar.gateway.store.base import ItemRecord, ResponseRecord
from belljar.wire import faults, ids
from belljar.wire.codec import encode
from belljar.wire.events import TERMINAL, ErrorDetail, Event
from belljar.wire.requests import CreateResponse
from belljar.wire.responses import Response

_log = logging.getLogger("belljar.engine")


class Run:
    """The life of one response. A stream of events; the JSON answer is its last one."""

    def __init__(
        self,
        services: EngineServices,
        request: CreateResponse,
        caller: Caller,
        *,
        memory: dict[str, ResponseRecord] | None = None,
        id: str | None = None,
    ) -> None:
        if request.belljar.live is not None:
            caller = structs.replace(caller, live=request.belljar.live)
        self._services = services
        self._request = request
        self._caller = caller
        self._memory = memory
        self.id = id or ids.new("resp")
        self.holder = services.membership.id if request.background else None
        """The gateway that has its row, where it has one from its beginning on."""
        self.started = snapshots.build_first(request, self.id, int(services.clock()))
        citations = Citations()
        self._emitter = Emitter(self.started, include=frozenset(request.include), cite=citations.cite, live=caller.live)
        self._loop = Loop(services, request, caller, self._emitter, citations, response_id=self.id, memory=memory)

    async def check(self) -> None:
        """What can be found wrong before anything runs: for a caller who will not be there when it does."""
        await self._loop.check()

    async def events(self) -> AsyncGenerator[list[Event], None]:
        """Everything, in lists as it comes. A fault after the first list is an event, except where nobody streams.

        Whoever cannot do with a list what it is for throws the reason in here: the last events come of that as well.
        """
        deadline = ResponseDeadline(self._services.options.deadline)
        told = self._request.stream or self._request.background
        begun = self._request.background
        unsaid: list[Event] = []
        """What has its numbers already, and was not told since the end could not be kept."""
        try:
            if begun:
                yield self._emitter.begin(queued=True)
            await self._loop.begin(deadline)
            # The first events wait for the model: a fault until then has an HTTP status.
            opening = [] if begun else self._emitter.begin()
            try:
                async with aclosing(self._loop.run()) as work:
                    async for batch in work:
                        if opening:
                            batch, opening = [*opening, *batch], []
                        begun = True
                        if batch and isinstance(batch[-1], TERMINAL):
                            unsaid = batch
                            await self._save(batch[-1].response)
                            unsaid = []
                        yield batch
            finally:
                await self._loop.close()
        except BelljarError as error:
            if not (begun and told):
                raise
            fault = faults.of(error)
            code = fault.code or error.code
            said = await self._fail(ErrorDetail(type=fault.type, code=code, message=fault.message, param=fault.param))
            yield _replace_end(unsaid, said)
        except Exception:
            if not (begun and told):
                raise
            _log.exception("response %s broke", self.id)
            message = f"The gateway failed; its log has the reason under {self._caller.request_id}."
            said = await self._fail(ErrorDetail(type="server_error", code="server_error", message=message))
            yield _replace_end(unsaid, said)
        finally:
            deadline.cancel()

    async def cancel(self) -> list[Event]:
        """Called off from outside: what there is of it is stored."""
        said = self._emitter.cancel(self._loop.usage)
        [cancelled] = [event.response for event in said[-1:] if isinstance(event, TERMINAL)]
        await self._save(cancelled)
        return said

    async def stop(self) -> list[Event]:
        """The gateway ends before it does: it has failed, and what there is of it is stored."""
        return await self._fail(ErrorDetail(type="server_error", code="server_error", message=snapshots.STOPPED))

    async def _fail(self, detail: ErrorDetail) -> list[Event]:
        """The last events, stored as far as that can be: what broke may be the store, or what there is to store."""
        said = self._emitter.fail(detail, self._loop.usage)
        try:
            for event in said:
                encode(event)
        except Exception:  # noqa: BLE001 - a response that failed has to be told, if need be without its output
            _log.exception("response %s has what cannot be written", self.id)
            said = [snapshots.empty_output(event) for event in said[-2:]]
        [failed] = [event.response for event in said[-1:] if isinstance(event, TERMINAL)]
        try:
            await self._save(failed)
        except Exception:  # noqa: BLE001 - see above
            _log.exception("response %s could not be kept whole", self.id)
            await self._save_bare(failed)
        return said

    async def _save(self, response: Response) -> None:
        """Before the caller hears that it is done, it is."""
        request, records = self._request, self._services.records
        if not request.store and self._memory is None and request.conversation is None:
            return
        own, output, container = self._loop.context.history.own, self._emitter.items, self._loop.container
        kept = snapshots.build_record(
            response,
            self._caller.owner,
            own=own,
            output=output,
            container_id=container.id,
            container_version=container.version,
        )
        done = response.status in ("completed", "incomplete")
        rows: list[ItemRecord] = []
        if request.conversation is not None and done:
            rows = [ItemRecord(id=str(getattr(item, "id", "")), body=encode(item)) for item in (*own, *output)]
        if request.store:
            await self._store(kept, rows)
        elif rows and request.conversation is not None:
            await records.add_items(request.conversation, rows)
        if not request.store and self._memory is not None and done:
            self._memory[self.id] = kept

    async def _store(self, record: ResponseRecord, items: Sequence[ItemRecord] = ()) -> None:
        """As a new row, or as the end of the one that a run in the background has had from its beginning."""
        records = self._services.records
        if self.holder is None:
            await records.add_response(record, items)
        elif not await records.end_response(structs.replace(record, holder=self.holder), items=items):
            raise Fenced(f"response {self.id} was ended by another gateway, or deleted")

    async def _save_bare(self, failed: Response) -> None:
        """That it failed, if nothing else."""
        bare, own = structs.replace(failed, output=()), self._loop.context.history.own
        kept = snapshots.build_record(bare, self._caller.owner, own=own, output=(), container_id=None)
        try:
            if self._request.store:
                await self._store(kept)
        except Exception:  # noqa: BLE001 - whoever asks for it later is told that it failed
            _log.exception("response %s could not be kept", self.id)


def _replace_end(unsaid: list[Event], said: list[Event]) -> list[Event]:
    """Another end in place of the one that could not be kept, under its number: a stream has no gaps."""
    if not unsaid:
        return said
    told = [*unsaid[:-1], *said]
    return [
        structs.replace(event, sequence_number=number) for number, event in enumerate(told, unsaid[0].sequence_number)
    ]
