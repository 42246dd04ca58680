"""Which model a name means: the built-in one, an upstream's by prefix, or the one upstream's that has it."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from belljar.config import Upstream
from belljar.dialects.deltas import Model, Traits
from belljar.errors import BadSettings, InvalidRequest
from belljar.gateway.upstream import builtin, listings
from belljar.gateway.upstream.adapter import DIALECTS, DialectModel
from belljar.gateway.upstream.answers import Broken
from belljar.gateway.upstream.hosted import HostedFiles
from belljar.gateway.upstream.listings import Listed
from belljar.gateway.upstream.transport import Transport

FRESH_SECONDS = 60.0
"""After which a list is asked for again, in the background."""
FORCED_SECONDS = 5.0
"""Between two lists that an unknown name makes us ask for."""
_LIST_SECONDS = 5.0
_NEVER = float("inf")
"""The age of lists that have not been asked for."""
_NAMED = 12
"""Models that an error names."""
_NAME = 100
"""Characters of a wrong name that it repeats."""
_RUNNING = frozenset({"anthropic", "gemini", "xai"})
"""Dialects of vendors that can run code themselves, beside OpenAI at its own address."""


class Route(Struct, frozen=True):
    """A model, and the name that it goes by at its upstream."""

    model: Model
    name: str
    traits: Traits
    upstream: str
    files: HostedFiles | None = None
    """Those that code made which the provider ran."""


class ModelInfo(Struct, frozen=True):
    """A model as we list it."""

    id: str
    owned_by: str
    created: int = 0


Infos: TypeAlias = list[ModelInfo]


class Models:
    """Every model that can be asked, over all upstreams."""

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        transport: Transport,
        *,
        own: Model | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`own` stands in for the built-in model."""
        self._clock = clock
        self._own = Route(own or builtin.BuiltIn(), builtin.NAME, builtin.TRAITS, builtin.NAME)
        self._shelves = {upstream.name: _Shelf(upstream, transport) for upstream in upstreams}
        if len(self._shelves) < len(upstreams):
            twice = Counter(upstream.name for upstream in upstreams).most_common(1)[0][0]
            raise BadSettings(f"upstreams: two are called {twice!r}; give each its own name")
        self._asking = any(shelf.asked for shelf in self._shelves.values())
        self._asked_at = -_NEVER
        self._refreshing: asyncio.Task[None] | None = None
        self._routes: dict[str, Route] = {}
        self._index()

    async def resolve(self, name: str) -> Route:
        """The model of that name; `InvalidRequest` names those there are."""
        if self._age() >= FRESH_SECONDS:
            self._refresh()
        route = self._routes.get(name) or self._prefixed(name)
        if route is None and self._age() == _NEVER:  # a pattern decides only once the lists have been seen
            await asyncio.shield(self._refresh())
        route = route or self._offered(name)
        if route is None and (self._refreshing or self._age() >= FORCED_SECONDS):
            await asyncio.shield(self._refresh())
            route = self._offered(name)
        if route is None:
            raise self._unknown(name)
        return route

    async def list(self) -> Infos:
        """All models that are known by name, ours first: by their bare names where that is clear."""
        age = self._age()
        if age >= FRESH_SECONDS:
            refresh = self._refresh()
            if age == _NEVER:
                await asyncio.shield(refresh)
        return self._infos()

    async def close(self) -> None:
        """Stop asking for lists. The transport is its owner's to close."""
        if self._refreshing:
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing})

    # -- finding

    def _prefixed(self, name: str) -> Route | None:
        """By its upstream's name, which is taken at its word."""
        prefix, _, rest = name.partition("/")
        shelf = self._shelves.get(prefix)
        return shelf.route(rest) if shelf is not None and rest else None

    def _offered(self, name: str) -> Route | None:
        """By the one upstream that has it."""
        offering = self._offering(name)
        return offering[0].route(name) if len(offering) == 1 else None

    def _offering(self, name: str) -> Sequence[_Shelf]:
        """The upstreams that have the name in their lists, or else that have a pattern for it."""
        shelves = self._shelves.values()
        return [one for one in shelves if name in one.known] or [one for one in shelves if one.matches(name)]

    def _index(self) -> None:
        """The bare names that are clear: in one list, not our own, and not read as a prefix."""
        count = Counter(name for shelf in self._shelves.values() for name in shelf.known)
        self._routes = {
            name: shelf.route(name)
            for shelf in self._shelves.values()
            for name in shelf.known
            if count[name] == 1 and name.partition("/")[0] not in self._shelves
        }
        self._routes[builtin.NAME] = self._own

    def _infos(self) -> Infos:
        infos = [ModelInfo(builtin.NAME, builtin.NAME)]
        for shelf in self._shelves.values():
            for name, listed in shelf.known.items():
                clear = name in self._routes and self._routes[name].upstream == shelf.name
                infos.append(ModelInfo(name if clear else f"{shelf.name}/{name}", shelf.name, listed.created))
        return infos

    def _unknown(self, name: str) -> InvalidRequest:
        import difflib

        shown = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
        offering = self._offering(name)
        if offering:
            either = _either([f"{shelf.name}/{name}" for shelf in offering])
            return _refusal(f"The requested model '{shown}' is offered by several upstreams: say {either}.")
        ids = [info.id for info in self._infos()]
        near = difflib.get_close_matches(shown, ids, 3)
        more = f" and {len(ids) - _NAMED} more, which GET /v1/models lists" if len(ids) > _NAMED else ""
        return _refusal(
            f"The requested model '{shown}' does not exist."
            + (f" Did you mean {_either(near)}?" if near else "")
            + f" Known models: {', '.join(ids[:_NAMED])}{more}."
            + "".join(f" No list from {_ended(shelf.trouble)}" for shelf in self._shelves.values() if shelf.trouble)
        )

    # -- refreshing

    def _age(self) -> float:
        """Seconds since the lists were asked for."""
        return self._clock() - self._asked_at if self._asking else 0.0

    def _refresh(self) -> asyncio.Task[None]:
        """The refresh that is under way, or a new one."""
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._ask_all())
        return self._refreshing

    async def _ask_all(self) -> None:
        try:
            await asyncio.gather(*(shelf.refresh() for shelf in self._shelves.values() if shelf.asked))
            self._index()
        finally:
            self._asked_at = self._clock()
            self._refreshing = None


