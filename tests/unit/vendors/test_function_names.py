"""Names of functions on any wire: they fit, no two become one, and calls come back under those that were declared."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.testing import Call
from belljar.testing.gemini_wire import GeminiWire
from belljar.testing.wires import ChatWire, MessagesWire, ResponsesWire, Wire
from belljar.vendors import function_names
from belljar.vendors.deltas import CallBegun
from belljar.vendors.registry import WIRES
from belljar.vendors.request import ModelRequest
from belljar.vendors.vendor import GENERIC
from belljar.wire.items import CustomToolCall, FunctionCall, Message
from belljar.wire.tools import AllowedTools, Choice, CodeInterpreterTool, CustomTool, FunctionTool, HostedTool

FORMS = pytest.mark.parametrize(
    "form", [function_names.CHAT, function_names.LONG, function_names.GEMINI], ids=["chat", "long", "gemini"]
)
LONG = "f" * 100
SAID = Message(role="user", content="go")


def asked(*tools: Any, **more: Any) -> ModelRequest:
    return ModelRequest(model="m", items=(SAID,), tools=tools, **more)


@FORMS
@given(st.lists(st.text(max_size=130), unique=True))
def test_every_name_fits_and_is_its_own(form: re.Pattern[str], given: list[str]) -> None:
    request = function_names.fit_names(asked(*(CustomTool(name=name) for name in given)), form)
    sent = [tool.name for tool in request.tools if isinstance(tool, CustomTool)]
    assert all(form.fullmatch(name) for name in sent)
    assert len(set(sent)) == len(sent)
    assert [a == b for a, b in zip(sent, given, strict=True)] == [bool(form.fullmatch(name)) for name in given]
    assert function_names.fit_names(request, form) is request


def test_tools_choices_and_calls_have_the_same_name() -> None:
    function, custom = FunctionTool(name=LONG), CustomTool(name="a b")
    others = (CodeInterpreterTool(container="cntr_1"), HostedTool({"type": "web_search"}))
    called = (
        FunctionCall(call_id="1", name=LONG, arguments="{}"),
        CustomToolCall(call_id="2", name="a b", input=""),
        FunctionCall(call_id="3", name="f", arguments="{}"),
    )
    for choice in (Choice(type="function", name=LONG), Choice(type="code_interpreter")):
        request = function_names.fit_names(
            ModelRequest(model="m", items=(SAID, *called), tools=(function, custom, *others), tool_choice=choice),
            function_names.CHAT,
        )
        one, two, *rest = request.tools
        assert isinstance(one, FunctionTool)
        assert isinstance(two, CustomTool)
        assert tuple(rest) == others
        assert request.items[0] is SAID
        assert [item.name for item in request.items[1:] if hasattr(item, "name")] == [one.name, two.name, "f"]
        assert isinstance(request.tool_choice, Choice)
        assert request.tool_choice.name == (one.name if choice.type == "function" else choice.name)
    allowed = AllowedTools(mode="auto", tools=(Choice(type="function", name=LONG), Choice(type="function", name="f")))
    request = function_names.fit_names(asked(function, custom, tool_choice=allowed), function_names.CHAT)
    assert isinstance(request.tool_choice, AllowedTools)
    assert [tool.name for tool in request.tool_choice.tools] == [getattr(request.tools[0], "name", ""), "f"]
    assert (
        function_names.fit_names(asked(function, tool_choice="required"), function_names.CHAT).tool_choice == "required"
    )


@pytest.mark.parametrize(
    ("spoken", "wire"),
    [
        ("chat", ChatWire),
        ("openai", ResponsesWire),
        ("xai", ResponsesWire),
        ("anthropic", MessagesWire),
        ("gemini", GeminiWire),
    ],
)
def test_calls_come_back_under_the_name_that_was_declared(spoken: str, wire: type[Wire]) -> None:
    dialect = GENERIC.dialect("acme", WIRES[spoken])
    request = asked(CustomTool(name="a b"), FunctionTool(name="f"))
    sent = json.loads(dialect.encode(request))["tools"]
    declared = [one for tool in sent for one in tool.get("functionDeclarations", [tool])]
    odd, plain = (tool.get("function", tool)["name"] for tool in declared)
    assert re.fullmatch("a_b_[0-9a-f]{6}", odd)
    answer = wire(1)
    calls = [Call(name, '{"input": "x"}') for name in (odd, plain)]
    decoder = dialect.decoder(request)
    deltas = decoder.feed(answer.begin() + b"".join(map(answer.call, calls)) + answer.end()) + decoder.close()
    assert [delta.name for delta in deltas if isinstance(delta, CallBegun)] == ["a b", "f"]
    assert decoder.resume() is None
