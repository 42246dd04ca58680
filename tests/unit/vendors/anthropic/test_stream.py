"""Answers of Anthropic's Messages API, recorded or terse, become the same deltas however they are cut."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec
import pytest
import yaml
from anthropic import Anthropic
from anthropic.types import Message as SdkMessage
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.vendors.conftest import RECORDINGS, chunks, cuts_of, joined, outline, play, stream

from belljar.errors import BadKey, ContextTooLong, Garbled, ProviderError, RateLimited
from belljar.vendors import vendor_tag
from belljar.vendors.anthropic.dialect import AnthropicDialect
from belljar.vendors.anthropic.sandbox import use_id_of
from belljar.vendors.anthropic.stream import MessagesDecoder
from belljar.vendors.anthropic.wire_version import CURRENT
from belljar.vendors.deltas import (
    CallBegun,
    CallEnd,
    CallPiece,
    Cited,
    ContainerUsed,
    Delta,
    Finish,
    HostedCode,
    HostedEnd,
    Ran,
    Refused,
    Text,
    Thought,
    ThoughtEnd,
    UsageDelta,
)
from belljar.vendors.registry import KINDS, WIRES
from belljar.vendors.request import HostedFile, ModelRequest
from belljar.vendors.vendor import GENERIC
from belljar.wire.items import CellEnd, CodeInterpreterCall, FileCitation, InputText, Logs, Message, UrlCitation
from belljar.wire.responses import InputDetails, OutputDetails, TextConfig, TextFormat, Usage
from belljar.wire.tools import AutoContainer, CodeInterpreterTool, CustomTool, FunctionTool

RAN = "anthropic/anthropic-code-execution-20250825.1.chunks.txt"
CACHED = "anthropic/anthropic-code-execution-20260120-prompt-cache.1.chunks.txt"
JSON = "anthropic/anthropic-json-tool.1.chunks.txt"
REFUSAL = "anthropic/anthropic-refusal.chunks.txt"
TEXT = "anthropic/anthropic-text.chunks.txt"
NO_ARGS = "anthropic/anthropic-tool-no-args.chunks.txt"
STREAMS = [RAN, CACHED, JSON, REFUSAL, TEXT, NO_ARGS]
WHOLE = ["anthropic/anthropic-code-execution-20250825.1.json", "anthropic/anthropic-text.json"]
THOUGHT = "anthropic/test_anthropic_code_execution_tool_stream.yaml"
HOSTED = CodeInterpreterTool(container=AutoContainer())


def asking(**more: Any) -> ModelRequest:
    items = (Message(role="user", content=(InputText(text="hello"),)),)
    return ModelRequest(**{"model": "claude-sonnet-5", "items": items, **more})


def make() -> MessagesDecoder:
    return MessagesDecoder(asking(), upstream="acme")


def named(payloads: list[str]) -> bytes:
    """With the events' names, as the real wire has them."""
    return "".join(f"event: {json.loads(payload)['type']}\ndata: {payload}\n\n" for payload in payloads).encode()


def recorded(name: str) -> Iterator[tuple[dict[str, Any], bytes]]:
    """The exchanges of a recording about messages: what was asked, and the body of the answer."""
    for exchange in yaml.safe_load((RECORDINGS / name).read_text(encoding="utf-8"))["interactions"]:
        if "/messages" in exchange["request"]["uri"]:
            answer = exchange["response"]
            body = answer["body"]["string"] if "body" in answer else json.dumps(answer["parsed_body"])
            yield exchange["request"]["parsed_body"], body.encode()


def as_the_sdk_reads(body: bytes, *, streamed: bool) -> SdkMessage:
    """The vendor's own client, fed with the same bytes."""
    kind = "text/event-stream" if streamed else "application/json"

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": kind}, content=body)

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        sdk = Anthropic(api_key="none", http_client=client, base_url="http://vendor.test")
        asked: Any = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
        if not streamed:
            message: SdkMessage = sdk.messages.create(**asked)
            return message
        with sdk.messages.stream(**asked) as events:
            return events.get_final_message()


