"""Conversations with tools on every vendor's wire, each behind a stand-in that refuses what the vendor refuses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any, cast

import pytest
from openai import OpenAI
from openai.types.responses import Response
from tests.gateway.houses import CODE, OUTPUTS, House, Scene
from tests.gateway.test_first_minute import cell, logs

from belljar.testing import ReplyStep, call

DIALECTS = {
    "mistral": "chat",
    "openai chat": "chat",
    "azure": "chat",
    "mistral model": "chat",
    "responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
"""The wire of each stand-in, by the rules that it keeps."""
NAMES = {"openai chat": "openai", "mistral model": "gpu"}
"""As an operator calls it, where that is another name: nothing tells that a model of Mistral's is behind `gpu`."""
SEEING = {"mistral model": "pixtral-12b"}
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\nprint('drawn')"
ODD = (
    "",
    "call_0",
    "functions.get_weather:0",
    "x" * 65,
    "chatcmpl-tool-" + "f" * 32,
    "über | alles ☃",
    "abcdefghi",
    "\t\n",
)
"""Ids as other servers give them, and callers."""


class Vendors:
    """One gateway with all of them behind it."""

    def __init__(self, client: OpenAI, scenes: dict[str, Scene]) -> None:
        self.client = client
        self.scenes = scenes

    def ask(self, vendor: str, *replies: ReplyStep | list[ReplyStep], **more: Any) -> Response:
        """The stand-in plays the replies, and all of them."""
        scene = self.scenes[vendor]
        scene.play(*replies)
        model = f"{NAMES.get(vendor, vendor)}/{SEEING.get(vendor, 'llava')}"
        given = {"model": model, "tools": CODE, "include": OUTPUTS, "input": "go", **more}
        response = cast(Response, self.client.responses.create(**given))
        assert response.status == "completed"
        assert scene.left == 0
        return response

    def order(self, vendor: str) -> list[str]:
        """How calls and results stand in each request."""
        return [_order(one.json) for one in self.scenes[vendor].asked]

    def sent(self, vendor: str) -> list[list[str]]:
        """The ids of the calls in each request, in order."""
        return [list(_ids(one.json)) for one in self.scenes[vendor].asked]


def _ids(body: Any) -> Iterator[str]:
    """Of calls, wherever they stand."""
    if isinstance(body, list):
        for one in body:
            yield from _ids(one)
    elif isinstance(body, dict):
        if "function" in body and "id" in body:
            yield body["id"]
        elif body.get("type") in ("function_call", "custom_tool_call"):
            yield body["call_id"]
        elif body.get("type") == "tool_use":
            yield body["id"]
        elif "functionCall" in body:
            yield body["functionCall"]["id"]
        else:
            for one in body.values():
                yield from _ids(one)


def _order(body: Any) -> str:
    """Of calls and results on any wire, as `c` and `r`."""
    if isinstance(body, list):
        return "".join(map(_order, body))
    if not isinstance(body, dict):
        return ""
    if body.get("type") in ("function_call", "tool_use") or "functionCall" in body:
        return "c"
    if body.get("type") in ("function_call_output", "tool_result") or "functionResponse" in body:
        return "r"
    if body.get("role") == "tool":
        return "r"
    if "tool_calls" in body:
        return "c" * len(body["tool_calls"])
    return "".join(map(_order, body.values()))


@pytest.fixture(scope="module")
def vendors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vendors]:
    state = tmp_path_factory.mktemp("vendors") / "state"
    scenes = {vendor: Scene(vendor, [SEEING.get(vendor, "llava")]) for vendor in DIALECTS}
    with ExitStack() as stack:
        upstreams = {
            NAMES.get(vendor, vendor): {
                "base_url": stack.enter_context(scene.server).base_url,
                "dialect": DIALECTS[vendor],
                "api_key": "none",
            }
            for vendor, scene in scenes.items()
        }
        upstreams["responses"]["quirks"] = "openai"
        settings = state.with_name("belljar.yaml")
        settings.write_text(json.dumps({"upstreams": upstreams}))
        house = stack.enter_context(House(state, "--config", str(settings)))
        client = stack.enter_context(OpenAI(base_url=house.base_url, api_key="none", max_retries=0))
        yield Vendors(client, scenes)


