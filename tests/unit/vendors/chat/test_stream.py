"""ChatRequest answers of every server that we know, recorded or odd, become the same deltas however they are cut."""

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.vendors.conftest import RECORDINGS, bodies, chunks, cuts_of, joined, outline, play, stream

from belljar.errors import ContextTooLong, Filtered, Garbled, ProviderError, RateLimited, Unreachable
from belljar.vendors.chat.dialect import ChatDialect
from belljar.vendors.chat.stream import ChatDecoder
from belljar.vendors.deltas import (
    CallBegun,
    CallEnd,
    CallPiece,
    Delta,
    Finish,
    Refused,
    Text,
    Thought,
    ThoughtEnd,
    UsageDelta,
)
from belljar.vendors.registry import KINDS
from belljar.vendors.request import ModelRequest
from belljar.wire.items import Reasoning, ReasoningText
from belljar.wire.responses import InputDetails, OutputDetails, Usage
from belljar.wire.tools import CustomTool

STREAMS = [
    # kinds of delta, reason, tokens in and out, of which cached and reasoned
    ("chat/alibaba-reasoning", ["Thought", "ThoughtEnd", "Text", "Finish", "UsageDelta"], "stop", (24, 1355, 0, 1084)),
    ("chat/alibaba-tool-call", ["CallBegun", "CallPiece", "CallEnd", "Finish", "UsageDelta"], "calls", (295, 22, 0, 0)),
    ("chat/deepseek-reasoning", ["Thought", "ThoughtEnd", "Text", "Finish", "UsageDelta"], "stop", (18, 219, 0, 205)),
    ("chat/deepseek-text", ["Text", "Finish", "UsageDelta"], "length", (13, 400, 0, 0)),
    (
        "chat/deepseek-tool-call",
        ["Thought", "ThoughtEnd", "CallBegun", "CallPiece", "CallEnd", "Finish", "UsageDelta"],
        "calls",
        (339, 83, 320, 39),
    ),
    ("chat/groq-text", ["Text", "Finish", "UsageDelta"], "stop", (45, 662, 0, 0)),
    ("chat/groq-tool-call", ["CallBegun", "CallPiece", "CallEnd", "Finish", "UsageDelta"], "calls", (210, 15, 0, 0)),
    ("xai/xai-text", ["Thought", "ThoughtEnd", "Text", "Finish", "UsageDelta"], "stop", None),
    (
        "xai/xai-tool-call",
        ["Thought", "ThoughtEnd", "CallBegun", "CallPiece", "CallEnd", "Finish", "UsageDelta"],
        "calls",
        None,
    ),
]
NAMES = [name for name, *_ in STREAMS]


def make() -> ChatDecoder:
    numbers = count()
    return ChatDecoder(upstream="acme", new_id=lambda: f"new_{next(numbers)}")


def said(name: str, key: str) -> str:
    """All of one text member of a recorded stream, found by other means."""
    choices = [choice for line in chunks(f"{name}.chunks.txt") for choice in json.loads(line)["choices"]]
    return "".join(choice["delta"].get(key) or "" for choice in choices)


@pytest.mark.parametrize(("name", "kinds", "reason", "tokens"), STREAMS, ids=NAMES)
def test_recorded_streams(name: str, kinds: list[str], reason: str, tokens: tuple[int, ...] | None) -> None:
    deltas = play(make, stream(chunks(f"{name}.chunks.txt")))
    assert outline(deltas) == kinds
    assert joined(deltas, Text) == said(name, "content")
    assert joined(deltas, Thought) == said(name, "reasoning_content")
    ends = [delta.item for delta in deltas if isinstance(delta, ThoughtEnd)]
    assert [part.text for item in ends for part in item.content or ()] == [joined(deltas, Thought)] * len(ends)
    finish, spent = deltas[-2:]
    assert finish == Finish(reason)  # type: ignore[arg-type]
    assert isinstance(spent, UsageDelta)
    usage = spent.usage
    if tokens is not None:
        assert tokens == (
            usage.input_tokens,
            usage.output_tokens,
            usage.input_tokens_details.cached_tokens,
            usage.output_tokens_details.reasoning_tokens,
        )
    begun = [delta for delta in deltas if isinstance(delta, CallBegun)]
    assert [(call.name, json.loads(end.arguments)) for call, end in zip(begun, ended(deltas), strict=True)] == (
        [("weather", json.loads(joined(deltas, CallPiece)))] if reason == "calls" else []
    )


