"""A turn as Gemini is asked it: roles in turn, calls with their results and signatures, what each family takes."""

import base64
import json
from typing import Any

import pytest
from google.genai import types
from msgspec import structs
from tests.unit.vendors.conftest import chunks, play, stream

from belljar.errors import InvalidRequest
from belljar.models import EFFORTS, get_models_by_provider
from belljar.vendors.deltas import CallBegun, CallEnd, HostedEnd, Text, ThoughtEnd, VendorState
from belljar.vendors.gemini.dialect import GeminiDialect
from belljar.vendors.gemini.models import FAMILIES, family
from belljar.vendors.gemini.signatures import SKIPPED, Signed, pack_signature
from belljar.vendors.gemini.stream import GeminiDecoder
from belljar.vendors.registry import KINDS
from belljar.vendors.request import Asked, AttachedFiles, HostedFile, ModelRequest, VendorFile, Verbatim
from belljar.wire.items import (
    CellEnd,
    CodeInterpreterCall,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Image,
    InputAudio,
    InputFile,
    InputImage,
    InputItem,
    InputText,
    ItemReference,
    Logs,
    Message,
    OutputText,
    Reasoning,
    Refusal,
    SummaryText,
)
from belljar.wire.responses import Reasoner, TextConfig, TextFormat
from belljar.wire.tools import (
    AllowedTools,
    AutoContainer,
    Choice,
    CodeInterpreterTool,
    CustomTool,
    FunctionTool,
    HostedTool,
    ToolChoice,
)

PNG = "data:image/png;base64,iVBORw=="
SEEN = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
RUN = FunctionTool(name="code_interpreter", parameters={"type": "object", "properties": {"code": {"type": "string"}}})
HOSTED = CodeInterpreterTool(container=AutoContainer())
NEW, OLD, THINKING = "gemini-3-flash-preview", "gemini-2.0-flash", "gemini-2.5-flash"
HI = Message(role="user", content="Hi")
HI_SAID = {"role": "user", "parts": [{"text": "Hi"}]}


def body(*items: Asked, model: str = NEW, quirks: str = "generic", **more: Any) -> dict[str, Any]:
    found = json.loads(GeminiDialect(KINDS[quirks]).encode(ModelRequest(model=model, items=items, **more)))
    assert isinstance(found, dict)
    reads(found)
    return found


def reads(found: dict[str, Any]) -> None:
    """The official SDK's types know every member that we send."""
    known = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}
    assert set(found) <= known
    for content in found["contents"]:
        types.Content.model_validate(_bytes(content))
    if "systemInstruction" in found:
        types.Content.model_validate(found["systemInstruction"])
    for tool in found.get("tools", ()):
        types.Tool.model_validate(tool)
    types.ToolConfig.model_validate(found.get("toolConfig", {}))
    types.GenerationConfig.model_validate(found.get("generationConfig", {}))


def _bytes(value: Any) -> Any:
    """Signatures are bytes to the SDK: ours are made up, so any will do."""
    if isinstance(value, dict):
        return {key: base64.b64encode(b"s") if key == "thoughtSignature" else _bytes(one) for key, one in value.items()}
    return [_bytes(one) for one in value] if isinstance(value, list) else value


def signed(on: str, signature: str = "S", by: str = "gemini", **more: Any) -> Reasoning:
    return Reasoning(encrypted_content=pack_signature(by, Signed(on, signature)), **more)  # type: ignore[arg-type]


def cell(id: str = "ci_1", code: str = "6*7", **more: Any) -> CodeInterpreterCall:
    outputs = more.pop("outputs", (Logs(logs="42\n"),))
    return CodeInterpreterCall(
        id=id, status=more.pop("status", "completed"), code=code, container_id="c", outputs=outputs, **more
    )


def called(id: str, name: str, args: dict[str, Any], signature: str | None = SKIPPED) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"id": id, "name": name, "args": args}}
    return {**part, "thoughtSignature": signature} if signature else part


