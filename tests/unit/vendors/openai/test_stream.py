"""Answers of the Responses API, recorded or terse, become the same deltas however they are cut."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.vendors.conftest import RECORDINGS, bodies, chunks, cuts_of, joined, outline, play, stream

from belljar.errors import ContextTooLong, Declined, Garbled, ProviderError, QuotaExceeded, RateLimited
from belljar.vendors.deltas import (
    Begun,
    CallBegun,
    CallEnd,
    CallPiece,
    Cited,
    Delta,
    Finish,
    HostedCode,
    HostedEnd,
    PassThrough,
    Ran,
    Refused,
    Text,
    Thought,
    ThoughtEnd,
    UsageDelta,
)
from belljar.vendors.openai.dialect import OpenAIDialect
from belljar.vendors.openai.stream import ResponsesDecoder
from belljar.vendors.request import ModelRequest, Verbatim
from belljar.wire.items import (
    CellEnd,
    CodeInterpreterCall,
    ContainerFileCitation,
    Logs,
    OtherItem,
    Reasoning,
    ReasoningText,
    SummaryText,
    UrlCitation,
)
from belljar.wire.responses import InputDetails, OutputDetails, Usage

CODE = "openai/openai-code-interpreter-tool.1.chunks.txt"
SHELL = "openai/openai-shell-container.1.chunks.txt"
THOUGHT = "xai/xai-text-with-reasoning-streaming-store-false.1.chunks.txt"
ERROR = "openai/openai-error.1.chunks.txt"


def make() -> ResponsesDecoder:
    return ResponsesDecoder("acme")


def named(payloads: list[str]) -> bytes:
    """With the events' names, as the real wire has them."""
    return "".join(f"event: {json.loads(payload)['type']}\ndata: {payload}\n\n" for payload in payloads).encode()


def last(name: str) -> dict[str, Any]:
    found = json.loads(chunks(name)[-1])["response"]
    assert isinstance(found, dict)
    return found


def test_a_recorded_run_of_the_providers_own_code_interpreter() -> None:
    deltas = play(make, named(chunks(CODE)))
    run = ["ThoughtEnd", "HostedCode", "HostedEnd"]
    assert outline(deltas) == [*run, *run, *run, "ThoughtEnd", "Text", "Cited", "Finish", "UsageDelta"]
    output = last(CODE)["output"]
    cells = [item for item in output if item["type"] == "code_interpreter_call"]
    ends = [delta for delta in deltas if isinstance(delta, HostedEnd)]
    assert [end.index for end in ends] == [1, 3, 5]
    assert [end.item.code for end in ends] == [cell["code"] for cell in cells]
    assert [end.item.container_id for end in ends] == [cell["container_id"] for cell in cells]
    assert ends[0].item.outputs == (Logs(logs="(2, 12, 69868, 6.9868)"),)
    for end in ends:
        pieces = [delta for delta in deltas if isinstance(delta, HostedCode) and delta.index == end.index]
        assert "".join(piece.text for piece in pieces) == end.item.code
        assert {(piece.id, piece.container_id) for piece in pieces} == {(end.item.id, end.item.container_id)}
    text = joined(deltas, Text)
    assert text == output[-1]["content"][0]["text"]
    cited = [delta.annotation for delta in deltas if isinstance(delta, Cited)]
    assert [text[one.start_index : one.end_index] for one in cited if isinstance(one, ContainerFileCitation)] == [
        "sandbox:/mnt/data/roll2dice_sums_10000.csv"
    ]
    usage = last(CODE)["usage"]
    assert deltas[-1] == UsageDelta(
        Usage(
            input_tokens=usage["input_tokens"],
            input_tokens_details=InputDetails(cached_tokens=2944, cache_write_tokens=0),
            output_tokens=usage["output_tokens"],
            output_tokens_details=OutputDetails(reasoning_tokens=1408),
            total_tokens=usage["total_tokens"],
        )
    )


def test_recorded_items_that_are_only_the_providers() -> None:
    deltas = play(make, named(chunks(SHELL)))
    assert outline(deltas) == ["PassThrough", "Text", "Finish", "UsageDelta"]
    passed = [delta.item for delta in deltas if isinstance(delta, PassThrough)]
    assert passed == [OtherItem(item) for item in last(SHELL)["output"][:2]]
    assert joined(deltas, Text).startswith("The command")


