"""What runs in the pods of the stand-in node: a sandbox server for each, or one that they share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import aiohttp

from belljar.sandbox.kubernetes.api_client import Object


class SandboxServer:
    """`belljar sandbox` as a process of its own, with the name of its pod: what a pod really runs."""

    def __init__(self, home: Path, port: int) -> None:
        self._home, self._port = home, port
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, pod: Object, address: str) -> None:
        meta = pod["metadata"]
        variables = {
            "BELLJAR_CACHE_DIR": str(self._home / "pods"),
            "POD_NAME": meta["name"],
            "POD_UID": meta["uid"],
            "BELLJAR_WARM": "0",
            "BELLJAR_PACKAGES": "none",
            "BELLJAR_DRAIN": "0.1",
        }
        command = [
            sys.executable,
            "-m",
            "belljar.cli",
            "sandbox",
            "--host",
            address,
            "--port",
            str(self._port),
            "--json",
        ]
        with (self._home / "pods.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, env={**os.environ, **variables}, stdout=asyncio.subprocess.DEVNULL, stderr=log
            )
        await healthy(f"http://{address}:{self._port}")

    async def exited(self) -> str:
        assert self.process is not None
        return f"container sandbox exited with {await self.process.wait()}"

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)
            await self.process.wait()


async def healthy(url: str) -> None:
    """As a readiness probe finds out."""
    async with aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{url}/health") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.05)


class SharedServer:
    """One sandbox server for all pods that share it: to start one takes a second, and some tests have hundreds."""

    def __init__(self, home: Path, **variables: str) -> None:
        self._home = home
        self.socket = home / "shared.sock"
        self._variables = {"BELLJAR_CACHE_DIR": str(home / "shared"), "BELLJAR_WARM": "0", **variables}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        command = [sys.executable, "-m", "belljar.cli", "sandbox", "--socket", str(self.socket), "--json"]
        with (self._home / "shared.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, env={**os.environ, **self._variables}, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        await self._process.stdout.readline()

    async def health(self) -> dict[str, Any]:
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(self.socket))) as session,
            session.get("http://shared/health") as answer,
        ):
            return dict(await answer.json())

    async def forget(self, id: str) -> None:
        """End a sandbox, as the end of its pod would."""
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(self.socket))) as session,
            session.delete(f"http://shared/v1/sandboxes/{id}") as answer,
        ):
            assert answer.status < 300

    async def stop(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()


class SharingPod:
    """A pod's address, behind which the shared server answers under the pod's name."""

    def __init__(self, server: SharedServer, port: int) -> None:
        self._server, self._port = server, port
        self._crashed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._door: socket.socket | None = None
        self._listener: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.name: str | None = None
        """What it says that its pod is."""

    async def start(self, pod: Object, address: str) -> None:
        self.name, self._uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        while (await self._server.health())["status"] != "healthy":  # noqa: ASYNC110 - as a probe finds out
            await asyncio.sleep(0.05)
        self._door = socket.create_server((address, self._port))  # ours to close, if we are called away now
        self._listener = await asyncio.start_server(self._accept, sock=self._door)

    async def exited(self) -> str:
        return await self._crashed

    def crash(self, why: str) -> None:
        """As a process that the kernel kills: its connections break, and whoever asks then is refused."""
        if not self._crashed.done():
            self._crashed.set_result(why)

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._door is not None:
            self._door.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET /health "):
                    told = {**await self._server.health(), "pod_name": self.name, "pod_uid": self._uid}
                    body = json.dumps(told).encode()
                    line = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: "
                    writer.write(line + f"{len(body)}\r\n\r\n".encode() + body)
                    await writer.drain()
                else:
                    await self._pass_on(head, reader, writer)
        finally:
            writer.transport.abort() if self._crashed.done() else writer.close()

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_unix_connection(str(self._server.socket))
        try:
            outer.write(head)

            async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
                while data := await source.read(1 << 16):
                    to.write(data)
                    await to.drain()

            ways = [asyncio.create_task(copy(reader, outer)), asyncio.create_task(copy(inner, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.wait(ways)
        finally:
            outer.transport.abort()