def answered(id: str, name: str, output: str, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": name, "response": {"output": output}, **more}}


# -- the conversation -------------------------------------------------------------------------------------------------


def test_the_least() -> None:
    assert body(HI) == {"contents": [HI_SAID]}
    assert body() == {"contents": [{"role": "user", "parts": [{"text": ""}]}]}


def test_where_and_how() -> None:
    assert GeminiDialect.path == "/models/{model}:streamGenerateContent?alt=sse"
    assert GeminiDialect.list_path.startswith("/models")
    assert GeminiDialect().headers("k") == {"x-goog-api-key": "k"}
    assert GeminiDialect(KINDS["vertex"]).headers("k") == {"authorization": "Bearer k"}
    assert GeminiDialect().headers(None) == {}


def test_orders_have_one_place() -> None:
    items = (
        Message(role="developer", content="Be brief."),
        HI,
        Message(role="system", content=(InputText(text="In French."),)),
    )
    found = body(*items, instructions="Help.")
    assert found["systemInstruction"] == {"parts": [{"text": "Help.\n\nBe brief.\n\nIn French."}]}
    assert found["contents"] == [HI_SAID]


def test_roles_take_turns() -> None:
    items = (
        Message(role="user", content="a"),
        Message(role="user", content=(InputText(text="b"), InputText(text=""))),
        Message(role="assistant", content=(OutputText(text="c"), Refusal(refusal="d"))),
        Message(role="assistant", content="e"),
        HI,
    )
    assert body(*items)["contents"] == [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
        {"role": "model", "parts": [{"text": "c"}, {"text": "d"}, {"text": "e"}]},
        HI_SAID,
    ]


def test_the_user_comes_first() -> None:
    first, second = body(Message(role="assistant", content="a"))["contents"]
    assert first == {"role": "user", "parts": [{"text": ""}]}
    assert second == {"role": "model", "parts": [{"text": "a"}]}


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (InputImage(image_url=PNG), SEEN),
        (
            InputImage(image_url="https://x.example/a.jpg?b=c"),
            {"fileData": {"fileUri": "https://x.example/a.jpg?b=c", "mimeType": "image/jpeg"}},
        ),
        (
            InputImage(image_url="gs://b/a"),
            {"fileData": {"fileUri": "gs://b/a", "mimeType": "application/octet-stream"}},
        ),
        (InputImage(file_id="file-1"), {"text": "[attached image: file-1]"}),
        (
            InputFile(file_data="data:application/pdf;base64,JVBERg==", filename="a.pdf"),
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
        ),
        (
            InputFile(file_data="data:text/csv;charset=utf-8;base64,YQ=="),
            {"inlineData": {"mimeType": "text/csv", "data": "YQ=="}},
        ),
        (
            InputFile(file_url="https://x.example/a.pdf"),
            {"fileData": {"fileUri": "https://x.example/a.pdf", "mimeType": "application/pdf"}},
        ),
        (InputFile(file_id="file-1", filename="a.csv"), {"text": "[attached file: a.csv]"}),
        (InputFile(file_id="file-1"), {"text": "[attached file: file-1]"}),
        (
            InputAudio(input_audio={"data": "AAAA", "format": "wav"}),
            {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}},
        ),
    ],
)
def test_parts(part: Any, said: dict[str, Any]) -> None:
    assert body(Message(role="user", content=(part,)))["contents"] == [{"role": "user", "parts": [said]}]


@pytest.mark.parametrize(
    "content",
    [
        "",
        (InputText(text=""),),
        (InputImage(),),
        (InputFile(file_data="YQ=="),),
        (InputAudio(input_audio={"format": "wav"}),),
    ],
)
def test_what_says_nothing_is_left_out(content: Any) -> None:
    assert body(HI, Message(role="user", content=content))["contents"] == [HI_SAID]


