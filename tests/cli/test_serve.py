"""`belljar serve`, as a process: how it starts, what it says, what it refuses, how it ends."""

import json
import signal
import socket
import time
from collections.abc import Iterator
from itertools import takewhile

import pytest
from tests import traces
from tests.cli.conftest import Command, Served
from tests.cli.test_run import descendants, is_alive
from tests.helpers.ports import unused_port

FOREVER = "```python\nimport time\ntime.sleep(600)\n```"


def until(served: Served, path: str, status: int) -> None:
    """Ask until it answers so; pytest's own time limit ends a wait that is in vain."""
    while served.ask(path)[0] != status:
        time.sleep(0.05)


def wait_for(word: str, lines: Iterator[str]) -> None:
    assert any(word in line for line in lines)


def wait_until_refused(served: Served) -> None:
    """It takes no more connections: the first signal has arrived."""
    while True:
        try:
            served.ask("/healthz")
        except OSError:
            return
        time.sleep(0.05)


def asking(code: str, **further: object) -> bytes:
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    return json.dumps({"model": "belljar", "input": code, "tools": tools, **further}).encode()


# -- starting --------------------------------------------------------------------------------------------------------


def test_it_serves_and_leaves_nothing_behind(belljar: Command) -> None:
    with belljar.serve() as served:
        assert served.told.keys() == {
            "url", "page", "models", "troubles", "nobody_at", "isolation", "packages", "keys", "state_dir", "database",
            "version", "pid",
        }  # fmt: skip
        assert served.told["url"].startswith("http://127.0.0.1:")
        assert served.told["page"] == f"{served.url}/"
        assert served.told["models"] == {"belljar": ["belljar"]}
        assert served.told["isolation"].startswith("full")
        assert served.told["keys"] is None
        assert served.told["state_dir"] == str(belljar.directory / "state")
        assert served.told["pid"] == served.process.pid
        assert served.ask("/healthz") == (200, {"status": "ok"})
        until(served, "/readyz", 200)
        assert served.ask("/v1/models")[1]["data"][0]["id"] == "belljar"
        below = descendants(served.process.pid)
        assert below
        code, out, _ = served.end(signal.SIGTERM)
    assert (code, out) == (0, "")
    assert not [pid for pid, started in below.items() if is_alive(pid, started)]
    assert not traces.cgroups(served.process.pid)


def test_the_banner(belljar: Command) -> None:
    state = belljar.directory / "state"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        silent = f"silent=http://127.0.0.1:{taken.getsockname()[1]}/v1"
    options = ("--port", "0", "--no-discover", "--state-dir", str(state), "--no-page", "--upstream", silent)
    with belljar.start("serve", *options) as process:
        try:
            assert process.stdout is not None
            lines = list(takewhile("Ctrl-C stops it.\n".__ne__, process.stdout))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err
    assert err.endswith("stopped\n")
    assert lines[0].startswith("belljar ")
    rows = {line.split()[0]: line.split(maxsplit=1)[1].rstrip() for line in lines[2:-1]}
    assert rows["API"].startswith("http://127.0.0.1:")
    assert rows["API"].endswith("/v1")
    assert rows["models"] == "belljar: belljar"
    assert rows["silent"].startswith("at http://127.0.0.1:")
    assert rows["silent"].endswith("cannot be reached: connection refused; is it running, and is base_url right?")
    assert rows["isolation"].startswith("full")
    assert rows["keys"] == "none needed on this machine"
    assert rows["data"] == str(state)
    assert "page" not in rows


def test_not_ready_while_the_jail_starts(belljar: Command) -> None:
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
    belljar.environment["BELLJAR_STATE_DIR"] = str(belljar.directory / "state")
    with belljar.script(code, "serve", "--port", "0", "--json", "--no-discover") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        served = Served(process, json.loads(process.stdout.readline()))
        assert served.ask("/healthz")[0] == 200
        assert served.ask("/readyz") == (503, {"status": "not ready", "problems": ["the sandbox is starting"]})
        process.stdin.close()
        process.stdin = None
        until(served, "/readyz", 200)
        assert served.end(signal.SIGINT)[0] == 0


