"""Log lines: one object a line, with what is known and no more."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from belljar.gateway.server.log import AnsweredRequest, set_up

ANSWERED = AnsweredRequest(request_id="req_1", owner="key_1", method="GET", route="/v1/files", status=200, ms=1.5)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    loggers = [
        logging.getLogger(name) for name in (None, "belljar", "python_multipart", "uvicorn.error", "uvicorn.asgi")
    ]
    levels, handlers = [one.level for one in loggers], logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers = handlers
    for one, level in zip(loggers, levels, strict=True):
        one.setLevel(level)


def test_a_request_is_an_object() -> None:
    stream = io.StringIO()
    set_up(stream, form="json")(ANSWERED)
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "belljar.requests",
        "request_id": "req_1",
        "owner": "key_1",
        "method": "GET",
        "route": "/v1/files",
        "status": 200,
        "ms": 1.5,
    }


def test_a_request_can_be_read() -> None:
    stream = io.StringIO()
    set_up(stream, form="text")(ANSWERED)
    assert "GET /v1/files 200 1.5 ms owner=key_1 request_id=req_1\n" in stream.getvalue()


def test_what_else_is_logged_has_its_fields_and_traceback() -> None:
    stream = io.StringIO()
    set_up(stream, form="json")
    logging.getLogger("belljar.audit").info("cell %s", "ok", extra={"fields": {"owner": "key_1"}})
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("belljar.server").exception("broke")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["message"], first["owner"], first["logger"]) == ("cell ok", "key_1", "belljar.audit")
    assert "ValueError: boom" in second["traceback"]
    assert second["level"] == "error"


def test_text_too() -> None:
    stream = io.StringIO()
    set_up(stream, form="text")
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("belljar.server").exception("broke", extra={"fields": {"owner": "key_1"}})
    assert "error belljar.server: broke owner=key_1\nTraceback" in stream.getvalue()


def test_below_the_level_nothing_is_said() -> None:
    stream = io.StringIO()
    set_up(stream, level="warning", form="json")(ANSWERED)
    logging.getLogger("belljar.audit").info("cell")
    logging.getLogger("python_multipart").warning("bad form")
    assert stream.getvalue() == ""
