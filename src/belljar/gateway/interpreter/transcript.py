"""Collect a cell's outputs in order, as a notebook shows them: text joined, pictures between. Pure."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from belljar.sandbox.outputs import Display, Exit, Output, Result, Stderr, Stdout
from belljar.wire.items import CodeOutput, Image, Logs

_PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")
_LOST = (
    "The sandbox was lost while the code ran. The variables are gone; the next call starts afresh, with the files that "
    "earlier calls had made."
)


@dataclass(frozen=True, slots=True)
class Picture:
    """Something shown that is a picture."""

    data: bytes
    type: str
    about: str
    """Its plain form, such as `<Figure size 640x480 with 1 Axes>`."""

    @property
    def url(self) -> str:
        return f"data:{self.type};base64,{base64.b64encode(self.data).decode()}"


class Transcript:
    """Fed with outputs as they come."""

    def __init__(self) -> None:
        self._parts: list[list[str] | Picture] = []
        self._stdout: list[str] = []
        self._stderr: list[str] = []

    def add(self, output: Output) -> None:
        match output:
            case Stdout(text):
                self._stdout.append(text)
                self._write(text)
            case Stderr(text):
                self._stderr.append(text)
                self._write(text)
            case Display():
                picture = _find_picture(output)
                if picture is not None:
                    self._parts.append(picture)
                elif output.text:
                    self._write(output.text if isinstance(output, Result) else f"{output.text}\n", apart=True)
            case Exit():
                self._end(output)

    @property
    def pictures(self) -> list[Picture]:
        return [part for part in self._parts if isinstance(part, Picture)]

    @property
    def outputs(self) -> tuple[CodeOutput, ...]:
        """As on the wire."""
        return tuple(
            Image(url=part.url) if isinstance(part, Picture) else Logs(logs="".join(part)) for part in self._parts
        )

    @property
    def text(self) -> str:
        """As text alone, with a line for each picture."""
        text, count = "", 0
        for part in self._parts:
            if isinstance(part, Picture):
                count += 1
                text = f"{_end_line(text)}[figure {count}, shown to the user: {part.about}]\n"
            else:
                text += "".join(part)
        return text

    @property
    def stdout(self) -> str:
        """What was written to standard output alone."""
        return "".join(self._stdout)

    @property
    def stderr(self) -> str:
        """What was written to standard error, and the traceback where Python would have written it there."""
        return "".join(self._stderr)

    def _end(self, end: Exit) -> None:
        if end.error is not None:
            self._write(end.error.traceback, apart=True)
            if end.error.type != "SystemExit":
                self._stderr = [_end_line(self.stderr), end.error.traceback]
        more = _LOST if end.reason == "lost" else end.hint if end.status == "raised" else end.text
        if more:
            self._write(more, apart=True)

    def _write(self, text: str, *, apart: bool = False) -> None:
        """Add text, which `apart` begins on a line of its own."""
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, list):
            if text:
                self._parts.append([text])
        elif text:
            if apart and not last[-1].endswith("\n"):
                last.append("\n")
            last.append(text)


def _find_picture(display: Display) -> Picture | None:
    for type in _PICTURES:
        data = display.data.get(type)
        if isinstance(data, bytes):
            return Picture(data, type, display.text.partition("\n")[0][:200] or type)
    return None


def _end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