@pytest.fixture(params=list(DIALECTS))
def vendor(request: pytest.FixtureRequest) -> str:
    return cast(str, request.param)


def code(*cells: str) -> list[ReplyStep]:
    return [call("code_interpreter", code=one) for one in cells]


def history(ids: Iterable[str]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [{"role": "user", "content": "How is it?"}]
    for id in ids:
        items.append({"type": "function_call", "call_id": id, "name": "get_weather", "arguments": "{}"})
        items.append({"type": "function_call_output", "call_id": id, "output": f"It is fine, says {id!r}."})
    return [*items, {"role": "assistant", "content": "Fine."}, {"role": "user", "content": "And now?"}]


def test_code_runs_and_the_model_hears_of_it_and_so_it_goes_on(vendors: Vendors, vendor: str) -> None:
    first = vendors.ask(vendor, code(PLOT, "x = 6 * 7"), code("print(x)"), "It is 42.")
    assert logs(first, 2) == "42\n"
    assert first.output_text == "It is 42."
    turns = vendors.sent(vendor)
    second = vendors.ask(vendor, code("print(x + 1)"), "43.", previous_response_id=first.id)
    assert logs(second) == "43\n"
    turns += vendors.sent(vendor)
    assert [len(set(turn)) for turn in turns] == [0, 2, 3, 3, 4]
    for before, after in pairwise(turns):
        assert after[: len(before)] == before


def said_to(body: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """A request as its server reads it: the conversation piece by piece, and what stands before it."""
    [name] = {"messages", "input", "contents"} & set(body)
    pieces: list[Any] = []
    for one in body[name]:
        inside = one.get("parts") or one.get("content")
        whole = not isinstance(inside, list)
        pieces += [one] if whole else [(one["role"], piece) for piece in inside]
    return pieces, {key: value for key, value in body.items() if key != name}


def test_nothing_that_the_model_has_read_changes_from_turn_to_turn(vendors: Vendors, vendor: str) -> None:
    """Servers keep what they have read as long as the next request begins with it."""
    scene = vendors.scenes[vendor]
    file = vendors.client.files.create(file=("up.csv", b"a\n1\n"), purpose="user_data")
    given = [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}, {"type": "input_file", "file_id": file.id}]}
    ]
    turns: list[Any] = []
    previous: Response | None = None
    for input, *script in (
        (given, code("open('made.txt', 'w').write('x'); 1", "print('y' * 30_000)"), code(PLOT), "Made."),
        ("And?", "Nothing to run."),
        ("Delete it.", code("import os; os.remove('made.txt'); 1 / 0"), "Gone."),
        ("And?", code("2"), "Two."),
    ):
        chain = {} if previous is None else {"previous_response_id": previous.id}
        previous = vendors.ask(vendor, *cast(Any, script), input=input, **chain)
        turns += [said_to(one.json) for one in scene.asked]
        if len(turns) == 3:  # somebody else puts a file there, between two responses
            vendors.client.containers.files.create(cell(previous).container_id, file=("late.csv", b"b"))
    assert len(turns) == 8
    for (before, front), (after, same) in pairwise(turns):
        assert after[: len(before)] == before
        assert same == front
    assert "late.csv" in json.dumps(turns[-1][0])
    assert "late.csv" not in json.dumps(turns[-1][1])