def ended(deltas: list[Delta]) -> list[CallEnd]:
    return [delta for delta in deltas if isinstance(delta, CallEnd)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_recorded_streams_byte_by_byte(name: str, end: str) -> None:
    data = stream(chunks(f"{name}.chunks.txt"), end=end)
    assert play(make, data, range(len(data))) == play(make, stream(chunks(f"{name}.chunks.txt"), done=False))


@pytest.mark.parametrize("name", ["chat/deepseek-tool-call", "chat/alibaba-tool-call", "xai/xai-tool-call"])
@given(data=st.data())
@settings(max_examples=30)
def test_recorded_streams_in_any_pieces(name: str, data: st.DataObject) -> None:
    body = stream(chunks(f"{name}.chunks.txt"))
    assert play(make, body, data.draw(cuts_of(len(body)))) == play(make, body)


@pytest.mark.parametrize("name", ["chat/deepseek-tool-call.json", "xai/xai-tool-call.json", "xai/xai-text.json"])
def test_a_whole_answer_in_place_of_a_stream(name: str) -> None:
    body = (RECORDINGS / name).read_bytes()
    deltas = play(make, body)
    assert deltas == play(make, body, range(0, len(body), 7))
    message = json.loads(body)["choices"][0]["message"]
    assert joined(deltas, Text) == message["content"]
    assert joined(deltas, Thought) == message["reasoning_content"]
    calls = message.get("tool_calls", [])
    assert [end.arguments for end in ended(deltas)] == [call["function"]["arguments"] for call in calls]
    assert isinstance(deltas[-1], UsageDelta)
    assert deltas[-2] == Finish("calls" if calls else "stop")


def test_recorded_whole_answers_of_ollama() -> None:
    first, second = (play(make, body) for body in bodies("chat/test_ollama_cloud_tool_output.yaml", "chat.completion"))
    assert outline(first) == ["Thought", "ThoughtEnd", "Text", "Finish", "UsageDelta"]
    assert joined(first, Text) == "Paris."
    assert [delta for delta in second if not isinstance(delta, Thought | ThoughtEnd)] == [
        CallBegun(0, "call_o2vnpxrw", "final_result"),
        CallPiece(0, '{"city":"Paris","country":"France"}'),
        CallEnd(0, '{"city":"Paris","country":"France"}'),
        Finish("calls"),
        UsageDelta(Usage(input_tokens=206, output_tokens=194, total_tokens=400)),
    ]


# -- what servers do ---------------------------------------------------------------------------------------------------


def choice(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]})


