"""Write streamed answers as Gemini sends them, with calls in pieces as on Vertex, and signatures."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from belljar.testing.chunks import chunks
from belljar.testing.scripted import Call


class GeminiWire:
    """A streamed answer on Gemini's wire; `turn` makes its ids its own."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._calls = 0
        self._pieces = 0

    def begin(self) -> bytes:
        return b""

    def text(self, word: str) -> bytes:
        self._pieces += 1
        return self._chunk({"text": word})

    def call(self, made: Call) -> bytes:
        self._calls += 1
        begun = {"name": made.name, "id": f"call_{self._turn}_{self._calls}", "willContinue": True}
        first: dict[str, Any] = {"functionCall": begun}
        if self._calls == 1:  # the others were made at the same time
            first["thoughtSignature"] = signature(self._turn)
        frames = [self._chunk(first)]
        for argument in _partial("$", json.loads(made.arguments)):
            self._pieces += 1
            frames.append(self._chunk({"functionCall": {"partialArgs": [argument], "willContinue": True}}))
        return b"".join([*frames, self._chunk({"functionCall": {}})])

    def end(self) -> bytes:
        last: dict[str, Any] = {"text": ""}
        if not self._calls:
            last["thoughtSignature"] = signature(self._turn)
        return self._chunk(last, "STOP")

    def _chunk(self, part: dict[str, Any], reason: str | None = None) -> bytes:
        candidate: dict[str, Any] = {"content": {"parts": [part], "role": "model"}, "index": 0}
        if reason:
            candidate["finishReason"] = reason
        usage = {"promptTokenCount": 1, "candidatesTokenCount": self._pieces, "totalTokenCount": 1 + self._pieces}
        data = {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": "sim",
            "responseId": f"resp_{self._turn}",
        }
        return f"data: {json.dumps(data)}\r\n\r\n".encode()


def signature(turn: int) -> str:
    """What the first call of a turn is signed with, or else its text."""
    return base64.b64encode(f"signature {turn}".encode()).decode()


def _partial(path: str, value: Any) -> Iterator[dict[str, Any]]:
    """The values of some arguments in their order, texts in pieces."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _partial(f"{path}.{key}", one)
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from _partial(f"{path}[{at}]", one)
    elif isinstance(value, str):
        for piece in chunks(value):
            yield {"jsonPath": path, "stringValue": piece, "willContinue": True}
        yield {"jsonPath": path, "stringValue": ""}
    elif value is None:
        yield {"jsonPath": path, "nullValue": "NULL_VALUE"}
    else:
        yield {"jsonPath": path, "boolValue" if isinstance(value, bool) else "numberValue": value}
