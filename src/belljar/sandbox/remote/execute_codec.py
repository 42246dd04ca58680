"""`POST /execute` from the side that asks: a cell with its files as a request, the answer as what came of it. Pure."""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from belljar.errors import BelljarError, TooLarge
from belljar.sandbox import explain
from belljar.sandbox.base import MIB, Limits
from belljar.sandbox.file_names import PROGRAMS, clean_name
from belljar.sandbox.outputs import Display, Error, Exit, Result
from belljar.sandbox.remote import execute_script
from belljar.sandbox.server.execute import LARGEST_BODY, LONGEST_TIMEOUT

LARGEST_ANSWER = 128 * MIB
"""What such a server may answer with."""
LIST_PACKAGES = (
    "import importlib.metadata, json\n"
    "print(json.dumps([[one.metadata['Name'], one.version] for one in importlib.metadata.distributions()]))"
)

_SCRIPT = inspect.getsource(execute_script)
_NOT_INSTALLED = "package installation failed: "


class Garbled(Exception):
    """What came is not an answer of `/execute`; the message says why."""


@dataclass(frozen=True, slots=True)
class Produced:
    """A file that was made or changed."""

    name: str
    data: bytes
    modified: float | None = None
    """None where nobody told."""


@dataclass(frozen=True, slots=True)
class Executed:
    """One answer."""

    stdout: str
    stderr: str
    code: int
    seconds: float
    exit: Exit
    shown: tuple[Display, ...] = ()
    result: Result | None = None
    files: tuple[Produced, ...] = ()
    gone: tuple[str, ...] = ()


