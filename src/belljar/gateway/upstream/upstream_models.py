"""One upstream and what it is known to have: asked for its list, and told by it what kind of server it is."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from belljar.config import Upstream
from belljar.gateway.builtin_model import model as builtin_model
from belljar.gateway.upstream import model_lists
from belljar.gateway.upstream.endpoint import explain_no_models, find_product
from belljar.gateway.upstream.http_response import ConnectionFailed
from belljar.gateway.upstream.model_lists import Listed, MissingList
from belljar.gateway.upstream.transport import Transport
from belljar.gateway.upstream.upstream_model import DialectModel
from belljar.gateway.upstream.vendor_files import HostedFiles
from belljar.net import is_on_this_machine
from belljar.vendors.deltas import AnsweringModel, Traits
from belljar.vendors.registry import VENDORS, guess_vendor, vendor_of_host, vendor_of_owners
from belljar.vendors.vendor import GENERIC

LIST_SECONDS = 5.0
"""That a list may take."""
PROBE_SECONDS = 1.0
"""That it may take where nobody said that there is a server."""
_RUNNING = frozenset(row.wire.name for row in VENDORS.values() if row.runs_code and row.name != "belljar")
"""Dialects of vendors that can run code themselves, beside OpenAI at its own address."""
_READING = {row.wire.name: row.reading for row in VENDORS.values() if row.reading}
"""How models are given files to read, by their dialects; of OpenAI's only at its own address."""
_ASKABLE = frozenset({"chat", "openai"})
"""Dialects that many kinds of server speak."""
_log = logging.getLogger("belljar.gateway")

State: TypeAlias = Literal["unasked", "there", "loading", "locked", "nobody", "trouble"]
"""What came of asking for the list: nobody listens at the address, or `trouble` tells why there is none."""
_KEY = "name it as an upstream with an api_key that it takes"


class ModelRoute(Struct, frozen=True):
    """A model, and the name that it goes by at its upstream."""

    model: AnsweringModel
    name: str
    traits: Traits
    upstream: str
    files: HostedFiles | None = None
    """Those that code made which the provider ran."""


