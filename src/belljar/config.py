"""One frozen Settings: defaults < file < environment < flags. The only reader of os.environ."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, cast

from belljar.errors import BadSettings

PREFIX = "BELLJAR_"
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_FETCH = re.compile(
    r"PATH|HOME|NETRC|SSL_CERT_(FILE|DIR)|SSL_CLIENT_CERT|(HTTPS?|ALL|NO)_PROXY|(https?|all|no)_proxy"
    r"|UV_(DEFAULT_INDEX|INDEX\w*|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|OFFLINE|KEYRING_PROVIDER|INSECURE_HOST"
    r"|NATIVE_TLS|SYSTEM_CERTS|HTTP_\w+|CONCURRENT_\w+)"
)


class Wrong(Exception):
    """What the value should have been."""


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong("a text that is not empty")
    return value


def _path(value: object) -> Path:
    path = Path(os.path.expanduser(value if isinstance(value, Path) else _text(value)))
    if not path.is_absolute():
        raise Wrong("an absolute path, or one that starts with ~")
    return path


def _whole(least: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"\d{1,15}", value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise Wrong(f"a whole number, {least} or more")
        return value

    return read


def _seconds(value: object) -> float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise Wrong("a number of seconds above 0")
    return float(value)


def _seconds_or_none(value: object) -> float | None:
    if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
        return None
    try:
        return _seconds(value)
    except Wrong as wrong:
        raise Wrong(f"{wrong}, or none") from None


def size(value: object) -> int:
    """A number of bytes, from a number or text such as "512m" or "4g"."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    found = (
        re.fullmatch(r"(\d{1,15}(?:\.\d+)?)\s*([kmg]?)(?:i?b)?", value.strip().lower())
        if isinstance(value, str)
        else None
    )
    count = int(float(found[1]) * _UNITS.get(found[2], 1)) if found else 0
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


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):  # an environment variable: separated as the shell separates
        return tuple(value.replace(",", " ").split())
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise Wrong("a list of texts")
    return tuple(value)


def _names_or_none(value: object) -> tuple[str, ...] | None:
    return None if value is None else _names(value)


def _setting(default: Any, read: Callable[[object], object], *, secret: bool = False) -> Any:
    """A field that the file, the environment and flags may set."""
    return field(default=default, metadata={"read": read, "secret": secret})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, each under one name: `memory` here and in the file, BELLJAR_MEMORY outside."""

    cache_dir: Path = field(default_factory=lambda: _cache_home(os.environ), metadata={"read": _path})
    """Package layers and the font list."""
    max_sandboxes: int = _setting(256, _whole(1))
    """Sandboxes alive at once."""
    warm: int = _setting(2, _whole(0))
    """Sandboxes kept ready."""
    memory: str = _setting("1g", _size)
    """Of one sandbox, where nothing else is asked for."""
    timeout: float | None = _setting(60.0, _seconds_or_none)
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
    """What fetching packages may see of the environment: proxies, certificates, uv's index settings."""
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False, compare=False)
    """Where each value that is not the default came from."""

    @classmethod
    def load(cls, *, environment: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None) -> Self:
        """Read all layers; `BadSettings` names the key, the value, where it came from and the remedy.

        `flags` maps names to what the command line said, None where it said nothing.
        """
        given = os.environ if environment is None else environment
        values: dict[str, object] = {}
        origins: dict[str, str] = {}
        for name, value, origin in (*_from_file(given), *_from_environment(given), *_from_flags(flags or {})):
            values[name] = _read(name, value, origin)
            origins[name] = origin
        if "cache_dir" not in values:
            values["cache_dir"] = _cache_home(given)
        picked = {name: value for name, value in given.items() if _FETCH.fullmatch(name)}
        return cls(
            **cast(dict[str, Any], values),
            fetch_variables=MappingProxyType(picked),
            origins=MappingProxyType(origins),
        )


_READERS: Mapping[str, Callable[[object], object]] = {
    one.name: one.metadata["read"] for one in fields(Settings) if "read" in one.metadata
}
_SECRETS = frozenset(one.name for one in fields(Settings) if one.metadata.get("secret"))

Layer = Iterable[tuple[str, object, str]]


def _read(name: str, value: object, origin: str) -> object:
    if name not in _READERS:
        import difflib

        near = difflib.get_close_matches(name, _READERS, 1)
        remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(_READERS)}"
        raise BadSettings(f"{name}: there is no such setting ({origin}); {remedy}")
    try:
        return _READERS[name](value)
    except Wrong as wrong:
        shown = "the value" if name in _SECRETS else f"{value!r}"
        raise BadSettings(f"{name}: {shown} is not {wrong} ({origin}); change it or leave it out") from None


def _from_flags(flags: Mapping[str, object]) -> Layer:
    for name, value in flags.items():
        if value is not None:
            yield name, value, f"--{name.replace('_', '-')}"


def _from_environment(environment: Mapping[str, str]) -> Layer:
    for variable, value in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable != f"{PREFIX}CONFIG":
            yield variable.removeprefix(PREFIX).lower(), value, f"environment variable {variable}"


def _from_file(environment: Mapping[str, str]) -> Layer:
    path = config_file(environment)
    if path is None:
        return
    for name, value in _parse(path).items():
        yield str(name), value, str(path)


def config_file(environment: Mapping[str, str] | None = None) -> Path | None:
    """The file that is read: the one BELLJAR_CONFIG names, or that of the user's configuration directory."""
    given = os.environ if environment is None else environment
    named = given.get(f"{PREFIX}CONFIG")
    if named:
        path = Path(os.path.expanduser(named))
        if not path.is_file():
            raise BadSettings(
                f"{PREFIX}CONFIG: there is no file {named!r}; name one that is there or unset the variable"
            )
        return path
    home = _home(given, "XDG_CONFIG_HOME", ".config")
    if home is None:
        return None
    folder = home / "belljar"
    found = [path for name in ("config.toml", "config.yaml", "config.yml") if (path := folder / name).is_file()]
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
    try:
        import yaml
    except ImportError:
        raise BadSettings(f"config: {path} needs PyYAML; run: pip install pyyaml, or write a config.toml") from None
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadSettings(f"config: {path} is not YAML: {' '.join(str(error).split())}; mend or remove it") from None
    return {} if parsed is None else parsed


def _home(environment: Mapping[str, str], variable: str, fallback: str) -> Path | None:
    """A directory of the XDG base directory specification, which says to ignore relative ones."""
    named = environment.get(variable, "")
    if os.path.isabs(named):
        return Path(named)
    home = environment.get("HOME") or os.path.expanduser("~")
    return Path(home, fallback) if os.path.isabs(home) else None


def _cache_home(environment: Mapping[str, str]) -> Path:
    home = _home(environment, "XDG_CACHE_HOME", ".cache")
    if home is None:  # as for a user without a name in a container; a guessable place under /tmp would be anybody's
        raise BadSettings("cache_dir: this user has no home directory; set BELLJAR_CACHE_DIR to a directory of yours")
    return home / "belljar"


def variables(*names: str) -> dict[str, str]:
    """Those of the named environment variables that are set: for what tells of the host rather than of our settings."""
    return {name: os.environ[name] for name in names if name in os.environ}