class _Shelf:
    """One upstream and what it is known to have."""

    def __init__(self, upstream: Upstream, transport: Transport) -> None:
        self.name = upstream.name
        self.trouble = ""
        """Why it could not be asked, at the last try."""
        self._model = DialectModel(upstream, transport)
        self._transport = transport
        self._dialect = upstream.dialect
        self._hosted = upstream.dialect == "openai" and self._model.endpoint.quirks.name == "openai"
        self._runs = self._hosted or upstream.dialect in _RUNNING
        self._files = HostedFiles(self._model.endpoint, transport, DIALECTS[upstream.dialect])
        patterns = [name for name in upstream.models if "*" in name]
        self._pattern = _pattern(patterns) if upstream.models else re.compile(r".*", re.DOTALL)
        self._patterned = bool(patterns)
        self.asked = self._patterned or not upstream.models
        """Whether the server's own list counts."""
        self._always = {name: Listed(0, listings.sees(name)) for name in upstream.models if name not in patterns}
        self.known: dict[str, Listed] = self._always

    def matches(self, name: str) -> bool:
        """Whether a pattern covers the name, list or no list."""
        return self._patterned and self._pattern.fullmatch(name) is not None

    def route(self, name: str) -> Route:
        sees = self._hosted or (self.known[name].sees if name in self.known else listings.sees(name))
        traits = Traits(sees=sees, hosted=self._hosted, runs=self._runs, dialect=self._dialect)
        return Route(self._model, name, traits, self.name, self._files)

    async def refresh(self) -> None:
        """Ask for the list; what was known stays where there is none."""
        endpoint = self._model.endpoint
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                status, body = await self._transport.get(self._model.list_url, endpoint.headers, timeout=_LIST_SECONDS)
        except Broken as broken:
            self.trouble = str(endpoint.unreachable(broken))
            return
        except TimeoutError:
            self.trouble = f"{self.name}: it took longer than {_LIST_SECONDS:g} s"
            return
        listed = listings.read(body) if status == 200 else None
        if listed is None:
            self.trouble = f"{self.name}: it answered {status}" + (" without a list" if status == 200 else "")
            return
        self.trouble = ""
        self.known = self._always | {name: one for name, one in listed.items() if self._pattern.fullmatch(name)}


def _pattern(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(".*".join(map(re.escape, one.split("*"))) for one in patterns), re.DOTALL)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith("?") else f"{sentence}."


def _either(names: Sequence[str]) -> str:
    return " or ".join(f"'{name}'" for name in names)


def _refusal(message: str) -> InvalidRequest:
    return InvalidRequest(message, param="model", fault="model_not_found")
