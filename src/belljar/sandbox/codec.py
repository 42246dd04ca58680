"""Encode the sandbox's values as JSON and decode them: the wire between a sandbox server and its client. Pure.

`encode_X` makes a dict of a value, `decode_X` makes the value again. What a caller asks (a spec, a cell, requirements)
is the caller's fault when it is wrong, `InvalidRequest`; what a server answers is the server's, `Lost`. Names of files
may hold lone surrogates, which stand for bytes that are not UTF-8: everything is ASCII on the wire, so they survive.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, cast, get_args

from belljar.errors import (
    BadSettings,
    BelljarError,
    CallerError,
    CannotConfine,
    Fenced,
    Forbidden,
    InvalidRequest,
    Lost,
    NoneFree,
    NotFound,
    Refused,
    SandboxError,
    TooLarge,
    Unauthenticated,
    WorkspaceError,
    WorkspaceSecurityError,
)
from belljar.sandbox.base import Cell, FileInfo, Limits, Spec
from belljar.sandbox.outputs import (
    Bundle,
    Display,
    Error,
    Exit,
    FileChanged,
    Limit,
    Output,
    Reason,
    Result,
    Stderr,
    Stdout,
)
from belljar.sandbox.packages import Installed
from belljar.sandbox.validation import LEAST_MEMORY, make_cell, make_packages

API, OLDEST_API = 2, 1
"""The version of what both sides say to each other, and the oldest that we can still go on with.

| 1 | a sandbox lives as long as the connection that made it |
| 2 | with an epoch it can be kept, attached to and fenced; they are listed; callers may wait for one |
"""
EPOCH = "Belljar-Epoch"
"""The header by which a request says under which epoch it holds the sandbox."""
USUAL_KEEP = 60.0
"""Seconds that a sandbox with an epoch is kept without a connection, unless its holder says otherwise."""
Told: TypeAlias = dict[str, object]
"""A value as JSON has it."""


# -- lines ------------------------------------------------------------------------------------------------------------


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def encode_json(told: Mapping[str, object]) -> bytes:
    """ASCII, on one line."""
    return _ENCODER.encode(told).encode("ascii")


def encode_line(told: Mapping[str, object]) -> bytes:
    """A line of an answer that goes on."""
    return encode_json(told) + b"\n"


def decode_line(line: bytes) -> Told:
    """A line, or the whole body, of a server's answer."""
    try:
        parsed = _parse(line)
    except ValueError:
        raise _garbled_error(f"{line[:80]!r}") from None
    if not isinstance(parsed, dict):
        raise _garbled_error(f"{line[:80]!r}")
    return parsed


def decode_request(body: bytes) -> Told:
    """The body of a request; an empty one says nothing."""
    if not body.strip():
        return {}
    try:
        parsed = _parse(body)
    except ValueError as error:
        raise InvalidRequest(f"body: it is not JSON ({error}); send an object with Content-Length") from None
    if not isinstance(parsed, dict):
        raise InvalidRequest(f"body: {_format_value(parsed)} is not an object; send one such as {{}}")
    return parsed