def same(deltas: list[Delta], message: SdkMessage) -> None:
    """What we understood is what the vendor's client did."""
    blocks = message.content
    assert joined(deltas, Text) == "".join(block.text for block in blocks if block.type == "text")
    assert joined(deltas, Thought) == "".join(block.thinking for block in blocks if block.type == "thinking")
    called = {delta.index: delta for delta in deltas if isinstance(delta, CallBegun)}
    calls = [delta for delta in deltas if isinstance(delta, CallEnd)]
    assert [(called[one.index].call_id, called[one.index].name, json.loads(one.arguments)) for one in calls] == [
        (block.id, block.name, block.input) for block in blocks if block.type == "tool_use"
    ]
    cells = [delta.item for delta in deltas if isinstance(delta, HostedEnd)]
    uses = [block for block in blocks if block.type == "server_tool_use"]
    assert [cell.id.partition("srvtoolu_")[2] for cell in cells] == [use.id.removeprefix("srvtoolu_") for use in uses]
    for cell, use in zip(cells, uses, strict=True):
        code = cell.code or ""
        assert use.input == ({"command": code} if use.name.startswith("bash") else json.loads(code))
    (spent,) = [delta.usage for delta in deltas if isinstance(delta, UsageDelta)]
    usage = message.usage
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    assert spent.output_tokens == usage.output_tokens
    assert spent.input_tokens == usage.input_tokens + cached + written
    assert spent.input_tokens_details == InputDetails(cached_tokens=cached, cache_write_tokens=written)


@pytest.mark.parametrize("name", STREAMS)
def test_recorded_streams_say_what_the_vendors_client_reads(name: str) -> None:
    body = named(chunks(name))
    same(play(make, body), as_the_sdk_reads(body, streamed=True))


@pytest.mark.parametrize("name", WHOLE)
def test_recorded_whole_answers_say_what_the_vendors_client_reads(name: str) -> None:
    body = (RECORDINGS / name).read_bytes()
    same(play(make, body), as_the_sdk_reads(body, streamed=False))


@pytest.mark.parametrize("name", [path.name for path in sorted((RECORDINGS / "anthropic").glob("*.yaml"))])
def test_recorded_exchanges_say_what_the_vendors_client_reads(name: str) -> None:
    exchanges = list(recorded(f"anthropic/{name}"))
    assert exchanges
    for asked, body in exchanges:
        same(play(make, body), as_the_sdk_reads(body, streamed=asked["stream"]))


def test_a_recorded_run_of_the_providers_own_code_execution() -> None:
    deltas = play(make, named(chunks(CACHED)))
    run = ["HostedCode", "HostedEnd"]
    assert outline(deltas) == ["Begun", *run, *run, "Text", "Finish", "UsageDelta"]
    first, second = [delta for delta in deltas if isinstance(delta, HostedEnd)]
    assert second == HostedEnd(
        1,
        CodeInterpreterCall(
            id="ci_bash_srvtoolu_013eUksWZnfcjFk1iarJsYgM",
            status="completed",
            code='sum=0; for n in $(seq 1 12); do sum=$((sum + n*n)); done; echo "Sum: $sum"',
            container_id="",
            outputs=(Logs(logs="Sum: 650\n"),),
            belljar=CellEnd(exit="ok", exit_code=0, stdout="Sum: 650\n", stderr=""),
        ),
        ran=Ran(
            code='sum=0; for n in $(seq 1 12); do sum=$((sum + n*n)); done; echo "Sum: $sum"',
            stdout="Sum: 650\n",
            exit=0,
        ),
    )
    for end in (first, second):
        pieces = [delta for delta in deltas if isinstance(delta, HostedCode) and delta.index == end.index]
        assert len(pieces) > 5
        assert "".join(piece.text for piece in pieces) == end.item.code
        assert {(piece.id, piece.container_id) for piece in pieces} == {(end.item.id, "")}
    assert deltas[-1] == UsageDelta(
        Usage(
            input_tokens=9632,
            input_tokens_details=InputDetails(cached_tokens=6289, cache_write_tokens=3337),
            output_tokens=198,
            output_tokens_details=OutputDetails(reasoning_tokens=0),
            total_tokens=9830,
        )
    )


