"""Tools that programs declare by habit: in namespaces, and such as only their own vendor has."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai import OpenAI
from tests.gateway.houses import CODE, Scene
from tests.gateway.test_first_minute import cell

from belljar.testing import call

PLACE: dict[str, Any] = {
    "type": "function",
    "name": "find",
    "description": "Find one.",
    "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
}
CRM: dict[str, Any] = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [PLACE]}
SEARCH = {"type": "web_search"}


def ask(client: OpenAI, **more: Any) -> Any:
    return client.responses.create(**{"model": "sim", "input": "go", **more})


def offered(scene: Scene, turn: int = -1) -> list[str]:
    return [tool["function"]["name"] for tool in scene.asked[turn].json.get("tools", ())]


def ignored(response: Any) -> list[str]:
    return [one["param"] for one in response.to_dict().get("belljar", {}).get("ignored", ())]


def test_a_function_in_a_namespace_is_called_and_answered(client: OpenAI, scene: Scene) -> None:
    scene.play([call("crm__find", name="Ada")], "Found.")
    first = ask(client, tools=[CRM, {**PLACE, "name": "crm__find"}])
    assert offered(scene) == ["crm__find_", "crm__find"], "names that others have already stay theirs"
    scene.play([call("crm__find", name="Ada")], "Found.")
    first = ask(client, tools=[CRM])
    [made] = first.output
    assert (made.name, made.namespace, made.arguments) == ("find", "crm", '{"name": "Ada"}')
    [tool] = scene.asked[-1].json["tools"]
    assert tool["function"]["description"] == "Customers.\n\nFind one."
    answer = {"type": "function_call_output", "call_id": made.call_id, "output": "Ada L."}
    then = ask(client, tools=[CRM], previous_response_id=first.id, input=[answer])
    assert then.output_text == "Found."
    again = [one for one in scene.asked[-1].json["messages"] if one.get("tool_calls")]
    assert again[0]["tool_calls"][0]["function"]["name"] == "crm__find"


def test_calls_are_streamed_with_their_namespace(client: OpenAI, scene: Scene) -> None:
    scene.play([call("crm__find", name="Ada")])
    events = list(ask(client, tools=[CRM], stream=True))
    added = [event.item for event in events if event.type == "response.output_item.added"]
    done = [event for event in events if event.type == "response.function_call_arguments.done"]
    assert [(one.name, one.namespace) for one in added] == [("find", "crm")]
    assert [one.name for one in done] == ["find"]


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "namespace", "tools": []}, "tools[0].name"),
        ({"type": "namespace", "name": "crm"}, "tools[0].tools"),
        ({"type": "namespace", "name": "crm", "tools": [{"type": "function"}]}, "tools[0].tools[0].name"),
        ({"type": "namespace", "name": "crm", "tools": [SEARCH]}, "tools[0].tools[0].type"),
        ({"type": "namespace", "name": "crm", "tools": [PLACE, PLACE]}, "tools[0].tools[1].name"),
    ],
)
def test_a_namespace_that_is_none_is_refused(client: OpenAI, scene: Scene, tool: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, tools=[tool])
    assert caught.value.param == param
    assert not scene.asked


@pytest.mark.parametrize("more", [{}, {"tool_choice": "none"}, {"tool_choice": "auto", "stream": True}])
def test_a_tool_that_nobody_can_run_is_left_out_and_told(client: OpenAI, scene: Scene, more: dict[str, Any]) -> None:
    scene.play([call("code_interpreter", code="6 * 7")], "42.")
    got = ask(client, tools=[SEARCH, *CODE, {"type": "image_generation"}], **more)
    response = list(got)[-1].response if more.get("stream") else got
    assert ignored(response) == ["tools[0]", "tools[2]"]
    assert "web_search" in response.to_dict()["belljar"]["ignored"][0]["message"]
    assert [tool.type for tool in response.tools] == ["web_search", "code_interpreter", "image_generation"]
    if more.get("tool_choice") != "none":
        assert offered(scene) == ["code_interpreter"]
        assert cell(response).status == "completed"
        assert response.output_text == "42."


def test_a_model_that_calls_what_was_left_out_is_told_so(client: OpenAI, scene: Scene) -> None:
    scene.play([call("web_search", query="news")], "I cannot search.")
    assert ask(client, tools=[SEARCH, *CODE]).output_text == "I cannot search."
    assert "no tool 'web_search'" in scene.asked[-1].json["messages"][-1]["content"]


@pytest.mark.parametrize(
    "choice",
    [
        SEARCH,
        "required",
        {"type": "allowed_tools", "mode": "required", "tools": [SEARCH]},
    ],
)
def test_it_is_refused_where_it_must_be_used(client: OpenAI, scene: Scene, choice: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, tools=[SEARCH], tool_choice=choice)
    assert caught.value.param == "tools[0].type"
    assert "web_search" in str(caught.value)
    assert not scene.asked


def test_in_the_background_too(client: OpenAI, scene: Scene) -> None:
    with pytest.raises(openai.BadRequestError):
        ask(client, tools=[SEARCH], tool_choice="required", background=True)
    with pytest.raises(openai.BadRequestError):
        ask(client, tools=[{"type": "namespace"}], background=True)