@pytest.mark.parametrize("item", [Compaction(encrypted_content="x"), ItemReference(id="x")])
def test_what_it_cannot_be_given(item: InputItem) -> None:
    with pytest.raises(InvalidRequest, match="send the items that it stands for"):
        body(item)


# -- calls ------------------------------------------------------------------------------------------------------------


def test_calls_made_at_once_and_their_results() -> None:
    items = (
        HI,
        Message(role="assistant", content="Let me see."),
        FunctionCall(call_id="a", name="f", arguments='{"n": 1}'),
        FunctionCall(call_id="b", name="g", arguments=""),
        FunctionCallOutput(call_id="b", output="two"),
        FunctionCallOutput(call_id="a", output=(InputText(text="one"), InputImage(image_url=PNG))),
        Message(role="user", content="Well?"),
    )
    assert body(*items)["contents"] == [
        HI_SAID,
        {
            "role": "model",
            "parts": [{"text": "Let me see."}, called("a", "f", {"n": 1}), called("b", "g", {}, None)],
        },
        {"role": "user", "parts": [answered("a", "f", "one", parts=[SEEN]), answered("b", "g", "two")]},
        {"role": "user", "parts": [{"text": "Well?"}]},
    ]


def test_images_among_results_stand_apart_for_older_families() -> None:
    found = body(HI, cell(), model=THINKING, call_images={"ci_1": (PNG,)})["contents"]
    assert found[1:] == [
        {"role": "model", "parts": [called("ci_1", "code_interpreter", {"code": "6*7"}, None)]},
        {"role": "user", "parts": [answered("ci_1", "code_interpreter", "42\n")]},
        {"role": "user", "parts": [SEEN]},
    ]


def test_a_custom_tools_call() -> None:
    items = (
        CustomToolCall(call_id="a", name="sh", input="ls"),
        CustomToolCallOutput(call_id="a", output="x"),
    )
    _, model, user = body(*items)["contents"]
    assert model["parts"] == [called("a", "sh", {"input": "ls"})]
    assert user["parts"] == [answered("a", "sh", "x")]


@pytest.mark.parametrize(
    ("arguments", "args"), [("[1]", {"arguments": [1]}), ("{oops", {"arguments": "{oops"}), ("", {})]
)
def test_arguments_that_are_no_object(arguments: str, args: dict[str, Any]) -> None:
    _, model, _ = body(FunctionCall(call_id="a", name="f", arguments=arguments))["contents"]
    assert model["parts"] == [called("a", "f", args)]


def test_a_call_without_a_result_has_an_empty_one() -> None:
    *_, last = body(HI, FunctionCall(call_id="a", name="f", arguments="{}"))["contents"]
    assert last == {"role": "user", "parts": [answered("a", "f", "")]}


def test_a_result_without_a_call_is_left_out() -> None:
    orphans = FunctionCallOutput(call_id="a", output="x"), CustomToolCallOutput(call_id="b", output="y")
    assert body(orphans[0], HI, orphans[1])["contents"] == [HI_SAID]


def test_an_id_that_comes_again_becomes_another() -> None:
    one = FunctionCall(call_id="a", name="f", arguments="{}")
    calls = (one, one, FunctionCallOutput(call_id="a", output="x"), FunctionCallOutput(call_id="a", output="y"))
    _, (first, second), (x, y) = (one["parts"] for one in body(HI, *calls)["contents"])
    other = second["functionCall"]["id"]
    assert other != "a"
    assert (first, x) == (called("a", "f", {}), answered("a", "f", "x"))
    assert (second, y) == (called(other, "f", {}, None), answered(other, "f", "y"))


def test_a_cell_that_we_ran() -> None:
    found = body(HI, cell(), call_outputs={"ci_1": "It printed 42."}, call_images={"ci_1": (PNG,)})["contents"]
    assert found[1:] == [
        {"role": "model", "parts": [called("ci_1", "code_interpreter", {"code": "6*7"})]},
        {"role": "user", "parts": [answered("ci_1", "code_interpreter", "It printed 42.", parts=[SEEN])]},
    ]