def test_recorded_edits_are_cells_too() -> None:
    deltas = play(make, named(chunks(RAN)))
    ends = [delta for delta in deltas if isinstance(delta, HostedEnd)]
    edit, run = (end.item for end in ends)
    assert ends[0].ran is not None
    assert ends[0].ran.code.startswith("create /tmp/fibonacci.py\n")
    assert edit.id.startswith("ci_edit_srvtoolu_")
    assert use_id_of(edit.id) == edit.id.removeprefix("ci_edit_")
    assert json.loads(edit.code or "")["path"] == "/tmp/fibonacci.py"
    assert edit.outputs == ()
    assert run.code == "python /tmp/fibonacci.py"


def test_a_recorded_refusal() -> None:
    _, refused, finish, _ = play(make, named(chunks(REFUSAL)))
    assert isinstance(refused, Refused)
    assert refused.text.startswith("This request triggered restrictions")
    assert finish == Finish("filtered")


def test_a_recorded_call_without_arguments() -> None:
    deltas = play(make, named(chunks(NO_ARGS)))
    assert outline(deltas) == ["Begun", "Text", "CallBegun", "CallPiece", "CallEnd", "Finish", "UsageDelta"]
    assert CallPiece(0, "{}") in deltas
    assert CallEnd(0, "{}") in deltas
    assert Finish("calls") in deltas


def test_recorded_thinking_is_kept_with_its_signature() -> None:
    ((_, body),) = recorded(THOUGHT)
    deltas = play(make, body)
    assert outline(deltas) == [
        "Begun", "Thought", "ThoughtEnd", "Text", "HostedCode", "HostedEnd", "Text", "Finish", "UsageDelta",
    ]  # fmt: skip
    assert {(delta.kind, delta.index) for delta in deltas if isinstance(delta, Thought)} == {("summary", 0)}
    (end,) = [delta.item for delta in deltas if isinstance(delta, ThoughtEnd)]
    assert [part.text for part in end.summary] == ["Let me calculate this mathematical expression."]
    kept = vendor_tag.untag("anthropic", end.encrypted_content)
    assert kept is not None
    block = json.loads(kept)
    assert (block["type"], block["thinking"]) == ("thinking", "Let me calculate this mathematical expression.")
    assert block["signature"].startswith("EusB")


def test_an_answer_by_a_form_is_text_however_the_form_was_asked_for() -> None:
    form = TextConfig(format=TextFormat(type="json_schema", name="weather", schema={"type": "object"}))
    asked = asking(model="claude-sonnet-4-5", text=form)
    old = AnthropicDialect(KINDS["anthropic-2023-06-01"], "acme")
    deltas = play(lambda: old.decoder(asked), named(chunks(JSON)))
    assert outline(deltas) == ["Begun", "Text", "Finish", "UsageDelta"]
    assert json.loads(joined(deltas, Text))["elements"][0]["temperature"] == 58
    assert Finish("stop") in deltas
    assert "CallBegun" in outline(play(lambda: AnthropicDialect().decoder(asked), named(chunks(JSON))))


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_recorded_streams_byte_by_byte(name: str, end: str) -> None:
    data = stream(chunks(name), done=False, end=end)
    assert play(make, data, range(len(data))) == play(make, named(chunks(name)))


@pytest.fixture(scope="module")
def thinking() -> bytes:
    ((_, body),) = recorded(THOUGHT)
    return body