def test_recorded_reasoning() -> None:
    deltas = play(make, stream(chunks(THOUGHT)))
    assert outline(deltas) == ["Thought", "ThoughtEnd", "Text", "Finish", "UsageDelta"]
    output = last(THOUGHT)["output"]
    assert joined(deltas, Thought) == output[0]["summary"][0]["text"]
    assert {(delta.kind, delta.index) for delta in deltas if isinstance(delta, Thought)} == {("summary", 0)}
    (end,) = [delta.item for delta in deltas if isinstance(delta, ThoughtEnd)]
    assert (end.id, end.encrypted_content) == (output[0]["id"], output[0].get("encrypted_content"))
    assert joined(deltas, Text) == output[1]["content"][0]["text"]


def test_a_recorded_error() -> None:
    with pytest.raises(QuotaExceeded, match="exceeded your current quota"):
        play(make, named(chunks(ERROR)))


@pytest.mark.parametrize("name", [CODE, SHELL, THOUGHT])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_recorded_streams_byte_by_byte(name: str, end: str) -> None:
    data = stream(chunks(name), end=end)
    assert play(make, data, range(len(data))) == play(make, named(chunks(name)))


@given(data=st.data())
@settings(max_examples=30)
def test_a_recorded_stream_in_any_pieces(data: st.DataObject) -> None:
    body = named(chunks(CODE))
    assert play(make, body, data.draw(cuts_of(len(body)))) == play(make, body)


def said(deltas: list[Delta]) -> list[Delta]:
    """What it comes to: pieces of one kind and place put together, empty ones left out."""
    found: list[Delta] = []
    for delta in deltas:
        before = found[-1] if found else None
        if isinstance(delta, Text) and isinstance(before, Text):
            found[-1] = Text(before.text + delta.text)
        elif isinstance(delta, HostedCode) and isinstance(before, HostedCode):
            found[-1] = HostedCode(delta.index, delta.id, delta.container_id, before.text + delta.text)
        elif isinstance(delta, Thought) and isinstance(before, Thought):
            found[-1] = Thought(before.text + delta.text, delta.kind, delta.index)
        else:
            found.append(delta)
    return found


@pytest.mark.parametrize("name", [CODE, THOUGHT])
def test_a_whole_answer_says_the_same_as_its_stream(name: str) -> None:
    whole = json.dumps(last(name)).encode()
    assert said(play(make, whole)) == said(play(make, named(chunks(name))))
    assert said(play(make, named(chunks(name)[-1:]))) == said(play(make, whole))


def test_recorded_whole_answers() -> None:
    body = (RECORDINGS / "openai" / "openai-code-interpreter-tool.1.json").read_bytes()
    run = ["ThoughtEnd", "HostedCode", "HostedEnd"]
    assert outline(play(make, body)) == [*run, *run, *run, "ThoughtEnd", "Text", "Cited", "Finish", "UsageDelta"]
    (files,) = bodies("openai/test_openai_code_execution_files.yaml", "response")
    deltas = play(make, files)
    assert joined(deltas, Text) == "The sum of the value column is 100."
    (cell,) = [delta.item for delta in deltas if isinstance(delta, HostedEnd)]
    assert cell.outputs is None
    (thought,) = [delta.item for delta in deltas if isinstance(delta, ThoughtEnd)]
    assert str(thought.encrypted_content).startswith("gAAA")


@pytest.mark.parametrize("name", ["compact_messages", "compact_messages_direct", "compact_with_instructions"])
def test_recorded_conversations(name: str) -> None:
    answers = list(bodies(f"openai/test_openai_responses_{name}.yaml", "response"))
    assert answers
    for body in answers:
        assert joined(play(make, body), Text) == json.loads(body)["output"][-1]["content"][0]["text"]


def test_a_recorded_answer_that_is_not_ready() -> None:
    *waiting, ready = bodies("openai/test_background_mode_vcr.yaml", "response")
    for body in waiting:
        with pytest.raises(ProviderError, match=r"the response is (queued|in_progress)"):
            play(make, body)
    assert play(make, ready)[-2:-1] == [Finish("stop")]


def test_a_recorded_cell_of_xai_has_its_code_elsewhere() -> None:
    deltas = play(make, (RECORDINGS / "xai" / "xai-code-execution-tool.1.json").read_bytes())
    assert outline(deltas) == ["HostedCode", "HostedEnd", "Text", "Finish", "UsageDelta"]
    (cell,) = [delta.item for delta in deltas if isinstance(delta, HostedEnd)]
    assert cell.code is not None
    assert cell.code.startswith("def fibonacci")
    assert (cell.container_id, cell.outputs) == ("", None)