@pytest.mark.parametrize(("model", "contents"), [(NEW, 3), (THINKING, 5)])
def test_cells_are_one_step_only_where_signatures_would_tell_them_apart(model: str, contents: int) -> None:
    found = body(HI, cell("ci_1"), cell("ci_2"), model=model)["contents"]
    assert len(found) == contents


def test_a_cell_that_gemini_ran() -> None:
    items = (
        HI,
        signed("code"),
        cell("ci_abc", outputs=(Logs(logs="42\n"), Image(url=PNG)), belljar=CellEnd(exit="ok")),
        Message(role="assistant", content="It is 42."),
    )
    found = body(*items, tools=(HOSTED,))
    assert found["tools"] == [{"codeExecution": {}}]
    assert "toolConfig" not in found
    assert found["contents"][1]["parts"] == [
        {"executableCode": {"language": "PYTHON", "code": "6*7", "id": "abc"}, "thoughtSignature": "S"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n", "id": "abc"}},
        SEEN,
        {"text": "It is 42."},
    ]


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({"belljar": CellEnd(exit="raised")}, "OUTCOME_FAILED"),
        ({"status": "failed"}, "OUTCOME_DEADLINE_EXCEEDED"),
        ({}, "OUTCOME_OK"),
    ],
)
def test_how_a_cell_ended_there(more: dict[str, Any], outcome: str) -> None:
    parts = body(HI, cell(**more), tools=(HOSTED,))["contents"][1]["parts"]
    assert parts[1]["codeExecutionResult"]["outcome"] == outcome


# -- signatures -------------------------------------------------------------------------------------------------------


def test_each_step_has_its_signature() -> None:
    items = (
        HI,
        signed("call", "S1"),
        cell("ci_1"),
        cell("ci_2"),
        signed("call", "S2"),
        cell("ci_3"),
        Message(role="assistant", content="Done.", sealed=pack_signature("gemini", Signed("text", "S3"))),
    )
    contents = body(*items)["contents"]
    assert [(one["role"], len(one["parts"])) for one in contents] == [
        ("user", 1),
        ("model", 2),
        ("user", 2),
        ("model", 1),
        ("user", 1),
        ("model", 2),
    ]
    assert [part.get("thoughtSignature") for one in contents for part in one["parts"] if one["role"] == "model"] == [
        "S1",
        None,
        "S2",
        None,
        "S3",
    ]
    assert contents[-1]["parts"] == [{"text": "Done."}, {"text": "", "thoughtSignature": "S3"}]


def test_a_signed_thought_goes_back_as_one() -> None:
    contents = body(HI, signed("thought", summary=(SummaryText(text="Hm"),)), Message(role="assistant", content="a"))
    assert contents["contents"][1]["parts"] == [{"text": "Hm", "thought": True, "thoughtSignature": "S"}, {"text": "a"}]


@pytest.mark.parametrize(
    "other",
    [
        Reasoning(encrypted_content="gAAAAB-of-openai"),
        Reasoning(encrypted_content="anthropic:sig"),
        Reasoning(encrypted_content="gemini:not JSON"),
        Reasoning(encrypted_content='gemini:{"on":"elsewhere","signature":"x"}'),
        signed("call", by="vertex"),
        Message(role="assistant", content=(), sealed="vertex:x"),
        Reasoning(summary=(SummaryText(text="Hm"),)),
    ],
)
def test_no_other_vendors_seal_is_sent(other: InputItem) -> None:
    found = body(HI, other, cell())
    assert "S" not in json.dumps(found["contents"]).split('"')
    assert found["contents"][1]["parts"] == [called("ci_1", "code_interpreter", {"code": "6*7"})]


def test_vertex_gets_its_own() -> None:
    found = body(HI, signed("call", by="vertex"), cell(), quirks="vertex")
    assert found["contents"][1]["parts"][0]["thoughtSignature"] == "S"