@given(data=st.data())
@settings(max_examples=40)
def test_a_recorded_stream_in_any_pieces(data: st.DataObject, thinking: bytes) -> None:
    assert play(make, thinking, data.draw(cuts_of(len(thinking)))) == play(make, thinking)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_ends_too_soon(name: str) -> None:
    with pytest.raises(Garbled, match="acme ended the stream in the middle"):
        play(make, named(chunks(name)[:-2]))


# -- events -----------------------------------------------------------------------------------------------------------


def event(kind: str, **more: Any) -> str:
    return json.dumps({"type": kind, **more})


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[str]:
    changes = [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return [
        event("content_block_start", index=index, content_block=start),
        *changes,
        event("content_block_stop", index=index),
    ]


def text(index: int, *words: str) -> list[str]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": word} for word in words))


def tool(index: int, name: str, *pieces: str, kind: str = "tool_use", id: str = "toolu_1") -> list[str]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {"type": kind, "id": id, "name": name, "input": {}}, *deltas)


def result(index: int, name: str, content: Any, id: str = "srvtoolu_1") -> list[str]:
    return block(index, {"type": f"{name}_tool_result", "tool_use_id": id, "content": content})


def ended(reason: str = "end_turn", **more: Any) -> list[str]:
    usage = {"output_tokens": 5}
    return [event("message_delta", delta={"stop_reason": reason, **more}, usage=usage), event("message_stop")]


def answered(*blocks: list[str], reason: str = "end_turn", request: ModelRequest | None = None) -> list[Delta]:
    started = event("message_start", message={"usage": {"input_tokens": 2, "output_tokens": 1}})
    payloads = [started, *(payload for one in blocks for payload in one), *ended(reason)]
    return play(lambda: MessagesDecoder(request or asking(), upstream="acme"), named(payloads))


def cells(deltas: list[Delta]) -> list[CodeInterpreterCall]:
    return [delta.item for delta in deltas if isinstance(delta, HostedEnd)]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "filtered"),
    ],
)
def test_how_it_ends(reason: str, finish: Any) -> None:
    assert answered(text(0, "so"), reason=reason)[:2] == [Text("so"), Finish(finish)]


def test_parallel_calls() -> None:
    deltas = answered(tool(0, "a", '{"x"', ": 1}"), tool(1, "b", "{}", id="toolu_2"), reason="tool_use")
    assert deltas[:-1] == [
        CallBegun(0, "toolu_1", "a"),
        CallPiece(0, '{"x"'),
        CallPiece(0, ": 1}"),
        CallEnd(0, '{"x": 1}'),
        CallBegun(1, "toolu_2", "b"),
        CallPiece(1, "{}"),
        CallEnd(1, "{}"),
        Finish("calls"),
    ]


@pytest.mark.parametrize("pieces", [(), ('{"code": "pri',)])
def test_a_call_that_was_cut_off_has_no_end(pieces: tuple[str, ...]) -> None:
    cut = answered(tool(0, "a", *pieces), reason="max_tokens")
    assert outline(cut) == ["CallBegun", *(["CallPiece"] if pieces else []), "Finish", "UsageDelta"]


def test_a_call_that_is_not_quite_json_is_handed_on() -> None:
    deltas = answered(tool(0, "a", '{"code": "pri'), text(1, "?"), reason="tool_use")
    assert CallEnd(0, '{"code": "pri') in deltas


@pytest.mark.parametrize(
    "pieces", [['{"input": "a\\nb"}'], ['{"inp', 'ut": "a', "\\", 'nb"', "}"], ['{"input":"a\\nb"']]
)
def test_free_text_of_a_custom_tool(pieces: list[str]) -> None:
    request = asking(tools=(CustomTool(name="note"),))
    deltas = answered(tool(0, "note", *pieces), reason="tool_use", request=request)
    assert deltas[0] == CallBegun(0, "toolu_1", "note", True)
    assert joined(deltas, CallPiece) == "a\nb"
    assert CallEnd(0, "a\nb") in deltas


