"""`POST /execute`: one piece of code in a fresh sandbox, its whole outcome in one answer, nothing kept.

The small API that sandbox pods have in common. What the code does wrong is an answer with status 200 that says so; a
request that cannot be read is the caller's fault, before anything is made.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from belljar.errors import BelljarError, InvalidRequest, Lost, NoneFree, NotFound, TooLarge, WorkspaceError
from belljar.sandbox.base import MIB, TIERS, Cell, Sandbox, SandboxSource, Spec
from belljar.sandbox.explain import size
from belljar.sandbox.outputs import Exit, Output, Run, fold
from belljar.sandbox.remedies import Reader, address_to
from belljar.sandbox.validation import make_cell, make_spec

LARGEST_BODY = 10 * MIB
LARGEST_WORKSPACE = 7 * MIB
"""Bytes of all files that a client sends along: as base64 they fit a body, with the code beside them."""
LARGEST_OUTPUT = 10 * MIB
"""Text of one execution; what is cut off is in a file that was produced."""
LARGEST_PRODUCED = 32 * MIB
"""All files of one answer together, before base64."""
USUAL_TIMEOUT, LONGEST_TIMEOUT = 30, 3600
USUAL_MEMORY: Final = "1g"
GRACE = 0.5
"""Seconds from the interrupt to the kill: an execution has to end within a second of its deadline."""

Answer: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class Execution:
    """What is asked: code, its wall seconds, packages, files by name, and the tier of its memory."""

    code: str
    timeout: int = USUAL_TIMEOUT
    requirements: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    memory: str = USUAL_MEMORY


async def execute(source: SandboxSource, body: bytes) -> tuple[int, Answer]:
    """The status and the JSON for a request's body."""
    try:
        asked = decode_execution(body)
        # All but these three are as usual, so that a sandbox of that size which is kept ready will do.
        usual = make_spec(memory=asked.memory).limits
        limits = replace(usual, timeout=float(asked.timeout), output=LARGEST_OUTPUT, grace=GRACE)
        async with source.acquire(Spec(limits)) as sandbox:
            return 200, await _execute_in(sandbox, asked)
    except NoneFree as error:
        count = error.most
        full = str(error) if count is None else f"{count + 1}/{count} concurrent executions"
        return 429, {"error": f"at capacity ({full})"}
    except BelljarError as error:
        return error.status, {"error": str(error)}


async def _execute_in(sandbox: Sandbox, asked: Execution) -> Answer:
    await sandbox.files.write_many(asked.files.items())
    if asked.requirements:
        try:
            await sandbox.install(asked.requirements)
        except Lost:
            raise
        except BelljarError as error:
            return _answer(-1, stderr=f"package installation failed: {error}")
    async with aclosing(sandbox.run(Cell(asked.code))) as outputs:
        run = fold([_addressed(output) async for output in outputs])
    produced, left_out = await _produced(sandbox, run, given=asked.files)
    return encode_run(run, produced, left_out, timeout=asked.timeout)


def _addressed(output: Output) -> Output:
    return address_to(output, Reader.EXECUTE) if isinstance(output, Exit) else output


async def _produced(
    sandbox: Sandbox, run: Run, *, given: Mapping[str, bytes]
) -> tuple[Mapping[str, bytes], Sequence[str]]:
    """The files that were made or changed, then the figures, as far as there is room; and the names of the rest."""
    produced: dict[str, bytes] = {}
    left_out = []
    room = LARGEST_PRODUCED
    for file in run.files:
        try:
            data = await sandbox.files.read(file.name, limit=room)
        except TooLarge:
            left_out.append(file.name)
        except (NotFound, WorkspaceError):
            pass  # a process that outlived the code has removed or replaced it
        else:
            produced[file.name] = data
            room -= len(data)
    taken = {*given, *(file.name for file in run.files)}
    for name, data in name_figures(run, taken).items():
        if len(data) > room:
            left_out.append(name)
        else:
            produced[name] = data
            room -= len(data)
    return produced, left_out


# -- pure: reading -----------------------------------------------------------------------------------------------------