def call(
    index: int | None = 0, id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """One fragment of one call."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    given = {"index": index, "id": id, "function": function}
    return {"tool_calls": [{key: value for key, value in given.items() if value is not None}]}


STOP = choice({}, "stop")
CALLS = choice({}, "tool_calls")


def deltas_of(*payloads: str, **more: Any) -> list[Delta]:
    numbers = count()
    found = play(lambda: ChatDecoder(new_id=lambda: f"new_{next(numbers)}", **more), stream(payloads))
    assert isinstance(found[-1], Finish)
    return found


@pytest.mark.parametrize(
    ("payloads", "deltas"),
    [
        ([choice({"role": "assistant", "content": ""}), choice({"content": "a"}), STOP], [Text("a")]),
        ([choice({"content": "a"}, "stop")], [Text("a")]),
        ([choice({"content": "a"}, ""), STOP, choice({"content": "b"})], [Text("a"), Text("b")]),
        ([choice({"refusal": "no"}), STOP], [Refused("no")]),
        ([choice(None, "stop")], []),
        ([json.dumps({"choices": [{"delta": {"content": "a"}}]}), STOP], [Text("a")]),
        (
            [json.dumps({"choices": [{"index": 1, "delta": {"content": "b"}}]}), choice({"content": "a"}, "stop")],
            [Text("a")],
        ),
        ([json.dumps({"choices": [], "prompt_filter_results": []}), choice({"content": "a"}, "stop")], [Text("a")]),
        ([choice({"content": "a"}, "something_new")], [Text("a")]),
        ([STOP, '{"id":"ping"}'], []),
    ],
)
def test_text(payloads: list[str], deltas: list[Delta]) -> None:
    assert deltas_of(*payloads) == [*deltas, Finish("stop")]


def test_logprobs_come_with_their_text() -> None:
    token = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    found = deltas_of(
        choice({"content": "a"}, logprobs={"content": [token]}),
        choice({"content": "b"}, "stop", logprobs={"content": None}),
    )
    assert found == [Text("a", (token,)), Text("b"), Finish("stop")]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_under_either_name(key: str) -> None:
    found = deltas_of(choice({key: "so"}), choice({key: " be it", "content": None}), choice({"content": "a"}, "stop"))
    whole = Reasoning(content=(ReasoningText(text="so be it"),))
    assert found == [Thought("so"), Thought(" be it"), ThoughtEnd(whole), Text("a"), Finish("stop")]


def test_reasoning_ends_with_whatever_follows() -> None:
    thought = choice({"reasoning": "so"})
    end = ThoughtEnd(Reasoning(content=(ReasoningText(text="so"),)))
    for payload in (choice({"refusal": "no"}), choice(call(0, "c", "f", "{}"))):
        assert deltas_of(thought, payload, STOP)[:2] == [Thought("so"), end]
    assert deltas_of(thought, STOP) == [Thought("so"), end, Finish("stop")]
    again = deltas_of(thought, choice({"content": "a"}), thought, STOP)
    assert again == [Thought("so"), end, Text("a"), Thought("so"), end, Finish("stop")]


def test_reasoning_and_text_as_parts_of_the_content() -> None:
    """As Mistral's reasoning models write it."""

    def thinking(*texts: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": [{"type": "text", "text": text} for text in texts]}

    found = deltas_of(
        choice({"content": [thinking("so")]}),
        choice({"content": [thinking(" be", " it"), {"type": "text", "text": "a"}]}),
        choice({"content": [thinking(), {"type": "text", "text": ""}, {"type": "reference", "reference_ids": [1]}]}),
        choice({"content": "b"}),
        choice({"content": []}, "stop"),
    )
    whole = Reasoning(content=(ReasoningText(text="so be it"),))
    assert found == [Thought("so"), Thought(" be it"), ThoughtEnd(whole), Text("a"), Text("b"), Finish("stop")]


def test_reasoning_between_tags() -> None:
    pieces = ["<th", "ink>\n", "so", "</", "think>", "\n\n", "yes", " <think>"]
    found = deltas_of(*(choice({"content": piece}) for piece in pieces), STOP)
    assert found == [
        Thought("so"),
        ThoughtEnd(Reasoning(content=(ReasoningText(text="so"),))),
        Text("yes"),
        Text(" <think>"),
        Finish("stop"),
    ]
    assert joined(
        deltas_of(*(choice({"content": piece}) for piece in pieces), STOP, profile=KINDS["openai"].profile), Text
    ) == ("".join(pieces))
    assert deltas_of(choice({"content": "<thi"}), STOP) == [Text("<thi"), Finish("stop")]
    assert deltas_of(choice({"content": "<think>a</"}), STOP)[:2] == [Thought("a"), Thought("</")]


ONE = [CallBegun(0, "c", "f"), CallPiece(0, '{"a":1}'), CallEnd(0, '{"a":1}')]


@pytest.mark.parametrize(
    ("payloads", "deltas"),
    [
        pytest.param([choice(call(0, "c", "f", '{"a":1}')), CALLS], ONE, id="whole in one"),
        pytest.param([choice(call(0, "c", "f", '{"a":1}'), "stop")], ONE, id="finished as stop"),
        pytest.param([choice(call(0, "c", "f", {"a": 1})), CALLS], ONE, id="an object for arguments"),
        pytest.param(
            [choice(call(0, "c", "f", "")), choice(call(0, arguments='{"a":1}')), CALLS], ONE, id="name first"
        ),
        pytest.param([choice(call(None, "c", "f", '{"a":1}')), CALLS], ONE, id="without an index"),
        pytest.param(
            [choice(call(0, "c", "f")), choice(call(0, "", "", '{"a":1}')), CALLS], ONE, id="empty id and name"
        ),
        pytest.param(
            [choice(call(0, "c", "f", '{"a"')), choice(call(0, "c", "f", ":1}")), choice(call(0, "c", "f", "")), CALLS],
            [CallBegun(0, "c", "f"), CallPiece(0, '{"a"'), CallPiece(0, ":1}"), CallEnd(0, '{"a":1}')],
            id="id and name repeated",
        ),
        pytest.param(
            [choice(call(0, "c", "get_")), choice(call(0, name="weather")), choice(call(0, arguments="{}")), CALLS],
            [CallBegun(0, "c", "get_weather"), CallPiece(0, "{}"), CallEnd(0, "{}")],
            id="name in pieces",
        ),
        pytest.param(
            [choice(call(0, "c", "f")), choice(call(0, "c", "f")), CALLS],
            [CallBegun(0, "c", "f"), CallPiece(0, "{}"), CallEnd(0, "{}")],
            id="no arguments",
        ),
        pytest.param(
            [choice(call(0, "c", "f", " ")), CALLS],
            [CallBegun(0, "c", "f"), CallPiece(0, " "), CallPiece(0, "{}"), CallEnd(0, " {}")],
            id="blank arguments",
        ),
        pytest.param(
            [choice(call(0, "c", None, '{"a"')), choice(call(0, None, "f", ":1}")), CALLS],
            ONE,
            id="arguments before the name",
        ),
        pytest.param([choice(call(0)), CALLS], None, id="a ghost"),
        pytest.param(
            [choice(call(0)), choice(call(0, None, "f", "{}")), CALLS],
            [CallBegun(0, "new_0", "f"), CallPiece(0, "{}"), CallEnd(0, "{}")],
            id="no id",
        ),
        pytest.param(
            [choice(call(0, "c", "f", "{}")), choice(call(1, "d", "g", "{}")), choice(call(0, arguments="")), CALLS],
            [
                CallBegun(0, "c", "f"),
                CallPiece(0, "{}"),
                CallEnd(0, "{}"),
                CallBegun(1, "d", "g"),
                CallPiece(1, "{}"),
                CallEnd(1, "{}"),
            ],
            id="two",
        ),
        pytest.param(
            [
                choice(call(0, "c", "f", '{"a":')),
                choice(call(0, None, None, "1}")),
                choice(call(0, "d", "g", "{}")),
                CALLS,
            ],
            [
                CallBegun(0, "c", "f"),
                CallPiece(0, '{"a":'),
                CallPiece(0, "1}"),
                CallEnd(0, '{"a":1}'),
                CallBegun(1, "d", "g"),
                CallPiece(1, "{}"),
                CallEnd(1, "{}"),
            ],
            id="two with the same index",
        ),
        pytest.param(
            [choice(call(0, None, "f", "{}")), choice(call(0, None, "f", "{}")), CALLS],
            [
                CallBegun(0, "new_0", "f"),
                CallPiece(0, "{}"),
                CallEnd(0, "{}"),
                CallBegun(1, "new_1", "f"),
                CallPiece(1, "{}"),
                CallEnd(1, "{}"),
            ],
            id="two with the same index and no id",
        ),
        pytest.param(
            [choice(call(0, "c", "f", "{}")), choice(call(1, "c", "g", "{}")), CALLS],
            [
                CallBegun(0, "c", "f"),
                CallPiece(0, "{}"),
                CallEnd(0, "{}"),
                CallBegun(1, "new_0", "g"),
                CallPiece(1, "{}"),
                CallEnd(1, "{}"),
            ],
            id="two with the same id",
        ),
        pytest.param(
            [
                choice({"function_call": {"name": "f", "arguments": ""}}),
                choice({"function_call": {"arguments": '{"a":1}'}}),
                choice({}, "function_call"),
            ],
            [CallBegun(0, "new_0", "f"), CallPiece(0, '{"a":1}'), CallEnd(0, '{"a":1}')],
            id="a legacy call",
        ),
    ],
)
def test_calls(payloads: list[str], deltas: list[Delta] | None) -> None:
    assert deltas_of(*payloads) == ([*deltas, Finish("calls")] if deltas else [Finish("stop")])


def test_calls_of_a_whole_answer_need_no_index() -> None:
    function = {"name": "f", "arguments": "{}"}
    message = {"content": None, "tool_calls": [{"id": "c", "function": function}, {"id": "c", "function": function}]}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
    begun = [delta for delta in play(make, body) if isinstance(delta, CallBegun)]
    assert begun == [CallBegun(0, "c", "f"), CallBegun(1, "new_0", "f")]


@pytest.mark.parametrize(("reason", "finish"), [("length", "length"), ("content_filter", "filtered")])
def test_a_call_that_was_cut_has_no_end(reason: str, finish: str) -> None:
    cut = deltas_of(choice(call(0, "c", "f", '{"a":')), choice({}, reason))
    assert cut == [CallBegun(0, "c", "f"), CallPiece(0, '{"a":'), Finish(finish)]  # type: ignore[arg-type]
    whole = deltas_of(choice(call(0, "c", "f", "{}")), choice({}, reason))
    assert whole[-2:] == [CallEnd(0, "{}"), Finish(finish)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [('{"input":"a\\nb"}', "a\nb"), ("a b", "a b"), ('"a"', "a"), ('{"text":1}', '{"text":1}'), ("", "")],
)
def test_a_custom_tool_is_given_its_text(arguments: str, text: str) -> None:
    request = ModelRequest(model="m", items=(), tools=(CustomTool(name="sh"),))
    body = stream([choice(call(0, "c", "sh", arguments[:3])), choice(call(0, arguments=arguments[3:])), CALLS])
    found = play(lambda: ChatDialect().decoder(request), body)
    assert found == [CallBegun(0, "c", "sh", custom=True), CallPiece(0, text), CallEnd(0, text), Finish("calls")]


def test_usage_is_told_once_and_last() -> None:
    def usage(out: int) -> dict[str, Any]:
        return {"prompt_tokens": 3, "completion_tokens": out, "prompt_tokens_details": None}

    payloads = [
        json.dumps({"choices": [{"delta": {"content": "a"}}], "usage": usage(1)}),
        json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage(2)}),
        json.dumps({"choices": [], "usage": {**usage(5), "prompt_cache_hit_tokens": 2}}),
    ]
    expected = Usage(
        input_tokens=3,
        input_tokens_details=InputDetails(cached_tokens=2),
        output_tokens=5,
        output_tokens_details=OutputDetails(),
        total_tokens=8,
    )
    assert play(make, stream(payloads)) == [Text("a"), Finish("stop"), UsageDelta(expected)]