@pytest.mark.parametrize("given", ['{"text": "a"}', '{"input": 1}'])
def test_input_of_a_custom_tool_without_its_text_is_handed_on(given: str) -> None:
    request = asking(tools=(CustomTool(name="note"),))
    deltas = answered(tool(0, "note", given), reason="tool_use", request=request)
    assert deltas[1:3] == [CallPiece(0, given), CallEnd(0, given)]


def test_thinking_that_is_not_shown() -> None:
    sealed = block(0, {"type": "redacted_thinking", "data": "Em8="})
    hidden = block(
        1, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "signature_delta", "signature": "S"}
    )
    bare = block(2, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "hm"})
    ends = [delta.item for delta in answered(sealed, hidden, bare) if isinstance(delta, ThoughtEnd)]
    assert [json.loads(vendor_tag.untag("anthropic", end.encrypted_content) or "null") for end in ends] == [
        {"type": "redacted_thinking", "data": "Em8="},
        {"type": "thinking", "thinking": "", "signature": "S"},
        None,
    ]
    assert [len(end.summary) for end in ends] == [0, 0, 1]


def test_citations_of_what_can_be_found() -> None:
    web = {"type": "web_search_result_location", "url": "https://x.test", "title": "X", "cited_text": "…"}
    file = {"type": "page_location", "file_id": "file_1", "document_title": "a.pdf", "document_index": 0}
    lost = {"type": "char_location", "file_id": None, "document_index": 0}
    cited = [{"type": "citations_delta", "citation": citation} for citation in (web, file, lost)]
    second = block(1, {"type": "text", "text": ""}, *cited, {"type": "text_delta", "text": "cited"})
    deltas = answered(text(0, "First "), second)
    assert [delta.annotation for delta in deltas if isinstance(delta, Cited)] == [
        UrlCitation(start_index=6, end_index=11, title="X", url="https://x.test"),
        FileCitation(file_id="file_1", filename="a.pdf", index=11),
    ]


def ran(**more: Any) -> dict[str, Any]:
    return {"type": "bash_code_execution_result", "stdout": "", "stderr": "", "return_code": 0, "content": [], **more}


@pytest.mark.parametrize(
    ("content", "outputs", "end"),
    [
        (ran(), (), CellEnd(exit="ok", exit_code=0, stdout="", stderr="")),
        (
            ran(stdout="a", stderr="b"),
            (Logs(logs="a\nb"),),
            CellEnd(exit="ok", exit_code=0, stdout="a", stderr="b"),
        ),
        (
            ran(stderr="no", return_code=2),
            (Logs(logs="no"),),
            CellEnd(exit="raised", text="It ended with the exit code 2.", exit_code=2, stdout="", stderr="no"),
        ),
        (
            {"type": "bash_code_execution_tool_result_error", "error_code": "execution_time_exceeded"},
            (Logs(logs="The code ran for longer than the provider allows."),),
            CellEnd(
                exit="timed_out",
                reason="execution_time_exceeded",
                text="The code ran for longer than the provider allows.",
                exit_code=-1,
            ),
        ),
        (
            {"type": "bash_code_execution_tool_result_error", "error_code": "news"},
            (Logs(logs="news"),),
            CellEnd(exit="killed", reason="news", text="news", exit_code=-1),
        ),
    ],
)
def test_what_came_of_a_cell(content: Any, outputs: Any, end: CellEnd) -> None:
    use = tool(0, "bash_code_execution", '{"command": "ls"}', kind="server_tool_use", id="srvtoolu_1")
    (cell,) = cells(answered(use, result(1, "bash_code_execution", content)))
    assert (cell.code, cell.outputs, cell.belljar) == ("ls", outputs, end)
    assert cell.status == ("failed" if end.exit in ("timed_out", "killed") else "completed")


