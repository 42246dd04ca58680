"""Write streamed answers as chat completions servers, the Responses API and Anthropic's Messages API send them."""

from __future__ import annotations

import json
from typing import Any, Protocol

from belljar.testing.chunks import chunks
from belljar.testing.scripted import Call


class Wire(Protocol):
    """A streamed answer; `turn` makes its ids its own."""

    def __init__(self, turn: int) -> None: ...

    def begin(self) -> bytes: ...

    def text(self, word: str) -> bytes: ...

    def call(self, made: Call) -> bytes: ...

    def end(self) -> bytes: ...


class ChatWire:
    """A streamed answer on the chat completions wire; `turn` makes its ids its own."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._calls = 0
        self._pieces = 0

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, word: str) -> bytes:
        self._pieces += 1
        return self._chunk({"content": word})

    def call(self, made: Call) -> bytes:
        index, self._calls = self._calls, self._calls + 1
        opening = {
            "id": f"call_{self._turn}_{index}",
            "type": "function",
            "function": {"name": made.name, "arguments": ""},
        }
        pieces = chunks(made.arguments)
        self._pieces += len(pieces)
        frames = [self._chunk({"tool_calls": [{"index": index, **opening}]})]
        frames += [self._chunk({"tool_calls": [{"index": index, "function": {"arguments": one}}]}) for one in pieces]
        return b"".join(frames)

    def end(self) -> bytes:
        usage = {"prompt_tokens": 1, "completion_tokens": self._pieces, "total_tokens": 1 + self._pieces}
        last = self._chunk({}, "tool_calls" if self._calls else "stop")
        return last + self._frame(choices=[], usage=usage) + b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, object], reason: str | None = None) -> bytes:
        return self._frame(choices=[{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}])

    def _frame(self, **fields: object) -> bytes:
        chunk = {
            "id": f"chatcmpl-{self._turn}",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "sim",
            **fields,
        }
        return f"data: {json.dumps(chunk)}\n\n".encode()


class ResponsesWire:
    """A streamed answer on the Responses wire; `turn` makes its ids its own."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._number = -1
        self._output: list[dict[str, Any]] = []
        self._pieces = 0

    def begin(self) -> bytes:
        snapshot = self._snapshot("in_progress", None)
        return self._event("response.created", response=snapshot) + self._event(
            "response.in_progress", response=snapshot
        )

    def text(self, word: str) -> bytes:
        frames = b"" if self._writing else self._message()
        self._pieces += 1
        self._output[-1]["content"][0]["text"] += word
        return frames + self._event("response.output_text.delta", **self._place(), delta=word, logprobs=[])

    def call(self, made: Call) -> bytes:
        frames = self._close()
        number = len(self._output)
        item = {
            "id": f"fc_{self._turn}_{number}",
            "type": "function_call",
            "call_id": f"call_{self._turn}_{number}",
            "name": made.name,
        }
        self._output.append({**item, "arguments": made.arguments, "status": "completed"})
        where = {"output_index": number, "item_id": item["id"]}
        frames += self._added({**item, "arguments": "", "status": "in_progress"})
        for piece in chunks(made.arguments):
            self._pieces += 1
            frames += self._event("response.function_call_arguments.delta", **where, delta=piece)
        frames += self._event("response.function_call_arguments.done", **where, arguments=made.arguments)
        return frames + self._done()

    def end(self) -> bytes:
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        usage = {"input_tokens": 1, "output_tokens": self._pieces, "total_tokens": 1 + self._pieces, **details}
        return self._close() + self._event("response.completed", response=self._snapshot("completed", usage))

    @property
    def _writing(self) -> bool:
        return bool(self._output) and self._output[-1]["status"] == "in_progress"

    def _message(self) -> bytes:
        item = {
            "id": f"msg_{self._turn}_{len(self._output)}",
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
        }
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        self._output.append({**item, "content": [part]})
        return self._added({**item, "content": []}) + self._event(
            "response.content_part.added", **self._place(), part=part
        )

    def _close(self) -> bytes:
        if not self._writing:
            return b""
        item = self._output[-1]
        item["status"] = "completed"
        part = item["content"][0]
        frames = self._event("response.output_text.done", **self._place(), text=part["text"], logprobs=[])
        return frames + self._event("response.content_part.done", **self._place(), part=part) + self._done()

    def _place(self) -> dict[str, object]:
        return {"item_id": self._output[-1]["id"], "output_index": len(self._output) - 1, "content_index": 0}

    def _added(self, item: dict[str, Any]) -> bytes:
        return self._event("response.output_item.added", output_index=len(self._output) - 1, item=item)

    def _done(self) -> bytes:
        at = len(self._output) - 1
        return self._event("response.output_item.done", output_index=at, item=self._output[at])

    def _snapshot(self, status: str, usage: object) -> dict[str, object]:
        shared = {"id": f"resp_{self._turn}", "object": "response", "created_at": 1, "model": "sim", "error": None}
        return {**shared, "status": status, "incomplete_details": None, "output": self._output, "usage": usage}

    def _event(self, kind: str, **fields: object) -> bytes:
        self._number += 1
        data = json.dumps({"type": kind, "sequence_number": self._number, **fields})
        return f"event: {kind}\ndata: {data}\n\n".encode()


class MessagesWire:
    """A streamed answer on Anthropic's wire; `turn` makes its ids its own."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._blocks = 0
        self._open = False
        self._called = False
        self._pieces = 0

    def begin(self) -> bytes:
        message = {"id": f"msg_{self._turn}", "type": "message", "role": "assistant", "model": "sim", "content": []}
        usage = {"input_tokens": 1, "output_tokens": 0}
        ending = {"stop_reason": None, "stop_sequence": None}
        return self._event("message_start", message={**message, **ending, "usage": usage}) + self._event("ping")

    def text(self, word: str) -> bytes:
        frames = b"" if self._open else self._start({"type": "text", "text": ""})
        return frames + self._delta({"type": "text_delta", "text": word})

    def call(self, made: Call) -> bytes:
        self._called = True
        frames = self._close()
        id = f"toolu_{self._turn}_{self._blocks}"
        frames += self._start({"type": "tool_use", "id": id, "name": made.name, "input": {}})
        for piece in chunks(made.arguments):
            frames += self._delta({"type": "input_json_delta", "partial_json": piece})
        return frames + self._close()

    def end(self) -> bytes:
        delta = {"stop_reason": "tool_use" if self._called else "end_turn", "stop_sequence": None}
        usage = {"input_tokens": 1, "output_tokens": self._pieces}
        return self._close() + self._event("message_delta", delta=delta, usage=usage) + self._event("message_stop")

    def _start(self, block: dict[str, object]) -> bytes:
        self._open = True
        return self._event("content_block_start", index=self._blocks, content_block=block)

    def _delta(self, delta: dict[str, object]) -> bytes:
        self._pieces += 1
        return self._event("content_block_delta", index=self._blocks, delta=delta)

    def _close(self) -> bytes:
        if not self._open:
            return b""
        self._open = False
        self._blocks += 1
        return self._event("content_block_stop", index=self._blocks - 1)

    def _event(self, kind: str, **fields: object) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
