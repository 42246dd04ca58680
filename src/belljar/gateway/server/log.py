"""Log lines, as JSON for machines or as text for people. Never bodies, names of files or keys."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, TypeAlias

import msgspec
from msgspec import Struct

from belljar.visible import visible, visible_lines

_encode = msgspec.json.Encoder(enc_hook=str).encode


class AnsweredRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request was answered; status 499 where its client did not wait."""

    request_id: str
    owner: str
    method: str
    route: str
    status: int
    ms: float
    client_request_id: str | None = None


Journal: TypeAlias = Callable[[AnsweredRequest], None]
"""Where those lines go. Apart from `logging`, which would cost a request more than all the rest of the server does."""


class JsonLines(logging.Formatter):
    """A line is an object: time, level, logger, message, what else is known, and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _format_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _encode(line).decode()


class TextLines(logging.Formatter):
    """The same, to be read."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_format_time(record.created)} {record.levelname.lower()} {record.name}: {record.getMessage()}"
        line += "".join(f" {name}={value}" for name, value in getattr(record, "fields", {}).items())
        line = visible(line)
        return f"{line}\n{visible_lines(self.formatException(record.exc_info))}" if record.exc_info else line


def set_up(stream: TextIO, *, level: str = "info", form: Literal["text", "json"] = "text") -> Journal:
    """Send what is logged to this stream, and of libraries only what is serious. Gives the journal of requests."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    ours = logging.getLogger("belljar")
    ours.setLevel(level.upper())
    # A form or a request that is malformed is its sender's business, and answered.
    for name in ("python_multipart", "uvicorn.error", "uvicorn.asgi"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if not ours.isEnabledFor(logging.INFO):
        return _drop_line
    return _make_json_journal(stream) if form == "json" else _make_text_journal(stream)


def _drop_line(answered: AnsweredRequest) -> None:
    pass


def _make_json_journal(stream: TextIO) -> Journal:
    now = _Now()

    def write(answered: AnsweredRequest) -> None:
        head = f'{{"time":"{now()}","level":"info","logger":"belljar.requests",'
        stream.write(f"{head}{_encode(answered)[1:].decode()}\n")
        stream.flush()

    return write


def _make_text_journal(stream: TextIO) -> Journal:
    now = _Now()

    def write(answered: AnsweredRequest) -> None:
        stream.write(
            f"{now()} info belljar.requests: {answered.method} {answered.route} {answered.status} "
            f"{answered.ms} ms owner={answered.owner} request_id={answered.request_id}\n"
        )
        stream.flush()

    return write


class _Now:
    """The time as text; most of it stays the same for a second."""

    def __init__(self) -> None:
        self._second = 0
        self._text = ""

    def __call__(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second, self._text = second, _format_second(second)
        return f"{self._text}.{int((now - second) * 1000):03}Z"


def _format_time(at: float) -> str:
    return f"{_format_second(int(at))}.{int(at % 1 * 1000):03}Z"


def _format_second(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
