"""Frames of a stream: one by one or many at once, the same bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from belljar.wire import events
from belljar.wire.codec import frames, sse
from belljar.wire.events import Event
from belljar.wire.items import Message, OtherItem

TEXTS = st.text() | st.sampled_from(["\n", "\r\n\r\n", "data: x\n\nevent: y", '{"type":"error"}', "\u2028", "\x00"])


def text(number: int, delta: str) -> Event:
    return events.TextDelta(sequence_number=number, output_index=0, item_id="msg_1", content_index=0, delta=delta)


def code(number: int, delta: str) -> Event:
    return events.CodeDelta(sequence_number=number, output_index=1, item_id="ci_1", delta=delta)


def message(number: int, said: str) -> Event:
    return events.ItemDone(sequence_number=number, output_index=0, item=Message(role="assistant", content=said))


def carried(number: int, said: str) -> Event:
    item = OtherItem({"type": "web_search_call", "said\n": said})
    return events.ItemAdded(sequence_number=number, output_index=0, item=item)


RUNS = st.lists(
    st.tuples(st.sampled_from([text, code, message, carried]), st.lists(TEXTS, max_size=70).filter(bool)), max_size=4
)


@given(RUNS)
def test_many_at_once_are_the_frames_of_each(runs: list[tuple[object, list[str]]]) -> None:
    made = [(make, said) for make, texts in runs for said in texts]
    batch = [make(number, said) for number, (make, said) in enumerate(made)]  # type: ignore[operator]
    assert b"".join(piece for _, piece in frames(batch)) == b"".join(map(sse, batch))


def test_pieces_are_whole_and_tell_their_last_number() -> None:
    batch = [text(number, f"w{number} ") for number in range(100)]
    seen = 0
    for last, piece in frames(batch):
        assert piece.startswith(b"event: response.output_text.delta\ndata: {")
        assert piece.endswith(b"}\n\n")
        seen += piece.count(b"\n\n")
        assert last == seen - 1
    assert seen == 100