def test_after_done_nothing_counts() -> None:
    assert play(make, stream([choice({"content": "a"}, "stop"), "[DONE]", choice({"content": "b"}), "{not JSON"])) == [
        Text("a"),
        Finish("stop"),
    ]


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payloads", "error"),
    [
        (['{"error":{"message":"slow down","code":"rate_limit_exceeded"}}'], RateLimited),
        (['{"error":{"message":"upstream","code":502},"choices":[{"delta":{},"finish_reason":"error"}]}'], Unreachable),
        (['{"error":"Context size has been exceeded."}'], ContextTooLong),
        (
            ['{"object":"error","message":"This model\'s maximum context length is 4 tokens.","code":400}'],
            ContextTooLong,
        ),
        (['{"type":"error","error":null,"message":"flagged by moderation"}'], Filtered),
        ([choice({}, "error")], ProviderError),
        ([choice({}, "abort")], ProviderError),
        ([choice({}, "insufficient_system_resource")], Unreachable),
        (["{not JSON"], Garbled),
        (['{"choices":"none"}'], Garbled),
        (['{"choices":[{"delta":{"content":["a"]}}]}'], Garbled),
        ([choice(call(0, "c", None, "{}")), CALLS], Garbled),
        ([], Garbled),
        (
            [choice(call(0, "c", "f", '{"a')), choice(call(1, "d", "g", '{"b')), choice(call(0, arguments='":1}'))],
            Garbled,
        ),
    ],
)
def test_errors(payloads: list[str], error: type[ProviderError]) -> None:
    with pytest.raises(error) as caught:
        play(make, stream(payloads))
    assert type(caught.value) is error
    assert str(caught.value).startswith("acme")


