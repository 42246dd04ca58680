"""The emitter: any answer of any model becomes a stream that the contract allows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response as SdkResponse
from openai.types.responses import ResponseStreamEvent

from belljar.gateway.engine.emitter import Emitter
from belljar.gateway.engine.history import list_turn_items
from belljar.gateway.engine.turn import Turn, TurnResult
from belljar.gateway.engine.turn_rules import TurnRules
from belljar.vendors import deltas
from belljar.vendors.vendor_tag import give_back
from belljar.wire.codec import encode, sse
from belljar.wire.events import TERMINAL, CodeOutputDelta, ErrorDetail, Event
from belljar.wire.items import CellEnd, CodeInterpreterCall, InputItem, Logs, Reasoning
from belljar.wire.responses import Response, Usage

KINDS = {
    name: kind
    for kind in get_args(get_args(ResponseStreamEvent)[0])
    for name in get_args(kind.model_fields["type"].annotation)
}
CODE_DONE = "response.code_interpreter_call_code.done"
START = Response(id="resp_" + "0" * 48, created_at=1, status="in_progress", model="m")


def turn_of(one: Emitter, **rules: Any) -> Turn:
    rules = {"container_id": "cntr_1", **rules}
    return one.begin_turn(TurnRules(is_ours=lambda name: name == "code_interpreter", **rules))


def names(events: Sequence[Event]) -> list[str]:
    return [json.loads(encode(event))["type"] for event in events]


def test_a_call_of_a_tool_that_there_is_not_stays_between_the_model_and_us() -> None:
    one = Emitter(START)
    one.begin()
    turn = turn_of(one, explain_missing=lambda name: None if name == "f" else f"no {name}")
    calls = [("call_1", "a", False), ("call_2", "f", False), ("call_3", "b/c", False), ("call_4", "", True)]
    for index, (id, name, custom) in enumerate(calls):
        turn.feed(
            [deltas.CallBegun(index, id, name, custom), deltas.CallPiece(index, "{"), deltas.CallPiece(index, "}")]
        )
    for index in reversed(range(4)):
        turn.feed([deltas.CallEnd(index, "{}")])
    result = turn.end()
    assert result.calls
    assert [type(item).__name__ for item in one.items] == ["FunctionCall"]
    known: list[Any] = list(list_turn_items(turn.list_items(), result.strays))
    assert [item.call_id for item in known] == ["call_1", "call_2", "call_4", "call_3", "call_4", "call_3", "call_1"]
    assert [item.output for item in known if hasattr(item, "output")] == ["no ", "no b/c", "no a"]
    assert [item.name for item in known if hasattr(item, "name")] == ["a", "f", "", "b/c"]
    assert not turn_of(one).end().strays


def call_of(id: str, index: int = 0, name: str = "code_interpreter") -> list[deltas.Delta]:
    return [deltas.CallBegun(index, id, name), deltas.CallEnd(index, "{}")]


def run_all(result: TurnResult) -> list[bool | None]:
    """Run a turn's cells; whether each is said to have another call after it."""
    items = [cell.finish_run("completed", (), CellEnd(exit="ok"))[1] for cell in result.cells]
    return [item.belljar.more if isinstance(item.belljar, CellEnd) else None for item in items]


def test_cells_tell_whether_another_call_was_made_with_them() -> None:
    one = Emitter(START)
    one.begin()

    def said(*said: deltas.Delta) -> TurnResult:
        turn = turn_of(one)
        turn.feed(said)
        return turn.end()

    assert run_all(said(deltas.Text("See: "), *call_of("a"), *call_of("b", 1), *call_of("c", 2, "f"))) == [True, True]
    assert run_all(said(*call_of("d", 0, "f"), *call_of("e", 1))) == [False]
    assert run_all(said(*call_of("g"))) == [False]


def test_stray_calls_are_heard_with_the_calls_of_their_turn_and_answered_after_them() -> None:
    one = Emitter(START)
    one.begin()

    def heard(*said: deltas.Delta) -> list[str]:
        turn = turn_of(one, explain_missing=lambda name: "no")
        turn.feed(said)
        result = turn.end()
        run_all(result)
        kinds = {"FunctionCall": "call", "FunctionCallOutput": "answer", "CodeInterpreterCall": "cell"}
        known: Sequence[InputItem] = list_turn_items(turn.list_items(), result.strays)
        return [f"{kinds[type(item).__name__]} {getattr(item, 'call_id', '')}".strip() for item in known]

    together = heard(*call_of("a"), *call_of("b", 1, "x"), *call_of("c", 2))
    assert together == ["call b", "cell", "cell", "answer b"]
    for id in ("d", "e"):  # two turns that nobody sees anything of
        assert heard(*call_of(id, 0, "x")) == [f"call {id}", f"answer {id}"]
    assert heard(*call_of("g", 0, "x"), *call_of("h", 1)) == ["call g", "cell", "answer g"]


