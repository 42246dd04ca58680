"""A model server that costs as little as possible: scripted by the newest user message, on a port of this machine.

`[[n=64 delay=0.02 before=0.3 code=1]]` in a message: so many tokens, so many seconds apart, after such a pause, with a
call of `code_interpreter` first.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import sys
from typing import cast

import httptools
import uvloop

_SCRIPT = re.compile(rb"\[\[([^\]]*)\]\]")
_CODE = "print(6 * 7 * 1001)"


def _chunk(delta: dict[str, object], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return (
        b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"
    )


def _usage(n: int) -> dict[str, int]:
    return {"prompt_tokens": 12, "completion_tokens": n, "total_tokens": 12 + n}


def _call(pieces: bool) -> list[dict[str, object]]:
    arguments = json.dumps({"code": _CODE})
    parts = [arguments[at : at + 8] for at in range(0, len(arguments), 8)] if pieces else [arguments]
    head = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "code_interpreter", "arguments": ""}}
    return [head, *({"index": 0, "function": {"arguments": part}} for part in parts)]


@functools.lru_cache(64)
def frames(n: int, code: bool) -> tuple[bytes, ...]:
    """The answer as a stream, an event each."""
    if code:
        said = [_chunk({"tool_calls": [piece]}) for piece in _call(pieces=True)]
        last = _chunk({}, "tool_calls")
    else:
        said = [_chunk({"content": f"w{at % 1000:03} "}) for at in range(n)]
        last = _chunk({}, "stop")
    spent = b"data: " + json.dumps({"choices": [], "usage": _usage(n)}).encode() + b"\n\n"
    framed = (*said, last, spent, b"data: [DONE]\n\n")
    return tuple(b"%x\r\n%b\r\n" % (len(one), one) for one in framed)


@functools.lru_cache(64)
def whole(n: int, code: bool) -> bytes:
    """The answer in one piece."""
    [head, arguments] = _call(pieces=False)
    function = {**cast(dict[str, object], head["function"]), **cast(dict[str, object], arguments["function"])}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    text = "".join(f"w{at % 1000:03} " for at in range(n))
    message = (
        {"role": "assistant", "content": None, "tool_calls": calls} if code else {"role": "assistant", "content": text}
    )
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if code else "stop"}
    return json.dumps({"id": "c", "object": "chat.completion", "choices": [choice], "usage": _usage(n)}).encode()


class Connection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._url = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url = url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body, self._body = b"".join(self._body), []
        if self._url.endswith(b"/models"):
            self._send_whole(b'{"object":"list","data":[{"id":"sim","object":"model","created":1,"owned_by":"sim"}]}')
            return
        script = _SCRIPT.findall(body)
        asked = dict(pair.split(b"=") for pair in script[-1].split()) if script else {}
        n, delay, before = int(asked.get(b"n", 16)), float(asked.get(b"delay", 0)), float(asked.get(b"before", 0))
        code = b"code" in asked and body.rfind(b'"role":"tool"') < body.rfind(b'"role":"user"')
        loop = asyncio.get_running_loop()
        if b'"stream":true' not in body.replace(b" ", b""):
            loop.call_later(before, self._send_whole, whole(n, code)) if before else self._send_whole(whole(n, code))
        elif delay:
            self._pacing = loop.create_task(self._pace(frames(n, code), delay))
        else:
            loop.call_later(before, self._send_stream, n, code) if before else self._send_stream(n, code)

    def _send_whole(self, body: bytes) -> None:
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )

    def _send_stream(self, n: int, code: bool) -> None:
        self._transport.write(_HEAD + b"".join(frames(n, code)) + b"0\r\n\r\n")

    async def _pace(self, said: tuple[bytes, ...], delay: float) -> None:
        loop = asyncio.get_running_loop()
        self._transport.write(_HEAD)
        due = loop.time()
        for one in said:
            self._transport.write(one)
            due += delay
            await asyncio.sleep(max(0.0, due - loop.time()))
        self._transport.write(b"0\r\n\r\n")


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main())
