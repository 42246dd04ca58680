"""The loop of one response: ask the model, run the cells that it wrote, and ask again until it is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Literal

from msgspec import structs

from belljar.gateway.engine import compaction, tool_selection
from belljar.gateway.engine.caller import Caller
from belljar.gateway.engine.cell_runner import CellRunner
from belljar.gateway.engine.citations import Citations
from belljar.gateway.engine.context import Context
from belljar.gateway.engine.deadline import ResponseDeadline
from belljar.gateway.engine.emitter import Emitter
from belljar.gateway.engine.image_inputs import WithImages
from belljar.gateway.engine.inline_files import Inliner
from belljar.gateway.engine.input_files import InputFiles
from belljar.gateway.engine.model_request import build_model_request
from belljar.gateway.engine.namespaces import Namespaces
from belljar.gateway.engine.provider_execution import ProviderExecution
from belljar.gateway.engine.response_container import ResponseContainer
from belljar.gateway.engine.services import EngineServices, TurnDone
from belljar.gateway.engine.stop_sequences import WithStops
from belljar.gateway.engine.turn import Turn
from belljar.gateway.engine.turn_rules import TurnRules
from belljar.gateway.store.base import ResponseRecord
from belljar.gateway.upstream.models import ModelRoute
from belljar.vendors.request import ModelRequest
from belljar.wire.events import Event
from belljar.wire.items import Compaction
from belljar.wire.requests import CreateResponse
from belljar.wire.responses import Usage
from belljar.wire.tools import CodeInterpreterTool, FunctionTool, ToolChoice


class Loop:
    """Call `begin`, which raises what is wrong with the request, then `run`."""

    def __init__(
        self,
        services: EngineServices,
        request: CreateResponse,
        caller: Caller,
        emitter: Emitter,
        citations: Citations,
        *,
        response_id: str,
        memory: dict[str, ResponseRecord] | None,
    ) -> None:
        self._services = services
        self._request = request
        """From when its model is known, with the tools that this can have."""
        self._caller = caller
        self._emitter = emitter
        self._citations = citations
        self._response_id = response_id
        self._memory = memory
        self._tool = tool = tool_selection.find_interpreter(request)
        self._names = tool_selection.list_interpreter_names(request) if tool is not None else frozenset[str]()
        self._namespaces: Namespaces
        self._inliner = Inliner(services.blobs, wanted=request.belljar.inline_files)
        self._files = InputFiles(services.records, services.blobs, services.containers, caller.owner)
        param = "" if tool is None else f"tools[{request.tools.index(tool)}].container"
        of = {"owner": caller.owner, "response_id": response_id}
        self.container = ResponseContainer(services, tool, param, emitter, citations, self._files, **of)
        self.context = Context(services, self._files, **of)
        self._provider: ProviderExecution | None = None
        """Where the model's provider runs the code."""
        self._seal: Callable[[str], str] | None = None
        self._calls_left = request.max_tool_calls
        self.usage: Usage | None = None
        """Of all turns, and of what made the conversation short."""

    async def check(self) -> None:
        """Raise what can be found wrong before anything runs."""
        self._select_tools(await self._services.models.resolve(self._request.model))
        if self._tool is not None and isinstance(self._tool.container, str):
            await self.container.hold()
        await self.context.recall(self._request)

    async def begin(self, deadline: ResponseDeadline) -> None:
        """Find the model, and settle what it can have of the request."""
        request = self._request
        route = await self._services.models.resolve(request.model)
        if "reasoning.encrypted_content" in request.include:
            self._seal = await self._services.sealer.make_thought_sealer(self._caller.owner)
        self._emitter.note_ignored(*tool_selection.list_ignored(request, route.traits))
        self._request, self._namespaces = self._select_tools(route)
        self._route = route if not request.stop else structs.replace(route, model=WithStops(route.model))
        self._deadline = deadline
        self._cells = CellRunner(
            self._services,
            self._caller,
            self.container,
            self.context,
            self._citations,
            self._inliner,
            deadline,
            response_id=self._response_id,
        )

    def _select_tools(self, route: ModelRoute) -> tuple[CreateResponse, Namespaces]:
        """The request as this model can have it."""
        interpreter, provider_runs = self._services.options.interpreter, self._provider_runs(route)
        if self._request.tools:
            tool_selection.check_tools(
                self._request, route.traits, interpreter=interpreter, provider_runs=provider_runs
            )
        return tool_selection.select_tools(self._request, route.traits)

    def _provider_runs(self, route: ModelRoute) -> bool:
        wanted = self._request.belljar.executor or self._services.options.executor
        return wanted == "provider" and route.traits.runs and self._tool is not None

    # -- the way through --------------------------------------------------------------------------------------------

    async def run(self) -> AsyncGenerator[list[Event], None]:
        """The events of all turns, to the one that ends the response. Call `close` after it."""
        request, emitter, context = self._request, self._emitter, self.context
        await self._load()
        if context.history.compact_now:
            yield await self._compact()
            yield emitter.complete(int(self._services.clock()), self.usage)
            return
        choice = request.tool_choice
        last = self._services.options.turns - 1
        for number in range(self._services.options.turns):
            turn = emitter.begin_turn(self._make_rules())
            asked = self._build_request(choice, bare=number == last)
            async with aclosing(self._answer(asked, turn, patient=number == 0 and request.stream)) as answer:
                async for said in answer:
                    yield said
            result = turn.end()
            self._calls_left = result.calls_left
            if self._provider is not None:
                await self.container.refresh_version()
            if result.finish in ("length", "filtered"):
                reason: Literal["max_output_tokens", "content_filter"]
                reason = "max_output_tokens" if result.finish == "length" else "content_filter"
                yield emitter.cut(reason, self.usage)
                return
            if result.cells:
                async with aclosing(self._cells.run_all(result.cells)) as running:
                    async for shown in running:
                        yield shown
            context.add_turn(turn.list_items(), result.strays)
            if self._is_too_long(result.usage):
                yield await self._compact()
            if result.calls or not (result.cells or result.strays):
                break
            if result.cells:
                choice = tool_selection.release_choice(choice)
            if self._count_tokens_left() == 0:
                yield emitter.cut("max_output_tokens", self.usage)
                return
        wanting = number == last and bool(result.cells or (result.strays and not result.calls))
        unanswered = wanting or ((number == last or result.ignored) and not result.answered)
        if self._citations.has_owed and not result.calls:
            yield emitter.cite_rest()
        if unanswered:
            yield emitter.cut("max_messages", self.usage)
        else:
            yield emitter.complete(int(self._services.clock()), self.usage)

    async def close(self) -> None:
        """Let go of what a provider has for it."""
        if self._provider is not None:
            await self._provider.close()

    # -- before -----------------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        """Make ready what came before and what came with it, and the way to the model for that."""
        services, route, tool = self._services, self._route, self._tool
        if tool is not None and self._provider_runs(route):
            self._provider = ProviderExecution(
                route,
                tool,
                services.containers,
                services.blobs,
                self._citations,
                self._inliner,
                self.container.hold,
                services.clock,
            )
            self._files.describe_place = self._provider.describe_place
            route = structs.replace(route, model=self._provider)
        earlier = tool is not None and not isinstance(tool.container, str)  # the container is that of those before
        await self.context.recall(self._request, self._memory, housed=earlier)
        if tool is not None:
            await self.context.furnish(self.container, self._provider, self._deadline)
        await self._deadline.wait(self.context.load(route, housed=tool is not None, model=self._request.model))
        if self._files.words:
            model = WithImages(route.model, self._files.words, blind=not route.traits.sees)
            route = structs.replace(route, model=model)
        self._route = route

    # -- ask --------------------------------------------------------------------------------------------------------

    def _build_request(self, choice: ToolChoice, *, bare: bool) -> ModelRequest:
        return build_model_request(
            self._request,
            self._route,
            self.context,
            items=self._namespaces.flatten_names(self.context.items),
            tools=() if bare else tool_selection.offer_tools(self._request, self._declare_interpreter()),
            choice=choice,
            max_output_tokens=self._count_tokens_left(),
            hops=self._caller.hops,
        )

    def _declare_interpreter(self) -> FunctionTool | CodeInterpreterTool | None:
        """The interpreter as the model is told of it; None where it may not be called any more."""
        if self._tool is None or self._calls_left == 0:
            return None
        if self._provider is not None:
            return self._tool
        container = self.container.current
        assert container is not None, "it was looked for before the model is asked"
        return self._services.interpreter.declare(container)

    def _make_rules(self) -> TurnRules:
        request, container = self._request, self.container.record
        return TurnRules(
            is_ours=self._names.__contains__,
            explain_missing=lambda name: tool_selection.explain_missing(request, name),
            restore_name=self._namespaces.restore_name,
            seal=self._seal,
            calls_left=self._calls_left,
            parallel=request.parallel_tool_calls,
            summarise=tool_selection.wants_summary(request),
            container_id="" if container is None else container.id,
        )

    async def _answer(self, asked: ModelRequest, turn: Turn, *, patient: bool) -> AsyncGenerator[list[Event], None]:
        """One turn's events. A patient caller gets an empty list if the model keeps it waiting."""
        clock, wait = asyncio.get_running_loop().time, self._deadline.wait
        began = clock()
        try:
            async with aclosing(self._route.model.ask(asked)) as stream:
                if patient:
                    first = asyncio.ensure_future(anext(stream, None))
                    try:
                        done, _ = await asyncio.wait({first}, timeout=self._services.options.patience)
                        if not done:
                            yield []
                        batch = await wait(first)
                    finally:
                        if not first.done():
                            first.cancel()
                            await asyncio.wait({first})
                else:
                    batch = await wait(anext(stream, None))
                while batch is not None:
                    said = turn.feed(batch)
                    if turn.needs_container:
                        said = turn.house((await self.container.hold()).id)
                    if said:
                        yield said
                    batch = await wait(anext(stream, None))
        finally:
            if turn.usage is not None:
                self._spend(turn.usage)
        self._services.observe(
            TurnDone(
                caller=self._caller,
                response_id=self._response_id,
                upstream=self._route.upstream,
                model=self._route.name,
                seconds=clock() - began,
                usage=turn.usage,
            )
        )

    def _spend(self, usage: Usage) -> None:
        self.usage = usage if self.usage is None else self.usage + usage

    def _count_tokens_left(self) -> int | None:
        most, usage = self._request.max_output_tokens, self.usage
        return most if most is None or usage is None else max(0, most - usage.output_tokens)

    # -- compact ----------------------------------------------------------------------------------------------------

    def _is_too_long(self, usage: Usage | None) -> bool:
        wanted = [one.compact_threshold for one in self._request.context_management if one.compact_threshold]
        return bool(wanted) and usage is not None and usage.total_tokens >= min(wanted)

    async def _compact(self) -> list[Event]:
        summary, usage = await compaction.summarise(self._route, self._build_request("none", bare=True))
        self._spend(usage)
        sealed = await self._services.sealer.seal(summary, self._caller.owner)
        item = Compaction(id=self._emitter.next_id("cmp"), encrypted_content=sealed)
        said = self._emitter.add(item)
        await self.context.replace((*compaction.list_user_messages(self.context.items), item))
        return said
