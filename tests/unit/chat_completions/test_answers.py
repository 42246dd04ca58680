"""Our events as chunks and our responses as completions, checked by the types that the official client has."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from belljar.errors import ContextTooLong, Declined, InvalidRequest
from belljar.gateway.chat_completions.answers import Chunks, encode_completion, find_fault
from belljar.gateway.chat_completions.reading import read_chat
from belljar.wire import events
from belljar.wire.items import (
    Annotation,
    CellEnd,
    CodeInterpreterCall,
    Compaction,
    ContainerFileCitation,
    CustomToolCall,
    FileCitation,
    FilePath,
    FunctionCall,
    Image,
    Logs,
    Message,
    OtherItem,
    OutputItem,
    OutputText,
    Reasoning,
    ReasoningText,
    Refusal,
    SummaryText,
    UrlCitation,
)
from belljar.wire.responses import (
    IncompleteDetails,
    InputDetails,
    OutputDetails,
    Response,
    ResponseError,
    Usage,
)

PNG = "data:image/png;base64,AAAA"
USAGE = Usage(
    input_tokens=10,
    input_tokens_details=InputDetails(cached_tokens=4, cache_write_tokens=1),
    output_tokens=5,
    output_tokens_details=OutputDetails(reasoning_tokens=2),
    total_tokens=15,
)
SPENT = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 2,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}


def response(*output: OutputItem, **more: Any) -> Response:
    given: dict[str, Any] = {"status": "completed", "usage": USAGE, **more}
    return Response(id="resp_1", created_at=7, model="m", output=output, **given)


def message(*parts: OutputText | Refusal) -> Message:
    return Message(role="assistant", content=parts, id="msg_1", status="completed")


def cited(start: int, end: int) -> ContainerFileCitation:
    return ContainerFileCitation(
        container_id="cntr_1", file_id="cfile_1", filename="a.csv", start_index=start, end_index=end
    )


CELL = CodeInterpreterCall(
    id="ci_1",
    status="completed",
    code="print(1)",
    container_id="cntr_1",
    outputs=(Logs(logs="1\n"), Image(url=PNG)),
    belljar=CellEnd(exit="ok", files=("/mnt/data/a.csv",)),
)
SHOWN = {
    "index": 0,
    "type": "code_interpreter_call",
    "id": "ci_1",
    "container_id": "cntr_1",
    "code": "print(1)",
    "status": "completed",
    "outputs": [{"type": "logs", "logs": "1\n"}, {"type": "image", "url": PNG}],
    "belljar": {"exit": "ok", "files": ["/mnt/data/a.csv"]},
}
CALL = FunctionCall(call_id="call_1", name="f", arguments='{"a":1}', id="fc_1")
CUSTOM = CustomToolCall(call_id="call_2", name="sh", input="ls", id="ctc_1")
LINK = "See [it](sandbox:/mnt/data/a.csv)"


def told(output: tuple[OutputItem, ...], end: events.Event | None = None) -> list[events.Event]:
    """The events that make this output, pieces of three characters each."""
    found: list[events.Event] = [events.Created(sequence_number=0, response=response(status="in_progress", usage=None))]
    found.append(events.InProgress(sequence_number=0, response=response(status="in_progress", usage=None)))

    def pieces(text: str) -> list[str]:
        return [text[at : at + 3] for at in range(0, len(text), 3)]

    for index, item in enumerate(output):
        where: dict[str, Any] = {"sequence_number": 0, "output_index": index, "item_id": "x"}
        found.append(events.ItemAdded(sequence_number=0, output_index=index, item=item))
        match item:
            case Message(content=tuple(parts)):
                for n, part in enumerate(parts):
                    place = {**where, "content_index": n}
                    if isinstance(part, OutputText):
                        logprobs = part.logprobs
                        for piece in pieces(part.text):
                            found.append(events.TextDelta(**place, delta=piece, logprobs=logprobs))
                            logprobs = ()
                        for m, one in enumerate(part.annotations):
                            found.append(events.AnnotationAdded(**place, annotation_index=m, annotation=one))
                        found.append(events.TextDone(**place, text=part.text))
                    elif isinstance(part, Refusal):
                        found += [events.RefusalDelta(**place, delta=piece) for piece in pieces(part.refusal)]
            case Reasoning():
                for n, summary in enumerate(item.summary):
                    found.append(events.SummaryPartAdded(**where, summary_index=n, part=SummaryText(text="")))
                    found += [events.SummaryDelta(**where, summary_index=n, delta=p) for p in pieces(summary.text)]
                for n, raw in enumerate(item.content or ()):
                    found += [events.ReasoningDelta(**where, content_index=n, delta=p) for p in pieces(raw.text)]
            case FunctionCall():
                found += [events.ArgumentsDelta(**where, delta=piece) for piece in pieces(item.arguments)]
            case CustomToolCall():
                found += [events.CustomInputDelta(**where, delta=piece) for piece in pieces(item.input)]
            case CodeInterpreterCall():
                found.append(events.CodeStarted(**where))
                found += [events.CodeDelta(**where, delta=piece) for piece in pieces(item.code or "")]
                found.append(events.Interpreting(**where))
                found.append(events.CodeOutputDelta(**where, stream="stdout", delta="1\n"))
        found.append(events.ItemDone(sequence_number=0, output_index=index, item=item))
    found.append(end or events.Completed(sequence_number=0, response=response(*output)))
    return found


def chunks_of(frames: Iterable[bytes]) -> list[dict[str, Any]]:
    """The frames' JSON, each of which is a chunk as the official client knows it."""
    found = []
    for frame in frames:
        assert frame.startswith(b"data: {")
        assert frame.endswith(b"}\n\n")
        found.append(json.loads(frame[6:]))
        ChatCompletionChunk.model_validate(found[-1], strict=True)
    return found