def decode_execution(body: bytes) -> Execution:
    """What a body asks for; `InvalidRequest` and `TooLarge` carry the text of the answer."""
    if len(body) > LARGEST_BODY:
        raise TooLarge(f"invalid request: the body has {len(body)} bytes; {LARGEST_BODY} are the most")
    try:
        asked = json.loads(body)
    except RecursionError:
        raise _invalid("the body is nested too deeply") from None
    except ValueError as error:  # which includes bytes that are not UTF-8
        raise _invalid(f"the body is not JSON: {error}") from None
    if not isinstance(asked, dict):
        raise _invalid("the body is not a JSON object")
    code = _field(asked, "code", str, "a text") or ""
    timeout = _field(asked, "timeout_seconds", int, "a whole number") or 0
    if timeout > LONGEST_TIMEOUT:
        raise _invalid(f"timeout_seconds: {str(timeout)[:20]} is too long; {LONGEST_TIMEOUT} are the most")
    requirements = _field(asked, "requirements", list, "a list of texts") or []
    if not all(isinstance(one, str) for one in requirements):
        raise _invalid("requirements: not a list of texts")
    given = _field(asked, "files", dict, "an object of names and base64") or {}
    tiers = f"one of {', '.join(TIERS)}"
    memory = _field(asked, "memory", str, tiers)
    if memory is not None and memory not in TIERS:
        raise _invalid(f"memory: {memory[:20]!r} is not {tiers}")
    if not code:
        raise InvalidRequest("code is required", param="code")
    return Execution(
        make_cell(code, None).code,
        timeout if timeout > 0 else USUAL_TIMEOUT,
        tuple(requirements),
        _read_files(given),
        memory or USUAL_MEMORY,
    )


def _read_files(given: Mapping[str, object]) -> Mapping[str, bytes]:
    files: dict[str, bytes] = {}
    for told, data in given.items():
        name = _base_name(told)
        if name in files:
            raise _invalid(f"files: two of them are named {name!r}; directories do not count")
        if not isinstance(data, str):
            raise _invalid(f"files: {told!r} is not a text of base64")
        try:
            files[name] = base64.b64decode(data.translate({10: None, 13: None}), validate=True)
        except ValueError as error:  # of which binascii.Error is one, and text beyond ASCII another
            why = str(error) if isinstance(error, binascii.Error) else "it has characters that base64 has not"
            raise InvalidRequest(f"failed to decode file {told}: {why}", param="files") from None
    return files


def _base_name(told: str) -> str:
    """A name without its directories."""
    name = told.rstrip("/").rpartition("/")[2]
    try:
        fits = 0 < len(os.fsencode(name)) <= 255
    except UnicodeEncodeError:
        fits = False
    if not fits or name in (".", "..") or "\0" in name:
        raise _invalid(f"files: {told[:300]!r} is not the name of a file; 1 to 255 bytes other than NUL are")
    return name


def _field(asked: Mapping[str, Any], name: str, kind: type, what: str) -> Any:
    """A field's value; None where it is missing or null."""
    value = asked.get(name)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise _invalid(f"{name}: not {what}")
    return value


def _invalid(problem: str) -> InvalidRequest:
    return InvalidRequest(f"invalid request: {problem}")


# -- pure: telling -----------------------------------------------------------------------------------------------------


def encode_run(run: Run, produced: Mapping[str, bytes], left_out: Sequence[str], *, timeout: int) -> Answer:
    """The answer for a cell that has ended."""
    stderr = _joined(run.stderr, _last_words(run, timeout))
    if left_out:
        names = ", ".join(repr(name) for name in left_out)
        stderr = _joined(stderr, f"files that do not fit the answer's {size(LARGEST_PRODUCED)}: {names}\n")
    answer = _answer(run.exit.exit_code, stdout=run.stdout, stderr=stderr, seconds=run.exit.seconds)
    if produced:
        answer["files_produced"] = {name: base64.b64encode(data).decode() for name, data in produced.items()}
    if run.result is not None:
        answer["result"] = run.text
    return answer


def name_figures(run: Run, taken: set[str]) -> Mapping[str, bytes]:
    """Every picture that was shown, by a name that nothing else has."""
    figures: dict[str, bytes] = {}
    number = 0
    for image in run.images:
        number += 1
        while (name := f"figure-{number}.png") in taken:
            number += 1
        figures[name] = image.png
    return figures


def _last_words(run: Run, timeout: int) -> str:
    """What standard error has to say about the end, beyond what the code wrote there."""
    end = run.exit
    if end.status == "timed_out":
        return "" if run.stderr else f"execution timed out after {timeout} seconds"
    if end.status == "killed":
        return end.text
    if end.error is None or end.error.type == "SystemExit":
        return ""
    return _joined(end.error.traceback, end.hint)


def _joined(text: str, more: str) -> str:
    """One after the other, the second on a line of its own."""
    return f"{text}\n{more}" if text and more and not text.endswith("\n") else text + more


def _answer(code: int, *, stdout: str = "", stderr: str = "", seconds: float = 0.0) -> Answer:
    return {
        "status": "success" if code == 0 else "error",
        "stdout": stdout,
        "stderr": stderr,
        "exit_code": code,
        "execution_time_ms": round(seconds * 1000),
    }
