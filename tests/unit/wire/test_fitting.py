"""Whatever JSON comes in, the answer is a request or one fault that names a parameter."""

import copy
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from belljar.errors import InvalidRequest
from belljar.wire import codec, reading

Read: TypeAlias = Callable[[dict[str, Any]], Any]

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 1.0, 10**400, -(10**400), "", "auto", "message", "x" * 600, "no good", "a - at `$.b`"])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("type"), inner, max_size=3)
    ),
    max_leaves=8,
)
RESPONSE: dict[str, Any] = {
    "model": "m",
    "input": [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "b"}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": None,
            "content": [
                {
                    "type": "output_text",
                    "text": "x",
                    "logprobs": None,
                    "annotations": [
                        {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "t", "url": "u"}
                    ],
                }
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "status": None},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "file_id": "file-1"}]},
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "code": "1",
            "container_id": "cntr_1",
            "outputs": [{"type": "logs", "logs": "1"}],
            "belljar": {"exit": "ok", "seconds": 0.1, "files": ["a"]},
        },
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "item_reference", "id": "msg_2"},
        {"type": "compaction_trigger"},
    ],
    "tools": [
        {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": None},
        {"type": "custom", "name": "g", "format": {"type": "text"}},
        {
            "type": "code_interpreter",
            "container": {
                "type": "auto",
                "file_ids": ["file-1"],
                "memory_limit": "1g",
                "network_policy": {
                    "type": "allowlist",
                    "allowed_domains": ["a"],
                    "domain_secrets": [{"domain": "a", "name": "b", "value": "c"}],
                },
            },
        },
        {"type": "mcp", "server_label": "l"},
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    "stream": True,
    "stream_options": {"include_obfuscation": False},
    "conversation": {"id": "conv_1"},
    "store": True,
    "background": False,
    "include": ["code_interpreter_call.outputs"],
    "temperature": 1.0,
    "top_p": 1,
    "top_logprobs": 0,
    "max_output_tokens": 100,
    "max_tool_calls": 10,
    "parallel_tool_calls": True,
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "truncation": "auto",
    "context_management": [{"type": "compaction", "compact_threshold": 1000}],
    "metadata": {"a": "b"},
    "prompt_cache_options": {},
    "safety_identifier": "s",
}
CONTAINER: dict[str, Any] = {
    "name": "n",
    "memory_limit": "4g",
    "expires_after": {"anchor": "last_active_at", "minutes": 20},
    "file_ids": ["file-1"],
    "network_policy": {"type": "allowlist", "allowed_domains": ["a"]},
}
COMPACT = {key: RESPONSE[key] for key in ("model", "input", "tools", "reasoning", "text")}
COUNT = {key: RESPONSE[key] for key in ("model", "input", "tools", "tool_choice", "conversation", "truncation")}
AT_ODDS = {"stream": ["stream_options"], "tools": ["tool_choice"], "store": ["background"]}
"""Changing the one may make the other wrong."""
READERS: list[tuple[Read, dict[str, Any]]] = [
    (reading.read_response, RESPONSE),
    (reading.read_compact, COMPACT),
    (reading.read_input_tokens, COUNT),
    (reading.read_container, CONTAINER),
]


def fault(read: Callable[[], object]) -> InvalidRequest | None:
    """What is wrong, if anything is; anything else that is raised fails the test."""
    try:
        read()
    except InvalidRequest as error:
        return error
    return None


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of everything inside."""
    members: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*path, key)
        yield from places(member, (*path, key))


def changed(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    """The document with one place emptied, filled with anything, or given a key too many."""
    document = copy.deepcopy(document)
    *way, last = draw(st.sampled_from(list(places(document))))
    parent: Any = document
    for key in way:
        parent = parent[key]
    match draw(st.sampled_from(["change", "remove", "add"])):
        case "change":
            parent[last] = draw(JSON)
        case "remove":
            del parent[last]
        case "add" if isinstance(parent, dict):
            parent[draw(st.text(max_size=4))] = draw(JSON)
        case _:
            parent.append(draw(JSON))
    return document


@st.composite
def mutations(draw: st.DrawFn) -> tuple[Read, dict[str, Any]]:
    read, document = draw(st.sampled_from(READERS))
    for _ in range(draw(st.integers(1, 3))):
        document = changed(draw, document)
    return read, document


def named(document: dict[str, Any], param: str) -> bool:
    """Whether this is the path of something in the document, or of a member that something in it lacks."""
    paths = {"".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in way) for way in places(document)}
    return f".{param}" in paths or f".{param}".rpartition(".")[0] in paths | {""}


@pytest.mark.parametrize(("read", "document"), READERS)
def test_the_documents_are_right(read: Read, document: dict[str, Any]) -> None:
    assert read(document)


@settings(max_examples=400)
@given(mutations())
@example((reading.read_response, RESPONSE | {"temperature": 10**400}))
@example(
    (reading.read_response, RESPONSE | {"tools": [{"type": "code_interpreter", "container": {"a - at `$.b`": 1}}]})
)
def test_a_damaged_request_is_read_or_its_fault_named(case: tuple[Read, dict[str, Any]]) -> None:
    read, document = case
    kept = copy.deepcopy(document)
    error = fault(lambda: codec.encode(read(document)))
    if error is not None:
        assert error.param is not None
        assert named(document, error.param), error.param
        assert len(str(error)) < 1000
    assert document == kept


@given(st.data(), st.sampled_from(READERS))
def test_any_json_in_any_parameter(data: st.DataObject, reader: tuple[Read, dict[str, Any]]) -> None:
    read, document = reader
    name = data.draw(st.sampled_from(sorted(document)))
    value = data.draw(JSON)
    error = fault(lambda: read(document | {name: value}))
    if error is not None:
        assert re.split(r"[.\[]", error.param or "")[0] in (name, *AT_ODDS.get(name, ()))


@given(st.dictionaries(st.sampled_from(sorted(RESPONSE)) | st.text(max_size=3), JSON), st.sampled_from(READERS))
def test_any_object(document: dict[str, Any], reader: tuple[Read, dict[str, Any]]) -> None:
    error = fault(lambda: reader[0](document))
    assert error is None or error.param is not None


@given(st.binary() | JSON.map(codec.encode))
def test_any_bytes(body: bytes) -> None:
    error = fault(lambda: reading.read_json(body))
    assert error is None or (error.param, error.fault) == (None, None)


@given(JSON, st.sampled_from(["items", "input"]))
def test_any_items(value: Any, path: str) -> None:
    for read in (reading.read_items, reading.read_item):
        error = fault(partial(read, value, path))
        assert error is None or str(error.param).startswith(path)
