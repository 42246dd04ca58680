"""The stand-ins for vendors refuse what the vendors refuse: otherwise nothing that passes them is proven."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from belljar.testing import LoopbackUpstream

PATHS = {"responses": "responses", "anthropic": "messages", "gemini": "models/sim:streamGenerateContent"}
USER = {"role": "user", "content": "go"}
FINE = "abcdefghi"


def chat(*ids: str, results: list[str] | None = None, then: Any = (), name: str = "f") -> dict[str, Any]:
    calls = [{"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}} for id in ids]
    told = [{"role": "tool", "tool_call_id": id, "content": ""} for id in (ids if results is None else results)]
    return {"model": "sim", "messages": [USER, {"role": "assistant", "content": "", "tool_calls": calls}, *told, *then]}


def items(*given: dict[str, Any]) -> dict[str, Any]:
    return {"model": "sim", "input": [{"type": "message", "role": "user", "content": "go"}, *given]}


def called(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", **more}


def gave(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "", **more}


def blocks(*ids: str, results: list[str] | None = None, name: str = "f") -> dict[str, Any]:
    uses = [{"type": "tool_use", "id": id, "name": name, "input": {}} for id in ids]
    told = [{"type": "tool_result", "tool_use_id": id} for id in (ids if results is None else results)]
    said = [{"role": "assistant", "content": uses}, *([{"role": "user", "content": told}] if told else [])]
    return {"model": "sim", "messages": [{"role": "user", "content": [{"type": "text", "text": "go"}]}, *said]}


def contents(calls: list[str], results: list[str]) -> dict[str, Any]:
    model = [{"functionCall": {"id": id, "name": "f", "args": {}}} for id in calls]
    user = [{"functionResponse": {"id": id, "name": "f", "response": {}}} for id in results]
    return {"contents": [{"role": "model", "parts": model}, {"role": "user", "parts": user}]}


def post(vendor: str, body: dict[str, Any]) -> tuple[int, str]:
    """The status, and what was said."""
    with LoopbackUpstream(["Hello."], vendor=vendor) as server:
        address = urlsplit(server.base_url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port)
        connection.request("POST", f"{address.path}/{PATHS.get(vendor, 'chat/completions')}", json.dumps(body))
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
    return answer.status, said


@pytest.mark.parametrize(
    ("vendor", "body"),
    [
        ("mistral", chat(FINE, "ABCDEF123")),
        ("mistral model", {**chat(FINE), "stream_options": {}}),
        ("openai chat", chat("x" * 40)),
        ("azure", chat("call_1", then=[USER])),
        ("responses", items(called("x" * 64, id="fc_1"), gave("x" * 64))),
        ("anthropic", blocks("a", "b")),
        ("gemini", contents(["a", "b"], ["b", "a"])),
    ],
)
def test_what_a_vendor_takes(vendor: str, body: dict[str, Any]) -> None:
    assert post(vendor, body)[0] == 200


@pytest.mark.parametrize(
    ("vendor", "body", "why"),
    [
        ("mistral", chat("call_0123"), "length of 9"),
        ("mistral", chat("a" * 10), "length of 9"),
        ("mistral model", chat(""), "length of 9"),
        ("mistral", chat(FINE, then=[USER]), "Unexpected role 'user' after role 'tool'"),
        ("mistral", chat(FINE, then=[{"role": "system", "content": "s"}, USER]), "role 'system' after role 'tool'"),
        ("mistral", chat(FINE, then=[{"role": "assistant", "content": "a"}]), "Expected last role"),
        ("mistral", chat(FINE, then=[{"role": "assistant", "content": ""}, USER]), "either content or tool_calls"),
        ("mistral", {**chat(FINE), "stream_options": {}}, "stream_options"),
        ("mistral", chat(FINE, name="a.b"), "Function name"),
        ("openai chat", chat("x" * 41), "maximum length 40"),
        ("openai chat", chat(""), "string too"),
        ("azure", chat("a", results=[]), "did not have response"),
        ("azure", chat("a", results=["b"]), "must be a response"),
        ("azure", chat("a", results=[], then=[USER]), "did not have response"),
        ("azure", chat("a", "a"), "Duplicate"),
        ("openai chat", chat("a", name="f" * 65), "Function name"),
        ("responses", items(called("x" * 65), gave("x" * 65)), "maximum length 64"),
        ("responses", items(called("a")), "No tool output found"),
        ("responses", items(gave("a")), "No tool call found"),
        ("responses", items(called("a"), gave("a"), called("a"), gave("a")), "Duplicate"),
        ("responses", items(called("a", id="call_1"), gave("a")), "begins with 'fc'"),
        ("responses", items(called("a", id="fc_" + "x" * 62), gave("a")), "maximum length 64"),
        ("responses", items(called("a", id="fc_é"), gave("a")), "letters, numbers"),
        ("responses", items({"type": "web_search_call", "id": "item_1"}), "begins with 'ws'"),
        ("responses", items(called("a", name="a.b"), gave("a")), "name"),
        ("anthropic", blocks("functions.f:0"), "should match pattern"),
        ("anthropic", blocks(""), "should match pattern"),
        ("anthropic", blocks("a", "a"), "must be unique"),
        ("anthropic", blocks("a", results=["b"]), "unexpected `tool_use_id`"),
        ("anthropic", blocks("a", "b", results=["b"]), "without `tool_result`"),
        ("anthropic", blocks("a", results=[]), "without `tool_result`"),
        ("anthropic", blocks("a", name="a.b"), "name"),
        ("gemini", contents(["a"], ["b"]), "function response turn"),
        ("gemini", {"contents": [], "tools": [{"functionDeclarations": [{"name": "2fa"}]}]}, "Invalid function name"),
        ("responses", {"input": [], "tools": [{"type": "custom", "name": "a b"}]}, "name"),
        ("anthropic", {"messages": [], "tools": [{"name": "f" * 129}]}, "name"),
        ("gemini", contents(["a", "a"], ["a", "a"]), "Duplicate"),
    ],
)
def test_what_a_vendor_refuses(vendor: str, body: dict[str, Any], why: str) -> None:
    status, said = post(vendor, body)
    assert status == 400
    assert why in json.loads(said)["error"]["message"]