def test_a_turn_stops_before_a_cell_until_there_is_a_container() -> None:
    one = Emitter(START)
    events = one.begin()
    turn = turn_of(one, container_id="", calls_left=1)
    assert turn.feed([deltas.Text("So: "), *call_of("a"), deltas.Finish("calls")]) == []
    assert turn.needs_container
    events += turn.house("cntr_2")
    events += turn.feed(call_of("b"))  # one that nobody sees
    [cell] = turn.end().cells
    events += cell.finish_run("completed", (), CellEnd(exit="ok"))[0]
    assert [type(item).__name__ for item in one.items] == ["Message", "CodeInterpreterCall"]
    assert isinstance(item := one.items[1], CodeInterpreterCall)
    assert item.container_id == "cntr_2"
    check(events + one.complete(1, None))


@pytest.mark.parametrize(
    ("name", "rules"),
    [("f", {}), ("code_interpreter", {"calls_left": 0}), ("x", {"explain_missing": lambda name: "no"})],
)
def test_only_a_cell_that_will_be_run_needs_a_container(name: str, rules: dict[str, Any]) -> None:
    turn = turn_of(Emitter(START), container_id="", **rules)
    turn.feed(call_of("a", 0, name))
    assert not turn.needs_container
    assert turn.end().ignored == (name == "code_interpreter")


def test_what_was_said_before_a_cell_is_told_though_there_is_no_container_for_it() -> None:
    one = Emitter(START)
    events = one.begin()
    turn = turn_of(one, container_id="")
    events += turn.feed([deltas.Text("So: "), *call_of("a")])
    events += one.fail(ErrorDetail(type="server_error", code="x", message="none is free"), None)
    check(events)
    assert [type(item).__name__ for item in one.items] == ["Message"]


@pytest.mark.parametrize("reason", ["length", "filtered"])
def test_a_call_of_a_tool_that_there_is_not_is_cut_without_a_trace(reason: Any) -> None:
    one = Emitter(START)
    one.begin()
    turn = turn_of(one, explain_missing=lambda name: "no")
    turn.feed(
        [deltas.Text("So: "), deltas.CallBegun(0, "call_1", "a"), deltas.CallPiece(0, "{"), deltas.Finish(reason)]
    )
    [*_, last] = one.cut("max_output_tokens", None)
    assert isinstance(last, TERMINAL)
    assert [type(item).__name__ for item in last.response.output] == ["Message"]


def test_a_turn_with_code_has_the_events_of_the_contract_in_their_order() -> None:
    one = Emitter(START, include=frozenset({"code_interpreter_call.outputs"}))
    events = one.begin()
    turn = turn_of(one)
    events += turn.feed(
        [
            deltas.CallBegun(0, "call_1", "code_interpreter"),
            deltas.CallPiece(0, '{"code": "print('),
            deltas.CallPiece(0, '1)\\n"}'),
            deltas.CallEnd(0, '{"code": "print(1)\\n"}'),
            deltas.Finish("calls"),
            deltas.UsageDelta(Usage(input_tokens=1, output_tokens=2, total_tokens=3)),
        ]
    )
    result = turn.end()
    [cell] = result.cells
    events += cell.begin_run()
    events += cell.show_output("stdout", "1\n")
    finished, _ = cell.finish_run("completed", (Logs(logs="1\n"),), CellEnd(exit="ok"))
    events += finished
    events += turn_of(one).feed([deltas.Text("It is "), deltas.Text("1."), deltas.Finish("stop")])
    events += one.complete(2, result.usage)
    assert names(events) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.interpreting",
        "belljar:code_interpreter_call.output.delta",
        "response.code_interpreter_call.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    last = json.loads(encode(events[-1]))["response"]
    assert last["output"][0]["code"] == "print(1)\n"
    assert last["output"][0]["outputs"] == [{"type": "logs", "logs": "1\n"}]
    assert last["output"][1]["content"][0]["text"] == "It is 1."
    assert last["usage"]["total_tokens"] == 3