def test_it_is_not_ready_on_a_full_disk(belljar: Command) -> None:
    code = """
import os, sys
statvfs = os.statvfs
os.statvfs = lambda path: os.statvfs_result((*statvfs(path)[:4], 0, *statvfs(path)[5:]))
from belljar.cli import main
sys.exit(main())
"""
    belljar.environment |= {
        "BELLJAR_STATE_DIR": str(belljar.directory / "state"), "BELLJAR_CODE_INTERPRETER": "false"
    }  # fmt: skip
    with belljar.script(code, "serve", "--port", "0", "--json", "--no-discover") as process:
        assert process.stdout is not None
        served = Served(process, json.loads(process.stdout.readline()))
        why = "the disk of its state is full; free some space there, or move it to a larger disk"
        assert served.ask("/readyz") == (503, {"status": "not ready", "problems": [why]})
        assert served.ask("/healthz")[0] == 200
        assert served.end(signal.SIGINT)[0] == 0


def test_upstreams_are_told_even_if_they_do_not_answer(belljar: Command) -> None:
    with unused_port() as port, belljar.serve("--upstream", f"mine=http://127.0.0.1:{port}/v1") as served:
        assert served.told["models"] == {"belljar": ["belljar"], "mine": []}


def test_without_the_code_interpreter_no_jail_starts(belljar: Command) -> None:
    belljar.environment["BELLJAR_CODE_INTERPRETER"] = "false"
    with belljar.serve() as served:
        assert served.told["isolation"] == "none needed: the code interpreter is off"
        until(served, "/readyz", 200)
        assert not descendants(served.process.pid)
        assert served.end(signal.SIGTERM)[0] == 0


def test_what_was_stored_is_there_after_a_restart(belljar: Command) -> None:
    body = (
        b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n1,2\n\r\n--x--\r\n'
    )
    with belljar.serve() as served:
        status, file = served.ask("/v1/files", body, Content_Type="multipart/form-data; boundary=x")
        assert status == 200
        served.end(signal.SIGTERM)
    with belljar.serve() as served:
        assert served.ask(f"/v1/files/{file['id']}") == (200, file)


def test_the_log_as_json(belljar: Command) -> None:
    with belljar.serve("--log-format", "json") as served:
        served.ask("/v1/models")
        _, _, err = served.end(signal.SIGTERM)
    lines = [json.loads(line) for line in err.splitlines()]
    assert [line["route"] for line in lines if line["logger"] == "belljar.requests"] == ["/v1/models"]


def test_starting_loads_nothing_heavy(belljar: Command) -> None:
    heavy = ("openai", "pydantic", "pandas", "numpy", "matplotlib", "fastapi", "starlette", "cryptography", "uv")
    code = f"import sys, belljar.gateway.app; print([name for name in {heavy} if name in sys.modules])"
    ran = belljar.python(code)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


# -- refusing --------------------------------------------------------------------------------------------------------


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield door.getsockname()[1]


def test_a_port_that_is_taken(belljar: Command, taken: int) -> None:
    ran = belljar("serve", "--port", str(taken))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"belljar: error: port: {taken} is in use on 127.0.0.1; stop what listens there, or choose another: "
        f"--port {taken + 1 if taken < 65535 else 0}\n"
    )
    ran = belljar("serve", "--port", str(taken), "--json")
    assert (ran.returncode, json.loads(ran.stdout)["output"]) == (2, "error")


@pytest.mark.parametrize("host", ["a..b", "203.0.113.1"])
def test_an_address_that_is_not_ours(belljar: Command, host: str) -> None:
    ran = belljar("serve", "--host", host)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"belljar: error: host: {host!r} is not an address of this machine (")
    assert ran.stderr.endswith("; use 127.0.0.1, or 0.0.0.0 for all\n")


def test_open_to_others_without_a_key(belljar: Command) -> None:
    state = str(belljar.directory / "state")
    for _ in range(2):
        ran = belljar("serve", "--host", "0.0.0.0", "--port", "0", "--state-dir", state)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == (
            "belljar: error: host: 0.0.0.0 is open to others, and there is no key. "
            "Make one: belljar keys add NAME; or listen to this machine only: --host 127.0.0.1\n"
        )
        made = json.loads(belljar("keys", "add", "laptop", "--json", "--state-dir", state).stdout)
        belljar("keys", "revoke", made["id"], "--state-dir", state)