def test_files_that_a_cell_made() -> None:
    made = [{"type": "bash_code_execution_output", "file_id": one} for one in ("file_1", "file_2")]
    use = tool(0, "bash_code_execution", '{"command": "ls"}', kind="server_tool_use", id="srvtoolu_1")
    (end,) = [
        delta
        for delta in answered(use, result(1, "bash_code_execution", ran(content=made)))
        if isinstance(delta, HostedEnd)
    ]
    assert end.files == tuple(
        HostedFile(name=None, type="application/octet-stream", id=one) for one in ("file_1", "file_2")
    )


@pytest.mark.parametrize(
    ("content", "logs"),
    [
        ({"type": "text_editor_code_execution_view_result", "file_type": "text", "content": "a\nb"}, "a\nb"),
        ({"type": "text_editor_code_execution_str_replace_result", "lines": ["-a", "+b"]}, "-a\n+b"),
        ({"type": "text_editor_code_execution_create_result", "is_file_update": True}, ""),
    ],
)
def test_what_came_of_an_edit(content: Any, logs: str) -> None:
    use = tool(0, "text_editor_code_execution", '{"command": "view"}', kind="server_tool_use", id="srvtoolu_1")
    (cell,) = cells(answered(use, result(1, "text_editor_code_execution", content)))
    assert cell.outputs == ((Logs(logs=logs),) if logs else ())


def test_python_that_the_provider_ran() -> None:
    use = tool(0, "code_execution", '{"code": "1/', '0"}', kind="server_tool_use", id="srvtoolu_1")
    sealed = {"type": "encrypted_code_execution_result", "encrypted_stdout": "x", "stderr": "", "return_code": 1}
    (cell,) = cells(answered(use, result(1, "code_execution", {**sealed, "content": []})))
    assert (cell.id, cell.code, cell.outputs) == ("ci_code_srvtoolu_1", "1/0", ())


def test_a_cell_whose_result_never_came() -> None:
    use = tool(0, "bash_code_execution", '{"command": "ls"}', kind="server_tool_use", id="srvtoolu_1")
    (cell,) = cells(answered(use, reason="max_tokens"))
    assert (cell.status, cell.code) == ("incomplete", "ls")


def test_tools_of_the_vendors_that_nobody_asked_for_are_passed_over() -> None:
    search = tool(0, "web_search", '{"query": "x"}', kind="server_tool_use", id="srvtoolu_1")
    assert outline(answered(search, result(1, "web_search", []), text(2, "ok"))) == ["Text", "Finish", "UsageDelta"]


def test_what_is_not_known_is_passed_over() -> None:
    strange = [
        event("ping"),
        event("thread_news", delta="x"),
        event("content_block_delta", index=9, delta={"text": "x"}),
    ]
    assert answered(strange, text(0, "ok"))[0] == Text("ok")


def test_blocks_that_nothing_ends_end_with_the_answer() -> None:
    thought = block(
        0, {"type": "thinking", "thinking": "hm", "signature": "S"}, {"type": "thinking_delta", "thinking": "?"}
    )
    call = tool(1, "a", '{"x": 1}')
    deltas = answered(thought[:-1], call[:-1], reason="tool_use")
    assert outline(deltas) == ["Thought", "CallBegun", "CallPiece", "ThoughtEnd", "CallEnd", "Finish", "UsageDelta"]
    assert CallEnd(0, '{"x": 1}') in deltas


def test_the_end_of_a_block_that_was_not_begun_is_passed_over() -> None:
    ends = [event("content_block_stop", index=index) for index in (0, 7)]
    assert answered(text(0, "ok"), ends) == answered(text(0, "ok"))


def test_what_follows_the_end_is_passed_over() -> None:
    payloads = [*text(0, "ok"), *ended()]
    assert play(make, named([*payloads, *text(1, "more"), *ended("refusal")])) == play(make, named(payloads))


def test_what_a_whole_message_spent() -> None:
    usage = {"input_tokens": 2, "output_tokens": 7, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 400}
    details = {"output_tokens_details": {"thinking_tokens": 5}, "service_tier": "standard"}
    whole = {"type": "message", "content": [], "stop_reason": "end_turn", "usage": {**usage, **details}}
    assert play(make, json.dumps(whole).encode())[-1] == UsageDelta(
        Usage(
            input_tokens=432,
            input_tokens_details=InputDetails(cached_tokens=30, cache_write_tokens=400),
            output_tokens=7,
            output_tokens_details=OutputDetails(reasoning_tokens=5),
            total_tokens=439,
        )
    )