def whole(body: bytes) -> dict[str, Any]:
    found = json.loads(body)
    ChatCompletion.model_validate(found, strict=True)
    assert isinstance(found, dict)
    return found


OUTPUTS: dict[str, tuple[OutputItem, ...]] = {
    "text": (message(OutputText(text="hello wörld")),),
    "refusal": (message(Refusal(refusal="I will not")),),
    "reasoning": (
        Reasoning(id="rs_1", summary=(SummaryText(text="first"), SummaryText(text="second"))),
        message(OutputText(text="so")),
    ),
    "raw reasoning": (Reasoning(id="rs_1", content=(ReasoningText(text="hm hm"),)), message(OutputText(text="so"))),
    "calls": (message(OutputText(text="both")), CALL, structs.replace(CALL, call_id="call_3")),
    "a cell": (CELL, message(OutputText(text=LINK, annotations=(cited(9, 32),)))),
    "two cells and three messages": (
        message(OutputText(text="Let me see.")),
        CELL,
        message(OutputText(text="Again."), OutputText(text=LINK, annotations=(cited(9, 32), cited(0, 0)))),
        CodeInterpreterCall(id="ci_2", status="failed", code="x", container_id="cntr_1"),
        message(OutputText(text="Done.")),
    ),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_pieces_make_the_whole(name: str) -> None:
    """The official client puts the chunks together; what it gets is the completion."""
    output = OUTPUTS[name]
    state: Any = ChatCompletionStreamState()
    for chunk in chunks_of(Chunks(usage=True, live=True).make_frames(told(output))):
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    built = state.current_completion_snapshot.model_dump()
    folded = whole(encode_completion(response(*output)))
    (choice,) = folded["choices"]
    made = built["choices"][0]["message"]
    assert built["choices"][0]["finish_reason"] == choice["finish_reason"]
    assert built["usage"]["total_tokens"] == folded["usage"]["total_tokens"]
    assert (made["content"] or None, made.get("refusal")) == (
        choice["message"]["content"] or None,
        choice["message"]["refusal"],
    )
    assert made.get("reasoning_content") == choice["message"].get("reasoning_content")
    assert (made.get("belljar") or {}).get("cells") == choice["message"].get("belljar", {}).get("cells")
    citations = [{key: one[key] for key in one if key != "index"} for one in made.get("annotations") or []]
    assert citations == choice["message"]["annotations"]
    calls = [{key: one[key] for key in ("id", "type", one["type"])} for one in made.get("tool_calls") or []]
    for one in calls:
        one[one["type"]] = {key: value for key, value in one[one["type"]].items() if key != "parsed_arguments"}
    assert calls == choice["message"].get("tool_calls", [])


@pytest.mark.parametrize("name", OUTPUTS)
def test_one_event_at_a_time_or_all_at_once(name: str) -> None:
    given = told(OUTPUTS[name])
    face = Chunks()
    assert [frame for event in given for frame in face.make_frames([event])] == list(Chunks().make_frames(given))


def test_chunks() -> None:
    first, second, third, last = chunks_of(Chunks().make_frames(told((message(OutputText(text="hello")),))))
    head = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "service_tier": "default",
        "system_fingerprint": None,
    }

    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}

    assert first == chunk({"role": "assistant", "content": "", "refusal": None})
    assert (second, third) == (chunk({"content": "hel"}), chunk({"content": "lo"}))
    assert last == chunk({}, "stop")


