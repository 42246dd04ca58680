"""Measure what one container, response and file cost a gateway over PostgreSQL: bytes of rows, memory, processor time.

`.venv/bin/python bench/capacity.py`. The figures are for the capacity model in docs/operations.md; there are no bars.
It starts a PostgreSQL of its own, in a temporary directory, and a gateway with the jail of this host.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import asyncpg
from tests.helpers import postgres

_SIZES = """
SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'belljar' AND c.relkind = 'r'
"""
_TICK = 1e6 / os.sysconf("SC_CLK_TCK")


class Gateway:
    """One over a database of its own, and what it uses."""

    def __init__(self, address: str, home: str) -> None:
        self._address = address
        program = str(Path(sys.executable).with_name("belljar"))
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--json", "--packages", "none", "--no-discover", "--state-dir", home],
            env={**os.environ, "BELLJAR_DATABASE": address},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        self._proc = Path(f"/proc/{told['pid']}")
        self._connection = http.client.HTTPConnection("127.0.0.1", int(told["url"].rsplit(":", 1)[1]))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = self._connection.getresponse()
        told: dict[str, Any] = json.loads(answer.read())
        assert answer.status == 200, told
        return told

    def run(self, code: str, container: object) -> None:
        tools = [{"type": "code_interpreter", "container": container}]
        self.post("/v1/responses", {"model": "belljar", "tools": tools, "input": code})

    def memory(self) -> int:
        """Bytes that are resident."""
        return int(re.findall(r"VmRSS:\s+(\d+)", (self._proc / "status").read_text())[0]) * 1024

    def cpu(self) -> float:
        """Microseconds of its own process."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK

    def stored(self) -> int:
        """Bytes of all tables with their indexes, without what is dead in them."""

        async def ask() -> int:
            connection = await asyncpg.connect(self._address)
            await connection.execute("VACUUM FULL")
            found = int(await connection.fetchval(_SIZES))
            await connection.close()
            return found

        return asyncio.run(ask())


def measure(gateway: Gateway, what: str, count: int, act: Callable[[int], object]) -> None:
    stored, memory, cpu = gateway.stored(), gateway.memory(), gateway.cpu()
    for number in range(count):
        act(number)
    cpu, memory, stored = gateway.cpu() - cpu, gateway.memory() - memory, gateway.stored() - stored
    print(
        f"{what:<44} {stored / count:8,.0f} bytes of rows  {memory / count:8,.0f} bytes of memory  "
        f"{cpu / count:8,.0f} us of the gateway"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/capacity.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="of each (1000)")
    count = parser.parse_args().count
    with postgres.running() as server, tempfile.TemporaryDirectory() as home:
        gateway = Gateway(server.address(asyncio.run(server.make_database())), home)
        try:
            for number in range(50):  # what grows once
                gateway.post("/v1/responses", {"model": "belljar", "input": f"hi {number}"})
            print(f"{'a gateway that has answered 50 requests':<44} {gateway.memory() / 1e6:8,.0f} MB of memory")
            measure(
                gateway, "a container without files", count, lambda n: gateway.post("/v1/containers", {"name": f"c{n}"})
            )
            plain = {"model": "belljar", "input": "hello there, how are you?"}
            measure(gateway, "a plain response", count, lambda n: gateway.post("/v1/responses", plain))
            one = gateway.post("/v1/containers", {"name": "one"})["id"]
            measure(gateway, "a response with a cell", count // 5, lambda n: gateway.run(f"print({n})", one))
            measure(
                gateway,
                "one that also leaves a file of 100 bytes",
                count // 5,
                lambda n: gateway.run(f"open('{n}.txt', 'w').write('x' * 100)", one),
            )
            measure(
                gateway,
                "a new container with a sandbox that is kept",
                min(count // 20, 50),
                lambda n: gateway.run("print(1)", {"type": "auto"}),
            )
        finally:
            gateway.process.terminate()
            gateway.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
