"""Describe a vendor, or a kind of model server, in one row: its names, how it is reached, what serves it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from urllib.parse import urlsplit

from msgspec import Struct

from belljar.vendors.dialect import Dialect
from belljar.vendors.file_reading import FileReading
from belljar.vendors.model import Model
from belljar.vendors.server_profile import ServerProfile

VERSION = "/v1"
"""What stands at the end of every address here, and what some vendors' SDKs add themselves."""
MIB = 1 << 20


class FileLimits(Struct, frozen=True, kw_only=True):
    """What a vendor's Files API takes, and how long it keeps it."""

    largest: int | None
    """Bytes of one file; None where the server alone knows."""
    retention: timedelta | None = None
    """How long an upload lives that asks for nothing; None: until it is deleted."""
    lifetimes: tuple[timedelta, timedelta] | None = None
    """The shortest and the longest life that may be asked for."""
    source: str


class Wire(Struct, frozen=True):
    """A way to ask models over HTTP, which one or many kinds of server speak."""

    name: str
    """What the setting `dialect` calls it."""
    dialect: str
    """What translates it, `module:Class`; loaded when first used, as whoever only looks at rows needs no decoder.

    The class is made with the row of the vendor whose server speaks it, and the name that the server has in errors.
    """


CHAT = Wire("chat", "belljar.vendors.chat.dialect:ChatDialect")
"""OpenAI's older wire, that nearly every model server speaks."""


class Vendor(Struct, frozen=True, kw_only=True):
    """One row. Whoever reads the variables hands them over."""

    name: str
    title: str
    """What people call it."""
    aliases: tuple[str, ...] = ()
    wire: Wire = CHAT
    """How it is asked, unless the settings say otherwise: many speak several."""
    profile: ServerProfile = ServerProfile()
    """What its servers take over OpenAI's wires."""

    keys: tuple[str, ...] = ()
    """Variables that may hold the key; the first that is set counts."""
    address: str = ""
    """The variable that may hold another address."""
    base_url: str = ""
    """Where it is; empty where its SDK or the settings alone know."""
    needs_key: bool = True
    adds_version: bool = False
    """Its own clients add the version to the address, so that people write it without."""
    login_hint: str = ""
    """What to do where it is reached by a login in place of a key, and there is none."""
    local: bool = False
    """It is a server that people run on their own machine, and `base_url` is where that usually is."""
    own_port: bool = False
    """Nobody else listens at that port by habit."""
    hosts: tuple[str, ...] = ()
    """Domains of its own: no other server is there."""
    host_pattern: str = ""
    """The same as a pattern for the whole of a host's name, where that has a place in it."""
    owners: tuple[str, ...] = ()
    """What it writes as `owned_by` into its list of models, and nobody else does."""
    load_hint: str = "load one there"
    """How such a server gets a model where it has none."""

    model: str = ""
    """Asked for where none is named; without one, the server's first."""
    models: str = ""
    """The provider in the table of models whose rows it serves, where that is not itself."""
    model_rows: tuple[Model, ...] = ()
    """Its models in the table, the newest first."""
    sees: str = ""
    """A pattern for a part of the names of its models that see pictures, for those that are in no table."""
    runs_code: bool = False
    """It can run code in a sandbox of its own."""
    reading: FileReading | None = None
    """Its models read files; without, only code does."""

    sdk: str = "openai"
    """The package by which the library asks it."""
    extra: str = "openai"
    """What brings that package: `belljar[extra]`."""
    client: str = ""
    """The library's client, `module:Class`; without, the gateway alone serves it."""
    files: str = ""
    """The library's Files API, `module:Class`."""
    file_limits: FileLimits | None = None
    without_files: str = ""
    """Why it has no Files API, and what to do instead."""

    def dialect(self, server: str = "", wire: Wire | None = None) -> Dialect:
        """A wire as this vendor's servers speak it, its own where none is named; `server` names them in errors."""
        module, _, name = (wire or self.wire).dialect.partition(":")
        made: Dialect = getattr(import_module(module), name)(self, server or self.title)
        return made

    def key_in(self, variables: Mapping[str, str]) -> str | None:
        return next(filter(None, (variables.get(name, "").strip() for name in self.keys)), None)

    def address_in(self, variables: Mapping[str, str]) -> str:
        """Another address, in our spelling; empty where none is said.

        A path that somebody chose is his own; without one, or where the vendor's clients add the version, it is added.
        """
        said = variables.get(self.address, "").strip().rstrip("/")
        if not said:
            return ""
        adds = self.adds_version or (self.local and not _path(said))
        return said.removesuffix(VERSION) + VERSION if adds else said


GENERIC = Vendor(name="generic", title="the model's server", needs_key=False)
"""A server of which nothing is known."""


def _path(address: str) -> str:
    try:
        return urlsplit(address).path
    except ValueError:  # no address at all, which is told to whoever asks there
        return address