def test_a_turn_that_was_paused_counts_all_its_requests() -> None:
    turn = turn_of(Emitter(START))
    spent = deltas.UsageDelta(Usage(input_tokens=1, output_tokens=2, total_tokens=3))
    turn.feed([deltas.Text("It "), spent])
    turn.feed([deltas.Text("is."), deltas.Finish("stop"), spent])
    assert turn.end().usage == Usage(input_tokens=2, output_tokens=4, total_tokens=6)


def test_the_name_that_a_vendor_has_for_its_answer_is_told_to_nobody() -> None:
    one = Emitter(START)
    one.begin()
    events = turn_of(one).feed([deltas.Begun("resp_theirs"), deltas.Text("a"), deltas.Finish("stop")])
    assert names(events)[0] == "response.output_item.added"
    assert b"resp_theirs" not in b"".join(encode(event) for event in events + one.complete(1, None))


def test_outputs_are_null_unless_included_and_kept_in_full() -> None:
    one = Emitter(START)
    one.begin()
    turn = turn_of(one)
    turn.feed([deltas.CallBegun(0, "c", "code_interpreter"), deltas.CallEnd(0, ""), deltas.Finish("calls")])
    finished, _ = turn.end().cells[0].finish_run("completed", (Logs(logs="x"),), CellEnd(exit="ok"))
    assert json.loads(encode(finished[-1]))["item"]["outputs"] is None
    assert isinstance(kept := one.items[0], CodeInterpreterCall)
    assert kept.outputs == (Logs(logs="x"),)


def test_calls_beyond_the_limit_are_seen_by_nobody() -> None:
    one = Emitter(START)
    one.begin()
    turn = turn_of(one, calls_left=1)
    events = turn.feed(
        [
            deltas.CallBegun(0, "a", "code_interpreter"),
            deltas.CallEnd(0, '{"code": "1"}'),
            deltas.CallBegun(1, "b", "code_interpreter"),
            deltas.CallPiece(1, '{"code": "2"}'),
            deltas.CallEnd(1, '{"code": "2"}'),
            deltas.Finish("calls"),
        ]
    )
    result = turn.end()
    assert len(result.cells) == 1
    assert result.ignored
    assert result.calls_left == 0
    assert names(events).count("response.output_item.added") == 1


@pytest.mark.parametrize("reason", ["length", "filtered"])
def test_a_cut_answer_ends_with_its_open_item_incomplete(reason: Any) -> None:
    one = Emitter(START)
    one.begin()
    turn_of(one).feed([deltas.Text("half a"), deltas.Finish(reason)])
    events = one.cut("max_output_tokens" if reason == "length" else "content_filter", None)
    last = json.loads(encode(events[-1]))
    assert last["type"] == "response.incomplete"
    assert last["response"]["output"][-1]["status"] == "incomplete"
    assert last["response"]["incomplete_details"]["reason"] in ("max_output_tokens", "content_filter")


def test_a_failure_closes_what_is_open_and_is_an_error_then_failed_and_numbers_go_on() -> None:
    one = Emitter(START)
    before = one.begin() + turn_of(one).feed([deltas.Text("so f"), deltas.Text("ar")])
    events = one.fail(ErrorDetail(type="server_error", code="unreachable", message="gone"), None)
    closed = ["response.output_text.done", "response.content_part.done", "response.output_item.done"]
    assert names(events) == [*closed, "error", "response.failed"]
    assert [event.sequence_number for event in before + events] == list(range(len(before) + 5))
    assert json.loads(encode(events[3]))["error"] == {
        "type": "server_error",
        "code": "unreachable",
        "message": "gone",
        "param": None,
    }


def test_however_many_calls_a_model_makes_at_once_each_is_seen_to_its_end() -> None:
    one = Emitter(START)
    turn = turn_of(one)
    events = one.begin() + turn.feed(call_of("ci"))
    many = 2_000
    assert turn.feed([delta for at in range(many) for delta in call_of(f"c{at}", 1, "f")]) == []
    [cell] = turn.end().cells
    events += cell.begin_run()
    events += cell.finish_run("completed", (), CellEnd(exit="ok"))[0]
    assert names(events).count("response.output_item.done") == 1 + many
    check(events + one.complete(1, None))


