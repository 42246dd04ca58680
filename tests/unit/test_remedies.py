"""Each reader of a stop is told what that reader can do: no remedy names what its reader has not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

import pytest

from belljar.cli import _parser
from belljar.gateway.interpreter.tool import _PARAMETERS
from belljar.sandbox import explain
from belljar.sandbox.base import Limits
from belljar.sandbox.outputs import Error, Exit, Limit
from belljar.sandbox.remedies import REMEDIES, Reader, address_to
from belljar.sandbox.server import execute
from belljar.sandbox.validation import SandboxOptions
from belljar.wire.tools import AutoContainer

LIMITS = Limits(cpu_time=9.0)


def raised(kind: str, message: str, limit: Limit | None = None) -> Exit:
    return explain.exception(Error(kind, message, ""), LIMITS, code=None, note="", seconds=1, limit=limit)


STOPS: Mapping[str, Exit] = {
    "time": explain.timeout(2.5, kept=True, seconds=3),
    "interrupted": explain.interrupt(kept=True, error=None, seconds=3),
    "memory": explain.excess("memory", LIMITS, kept=False, seconds=3),
    "cpu": explain.excess("cpu", LIMITS, kept=True, seconds=3),
    "output": explain.excess("output", LIMITS, kept=True, seconds=3),
    "out of memory": explain.process_end(-9, out_of_memory=True, limits=LIMITS, seconds=1),
    "exited": explain.process_end(3, out_of_memory=False, limits=LIMITS, seconds=1),
    "crashed": explain.process_end(-11, out_of_memory=False, limits=LIMITS, seconds=1),
    "disconnected": explain.disconnect(seconds=1),
    "lost": explain.loss("why", seconds=1),
    "MemoryError": raised("MemoryError", "", "memory"),
    "disk": raised("OSError", "[Errno 28] No space left on device"),
    "file_size": raised("OSError", "[Errno 27] File too large"),
    "open_files": raised("OSError", "[Errno 24] Too many open files: 'x'"),
    "processes": raised("RuntimeError", "can't start new thread"),
    "network": raised("OSError", "[Errno 101] Network is unreachable"),
    "packages": raised("ModuleNotFoundError", "No module named 'x'", "packages"),
    "stack": raised("ModuleNotFoundError", "No module named 'x'", "stack"),
    "system call": raised("PermissionError", "[Errno 1] Operation not permitted"),
    "exception": raised("ValueError", "no"),
}


def flags_of(command: str) -> set[str]:
    [commands] = [action.choices for action in _parser()._actions if isinstance(action.choices, dict)]
    return set(commands[command]._option_string_actions)


def fields_of_execute() -> set[str]:
    """Those that make a difference."""
    asked = {"timeout_seconds": 5, "requirements": ["x"], "files": {"a": ""}, "memory": "4g"}
    plain = execute.Execution("1")
    return {
        name
        for name, value in asked.items()
        if execute.decode_execution(json.dumps({"code": "1", name: value}).encode()) != plain
    }


def names_in(remedy: str) -> Iterator[tuple[str, str]]:
    """What a remedy names, and as what: a flag, a keyword, a field, a call."""
    yield from (("flag", name) for name in re.findall(r"--[\w-]+", remedy))
    yield from (("keyword", name) for name in re.findall(r"\b(\w+)=", remedy))
    yield from (("field", name) for name in re.findall(r"`([^`]+)`", remedy))
    yield from (("call", name) for name in re.findall(r"\b([\w.]+)\(", remedy))


HAS: Mapping[Reader, Callable[[], Mapping[str, set[str]]]] = {
    Reader.MODEL: lambda: {"field": set(_PARAMETERS["properties"])},  # type: ignore[call-overload]
    Reader.PROGRAM: lambda: {"keyword": set(SandboxOptions.__annotations__), "call": {"install", "files.write"}},
    Reader.COMMAND: lambda: {"flag": flags_of("run")},
    Reader.CALLER: lambda: {
        "flag": flags_of("serve"),
        "field": {f"container.{name}" for name in AutoContainer.__struct_fields__} | {"requirements"},
    },
    Reader.EXECUTE: lambda: {"field": fields_of_execute()},
    Reader.PAGE: dict,
    Reader.CHAT: lambda: {"flag": flags_of("chat") | flags_of("serve")},
}


def test_every_limit_has_a_stop_and_a_remedy() -> None:
    assert set(REMEDIES) == set(get_args(Limit)) == {stop.limit for stop in STOPS.values()} - {None}


@pytest.mark.parametrize("reader", Reader)
@pytest.mark.parametrize("stop", STOPS)
def test_no_remedy_names_what_its_reader_has_not(stop: str, reader: Reader) -> None:
    told = address_to(STOPS[stop], reader)
    has = HAS[reader]()
    for kind, name in names_in(told.remedy):
        assert name in has.get(kind, ()), f"{reader.name} has no {kind} {name}: {told.remedy}"
    assert told.text.endswith(told.remedy)
    assert told.hint.endswith(told.remedy) or told.status != "raised"
    assert told.text.startswith(STOPS[stop].text.rstrip("."))
    assert "  " not in told.text
    assert ".." not in told.text


@pytest.mark.parametrize("stop", STOPS)
def test_a_model_is_asked_for_nothing_that_only_others_can_give(stop: str) -> None:
    told = address_to(STOPS[stop], Reader.MODEL).remedy
    assert not re.search(r"timeout|tier|memory_limit|more memory|longer|operator|belljar|pip install", told), told


@pytest.mark.parametrize("stop", STOPS)
def test_the_last_reader_is_the_one_that_is_told(stop: str) -> None:
    once = address_to(STOPS[stop], Reader.COMMAND)
    assert address_to(address_to(STOPS[stop], Reader.PROGRAM), Reader.COMMAND) == once
    assert address_to(once, Reader.COMMAND) == once


@pytest.mark.parametrize(
    ("stop", "reader", "remedy"),
    [
        ("time", Reader.MODEL, "Do less at once."),
        ("time", Reader.COMMAND, "Do less at once, or give it longer: --timeout S."),
        ("time", Reader.PAGE, "Ask for it in smaller steps."),
        ("memory", Reader.CALLER, "Work on smaller pieces, or give it more: `container.memory_limit`."),
        ("MemoryError", Reader.PROGRAM, "Work on smaller pieces, or give it more: memory=…"),
        ("packages", Reader.MODEL, "Name it in `requirements`, and call again."),
        ("packages", Reader.COMMAND, "Add it: --require NAME."),
        ("stack", Reader.COMMAND,
         "Add it: --require NAME; or have all of the data stack: pip install 'belljar[data]'."),
        ("exception", Reader.COMMAND, ""),
    ],
)  # fmt: skip
def test_remedies(stop: str, reader: Reader, remedy: str) -> None:
    assert address_to(STOPS[stop], reader).remedy == remedy


def test_a_cell_that_went_well_may_have_a_remedy_too() -> None:
    asked_pip: Any = Exit("ok", limit="packages")
    assert address_to(asked_pip, Reader.COMMAND).text == "Add it: --require NAME."