class UpstreamModels:
    """An upstream. One that is only `sought` is offered while a model server answers at its address."""

    def __init__(self, upstream: Upstream, transport: Transport, *, sought: bool = False) -> None:
        self.sought = sought
        self.state: State = "unasked"
        self.former: frozenset[str] = frozenset()
        """Models of one that was sought, was there, and is gone."""
        self.near = is_on_this_machine(upstream.base_url)
        self._upstream = upstream
        self._transport = transport
        self._owners: frozenset[str] | None = None
        self._kind: str | None = None
        told = upstream.quirks is not None or vendor_of_host(upstream.base_url) is not None
        self._asks_kind = not told and upstream.dialect in _ASKABLE
        patterns = [name for name in upstream.models if "*" in name]
        self._pattern = _pattern(patterns) if upstream.models else re.compile(r".*", re.DOTALL)
        self._patterned = bool(patterns)
        self.asked = self._patterned or not upstream.models
        """Whether the server's own list counts."""
        self._always = {name: Listed(0, model_lists.sees(name)) for name in upstream.models if name not in patterns}
        self.known: Mapping[str, Listed] = self._always
        self.offered = not sought
        """Whether its models can be asked for."""
        self._equip(upstream)
        self.trouble = f"{self._endpoint}: it has not answered yet" if self.asked else ""
        """Why there is no list or nothing in it, at the last try."""

    @property
    def name(self) -> str:
        return self._endpoint.name

    @property
    def place(self) -> str:
        """Where it was looked for, and what is usually there."""
        parts = urlsplit(self._upstream.base_url)
        product = find_product(guess_vendor(self._upstream.name, ""))
        return f"{parts.netloc} ({product})" if product else parts.netloc

    def matches(self, name: str) -> bool:
        """Whether a pattern covers the name, list or no list."""
        return self._patterned and self._pattern.fullmatch(name) is not None

    def route(self, name: str) -> ModelRoute:
        sees = self._hosted or (self.known[name].sees if name in self.known else model_lists.sees(name))
        dialect = self._upstream.dialect
        carries = self._endpoint.dialect.sampling_names(name)
        reading = None if dialect == "openai" and not self._hosted else _READING.get(dialect)
        traits = Traits(
            sees=sees, hosted=self._hosted, runs=self._runs, dialect=dialect, reading=reading, carries=carries
        )
        return ModelRoute(self._model, name, traits, self.name, self._files)

    async def refresh(self) -> bool:
        """Ask for the list. What was known stays where there is none, unless nobody is there who was only sought.

        True where it offers something else than before.
        """
        before, known = (self.state, self.offered), (self.offered, self.known.keys())
        patience = PROBE_SECONDS if self.sought else LIST_SECONDS
        try:
            async with asyncio.timeout(patience):
                listed = model_lists.judge(*await self._get(self._model.list_url, patience))
                if not isinstance(listed, MissingList):
                    await self._tell_kind(listed, patience)
        except ConnectionFailed as broken:
            nobody = broken.resend and not broken.dropped
            self._miss("nobody" if nobody else "trouble", str(self._endpoint.build_unreachable(broken)))
        except TimeoutError:
            self._miss("trouble", f"{self._endpoint}: it took longer than {patience:g} s")
        else:
            if isinstance(listed, MissingList):
                self._note_refusal(listed)
            else:
                self._take(listed)
        if before[0] != "unasked" and before != (self.state, self.offered):
            self._log_change()
        return known != (self.offered, self.known.keys())

    def _take(self, listed: Mapping[str, Listed]) -> None:
        if self.sought and builtin_model.NAME in listed:
            self.offered, self.known = False, {}
            self._miss("trouble", f"{self._endpoint}: it is another Belljar")
            return
        self.state, self.offered, self.former = "there", True, frozenset()
        self.known = self._always | {name: one for name, one in listed.items() if self._pattern.fullmatch(name)}
        self.trouble = "" if listed else f"{self._endpoint}: {explain_no_models(self._endpoint.vendor)}"

    def _note_refusal(self, missing: MissingList) -> None:
        if missing.kind and self._asks_kind:
            self._become(missing.kind)
        state: State = "loading" if missing.loading else "locked" if missing.locked else "trouble"
        self._miss(state, f"{self._endpoint}: {missing.why}" + (f"; {_KEY}" if missing.locked else ""))

    def _miss(self, state: State, why: str) -> None:
        self.state, self.trouble = state, why
        if state == "nobody" and self.sought and self.offered:
            self.former = frozenset(self.known)
            self.offered, self.known = False, {}
            self._owners = self._kind = None

    def _log_change(self) -> None:
        if self.state == "there":
            _log.info("%s is there: %d model%s", self._endpoint, len(self.known), "" if len(self.known) == 1 else "s")
        elif self.state != "nobody" or not self.offered:
            _log.info("%s", self.trouble)

    # -- what kind of server it is

    async def _tell_kind(self, listed: Mapping[str, Listed], patience: float) -> None:
        """By its list; one on this machine whose list does not tell is asked, once while it stays the same."""
        if not self._asks_kind or builtin_model.NAME in listed:
            return
        owners = frozenset(one.owner for one in listed.values())
        row = vendor_of_owners(owners)
        kind = None if row is None else row.name
        if kind is None and self.near:
            kind = self._kind if owners == self._owners else await self._ask_kind(patience)
        self._owners = owners
        self._become(kind)

    async def _ask_kind(self, patience: float) -> str | None:
        """By an address that only this kind of server has."""
        try:
            status, body = await self._get(self._endpoint.beside("/api/version"), patience)
            if status == 200 and _has_version(body):
                return "ollama"
            status, body = await self._get(self._endpoint.beside("/api/v0/models"), patience)
        except ConnectionFailed:
            return None
        return "lm_studio" if status == 200 and model_lists.read_list(body) is not None else None

    def _become(self, kind: str | None) -> None:
        """A server that was asked and did not tell is no longer taken for what is usual at its port."""
        row, name = kind, self._upstream.name
        if self.sought:
            own = kind or "local"
            row = kind or GENERIC.name
            name = own if own == name else f"{own}-{urlsplit(self._upstream.base_url).port or 80}"
        elif kind is None and self.near:
            row = guess_vendor(name, "").name
        self._kind = kind
        if (name, row) != (self._equipped.name, self._equipped.quirks):
            self._equip(replace(self._upstream, name=name, quirks=row))

    def _equip(self, upstream: Upstream) -> None:
        """Made anew, not changed: a request that is under way goes on with what it has."""
        self._equipped = upstream
        self._model = DialectModel(upstream, self._transport)
        self._endpoint = self._model.endpoint
        self._hosted = upstream.dialect == "openai" and self._endpoint.vendor.name == "openai"
        self._runs = self._hosted or upstream.dialect in _RUNNING
        self._files = HostedFiles(self._endpoint, self._transport)

    async def _get(self, url: str, patience: float) -> tuple[int, bytes]:
        try:
            return await self._transport.get(url, self._endpoint.headers, timeout=patience)
        except ConnectionFailed as broken:
            if not broken.dropped:
                raise
            return await self._transport.get(url, self._endpoint.headers, timeout=patience)  # an idle one was closed


def _pattern(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(".*".join(map(re.escape, one.split("*"))) for one in patterns), re.DOTALL)


def _has_version(body: bytes) -> bool:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    return isinstance(said, dict) and isinstance(said.get("version"), str)
