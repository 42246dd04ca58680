"""`belljar sandbox`, as a process: how it starts, what it says, what it refuses, how it ends."""

import contextlib
import json
import os
import signal
import socket
import stat
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from tests import traces
from tests.cli.conftest import Command, Served
from tests.cli.test_run import descendants, is_alive

FOREVER = b'{"code": "print(1, flush=True)\\nimport time\\ntime.sleep(600)"}'


class Unix(HTTPConnection):
    """HTTP to a socket that is a file."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def connect(served: Served) -> HTTPConnection:
    url: str = served.told["url"]
    if url.startswith("unix://"):
        return Unix(Path(url.removeprefix("unix://")))
    return HTTPConnection("127.0.0.1", int(url.rpartition(":")[2]), timeout=60)


def ask(served: Served, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    with contextlib.closing(connect(served)) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")


@contextlib.contextmanager
def opened(served: Served, path: str, body: bytes) -> Iterator[HTTPResponse]:
    """An answer that goes on."""
    with contextlib.closing(connect(served)) as connection:
        connection.request("POST", path, body)
        with connection.getresponse() as answer:
            yield answer


@contextlib.contextmanager
def cell_running(served: Served) -> Iterator[HTTPResponse]:
    """A sandbox in which a cell runs that does not end."""
    with opened(served, "/v1/sandboxes", b"{}") as lease:
        id = json.loads(lease.readline())["id"]
        with opened(served, f"/v1/sandboxes/{id}/cells", FOREVER) as answer:
            assert json.loads(answer.readline())["text"] == "1\n"
            yield answer


@contextlib.contextmanager
def serve(belljar: Command, *args: str, port: bool = True) -> Iterator[Served]:
    """`belljar sandbox` on a port of its own, killed if it is still there at the end."""
    address = ("--port", "0") if port else ()
    with belljar.start("sandbox", *address, "--json", "--warm", "0", *args) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.communicate(timeout=60)[1]
            yield Served(process, json.loads(line))
        finally:
            process.kill()


def wait_until_healthy(served: Served) -> None:
    """pytest's own time limit ends a wait that is in vain."""
    while ask(served, "GET", "/health")[0] != 200:
        time.sleep(0.05)


def wait_until_refused(served: Served) -> None:
    """It takes no more connections: the first signal has arrived. One that waited to be taken is reset."""
    with contextlib.suppress(ConnectionRefusedError, ConnectionResetError):
        while True:
            ask(served, "GET", "/health")


def wait_until_gone(processes: dict[int, str]) -> None:
    while any(is_alive(pid, started) for pid, started in processes.items()):
        time.sleep(0.05)


# -- starting ---------------------------------------------------------------------------------------------------------


def test_it_serves_and_leaves_nothing_behind(belljar: Command) -> None:
    with serve(belljar, "--max-sandboxes", "3") as served:
        assert served.told.keys() == {"url", "isolation", "packages", "capacity", "warm", "token", "version", "pid"}
        assert served.told["url"].startswith("http://127.0.0.1:")
        assert served.told["isolation"].startswith("full")
        assert (served.told["capacity"], served.told["warm"], served.told["token"]) == (3, 0, False)
        wait_until_healthy(served)
        health = ask(served, "GET", "/health")[1]
        assert (health["isolation"], health["capacity"]) == (served.told["isolation"], 3)
        status, ran = ask(served, "POST", "/execute", b'{"code": "print(6 * 7)"}')
        assert (status, ran["stdout"]) == (200, "42\n")
        with opened(served, "/v1/sandboxes", b"{}") as lease:
            id = json.loads(lease.readline())["id"]
            assert ask(served, "GET", f"/v1/sandboxes/{id}") == (200, {"id": id, "alive": True})
            below = descendants(served.process.pid)
            assert below
            code, out, err = served.end(signal.SIGTERM)
            assert json.loads(lease.readline()) == {"ended": "the sandbox server is stopping"}
    assert (code, out, err) == (0, "", "")
    assert not [pid for pid, started in below.items() if is_alive(pid, started)]
    assert not traces.cgroups(served.process.pid)