def test_an_error_of_llama_cpp_has_a_field_of_its_own() -> None:
    body = b'error: {"code":400,"message":"the request exceeds the available context size."}\n\ndata: [DONE]\n\n'
    with pytest.raises(ContextTooLong):
        play(make, body)


def test_what_came_before_an_error_is_not_lost() -> None:
    decoder = make()
    error = '{"error":{"message":"slow down","code":429}}'
    assert decoder.feed(stream([choice({"content": "a"}), error, choice({"content": "b"})], done=False)) == [Text("a")]
    for _ in range(2):
        with pytest.raises(RateLimited):
            decoder.feed(stream([STOP]))
    with pytest.raises(RateLimited):
        decoder.close()


@pytest.mark.parametrize("body", [b"", b"data: ", stream([choice({"content": "a"})], done=False), b"<html></html>"])
def test_a_stream_that_ends_too_soon(body: bytes) -> None:
    with pytest.raises(Garbled, match=r"^acme ended"):
        play(make, body)


def test_a_payload_cut_in_half_is_shown() -> None:
    with pytest.raises(Garbled, match=r"cannot be read.*choices"):
        play(make, b'data: {"choices":[{"del')


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud83d", "\ufffd"),
        (r"\uDE00!", "\ufffd!"),
        (r"\\ud83d", r"\ud83d"),
        (r"\ud83d\n", "\ufffd\n"),
    ],
)
def test_half_a_character_is_one_that_cannot_be_shown(written: str, text: str) -> None:
    body = b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\ndata: [DONE]\n\n' % written.encode()
    assert play(make, body) == [Text(text), Finish("stop")]


def test_done_without_a_reason_is_an_end() -> None:
    assert play(make, stream([choice({"content": "a"})])) == [Text("a"), Finish("stop")]
