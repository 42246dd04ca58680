"""Settings: read, validated and merged as defaults < file < environment < flags. The only reader of os.environ."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, Self, cast

from belljar.errors import BadSettings

PREFIX = "BELLJAR_"
HIDDEN = "********"
"""Stands for a secret wherever settings are shown."""
TIERS = ("1g", "4g", "16g", "64g")
PACKAGES = ("auto", "data", "none")
DATA_EXTRA = "pip install 'belljar[data]'"
"""Gets what `packages = data` stands for."""

_SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIMES = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
FETCH_VARIABLES = re.compile(
    r"PATH|HOME|NETRC|SSL_CERT_(FILE|DIR)|SSL_CLIENT_CERT|(HTTPS?|ALL|NO)_PROXY|(https?|all|no)_proxy"
    r"|UV|UV_(DEFAULT_INDEX|INDEX\w*|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|OFFLINE|KEYRING_PROVIDER|INSECURE_HOST"
    r"|NATIVE_TLS|SYSTEM_CERTS|HTTP_\w+|CONCURRENT_\w+)"
)
"""What fetching packages may see of the environment: which uv, its index settings, proxies, certificates."""
_PROVIDER = re.compile(r"[A-Z][A-Z0-9_]*_(API_KEY|BASE_URL)")


# -- readers: what was written in, a value or `Wrong` out -------------------------------------------------------------


class Wrong(Exception):
    """What the value should have been; `hidden` where it must not be shown."""

    def __init__(self, wanted: str, *, hidden: bool = False) -> None:
        super().__init__(wanted)
        self.hidden = hidden


Reader = Callable[[object], object]


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong("a text that is not empty")
    return value


def _path(value: object) -> Path:
    path = Path(os.path.expanduser(value if isinstance(value, Path) else _text(value)))
    if not path.is_absolute():
        raise Wrong("an absolute path, or one that starts with ~")
    return path


def _whole(least: int, most: int | None = None) -> Callable[[object], int]:
    wanted = f"a whole number, {least} or more" if most is None else f"a whole number from {least} to {most}"

    def read(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"\d{1,15}", value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least or (most or value) < value:
            raise Wrong(wanted)
        return value

    return read


def _seconds(value: object) -> float:
    """A time, from a number of seconds or text such as "30s", "500ms" or "5m"."""
    if isinstance(value, str):
        found = re.fullmatch(r"(\d{1,12}(?:\.\d+)?)\s*(ms|s|m|h|)", value.strip().lower())
        value = float(found[1]) * _TIMES[found[2] or "s"] if found else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise Wrong("a number of seconds above 0")
    return float(value)


def _age(value: object) -> int:
    """A time in whole seconds, from their number or text such as "12h", "30d" or "8w"."""
    if isinstance(value, str):
        found = re.fullmatch(r"(\d{1,9})\s*([smhdw]?)", value.strip().lower())
        value = int(found[1]) * _AGES[found[2] or "s"] if found else None
    if isinstance(value, bool) or not isinstance(value, int) or not 60 <= value < 10**10:
        raise Wrong("a time of a minute or more, such as 12h, 30d or 8w")
    return value


def size(value: object) -> int:
    """A number of bytes, from a number or text such as "512m" or "4g"."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    found = (
        re.fullmatch(r"(\d{1,15}(?:\.\d+)?)\s*([kmg]?)(?:i?b)?", value.strip().lower())
        if isinstance(value, str)
        else None
    )
    count = int(float(found[1]) * _SIZES.get(found[2], 1)) if found else 0
    if count < 1:
        raise Wrong('a size: bytes, or a number with k, m or g such as "512m"')
    return count


def _size(value: object) -> str:
    """A size as it was written: it is said back to people."""
    size(value)
    return str(value)


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if not isinstance(value, str) or value.strip().lower() not in words:
        raise Wrong("true or false")
    return words[value.strip().lower()]


def _share(value: object) -> float:
    """A part of a whole."""
    try:
        part = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0.0
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise Wrong("a number above 0 and at most 1")
    return part


def _one_of(*choices: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise Wrong(f"one of {', '.join(choices)}")
        return value

    return read


def _or_none(read: Reader) -> Reader:
    """None too, and the word for it."""

    def read_or_none(value: object) -> object:
        if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
            return None
        try:
            return read(value)
        except Wrong as wrong:
            raise Wrong(f"{wrong}, or none", hidden=wrong.hidden) from None

    return read_or_none


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):  # an environment variable: separated as the shell separates
        return tuple(value.replace(",", " ").split())
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise Wrong("a list of texts")
    return tuple(value)


def _addresses(value: object) -> tuple[str, ...]:
    try:
        return _names(value)
    except Wrong:
        raise Wrong("a table by name, or a list of NAME=URL", hidden=True) from None


def _names_or_none(value: object) -> tuple[str, ...] | None:
    return None if value is None else _names(value)