def test_calls_that_were_made_together_go_back_together(vendors: Vendors, vendor: str) -> None:
    first = vendors.ask(vendor, ["Let me see.", *code("1", "2")], code("3"), code("4", "5", "6"), "Done.")
    assert vendors.order(vendor) == ["", "ccrr", "ccrrcr", "ccrrcrcccrrr"]
    items = [{"role": "user", "content": "go"}, *(one.model_dump() for one in first.output)]
    for chain in ({"previous_response_id": first.id}, {"input": [*items, {"role": "user", "content": "Again."}]}):
        vendors.ask(vendor, code("7", "8"), "Done.", **chain)
        assert vendors.order(vendor) == ["ccrrcrcccrrr", "ccrrcrcccrrrccrr"]


@pytest.mark.parametrize(
    "made", [["code", "weather"], ["weather", "code"], ["code", "weather", "code", "weather"]], ids=" ".join
)
def test_code_and_functions_that_were_called_together_go_back_together(
    vendors: Vendors, vendor: str, made: list[str]
) -> None:
    calls = [call("get_weather", city="Rome") if one == "weather" else code("1")[0] for one in made]
    tools = [*CODE, WEATHER]
    first = vendors.ask(vendor, code("0"), [*calls], tools=tools)
    asked = [item.call_id for item in first.output if item.type == "function_call"]
    given = [{"type": "function_call_output", "call_id": id, "output": "fine"} for id in asked]
    second = vendors.ask(vendor, "Fine.", tools=tools, input=given, previous_response_id=first.id)
    together = "c" * len(made) + "r" * len(made)
    assert vendors.order(vendor) == [f"cr{together}"]
    vendors.ask(vendor, [call("get_weather", city="Oslo")], tools=tools, previous_response_id=second.id)
    assert vendors.order(vendor) == [f"cr{together}"]


@pytest.mark.parametrize("at", range(3))
def test_a_call_of_a_tool_that_there_is_not_beside_others(vendors: Vendors, vendor: str, at: int) -> None:
    calls = code("1", "2")
    calls.insert(at, call("browse", url="x"))
    first = vendors.ask(vendor, calls, code("3"), "Done.")
    assert vendors.order(vendor) == ["", "cccrrr", "cccrrrcr"]
    vendors.ask(vendor, "Done.", previous_response_id=first.id)
    assert vendors.order(vendor) == ["ccrrcr"]