def test_the_banner(belljar: Command) -> None:
    with belljar.start("sandbox", "--port", "0", "--memory", "4g") as process:
        try:
            assert process.stdout is not None
            lines = list(takewhile("Ctrl-C stops it.\n".__ne__, process.stdout))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "stopped\n")
    assert lines[0].startswith("belljar ")
    rows = {line.split()[0]: line.split(maxsplit=1)[1].rstrip() for line in lines[2:-1]}
    assert rows["API"].startswith("http://127.0.0.1:")
    assert rows["isolation"].startswith("full")
    assert rows["capacity"] == "256 sandboxes at once, 2 kept ready"
    assert rows["access"] == "this machine alone, without a token"
    assert rows["gateway"] == f"belljar serve --sandbox-url {rows['API']}"


def test_it_answers_while_the_jail_starts(belljar: Command) -> None:
    """The jail is held up until it has been asked."""
    code = """
import sys, threading
from belljar.sandbox.local.source import LocalSource
prepare, gate = LocalSource.prepare, threading.Event()
LocalSource.prepare = lambda self, spec: (gate.wait(), prepare(self, spec))
threading.Thread(target=lambda: (sys.stdin.read(), gate.set()), daemon=True).start()
from belljar.cli import main
sys.exit(main())
"""
    with belljar.script(code, "sandbox", "--port", "0", "--json") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        served = Served(process, json.loads(process.stdout.readline()))
        status, answer = ask(served, "GET", "/health")
        assert (status, answer["status"]) == (503, "starting")
        process.stdin.close()
        process.stdin = None
        wait_until_healthy(served)
        assert served.end(signal.SIGINT)[0] == 0


def test_settings_from_outside(belljar: Command) -> None:
    belljar.environment |= {"BELLJAR_SANDBOX_TOKEN": "of-the-environment", "BELLJAR_SANDBOX_PORT": "0"}
    with serve(belljar, port=False) as served:
        assert served.told["token"] is True
        assert ask(served, "GET", "/v1/sandboxes/x")[0] == 401
        assert ask(served, "GET", "/v1/sandboxes/x", Authorization="Bearer of-the-environment")[0] == 404


def test_a_token_from_a_file(belljar: Command) -> None:
    (belljar.directory / "token").write_text("of-the-file\n")
    with serve(belljar, "--host", "0.0.0.0", "--token-file", "token") as served:
        assert ask(served, "GET", "/v1/sandboxes/x")[0] == 401
        assert ask(served, "GET", "/v1/sandboxes/x", Authorization="Bearer of-the-file")[0] == 404
        _, out, err = served.end(signal.SIGTERM)
    assert "of-the-file" not in out + err + json.dumps(served.told)


def test_open_to_others_on_purpose(belljar: Command) -> None:
    with serve(belljar, "--host", "0.0.0.0", "--open") as served:
        assert ask(served, "GET", "/v1/sandboxes/x")[0] == 404


def test_a_unix_socket(belljar: Command) -> None:
    path = belljar.directory / "s.sock"
    with serve(belljar, "--socket", "s.sock", port=False) as served:
        assert served.told["url"] == f"unix://{path}"
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        wait_until_healthy(served)
        assert ask(served, "POST", "/execute", b'{"code": "1"}')[0] == 200
        ran = belljar("sandbox", "--socket", "s.sock")
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == (
            f"belljar: error: socket: {path} cannot be used (another server listens there); name another\n"
        )
        assert served.end(signal.SIGTERM)[0] == 0
    assert not path.exists()


def test_starting_loads_nothing_heavy(belljar: Command) -> None:
    heavy = ("openai", "pydantic", "pandas", "numpy", "matplotlib", "aiohttp", "cryptography", "uv")
    code = f"import sys, belljar.sandbox.server.run; print([name for name in {heavy} if name in sys.modules])"
    ran = belljar.python(code)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


