"""A written call is made of the answer as it streams: nothing is lost, shown twice or held without need."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import Garbled, ProviderError
from belljar.vendors.chat import written_calls
from belljar.vendors.chat.call_openings import Names
from belljar.vendors.chat.dialect import ChatDialect
from belljar.vendors.deltas import CallBegun, CallEnd, CallPiece, Delta, Finish, Repaired, Text, Thought, UsageDelta
from belljar.vendors.request import ModelRequest
from belljar.wire.items import CellEnd, CodeInterpreterCall, CustomToolCall, FunctionCall, InputItem, Message
from belljar.wire.responses import TextConfig, TextFormat
from belljar.wire.tools import CustomTool, FunctionTool, HostedTool

HELLO = Message(role="user", content="How much is it?")
INTERPRETER = FunctionTool(name="code_interpreter", parameters={}, description="Runs Python.")
TOOLS: Any = (INTERPRETER, FunctionTool(name="get_weather", parameters={}), CustomTool(name="patch"))
CALL = '{"name": "code_interpreter", "arguments": {"code": "print(1)"}}'
ROME = '{"name": "get_weather", "arguments": {"city":"Rome"}}'


def request(*items: InputItem, **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": "sim", "items": (HELLO, *items), "tools": TOOLS, **fields})


def chunk(delta: dict[str, Any] | None = None, **more: Any) -> bytes:
    return f"data: {json.dumps({'choices': [{'delta': delta or {}, **more}]})}\n\n".encode()


def deltas(pieces: Sequence[str], asked: ModelRequest | None = None, *, reason: str = "stop") -> list[Delta]:
    decoder = ChatDialect(server="loop").decoder(asked or request())
    out: list[Delta] = []
    for piece in pieces:
        out += decoder.feed(chunk({"content": piece}))
    out += decoder.feed(chunk(finish_reason=reason) + b'data: {"choices": [], "usage": {"prompt_tokens": 1}}\n\n')
    return out + decoder.feed(b"data: [DONE]\n\n") + decoder.close()


def shown(out: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in out if isinstance(delta, Text))


def written(out: Sequence[Delta]) -> str:
    return "".join(delta.written or "" for delta in out if isinstance(delta, Repaired))


def calls(out: Sequence[Delta]) -> list[tuple[str, str]]:
    begun = {delta.index: delta.name for delta in out if isinstance(delta, CallBegun)}
    return [(begun[delta.index], delta.arguments) for delta in out if isinstance(delta, CallEnd)]


FRAGMENTS = [
    CALL, ROME, "```json\n", "```python\n", "```tool_code\n", "```", "\n", "<tool_call>", "</tool_call>", "<b>", "é",
    "[TOOL_CALLS]", "<|python_tag|>", "<function=get_weather>", "<parameter=city>", "</parameter></function>", " ", "<",
    "print(1)\n", "Well. ", '{"answer": 4}', '{"name": "', "{", "[", ">>>", "get_weather", "(", "x" * 200,
    "<｜tool▁call▁begin｜>",
]  # fmt: skip
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), max_size=8).map("".join)


@given(texts, st.data())
def test_shown_and_called_are_the_whole_however_it_is_split(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    split = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) if a < b]
    for reason in ("stop", "length"):
        one, other = deltas([text] if text else [], reason=reason), deltas(split, reason=reason)
        letters = deltas(list(text), reason=reason)
        assert shown(one) == shown(other) == shown(letters)
        assert written(one) == written(other) == written(letters)
        assert calls(one) == calls(other) == calls(letters)
        assert shown(one) + written(one) == text
        assert isinstance(one[-2], Finish)
        assert isinstance(one[-1], UsageDelta)


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("", f"```json\n{CALL}\n```"),
        ("", f"\n\n  {CALL}\n"),
        ("I will run it:\n", f"<tool_call>\n{CALL}\n</tool_call>"),
        ("Let me see. ", f"<tool_call>{CALL}</tool_call>\n\nIt prints 1."),
        ("Let me see.\n", "[code_interpreter(code='print(1)')]"),
    ],
)
def test_a_written_call_is_made_and_not_shown(before: str, call: str) -> None:
    out = deltas(list(before + call))
    assert shown(out) == before
    mended, begun, piece, end, finish, _ = [delta for delta in out if not isinstance(delta, Text)]
    assert mended == Repaired("wrote the call into its answer", call)
    assert isinstance(begun, CallBegun)
    assert (begun.index, begun.name, begun.custom) == (0, "code_interpreter", False)
    assert begun.call_id.startswith("call_written_")
    assert isinstance(end, CallEnd)
    assert piece == CallPiece(0, end.arguments)
    assert json.loads(end.arguments) == {"code": "print(1)"}
    assert finish == Finish("calls")


def test_code_in_a_block_is_shown_at_once_and_run_at_the_end() -> None:
    text = "I compute it.\n```python\nprint(6 * 7)\n```"
    out = deltas(list(text))
    assert shown(out) == text
    assert [delta for delta in out if isinstance(delta, Repaired)] == [
        Repaired("wrote code without calling the tool", "")
    ]
    assert calls(out) == [("code_interpreter", '{"code":"print(6 * 7)\\n"}')]


@pytest.mark.parametrize(
    "text",
    [
        "Use a list comprehension:\n\n```python\n[x for x in y]\n```\n\nThat is all.",
        '{"name": "Ada", "arguments": []}',
        '{"city": "Rome"}',
        "```json\n[1, 2, 3]\n```",
        "<b>bold</b> and <i>italic</i>",
        "functions are first-class in Python",
        "> a quotation\n>>> 1 + 1\n2",
    ],
)
def test_an_ordinary_answer_waits_for_no_more_than_a_word(text: str) -> None:
    decoder = ChatDialect(server="loop").decoder(request())
    said, behind = "", 0
    for at, letter in enumerate(text):
        said += shown(decoder.feed(chunk({"content": letter})))
        behind = max(behind, at + 1 - len(said))
    assert behind < 16


def test_two_calls_share_what_was_written() -> None:
    text = f"{CALL}\n{ROME}"
    out = deltas([text])
    assert [delta.written for delta in out if isinstance(delta, Repaired)] == [text, ""]
    assert [name for name, _ in calls(out)] == ["code_interpreter", "get_weather"]


def test_a_tool_that_takes_free_text_is_given_that() -> None:
    out = deltas(['<tool_call>{"name": "patch", "arguments": {"input": "*** Begin"}}</tool_call>'])
    assert calls(out) == [("patch", "*** Begin")]
    assert [delta.custom for delta in out if isinstance(delta, CallBegun)] == [True]


@pytest.mark.parametrize(
    "asked",
    [
        request(tool_choice="none"),
        request(tools=()),
        request(tools=(FunctionTool(name="other", parameters={}),)),
        request(text=TextConfig(format=TextFormat(type="json_object"))),
    ],
    ids=["none", "without", "others", "json"],
)
def test_what_cannot_be_called_is_said(asked: ModelRequest) -> None:
    text = f"```json\n{CALL}\n```"
    out = deltas(list(text), asked)
    assert shown(out) == text
    assert not calls(out)


def test_what_was_called_before_is_known_for_a_call_though_it_is_not_offered_any_more() -> None:
    ran = CodeInterpreterCall(id="ci_1", status="completed", code="print(1)", container_id="cntr_1")
    before: list[InputItem] = [
        ran,
        FunctionCall(call_id="c1", name="get_weather", arguments="{}"),
        CustomToolCall(call_id="c2", name="patch", input="x"),
    ]
    out = deltas([f"{CALL}\n{ROME}" + '{"name": "patch", "arguments": {"input": "y"}}'], request(*before, tools=()))
    assert [name for name, _ in calls(out)] == ["code_interpreter", "get_weather", "patch"]
    assert not calls(deltas(["```python\nprint(2)\n```"], request(*before, tools=())))


def ran(code: str, **end: Any) -> CodeInterpreterCall:
    belljar = CellEnd(exit="ok", **end)
    return CodeInterpreterCall(id="ci_1", status="completed", code=code, container_id="cntr_1", belljar=belljar)


def test_blocks_of_code_count_in_later_turns_only_where_they_are_how_the_model_calls() -> None:
    text = "```python\nprint(2)\n```"
    assert not calls(deltas([text], request(ran("print(1)"))))
    assert calls(deltas([text], request(ran("print(1)", written=""))))
    assert calls(deltas([text], request(ran("print(1)"), in_words=True)))
    assert calls(deltas([text], request(ran("print(1)"), HELLO)))
    assert not calls(deltas([text], request(ran("print(2)", written=""))))  # it shows what it ran
    assert not calls(deltas([text], request(FunctionCall(call_id="c", name="get_weather", arguments="{}"))))
    assert calls(deltas([f"<tool_call>{CALL}</tool_call>"], request(ran("print(1)"))))


def test_a_model_that_was_told_to_write_code_learns_by_its_errors() -> None:
    text = "```python\nprint(1\n```"
    assert not calls(deltas([text]))
    assert calls(deltas([text], request(in_words=True)))
    assert not calls(deltas(["```python\ndef f(): ...\n```"], request(in_words=True)))


def test_where_no_user_spoke_all_that_ran_is_of_this_turn() -> None:
    alone = ModelRequest(model="sim", items=(ran("print(2)", written=""),), tools=TOOLS)
    assert not calls(deltas(["```python\nprint(2)\n```"], alone))
    assert calls(deltas(["```python\nprint(3)\n```"], alone))


def test_a_model_that_makes_calls_may_show_how_one_looks() -> None:
    asked = request(ran("print(1)"), HELLO)
    for text in (f"```json\n{ROME}\n``` is how it looks.", f"It looks so:\n{ROME}"):
        assert calls(deltas([text]))
        assert not calls(deltas([text], asked))
        assert shown(deltas(list(text), asked)) == text
    for text in (
        f"\n```json\n{ROME}\n```\n",
        f"<tool_call>{ROME}</tool_call>",
        '{"arguments": {}, "name": "get_weather"}',
    ):
        assert calls(deltas([text], asked))


def test_what_is_held_is_said_before_a_call_that_is_made() -> None:
    decoder = ChatDialect(server="loop").decoder(request())
    made = {"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": "{}"}}
    out = decoder.feed(chunk({"content": f"<tool_call>{CALL}"}))
    assert not out
    out += decoder.feed(chunk({"tool_calls": [made]}))
    out += decoder.feed(chunk({"content": "</tool_call>"}, finish_reason="tool_calls"))
    out += decoder.close()
    assert [type(delta) for delta in out] == [Text, CallBegun, CallPiece, Text, CallEnd, Finish]
    assert calls(out) == [("get_weather", "{}")]


def test_a_thought_is_told_apart() -> None:
    out = deltas(["<think>I would call it", f" with {CALL}</think>", CALL])
    assert "".join(delta.text for delta in out if isinstance(delta, Thought)) == f"I would call it with {CALL}"
    assert not shown(out)
    assert calls(out)


def test_probabilities_stay_with_what_is_shown() -> None:
    decoder = ChatDialect(server="loop").decoder(request())
    out = decoder.feed(chunk({"content": f"Well.\n{CALL}"}, logprobs={"content": [{"token": "Well"}]}))
    out += decoder.feed(chunk({"content": "\n"}, logprobs={"content": [{"token": "\n"}]}, finish_reason="stop"))
    out += decoder.close()
    assert out[0] == Text("Well.\n", ({"token": "Well"},))
    assert shown(out) == "Well.\n"


def test_a_long_answer_is_looked_at_no_longer() -> None:
    text = "Calls are written thus. " * 25
    out = deltas([text, f"\n{CALL}", "\n"])
    assert [delta.text for delta in out if isinstance(delta, Text)] == [text, f"\n{CALL}", "\n"]
    assert not calls(out)


def test_what_its_vendor_runs_has_no_name() -> None:
    hosted: Any = HostedTool({"type": "web_search"})
    assert Names.of(request(tools=(hosted,))).all == frozenset()


def test_no_more_than_a_million_characters_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_calls, "MOST_HELD", 1000)
    text = f'<tool_call>{{"name": "get_weather", "arguments": {{"city": "{"x" * 2000}"}}}}</tool_call>'
    decoder = ChatDialect(server="loop").decoder(request())
    out = [shown(decoder.feed(chunk({"content": text[at : at + 100]}))) for at in range(0, len(text), 100)]
    assert "".join(out[:10]) == ""
    assert "".join(out) == text
    last = decoder.feed(chunk(finish_reason="stop")) + decoder.close()
    assert [name for name, _ in calls(last)] == ["get_weather"]
    assert written(last) == ""


def test_an_answer_that_breaks_off_is_said_as_far_as_it_came() -> None:
    decoder = ChatDialect(server="loop").decoder(request())
    assert not decoder.feed(chunk({"content": "<tool_call>{"}))
    assert shown(decoder.feed(b'data: {"error": {"message": "overloaded"}}\n\n')) == "<tool_call>{"
    with pytest.raises(ProviderError, match="overloaded"):
        decoder.feed(b"")
    with pytest.raises(ProviderError, match="overloaded"):
        decoder.close()
    decoder = ChatDialect(server="loop").decoder(request())
    with pytest.raises(ProviderError, match="overloaded"):
        decoder.feed(b'data: {"error": {"message": "overloaded"}}\n\n')
    decoder = ChatDialect(server="loop").decoder(request())
    decoder.feed(chunk({"content": "<tool_call>{"}))
    with pytest.raises(Garbled):
        decoder.close()
    assert decoder.resume() is None
    assert decoder.verbatim() is None