# -- events ------------------------------------------------------------------------------------------------------------


def event(kind: str, **more: Any) -> str:
    return json.dumps({"type": f"response.{kind}", "sequence_number": 0, **more})


def added(index: int, **item: Any) -> str:
    return event("output_item.added", output_index=index, item=item)


def done(index: int, **item: Any) -> str:
    return event("output_item.done", output_index=index, item=item)


COMPLETED = event("completed", response={"status": "completed", "output": [], "usage": None})


def deltas_of(*payloads: str, end: str = COMPLETED) -> list[Delta]:
    request = ModelRequest(model="m", items=())
    return play(lambda: OpenAIDialect(server="acme").decoder(request), stream([*payloads, end]))


FUNCTION = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"}


@pytest.mark.parametrize(
    ("payloads", "deltas"),
    [
        pytest.param(
            [event("created", response={"status": "in_progress"}), event("in_progress", response={}), event("queued")],
            [],
            id="nothing",
        ),
        pytest.param(
            [
                event("output_text.delta", output_index=0, delta="a", logprobs=[{"token": "a"}]),
                event("output_text.delta", output_index=0, delta="b", logprobs=[]),
                event("output_text.done", output_index=0, text="ab"),
                done(0, type="message", content=[{"type": "output_text", "text": "ab", "annotations": []}]),
            ],
            [Text("a", ({"token": "a"},)), Text("b")],
            id="text",
        ),
        pytest.param(
            [
                done(
                    0,
                    type="message",
                    content=[{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
                )
            ],
            [Text("a"), Refused("b")],
            id="text that was not streamed",
        ),
        pytest.param(
            [
                event("refusal.delta", delta="no"),
                done(0, type="message", content=[{"type": "refusal", "refusal": "no"}]),
            ],
            [Refused("no")],
            id="refusal",
        ),
        pytest.param(
            [
                event("reasoning_summary_text.delta", delta="a", summary_index=0),
                event("reasoning_summary_text.delta", delta="b", summary_index=1),
                event("reasoning_text.delta", delta="c", content_index=0),
                event("reasoning.delta", delta="d"),
                done(0, type="reasoning", id="rs_1", summary=[], encrypted_content="x"),
            ],
            [
                Thought("a", "summary", 0),
                Thought("b", "summary", 1),
                Thought("c"),
                Thought("d"),
                ThoughtEnd(Reasoning(id="rs_1", encrypted_content="x")),
            ],
            id="reasoning",
        ),
        pytest.param(
            [
                done(
                    0,
                    type="reasoning",
                    id="rs_1",
                    summary=[{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
                    content=[{"type": "reasoning_text", "text": "c"}],
                )
            ],
            [
                Thought("a", "summary", 0),
                Thought("b", "summary", 1),
                Thought("c"),
                ThoughtEnd(
                    Reasoning(
                        id="rs_1",
                        summary=(SummaryText(text="a"), SummaryText(text="b")),
                        content=(ReasoningText(text="c"),),
                    )
                ),
            ],
            id="reasoning that was not streamed",
        ),
        pytest.param(
            [
                event("output_text.delta", delta="see"),
                event(
                    "output_text.annotation.added",
                    annotation={"type": "url_citation", "start_index": 0, "end_index": 3, "title": "t", "url": "u"},
                ),
                event("output_text.annotation.added", annotation={"type": "of_the_future"}),
                done(
                    0,
                    type="message",
                    content=[
                        {
                            "type": "output_text",
                            "text": "see",
                            "annotations": [
                                {"type": "url_citation"},
                                {"type": "of_the_future"},
                                {"type": "url_citation", "start_index": 1, "end_index": 2, "title": "v", "url": "w"},
                            ],
                        }
                    ],
                ),
            ],
            [
                Text("see"),
                Cited(UrlCitation(start_index=0, end_index=3, title="t", url="u")),
                Cited(UrlCitation(start_index=1, end_index=2, title="v", url="w")),
            ],
            id="citations, the last of them only in the item",
        ),
        pytest.param(
            [done(0, type="compaction", id="cmp_1", encrypted_content="x")],
            [PassThrough(OtherItem({"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}))],
            id="compaction",
        ),
        pytest.param(
            [
                event("shell_call_output_content.delta", delta={"stdout": "x"}),
                event("something.new", output_index="first"),
                "[DONE]",
            ],
            [],
            id="events that are not read",
        ),
    ],
)
def test_items(payloads: list[str], deltas: list[Delta]) -> None:
    assert deltas_of(*payloads) == [*deltas, Finish("stop")]


@pytest.mark.parametrize(
    ("payloads", "deltas"),
    [
        pytest.param(
            [
                added(1, **FUNCTION, arguments="", status="in_progress"),
                event("function_call_arguments.delta", output_index=1, delta='{"a"'),
                event("function_call_arguments.delta", output_index=1, delta=":1}"),
                event("function_call_arguments.done", output_index=1, arguments='{"a":1}'),
                done(1, **FUNCTION, arguments='{"a":1}', status="completed"),
            ],
            [CallBegun(1, "c", "f"), CallPiece(1, '{"a"'), CallPiece(1, ":1}"), CallEnd(1, '{"a":1}')],
            id="function",
        ),
        pytest.param(
            [done(0, **FUNCTION, arguments='{"a":1}')],
            [CallBegun(0, "c", "f"), CallPiece(0, '{"a":1}'), CallEnd(0, '{"a":1}')],
            id="function that was not streamed",
        ),
        pytest.param(
            [added(0, **FUNCTION), done(0, **FUNCTION, arguments="")],
            [CallBegun(0, "c", "f"), CallPiece(0, "{}"), CallEnd(0, "{}")],
            id="function without arguments",
        ),
        pytest.param(
            [
                added(0, type="custom_tool_call", call_id="c", name="sh", input=""),
                event("custom_tool_call_input.delta", output_index=0, delta="ls"),
                done(0, type="custom_tool_call", call_id="c", name="sh", input="ls"),
            ],
            [CallBegun(0, "c", "sh", custom=True), CallPiece(0, "ls"), CallEnd(0, "ls")],
            id="custom",
        ),
        pytest.param(
            [done(0, type="custom_tool_call", call_id="c", name="sh", input="ls")],
            [CallBegun(0, "c", "sh", custom=True), CallPiece(0, "ls"), CallEnd(0, "ls")],
            id="custom that was not streamed",
        ),
    ],
)
def test_calls(payloads: list[str], deltas: list[Delta]) -> None:
    assert deltas_of(*payloads) == [*deltas, Finish("calls")]


def test_a_call_that_was_cut_has_no_end() -> None:
    cut = event("incomplete", response={"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}})
    payloads = [
        added(0, **FUNCTION),
        event("function_call_arguments.delta", output_index=0, delta='{"a'),
        done(0, **FUNCTION, arguments='{"a', status="incomplete"),
    ]
    assert deltas_of(*payloads, end=cut) == [CallBegun(0, "c", "f"), CallPiece(0, '{"a'), Finish("length")]


@pytest.mark.parametrize("status", ["completed", "failed", "incomplete"])
def test_how_a_cell_of_the_providers_ended(status: str) -> None:
    item = {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1", "code": "x", "outputs": []}
    found = deltas_of(added(0, **{**item, "code": ""}), done(0, **item, status=status))
    assert found == [
        HostedCode(0, "ci_1", "cntr_1", ""),
        HostedCode(0, "ci_1", "cntr_1", "x"),
        HostedEnd(
            0,
            CodeInterpreterCall(id="ci_1", status=status, code="x", container_id="cntr_1", outputs=()),  # type: ignore[arg-type]
        ),
        Finish("stop"),
    ]


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "filtered"),
        ({"status": "incomplete", "incomplete_details": None}, "length"),
        ({}, "length"),
    ],
)
def test_an_incomplete_answer(response: dict[str, Any], reason: str) -> None:
    assert deltas_of(end=event("incomplete", response=response)) == [Finish(reason)]  # type: ignore[arg-type]


def test_usage_in_its_least_form() -> None:
    end = event("completed", response={"status": "completed", "usage": {"input_tokens": 3, "output_tokens": 4}})
    expected = Usage(input_tokens=3, output_tokens=4, total_tokens=7)
    assert deltas_of(end=end) == [Finish("stop"), UsageDelta(expected)]


def test_after_the_end_nothing_counts() -> None:
    assert deltas_of(COMPLETED, event("output_text.delta", delta="late"), end="{not JSON") == [Finish("stop")]


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ('{"type":"error","error":{"type":"x","code":"rate_limit_exceeded","message":"m","param":null}}', RateLimited),
        ('{"type":"error","code":"context_length_exceeded","message":"m","param":null}', ContextTooLong),
        ('{"error":{"message":"bad","code":400}}', Declined),
        (
            event("failed", response={"status": "failed", "error": {"code": "insufficient_quota", "message": "m"}}),
            QuotaExceeded,
        ),
        (
            event("failed", response={"status": "failed", "error": {"code": "server_error", "message": "m"}}),
            ProviderError,
        ),
        (event("failed", response={"status": "failed", "error": None}), ProviderError),
        (event("failed", response={}), ProviderError),
        ("{}", ProviderError),
        ("{not JSON", Garbled),
        (event("output_text.delta", delta=1), Garbled),
        (event("output_item.added", output_index="first"), Garbled),
        (event("output_item.done", output_index=0), Garbled),
        ('{"type":7}', Garbled),
    ],
)
def test_errors(payload: str, error: type[ProviderError]) -> None:
    with pytest.raises(error) as caught:
        deltas_of(payload)
    assert type(caught.value) is error
    assert str(caught.value).startswith("acme")


@pytest.mark.parametrize("body", [b"", stream([event("output_text.delta", delta="a")])])
def test_a_stream_that_ends_too_soon(body: bytes) -> None:
    with pytest.raises(Garbled, match=r"^acme ended the stream"):
        play(make, body)


def test_what_came_before_an_error_is_not_lost() -> None:
    decoding = make()
    error = '{"type":"error","error":{"code":"rate_limit_exceeded","message":"m"}}'
    assert decoding.feed(stream([event("output_text.delta", delta="a"), error])) == [Text("a")]
    with pytest.raises(RateLimited):
        decoding.close()


# -- what only the library asks for ------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [named(chunks(CODE)), json.dumps(last(CODE)).encode()], ids=["streamed", "whole"])
def test_an_answer_is_told_by_its_id_and_kept_as_it_came(data: bytes) -> None:
    decoding = OpenAIDialect().decoder(ModelRequest(model="m", items=()), keep=True)
    assert (decoding.feed(data) + decoding.close())[0] == Begun(last(CODE)["id"])
    assert decoding.verbatim() == Verbatim("openai", tuple(last(CODE)["output"]))
    assert make().verbatim() is None


def test_items_that_the_end_does_not_repeat_are_kept_in_their_order() -> None:
    payloads = [done(1, type="message", content=[]), done(0, type="compaction", id="cmp_1"), COMPLETED]
    decoding = ResponsesDecoder("acme", keep=True)
    decoding.feed(stream(payloads))
    decoding.close()
    kept = decoding.verbatim()
    assert kept is not None
    assert [block["type"] for block in kept.blocks] == ["compaction", "message"]


def test_an_id_is_told_with_the_first_delta_and_no_error_comes_after_it() -> None:
    def keeping() -> ResponsesDecoder:
        return ResponsesDecoder("acme", keep=True)

    created = event("created", response={"id": "resp_1", "status": "in_progress"})
    end = event("completed", response={"id": "resp_1", "status": "completed"})
    pieces = [event("output_text.delta", delta=one) for one in "ab"]
    said = [Text("a"), Text("b"), Finish("stop")]
    assert play(keeping, stream([created, *pieces, end])) == [Begun("resp_1"), *said]
    assert play(keeping, stream([created, end])) == [Begun("resp_1"), Finish("stop")]
    assert play(make, stream([created, *pieces, end])) == said
    with pytest.raises(RateLimited):
        keeping().feed(stream([created, '{"type":"error","error":{"code":"rate_limit_exceeded","message":"m"}}']))


@pytest.mark.parametrize(
    ("told", "end", "streams"),
    [
        (
            {"exit": "raised", "exit_code": 3, "stdout": "1", "stderr": "2", "files": ["a"], "file_ids": ["f"]},
            CellEnd(exit="raised", exit_code=3, stdout="1", stderr="2", files=("a",), file_ids=("f",)),
            Ran(code="x", stdout="1", stderr="2", exit=3),
        ),
        (
            {"exit": "timed_out", "stdout": ""},
            CellEnd(exit="timed_out", stdout=""),
            Ran(code="x", late=True),
        ),
        ({"exit": "ok"}, CellEnd(exit="ok"), None),
        ({"exit": "of the future"}, None, None),
        ("odd", None, None),
    ],
)
def test_how_a_cell_of_our_own_gateway_ended(told: Any, end: CellEnd | None, streams: Ran | None) -> None:
    item = {"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "x", "belljar": told}
    (found,) = (delta for delta in deltas_of(done(0, **item)) if isinstance(delta, HostedEnd))
    assert (found.item.belljar or None, found.ran) == (end, streams)