def whole_seconds(timeout: float | None) -> int:
    """As such servers count: the next second above, and an hour for no limit."""
    return min(LONGEST_TIMEOUT, max(1, -int(-(timeout or LONGEST_TIMEOUT) // 1)))


def encode_execution(
    code: str, *, prefix: str, seconds: int, requirements: Sequence[str], files: Mapping[str, bytes]
) -> bytes:
    """The body of a request. `prefix` begins the names under which files travel: nothing else may begin with it."""
    placed = {f"{prefix}{number}": name for number, name in enumerate(files)}
    programs = [given for given, name in placed.items() if files[name].startswith(PROGRAMS)]
    call = f"run_cell({prefix!r}, {code!r}, {placed!r}, {programs!r})"
    body = encode_plain(f"{_SCRIPT}\n\n{call}\n", seconds, requirements, {g: files[n] for g, n in placed.items()})
    if len(body) > LARGEST_BODY:
        raise TooLarge(
            f"code: it and its files need a request of {explain.size(len(body))}, and {explain.size(LARGEST_BODY)} are "
            "the most for a sandbox server that has /execute alone; delete files, or write shorter code"
        )
    return body


def encode_plain(
    code: str, seconds: int, requirements: Sequence[str] = (), files: Mapping[str, bytes] | None = None
) -> bytes:
    """The body of a request for code as it is."""
    asked: dict[str, object] = {"code": code, "timeout_seconds": seconds}
    if requirements:
        asked["requirements"] = [*requirements]
    if files:
        asked["files"] = {name: base64.b64encode(data).decode() for name, data in files.items()}
    try:
        return json.dumps(asked, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only its escape can say
        return json.dumps(asked).encode()


# -- the answer --------------------------------------------------------------------------------------------------------


def read_error(body: bytes) -> str | None:
    """What a refusal says; None where it is none of such a server's."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    said = told.get("error") if isinstance(told, dict) else None
    return said if isinstance(said, str) else None


def decode_answer(body: bytes, *, prefix: str, seconds: int, limits: Limits) -> Executed:
    """`Garbled` for what is no answer; what could not be installed is told by `missing_packages`."""
    told = _read_object(body)
    stdout, stderr = _member(told, "stdout", str), _member(told, "stderr", str)
    code, took = _member(told, "exit_code", int), _member(told, "execution_time_ms", int) / 1000
    produced = _read_files(told)
    index = produced.pop(f"{prefix}index", None)
    if index is None:
        return _stopped(stdout, stderr, code, took, produced, prefix=prefix, seconds=seconds)
    outcome = _read_object(index)
    try:
        return _ended(outcome, stdout, stderr, code, produced, limits)
    except (KeyError, TypeError, ValueError) as error:
        raise Garbled(f"the index of its files cannot be read ({error!r})") from None


def missing_packages(ran: Executed) -> str | None:
    """Why the requirements cannot be had; None where they can."""
    return ran.stderr.removeprefix(_NOT_INSTALLED) if _is_not_installed(ran.stderr, ran.code) else None


def _is_not_installed(stderr: str, code: int) -> bool:
    return code == -1 and stderr.startswith(_NOT_INSTALLED)


def _ended(
    outcome: Mapping[str, Any], stdout: str, stderr: str, code: int, produced: Mapping[str, bytes], limits: Limits
) -> Executed:
    """A cell that came to its end, whichever that was."""
    took = float(outcome["seconds"])
    if "error" in outcome:
        error = Error(**{name: str(outcome["error"][name]) for name in ("type", "message", "traceback")})
        exit = explain.exception(error, limits, code=None, note="", seconds=took)
    elif "exit" in outcome and code:
        note = f"The cell ended itself with exit code {code}."
        said = str(outcome["exit"])
        exit = explain.exception(Error("SystemExit", said, ""), limits, code=code, note=note, seconds=took)
    elif "exit" in outcome:
        exit = Exit("ok", "The cell ended itself with exit code 0.", code=0, seconds=took)
    else:
        exit = Exit("ok", seconds=took)
    files = []
    for place, name, modified, _ in outcome["files"]:
        data = produced.get(place)
        if data is not None and (clean := _clean(name)) is not None:
            files.append(Produced(clean, data, float(modified)))
    return Executed(
        stdout,
        stderr,
        code,
        took,
        replace(exit, kept=False),
        tuple(Display(_decode_bundle(one)) for one in outcome["shown"]),
        Result(_decode_bundle(outcome["result"])) if "result" in outcome else None,
        tuple(files),
        tuple(name for name in map(_clean, outcome["gone"]) if name is not None),
    )


def _stopped(
    stdout: str, stderr: str, code: int, took: float, produced: Mapping[str, bytes], *, prefix: str, seconds: int
) -> Executed:
    """A cell that did not come to its end: what is known is what the server tells of any program."""
    late = f"execution timed out after {seconds} seconds"
    if code == -1 and (stderr.strip() == late or took >= seconds - 0.1):
        exit = explain.timeout(seconds, kept=False, seconds=took)
        stderr = "" if stderr.strip() == late else stderr
    elif code == -1:
        exit = explain.stop(seconds=took)
    else:
        exit = explain.process_end(code, out_of_memory=False, limits=Limits(), seconds=took)
    files = [
        Produced(name, data)
        for told, data in produced.items()
        if not told.startswith(prefix) and (name := _clean(told)) is not None
    ]
    return Executed(stdout, stderr, code, took, exit, files=tuple(files))


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise Garbled(f"it is not JSON: {body[:80]!r}") from None
    if not isinstance(told, dict):
        raise Garbled(f"it is no object: {body[:80]!r}")
    return told


def _member(told: Mapping[str, Any], name: str, kind: type) -> Any:
    value = told.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Garbled(f"it has no {name}")
    return value


def _read_files(told: Mapping[str, Any]) -> dict[str, bytes]:
    files = told.get("files_produced") or {}
    if not isinstance(files, dict):
        raise Garbled("its files_produced is no object")
    try:
        return {name: base64.b64decode(data) for name, data in files.items()}
    except (TypeError, ValueError):
        raise Garbled("its files_produced are not base64") from None


def _decode_bundle(forms: Mapping[str, str]) -> dict[str, str | bytes]:
    return {mime: text if mime.startswith("text/") else base64.b64decode(text) for mime, text in dict(forms).items()}


def _clean(name: object) -> str | None:
    """A name that a workspace can have; whatever else code may have written into the index is nobody's."""
    try:
        return clean_name(str(name))
    except BelljarError:
        return None
