"""The floor for a gateway in Python: the same server and client, which only hand bytes on. Nothing is read or kept."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from typing import Any

import uvicorn

from belljar.gateway.upstream.loopback import LoopbackClient


class Relay:
    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._client = LoopbackClient()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        url = self._upstream + scope["path"].removeprefix("/v1")
        answer = await self._client.send("POST", url, {"content-type": "application/json"}, body, timeout=60)
        kind = answer.headers["content-type"].encode()
        await send({"type": "http.response.start", "status": answer.status, "headers": [(b"content-type", kind)]})
        while data := await answer.read():
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def main() -> None:
    door = socket.create_server(("127.0.0.1", 0), backlog=1024)
    door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the last, empty piece waits 40 ms for the first
    server = uvicorn.Server(
        uvicorn.Config(
            Relay(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="error", lifespan="off"
        )
    )
    print(door.getsockname()[1], flush=True)

    def end_with_parent() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=end_with_parent, daemon=True).start()
    asyncio.run(server.serve(sockets=[door]))


if __name__ == "__main__":
    main()
