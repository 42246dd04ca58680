"""What a vendor wants back with a message is kept with it, and shown to nobody."""

from __future__ import annotations

import json

from belljar.gateway.engine import snapshots
from belljar.gateway.engine.emitter import Emitter
from belljar.gateway.engine.turn_rules import TurnRules
from belljar.vendors import deltas
from belljar.wire.codec import encode
from belljar.wire.items import Message
from belljar.wire.responses import Response

START = Response(id="resp_" + "0" * 48, created_at=1, status="in_progress", model="m")


def test_a_seal_is_kept_and_not_shown() -> None:
    emitter = Emitter(START, include=frozenset({"reasoning.encrypted_content"}))
    said = emitter.begin_turn(TurnRules()).feed(
        [deltas.Text("a"), deltas.VendorState("gemini:x"), deltas.Text("b"), deltas.Finish("stop")]
    ) + emitter.complete(2, None)
    (kept,) = emitter.items
    assert isinstance(kept, Message)
    assert kept.sealed == "gemini:x"
    shown = [json.loads(encode(event)) for event in said]
    assert "sealed" not in json.dumps(shown)
    assert [item["type"] for item in shown[-1]["response"]["output"]] == ["message"]
    assert shown[-1]["response"]["output"][0]["content"][0]["text"] == "ab"
    (listed,) = snapshots.filter_items([json.loads(encode(kept))], frozenset())
    assert "sealed" not in listed


def test_a_seal_without_text_is_let_go() -> None:
    emitter = Emitter(START)
    emitter.begin_turn(TurnRules()).feed([deltas.VendorState("gemini:x"), deltas.Finish("stop")])
    assert emitter.items == ()