words = st.text(max_size=8)
arguments = st.dictionaries(st.sampled_from(["code", "a", "b"]), words, max_size=3).map(json.dumps)


@st.composite
def calls(draw: st.DrawFn) -> list[deltas.Delta]:
    """Some calls in parallel, their pieces interleaved."""
    made: list[list[deltas.Delta]] = []
    for index in range(draw(st.integers(1, 3))):
        text = draw(arguments)
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        name = draw(st.sampled_from(["code_interpreter", "f"]))
        custom = name == "f" and draw(st.booleans())
        made.append(
            [
                deltas.CallBegun(index, f"call_{index}", name, custom),
                *(deltas.CallPiece(index, piece) for piece in pieces),
                deltas.CallEnd(index, text),
            ]
        )
    mixed: list[deltas.Delta] = []
    while any(made):
        mixed.append(draw(st.sampled_from([one for one in made if one])).pop(0))
    return mixed


speech = st.one_of(
    words.map(deltas.Text),
    words.map(deltas.Refused),
    st.builds(deltas.Thought, words, st.sampled_from(["raw", "summary"]), st.integers(0, 2)),
    st.just(deltas.ThoughtEnd(Reasoning(encrypted_content="secret"))),
    st.just(deltas.HostedEnd(0, CodeInterpreterCall(id="ci_x", status="completed", code="1", container_id="cntr_2"))),
)


@given(
    st.lists(speech, max_size=12),
    st.one_of(st.just([]), calls()),
    st.sampled_from(["done", "cut", "fail", "cancel"]),
    st.sampled_from(["", "cntr_1"]),
)
def test_any_answer_is_a_stream_that_the_contract_allows(
    said: list[deltas.Delta], called: list[deltas.Delta], end: str, container_id: str
) -> None:
    one = Emitter(START)
    turn = turn_of(one, container_id=container_id)
    events = one.begin() + turn.feed(said) + turn.feed(called)
    if turn.needs_container:
        events += turn.house("cntr_1")
    if end == "fail":
        events += one.fail(ErrorDetail(type="server_error", code="x", message="y"), None)
    elif end == "cancel":
        events += one.cancel(None)
    elif end == "cut":
        events += turn.feed([deltas.Finish("length")]) + one.cut("max_output_tokens", None)
    else:
        events += turn.feed([deltas.Finish("calls" if called else "stop")])
        for cell in turn.end().cells:
            events += cell.begin_run()
            events += cell.finish_run("completed", (), CellEnd(exit="ok"))[0]
        events += one.complete(5, None)
    check(events)


def check(events: list[Event]) -> None:
    """What 1.6 of the contract and the strictest client ask of a stream."""
    wire = [json.loads(encode(event)) for event in events]
    assert [event["sequence_number"] for event in wire] == list(range(len(wire)))
    assert sum(isinstance(event, TERMINAL) for event in events) == 1
    for event, data in zip(events, wire, strict=True):
        assert sse(event).startswith(f"event: {data['type']}\ndata: ".encode())
        if data["type"] != "error" and not isinstance(event, CodeOutputDelta):
            KINDS[data["type"]].model_validate(data)
    final = wire[-1]["response"]
    SdkResponse.model_validate(final)
    added: dict[int, Any] = {}
    done: dict[int, Any] = {}
    said: dict[tuple[str, int, Any], str] = {}
    for data in wire:
        kind = data["type"]
        if kind == "response.output_item.added":
            assert data["output_index"] == len(added) == len(done), "the one before it is done"
            added[data["output_index"]] = data["item"]
        elif kind == "response.output_item.done":
            item = added[data["output_index"]]
            assert data["output_index"] not in done
            assert (item["id"], item["type"]) == (data["item"]["id"], data["item"]["type"])
            done[data["output_index"]] = data["item"]
        elif "output_index" in data:
            assert data["item_id"] == added[data["output_index"]]["id"]
            assert data["output_index"] not in done
            key = (kind.rsplit(".", 1)[0], data["output_index"], data.get("content_index", data.get("summary_index")))
            if kind.endswith(".delta"):
                said[key] = said.get(key, "") + data["delta"]
            elif kind.endswith(".done") and "part" not in data:
                text = next(data[name] for name in ("text", "refusal", "code", "arguments", "input") if name in data)
                assert said.get(key, "") == text
    assert [done[index] for index in sorted(added)] == final["output"]
    for index, item in done.items():
        if item["type"] == "code_interpreter_call":
            assert said.get(("response.code_interpreter_call_code", index, None), "") == item["code"]
            assert [data["type"] for data in wire if data.get("output_index") == index].count(CODE_DONE) == 1


