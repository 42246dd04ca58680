"""An answer in one value: pieces are left out, usages of a paused answer are added up, the last text stands alone."""

from __future__ import annotations

from belljar.vendors.deltas import (
    Begun,
    CallBegun,
    CallEnd,
    CallPiece,
    Cited,
    ContainerUsed,
    Finish,
    HostedCode,
    HostedEnd,
    PassThrough,
    Refused,
    Text,
    Thought,
    ThoughtEnd,
    UsageDelta,
)
from belljar.vendors.fold import Folded, FunctionCalled, fold
from belljar.wire.items import CodeInterpreterCall, OtherItem, Reasoning, UrlCitation
from belljar.wire.responses import Usage

CELL = HostedEnd(1, CodeInterpreterCall(id="ci_1", code="1", container_id="c", status="completed"))
CITED = UrlCitation(url="https://x.example", title="x", start_index=0, end_index=1)


def test_nothing_is_an_empty_answer() -> None:
    assert fold([]) == Folded()


def test_everything_of_an_answer_is_in_it() -> None:
    thought = Reasoning(id="rs_1")
    passed = OtherItem({"type": "web_search_call"})
    folded = fold(
        [
            Begun("resp_1"),
            Thought("hm"),
            ThoughtEnd(thought),
            Text("I look. "),
            PassThrough(passed),
            HostedCode(1, "ci_1", "c", "1"),
            CELL,
            ContainerUsed("c", "2026-11-18T00:00:00Z"),
            Text("It "),
            Cited(CITED),
            Text("is 1."),
            Finish("stop"),
            UsageDelta(Usage(input_tokens=3, output_tokens=2, total_tokens=5)),
            UsageDelta(Usage(input_tokens=4, output_tokens=1, total_tokens=5)),
        ]
    )
    assert folded == Folded(
        id="resp_1",
        text="I look. It is 1.",
        last_text="It is 1.",
        cells=(CELL,),
        passed=(passed,),
        citations=(CITED,),
        thoughts=(thought,),
        container=ContainerUsed("c", "2026-11-18T00:00:00Z"),
        usage=Usage(input_tokens=7, output_tokens=3, total_tokens=10),
    )


def test_calls_have_the_ids_and_names_that_they_began_with() -> None:
    folded = fold(
        [
            Text("Both: "),
            CallBegun(0, "call_1", "f"),
            CallBegun(1, "call_2", "g"),
            CallPiece(1, "{}"),
            CallEnd(1, "{}"),
            CallEnd(0, '{"a":1}'),
            Finish("calls"),
        ]
    )
    assert folded.calls == (FunctionCalled("call_2", "g", "{}"), FunctionCalled("call_1", "f", '{"a":1}'))
    assert (folded.finish, folded.text, folded.last_text) == ("calls", "Both: ", "")


def test_a_refusal_is_said_and_told_apart() -> None:
    folded = fold([Text("Well, "), Refused("no."), Finish("filtered")])
    assert (folded.text, folded.refusal, folded.finish) == ("Well, no.", "no.", "filtered")