# -- refusing ---------------------------------------------------------------------------------------------------------


def test_open_to_others_without_a_token(belljar: Command) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        ran = belljar("sandbox", "--host", host)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith(f"belljar: error: host: {host} is open to others, and there is no token.")
        for remedy in ("BELLJAR_SANDBOX_TOKEN", "--token-file FILE", "--host 127.0.0.1", "--open"):
            assert remedy in ran.stderr


def test_a_port_that_is_taken(belljar: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        ran = belljar("sandbox", "--port", str(door.getsockname()[1]), "--json")
    assert (ran.returncode, json.loads(ran.stdout)["output"]) == (2, "error")
    assert " is in use on 127.0.0.1; stop what listens there, or choose another: --port " in ran.stderr


def test_sockets_that_cannot_be_used(belljar: Command) -> None:
    (belljar.directory / "file").write_text("mine")
    for name, message in (
        ("none/s.sock", "(No such file or directory); make its directory, or name another\n"),
        ("file", "(there is a file that is no socket); name another\n"),
        ("x" * 120, "(AF_UNIX path too long); name another\n"),
    ):
        ran = belljar("sandbox", "--socket", name)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == f"belljar: error: socket: {belljar.directory / name} cannot be used {message}"
    assert (belljar.directory / "file").read_text() == "mine"


@pytest.mark.parametrize(("content", "message"), [(None, "cannot be read"), (" \n", "is empty"), ("a b", "is not a")])
def test_a_token_file_that_holds_none(belljar: Command, content: str | None, message: str) -> None:
    if content is not None:
        (belljar.directory / "token").write_text(content)
    ran = belljar("sandbox", "--token-file", "token")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "token" in ran.stderr
    assert message in ran.stderr
    assert "a b" not in ran.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--port", "http"], "sandbox_port: 'http' is not a whole number from 0 to 65535 (--port); "),
        (["--memory", "3g"], "argument --memory: invalid choice: '3g'"),
        (["--unsafe-no-sandbox"], "unrecognized arguments: --unsafe-no-sandbox"),
    ],
)
def test_wrong_options(belljar: Command, args: list[str], message: str) -> None:
    ran = belljar("sandbox", *args)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr


# -- stopping ---------------------------------------------------------------------------------------------------------


def test_what_runs_too_long_is_ended(belljar: Command) -> None:
    belljar.environment["BELLJAR_DRAIN"] = "0.2"
    with serve(belljar) as served, cell_running(served) as answer:
        below = descendants(served.process.pid)
        assert served.end(signal.SIGINT)[0] == 0
        assert json.loads(answer.readline())["reason"] == "lost"
    assert not [pid for pid, started in below.items() if is_alive(pid, started)]


def test_ctrl_c_twice_ends_it_at_once(belljar: Command) -> None:
    belljar.environment["BELLJAR_DRAIN"] = "1h"
    with serve(belljar) as served, cell_running(served):
        below = descendants(served.process.pid)
        served.process.send_signal(signal.SIGINT)
        wait_until_refused(served)
        assert served.end(signal.SIGINT)[0] == 130
    wait_until_gone(below)  # the jail's own watcher ends them


def test_nothing_survives_a_kill(belljar: Command) -> None:
    path = belljar.directory / "s.sock"
    with serve(belljar, "--socket", "s.sock", port=False) as served, cell_running(served):
        below = descendants(served.process.pid)
        assert below
        assert served.end(signal.SIGKILL)[0] == -signal.SIGKILL
        wait_until_gone(below)
        while traces.cgroups(served.process.pid):
            time.sleep(0.05)
        assert path.exists()
        with serve(belljar, "--socket", "s.sock", port=False) as again:
            wait_until_healthy(again)
            assert again.end(signal.SIGTERM)[0] == 0
    assert not path.exists()