def _url(value: object) -> str:
    """An address without a slash at its end."""
    from urllib.parse import urlsplit

    text = _text(value).strip().rstrip("/")
    try:
        parts = urlsplit(text)
        named, _ = parts.hostname, parts.port
    except ValueError:
        named = None
    if "@" in text:
        raise Wrong("an address without a name and password in it; a key has a place of its own", hidden=True)
    if not named or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise Wrong("an address such as http://127.0.0.1:8000/v1")
    return text


def sandbox_address(value: object) -> str:
    """The address of a sandbox server, which may be a socket of this machine."""
    if isinstance(value, str) and re.fullmatch(r"unix:///[^?#]*[^?#/]", value.strip()):
        return value.strip()
    try:
        return _url(value)
    except Wrong as wrong:
        wanted = "an address such as http://127.0.0.1:8080 or unix:///run/belljar/sandbox.sock"
        raise Wrong(str(wrong) if wrong.hidden else wanted, hidden=wrong.hidden) from None


def _sandbox_addresses(value: object) -> tuple[str, ...]:
    """One or several, each once."""
    try:
        given = _names(value)
    except Wrong:
        given = (cast(str, value),)
    return tuple(dict.fromkeys(sandbox_address(one) for one in given or ("",)))


def _kubernetes_name(value: object) -> str:
    """What an object of Kubernetes can be called."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", value.strip()):
        raise Wrong("a name of Kubernetes: at most 63 small letters, digits and '-'")
    return value.strip()


@dataclass(frozen=True, slots=True)
class WarmPools:
    """Warm pools of Kubernetes by the tier of memory that their pods have room for, smallest first; None is any."""

    pools: tuple[tuple[str | None, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Each once."""
        return tuple(dict.fromkeys(name for _, name in self.pools))

    @property
    def tiers(self) -> tuple[str, ...]:
        """What a container can be given: all that fits into the largest."""
        return tuple(tier for tier in TIERS if self.choose(size(tier)) is not None)

    def choose(self, memory: int) -> str | None:
        """The smallest that is enough for so many bytes; None where none is."""
        return next((name for tier, name in self.pools if tier is None or memory <= size(tier)), None)

    def __str__(self) -> str:
        """As it can be given in the environment."""
        return ",".join(name if tier is None else f"{tier}={name}" for tier, name in self.pools)


def read_warm_pools(value: object) -> WarmPools:
    """From the name of one for all, `1g=small,4g=large`, or a table of that."""
    if isinstance(value, WarmPools):
        return value
    pairs: list[tuple[object, object]] = []
    if isinstance(value, Mapping):
        pairs = [*value.items()]
    elif isinstance(value, str) and "=" in value:
        pairs = [(tier, name) for tier, _, name in (one.partition("=") for one in _names(value))]
    else:
        return WarmPools(((None, _kubernetes_name(value)),))
    found: dict[str, str] = {}
    for tier, name in pairs:
        if tier not in TIERS:
            raise Wrong(f"a pool for each tier, such as 1g=small,4g=large, with tiers of {', '.join(TIERS)}")
        if tier in found:
            raise Wrong(f"a pool for each tier: {tier} has two")
        try:
            found[str(tier)] = _kubernetes_name(name)
        except Wrong as wrong:
            raise Wrong(f"a pool for each tier: that of {tier} has to be {wrong}") from None
    if not found:
        raise Wrong("a pool for each tier: it has none")
    return WarmPools(tuple((tier, found[tier]) for tier in TIERS if tier in found))


def _bucket(value: object) -> str:
    """A bucket and a prefix in it, without a slash at the end."""
    text = _text(value).strip().rstrip("/")
    if "@" in text:
        raise Wrong(
            "a bucket without a name and password in it; AWS_ACCESS_KEY_ID and the like are theirs", hidden=True
        )
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/[^/?#\s][^?#\s]*)?", text):
        raise Wrong("a bucket such as s3://belljar or s3://belljar/production")
    return text


def _token(value: object) -> str:
    """What a header can hold."""
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]+", value):
        raise Wrong("a text of ASCII characters without spaces", hidden=True)
    return value


def _database(value: object) -> str:
    """The address of a database, which may hold a password."""
    from belljar.database_address import DatabaseAddress

    if not isinstance(value, str):
        raise Wrong("a text", hidden=True)
    try:
        return DatabaseAddress(value).dsn
    except ValueError as error:
        raise Wrong(str(error), hidden=True) from None


def _origins(value: object) -> tuple[str, ...]:
    found = _names(value)
    if not all(re.fullmatch(r"https?://[^/?#@\s]+", one) for one in found):
        raise Wrong("a list of origins such as https://example.org, without a path")
    return found


def _headers(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for pair in value.items() for one in pair):
        raise Wrong("a table of header names and texts")
    return MappingProxyType(dict(value))


# -- the settings -----------------------------------------------------------------------------------------------------


