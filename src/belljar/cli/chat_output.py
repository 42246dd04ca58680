"""Print a chat: the answer on standard output, code and its output on standard error; or JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from belljar.cli.terminal import TerminalWriter, shorten, width
from belljar.files.generation import ExecutableCode, Part
from belljar.files.results import CodeExecutionOutputFile, as_json
from belljar.sandbox.outputs import Limit
from belljar.sandbox.remedies import REMEDIES, Reader


class Teller:
    """Shows each thing when it comes, and nothing twice."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._out, self._err = TerminalWriter(sys.stdout), TerminalWriter(sys.stderr)
        self._column = 0
        self._live: dict[str, str] = {}
        """What came live, by its cell."""
        self._limit: Limit | None = None
        """That the last cell met."""
        self._seen = False
        self._head = ""

    def text(self, piece: str) -> None:
        """The model speaks."""
        if self._json:
            self.line({"output": "text", "text": piece})
            return
        self._begin_part("")
        self._out.write(piece)
        self._note_column(piece)

    def see(self, event: Mapping[str, Any]) -> None:
        """What passes in a stream of the Responses API."""
        match event:
            case {"type": "response.code_interpreter_call_code.delta", "delta": str(piece)}:
                self._seen = True
                if not self._json:
                    self._note(piece, "code")
            case {"type": "response.code_interpreter_call_code.done", "code": str(code)}:
                self._seen = True
                if self._json:
                    self.line({"output": "code", "code": code})
            case {"type": "belljar:code_interpreter_call.output.delta", "item_id": id, "delta": str(piece)}:
                self._live[id] = self._live.get(id, "") + piece
                self._print_text(piece, event["stream"])
            case {"type": "response.output_item.done", "item": {"type": "code_interpreter_call"} as item}:
                self._show_rest(item)

    def parts(self, parts: Iterable[Part]) -> None:
        """Code and results that came only with the whole answer."""
        if self._seen:
            return
        for part in parts:
            if isinstance(part, ExecutableCode):
                self._print_code(part.code)
            elif part.output:
                self._print_text(part.output, "stdout")

    def file(self, file: CodeExecutionOutputFile, saved: str | None) -> None:
        if self._json:
            self.line({"output": "file", **as_json(file), "saved": saved})

    def note(self, text: str) -> None:
        """A line of our own."""
        if not self._json:
            self.fresh()
            self._err.say(text)

    def progress(self, text: str) -> None:
        """A line of our own that the next one is written over, on a terminal only; an empty one clears it."""
        if not self._json and sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{shorten(text, width(sys.stderr) - 1)}")
            sys.stderr.flush()

    def fresh(self) -> None:
        """What comes next is ours: on a line of its own, in no colour, and with nothing below."""
        self._begin_part("")
        self._begin_line()
        self._out.settle()
        self._err.settle()

    def advise(self) -> None:
        """What can be done about the limit that the last cell met, if it met one."""
        if self._limit is not None and (remedy := REMEDIES[self._limit].of(Reader.CHAT)):
            self.note(f"belljar: {remedy}")

    def end_answer(self) -> None:
        """The model has said all."""
        if self._column and not self._head and not self._json:
            self._out.write("\n")
            self._column = 0

    def end(self, code: int) -> int:
        if self._json:
            self.line({"output": "exit", "exit_code": code})
        else:
            self._begin_part("")
        return code

    def line(self, data: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(data) + "\n")
        sys.stdout.flush()

    def _show_rest(self, item: Mapping[str, Any]) -> None:
        """A cell is done: what was not shown while it ran."""
        if not self._seen and item.get("code"):
            self._seen = True
            self._print_code(item["code"])
        self._limit = _limit(item.get("belljar"))
        live = self._live.pop(item["id"], "")
        logs = "".join(one["logs"] for one in item.get("outputs") or () if one["type"] == "logs")
        if not live:
            self._print_text(logs, "stdout")
        elif logs.startswith(live):  # the rest is how it ended: a traceback, or why it was stopped
            self._print_text(logs[len(live) :], "stderr")

    def _print_code(self, code: str) -> None:
        if self._json:
            self.line({"output": "code", "code": code})
        else:
            self._note(code, "code")

    def _print_text(self, text: str, stream: str) -> None:
        if not text:
            return
        if self._json:
            self.line({"output": stream, "text": text})
        else:
            self._note(text, "output")

    def _note(self, text: str, head: str) -> None:
        self._begin_part(head)
        self._err.write(text)
        self._note_column(text)

    def _begin_part(self, head: str) -> None:
        """Begin another part, under a heading of its own."""
        if head == self._head:
            return
        self._begin_line()
        self._out.settle()
        self._err.say(f"── {head} ──" if head else "──")
        self._head = head

    def _begin_line(self) -> None:
        if self._column:
            self._err.write("\n")
            self._column = 0

    def _note_column(self, text: str) -> None:
        if text:
            self._column = 0 if text.endswith("\n") else 1


def _limit(end: object) -> Limit | None:
    """Of a cell's end as our gateway tells it; others tell none."""
    told = end.get("limit") if isinstance(end, dict) else None
    return next((limit for limit in REMEDIES if limit == told), None)