def test_a_custom_call() -> None:
    """The official client's types of chunks do not know these, though its types of completions do."""
    frames = Chunks().make_frames(told((CALL, CUSTOM)))
    deltas = [json.loads(frame[6:])["choices"][0]["delta"] for frame in frames]
    assert [call for delta in deltas for call in delta.get("tool_calls", []) if call["index"] == 1] == [
        {"index": 1, "id": "call_2", "type": "custom", "custom": {"name": "sh", "input": ""}},
        {"index": 1, "custom": {"input": "ls"}},
    ]


def test_usage_when_asked_for() -> None:
    *others, last = chunks_of(Chunks(usage=True).make_frames(told((message(OutputText(text="hello")),))))
    assert (last["choices"], last["usage"]) == ([], SPENT)
    assert [chunk["usage"] for chunk in others] == [None] * len(others)


def test_a_completion() -> None:
    token = {"token": "so", "logprob": -0.1, "bytes": None, "top_logprobs": []}
    found = whole(encode_completion(response(CELL, message(OutputText(text="so", logprobs=(token,))), CALL, CUSTOM)))
    assert found == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "service_tier": "default",
        "system_fingerprint": None,
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "so",
                    "refusal": None,
                    "annotations": [],
                    "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
                        {"id": "call_2", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
                    ],
                    "belljar": {"cells": [SHOWN]},
                },
                "logprobs": {"content": [token], "refusal": None},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": SPENT,
    }


def test_an_answer_without_text() -> None:
    found = whole(encode_completion(response(usage=None)))
    assert found["choices"][0]["message"] == {"role": "assistant", "content": "", "refusal": None, "annotations": []}
    assert found["usage"]["total_tokens"] == 0


@pytest.mark.parametrize(
    "item", [Compaction(encrypted_content="x", id="cmp_1"), OtherItem({"type": "web_search_call", "id": "ws_1"})]
)
def test_what_this_wire_has_no_word_for_is_left_out(item: OutputItem) -> None:
    said = message(OutputText(text="hello"))
    assert encode_completion(response(item, said)) == encode_completion(response(said))


def test_logprobs_come_with_their_text() -> None:
    token = {"token": "hel", "logprob": -0.1, "bytes": None, "top_logprobs": []}
    found = chunks_of(Chunks().make_frames(told((message(OutputText(text="hello", logprobs=(token,))),))))
    assert [chunk["choices"][0]["logprobs"] for chunk in found] == [
        None,
        {"content": [token], "refusal": None},
        None,
        None,
    ]


def test_a_cell_comes_whole_and_as_it_runs_to_those_who_take_that() -> None:
    def told_of_cells(live: bool) -> list[dict[str, Any]]:
        found = [chunk["choices"][0]["delta"] for chunk in chunks_of(Chunks(live=live).make_frames(told((CELL,))))]
        return [delta["belljar"] for delta in found if "belljar" in delta]

    assert told_of_cells(live=False) == [{"cells": [SHOWN]}]
    assert told_of_cells(live=True) == [
        {"live": [{"index": 0, "code": "pri"}]},
        {"live": [{"index": 0, "code": "nt("}]},
        {"live": [{"index": 0, "code": "1)"}]},
        {"live": [{"index": 0, "stdout": "1\n"}]},
        {"cells": [SHOWN]},
    ]


