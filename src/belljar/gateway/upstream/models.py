"""Which model a name means: the built-in one, an upstream's by prefix, or the one upstream's that has it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from belljar.config import Upstream
from belljar.errors import BadSettings, InvalidRequest, Loading, ProviderError, Unreachable
from belljar.gateway.builtin_model import model as builtin_model
from belljar.gateway.upstream.discovery import plain_name
from belljar.gateway.upstream.list_refresh import ListRefresh
from belljar.gateway.upstream.transport import Transport
from belljar.gateway.upstream.upstream_models import ModelRoute, UpstreamModels
from belljar.vendors.deltas import AnsweringModel

__all__ = ["Infos", "ModelInfo", "ModelRoute", "Models"]

FRESH_SECONDS = 60.0
"""After which a list is asked for again, in the background."""
FORCED_SECONDS = 5.0
"""Between two lists that an unknown name makes us ask for."""
LOOK_SECONDS = 2.0
"""Likewise on this machine, where it costs next to nothing."""
_PATIENCE = 2.0
"""Seconds that whoever makes us ask again waits for it."""
_NAMED = 12
"""Models that an error names."""
_NAME = 100
"""Characters of a wrong name that it repeats."""


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
        sought: Sequence[Upstream] = (),
        own: AnsweringModel | None = None,
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sought` are those that may be there, now or later. `own` stands in for the built-in model.

        `changed` is called whenever there are other models than before.
        """
        self._own = ModelRoute(
            own or builtin_model.BuiltIn(), builtin_model.NAME, builtin_model.TRAITS, builtin_model.NAME
        )
        self._all = [
            *(UpstreamModels(one, transport) for one in upstreams),
            *(UpstreamModels(one, transport, sought=True) for one in sought),
        ]
        name, count = Counter(one.name for one in upstreams).most_common(1)[0] if upstreams else ("", 0)
        if count > 1:
            raise BadSettings(f"upstreams: two are called {name!r}; give each its own name")
        asked = [shelf for shelf in self._all if shelf.asked]
        self._near = ListRefresh([shelf for shelf in asked if shelf.near], self._index, changed, clock)
        self._far = ListRefresh([shelf for shelf in asked if not shelf.near], self._index, changed, clock)
        self._shelves: Mapping[str, UpstreamModels] = {}
        self._routes: Mapping[str, ModelRoute] = {}
        self._index()

    async def resolve(self, name: str) -> ModelRoute:
        """The model of that name; `InvalidRequest` names those there are, `Loading` says that it may be there soon."""
        for one in (self._near, self._far):
            if one.age >= FRESH_SECONDS:
                one.begin()
        route = self._routes.get(name) or self._find_prefixed(name)
        if route is None:  # a pattern decides only once the lists have been seen
            await asyncio.gather(*(one.wait() for one in (self._near, self._far) if one.is_first))
            route = self._find(name)
        if route is None:
            await asyncio.gather(self._near.again(LOOK_SECONDS, _PATIENCE), self._far.again(FORCED_SECONDS, _PATIENCE))
            route = self._find(name)
        if route is None:
            raise self._explain_unknown(name)
        return route

    async def list(self) -> Infos:
        """All models that are known by name, ours first: by their bare names where that is clear."""
        await asyncio.gather(*(one.wait() for one in (self._near, self._far) if one.is_first))
        for one in (self._near, self._far):
            if one.age >= FRESH_SECONDS:
                one.begin()
        return self.list_known()

    async def look(self) -> Infos:
        """The same, after another look at this machine if the last was not just now."""
        await self._near.again(LOOK_SECONDS, _PATIENCE)
        return await self.list()

    def renew(self) -> None:
        """Another gateway has found other models than before: have all lists asked for again."""
        self._near.renew()
        self._far.renew()

    async def watch(self) -> None:
        """Look again at this machine, if no model is there but our own, or one that is being loaded."""
        if not any(shelf.known for shelf in self._all) or any(shelf.state == "loading" for shelf in self._all):
            await self._near.wait()

    def list_troubles(self) -> dict[str, str]:
        """Why an upstream offers nothing new, by its name; of those that were only sought, where somebody answered."""
        return {shelf.name: shelf.trouble for shelf in self._all if shelf.trouble and _is_worth_telling(shelf)}

    def list_silent_places(self) -> Sequence[str]:
        """Where a server was sought and nobody answers."""
        return [shelf.place for shelf in self._all if shelf.sought and shelf.state in ("unasked", "nobody")]

    async def close(self) -> None:
        """Stop asking for lists. The transport is its owner's to close."""
        await self._near.close()
        await self._far.close()

    # -- finding

    def _find(self, name: str) -> ModelRoute | None:
        return self._routes.get(name) or self._find_prefixed(name) or self._find_offered(name)

    def _find_prefixed(self, name: str) -> ModelRoute | None:
        """By its upstream's name, which is taken at its word."""
        prefix, _, rest = name.partition("/")
        found = (one for one in self._shelves.values() if one.sought and plain_name(one.name) == prefix)
        shelf = self._shelves.get(prefix) or next(found, None)
        return shelf.route(rest) if shelf is not None and rest else None

    def _find_offered(self, name: str) -> ModelRoute | None:
        """By the one upstream that has it."""
        offering = self._list_offering(name)
        return offering[0].route(name) if len(offering) == 1 else None

    def _list_offering(self, name: str) -> Sequence[UpstreamModels]:
        """The upstreams that have the name in their lists, or else that have a pattern for it.

        What was only found comes after what was given: a server that starts changes nothing for names that worked.
        """
        having = [one for one in self._shelves.values() if name in one.known]
        given = [one for one in having if not one.sought]
        return given or having or [one for one in self._shelves.values() if one.matches(name)]

    def _index(self) -> None:
        """The upstreams that are there, and the bare names that are clear: in one list, not our own, and no prefix."""
        shelves: dict[str, UpstreamModels] = {}
        for shelf in self._all:
            if shelf.offered:
                shelves.setdefault(shelf.name, shelf)  # what was found does not take the name of what was given one
        self._shelves = shelves
        routes = {
            name: shelf.route(name)
            for shelf in shelves.values()
            for name in shelf.known
            if self._list_offering(name) == [shelf] and not ("/" in name and name.partition("/")[0] in shelves)
        }
        routes[builtin_model.NAME] = self._own
        self._routes = routes

    def list_known(self) -> Infos:
        """Those that are known now, asking nobody."""
        infos = [ModelInfo(builtin_model.NAME, builtin_model.NAME)]
        for shelf in self._shelves.values():
            for name, listed in shelf.known.items():
                clear = name in self._routes and self._routes[name].upstream == shelf.name
                infos.append(ModelInfo(name if clear else f"{shelf.name}/{name}", shelf.name, listed.created))
        return infos

    # -- saying why not

    def _explain_unknown(self, name: str) -> InvalidRequest | ProviderError:
        import difflib

        shown = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
        offering = self._list_offering(name)
        if offering:
            either = _format_choice([f"{shelf.name}/{name}" for shelf in offering])
            return _build_refusal(f"The requested model '{shown}' is offered by several upstreams: say {either}.")
        gone = next((one for one in self._all if {name, name.removeprefix(f"{one.name}/")} & one.former), None)
        if gone is not None:
            return Unreachable(f"The model '{shown}' was there and is gone: {_end_sentence(gone.trouble)}")
        ids = [info.id for info in self.list_known()]
        near = difflib.get_close_matches(shown, ids, 3)
        more = f" and {len(ids) - _NAMED} more, which GET /v1/models lists" if len(ids) > _NAMED else ""
        known = f" Known models: {', '.join(ids[:_NAMED])}{more}."
        loading = [one for one in self._all if one.state == "loading"]
        if loading:
            told = " and ".join(one.trouble for one in loading)
            return Loading(f"The requested model '{shown}' is not there yet: {told}. Ask again in a moment.{known}")
        return _build_refusal(
            f"The requested model '{shown}' does not exist."
            + (f" Did you mean {_format_choice(near)}?" if near else "")
            + known
            + "".join(f" No models from {_end_sentence(why)}" for why in self.list_troubles().values())
            + self._describe_search()
        )

    def _describe_search(self) -> str:
        nobody = self.list_silent_places()
        if not nobody:
            return ""
        return (
            f" Looked for model servers on this machine too: nobody answers at {', '.join(nobody)}."
            " Start one, or load a model, and ask again: it is found while the gateway runs."
        )


def _is_worth_telling(shelf: UpstreamModels) -> bool:
    """At a port where something was only sought, what answers like no model server is somebody else's business."""
    return not shelf.sought or shelf.offered or shelf.state in ("loading", "locked")


def _end_sentence(sentence: str) -> str:
    return sentence if sentence.endswith("?") else f"{sentence}."


def _format_choice(names: Sequence[str]) -> str:
    return " or ".join(f"'{name}'" for name in names)


def _build_refusal(message: str) -> InvalidRequest:
    return InvalidRequest(message, param="model", fault="model_not_found")