def _setting(default: Any, read: Reader, *, secret: bool = False, flag: str | None = None) -> Any:
    """A field that the file, the environment and flags may set; `flag` where the option is not called like it."""
    return field(default=default, repr=not secret, metadata={"read": read, "secret": secret, "flag": flag})


def _cache_home(environment: Mapping[str, str]) -> Path:
    home = _home(environment, "XDG_CACHE_HOME", ".cache")
    if home is None:  # as for a user without a name in a container; a guessable place under /tmp would be anybody's
        raise BadSettings("cache_dir: this user has no home directory; set BELLJAR_CACHE_DIR to a directory of yours")
    return home / "belljar"


def _state_home(environment: Mapping[str, str]) -> Path:
    """A service's user has no home, and its state a place that every distribution has."""
    return (_home(environment, "XDG_STATE_HOME", ".local/state") or Path("/var/lib")) / "belljar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A model server behind the gateway."""

    name: str
    """Models are reached as NAME/MODEL, and by their bare name where it is clear."""
    base_url: str
    dialect: str = "chat"
    """The wire that it speaks: `chat` for chat completions, `openai` for the Responses API, or a vendor's own.

    The gateway checks it, which knows the vendors.
    """
    api_key: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    """The environment variable that `api_key` was to be read from, where the file names one."""
    models: tuple[str, ...] = ()
    """Offered without asking the server for its list; patterns with * are allowed."""
    quirks: str | None = None
    """A row of `KINDS` in `vendors.registry`; without, the server is asked, or it is guessed from the name."""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    timeout: float = 600.0
    """Seconds without a byte before the connection is given up."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting as it may be shown: a plain value without secrets, and where it came from."""

    name: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, each under one name: `memory` here and in the file, BELLJAR_MEMORY outside."""

    # The gateway's door.
    host: str = _setting("127.0.0.1", _text)
    """The address to listen on; anything but loopback needs a key."""
    port: int = _setting(8787, _whole(0, 65535))
    """The port to listen on; 0 for any that is free."""
    state_dir: Path = field(
        default_factory=lambda: _state_home(os.environ), metadata={"read": _path, "home": _state_home}
    )
    """The database and the files of the gateway."""
    database: str | None = _setting(None, _or_none(_database), secret=True)
    """A PostgreSQL that several gateways share, in place of the one in `state_dir`: postgresql://USER@HOST/NAME."""
    database_file: Path | None = field(default=None, metadata={"read": _or_none(_path)})
    """A file that holds that address, with its password."""
    peer_address: str | None = _setting(None, _or_none(_url))
    """Where other gateways of the same database reach this one, where that is not where it listens: http://HOST:PORT."""
    blobs: str | None = _setting(None, _or_none(_bucket))
    """Where the bytes of files are kept: s3://BUCKET/PREFIX; without, in `state_dir`."""
    blobs_endpoint: str | None = _setting(None, _or_none(_url))
    """The address of an S3 server that is not AWS's."""
    blobs_region: str | None = _setting(None, _or_none(_text))
    """The region of the bucket; as AWS's own settings say without, and us-east-1 where they do not."""
    blobs_ca: Path | None = field(default=None, metadata={"read": _or_none(_path)})
    """Certificates to trust for the S3 server, a PEM file; the system's without."""
    blobs_cache: int = _setting(8 << 30, size)
    """Bytes of files from the bucket that are kept in `cache_dir`, beside what is in use."""
    gateway_timeout: float = _setting(6.0, _seconds)
    """Seconds of silence after which the other gateways take over what this one held."""
    page: bool = _setting(True, _switch, flag="--no-page")
    """Serve the page at /."""
    project: Path | None = field(default=None, metadata={"read": _or_none(_path)})
    """A directory that the page may attach files from and, when its user agrees, save files into."""
    allowed_origins: tuple[str, ...] = _setting((), _origins)
    """Web pages elsewhere that may call from a browser, such as https://example.org."""
    largest_body: int = _setting(64 << 20, size)
    """Bytes of one JSON request."""
    largest_upload: int = _setting(512 << 20, size)
    """Bytes of one uploaded file."""
    ping: float = _setting(15.0, _seconds)
    """Seconds of silence in a stream before a keep-alive comment."""
    drain: float = _setting(10.0, _seconds)
    """Seconds that running responses have to finish when the gateway is told to stop."""
    log_level: str = _setting("info", _one_of("debug", "info", "warning", "error"))
    """The least that is logged."""
    log_format: str = _setting("text", _one_of("text", "json"))
    """Lines for people, or one JSON object a line."""

    # Models.
    upstreams: tuple[Upstream, ...] = _setting((), _addresses, flag="--upstream")
    """The model servers behind the gateway."""
    discover: bool = _setting(True, _switch, flag="--no-discover")
    """Look for models by the keys in the environment and on the usual local ports."""
    deadline: float = _setting(1800.0, _seconds)
    """Seconds that one response may take, from its first turn to its last."""
    max_turns: int = _setting(50, _whole(1))
    """Turns of the model in one response."""

    # The tool and its containers.
    code_interpreter: bool = _setting(True, _switch)
    """Offer the code interpreter; off, a request that declares it is refused."""
    executor: str = _setting("belljar", _one_of("belljar", "provider"))
    """Who runs the code where the request does not say: our sandbox, or the model's own vendor."""
    isolation: str = _setting("per_container", _one_of("per_container", "per_call"))
    """One sandbox for each container, or a fresh one without state for each call."""
    container_memory: str = _setting("1g", _one_of(*TIERS))
    """Of a container that asks for no `memory_limit`."""
    container_minutes: int = _setting(20, _whole(1))
    """Idle minutes after which a container expires, where nothing else is asked for."""
    workers: int = _setting(1, _whole(1, 64))
    """Gateways behind one port, each a process; above 1, code runs on one sandbox server that is started for them."""
    sandbox_url: tuple[str, ...] | None = _setting(None, _or_none(_sandbox_addresses))
    """Sandbox servers to run code on: http://, https:// or unix:///path; without, code runs in this host's jail."""
    sandbox_token: str | None = _setting(None, _or_none(_token), secret=True)
    """What a sandbox server asks of its clients: the same on both sides."""
    sandbox_host: str = _setting("127.0.0.1", _text, flag="--host")
    """The address that a sandbox server listens on; anything but loopback needs a token."""
    sandbox_port: int = _setting(8080, _whole(0, 65535), flag="--port")
    """The port that a sandbox server listens on; 0 for any that is free."""
    sandbox_socket: Path | None = field(default=None, metadata={"read": _or_none(_path), "flag": "--socket"})
    """A unix socket that a sandbox server listens on, in place of an address."""
    sandbox_open: bool = _setting(False, _switch, flag="--open")
    """A sandbox server may listen to others without a token: the network keeps them out."""
    sandbox_warm_pool: WarmPools | None = field(default=None, metadata={"read": _or_none(read_warm_pools)})
    """A Kubernetes SandboxWarmPool to claim sandboxes from, or one for each tier of memory: 1g=small,4g=large; not
    together with `sandbox_url`."""
    sandbox_template: str | None = _setting(None, _or_none(_kubernetes_name))
    """The same in the founding documents' words: the warm pool that has this template's name."""
    sandbox_namespace: str = _setting("default", _kubernetes_name)
    """The Kubernetes namespace to claim sandboxes in."""
    claim_timeout: float = _setting(30.0, _seconds)
    """Seconds to wait for a sandbox: a claimed one, a free one, or one of a server that does not answer."""

    # How long things are kept that nobody deletes; `none` is for ever.
    keep_responses: int | None = _setting(None, _or_none(_age))
    """Of responses, since they were made; a chain is kept for as long as its youngest is."""
    keep_events: int | None = _setting(None, _or_none(_age))
    """Of the events of background responses that are over, since those were made."""
    keep_containers: int | None = _setting(None, _or_none(_age))
    """Of containers with their files, since they were last used."""
    keep_files: int | None = _setting(None, _or_none(_age))
    """Of uploaded files, since they were uploaded."""

    # Quotas of each key; `none` is no limit.
    quota_requests: int | None = _setting(None, _or_none(_whole(1)))
    """Requests a minute."""
    quota_responses: int | None = _setting(None, _or_none(_whole(1)))
    """Responses in progress at once."""
    quota_sandboxes: int | None = _setting(None, _or_none(_whole(1)))
    """Sandboxes at once."""
    quota_bytes: int | None = _setting(None, _or_none(size))
    """Bytes stored, of files and container files together."""

    # The sandbox.
    cache_dir: Path = field(
        default_factory=lambda: _cache_home(os.environ), metadata={"read": _path, "home": _cache_home}
    )
    """Package layers, the font list, and copies of files from a bucket."""
    max_sandboxes: int = _setting(256, _whole(1))
    """Sandboxes alive at once."""
    warm: int = _setting(2, _whole(0))
    """Sandboxes kept ready."""
    packages: str = _setting("auto", _one_of(*PACKAGES))
    """What a sandbox starts with: the whole data stack (data), the standard library (none), or what is installed of the
    stack (auto)."""
    memory: str = _setting("1g", _size)
    """Of a sandbox of `belljar run`, where nothing else is asked for."""
    timeout: float | None = _setting(60.0, _or_none(_seconds))
    """Seconds of one cell, where nothing else is asked for; none for no limit."""
    index: str | None = _setting(None, _text, secret=True)
    """The package index; uv's own default without."""
    find_links: tuple[str, ...] = _setting((), _names)
    """Directories or pages of wheels, beside the index."""
    offline: bool = _setting(False, _switch)
    """Ask no index: `find_links` and what was fetched before must do."""
    allow: tuple[str, ...] | None = _setting(None, _names_or_none)
    """The only packages that may be asked for; any, without."""
    exclude_newer: str | None = _setting(None, _text)
    """Ignore packages published after this date, RFC 3339."""
    requirements_count: int = _setting(50, _whole(1))
    """Requirements of one sandbox."""
    requirements_size: int = _setting(1 << 30, size)
    """Bytes of the requirements of one sandbox, unpacked."""
    requirements_timeout: float = _setting(120.0, _seconds)
    """Seconds that fetching them may take."""

    fetch_variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """Of the environment, what `FETCH_VARIABLES` lets through."""
    provider_variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """What discovering models may see of the environment: keys and addresses of providers. Never shown."""
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False, compare=False)
    """Where each value that is not the default came from."""

    @classmethod
    def load(
        cls,
        *,
        environment: Mapping[str, str] | None = None,
        flags: Mapping[str, object] | None = None,
        file: str | None = None,
    ) -> Self:
        """Read all layers; `BadSettings` names the key, the value, where it came from and the remedy.

        `flags` maps names to what the command line said, None where it said nothing. `file` is what `--config` named.
        """
        variables = os.environ if environment is None else environment
        given: dict[str, _Given] = {}
        values: dict[str, object] = {}
        for one in (*_from_file(variables, file), *_from_environment(variables), *_from_flags(flags or {})):
            before = given.get(one.name)
            if before is not None and before.origin == one.origin:
                raise BadSettings(f"{before.key} and {one.key} are one setting ({one.origin}); keep one of them")
            given[one.name] = one
            values[one.name] = _upstreams(one, variables) if one.name == "upstreams" else _value(one)
        where_code_runs = [given[name] for name in _WHERE_CODE_RUNS if values.get(name)]
        if len(where_code_runs) > 1:
            first, second, *_ = where_code_runs
            where = first.origin if first.origin == second.origin else f"{first.origin}; {second.origin}"
            raise BadSettings(f"{first.key} and {second.key} are both set ({where}); leave one of them out")
        _check_database(given, values)
        _check_container_memory(given, values)
        for name, home in _HOMES.items():
            if name not in values:
                values[name] = home(variables)
        return cls(
            **cast(dict[str, Any], values),
            fetch_variables=_pick_variables(variables, FETCH_VARIABLES),
            provider_variables=_pick_variables(variables, _PROVIDER),
            origins=MappingProxyType({name: one.source for name, one in given.items()}),
        )

    @property
    def warm_pools(self) -> WarmPools | None:
        """The warm pools of Kubernetes that a gateway claims sandboxes from."""
        if self.sandbox_warm_pool is not None or self.sandbox_template is None:
            return self.sandbox_warm_pool
        return read_warm_pools(self.sandbox_template)

    @property
    def runs_elsewhere(self) -> bool:
        """Code runs on sandbox servers or in pods, and not on this host."""
        return self.sandbox_url is not None or self.warm_pools is not None

    def check_gateway(self) -> None:
        """What only a gateway needs: a platform, a project, keys of its upstreams."""
        if sys.platform == "win32":
            raise BadSettings(
                "a gateway does not run on Windows: it needs file locks that Windows has not; run `belljar serve` in "
                "WSL 2 or on another machine, and name it: belljar chat --url URL"
            )
        if self.project is not None and not self.project.is_dir():
            raise BadSettings(
                f"project: {str(self.project)!r} is not a directory ({self.origins.get('project', 'set in code')}); "
                "name one that is there, or leave it out"
            )
        if self.project is not None and (self.database or self.database_file) is not None:
            raise BadSettings(
                "project: it does not go with a database that several gateways share, as each would have other files "
                f"({self.origins.get('project', 'set in code')}); leave one of them out"
            )
        for one in self.upstreams:
            if one.api_key_env is not None and one.api_key is None:
                raise BadSettings(
                    f"upstreams.{one.name}.api_key_env: {one.api_key_env} is not set in the environment; "
                    "set it, or name another variable"
                )

    def shown(self) -> Iterator[Shown]:
        """Every setting in order, fit to be printed."""
        for one in fields(self):
            if one.name in _READERS:
                value = getattr(self, one.name)
                hidden = one.metadata.get("secret") and value is not None
                yield Shown(one.name, HIDDEN if hidden else _plain(value), self.origins.get(one.name, "default"))


