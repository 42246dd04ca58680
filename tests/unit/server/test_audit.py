"""What the engine tells is counted, and every cell is a line that holds nothing of what it said."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from belljar.gateway.engine.caller import Caller
from belljar.gateway.engine.services import CellRan, TurnDone
from belljar.gateway.server.audit import Audit
from belljar.gateway.server.metrics import Metrics
from belljar.wire.responses import Usage

CALLER = Caller("key_1", "req_1")


def test_turns_count_their_tokens() -> None:
    metrics = Metrics()
    audit = Audit(metrics)
    usage = Usage(input_tokens=30, output_tokens=12, total_tokens=42)
    for spent in (usage, usage, None):
        audit(TurnDone(caller=CALLER, response_id="resp_1", upstream="lab", model="qwen", seconds=0.2, usage=spent))
    text = metrics.format_text().decode()
    assert 'belljar_turns_total{upstream="lab",model="qwen"} 3\n' in text
    assert 'belljar_tokens_total{upstream="lab",model="qwen",kind="input"} 60\n' in text
    assert 'belljar_tokens_total{upstream="lab",model="qwen",kind="output"} 24\n' in text
    assert 'belljar_turn_seconds_count{upstream="lab"} 3\n' in text


def test_cells_are_counted_and_written_down(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    cell: dict[str, Any] = {"caller": CALLER, "response_id": "resp_1", "container_id": "cntr_1", "status": "completed"}
    with caplog.at_level(logging.INFO, "belljar.audit"):
        Audit(metrics)(
            CellRan(**cell, exit="killed", reason="memory", seconds=1.5, code="print('secret')", files=("secret.csv",))
        )
    text = metrics.format_text().decode()
    assert 'belljar_cells_total{exit="memory"} 1\n' in text
    assert "belljar_cell_seconds_count 1\n" in text
    (record,) = caplog.records
    fields: dict[str, Any] = record.__dict__["fields"]
    assert fields["owner"] == "key_1"
    assert fields["request_id"] == "req_1"
    assert fields["container_id"] == "cntr_1"
    assert (fields["exit"], fields["reason"], fields["ms"], fields["files"]) == ("killed", "memory", 1500.0, 1)
    assert len(fields["code_sha256"]) == 64
    assert "secret" not in f"{record.getMessage()} {fields}"