def test_a_family_that_does_not_sign_gets_no_stand_in() -> None:
    assert "thoughtSignature" not in json.dumps(body(HI, cell(), model=THINKING))
    assert "thoughtSignature" not in json.dumps(body(HI, cell(), model=OLD))


def test_a_recorded_answer_goes_back_as_it_came() -> None:
    payloads = chunks("gemini/google-tool-call-gemini3.chunks.txt")
    deltas = play(GeminiDecoder, stream(payloads, done=False))
    (begun,) = (delta for delta in deltas if isinstance(delta, CallBegun))
    (end,) = (delta for delta in deltas if isinstance(delta, CallEnd))
    (thought,) = (delta.item for delta in deltas if isinstance(delta, ThoughtEnd))
    call = FunctionCall(call_id=begun.call_id, name=begun.name, arguments=end.arguments)
    (part,) = body(HI, thought, call)["contents"][1]["parts"]
    recorded = json.loads(payloads[0])["candidates"][0]["content"]["parts"][0]
    del part["functionCall"]["id"]
    assert part == recorded


def test_a_recorded_run_goes_back_as_it_came() -> None:
    from tests.unit.vendors.gemini.test_stream import exchanges

    first, second = exchanges("gemini/test_code_execution.yaml")
    deltas = play(GeminiDecoder, json.dumps(first["response"]["parsed_body"]).encode())
    items: list[InputItem] = [Message(role="user", content="What day is today in Utrecht?")]
    for delta in deltas:
        match delta:
            case ThoughtEnd(item):
                items.append(item)
            case HostedEnd(_, cell):
                items.append(cell)
            case Text(text):
                items.append(Message(role="assistant", content=text))
            case VendorState(content):
                assert isinstance(items[-1], Message)
                items[-1] = structs.replace(items[-1], sealed=content)
    items.append(Message(role="user", content="What day is tomorrow?"))
    found = body(*items, tools=(HOSTED,))["contents"]
    expected = second["request"]["parsed_body"]["contents"]
    text = expected[1]["parts"].pop()  # its signature goes behind the text, as it comes in a stream
    expected[1]["parts"] += [{"text": text["text"]}, {"text": "", "thoughtSignature": text["thoughtSignature"]}]
    assert plain(found) == plain(expected)


def plain(value: Any) -> str:
    """In one alphabet of base64: the recorder used the other one when it sent signatures back."""
    return json.dumps(value, sort_keys=True).replace("_", "/").replace("-", "+")


# -- tools ------------------------------------------------------------------------------------------------------------


def test_functions() -> None:
    tools = (
        FunctionTool(
            name="f",
            description="Does f.",
            parameters={"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": False},
        ),
        FunctionTool(name="g"),
        CustomTool(name="sh", description="A shell."),
        CustomTool(name="q", format={"type": "grammar", "syntax": "lark", "definition": "start: X"}),
    )
    (tool,) = body(HI, tools=tools)["tools"]
    free = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    assert tool["functionDeclarations"] == [
        {
            "name": "f",
            "description": "Does f.",
            "parametersJsonSchema": {
                "type": "object",
                "properties": {"a": {"enum": [1]}},
                "additionalProperties": False,
            },
        },
        {"name": "g", "parametersJsonSchema": {"type": "object", "properties": {}}},
        {"name": "sh", "description": "A shell.", "parametersJsonSchema": free},
        {
            "name": "q",
            "description": "The input must fit this lark grammar:\nstart: X",
            "parametersJsonSchema": free,
        },
    ]


