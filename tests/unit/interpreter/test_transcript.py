"""What a cell put out, as the wire and the model have it."""

from __future__ import annotations

import base64
import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.interpreter.transcript import Transcript
from belljar.sandbox.outputs import Display, Error, Exit, FileChanged, Output, Result, Stderr, Stdout
from belljar.wire.items import Image, Logs

PNG = Display({"image/png": b"\x89PNG", "text/plain": "<Figure size 640x480 with 1 Axes>"})
URL = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()


def told(*outputs: Output) -> Transcript:
    transcript = Transcript()
    for output in outputs:
        transcript.add(output)
    return transcript


@pytest.mark.parametrize(
    ("outputs", "logs"),
    [
        ([], []),
        ([Stdout("a"), Stdout("b\n"), Stderr("c\n")], ["ab\nc\n"]),
        ([Result({"text/plain": "42"})], ["42"]),
        ([Stdout("a\n"), Result({"text/plain": "42"})], ["a\n42"]),
        ([Stdout("a"), Result({"text/plain": "42"})], ["a\n42"]),
        ([Display({"text/plain": "x", "text/html": "<b>x</b>"}), Stdout("y")], ["x\ny"]),
        ([Stdout(""), Result({"text/plain": ""}), Display({"text/html": "<b>x</b>"})], []),
        ([Stdout("x"), Exit("ok")], ["x"]),
        ([Exit("ok", "A subprocess was killed.")], ["A subprocess was killed."]),
        ([Stdout("x"), Exit("timed_out", "Stopped: too long.")], ["x\nStopped: too long."]),
        ([Exit("killed", "Killed: memory.", reason="memory")], ["Killed: memory."]),
        (
            [Stdout("x\n"), Exit("raised", "E: m. Hint.", "Hint.", error=Error("E", "m", "Traceback\nE: m\n"))],
            ["x\nTraceback\nE: m\nHint."],
        ),
        ([Stdout("x"), FileChanged("f", 1, 0, "text/plain")], ["x"]),
    ],
)
def test_text_runs_together_as_in_a_notebook(outputs: list[Output], logs: list[str]) -> None:
    transcript = told(*outputs)
    assert list(transcript.outputs) == [Logs(logs=text) for text in logs]
    assert transcript.text == "".join(logs)
    assert transcript.pictures == []


def test_pictures_stand_where_they_were_shown() -> None:
    transcript = told(Stdout("before"), PNG, PNG, Stdout("after\n"), Exit("ok"))
    assert transcript.outputs == (Logs(logs="before"), Image(url=URL), Image(url=URL), Logs(logs="after\n"))
    assert transcript.text == (
        "before\n"
        "[figure 1, shown to the user: <Figure size 640x480 with 1 Axes>]\n"
        "[figure 2, shown to the user: <Figure size 640x480 with 1 Axes>]\n"
        "after\n"
    )
    assert [(one.type, one.data) for one in transcript.pictures] == [("image/png", b"\x89PNG")] * 2


def test_a_result_may_be_a_picture() -> None:
    transcript = told(Result({"image/jpeg": b"\xff\xd8", "text/plain": "<Image>\nmore"}))
    assert transcript.outputs == (Image(url="data:image/jpeg;base64,/9g="),)
    assert transcript.text == "[figure 1, shown to the user: <Image>]\n"


def test_a_lost_sandbox_is_told_with_what_comes_next() -> None:
    text = told(Exit("killed", "The sandbox was lost (x). make a new one.", reason="lost")).text
    assert "make a new one" not in text
    assert "the next call starts afresh" in text


@given(st.lists(st.one_of(st.text(st.characters(), max_size=5).map(Stdout), st.just(PNG))))
def test_any_text_can_be_sent_and_none_is_lost(outputs: list[Stdout | Display]) -> None:
    transcript = told(*outputs)
    assert msgspec.json.encode(transcript.outputs)
    merged = [type(one) for one in transcript.outputs]
    assert all(not (a is Logs and b is Logs) for a, b in itertools.pairwise(merged))
    printed = "".join(one.text for one in outputs if isinstance(one, Stdout))
    assert (
        "".join(one.logs for one in transcript.outputs if isinstance(one, Logs))
        == printed.encode(errors="backslashreplace").decode()
    )
