"""`belljar serve --workers N`: a parent that holds the directory and the port, one sandbox server, and N gateways.

Each worker is a gateway of its own, with a row in the store and a socket by which the others reach it: a request that
belongs to another worker is passed on to that. The jail is one for all of them, behind a unix socket. The parent starts
them, tells what they are, replaces one that dies and clears its rows at once, and passes on what it is told by signals.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belljar.errors import BadSettings, OperatorError, Refused

if TYPE_CHECKING:
    from belljar.config import Settings
    from belljar.gateway.store.base import Records

_FLAGS = {
    "state_dir": "--state-dir", "blobs": "--blobs", "timeout": "--timeout",
    "isolation": "--isolation", "packages": "--packages", "project": "--project", "log_level": "--log-level",
    "log_format": "--log-format", "host": "--host", "sandbox_warm_pool": "--sandbox-warm-pool",
    "sandbox_namespace": "--sandbox-namespace",
}  # fmt: skip
"""Of `serve`, that every worker is given as the parent was."""
_OF_SANDBOXES = {
    "packages": "--packages", "max_sandboxes": "--max-sandboxes", "warm": "--warm",
    "log_level": "--log-level",
}  # fmt: skip
_LONGEST = 90
"""Bytes of a directory in which a socket can still have a name."""
_AGAIN = 0.1
"""Seconds between two looks at a sandbox server that starts."""
_QUICK = 1.0
"""Seconds: a worker that ends sooner is not started again at once."""
_log = logging.getLogger("belljar.gateway")


def check(settings: Settings) -> None:
    """Refuse what does not go with several workers."""
    if settings.project is not None:
        raise BadSettings("project: it does not go with --workers; leave one of them out")
    if (settings.database or settings.database_file) is not None:
        raise BadSettings(
            "database: it does not go with --workers, whose gateways others cannot reach; leave that out, and start "
            "several gateways, each on a port of its own"
        )


async def serve(settings: Settings, args: argparse.Namespace, announce: Callable[[dict[str, Any]], None]) -> None:
    """Until a signal stops it, or a worker cannot be started."""
    from belljar.gateway.store import lock
    from belljar.gateway.store.local_store import open_local_records

    with contextlib.ExitStack() as stack:
        doors = stack.enter_context(_listen(settings.host, settings.port, settings.workers))
        stack.enter_context(lock.held(settings.state_dir))
        place = _make_place(settings.state_dir)
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        records = open_local_records(settings.state_dir)
        try:
            await _Parent(settings, args, records, doors, place).run(announce)
        finally:
            await records.close()


def _make_place(state_dir: Path) -> Path:
    """For sockets, whose names are short: the directory of the state may be too long for one."""
    place = state_dir / "workers"
    if len(os.fsencode(place)) > _LONGEST:
        return Path(tempfile.mkdtemp(prefix="belljar-"))
    shutil.rmtree(place, ignore_errors=True)  # of a parent that was killed
    place.mkdir(mode=0o700)
    return place


def _copy_config(named: str | None, place: Path) -> Path:
    """The file of settings as it is now: a worker that takes another's place has the same models and everything else,
    whatever became of the file meanwhile."""
    from belljar.config import config_file

    found = config_file(named=named)
    copy = place / ("config.toml" if found is None else f"config{found.suffix}")
    copy.touch(0o600)
    copy.write_bytes(b"" if found is None else found.read_bytes())
    return copy


class _Parent:
    def __init__(
        self,
        settings: Settings,
        args: argparse.Namespace,
        records: Records,
        doors: Sequence[socket.socket],
        place: Path,
    ) -> None:
        self._settings = settings
        self._args = args
        self._records = records
        self._doors = doors
        self._place = place
        self._config = ["--config", str(_copy_config(args.config, place))]
        self._stopping = asyncio.Event()
        self._running: set[asyncio.subprocess.Process] = set()

    async def run(self, announce: Callable[[dict[str, Any]], None]) -> None:
        from belljar.net import stopped_by_signals

        for before in await self._records.get_gateways():  # none of them lives: the directory is ours
            await self._records.leave(before.id)
        with stopped_by_signals(self._stop):
            try:
                await self._start_all(announce)
            finally:
                self._stop()
                await asyncio.gather(*(one.wait() for one in self._running))

    async def _start_all(self, announce: Callable[[dict[str, Any]], None]) -> None:
        urls = self._settings.sandbox_url
        watched: list[asyncio.Task[None]] = []
        if self._settings.code_interpreter and urls is None and self._settings.warm_pools is None:
            path = self._place / "sandbox.sock"
            flags = [*self._config, *_worker_arguments(self._args, _OF_SANDBOXES)]
            server, _ = await self._start(["sandbox", "--with-parent", "--socket", str(path), *flags])
            watched.append(asyncio.create_task(self._watch_server(server)))
            urls = (f"unix://{path}",)
            await self._wait_until_ready(urls[0], watched[0])
        started = await asyncio.gather(*(self._start_worker(n, urls) for n in range(len(self._doors))))
        watched += [asyncio.create_task(self._watch_worker(n, urls, process)) for n, (process, _) in enumerate(started)]
        announce({**started[0][1], "workers": len(started), "pid": os.getpid()})
        stopping = asyncio.create_task(self._wait_for_stop())
        try:
            await asyncio.wait({stopping, *watched}, return_when=asyncio.FIRST_COMPLETED)
            for task in watched:
                if task.done():
                    task.result()
        finally:
            for task in (stopping, *watched):
                task.cancel()
            await asyncio.wait({stopping, *watched})

    async def _wait_until_ready(self, url: str, watched: asyncio.Task[None]) -> None:
        """Until the jail has started, which takes seconds: what the banner tells of it is to be true."""
        from belljar.sandbox.remote import RemoteSource

        source = RemoteSource(url)
        try:
            while not (watched.done() or self._stopping.is_set()):
                try:
                    return await source.prepare()
                except Refused:
                    await asyncio.wait({watched}, timeout=_AGAIN)
        finally:
            await source.close()

    async def _wait_for_stop(self) -> None:
        await self._stopping.wait()

    def _stop(self) -> None:
        self._stopping.set()
        for one in self._running:
            with contextlib.suppress(ProcessLookupError):
                one.send_signal(signal.SIGTERM)

    async def _watch_server(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        if not self._stopping.is_set():
            raise OperatorError(f"the sandbox server of the workers ended with {process.returncode}; its log says why")

    async def _watch_worker(
        self, number: int, urls: tuple[str, ...] | None, process: asyncio.subprocess.Process
    ) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            await process.wait()
            if self._stopping.is_set():
                return
            _log.error("worker %d ended with %s, and is started again", number, process.returncode)
            await self._clear(number)
            if clock() - began < _QUICK:
                await asyncio.sleep(_QUICK)
            began = clock()
            process, _ = await self._start_worker(number, urls)

    async def _clear(self, number: int) -> None:
        """Nobody has to wait until its time is over: it is known to be dead."""
        for one in await self._records.get_gateways():
            if one.address == self._address(number):
                await self._records.leave(one.id)

    def _address(self, number: int) -> str:
        return f"unix:{self._place}/{number}.sock"

    async def _start_worker(
        self, number: int, urls: tuple[str, ...] | None
    ) -> tuple[asyncio.subprocess.Process, dict[str, Any]]:
        door = self._doors[number]
        flags = [*self._config, *_worker_arguments(self._args, _FLAGS)]
        for one in self._args.upstreams or ():
            flags += ["--upstream", one]
        flags += ["--no-discover"] * (self._args.discover is False) + ["--no-page"] * (self._args.page is False)
        flags += ["--port", str(door.getsockname()[1]), "--workers", "1"]
        flags += [part for url in urls or () for part in ("--sandbox-url", url)]
        worker = f"{number}:{door.fileno()}:{self._address(number)}"
        return await self._start(["serve", *flags, "--worker", worker], door.fileno())

    async def _start(
        self, command: Sequence[str], *descriptors: int
    ) -> tuple[asyncio.subprocess.Process, dict[str, Any]]:
        """A child, and what it tells once it listens."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "belljar.cli", *command, "--json",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=descriptors,
            start_new_session=True,  # Ctrl-C at the terminal is the parent's to pass on
        )  # fmt: skip
        self._running.add(process)
        if self._stopping.is_set():
            process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            status = await process.wait()
            self._running.discard(process)
            if self._stopping.is_set():
                raise asyncio.CancelledError
            raise _Failed(status)
        told: dict[str, Any] = json.loads(line)
        return process, told


class _Failed(OperatorError):
    """A child did not start; it has told why."""

    def __init__(self, status: int) -> None:
        super().__init__(f"a worker ended with {status} before it listened; what it printed says why")


def _worker_arguments(args: argparse.Namespace, flags: dict[str, str]) -> list[str]:
    found: list[str] = []
    for name, flag in flags.items():
        if (value := getattr(args, name, None)) is not None:
            found += [flag, str(value)]
    return found


@contextlib.contextmanager
def _listen(host: str, port: int, count: int) -> Iterator[list[socket.socket]]:
    """As many sockets of one address: the kernel shares connections out among them, and a worker that is replaced has
    the queue of the one before."""
    from belljar.cli.listen import listen

    with listen(host, port) as alone:  # sockets that share an address would share it with another gateway's as well
        port = alone.getsockname()[1]
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(listen(host, port, shared=True)) for _ in range(count)]