F, G = FunctionTool(name="f"), FunctionTool(name="g", strict=True)


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (Choice(type="function", name="f"), {"mode": "ANY", "allowedFunctionNames": ["f"]}),
        (Choice(type="code_interpreter"), {"mode": "ANY", "allowedFunctionNames": ["code_interpreter"]}),
        (
            AllowedTools(mode="required", tools=(Choice(type="function", name="g"),)),
            {"mode": "ANY", "allowedFunctionNames": ["g"]},
        ),
        (
            AllowedTools(mode="auto", tools=(Choice(type="function", name="g"),)),
            {"mode": "VALIDATED", "allowedFunctionNames": ["g"]},
        ),
        (Choice(type="function", name="absent"), None),
    ],
)
def test_which_functions_must_be_used(choice: ToolChoice, config: dict[str, Any] | None) -> None:
    found = body(HI, tools=(F, G, RUN), tool_choice=choice)
    assert found.get("toolConfig") == (None if config is None else {"functionCallingConfig": config})


def test_strict_functions_are_held_to_their_schema() -> None:
    assert body(HI, tools=(G,))["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert "toolConfig" not in body(HI, tools=(G,), model=OLD)


def test_vertex_streams_arguments() -> None:
    asked = {"functionCallingConfig": {"streamFunctionCallArguments": True}}
    assert body(HI, tools=(F,), quirks="vertex")["toolConfig"] == asked
    assert "toolConfig" not in body(HI, tools=(F,), quirks="vertex", model=THINKING)
    assert "toolConfig" not in body(HI, quirks="vertex")


def test_functions_beside_its_own_code_execution() -> None:
    found = body(HI, tools=(F, HOSTED))
    assert [list(tool) for tool in found["tools"]] == [["functionDeclarations"], ["codeExecution"]]
    assert found["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert "includeServerSideToolInvocations" not in json.dumps(body(HI, tools=(F, HOSTED), quirks="vertex"))


def test_what_nobody_there_can_run() -> None:
    with pytest.raises(InvalidRequest, match="'web_search'") as caught:
        body(HI, tools=(HostedTool({"type": "web_search"}),))
    assert caught.value.param == "tools"


# -- generation -------------------------------------------------------------------------------------------------------


def test_limits() -> None:
    found = body(HI, max_output_tokens=5, temperature=0.0, top_p=0.5)
    assert found["generationConfig"] == {"maxOutputTokens": 5, "temperature": 0.0, "topP": 0.5}


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        (NEW, "none", {"thinkingLevel": "MINIMAL"}),
        (NEW, "medium", {"thinkingLevel": "MEDIUM"}),
        (NEW, "max", {"thinkingLevel": "HIGH"}),
        ("gemini-3-pro-preview", "minimal", {"thinkingLevel": "LOW"}),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "LOW"}),
        ("gemini-3.8-flash", "none", {"thinkingLevel": "LOW"}),
        ("publishers/google/models/gemini-4-argon", "low", {"thinkingLevel": "LOW"}),
        ("gemini-9-unheard-of", "high", {"thinkingLevel": "HIGH"}),
        (THINKING, "none", {"thinkingBudget": 0}),
        (THINKING, "low", {"thinkingBudget": 2048}),
        (THINKING, "xhigh", {"thinkingBudget": 24576}),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}),
        ("gemini-2.5-pro", "max", {"thinkingBudget": 32768}),
        (OLD, "high", None),
        ("gemma-3-27b-it", "high", None),
    ],
)
def test_how_hard_it_thinks(model: str, effort: Any, config: dict[str, Any] | None) -> None:
    found = body(HI, model=model, reasoning=Reasoner(effort=effort))
    assert found.get("generationConfig", {}).get("thinkingConfig") == config


def test_thoughts_are_shown_where_asked_for() -> None:
    shown = {"thinkingConfig": {"includeThoughts": True}}
    assert body(HI, reasoning=Reasoner(summary="auto"))["generationConfig"] == shown
    assert "generationConfig" not in body(HI, reasoning=Reasoner())
    assert "generationConfig" not in body(HI, model=OLD, reasoning=Reasoner(summary="auto"))


def test_every_family_knows_every_effort() -> None:
    for _, found in FAMILIES:
        for effort in EFFORTS:
            assert bool(found.write_thinking(effort)) == found.thinks