def test_an_answer_without_a_last_event() -> None:
    payloads = [*text(0, "ok"), *ended()[:1]]
    assert outline(play(make, named(payloads))) == ["Text", "Finish", "UsageDelta"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, RateLimited),
        ({"type": "authentication_error", "message": "invalid x-api-key"}, BadKey),
        ({"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}, ContextTooLong),
        ({"type": "api_error", "message": "Internal server error"}, ProviderError),
    ],
)
def test_an_error_in_the_stream(error: dict[str, str], kind: type[ProviderError]) -> None:
    one = make()
    begun = one.feed(named([*text(0, "half"), event("error", error=error)]))
    assert begun == [Text("half")]
    with pytest.raises(kind, match="acme"):
        one.close()


def test_what_cannot_be_read() -> None:
    with pytest.raises(Garbled, match="acme sent what cannot be read"):
        play(make, b'data: {"type": "content_block_delta", "index": "x"}\n\n')


# -- pauses -----------------------------------------------------------------------------------------------------------


def test_an_answer_that_was_paused_goes_on() -> None:
    request = asking(tools=(HOSTED,))
    one = MessagesDecoder(request, CURRENT, "acme")
    thought = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "S"},
    )
    use = tool(2, "bash_code_execution", '{"command":', ' "ls"}', kind="server_tool_use", id="srvtoolu_1")
    paused = [*thought, *text(1, "Let me ", "see."), *use]
    paused += ended("pause_turn", container={"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"})
    before = one.feed(named(paused)) + one.close()
    assert outline(before) == ["Thought", "ThoughtEnd", "Text", "HostedCode", "UsageDelta"]
    body = msgspec.json.decode(one.resume() or b"null")
    assert body["container"] == "container_1"
    said = [
        {"type": "thinking", "thinking": "hm", "signature": "S"},
        {"type": "text", "text": "Let me see."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution", "input": {"command": "ls"}},
    ]
    assert body["messages"][-1] == {"role": "assistant", "content": said}
    came = ran(stdout="a.csv\n")
    after = (
        one.feed(named([*result(0, "bash_code_execution", came), *text(1, "One."), *ended("pause_turn")])) + one.close()
    )
    assert outline(after) == ["HostedEnd", "Text", "UsageDelta"]
    (cell,) = cells(after)
    assert (cell.code, cell.outputs) == ("ls", (Logs(logs="a.csv\n"),))
    again = msgspec.json.decode(one.resume() or b"null")
    assert again["messages"][-1]["content"] == [
        *said,
        {"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": came},
        {"type": "text", "text": "One."},
    ]
    last = one.feed(named([*text(0, " File."), *ended()])) + one.close()
    assert outline(last) == ["Text", "ContainerUsed", "Finish", "UsageDelta"]
    assert ContainerUsed("container_1", "2026-01-01T00:00:00Z") in last
    assert one.resume() is None


def test_what_cannot_go_back_after_a_pause_does_not() -> None:
    """An empty text would be refused, and so would input that is no object."""
    one = MessagesDecoder(asking(tools=(HOSTED,)), CURRENT, "acme")
    use = tool(1, "bash_code_execution", '{"command": "l', kind="server_tool_use", id="srvtoolu_1")
    one.feed(named([*text(0, " \n"), *use, *ended("pause_turn")]))
    one.close()
    assert msgspec.json.decode(one.resume() or b"null")["messages"][-1]["content"] == [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution", "input": {}}
    ]


def test_an_answer_that_is_paused_for_ever() -> None:
    one = MessagesDecoder(asking(tools=(HOSTED,)), upstream="acme")

    def pause() -> tuple[list[Delta], bytes | None]:
        deltas = [*one.feed(named(ended("pause_turn"))), *one.close()]
        return deltas, one.resume()

    for _ in range(20):
        deltas, body = pause()
        assert body
        assert outline(deltas) == ["UsageDelta"]
    deltas, body = pause()
    assert body is None
    assert deltas[0] == Finish("length")


def kept(payloads: list[str], **more: Any) -> list[dict[str, Any]]:
    """The answer as it goes back."""
    one = MessagesDecoder(asking(**more), keep=True)
    one.feed(named(payloads))
    one.close()
    verbatim = one.verbatim()
    assert verbatim is not None
    assert verbatim.vendor == "anthropic"
    return list(verbatim.blocks)


@pytest.mark.parametrize("name", STREAMS)
def test_a_recorded_answer_goes_back_as_the_sdk_has_it(name: str) -> None:
    message = as_the_sdk_reads(named(chunks(name)), streamed=True).to_dict(mode="json", warnings=False)
    blocks: Any = message["content"]
    wanted = [{key: value for key, value in block.items() if value is not None} for block in blocks]
    assert kept(chunks(name)) == [block for block in wanted if block.get("text") != ""]


def test_citations_go_back_with_their_text() -> None:
    cited = {"type": "web_search_result_location", "url": "https://a.test", "encrypted_index": "x", "cited_text": "a"}
    payloads = [
        event("content_block_start", index=0, content_block={"type": "text", "text": "", "citations": []}),
        event("content_block_delta", index=0, delta={"type": "citations_delta", "citation": cited}),
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": "So."}),
        event("content_block_stop", index=0),
        *ended(),
    ]
    assert kept(payloads) == [{"type": "text", "text": "So.", "citations": [cited]}]


def test_half_a_call_does_not_go_back() -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    half = [
        event("content_block_start", index=1, content_block=use),
        event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '{"ci'}),
        event("content_block_stop", index=1),
    ]
    assert kept([*text(0, "So."), *half, *ended("max_tokens")]) == [{"type": "text", "text": "So."}]


