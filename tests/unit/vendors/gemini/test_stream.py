"""Gemini's answers, recorded or made up, become the same deltas however they are cut."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.vendors.conftest import RECORDINGS, chunks, cuts_of, joined, outline, play, stream

from belljar.errors import Filtered, Garbled, ProviderError, RateLimited
from belljar.vendors.deltas import (
    CallBegun,
    CallEnd,
    CallPiece,
    Delta,
    Finish,
    HostedCode,
    HostedEnd,
    Ran,
    Text,
    Thought,
    ThoughtEnd,
    UsageDelta,
    VendorState,
)
from belljar.vendors.gemini.dialect import GeminiDialect
from belljar.vendors.gemini.signatures import Signed, pack_signature, unpack_signature
from belljar.vendors.gemini.stream import GeminiDecoder
from belljar.vendors.registry import KINDS
from belljar.vendors.request import HostedFile, ModelRequest, Verbatim
from belljar.wire.items import CellEnd, CodeInterpreterCall, Image, Logs, Reasoning, SummaryText
from belljar.wire.responses import InputDetails, OutputDetails, Usage
from belljar.wire.tools import CustomTool

TEXT = "gemini/google-text.chunks.txt"
REASONING = "gemini/google-reasoning.chunks.txt"
CALL = "gemini/google-tool-call-gemini3.chunks.txt"
ARGUMENTS = "gemini/google-stream-tool-call-arguments.chunks.txt"
STREAMS = [TEXT, REASONING, CALL, ARGUMENTS, "gemini/google-tool-call.chunks.txt"]
WHOLE = ["gemini/google-text.json", "gemini/google-tool-call-gemini3.json"]
PNG = base64.b64encode(b"\x89PNG").decode()


def make() -> GeminiDecoder:
    numbers = iter(range(100))
    return GeminiDecoder("acme", new_id=lambda: f"call_{next(numbers)}")


def exchanges(name: str) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load((RECORDINGS / name).read_text(encoding="utf-8"))["interactions"]


def recorded(name: str) -> bytes:
    """A recording as its bytes came over the wire."""
    if name.endswith(".yaml"):
        (exchange,) = exchanges(name)
        return str(exchange["response"]["body"]["string"]).encode()
    if name.endswith(".json"):
        return (RECORDINGS / name).read_bytes()
    return stream(chunks(name), done=False, end="\r\n")


CODE_STREAM = "gemini/test_code_execution_stream.yaml"
ALL = [*STREAMS, *WHOLE, CODE_STREAM]


def signatures(deltas: list[Delta]) -> list[tuple[str, str]]:
    kept = [
        delta.content if isinstance(delta, VendorState) else delta.item.encrypted_content
        for delta in deltas
        if isinstance(delta, VendorState | ThoughtEnd)
    ]
    found = [unpack_signature("gemini", one) for one in kept]
    return [(one.on, one.signature) for one in found if one is not None]


def sent(data: Any) -> list[str]:
    """Every signature in a recorded answer."""
    if isinstance(data, dict):
        own = [data["thoughtSignature"]] if "thoughtSignature" in data else []
        return own + [one for value in data.values() for one in sent(value)]
    return [one for value in data for one in sent(value)] if isinstance(data, list) else []


# -- recordings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [TEXT, REASONING])
def test_a_recorded_text(name: str) -> None:
    deltas = play(make, recorded(name))
    assert outline(deltas) == ["Text", "VendorState", "Finish", "UsageDelta"]
    parts = [part for line in chunks(name) for part in json.loads(line)["candidates"][0]["content"]["parts"]]
    assert joined(deltas, Text) == "".join(part["text"] for part in parts)
    assert signatures(deltas) == [("text", part["thoughtSignature"]) for part in parts if "thoughtSignature" in part]
    usage = json.loads(chunks(name)[-1])["usageMetadata"]
    assert deltas[-1] == UsageDelta(
        Usage(
            input_tokens=usage["promptTokenCount"],
            output_tokens=usage["candidatesTokenCount"] + usage["thoughtsTokenCount"],
            output_tokens_details=OutputDetails(reasoning_tokens=usage["thoughtsTokenCount"]),
            total_tokens=usage["totalTokenCount"],
        )
    )


@pytest.mark.parametrize("name", [CALL, "gemini/google-tool-call.chunks.txt", "gemini/google-tool-call-gemini3.json"])
def test_a_recorded_call_comes_whole_with_its_signature_before_it(name: str) -> None:
    deltas = play(make, recorded(name))
    assert outline(deltas) == ["ThoughtEnd", "CallBegun", "CallPiece", "CallEnd", "Finish", "UsageDelta"]
    _, begun, piece, end, finish, _ = deltas
    assert begun == CallBegun(0, "call_0", "weather")
    assert isinstance(end, CallEnd)
    assert isinstance(piece, CallPiece)
    assert json.loads(end.arguments) == {"location": "San Francisco"}
    assert piece.text == end.arguments
    assert finish == Finish("calls")
    data = [json.loads(line) for line in chunks(name)] if name.endswith("txt") else json.loads(recorded(name))
    assert signatures(deltas) == [("call", one) for one in sent(data)]


def test_recorded_calls_whose_arguments_are_streamed() -> None:
    deltas = play(make, recorded(ARGUMENTS))
    calls = [CallBegun(0, "call_0", "getWeather"), CallBegun(1, "call_1", "getWeather")]
    assert [delta for delta in deltas if isinstance(delta, CallBegun)] == calls
    ends = [delta for delta in deltas if isinstance(delta, CallEnd)]
    assert [json.loads(end.arguments) for end in ends] == [{"location": "Boston"}, {"location": "San Francisco"}]
    for end in ends:
        pieces = [delta.text for delta in deltas if isinstance(delta, CallPiece) and delta.index == end.index]
        assert "".join(pieces) == end.arguments
        assert len(pieces) > 1
    assert [on for on, _ in signatures(deltas)] == ["call"]
    assert Finish("calls") in deltas


def test_a_recorded_stream_of_code_that_gemini_ran() -> None:
    deltas = play(make, recorded(CODE_STREAM))
    assert outline(deltas) == ["ThoughtEnd", "HostedCode", "HostedEnd", "Text", "VendorState", "Finish", "UsageDelta"]
    code = "result = 65465 - 6544 * 65464 - 6 + 1.02255\nprint(result)"
    assert deltas[1:3] == [
        HostedCode(0, "ci_8xju7mua", "", code),
        HostedEnd(
            0,
            CodeInterpreterCall(
                id="ci_8xju7mua",
                status="completed",
                code=code,
                container_id="",
                outputs=(Logs(logs="-428330955.97745\n"),),
                belljar=CellEnd(exit="ok", exit_code=0),
            ),
            ran=Ran(code=code, stdout="-428330955.97745\n"),
        ),
    ]
    assert [on for on, _ in signatures(deltas)] == ["code", "text"]
    assert "-428,330,955.97745" in joined(deltas, Text)
    assert deltas[-2:] == [
        Finish("stop"),
        UsageDelta(
            Usage(
                input_tokens=147 + 360,
                output_tokens=108 + 168,
                output_tokens_details=OutputDetails(reasoning_tokens=168),
                total_tokens=783,
            )
        ),
    ]


def test_recorded_answers_with_several_cells() -> None:
    for exchange in exchanges("gemini/test_code_execution.yaml"):
        answer = exchange["response"]["parsed_body"]
        deltas = play(make, json.dumps(answer).encode())
        parts = answer["candidates"][0]["content"]["parts"]
        codes = [part["executableCode"] for part in parts if "executableCode" in part]
        ends = [delta.item for delta in deltas if isinstance(delta, HostedEnd)]
        assert [(end.id, end.code) for end in ends] == [(f"ci_{one['id']}", one["code"]) for one in codes]
        assert [signature for _, signature in signatures(deltas)] == sent(parts)
        assert joined(deltas, Text) == parts[-1]["text"]


@pytest.mark.parametrize("name", ALL)
def test_the_sdk_reads_the_recordings_as_we_do(name: str) -> None:
    body = recorded(name)
    lines = body.split(b"\r\n\r\n") if body.startswith(b"data:") else [body]
    answers = [
        types.GenerateContentResponse.model_validate_json(line.removeprefix(b"data: ")) for line in lines if line
    ]
    deltas = play(make, body)
    parts = [part for one in answers for part in (one.candidates or [])[0].content.parts or []]  # type: ignore[union-attr]
    assert joined(deltas, Text) == "".join(part.text or "" for part in parts)
    assert sum(isinstance(delta, CallBegun) for delta in deltas) == sum(
        part.function_call is not None and part.function_call.name is not None for part in parts
    )
    codes = [part.executable_code.code for part in parts if part.executable_code is not None]
    assert [delta.text for delta in deltas if isinstance(delta, HostedCode)] == codes
    usage = answers[-1].usage_metadata
    (spent,) = (delta.usage for delta in deltas if isinstance(delta, UsageDelta))
    assert usage is not None
    assert spent.total_tokens == usage.total_token_count


@pytest.mark.parametrize("name", ALL)
def test_byte_by_byte(name: str) -> None:
    body = recorded(name)
    assert play(make, body, range(len(body))) == play(make, body)


@given(data=st.data(), name=st.sampled_from([TEXT, ARGUMENTS, CODE_STREAM]))
def test_any_cut_gives_the_same(data: st.DataObject, name: str) -> None:
    body = recorded(name)
    assert play(make, body, data.draw(cuts_of(len(body)))) == play(make, body)


# -- made up ----------------------------------------------------------------------------------------------------------


def chunk(*parts: dict[str, Any], reason: str | None = None, **more: Any) -> str:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if reason:
        candidate["finishReason"] = reason
    return json.dumps({"candidates": [candidate], **more})


def deltas_of(*payloads: str) -> list[Delta]:
    return play(make, stream(payloads, done=False))


def thought(signed: Signed | None = None, text: str = "") -> ThoughtEnd:
    summary = (SummaryText(text=text),) if text else ()
    if signed is None:
        return ThoughtEnd(Reasoning(summary=summary))
    return ThoughtEnd(Reasoning(summary=summary, encrypted_content=pack_signature("gemini", signed)))


def test_thoughts_are_a_summary() -> None:
    found = deltas_of(
        chunk({"text": "**Plan**", "thought": True}),
        chunk({"text": " and more", "thought": True}),
        chunk({"text": "Hi"}, reason="STOP"),
    )
    assert found == [
        Thought("**Plan**", "summary"),
        Thought(" and more", "summary"),
        thought(text="**Plan** and more"),
        Text("Hi"),
        Finish("stop"),
    ]


def test_a_thought_and_the_signature_of_the_call_it_led_to_are_one_item() -> None:
    found = deltas_of(
        chunk({"text": "Hm", "thought": True}),
        chunk({"functionCall": {"name": "f", "id": "abc"}, "thoughtSignature": "S"}, reason="STOP"),
    )
    assert found == [
        Thought("Hm", "summary"),
        thought(Signed("call", "S"), "Hm"),
        CallBegun(0, "abc", "f"),
        CallPiece(0, "{}"),
        CallEnd(0, "{}"),
        Finish("calls"),
    ]


def test_a_thought_that_is_signed_itself() -> None:
    found = deltas_of(chunk({"text": "Hm", "thought": True, "thoughtSignature": "S"}), chunk(reason="STOP"))
    assert found == [Thought("Hm", "summary"), thought(Signed("thought", "S"), "Hm"), Finish("stop")]


def test_a_thought_whose_signature_comes_by_itself() -> None:
    found = deltas_of(
        chunk({"text": "Hm", "thought": True}), chunk({"thought": True, "thoughtSignature": "S"}, reason="STOP")
    )
    assert found == [Thought("Hm", "summary"), thought(Signed("thought", "S"), "Hm"), Finish("stop")]


def test_text_that_is_signed_goes_on() -> None:
    found = deltas_of(
        chunk({"text": "a", "thoughtSignature": "S"}),
        chunk({"text": "b"}),
        chunk({"functionCall": {"name": "f"}}, reason="STOP"),
    )
    signed = VendorState(pack_signature("gemini", Signed("text", "S")))
    assert found[:4] == [Text("a"), signed, Text("b"), CallBegun(0, "call_0", "f")]


def test_parallel_calls_of_which_one_is_signed() -> None:
    call = {"functionCall": {"name": "f", "args": {"n": 1}}}
    found = deltas_of(chunk({**call, "thoughtSignature": "S"}, call), chunk({"text": ""}, reason="STOP"))
    assert found == [
        thought(Signed("call", "S")),
        CallBegun(0, "call_0", "f"),
        CallPiece(0, '{"n": 1}'),
        CallEnd(0, '{"n": 1}'),
        CallBegun(1, "call_1", "f"),
        CallPiece(1, '{"n": 1}'),
        CallEnd(1, '{"n": 1}'),
        Finish("calls"),
    ]


@pytest.mark.parametrize("args", [{}, {"args": {}}, {"args": None}])
def test_a_call_without_arguments(args: dict[str, Any]) -> None:
    found = deltas_of(chunk({"functionCall": {"name": "f", **args}}, reason="STOP"))
    assert found[1:3] == [CallPiece(0, "{}"), CallEnd(0, "{}")]


def test_a_custom_tools_call_is_free_text_again() -> None:
    tools = (CustomTool(name="sh"),)
    decoding = GeminiDialect(KINDS["vertex"], "acme").decoder(ModelRequest(model="m", items=(), tools=tools))
    call = {"functionCall": {"name": "sh", "args": {"input": "ls"}, "id": "c"}, "thoughtSignature": "S"}
    found = decoding.feed(stream([chunk(call, reason="STOP")], done=False))
    assert found[1:] == [CallBegun(0, "c", "sh", custom=True), CallPiece(0, "ls"), CallEnd(0, "ls")]
    assert isinstance(found[0], ThoughtEnd)
    assert unpack_signature("vertex", found[0].item.encrypted_content) == Signed("call", "S")
    assert unpack_signature("gemini", found[0].item.encrypted_content) is None


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"args": {"input": 1}}, '{"input": 1}'),
        ({"args": {"inputs": "ls"}}, '{"inputs": "ls"}'),
        ({"args": {"input": "ls"}, "partialArgs": [{"jsonPath": "$.a", "numberValue": 1}]}, '{"input": "ls"}{"a":1}'),
    ],
)
def test_what_a_custom_tool_cannot_be_given_goes_as_it_came(args: dict[str, Any], text: str) -> None:
    tools = (CustomTool(name="sh"),)
    decoding = GeminiDialect(KINDS["vertex"], "acme").decoder(ModelRequest(model="m", items=(), tools=tools))
    call = {"functionCall": {"name": "sh", "id": "c", **args}}
    found = decoding.feed(stream([chunk(call, reason="STOP")], done=False))
    assert found[:3] == [CallBegun(0, "c", "sh", custom=True), CallPiece(0, text), CallEnd(0, text)]


def test_arguments_of_every_kind_that_are_streamed() -> None:
    def part(*args: dict[str, Any], more: bool = True) -> str:
        return chunk({"functionCall": {"partialArgs": list(args), "willContinue": more}})

    found = deltas_of(
        chunk({"functionCall": {"name": "f", "willContinue": True}}),
        part({"jsonPath": "$.code", "stringValue": 'print("', "willContinue": True}),
        part({"jsonPath": "$.code", "stringValue": 'å\n")'}),
        part(
            {"jsonPath": "$.deep.list[0]['a b']", "numberValue": 1}, {"jsonPath": "$.deep.list[1].x", "boolValue": True}
        ),
        part({"jsonPath": "$.deep.none", "nullValue": "NULL_VALUE"}, {"jsonPath": "$.f"}),
        chunk({"functionCall": {}}, reason="STOP"),
    )
    end = next(delta for delta in found if isinstance(delta, CallEnd))
    assert json.loads(end.arguments) == {
        "code": 'print("å\n")',
        "deep": {"list": [{"a b": 1}, {"x": True}], "none": None},
    }
    assert joined(found, CallPiece) == end.arguments


def test_an_argument_that_adds_nothing_is_no_piece() -> None:
    texts = [{"jsonPath": "$.a", "stringValue": text, "willContinue": True} for text in ("b", "", "c")]
    call = {"name": "f", "partialArgs": texts, "willContinue": True}
    found = deltas_of(chunk({"functionCall": call}), chunk({"functionCall": {}}, reason="STOP"))
    pieces = [delta.text for delta in found if isinstance(delta, CallPiece)]
    assert pieces == ['{"a":"b', "c", '"}']
    assert CallEnd(0, '{"a":"bc"}') in found


def test_images_and_files_that_code_made() -> None:
    found = deltas_of(
        chunk({"executableCode": {"code": "plot()", "language": "PYTHON", "id": "a"}}),
        chunk({"codeExecutionResult": {"outcome": "OUTCOME_OK", "id": "a"}}),
        chunk({"inlineData": {"mimeType": "image/png", "data": PNG}}),
        chunk({"inlineData": {"mimeType": "text/csv", "data": "YSxi", "displayName": "t.csv"}}),
        chunk({"text": "Done"}, reason="STOP"),
    )
    code, end, text, _ = found
    assert code == HostedCode(0, "ci_a", "", "plot()")
    assert isinstance(end, HostedEnd)
    assert end.item.outputs == (Image(url=f"data:image/png;base64,{PNG}"),)
    assert end.files == (
        HostedFile(name=None, type="image/png", data=b"\x89PNG"),
        HostedFile(name="t.csv", type="text/csv", data=b"a,b"),
    )
    assert text == Text("Done")


def test_base64_may_be_safe_for_urls() -> None:
    data = base64.urlsafe_b64encode(b"\xfb\xff\xfe").decode()
    found = deltas_of(
        chunk(
            {"executableCode": {"code": "x"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
            {"inlineData": {"mimeType": "image/png", "data": data}},
            reason="STOP",
        )
    )
    (end,) = (delta for delta in found if isinstance(delta, HostedEnd))
    assert end.files[0].data == b"\xfb\xff\xfe"
    assert end.item.id.startswith("ci_")


def test_a_picture_that_the_model_drew_has_no_place() -> None:
    found = deltas_of(chunk({"inlineData": {"mimeType": "image/png", "data": PNG}}, {"text": "a"}, reason="STOP"))
    assert found == [Text("a"), Finish("stop")]


@pytest.mark.parametrize(
    ("outcome", "status", "exit"),
    [
        ("OUTCOME_OK", "completed", "ok"),
        ("OUTCOME_FAILED", "completed", "raised"),
        ("OUTCOME_DEADLINE_EXCEEDED", "failed", "timed_out"),
        ("OUTCOME_UNSPECIFIED", "completed", None),
    ],
)
def test_how_code_ended(outcome: str, status: str, exit: str | None) -> None:
    result = {"codeExecutionResult": {"outcome": outcome, "output": "Traceback"}}
    found = deltas_of(chunk({"executableCode": {"code": "x", "id": "a"}}, result, reason="STOP"))
    (end,) = (delta for delta in found if isinstance(delta, HostedEnd))
    assert end.item.status == status
    assert end.item.outputs == (Logs(logs="Traceback"),)
    assert (end.item.belljar.exit if isinstance(end.item.belljar, CellEnd) else None) == exit


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        ("SAFETY", "filtered"),
        ("RECITATION", "filtered"),
        ("PROHIBITED_CONTENT", "filtered"),
        ("SPII", "filtered"),
        ("BLOCKLIST", "filtered"),
        ("SOMETHING_NEW", "stop"),
    ],
)
def test_why_it_ended(reason: str, finish: str) -> None:
    assert deltas_of(chunk({"text": "a"}, reason=reason)) == [Text("a"), Finish(finish)]  # type: ignore[arg-type]


def test_a_last_chunk_that_says_nothing_but_why() -> None:
    end = json.dumps({"candidates": [{"finishReason": "MAX_TOKENS"}]})
    assert deltas_of(chunk({"text": "a"}), end) == [Text("a"), Finish("length")]


def test_a_call_that_was_cut_off_has_no_end() -> None:
    found = deltas_of(
        chunk({"functionCall": {"name": "f", "willContinue": True}}),
        chunk(
            {
                "functionCall": {
                    "partialArgs": [{"jsonPath": "$.a", "stringValue": "b", "willContinue": True}],
                    "willContinue": True,
                }
            },
            reason="MAX_TOKENS",
        ),
    )
    assert found == [CallBegun(0, "call_0", "f"), CallPiece(0, '{"a":"b'), Finish("length")]


def test_only_the_first_candidate_counts_and_groundings_do_not() -> None:
    first = {"content": {"parts": [{"text": "a"}]}, "groundingMetadata": {"webSearchQueries": ["x"]}}
    second = {"index": 1, "content": {"parts": [{"text": "b"}]}, "finishReason": "STOP"}
    body = json.dumps({"candidates": [{**first, "finishReason": "STOP"}, second]})
    assert deltas_of(body) == [Text("a"), Finish("stop")]


def test_tokens_of_every_kind() -> None:
    usage = {"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 7, "thoughtsTokenCount": 5}
    found = deltas_of(chunk(reason="STOP", usageMetadata={**usage, "toolUsePromptTokenCount": 20}))
    spent = Usage(
        input_tokens=120,
        input_tokens_details=InputDetails(cached_tokens=60),
        output_tokens=12,
        output_tokens_details=OutputDetails(reasoning_tokens=5),
        total_tokens=132,
    )
    assert found[-1] == UsageDelta(spent)


# -- what goes wrong --------------------------------------------------------------------------------------------------

EXHAUSTED = {"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}


@pytest.mark.parametrize(
    ("payloads", "error", "told"),
    [
        ([chunk({"text": "a"})], Garbled, "in the middle"),
        ([], Garbled, "in the middle"),
        (["{not JSON"], Garbled, "cannot be read"),
        ([json.dumps({"candidates": "none"})], Garbled, "cannot be read"),
        ([json.dumps({"promptFeedback": {"blockReason": "SAFETY"}})], Filtered, "SAFETY"),
        (
            [json.dumps({"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "no"}})],
            Filtered,
            r"\(OTHER\): no",
        ),
        ([chunk(reason="MALFORMED_FUNCTION_CALL")], ProviderError, "a call that cannot be read"),
        ([chunk(reason="OTHER")], ProviderError, "without saying why"),
        ([json.dumps(EXHAUSTED)], RateLimited, "slow"),
        ([json.dumps({"error": {"code": 500, "message": "oops", "status": "INTERNAL"}})], ProviderError, "oops"),
        ([json.dumps({"error": "oops"})], ProviderError, "oops"),
        ([chunk({"functionCall": {"partialArgs": []}})], Garbled, "without a name"),
        ([chunk({"codeExecutionResult": {"outcome": "OUTCOME_OK"}})], Garbled, "had not shown"),
        (
            [
                chunk({"executableCode": {"code": "x"}}),
                chunk({"codeExecutionResult": {}}, {"inlineData": {"mimeType": "image/png", "data": "a"}}),
            ],
            Garbled,
            "not base64",
        ),
        (
            [chunk({"functionCall": {"name": "f", "partialArgs": [{"jsonPath": "code", "stringValue": "x"}]}})],
            Garbled,
            "no path",
        ),
    ],
)
def test_errors(payloads: list[str], error: type[ProviderError], told: str) -> None:
    with pytest.raises(error, match=told) as caught:
        deltas_of(*payloads)
    assert type(caught.value) is error
    assert str(caught.value).startswith("acme")


def test_what_came_before_an_error_is_not_lost() -> None:
    decoding = make()
    assert decoding.feed(stream([chunk({"text": "a"}), json.dumps(EXHAUSTED)], done=False)) == [Text("a")]
    with pytest.raises(RateLimited):
        decoding.close()


# -- what only the library asks for ------------------------------------------------------------------------------------


def kept(data: bytes) -> Verbatim:
    decoding = GeminiDialect().decoder(ModelRequest(model="m", items=()), keep=True)
    decoding.feed(data)
    decoding.close()
    found = decoding.verbatim()
    assert found is not None
    return found


def parts_of(data: bytes) -> list[dict[str, Any]]:
    events = [json.loads(line.removeprefix(b"data: ")) for line in data.splitlines() if line.startswith(b"data: ")]
    return [part for event in events for part in event["candidates"][0]["content"].get("parts", ())]


def test_an_answer_is_kept_as_it_came_with_its_text_in_one() -> None:
    data = recorded(REASONING)
    came, found = parts_of(data), kept(data).blocks
    assert "".join(part.get("text", "") for part in came) == "".join(part.get("text", "") for part in found)
    assert [part["thoughtSignature"] for part in came if "thoughtSignature" in part] == [
        part["thoughtSignature"] for part in found if "thoughtSignature" in part
    ]
    assert len(found) < len(came)
    assert make().verbatim() is None


def test_a_call_is_kept_as_it_came_with_the_id_that_it_was_told_by() -> None:
    whole = (RECORDINGS / "gemini/google-tool-call-gemini3.json").read_bytes()
    found = kept(whole)
    assert list(found.blocks) == json.loads(whole)["candidates"][0]["content"]["parts"]
    assert len(found.calls) == 1


def test_arguments_that_came_in_pieces_are_kept_whole() -> None:
    data = recorded(ARGUMENTS)
    ended = [json.loads(delta.arguments) for delta in play(make, data) if isinstance(delta, CallEnd)]
    calls = [part["functionCall"] for part in kept(data).blocks if "functionCall" in part]
    assert [call["args"] for call in calls] == ended != []
    assert not any({"partialArgs", "willContinue"} & call.keys() for call in calls)


def test_of_what_was_cut_off_and_of_other_candidates_nothing_is_kept() -> None:
    begun = {"functionCall": {"name": "f", "willContinue": True}}
    other = {"index": 1, "content": {"parts": [{"text": "no"}]}}
    said = {"candidates": [{"content": {"parts": [{"text": "a"}, begun]}, "finishReason": "MAX_TOKENS"}, other]}
    assert kept(stream([json.dumps(said), json.dumps({"candidates": [{"content": None}]})], done=False)).blocks == (
        {"text": "a"},
    )