def test_open_to_others_with_a_key(belljar: Command) -> None:
    belljar.environment["BELLJAR_STATE_DIR"] = str(belljar.directory / "state")
    made = json.loads(belljar("keys", "add", "laptop", "--json").stdout)
    with belljar.serve("--host", "0.0.0.0") as served:
        assert served.told["keys"] == 1
        port = served.url.rpartition(":")[2]
        served = Served(served.process, {"url": f"http://127.0.0.1:{port}"})
        assert served.ask("/healthz")[0] == 200
        assert served.ask("/v1/models")[0] == 401
        assert served.ask("/v1/models", Authorization="Bearer none")[0] == 401
        assert served.ask("/v1/models", Authorization=f"Bearer {made['key']}")[0] == 200
        belljar("keys", "revoke", made["id"])
        while served.ask("/v1/models", Authorization=f"Bearer {made['key']}")[0] == 200:
            time.sleep(0.05)
        assert served.ask("/v1/models")[0] == 401


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--port", "http"], "port: 'http' is not a whole number from 0 to 65535 (--port); change it or leave it out"),
        (["--upstream", "gpu"], "upstreams: 'gpu' is not an address such as http://127.0.0.1:8000/v1 (--upstream); "),
        (["--isolation", "some"], "isolation: 'some' is not one of per_container, per_call (--isolation); "),
        (["--unsafe-no-sandbox"], "unrecognized arguments: --unsafe-no-sandbox"),
    ],
)
def test_wrong_options(belljar: Command, args: list[str], message: str) -> None:
    ran = belljar("serve", *args)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr


def test_a_state_that_cannot_be_used(belljar: Command) -> None:
    place = belljar.directory / "state"
    place.write_text("not a directory")
    ran = belljar("serve", "--port", "0", "--state-dir", str(place))
    assert (ran.returncode, ran.stdout) == (3, "")
    assert str(place) in ran.stderr
    assert "Traceback" not in ran.stderr


# -- running and stopping --------------------------------------------------------------------------------------------


def test_code_runs(belljar: Command) -> None:
    with belljar.serve() as served:
        code = "```python\nprint(6 * 7)\n```"
        status, answer = served.ask("/v1/responses", asking(code, include=["code_interpreter_call.outputs"]))
        assert (status, answer["status"]) == (200, "completed")
        call = next(item for item in answer["output"] if item["type"] == "code_interpreter_call")
        assert call["outputs"] == [{"type": "logs", "logs": "42\n"}]


def test_what_runs_may_finish(belljar: Command) -> None:
    """Told to stop in the middle of a response, it takes no new connection and finishes the response."""
    code = "```python\nimport time\nprint('up', flush=True)\ntime.sleep(1)\nprint('done')\n```"
    with belljar.serve() as served:
        until(served, "/readyz", 200)
        with served.stream("/v1/responses", asking(code, stream=True)) as lines:
            wait_for("code_interpreter_call.interpreting", lines)
            served.process.send_signal(signal.SIGTERM)
            told = "".join(lines)
        assert "response.completed" in told
        assert served.process.wait(60) == 0
    with pytest.raises(OSError, match="refused"):
        served.ask("/healthz")


def test_what_runs_too_long_is_ended(belljar: Command) -> None:
    belljar.environment["BELLJAR_DRAIN"] = "1"
    with belljar.serve() as served:
        until(served, "/readyz", 200)
        with served.stream("/v1/responses", asking(FOREVER, stream=True)) as lines:
            wait_for("code_interpreter_call.interpreting", lines)
            below = descendants(served.process.pid)
            assert served.end(signal.SIGTERM)[0] == 0
    assert not [pid for pid, started in below.items() if is_alive(pid, started)]


def test_ctrl_c_twice_ends_it_at_once(belljar: Command) -> None:
    belljar.environment["BELLJAR_DRAIN"] = "1h"
    with belljar.serve() as served:
        until(served, "/readyz", 200)
        with served.stream("/v1/responses", asking(FOREVER, stream=True)) as lines:
            wait_for("code_interpreter_call.interpreting", lines)
            below = descendants(served.process.pid)
            served.process.send_signal(signal.SIGINT)
            wait_until_refused(served)
            assert served.end(signal.SIGINT)[0] == 130
    while any(is_alive(pid, started) for pid, started in below.items()):  # the jail's own watcher ends them
        time.sleep(0.05)