def test_reasoning_that_goes_back_to_openai_has_the_id_it_had_there() -> None:
    one = Emitter(START, include=frozenset({"reasoning.encrypted_content"}))
    one.begin()
    turn_of(one).feed([deltas.ThoughtEnd(Reasoning(id="rs_theirs", encrypted_content="gAAA")), deltas.Finish("stop")])
    [kept] = one.items
    assert isinstance(kept, Reasoning)
    assert kept.id != "rs_theirs"
    sent = give_back(kept)
    assert sent is not None
    assert (sent.id, sent.encrypted_content) == ("rs_theirs", "gAAA")


@pytest.mark.parametrize(("live", "told"), [(True, "failed"), (False, "completed")])
def test_a_cell_that_the_provider_could_not_run_has_failed(live: bool, told: str) -> None:
    one = Emitter(START, live=live)
    item = CodeInterpreterCall(id="ci_x", status="failed", code="ls", container_id="", outputs=())
    events = turn_of(one).feed([deltas.HostedEnd(0, item), deltas.Finish("stop")])
    assert names(events)[-2:] == [f"response.code_interpreter_call.{told}", "response.output_item.done"]


def test_a_cell_that_the_provider_ran_is_told_to_its_end_where_it_began() -> None:
    one = Emitter(START, include=frozenset({"code_interpreter_call.outputs"}))
    item = CodeInterpreterCall(id="ci_x", status="completed", code="ls", container_id="", outputs=(Logs(logs="a\n"),))
    events = turn_of(one).feed(
        [deltas.HostedCode(0, "ci_x", "cntr_2", "l"), deltas.HostedEnd(0, item), deltas.Finish("stop")]
    )
    added, *_, done = [json.loads(encode(event)) for event in events]
    assert added["item"]["container_id"] == done["item"]["container_id"] == "cntr_2"
    assert done["item"]["outputs"] == [{"type": "logs", "logs": "a\n"}]


def test_a_failure_and_a_cut_close_every_kind_of_open_item() -> None:
    """One of each kind, left open: what callers see of it, by the ends that a response can have."""
    openings: dict[str, tuple[list[deltas.Delta], list[str]]] = {
        "text": ([deltas.Text("a")], ["output_text.done", "content_part.done"]),
        "refusal": ([deltas.Refused("a")], ["refusal.done", "content_part.done"]),
        "raw": ([deltas.Thought("a")], ["reasoning_text.done", "content_part.done"]),
        "summary": (
            [deltas.Thought("a", "summary")],
            ["reasoning_summary_text.done", "reasoning_summary_part.done"],
        ),
        "function": ([deltas.CallBegun(0, "c", "f")], ["function_call_arguments.done"]),
        "custom": ([deltas.CallBegun(0, "c", "f", custom=True)], ["custom_tool_call_input.done"]),
        "cell": ([deltas.CallBegun(0, "c", "code_interpreter")], ["code_interpreter_call_code.done"]),
        "written cell": (call_of("c"), []),
        "provider's cell": ([deltas.HostedCode(0, "ci_x", "cntr_2", "1")], ["code_interpreter_call_code.done"]),
    }
    for kind, (opening, closing) in openings.items():
        for end in ("fail", "cut", "cancel", "complete"):
            one = Emitter(START)
            events = one.begin() + turn_of(one).feed(opening)
            last = {
                "fail": lambda one=one: one.fail(ErrorDetail(type="server_error", code="x", message="y"), None),
                "cut": lambda one=one: one.cut("content_filter", None),
                "cancel": lambda one=one: one.cancel(None),
                "complete": lambda one=one: one.complete(1, None),
            }[end]()
            tail = {"fail": ["error", "response.failed"], "complete": ["response.completed"]}
            expected = [f"response.{name}" for name in (*closing, "output_item.done")]
            assert names(last) == expected + tail.get(end, ["response.incomplete"]), (kind, end)
            [item] = json.loads(encode(last[-1]))["response"]["output"]
            assert item.get("status", "incomplete") == "incomplete", (kind, end)
            check(events + last)