_READERS: Mapping[str, Reader] = {one.name: one.metadata["read"] for one in fields(Settings) if "read" in one.metadata}
_HOMES: Mapping[str, Callable[[Mapping[str, str]], Path]] = {
    one.name: one.metadata["home"] for one in fields(Settings) if "home" in one.metadata
}
_FLAGS: Mapping[str, str] = {one.name: flag for one in fields(Settings) if (flag := one.metadata.get("flag"))}
_WHERE_CODE_RUNS = ("sandbox_url", "sandbox_warm_pool", "sandbox_template")
"""Of these at most one is set."""
_SECRETS = frozenset(one.name for one in fields(Settings) if one.metadata.get("secret"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """What the library's clients are told: under `[api]` in the file, as BELLJAR_PROVIDER and the like outside."""

    provider: str = _setting("openai", _text)
    """The provider of a client that is told none."""
    model: str | None = _setting(None, _or_none(_text))
    """The model of that provider; its default without."""
    max_tokens: int = _setting(4096, _whole(1))
    """Tokens of one answer."""
    parallel_tool_calls: bool = _setting(True, _switch)
    """The model may call several tools at once."""
    context_budget: int | None = _setting(None, _or_none(_whole(1)))
    """Tokens of the conversation; 150000, and 32000 for models on one's own machine, where nothing else is said."""
    summarize_threshold: float = _setting(0.75, _share)
    """The share of the budget above which older messages are summarised."""
    min_recent_messages: int = _setting(6, _whole(1))
    """The newest messages, which are never summarised."""
    openai_api_key: str | None = field(default=None, repr=False, metadata={"read": _text, "secret": True})
    """Where OPENAI_API_KEY is not set."""
    gateway_url: str = "http://127.0.0.1:8787/v1"
    """Where this machine's gateway listens, by its own settings."""
    provider_variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """Keys and addresses of providers. Never shown."""

    @classmethod
    def load(cls, *, environment: Mapping[str, str] | None = None, file: str | None = None) -> Self:
        """Read the same layers as `Settings`."""
        variables = os.environ if environment is None else environment
        gateway = Settings.load(environment=variables, file=file)
        values: dict[str, Any] = {}
        for one in (*_api_from_file(variables, file), *_from_environment(variables, _API_READERS)):
            if one.name not in _API_READERS:
                _refuse(one.key, one.value, _API_READERS, one.origin)
            values[one.name] = _read(_API_READERS[one.name], one, secret=one.name in _API_SECRETS)
        host = "127.0.0.1" if gateway.host in ("0.0.0.0", "::") else gateway.host
        address = f"[{host}]" if ":" in host else host
        return cls(
            **values,
            gateway_url=f"http://{address}:{gateway.port}/v1",
            provider_variables=gateway.provider_variables,
        )


def _check_database(given: Mapping[str, _Given], values: Mapping[str, object]) -> None:
    if values.get("database") and values.get("database_file"):
        where = given["database"].origin, given["database_file"].origin
        raise BadSettings(f"database and database_file are both set ({'; '.join(where)}); leave one of them out")
    told = values.get("database")
    if isinstance(told, str) and given["database"].origin == "--database":
        from belljar.database_address import DatabaseAddress

        if DatabaseAddress(told).has_password:
            raise BadSettings(
                "database: the value has a password in it, and anybody on this machine can read it in the list of "
                "processes (--database); set BELLJAR_DATABASE, or name a file that holds it: BELLJAR_DATABASE_FILE"
            )


def _check_container_memory(given: Mapping[str, _Given], values: Mapping[str, object]) -> None:
    """A container that asks for nothing has to get a pod."""
    pools, memory = values.get("sandbox_warm_pool"), values.get("container_memory")
    if isinstance(pools, WarmPools) and isinstance(memory, str) and memory not in pools.tiers:
        one = given["container_memory"]
        raise BadSettings(
            f"{one.key}: {memory!r} is more than any pool of sandbox_warm_pool has, {pools} ({one.origin}); set it to "
            f"{pools.tiers[-1]} or less, or name a pool for {memory}"
        )


_API_READERS: Mapping[str, Reader] = {
    one.name: one.metadata["read"] for one in fields(ApiSettings) if "read" in one.metadata
}
_API_SECRETS = frozenset(one.name for one in fields(ApiSettings) if one.metadata.get("secret"))

_FOUNDING: Mapping[str, str] = {
    "providers.code_interpreter.enabled": "code_interpreter",
    "providers.code_interpreter.settings.sandbox_url": "sandbox_url",
    "providers.code_interpreter.settings.sandbox_template": "sandbox_template",
    "providers.code_interpreter.settings.sandbox_warm_pool": "sandbox_warm_pool",
    "providers.code_interpreter.settings.sandbox_namespace": "sandbox_namespace",
    "providers.code_interpreter.settings.execution_timeout": "timeout",
    "providers.code_interpreter.settings.claim_timeout": "claim_timeout",
}
"""Other keys in a file for the same settings: how the founding documents configure a provider."""


def _plain(value: object) -> object:
    match value:
        case Path() | WarmPools():
            return str(value)
        case Upstream():
            told = {one.name: getattr(value, one.name) for one in fields(value)}
            told["api_key"] = value.api_key and HIDDEN
            return told | {"models": list(value.models), "headers": dict.fromkeys(value.headers, HIDDEN)}
        case tuple():
            return [_plain(one) for one in value]
    return value


# -- one value --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as it was given: for which setting, under which key, where."""

    name: str
    key: str
    value: object
    origin: str

    @property
    def source(self) -> str:
        return self.origin if self.key == self.name else f"{self.key} in {self.origin}"


def _value(given: _Given) -> object:
    if given.name not in _READERS:
        _refuse(given.key, given.value, (*_READERS, "providers"), given.origin)
    return _read(_READERS[given.name], given, secret=given.name in _SECRETS)


def _read(read: Reader, given: _Given, *, secret: bool = False) -> object:
    try:
        return read(given.value)
    except Wrong as wrong:
        shown = "the value" if secret or wrong.hidden else f"{given.value!r}"
        raise BadSettings(f"{given.key}: {shown} is not {wrong} ({given.origin}); change it or leave it out") from None


def _refuse(key: str, value: object, known: Iterable[str], origin: str) -> NoReturn:
    """There is no such key: say which was meant, as far as that can be guessed."""
    import difflib

    names = list(known)
    above, dot, name = key.rpartition(".")
    near = [f"{above}{dot}{one}" for one in difflib.get_close_matches(name, names, 1)]
    inner = next((str(one) for one in value if one in _READERS), None) if isinstance(value, Mapping) else None
    if inner:  # a section that there is not, around a setting that there is
        key, near = f"{key}.{inner}", [inner]
    listed = ", ".join(f"{above}{dot}{one}" for one in names)
    remedy = f"did you mean {near[0]}?" if near else f"known {'are' if len(names) > 1 else 'is'} {listed}"
    raise BadSettings(f"{key}: there is no such setting ({origin}); {remedy}")


def _table(key: str, value: object, origin: str) -> Mapping[str, object]:
    if value is None:  # a heading in YAML with nothing below it
        return {}
    if not isinstance(value, Mapping):
        raise BadSettings(f"{key}: {value!r} is not a table of names and values ({origin}); change it or leave it out")
    return {str(name): one for name, one in value.items()}


# -- upstreams --------------------------------------------------------------------------------------------------------

_UPSTREAM: Mapping[str, Reader] = {
    "base_url": _url,
    "dialect": _text,
    "api_key": _text,
    "api_key_env": _text,
    "models": _names,
    "quirks": _text,
    "headers": _headers,
    "timeout": _seconds,
}
_UPSTREAM_SECRETS = ("api_key", "headers")


def _upstreams(given: _Given, environment: Mapping[str, str]) -> tuple[Upstream, ...]:
    """A table of tables by name, or texts that are each `NAME=URL` or a URL alone."""
    tables: dict[str, Mapping[str, object]] = {}
    if isinstance(given.value, Mapping):
        for name, table in _table(given.key, given.value, given.origin).items():
            tables[name] = _table(f"{given.key}.{name}", table, given.origin)
    else:
        for text in cast(tuple[str, ...], _read(_addresses, given)):
            name, equals, address = text.partition("=")
            if not equals or "://" in name:
                name, address = "", text
            address = cast(str, _read(_url, _Given(given.name, given.key, address, given.origin)))
            name = name or _name_of(address)
            if name in tables:
                raise BadSettings(f"{given.key}: two are called {name} ({given.origin}); tell them apart by NAME=URL")
            tables[name] = {"base_url": address}
    return tuple(_upstream(name, table, given, environment) for name, table in tables.items())


def _upstream(name: str, table: Mapping[str, object], given: _Given, environment: Mapping[str, str]) -> Upstream:
    key, origin = f"{given.key}.{name}", given.origin
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise BadSettings(
            f"{given.key}: {name!r} is not a name of letters, digits, '.', '_' and '-' ({origin}); change it"
        )
    values: dict[str, Any] = {}
    for part, value in table.items():
        if part not in _UPSTREAM:
            _refuse(f"{key}.{part}", value, _UPSTREAM, origin)
        one = _Given(given.name, f"{key}.{part}", value, origin)
        values[part] = _read(_UPSTREAM[part], one, secret=part in _UPSTREAM_SECRETS)
    if "base_url" not in values:
        raise BadSettings(f"{key}.base_url: is missing ({origin}); say where it is, such as http://127.0.0.1:8000/v1")
    if "api_key" in values and "api_key_env" in values:
        raise BadSettings(f"{key}.api_key and {key}.api_key_env are both set ({origin}); leave one of them out")
    vendor = _name_of(values["base_url"])
    values.setdefault("dialect", vendor if vendor in ("openai", "anthropic") else "chat")
    variable = values.get("api_key_env") or f"{re.sub(r'[^A-Z0-9]', '_', name.upper())}_API_KEY"
    values.setdefault("api_key", environment.get(variable) or None)
    return Upstream(name=name, **values)


def _name_of(address: str) -> str:
    """What to call a server by its address: `groq` for api.groq.com, `local-8000` for this machine's port 8000."""
    from urllib.parse import urlsplit

    parts = urlsplit(address)
    host = parts.hostname or ""
    labels = [label for label in host.split(".") if label not in ("api", "www")]
    if host in ("localhost", "::1") or host.startswith("127."):
        host = "local"
    elif len(labels) > 1 and not labels[-1].isdigit():
        return labels[-2]
    return re.sub(r"[^\w.]+", "-", f"{host}-{parts.port}" if parts.port else host).strip("-")


# -- the layers -------------------------------------------------------------------------------------------------------


def _from_flags(flags: Mapping[str, object]) -> Iterator[_Given]:
    for name, value in flags.items():
        if value is not None:
            yield _Given(name, name, value, _FLAGS.get(name) or f"--{name.replace('_', '-')}")


def _from_environment(environment: Mapping[str, str], only: Iterable[str] | None = None) -> Iterator[_Given]:
    """What is the clients' alone is left to them."""
    for variable, value in sorted(environment.items()):
        name = variable.removeprefix(PREFIX).lower()
        ours = name not in _API_READERS if only is None else name in only
        if variable.startswith(PREFIX) and name != "config" and ours:
            yield _Given(name, name, value, f"environment variable {variable}")


def _from_file(environment: Mapping[str, str], named: str | None) -> Iterator[_Given]:
    path = config_file(environment, named)
    if path is None:
        return
    for name, value in _parse(path).items():
        if name == "providers":
            yield from _read_founding_keys("providers", value, str(path))
        elif name != "api":
            yield _Given(str(name), str(name), value, str(path))


def _api_from_file(environment: Mapping[str, str], named: str | None) -> Iterator[_Given]:
    path = config_file(environment, named)
    if path is not None:
        for name, value in _table("api", _parse(path).get("api"), str(path)).items():
            yield _Given(name, f"api.{name}", value, str(path))


def _read_founding_keys(key: str, value: object, origin: str) -> Iterator[_Given]:
    """Follow the founding keys down."""
    if key in _FOUNDING:
        yield _Given(_FOUNDING[key], key, value, origin)
        return
    known = {one.removeprefix(f"{key}.").partition(".")[0]: None for one in _FOUNDING if one.startswith(f"{key}.")}
    for name, inner in _table(key, value, origin).items():
        if name not in known:
            _refuse(f"{key}.{name}", None, known, origin)
        yield from _read_founding_keys(f"{key}.{name}", inner, origin)


def config_file(environment: Mapping[str, str] | None = None, named: str | None = None) -> Path | None:
    """The file that is read: the one that `--config` or BELLJAR_CONFIG names, or that of the user's own directory."""
    given = os.environ if environment is None else environment
    origin, remedy = ("--config", "leave it out") if named else (f"{PREFIX}CONFIG", "unset the variable")
    named = named or given.get(f"{PREFIX}CONFIG")
    if named:
        path = Path(os.path.expanduser(named))
        if not os.path.isfile(path):
            raise BadSettings(f"{origin}: there is no file {named!r}; name one that is there or {remedy}")
        return path
    home = _home(given, "XDG_CONFIG_HOME", ".config")
    if home is None:
        return None
    folder = home / "belljar"
    names = ("config.toml", "config.yaml", "config.yml")
    # Not Path.is_file, which raises where we may not look: a home that is closed to us has no settings of ours.
    found = [path for name in names if os.path.isfile(path := folder / name)]
    if len(found) > 1:
        raise BadSettings(f"config: there are both {found[0]} and {found[1].name}; remove one of them")
    return found[0] if found else None


def _parse(path: Path) -> Mapping[str, object]:
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        parsed = tomllib.loads(text) if path.suffix == ".toml" else _parse_yaml(path, text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings(f"config: {path} cannot be read: {error}; mend or remove it") from None
    if not isinstance(parsed, dict):
        raise BadSettings(f'config: {path} does not hold names and values; write lines such as: memory = "4g"')
    return parsed


def _parse_yaml(path: Path, text: str) -> object:
    import yaml

    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadSettings(f"config: {path} is not YAML: {' '.join(str(error).split())}; mend or remove it") from None
    return {} if parsed is None else parsed


# -- the environment --------------------------------------------------------------------------------------------------


def _home(environment: Mapping[str, str], variable: str, fallback: str) -> Path | None:
    """A directory of the XDG base directory specification, which says to ignore relative ones."""
    named = environment.get(variable, "")
    if os.path.isabs(named):
        return Path(named)
    home = environment.get("HOME") or os.path.expanduser("~")
    return Path(home, fallback) if os.path.isabs(home) else None


def _pick_variables(environment: Mapping[str, str], pattern: re.Pattern[str]) -> Mapping[str, str]:
    return MappingProxyType({name: value for name, value in environment.items() if pattern.fullmatch(name)})


def variables(*names: str) -> dict[str, str]:
    """Those of the named environment variables that are set: for what tells of the host rather than of our settings."""
    return {name: os.environ[name] for name in names if name in os.environ}
