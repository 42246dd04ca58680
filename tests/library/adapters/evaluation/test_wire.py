"""What goes out: hosted tools beside functions, containers, the choice, the form of the answer, what is included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from openai import OpenAI
from tests.gateway.houses import Scene
from tests.helpers.wire_meaning import meaning
from tests.library.adapters.evaluation.conftest import MakeAdapter
from tests.library.adapters.evaluation.replies import (
    QUERY,
    QueryParams,
    QueryResult,
    Verdict,
    calls,
    prompt,
    ran,
    says,
    whole,
)

from belljar.adapters.openai import (
    CompactionConfig,
    FileSearchConfig,
    OpenAIAdapter,
    OpenAIClientConfig,
    OpenAIHostedToolsConfig,
    OpenAIModelConfig,
)
from belljar.errors import InvalidContainer, PromptEvaluationError, PromptValidationError
from belljar.models import find
from belljar.prompt import Tool
from belljar.runtime import Session
from belljar.tools import OpenAICodeInterpreterTool, ProviderTool

AUTO = {"type": "auto", "memory_limit": "1g"}
OUTPUTS = ["code_interpreter_call.outputs"]
QUERY_ON_THE_WIRE: dict[str, Any] = {
    "type": "function",
    "name": "run_query",
    "description": "Asks the database.",
    "strict": True,
}


def sent(scene: Scene, adapter: OpenAIAdapter, session: Session, asked: Any) -> Any:
    """The one request that an evaluation makes, by what it means."""
    scene.play(says('{"summary": "s", "issues": []}'))
    adapter.evaluate(asked, session=session)
    [request] = scene.asked
    assert request.asks("responses")
    return meaning(request.json)


def test_a_prompt_goes_into_input(scene: Scene, make: MakeAdapter, session: Session) -> None:
    body = sent(scene, make(), session, prompt())
    assert body == {"model": "sim", "input": [{"role": "user", "content": "## 1. Task (task)\n\nDo it."}]}


HOSTED: dict[str, tuple[OpenAIHostedToolsConfig | None, list[dict[str, Any]]]] = {
    "none": (None, []),
    "nothing on": (OpenAIHostedToolsConfig(), []),
    "code": (
        OpenAIHostedToolsConfig(code_interpreter=True),
        [{"type": "code_interpreter", "container": AUTO}],
    ),
    "files": (
        OpenAIHostedToolsConfig(file_search=FileSearchConfig(("vs_1", "vs_2"), max_results=3)),
        [{"type": "file_search", "vector_store_ids": ["vs_1", "vs_2"], "max_num_results": 3}],
    ),
    "web": (OpenAIHostedToolsConfig(web_search=True), [{"type": "web_search"}]),
    "all": (
        OpenAIHostedToolsConfig(code_interpreter=True, file_search=FileSearchConfig(("vs_1",)), web_search=True),
        [
            {"type": "code_interpreter", "container": AUTO},
            {"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 20},
            {"type": "web_search"},
        ],
    ),
}


@pytest.mark.parametrize(("hosted", "tools"), HOSTED.values(), ids=HOSTED)
def test_hosted_tools(
    hosted: OpenAIHostedToolsConfig | None,
    tools: list[dict[str, Any]],
    scene: Scene,
    make: MakeAdapter,
    session: Session,
) -> None:
    body = sent(scene, make(hosted_tools=hosted), session, prompt())
    assert body.get("tools", []) == tools
    coding = hosted is not None and hosted.code_interpreter
    assert body.get("include") == (OUTPUTS if coding else None)


def test_function_tools_beside_hosted_ones(scene: Scene, make: MakeAdapter, session: Session) -> None:
    body = sent(scene, make(hosted_tools=HOSTED["all"][0]), session, prompt(QUERY))
    *hosted, function = body["tools"]
    assert hosted == HOSTED["all"][1]
    assert QUERY_ON_THE_WIRE.items() <= function.items()
    assert function["parameters"]["required"] == ["sql", "limit"]


@pytest.mark.parametrize(
    ("container", "wire"),
    [
        ({"type": "auto"}, AUTO),
        (
            {"type": "auto", "memory_limit": "4g", "file_ids": ["file_1"]},
            {"type": "auto", "memory_limit": "4g", "file_ids": ["file_1"]},
        ),
    ],
    ids=repr,
)
def test_a_code_interpreter_of_the_prompt(
    container: dict[str, Any], wire: Any, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(name="openai_python", container=container)
    body = sent(scene, make(hosted_tools=HOSTED["code"][0]), session, prompt(tool))
    assert body["tools"] == [{"type": "code_interpreter", "container": wire}]
    assert body["include"] == OUTPUTS


def test_any_tool_of_the_provider_goes_under_its_name(scene: Scene, make: MakeAdapter, session: Session) -> None:
    tool = ProviderTool[None, dict[str, object], dict[str, Any]](
        name="image_generation", description="Draws.", provider="openai", config={"quality": "low"}
    )
    assert sent(scene, make(), session, prompt(tool))["tools"] == [{"type": "image_generation", "quality": "low"}]


def test_a_typed_answer_and_code_in_one_request(scene: Scene, make: MakeAdapter, session: Session) -> None:
    body = sent(scene, make(hosted_tools=HOSTED["code"][0]), session, prompt(output=Verdict))
    assert body["tools"] == HOSTED["code"][1]
    assert body["text"]["format"] == {
        "type": "json_schema",
        "name": "a-prompt_schema",
        "schema": {
            "type": "object",
            "properties": {"summary": {"type": "string"}, "issues": {"type": "array", "items": {"type": "string"}}},
            "required": ["summary", "issues"],
            "additionalProperties": False,
        },
        "strict": True,
    }


@dataclass(frozen=True)
class Defaulted:
    summary: str
    score: int = 3
    notes: str | None = "none"


@dataclass(frozen=True)
class Open:
    counts: dict[str, int]


def test_a_format_is_strict_where_it_can_be(scene: Scene, make: MakeAdapter, session: Session) -> None:
    """Then what may be left out is said to be null, which stands for the default where null is no value itself."""
    scene.play(says('{"summary": "s", "score": null, "notes": null}'))
    assert make().evaluate(prompt(output=Defaulted), session=session).output == Defaulted("s", 3, None)
    form = scene.asked[0].json["text"]["format"]
    assert (form["strict"], form["schema"]["required"]) == (True, ["summary", "score", "notes"])
    assert form["schema"]["properties"]["score"]["type"] == ["integer", "null"]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (prompt(output=Open), '{"counts": {"a": 1}}'),
        (prompt(output=Verdict, allow_extra_keys=True), '{"summary": "", "issues": [], "more": 1}'),
    ],
    ids=["a map", "other keys"],
)
def test_a_format_that_cannot_be_strict(
    asked: Any, text: str, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    scene.play(says(text))
    assert make().evaluate(asked, session=session).output is not None
    form = scene.asked[0].json["text"]["format"]
    assert form["strict"] is False
    assert form["schema"]["required"]


def test_what_a_reasoning_model_is_told(scene: Scene, make: MakeAdapter, session: Session) -> None:
    config = OpenAIModelConfig(
        reasoning_effort="high", verbosity="low", safety_identifier="u-1", prompt_cache_key="reviews"
    )
    body = sent(scene, make(model="gpt-6-luna", model_config=config), session, prompt(output=Verdict))
    assert (body["reasoning"], body["text"]["verbosity"]) == ({"effort": "high"}, "low")
    assert body["text"]["format"]["type"] == "json_schema"
    assert (body["safety_identifier"], body["prompt_cache_key"]) == ("u-1", "reviews")


@pytest.mark.parametrize(
    ("model", "wanted", "effort", "verbosity"),
    [
        ("gpt-6.1-sol", "none", "low", "low"),
        ("o4-mini", "max", "high", None),
        ("gpt-4.1", "low", None, None),
        ("whatever", "minimal", "minimal", "low"),
    ],
)
def test_what_a_model_does_not_take_is_left_out(
    model: str,
    wanted: Any,
    effort: str | None,
    verbosity: str | None,
    scene: Scene,
    make: MakeAdapter,
    session: Session,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Or is the nearest that it has; one that is not in the table gets what the caller says."""
    config = OpenAIModelConfig(reasoning_effort=wanted, verbosity="low")
    body = sent(scene, make(model=model, model_config=config), session, prompt())
    assert body.get("reasoning") == (effort and {"effort": effort})
    assert body.get("text") == (verbosity and {"verbosity": verbosity})
    assert ("reasoning effort" in caplog.text, "verbosity" in caplog.text) == (effort != wanted, verbosity is None)