def test_the_models_table_offers_what_the_families_take() -> None:
    levels = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
    for row in get_models_by_provider("gemini"):
        kind = family(row.id)
        if kind.budget is None:
            assert tuple(levels[effort] for effort in row.efforts) == kind.levels, row.id
        else:
            assert ("none" in row.efforts) == (kind.budget[0] == 0), row.id


FORM = TextFormat(type="json_schema", name="n", schema={"type": "object", "title": "T"}, strict=True)


def test_forms_of_an_answer() -> None:
    plain = {"responseMimeType": "application/json"}
    assert "generationConfig" not in body(HI, text=TextConfig())
    assert body(HI, text=TextConfig(format=TextFormat(type="json_object")))["generationConfig"] == plain
    with_schema = {**plain, "responseJsonSchema": {"type": "object"}}
    assert body(HI, text=TextConfig(format=FORM))["generationConfig"] == with_schema
    assert body(HI, text=TextConfig(format=FORM), model=OLD)["generationConfig"] == with_schema
    assert body(HI, text=TextConfig(format=FORM), tools=(F,))["generationConfig"] == with_schema


def test_a_form_beside_functions_is_told_in_words_to_older_families() -> None:
    found = body(HI, text=TextConfig(format=FORM), tools=(F,), model=THINKING, instructions="Help.")
    assert "generationConfig" not in found
    (part,) = found["systemInstruction"]["parts"]
    assert part["text"].startswith("Help.\n\nWhen you answer")
    assert '{"type":"object","title":"T"}' in part["text"]


def test_files_for_its_code_stand_before_the_first_words() -> None:
    files = (HostedFile(name="a.csv", type="text/csv", data=b"x"), HostedFile(name="b", type="", id="https://x/b"))
    found = body(HI, Message(role="assistant", content="Yes"), HI, tools=(HOSTED,), files=files)["contents"]
    assert found[0]["parts"][:-1] == [
        {"text": "[The file 'a.csv':]"},
        {"inlineData": {"mimeType": "text/csv", "data": "eA=="}},
        {"text": "[The file 'b':]"},
        {"fileData": {"mimeType": "application/octet-stream", "fileUri": "https://x/b"}},
    ]
    assert len(found[2]["parts"]) == 1


# -- what only the library has -----------------------------------------------------------------------------------------


def test_files_that_google_has_stand_before_the_words_that_they_belong_to() -> None:
    named, typed = VendorFile(id="gs://a", name="a.pdf"), VendorFile(id="gs://b", name="b", type="text/csv")
    unknown = VendorFile(id="gs://c", name="c")
    found = body(AttachedFiles((named, typed, unknown)), HI, Message(role="assistant", content="Yes?"), HI)["contents"]
    assert [part["fileData"] for part in found[0]["parts"][:-1]] == [
        {"fileUri": "gs://a", "mimeType": "application/pdf"},
        {"fileUri": "gs://b", "mimeType": "text/csv"},
        {"fileUri": "gs://c", "mimeType": "application/octet-stream"},
    ]
    assert found[2] == HI_SAID


def test_its_own_parts_go_back_as_they_came_and_those_of_others_do_not() -> None:
    own = (
        {"text": "Hm", "thought": True, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "f", "args": {}}},
        {"functionCall": {"name": "g", "args": {}, "id": "theirs"}},
    )
    items = (
        HI,
        Verbatim("gemini", own, ("ours", "theirs")),
        FunctionCallOutput(call_id="theirs", output="no"),
        FunctionCallOutput(call_id="ours", output="1"),
        Verbatim("vertex", own),
        Verbatim("gemini", ()),
    )
    found = body(*items, failed_calls=frozenset(["theirs"]))["contents"]
    assert found == [
        HI_SAID,
        {"role": "model", "parts": list(own)},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "theirs", "name": "g", "response": {"error": "no"}}},
                {"functionResponse": {"name": "f", "response": {"output": "1"}}},
            ],
        },
    ]