def test_what_is_kept_has_the_names_that_went_out() -> None:
    """They are told apart from those of the caller, who hears his own."""
    asked = asking(tools=(FunctionTool(name="w.x", parameters={"type": "object"}),))
    sent = msgspec.json.decode(AnthropicDialect().encode(asked))["tools"][0]["name"]
    one = AnthropicDialect().decoder(asked, keep=True)
    assert CallBegun(0, "toolu_1", "w.x") in one.feed(named([*tool(0, sent, "{}"), *ended("tool_use")])) + one.close()
    verbatim = one.verbatim()
    assert verbatim is not None
    assert [block["name"] for block in verbatim.blocks] == [sent]


def test_nothing_is_kept_unasked() -> None:
    one = make()
    one.feed(named(chunks(TEXT)))
    one.close()
    assert one.verbatim() is None


def test_a_reason_that_nobody_knows() -> None:
    assert play(make, named([*text(0, "So."), *ended("something_new")]))[-2] == Finish("stop", unknown=True)


def test_what_is_over_is_not_resumed() -> None:
    one = make()
    one.feed(named(chunks(TEXT)))
    one.close()
    assert one.resume() is None


CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}


@pytest.mark.parametrize(
    ("wire", "answer"),
    [
        ("chat", {"choices": [{"delta": {"content": "so"}, "finish_reason": "length"}]}),
        ("gemini", {"candidates": [{"finishReason": "MAX_TOKENS"}]}),
        ("openai", CUT),
        ("xai", CUT),
    ],
)
def test_no_other_vendor_pauses_where_it_stops(wire: str, answer: dict[str, Any]) -> None:
    one = GENERIC.dialect("acme", WIRES[wire]).decoder(asking())
    assert Finish("length") in one.feed(stream([json.dumps(answer)], done=False)) + one.close()
    assert one.resume() is None
    assert one.verbatim() is None