def _parse(text: bytes) -> object:
    try:
        return _DECODER.decode(text.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


# -- outputs ----------------------------------------------------------------------------------------------------------


def encode_output(output: Output) -> Told:
    match output:
        case Stdout(text):
            return {"type": "stdout", "text": text}
        case Stderr(text):
            return {"type": "stderr", "text": text}
        case Result(data):
            return {"type": "result", "data": _encode_bundle(data)}
        case Display(data):
            return {"type": "display", "data": _encode_bundle(data)}
        case FileChanged(name, size, modified, mime, change):
            told = {"name": name, "size": size, "modified": modified, "mime": mime, "change": change}
            return {"type": "file_changed", **told}
        case Exit():
            error = output.error
            return {
                "type": "exit",
                "status": output.status,
                "text": output.text,
                "hint": output.hint,
                "reason": output.reason,
                "error": error and {"type": error.type, "message": error.message, "traceback": error.traceback},
                "code": output.code,
                "kept": output.kept,
                "seconds": output.seconds,
                "limit": output.limit,
            }


def decode_output(told: Mapping[str, object]) -> Output:
    """What a server's line says came out of a cell; lines that say something else are the caller's to know."""
    match told.get("type"):
        case "stdout":
            return Stdout(_text(told, "text"))
        case "stderr":
            return Stderr(_text(told, "text"))
        case "result":
            return Result(_decode_bundle(told))
        case "display":
            return Display(_decode_bundle(told))
        case "file_changed":
            change = _one_of(told, "change", ("created", "modified"))
            return FileChanged(
                _text(told, "name"), _whole(told, "size"), _number(told, "modified"), _text(told, "mime"), change
            )
        case "exit":
            return Exit(
                _one_of(told, "status", ("ok", "raised", "timed_out", "killed")),
                _text(told, "text"),
                _text(told, "hint"),
                None if told.get("reason") is None else _one_of(told, "reason", get_args(Reason)),
                _decode_traceback(told.get("error")),
                None if told.get("code") is None else _whole(told, "code"),
                _member(told, "kept", bool),
                _number(told, "seconds"),
                None if told.get("limit") is None else _one_of(told, "limit", get_args(Limit)),
            )
    raise _garbled_error(f"an output of type {_format_value(told.get('type'))}")


def _encode_bundle(data: Bundle) -> Told:
    return {
        mime: value if isinstance(value, str) else {"base64": base64.b64encode(value).decode("ascii")}
        for mime, value in data.items()
    }


def _decode_bundle(told: Mapping[str, object]) -> Bundle:
    data: dict[str, str | bytes] = {}
    for mime, value in _member(told, "data", dict).items():
        match value:
            case str():
                data[mime] = value
            case {"base64": str(encoded)}:
                try:
                    data[mime] = base64.b64decode(encoded, validate=True)
                except (binascii.Error, ValueError):
                    raise _garbled_error(f"{mime} that is not base64") from None
            case _:
                raise _garbled_error(f"{mime} as {_format_value(value)}")
    return data


def _decode_traceback(told: object) -> Error | None:
    if told is None:
        return None
    if not isinstance(told, dict):
        raise _garbled_error(f"error as {_format_value(told)}")
    return Error(_text(told, "type"), _text(told, "message"), _text(told, "traceback"))


# -- a sandbox that was found ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """What a sandbox is like that somebody attaches to."""

    id: str
    cells: int
    interpreter: int
    limits: Limits
    files: tuple[FileInfo, ...]


def encode_state(state: State) -> Told:
    return {
        "id": state.id,
        "cells": state.cells,
        "interpreter": state.interpreter,
        "limits": encode_limits(state.limits),
        "files": [encode_file(one) for one in state.files],
    }


def decode_state(told: Mapping[str, object]) -> State:
    known = {one.name for one in fields(Limits)}  # a newer server may have more
    try:
        limits = decode_limits({name: value for name, value in _member(told, "limits", dict).items() if name in known})
    except InvalidRequest as error:
        raise _garbled_error(str(error)) from None
    files = tuple(decode_file(one) for one in _member(told, "files", list))
    return State(_text(told, "id"), _whole(told, "cells"), _whole(told, "interpreter"), limits, files)


# -- files and packages -----------------------------------------------------------------------------------------------


def encode_file(info: FileInfo) -> Told:
    return {"name": info.name, "size": info.size, "modified": info.modified, "type": info.type}


def decode_file(told: Mapping[str, object]) -> FileInfo:
    return FileInfo(_text(told, "name"), _whole(told, "size"), _number(told, "modified"), _text(told, "type"))


def encode_package(package: Installed) -> Told:
    return {"name": package.name, "version": package.version}


def decode_package(told: Mapping[str, object]) -> Installed:
    return Installed(_text(told, "name"), _text(told, "version"))


# -- errors -----------------------------------------------------------------------------------------------------------

_ERRORS: Mapping[str, type[BelljarError]] = {
    kind.code: kind
    for kind in (
        BadSettings, BelljarError, CallerError, CannotConfine, Fenced, Forbidden, InvalidRequest, Lost, NoneFree,
        NotFound, Refused, SandboxError, TooLarge, Unauthenticated, WorkspaceError, WorkspaceSecurityError,
    )
}  # fmt: skip
"""What a sandbox may raise, by code."""


def encode_error(error: BelljarError) -> Told:
    return {"code": error.code, "message": str(error), "param": getattr(error, "param", None)}


def decode_error(told: Mapping[str, object]) -> BelljarError:
    """The error to raise here; one that we do not know, as of a newer server, is a refusal."""
    code, message, param = told.get("code"), _text(told, "message"), told.get("param")
    kind = _ERRORS.get(code, Refused) if isinstance(code, str) else Refused
    if kind is InvalidRequest or kind is NotFound:
        return kind(message, param=param if isinstance(param, str) else None)
    return kind(message)


# -- what is asked ----------------------------------------------------------------------------------------------------


def encode_cell(cell: Cell) -> Told:
    return {"code": cell.code, "timeout": cell.timeout}


def decode_cell(told: Mapping[str, object]) -> Cell:
    refuse_unknown(told, ("code", "timeout"))
    if "code" not in told:
        raise InvalidRequest("code: it is missing; give Python source as text", param="code")
    return make_cell(cast(str, told["code"]), cast("float | None", told.get("timeout")))


def encode_spec(spec: Spec) -> Told:
    return {
        "limits": encode_limits(spec.limits),
        "packages": spec.packages,
        "requirements": list(spec.requirements),
    }


def encode_limits(limits: Limits) -> Told:
    return {one.name: getattr(limits, one.name) for one in fields(limits)}


def decode_spec(told: Mapping[str, object]) -> Spec:
    """What is left out has its default."""
    refuse_unknown(told, ("limits", "packages", "requirements", *_TERMS))
    packages = make_packages(told.get("packages", "auto"))
    return Spec(decode_limits(told.get("limits", {})), packages, decode_requirements(told))


@dataclass(frozen=True, slots=True)
class Terms:
    """On which somebody has a sandbox."""

    epoch: int | None = None
    """Whoever comes with a higher one takes it over; None where nobody may."""
    keep: float = 0.0
    """Seconds that it lives on without a connection."""
    wait: float = 0.0
    """Seconds to wait for it where there is none free."""


def encode_terms(terms: Terms) -> Told:
    told: Told = {"epoch": terms.epoch, "keep": terms.keep} if terms.epoch is not None else {}
    return {**told, "wait": terms.wait} if terms.wait else told


def decode_terms(told: Mapping[str, object]) -> Terms:
    for name, check in _TERMS.items():
        if name in told and (wanted := check(told[name])) is not None:
            raise InvalidRequest(
                f"{name}: {_format_value(told[name])} is not {wanted}; change it or leave it out", param=name
            )
    epoch = cast("int | None", told.get("epoch"))
    if epoch is None and told.get("keep"):
        raise InvalidRequest("keep: only with an epoch can a sandbox be found again; give one too", param="epoch")
    keep = cast(float, told.get("keep", 0.0 if epoch is None else USUAL_KEEP))
    return Terms(epoch, keep, cast(float, told.get("wait", 0.0)))


def decode_attachment(told: Mapping[str, object]) -> Terms:
    """The terms of somebody who takes a sandbox over."""
    refuse_unknown(told, ("epoch", "keep"))
    if "epoch" not in told:
        raise InvalidRequest("epoch: it is missing; give one that is higher than the holder's", param="epoch")
    return decode_terms(told)


def decode_epoch(header: str) -> int:
    if not (header.isascii() and header.isdecimal() and len(header) < 19):
        raise InvalidRequest(f"{EPOCH}: {header[:80]!r} is not a whole number; leave it out, or mend it", param=EPOCH)
    return int(header)


def decode_requirements(told: Mapping[str, object]) -> tuple[str, ...]:
    asked = told.get("requirements", [])
    if not isinstance(asked, list) or not all(isinstance(one, str) for one in asked):
        raise InvalidRequest(
            f"requirements: {_format_value(asked)} is not a list of texts; give names such as "
            '["polars", "rich>=13"], or leave it out',
            param="requirements",
        )
    return tuple(asked)


_SIZE = 1 << 50
_COUNT = 1 << 20
_TIME = 1e9


def _between(least: float, most: float, *, whole: bool, above: bool = False) -> Callable[[object], str | None]:
    """A check that says what would have been right."""
    kind = "a whole number" if whole else "a number"
    wanted = f"{kind} above {least} and at most {most:g}" if above else f"{kind} from {least} to {most:g}"

    def check(value: object) -> str | None:
        fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        ranged = fits and least <= cast(float, value) <= most and not (above and value == least)
        return None if ranged else wanted

    return check


_LIMITS: Mapping[str, Callable[[object], str | None]] = {
    "memory": _between(LEAST_MEMORY, _SIZE, whole=True),
    "cpus": _between(0, _COUNT, whole=False, above=True),
    "cpu_time": _between(0, _TIME, whole=False, above=True),
    "idle_cpu_time": _between(0, _TIME, whole=False, above=True),
    "timeout": _between(0, _TIME, whole=False, above=True),
    "processes": _between(4, _COUNT, whole=True),
    "open_files": _between(16, _COUNT, whole=True),
    "file_size": _between(1, _SIZE, whole=True),
    "disk": _between(1, _SIZE, whole=True),
    "scratch": _between(1, _SIZE, whole=True),
    "output": _between(0, _SIZE, whole=True),
    "output_total": _between(0, _SIZE, whole=True),
    "display": _between(0, _SIZE, whole=True),
    "grace": _between(0, _TIME, whole=False),
}
_TERMS: Mapping[str, Callable[[object], str | None]] = {
    "epoch": _between(1, 1 << 53, whole=True),
    "keep": _between(0, 86_400, whole=False),
    "wait": _between(0, 3600, whole=False),
}
_UNLIMITED = frozenset({"cpus", "cpu_time", "idle_cpu_time", "timeout", "file_size"})


def decode_limits(told: object) -> Limits:
    if not isinstance(told, dict):
        raise InvalidRequest(
            f"limits: {_format_value(told)} is not an object; leave it out for the defaults", param="limits"
        )
    refuse_unknown(told, _LIMITS, within="limits.")
    for name, value in told.items():
        wanted = None if value is None and name in _UNLIMITED else _LIMITS[name](value)
        if wanted is not None:
            none = ", or null for no limit" if name in _UNLIMITED else ""
            raise InvalidRequest(
                f"limits.{name}: {_format_value(value)} is not {wanted}{none}; change it or leave it out",
                param=f"limits.{name}",
            )
    return Limits(**told)


def refuse_unknown(told: Mapping[str, object], known: Iterable[str], *, within: str = "") -> None:
    """A field that is not known is more likely misspelt than not meant."""
    for name in told:
        if name not in known:
            listed = ", ".join(f"{within}{one}" for one in known)
            shown = f"{within}{name[:80]}"
            raise InvalidRequest(f"{shown}: there is no such field; known are {listed}", param=shown)


# -- members of an answer ---------------------------------------------------------------------------------------------


def _member(told: Mapping[str, object], name: str, kind: type[Any]) -> Any:
    value = told.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _garbled_error(f"{name} as {_format_value(value)}")
    return value


def _text(told: Mapping[str, object], name: str) -> str:
    return cast(str, _member(told, name, str))


def _whole(told: Mapping[str, object], name: str) -> int:
    return cast(int, _member(told, name, int))


def _number(told: Mapping[str, object], name: str) -> float:
    return float(_member(told, name, int | float))  # type: ignore[arg-type]


def _one_of(told: Mapping[str, object], name: str, choices: tuple[str, ...]) -> Any:
    value = told.get(name)
    if value not in choices:
        raise _garbled_error(f"{name} as {_format_value(value)}")
    return value


def _garbled_error(what: str) -> Lost:
    return Lost(f"the sandbox server's answer cannot be read: it has {what}; is it a belljar sandbox of this version?")


def _format_value(value: object) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"