@pytest.mark.parametrize("after", ["assistant", "developer", "user"])
def test_another_call_that_never_comes(vendors: Vendors, vendor: str, after: str) -> None:
    """A caller may have left it out, or made it up."""
    ran = {"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "1", "container_id": "cntr_1"}
    items = [
        {"role": "user", "content": "go"},
        {**ran, "outputs": [{"type": "logs", "logs": "1"}], "belljar": {"exit": "ok", "more": True}},
        {"role": after, "content": "So be it."},
        {"role": "user", "content": "And?"},
    ]
    assert vendors.ask(vendor, "Fine.", input=items).output_text == "Fine."
    assert vendors.order(vendor) == ["cr"]


def test_a_chain_goes_from_vendor_to_vendor(vendors: Vendors) -> None:
    previous: Response | None = None
    for number, vendor in enumerate([*DIALECTS, *reversed(DIALECTS)]):
        tools = [*CODE, WEATHER]
        chain = {} if previous is None else {"previous_response_id": previous.id}
        wants = vendors.ask(
            vendor, code(f"n = {number}\nprint(n)"), [call("get_weather", city="Rome")], tools=tools, **chain
        )
        asked = wants.output[-1]
        assert asked.type == "function_call"
        output = {"type": "function_call_output", "call_id": asked.call_id, "output": "25 degrees"}
        previous = vendors.ask(vendor, "Sunny.", tools=tools, input=[output], previous_response_id=wants.id)
        [ids] = vendors.sent(vendor)
        assert len(set(ids)) == 2 * (number + 1)


def test_a_chain_whose_items_the_caller_keeps(vendors: Vendors) -> None:
    items: list[Any] = [{"role": "user", "content": "go"}]
    for vendor in DIALECTS:
        response = vendors.ask(vendor, code("print(1)"), "One.", input=items, store=False)
        items += [item.model_dump(exclude_none=True) for item in response.output]
        items.append({"role": "user", "content": "again"})


def test_ids_that_came_from_elsewhere(vendors: Vendors, vendor: str) -> None:
    response = vendors.ask(vendor, code("1"), "done", input=history([*ODD, *ODD]))
    assert cell(response).status == "completed"
    first, second = vendors.sent(vendor)
    assert len(set(first)) == len(first) == 2 * len(ODD)
    assert second[:-1] == first


def test_the_vendors_own_id_goes_back_as_it_came(vendors: Vendors) -> None:
    for vendor in ("openai chat", "azure", "responses", "anthropic", "gemini"):
        wants = vendors.ask(vendor, [call("get_weather", city="Rome")], tools=[WEATHER])
        asked = wants.output[-1]
        assert asked.type == "function_call"
        output = {"type": "function_call_output", "call_id": asked.call_id, "output": "25 degrees"}
        vendors.ask(vendor, "Sunny.", tools=[WEATHER], input=[output], previous_response_id=wants.id)
        assert vendors.sent(vendor) == [[asked.call_id]]


@pytest.mark.parametrize("name", ["mcp__a_server__" + "f" * 100, "2fa-check", "-"])
def test_functions_whose_names_not_everybody_takes(vendors: Vendors, vendor: str, name: str) -> None:
    tools = [{**WEATHER, "name": name}, WEATHER]
    vendors.ask(vendor, "Well.", tools=tools)
    declared = _declared(vendors.scenes[vendor].asked[0].json)
    wants = vendors.ask(vendor, [call(declared[0], city="Rome")], tools=tools)
    asked = wants.output[-1]
    assert asked.type == "function_call"
    assert asked.name == name
    output = {"type": "function_call_output", "call_id": asked.call_id, "output": "25 degrees"}
    again = {"tools": tools, "tool_choice": {"type": "function", "name": name}, "previous_response_id": wants.id}
    done = vendors.ask(vendor, [call(declared[0], city="Oslo")], input=[output], **again)
    assert done.output[-1].type == "function_call"
    assert declared[1] == "get_weather"


def _declared(body: Any) -> list[str]:
    tools = [one for tool in body["tools"] for one in tool.get("functionDeclarations", [tool])]
    return [tool.get("function", tool)["name"] for tool in tools]


def test_a_call_of_a_tool_that_there_is_not_under_a_name_that_cannot_be(vendors: Vendors, vendor: str) -> None:
    response = vendors.ask(vendor, [call("python.run/it now", x=1)], "Sorry.")
    assert response.output_text == "Sorry."


def test_names_of_calls_that_the_caller_made_up(vendors: Vendors, vendor: str) -> None:
    items = history(["call_1"])
    items[1]["name"] = "weather.get: the odd one, and " + "x" * 200
    assert vendors.ask(vendor, "Fine.", input=items).output_text == "Fine."


def test_a_call_that_was_interrupted(vendors: Vendors, vendor: str) -> None:
    """Nobody answers after the result: the user speaks again, and the operator does."""
    first = vendors.ask(vendor, code("print(1)"), "", max_tool_calls=1)
    items = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "And?"}]
    second = vendors.ask(vendor, "Done.", input=items, previous_response_id=first.id)
    assert second.output_text == "Done."


def test_chat_completions_with_ids_that_came_from_elsewhere(vendors: Vendors, vendor: str) -> None:
    scene = vendors.scenes[vendor]
    scene.play("Fine.")
    messages: list[Any] = [{"role": "user", "content": "How is it?"}]
    for id in ODD:
        function = {"name": "get_weather", "arguments": "{}"}
        messages.append(
            {"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]}
        )
        messages.append({"role": "tool", "tool_call_id": id, "content": "fine"})
    model = f"{NAMES.get(vendor, vendor)}/{SEEING.get(vendor, 'llava')}"
    answer = vendors.client.chat.completions.create(model=model, messages=messages)
    assert answer.choices[0].message.content == "Fine."
