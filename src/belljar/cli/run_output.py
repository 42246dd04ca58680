"""Print a run: as text on a terminal or as JSON lines, and save its files."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belljar import autorun
from belljar.cli.terminal import TerminalWriter
from belljar.errors import BelljarError, WorkspaceError
from belljar.sandbox import explain
from belljar.sandbox.base import BlockingFiles
from belljar.sandbox.outputs import Display, Exit, FileChanged, Output, Result, Stderr, Stdout

if TYPE_CHECKING:
    from belljar.filesystem.export import Export

_PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/svg+xml": "svg", "image/gif": "gif", "image/webp": "webp"}


class Reporter:
    """Shows outputs as they come, and at the end what there is to take home."""

    def __init__(
        self, files: BlockingFiles, *, out: Path | None, overwrite: bool, script: str | None, as_json: bool
    ) -> None:
        self._files = files
        self._out = out
        self._overwrite = overwrite
        self._script = script
        self._json = as_json
        self._stdout, self._stderr = TerminalWriter(sys.stdout), TerminalWriter(sys.stderr)
        self._column = 0
        self._changed: list[FileChanged] = []
        self._pictures: list[tuple[str, bytes]] = []

    def show(self, output: Output) -> None:
        if isinstance(output, FileChanged):
            self._changed.append(output)
            return
        picture = _picture(output) if isinstance(output, Display) else None
        if picture is not None:
            self._pictures.append(picture)
        if self._json:
            line = as_data(output)
            if picture is not None:
                line["figure"] = len(self._pictures)
            self._line(line)
            return
        match output:
            case Stdout(text):
                self._say(text)
            case Stderr(text):
                self._stderr.write(text)
            case Result() if picture is None:
                self._say(_start_line(self._column) + output.text + "\n")
            case Display() if picture is None:
                self._say(output.text + "\n")

    def finish(self, end: Exit, status: int) -> int:
        """Save or name what was made, say how it ended; the exit code."""
        saved = dict(self._save()) if self._out is not None else {}
        complete = None not in saved.values()
        if status == 0 and not complete:
            status = 3
        if self._json:
            for change in self._changed:
                self._line({**as_data(change), "saved": saved.get(change.name)})
            self._line({**as_data(end), "exit_code": status})
            return status
        if end.error is not None and end.error.type != "SystemExit":
            self._fresh_line()
            self._stderr.write(name_script(end.error.traceback, self._script).rstrip("\n") + "\n")
        if note := _note(end):
            self._note(f"belljar: {note}")
        self._tell_files(saved)
        return status

    # -- text ---------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self._stdout.write(text)
        if text:
            self._column = len(text) - text.rfind("\n") - 1

    def _note(self, text: str) -> None:
        self._fresh_line()
        self._stderr.say(text)

    def _fresh_line(self) -> None:
        if (self._column or self._stderr.within) and sys.stderr.isatty():
            self._stderr.write("\n")
            self._column = 0
        self._stdout.settle()

    def _tell_files(self, saved: Mapping[str, str | None]) -> None:
        if self._out is not None:
            for name, path in saved.items():
                if path is not None:
                    self._note(f"saved {_format_name(path)}")
                    if why := autorun.warning(name):
                        self._note(f"belljar: warning: {_format_name(name)}: {why}; read it first")
            return
        if self._changed:
            made = ", ".join(f"{_format_name(change.name)} ({explain.size(change.size)})" for change in self._changed)
            self._note(f"belljar: it made {made}; to keep: --out DIR")
        if self._pictures:
            count = len(self._pictures)
            self._note(f"belljar: it drew {count} figure{'s' * (count > 1)}; to keep: --out DIR")

    # -- JSON ---------------------------------------------------------------------------------------------------

    def _line(self, data: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(data) + "\n")
        sys.stdout.flush()

    # -- files --------------------------------------------------------------------------------------------------

    def _save(self) -> Iterator[tuple[str, str | None]]:
        """Copy files and figures to --out. Name -> path, or None where that failed or was refused."""
        from belljar.filesystem.export import Export

        assert self._out is not None
        target = Export(self._out, overwrite=self._overwrite, remedy="to overwrite it: --overwrite")
        for change in self._changed:
            yield change.name, self._copy(target, change.name)
        taken = {change.name for change in self._changed}
        number = 0
        for extension, data in self._pictures:
            number += 1
            while (name := f"figure-{number}.{extension}") in taken:
                number += 1
            yield name, self._keep(target, name, iter([data]))

    def _copy(self, target: Export, name: str) -> str | None:
        try:
            with closing(self._files.stream(name)) as pieces:
                return self._keep(target, name, pieces)
        except (BelljarError, OSError) as error:
            self._note(f"belljar: error: {name!r} could not be read: {error}")
            return None

    def _keep(self, target: Export, name: str, chunks: Iterator[bytes]) -> str | None:
        assert self._out is not None
        path = os.path.join(self._out, name)
        try:
            target.save(tuple(name.split("/")), chunks)
        except WorkspaceError as error:
            self._note(f"belljar: error: {path!r} could not be saved: {error}")
            return None
        except OSError as error:
            self._note(f"belljar: error: {path!r} could not be saved: {error.strerror}")
            return None
        return path


def as_data(output: Output) -> dict[str, Any]:
    """An output as JSON has it; `output` says which it is, `base64` which of the MIME types are encoded."""
    match output:
        case Stdout(text):
            return {"output": "stdout", "text": text}
        case Stderr(text):
            return {"output": "stderr", "text": text}
        case Display(data):
            shown = {kind: v if isinstance(v, str) else base64.b64encode(v).decode() for kind, v in data.items()}
            encoded = [kind for kind, v in data.items() if not isinstance(v, str)]
            return {"output": "result" if isinstance(output, Result) else "display", "data": shown, "base64": encoded}
        case FileChanged():
            return {"output": "file", **asdict(output)}
        case Exit():
            return {"output": "exit", **asdict(output)}


def _picture(display: Display) -> tuple[str, bytes] | None:
    """The first form that is a picture: its extension and bytes."""
    for kind, extension in _PICTURES.items():
        if kind in display.data:
            data = display.data[kind]
            return extension, data.encode() if isinstance(data, str) else data
    return None


def _note(end: Exit) -> str:
    """What the exit says beyond the traceback that is shown anyway."""
    if end.limit is None and (end.ok or (end.error is not None and end.error.type == "SystemExit")):
        return ""
    return end.hint if end.status == "raised" else end.text


def name_script(traceback: str, script: str | None) -> str:
    """A traceback with the script's own name in place of the cell's."""
    return traceback.replace('File "<cell 1>"', f'File "{script}"') if script else traceback


def _start_line(column: int) -> str:
    return "\n" if column else ""


def _format_name(name: str) -> str:
    return name if name.isprintable() and name.strip() == name else repr(name)
