"""One response: ask, say, act, until the model is done. A stream of events; the JSON answer is its last one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Literal

from msgspec import structs

from belljar.errors import BelljarError, NotFound
from belljar.gateway.containers import Differences
from belljar.gateway.engine import compaction, replay, snapshots, tool_selection, unsealing
from belljar.gateway.engine.caller import Caller
from belljar.gateway.engine.cell_emitter import CellEmitter
from belljar.gateway.engine.citations import Citations
from belljar.gateway.engine.deadline import Deadline
from belljar.gateway.engine.emitter import Emitter
from belljar.gateway.engine.history import History, HistoryRequest, list_turn_items, recall
from belljar.gateway.engine.image_inputs import WithImages
from belljar.gateway.engine.inline_files import Inliner
from belljar.gateway.engine.input_files import InputFiles, has_files
from belljar.gateway.engine.namespaces import Namespaces
from belljar.gateway.engine.provider_execution import ProviderExecution
from belljar.gateway.engine.services import CellRan, EngineServices, TurnDone
from belljar.gateway.engine.stop_sequences import Stopping
from belljar.gateway.engine.turn import Turn
from belljar.gateway.engine.turn_rules import TurnRules
from belljar.gateway.interpreter import Ran
from belljar.gateway.store.base import ContainerRecord, ItemRecord, ResponseRecord
from belljar.gateway.upstream.models import Route
from belljar.sandbox.outputs import Stderr, Stdout
from belljar.vendors.deltas import Delta
from belljar.vendors.request import ModelRequest
from belljar.wire import faults, ids
from belljar.wire.codec import encode
from belljar.wire.events import TERMINAL, ErrorDetail, Event
from belljar.wire.extras import LeftContainer
from belljar.wire.items import CellEnd, CodeInterpreterCall, Compaction, InputItem
from belljar.wire.requests import CreateResponse
from belljar.wire.responses import Response, Usage
from belljar.wire.tools import AutoContainer, CodeInterpreterTool, FunctionTool

_log = logging.getLogger("belljar.engine")


class Run:
    """The life of one response."""

    def __init__(
        self,
        rooms: EngineServices,
        request: CreateResponse,
        caller: Caller,
        *,
        memory: dict[str, ResponseRecord] | None = None,
        id: str | None = None,
    ) -> None:
        if request.belljar.live is not None:
            caller = structs.replace(caller, live=request.belljar.live)
        self._rooms = rooms
        self._request = request
        """From when its model is known, with the tools that this can have."""
        self._tools = request.tools
        """As the caller numbers them."""
        self._namespaces = Namespaces(())
        self._caller = caller
        self._memory = memory
        self.id = id or ids.new("resp")
        self.started = snapshots.first(request, self.id, int(rooms.clock()))
        self._citations = Citations()
        self._inliner = Inliner(rooms.blobs, wanted=request.belljar.inline_files)
        self._stage = InputFiles(rooms.records, rooms.blobs, rooms.containers, caller.owner)
        self._container: ContainerRecord | None = None
        self._prospect: ContainerRecord | None = None
        """The container that the first call will get, where there is none yet."""
        self._known: int | None = None
        """The version of either that the model knows."""
        self._hosting: ProviderExecution | None = None
        self._recalled = History()
        self._context: tuple[InputItem, ...] = ()
        self._told: dict[str, str] = {}
        self._images: dict[str, tuple[str, ...]] = {}
        self._tool = tool_selection.interpreter_of(request)
        self._opening: list[Event] = []
        """The first events, which wait for the model: a fault until then has an HTTP status."""
        self._names = tool_selection.ours(request) if self._tool is not None else frozenset[str]()
        self._emitter = Emitter(
            self.started, include=frozenset(request.include), cite=self._citations.cite, live=caller.live
        )
        self._seal: Callable[[str], str] | None = None
        self._calls_left = request.max_tool_calls
        self._usage: Usage | None = None
        """Of all turns, and of what made the conversation short."""

    # -- the way through --------------------------------------------------------------------------------------------

    async def events(self) -> AsyncGenerator[list[Event], None]:
        """Everything, in lists as it comes. A fault after the first list is an event, except where nobody streams.

        Whoever cannot do with a list what it is for throws the reason in here: the last events come of that as well.
        """
        self._deadline = Deadline(self._rooms.options.deadline)
        told = self._request.stream or self._request.background
        begun = self._request.background
        try:
            if begun:
                yield self._emitter.begin(queued=True)
            async with aclosing(self._work()) as work:
                async for batch in work:
                    batch, self._opening, begun = [*self._opening, *batch], [], True
                    if batch and isinstance(batch[-1], TERMINAL):
                        await self._keep(batch[-1].response)
                    yield batch
        except BelljarError as error:
            if not (begun and told):
                raise
            fault = faults.of(error)
            code = fault.code or error.code
            yield await self._fail(ErrorDetail(type=fault.type, code=code, message=fault.message, param=fault.param))
        except Exception:
            if not (begun and told):
                raise
            _log.exception("response %s broke", self.id)
            message = f"The gateway failed; its log has the reason under {self._caller.request_id}."
            yield await self._fail(ErrorDetail(type="server_error", code="server_error", message=message))
        finally:
            self._deadline.cancel()

    async def check(self) -> None:
        """What can be found wrong before anything runs: for a caller who will not be there when it does."""
        route = await self._rooms.models.resolve(self._request.model)
        self._check(route)
        if self._tool is not None and isinstance(self._tool.container, str):
            await self._hold()
        await recall(self._rooms.records, HistoryRequest.of(self._request), self._caller.owner, self.id)

    def _check(self, route: Route) -> tuple[CreateResponse, Namespaces]:
        """The request as this model can have it."""
        tool_selection.check(
            self._request,
            route.traits,
            interpreter=self._rooms.options.interpreter,
            provider_runs=self._provider_runs(route),
        )
        return tool_selection.served(self._request, route.traits)

    async def cancel(self) -> list[Event]:
        """Called off from outside: what there is of it is kept."""
        said = self._emitter.cancel(self._usage)
        [cancelled] = [event.response for event in said[-1:] if isinstance(event, TERMINAL)]
        await self._keep(cancelled)
        return said

    async def stop(self) -> list[Event]:
        """The gateway ends before it does: it has failed, and what there is of it is kept."""
        return await self._fail(ErrorDetail(type="server_error", code="server_error", message=snapshots.STOPPED))

    async def _fail(self, detail: ErrorDetail) -> list[Event]:
        """The last events, kept as far as that can be: what broke may be the store, or what there is to keep."""
        said = self._emitter.fail(detail, self._usage)
        try:
            for event in said:
                encode(event)
        except Exception:  # noqa: BLE001 - a response that failed has to be told, if need be without its output
            _log.exception("response %s has what cannot be written", self.id)
            said = [snapshots.emptied(event) for event in said[-2:]]
        [failed] = [event.response for event in said[-1:] if isinstance(event, TERMINAL)]
        try:
            await self._keep(failed)
        except Exception:  # noqa: BLE001 - see above
            _log.exception("response %s could not be kept whole", self.id)
            await self._keep_bare(failed)
        return said

    async def _keep_bare(self, failed: Response) -> None:
        """That it failed, if nothing else."""
        bare = structs.replace(failed, output=())
        kept = snapshots.record(bare, self._caller.owner, own=self._recalled.own, output=(), container_id=None)
        try:
            if self._request.store:
                await self._rooms.records.put_response(kept)
        except Exception:  # noqa: BLE001 - whoever asks for it later is told that it failed
            _log.exception("response %s could not be kept", self.id)

    async def _work(self) -> AsyncGenerator[list[Event], None]:
        request, emitter = self._request, self._emitter
        route = await self._rooms.models.resolve(request.model)
        if "reasoning.encrypted_content" in request.include:
            self._seal = await self._rooms.sealer.thoughts(self._caller.owner)
        emitter.note_ignored(*tool_selection.ignored(request, route.traits))
        request, self._namespaces = self._check(route)
        self._request = request
        if request.stop:
            route = structs.replace(route, model=Stopping(route.model))
        if not request.background:
            self._opening = emitter.begin()
        if self._provider_runs(route) and self._tool is not None:
            rooms = self._rooms
            self._hosting = ProviderExecution(
                route,
                self._tool,
                rooms.containers,
                rooms.blobs,
                self._citations,
                self._inliner,
                self._hold,
                rooms.clock,
            )
            self._stage.where = self._hosting.where
            route = structs.replace(route, model=self._hosting)
        route = await self._recall(route)
        if self._recalled.compact_now:
            yield await self._compact(route)
            yield emitter.complete(int(self._rooms.clock()), self._usage)
            return
        choice = request.tool_choice
        last = self._rooms.options.turns - 1
        for number in range(self._rooms.options.turns):
            turn = emitter.turn(self._rule_turn())
            asked = self._ask(route, choice, bare=number == last)
            async with aclosing(self._answer(route, asked, turn, patient=number == 0 and request.stream)) as answer:
                async for said in answer:
                    yield said
            result = turn.end()
            self._calls_left = result.calls_left
            if self._hosting is not None and self._container is not None:
                await self._leave(self._container)
            if result.finish in ("length", "filtered"):
                reason: Literal["max_output_tokens", "content_filter"]
                reason = "max_output_tokens" if result.finish == "length" else "content_filter"
                yield emitter.cut(reason, self._usage)
                return
            for cell in result.cells:
                async with aclosing(self._run(cell, route)) as running:
                    async for shown in running:
                        yield shown
            self._context += list_turn_items(turn.list_items(), result.strays)
            if self._is_too_long(result.usage):
                yield await self._compact(route)
            if result.calls or not (result.cells or result.strays):
                break
            if result.cells:
                choice = tool_selection.released(choice)
            if self._tokens_left() == 0:
                yield emitter.cut("max_output_tokens", self._usage)
                return
        wanting = number == last and bool(result.cells or (result.strays and not result.calls))
        unanswered = wanting or ((number == last or result.ignored) and not result.answered)
        if self._citations.owed and not result.calls:
            yield emitter.cite_rest()
        if unanswered:
            yield emitter.cut("max_messages", self._usage)
        else:
            yield emitter.complete(int(self._rooms.clock()), self._usage)

    # -- before -----------------------------------------------------------------------------------------------------

    async def _recall(self, route: Route) -> Route:
        """What came before and what came with it, made ready; the way to the model, as it is to be asked for this."""
        request, rooms, owner = self._request, self._rooms, self._caller.owner
        recalled = await recall(rooms.records, HistoryRequest.of(self._request), owner, self.id, self._memory)
        tool, hosting = self._tool, self._hosting
        if tool is not None:
            file_ids = tool.container.file_ids if isinstance(tool.container, AutoContainer) else ()
            self._recalled = recalled
            earlier = hosting is not None and recalled.containers
            if isinstance(tool.container, str) or file_ids or has_files(recalled.items) or earlier:
                container = await self._hold()
                missed = await self._missed(container)
                if file_ids:
                    await self._stage.place_ids(container, file_ids, f"{self._tool_path()}.container.file_ids")
                await self._stage.place_again(container, recalled.before)
                recalled = structs.replace(recalled, own=await self._stage.place_parts(container, recalled.own))
                await self._leave(container)
                await self._look(container)
                if hosting is not None:
                    where = f"{self._tool_path()}.container"
                    if self._moved(container):
                        hosting.tell_moved()
                    await self._deadline.wait(hosting.supply(container, self._stage.params, where))
            else:
                missed = await self._missed(await self._foresee()) if hosting is None else Differences()
            if hosting is None:
                recalled = self._noted(recalled, missed)
        self._recalled = recalled
        whole = self._recalled.items
        housed = tool is not None
        await self._stage.load(
            whole,
            before=len(recalled.before),
            housed=housed,
            files_inline=route.traits.hosted and not housed,
            model=request.model,
        )
        shown = self._stage.shown(replay.noted(whole))
        self._context = await unsealing.opened(shown, rooms.sealer, owner, first=len(recalled.before))
        self._told = replay.told(self._context)
        self._images = replay.shown(self._context) if route.traits.sees else {}
        if not self._stage.words:
            return route
        return structs.replace(route, model=WithImages(route.model, self._stage.words, blind=not route.traits.sees))

    def _noted(self, recalled: History, missed: Differences) -> History:
        """With what the container has by now, unless the model knows: told at the end, where it spoils no prefix."""
        container = self._container or self._prospect
        assert container is not None, "it is held, or was looked for"
        if missed and not replay.can_note(recalled.own):
            self._know(container.id, recalled.versions[container.id])  # its first call is told
        known = replay.last_note(recalled.items)
        note = self._rooms.interpreter.note(container, self._citations.files, known, missed)
        return recalled if note is None else structs.replace(recalled, own=replay.with_note(recalled.own, note))

    async def _missed(self, container: ContainerRecord) -> Differences:
        """What became of the container since the model knew it last."""
        since = self._recalled.versions.get(container.id, container.version)
        return await self._rooms.containers.differences(container, since, container.version)

    async def _leave(self, container: ContainerRecord) -> None:
        """The container is known as it is by now."""
        fresh = await self._rooms.records.get_container(container.id, container.owner)
        if fresh is not None:
            self._know(fresh.id, fresh.version)

    def _know(self, container_id: str, version: int) -> None:
        self._known = version
        self._emitter.leave(LeftContainer(id=container_id, version=version))

    def _tool_path(self) -> str:
        return f"tools[{next(at for at, tool in enumerate(self._tools) if tool is self._tool)}]"

    async def _hold(self) -> ContainerRecord:
        """The container of this response: the one named, the chain's, or a new one."""
        if self._container is None:
            tool, containers, owner = self._tool, self._rooms.containers, self._caller.owner
            assert tool is not None
            if isinstance(tool.container, str):
                try:
                    self._container = await containers.named(tool.container, owner)
                except NotFound as error:
                    error.param = f"{self._tool_path()}.container"
                    raise
            else:
                self._container = await containers.auto(
                    owner, self._recalled.containers, memory=self._memory_asked(), id=ids.beside("cntr", self.id)
                )
            if self._prospect is not None and self._prospect.id != self._container.id:  # it was deleted meanwhile
                self._citations.gone(self._citations.files)
            if self._prospect is None or self._prospect.id != self._container.id:
                id, version = self._container.id, self._container.version
                self._know(id, min(version, self._recalled.versions.get(id, version)))
            await self._look(self._container)
        return self._container

    async def _foresee(self) -> ContainerRecord:
        """Look at the container that a call would get: the model is told of it before it calls, if it ever does."""
        self._prospect = await self._rooms.containers.prospect(
            self._caller.owner, self._recalled.containers, memory=self._memory_asked()
        )
        if self._prospect.id:
            self._know(self._prospect.id, self._prospect.version)
            await self._look(self._prospect)
        return self._prospect

    def _memory_asked(self) -> str | None:
        container = self._tool.container if self._tool is not None else None
        memory = container.memory_limit if isinstance(container, AutoContainer) else None
        return memory if isinstance(memory, str) else None

    async def _look(self, container: ContainerRecord) -> None:
        """What files there are: to be cited, and to be told of."""
        there = await self._rooms.records.all_container_files(container.id)
        self._citations.know(there)
        self._stage.know(there)

    def _moved(self, container: ContainerRecord) -> bool:
        """The newest code ran elsewhere: its container was deleted meanwhile, or the caller names another."""
        earlier = self._recalled.containers
        if not earlier or earlier[0] == container.id:
            return False
        return not any(type(item) is CodeInterpreterCall for item in self._emitter.items)

    def _provider_runs(self, route: Route) -> bool:
        wanted = self._request.belljar.executor or self._rooms.options.executor
        return wanted == "provider" and route.traits.runs and self._tool is not None

    # -- ask --------------------------------------------------------------------------------------------------------

    def _ask(self, route: Route, choice: object, *, bare: bool) -> ModelRequest:
        request = self._request
        tools = () if bare else tool_selection.offered(request, self._declared(route))
        return ModelRequest(
            model=route.name,
            items=self._namespaces.told(self._context),
            instructions=request.instructions,
            tools=tools,
            tool_choice=tool_selection.forced(choice, tools),  # type: ignore[arg-type]
            parallel_tool_calls=request.parallel_tool_calls,
            max_output_tokens=self._tokens_left(),
            temperature=request.temperature,
            top_p=request.top_p,
            sampling=request.sampling(),
            logprobs=tool_selection.wants_logprobs(request),
            top_logprobs=request.top_logprobs,
            text=request.text,
            reasoning=request.reasoning,
            encrypted_reasoning=route.traits.hosted,
            prompt_cache_key=request.prompt_cache_key,
            service_tier=request.service_tier,
            safety_identifier=request.safety_identifier,
            truncation=request.truncation,
            stream=request.stream or request.background,
            call_outputs=self._told,
            call_images=self._images,
            hops=self._caller.hops,
        )

    def _declared(self, route: Route) -> FunctionTool | CodeInterpreterTool | None:
        """The interpreter as the model is told of it; None where it may not be called any more."""
        if self._tool is None or self._calls_left == 0:
            return None
        if self._provider_runs(route):
            return self._tool
        container = self._container or self._prospect
        assert container is not None, "it was looked for before the model is asked"
        return self._rooms.interpreter.declare(container)

    def _rule_turn(self) -> TurnRules:
        request = self._request
        return TurnRules(
            is_ours=self._names.__contains__,
            explain_missing=lambda name: tool_selection.missing(request, name),
            restore_name=self._namespaces.placed,
            seal=self._seal,
            calls_left=self._calls_left,
            parallel=request.parallel_tool_calls,
            summarise=tool_selection.summarises(request),
            container_id="" if self._container is None else self._container.id,
        )

    async def _answer(
        self, route: Route, asked: ModelRequest, turn: Turn, *, patient: bool
    ) -> AsyncGenerator[list[Event], None]:
        """One turn's events. A patient caller gets an empty list if the model keeps it waiting."""
        began = asyncio.get_running_loop().time()
        try:
            async with aclosing(self._listen(route, asked, patient=patient)) as batches:
                async for batch in batches:
                    said = turn.feed(batch)
                    if turn.needs_container:
                        said = turn.house((await self._hold()).id)
                    if said or not batch:
                        yield said
        finally:
            if turn.usage is not None:
                self._spend(turn.usage)
        self._rooms.observe(
            TurnDone(
                caller=self._caller,
                response_id=self.id,
                upstream=route.upstream,
                model=route.name,
                seconds=asyncio.get_running_loop().time() - began,
                usage=turn.usage,
            )
        )

    async def _listen(self, route: Route, asked: ModelRequest, *, patient: bool) -> AsyncGenerator[list[Delta], None]:
        """The model's deltas, as long as there is time; an empty list where it keeps a patient caller waiting."""
        async with aclosing(route.model.ask(asked)) as stream:
            if patient:
                first = asyncio.ensure_future(anext(stream, None))
                try:
                    done, _ = await asyncio.wait({first}, timeout=self._rooms.options.patience)
                    if not done:
                        yield []
                    batch = await self._deadline.wait(first)
                finally:
                    if not first.done():
                        first.cancel()
                        await asyncio.wait({first})
                if batch is not None:
                    yield batch
            while True:
                batch = await self._deadline.wait(anext(stream, None))
                if batch is None:
                    break
                yield batch

    def _spend(self, usage: Usage) -> None:
        self._usage = usage if self._usage is None else self._usage + usage

    def _tokens_left(self) -> int | None:
        most, usage = self._request.max_output_tokens, self._usage
        return most if most is None or usage is None else max(0, most - usage.output_tokens)

    # -- act --------------------------------------------------------------------------------------------------------

    async def _run(self, cell: CellEmitter, route: Route) -> AsyncGenerator[list[Event], None]:
        container = await self._hold()
        arguments = cell.arguments
        yield cell.begin_run()
        left = self._deadline.left
        most = self._rooms.options.timeout
        timeout = max(left, 0.001) if most is None or left < most else None
        run = self._rooms.interpreter.run(
            container,
            arguments.code,
            arguments.requirements,
            timeout=timeout,
            moved=self._moved(container),
            known=self._known,
        )
        ran: Ran | None = None
        began = time.monotonic()
        try:
            async with aclosing(run) as outputs:
                async for output in outputs:
                    match output:
                        case Stdout(text) if self._caller.live:
                            yield cell.show_output("stdout", text)
                        case Stderr(text) if self._caller.live:
                            yield cell.show_output("stderr", text)
                        case Ran():
                            ran = output
        except (GeneratorExit, asyncio.CancelledError):  # whoever asked for it is gone or called it off
            end = CellEnd(exit="killed", reason="interrupted", seconds=time.monotonic() - began)
            self._note(container, arguments.code, "incomplete", end)
            raise
        assert ran is not None, "the interpreter's last value tells how it went"
        if ran.end.version is not None:
            self._know(container.id, ran.end.version)
        self._citations.gone(ran.gone)
        self._citations.made(ran.files)
        end = await self._inliner.add(ran.end, ran.files)
        finished, item = cell.finish_run(ran.status, ran.outputs, end, ran.told)
        self._told[item.id] = ran.told
        if route.traits.sees and ran.images:
            self._images[item.id] = ran.images
        self._note(container, arguments.code, ran.status, ran.end)
        yield finished

    def _note(self, container: ContainerRecord, code: str, status: str, end: CellEnd) -> None:
        self._rooms.observe(
            CellRan(
                caller=self._caller,
                response_id=self.id,
                container_id=container.id,
                status=status,
                exit=end.exit,
                reason=end.reason,
                seconds=end.seconds,
                code=code,
                files=end.files,
            )
        )

    # -- compact ----------------------------------------------------------------------------------------------------

    def _is_too_long(self, usage: Usage | None) -> bool:
        wanted = [one.compact_threshold for one in self._request.context_management if one.compact_threshold]
        return bool(wanted) and usage is not None and usage.total_tokens >= min(wanted)

    async def _compact(self, route: Route) -> list[Event]:
        summary, usage = await compaction.summarise(route, self._ask(route, "none", bare=True))
        emitter = self._emitter
        self._spend(usage)
        sealed = await self._rooms.sealer.seal(summary, self._caller.owner)
        item = Compaction(id=emitter.next_id("cmp"), encrypted_content=sealed)
        users = compaction.kept(self._context)
        said = emitter.add(item)
        self._context = await unsealing.opened((*users, item), self._rooms.sealer, self._caller.owner)
        return said

    # -- keep -------------------------------------------------------------------------------------------------------

    async def _keep(self, response: Response) -> None:
        """Before the caller hears that it is done, it is."""
        request, records = self._request, self._rooms.records
        if not request.store and self._memory is None and request.conversation is None:
            return
        output = self._emitter.items
        container = self._container or self._prospect
        kept = snapshots.record(
            response,
            self._caller.owner,
            own=self._recalled.own,
            output=output,
            container_id=None if container is None else container.id or None,
            container_version=self._known,
        )
        if request.store:
            await records.put_response(kept)
        elif self._memory is not None and response.status in ("completed", "incomplete"):
            self._memory[self.id] = kept
        if request.conversation is not None and response.status in ("completed", "incomplete"):
            items = [*self._recalled.own, *output]
            rows = [ItemRecord(id=str(getattr(item, "id", "")), body=encode(item)) for item in items]
            await records.add_items(request.conversation, rows)