def test_the_model_s_settings(scene: Scene, make: MakeAdapter, session: Session) -> None:
    config = OpenAIModelConfig(
        temperature=0.5, max_tokens=100, top_p=0.9, top_logprobs=2, logprobs=True, user="u", parallel_tool_calls=False
    )
    body = sent(scene, make(model_config=config), session, prompt(QUERY))
    told = {"temperature": 0.5, "max_output_tokens": 100, "top_p": 0.9, "top_logprobs": 2, "user": "u"}
    assert told.items() <= body.items()
    assert (body["parallel_tool_calls"], body["include"]) == (False, ["message.output_text.logprobs"])
    assert "store" not in body


@pytest.mark.parametrize("name", ["seed", "stop", "presence_penalty", "frequency_penalty"])
def test_what_the_api_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"OpenAIModelConfig.{name}: the Responses API has no such parameter"):
        OpenAIModelConfig(**{name: 1})  # type: ignore[arg-type]


# -- the choice -------------------------------------------------------------------------------------------------------

CODE = {"type": "code_interpreter"}
FUNCTION = {"type": "function", "name": "run_query"}


@pytest.mark.parametrize(
    ("adapters", "prompts", "wire"),
    [
        ("auto", None, None),
        ("auto", "required", "required"),
        ("required", None, "required"),
        ("required", "auto", None),
        (None, None, None),
        ("none", None, "none"),
        ("auto", CODE, CODE),
        ("auto", FUNCTION, FUNCTION),
        ({"type": "function", "function": {"name": "run_query"}}, None, FUNCTION),
    ],
    ids=repr,
)
def test_the_prompt_s_choice_goes_before_the_adapter_s(
    adapters: Any, prompts: Any, wire: Any, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    adapter = make(tool_choice=adapters, hosted_tools=HOSTED["code"][0])
    assert sent(scene, adapter, session, prompt(QUERY, tool_choice=prompts)).get("tool_choice") == wire


def test_a_choice_is_nothing_without_tools(scene: Scene, make: MakeAdapter, session: Session) -> None:
    assert "tool_choice" not in sent(scene, make(), session, prompt())


@pytest.mark.parametrize("choice", ["required", CODE, FUNCTION], ids=repr)
@pytest.mark.parametrize("item", [calls("run_query", sql="x"), ran()], ids=["function", "hosted"])
def test_a_tool_is_forced_once(
    choice: Any, item: dict[str, Any], scene: Scene, make: MakeAdapter, session: Session
) -> None:
    scene.play(whole(item, calls("run_query", "call_2", sql="y")), says("done"))
    make(hosted_tools=HOSTED["code"][0]).evaluate(prompt(QUERY, tool_choice=choice), session=session)
    assert [meaning(one.json).get("tool_choice") for one in scene.asked] == [choice, None]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"type": "function", "name": "other"}, "is none of the tools; there are run_query"),
        ({"type": "web_search"}, "is none of the tools"),
        ("sometimes", "'sometimes' is unknown; use auto, none, required"),
        ({"type": "function"}, "is unknown"),
        ({}, "is unknown"),
    ],
    ids=repr,
)
def test_a_choice_that_cannot_be_is_refused(
    choice: Any, message: str, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    with pytest.raises(PromptValidationError, match=message):
        make(tool_choice=choice).evaluate(prompt(QUERY), session=session)
    assert scene.asked == []


def test_required_needs_a_tool(scene: Scene, make: MakeAdapter, session: Session) -> None:
    with pytest.raises(PromptValidationError, match="'required' needs a tool"):
        make(tool_choice="required").evaluate(prompt(), session=session)
    assert scene.asked == []


# -- what is wrong is said before anything is sent --------------------------------------------------------------------


def test_a_tool_of_another_provider_is_never_offered(scene: Scene, make: MakeAdapter, session: Session) -> None:
    tool = ProviderTool[None, dict[str, object], None](name="code_execution", description="d", provider="anthropic")
    with pytest.raises(PromptValidationError, match="'code_execution': is for anthropic") as caught:
        make().evaluate(prompt(QUERY, tool), session=session)
    assert isinstance(caught.value, PromptEvaluationError)
    assert (caught.value.prompt_name, caught.value.phase) == ("a-prompt", "request")
    assert scene.server.requests == []


@pytest.mark.parametrize("container", [{"type": "auto", "memory_limit": "2g"}, {"id": ""}, {}, None], ids=repr)
def test_a_bad_container_never_gets_as_far_as_a_request(
    container: Any, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    with pytest.raises(AssertionError) as caught:
        make().evaluate(prompt(OpenAICodeInterpreterTool(name="python", container=container)), session=session)
    assert isinstance(caught.value, InvalidContainer)
    assert scene.server.requests == []


def test_two_code_interpreters_are_refused(scene: Scene, make: MakeAdapter, session: Session) -> None:
    tools = [OpenAICodeInterpreterTool(name=name, container={"type": "auto"}) for name in ("one", "two")]
    with pytest.raises(PromptValidationError, match="two tools of the prompt are OpenAI's code_interpreter"):
        make().evaluate(prompt(*tools), session=session)
    assert scene.server.requests == []


def test_a_function_without_a_handler_is_refused(scene: Scene, make: MakeAdapter, session: Session) -> None:
    tool = Tool[QueryParams, QueryResult](name="later", description="d")
    with pytest.raises(PromptValidationError, match="'later': has no handler"):
        make().evaluate(prompt(tool), session=session)
    assert scene.server.requests == []


# -- the adapter itself -----------------------------------------------------------------------------------------------


def test_a_client_or_its_settings(client: OpenAI) -> None:
    with pytest.raises(ValueError, match="client and client_config exclude each other"):
        OpenAIAdapter(model="sim", client=client, client_config=OpenAIClientConfig())


def test_a_client_of_settings(scene: Scene, session: Session) -> None:
    config = OpenAIClientConfig(
        api_key="k", base_url=scene.server.base_url, organization="org_1", timeout=7.5, max_retries=3
    )
    adapter = OpenAIAdapter(model="sim", client_config=config)
    scene.play(says("hello"))
    with adapter.client as client:
        assert adapter.evaluate(prompt(), session=session).text == "hello"
    headers = scene.asked[0].headers
    assert (headers["authorization"], headers["openai-organization"]) == ("Bearer k", "org_1")
    assert (client.timeout, client.max_retries) == (7.5, 3)


def test_making_an_adapter_needs_no_key() -> None:
    assert OpenAIAdapter(model="gpt-5.2").provider == "openai"


# -- what the server may keep -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["gpt-5.2", "gpt-4o", "sim"])
def test_zero_data_retention(model: str, scene: Scene, make: MakeAdapter, session: Session) -> None:
    """What the server does not keep, it seals, so that it can be sent again; models that think have such things."""
    scene.play(whole(calls("run_query", sql="x")), says("done"))
    make(model=model, compaction=CompactionConfig(zdr_mode=True)).evaluate(prompt(QUERY), session=session)
    for one in scene.asked:
        assert one.json["store"] is False
        assert one.json.get("include") == (["reasoning.encrypted_content"] if model == "gpt-5.2" else None)


def test_keeping_and_not_keeping_at_once_is_refused() -> None:
    with pytest.raises(ValueError, match="zdr_mode forbids it"):
        OpenAIAdapter(
            model="sim", model_config=OpenAIModelConfig(store=True), compaction=CompactionConfig(zdr_mode=True)
        )


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5.2", "o3", "o4-mini"])
def test_models_with_hosted_tools(model: str) -> None:
    known = find(model)
    assert known is not None
    assert known.runs