def test_a_citation_points_into_the_whole_text() -> None:
    found = whole(encode_completion(response(*OUTPUTS["two cells and three messages"]), "http://host"))
    said = found["choices"][0]["message"]
    assert said["content"] == f"Let me see.\n\nAgain.{LINK}\n\nDone."
    first, second = said["annotations"]
    where = first["url_citation"]
    assert said["content"][where["start_index"] : where["end_index"]] == "sandbox:/mnt/data/a.csv"
    assert where["url"] == "http://host/v1/containers/cntr_1/files/cfile_1/content"
    assert (first["container_id"], first["file_id"], where["title"]) == ("cntr_1", "cfile_1", "a.csv")
    assert (second["url_citation"]["start_index"], second["url_citation"]["end_index"]) == (0, 0)


@pytest.mark.parametrize(
    ("annotation", "shown"),
    [
        (
            UrlCitation(start_index=0, end_index=1, title="t", url="http://x"),
            {
                "type": "url_citation",
                "url_citation": {"start_index": 0, "end_index": 1, "title": "t", "url": "http://x"},
            },
        ),
        (
            FileCitation(file_id="file-1", filename="a.pdf", index=3),
            {
                "type": "url_citation",
                "url_citation": {"start_index": 0, "end_index": 0, "title": "a.pdf", "url": "/v1/files/file-1/content"},
                "file_id": "file-1",
            },
        ),
        (
            FilePath(file_id="file-1", index=3),
            {
                "type": "url_citation",
                "url_citation": {"start_index": 0, "end_index": 0, "title": "", "url": "/v1/files/file-1/content"},
                "file_id": "file-1",
            },
        ),
    ],
)
def test_other_citations(annotation: Annotation, shown: dict[str, Any]) -> None:
    found = whole(encode_completion(response(message(OutputText(text="abc", annotations=(annotation,))))))
    assert found["choices"][0]["message"]["annotations"] == [shown]


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        (IncompleteDetails(reason="max_output_tokens"), "length"),
        (IncompleteDetails(reason="content_filter"), "content_filter"),
        (None, "length"),
    ],
)
def test_an_answer_that_was_cut(details: IncompleteDetails | None, reason: str) -> None:
    cut = response(CALL, status="incomplete", incomplete_details=details)
    assert whole(encode_completion(cut))["choices"][0]["finish_reason"] == reason
    frames = Chunks().make_frames(told((CALL,), events.Incomplete(sequence_number=0, response=cut)))
    assert chunks_of(frames)[-1]["choices"][0]["finish_reason"] == reason


def test_an_answer_that_failed() -> None:
    failed = response(status="failed", error=ResponseError(code="server_error", message="boom"))
    body = {"error": {"message": "boom", "type": "server_error", "param": None, "code": "server_error"}}
    *_, error = Chunks().make_frames(told((), events.Failed(sequence_number=0, response=failed)))
    assert json.loads(error[6:]) == body


def test_an_error_is_told_once() -> None:
    failed = response(status="failed", error=ResponseError(code="x", message="boom"))
    detail = events.ErrorDetail(type="invalid_request_error", code="x", message="boom", param="input")
    given = [*told(())[:1], events.ErrorEvent(sequence_number=1, error=detail)]
    start, error = Chunks().make_frames([*given, events.Failed(sequence_number=2, response=failed)])
    assert json.loads(error[6:]) == {
        "error": {"message": "boom", "type": "invalid_request_error", "param": "input", "code": "x"}
    }
    assert start[:6] == b"data: "


def test_what_is_answered_can_be_sent_back() -> None:
    """A client that keeps the conversation keeps the container with it."""
    said = whole(encode_completion(response(CELL, message(OutputText(text=LINK, annotations=(cited(9, 32),))))))
    again = read_chat({"model": "m", "messages": [{"role": "user", "content": "hi"}, said["choices"][0]["message"]]})
    _, cell, text = again.request.input
    assert isinstance(cell, CodeInterpreterCall)
    assert (cell.id, cell.container_id, cell.code, cell.outputs) == ("ci_1", "cntr_1", "print(1)", CELL.outputs)
    assert text == Message(role="assistant", content=(OutputText(text=LINK),))


def test_an_unknown_model_is_not_found() -> None:
    for unknown in (
        InvalidRequest("no such model", param="model", fault="model_not_found"),
        Declined("no such model", param="model", fault="model_not_found"),
    ):
        assert (find_fault(unknown).status, find_fault(unknown).code) == (404, "model_not_found")
    assert find_fault(ContextTooLong("too long")).status == 400
