"""Code on a sandbox server: `run`, `chat`, `doctor`, `packages` and the library, from here and from other platforms."""

import contextlib
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import ELSEWHERE, Command, Served
from tests.helpers import execute_server

START = "from belljar.cli import main\nsys.exit(main())\n"
OTHERS = """
import asyncio, aiohttp, anyio, httpx2, msgspec, multidict, openai, openai.resources.responses, packaging.requirements
import sys, urllib.request, uvicorn, websockets, yaml, yarl
import uvicorn.protocols.http.httptools_impl, uvicorn.protocols.websockets.websockets_sansio_impl
import os, select, signal
real = os.fork, os.geteuid, os.getuid, os.sysconf, select.poll, signal.SIGHUP
{no_uvloop}
"""
"""The libraries of others, which look at the platform themselves: loaded as they are here. Those for macOS and Windows
have not been run; what is shown is that nothing of ours asks for what Linux alone has."""
TOKEN = "under-the-glass"


POSIX = """
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    del sys.modules[name]
os.fork, os.geteuid, os.getuid, os.sysconf, select.poll, signal.SIGHUP = real
"""
"""What macOS has in common with Linux, put back."""


@contextlib.contextmanager
def serving(command: Command, *args: str) -> Iterator[Served]:
    with command.start("sandbox", "--json", *args) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.communicate(timeout=60)[1]
            yield Served(process, json.loads(line))
        finally:
            process.terminate()
            process.communicate(timeout=60)


@pytest.fixture(scope="module", params=["tcp", "unix"])
def server(request: pytest.FixtureRequest, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("server")
    where = ("--port", "0") if request.param == "tcp" else ("--socket", str(home / "sandbox.sock"))
    with serving(Command(home, cache), *where) as served:
        yield served


@pytest.fixture
def away(belljar: Command, server: Served) -> Command:
    """The command, told of the server by its setting."""
    belljar.environment["BELLJAR_SANDBOX_URL"] = server.url
    return belljar


def elsewhere(command: Command, platform: str, *args: str) -> subprocess.CompletedProcess[str]:
    return command(*args) if platform == "linux" else command.python(faked(platform) + START, *args)


def faked(platform: str) -> str:
    no_uvloop = 'sys.modules["uvloop"] = None' if platform == "win32" else ""
    start = OTHERS.format(no_uvloop=no_uvloop) + ELSEWHERE.format(platform=platform)
    return start + (POSIX if platform == "darwin" else "")


# -- belljar run ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "platform"), [("flag", "linux"), ("variable", "darwin"), ("file", "win32")])
def test_run_goes_there_by_flag_variable_and_file(belljar: Command, server: Served, how: str, platform: str) -> None:
    flag: tuple[str, ...] = ()
    if how == "flag":
        flag = ("--sandbox-url", server.url)
    elif how == "variable":
        belljar.environment["BELLJAR_SANDBOX_URL"] = server.url
    else:
        (belljar.directory / "belljar.toml").write_text(f"sandbox_url = {server.url!r}\n")
        belljar.environment["BELLJAR_CONFIG"] = str(belljar.directory / "belljar.toml")
    (belljar.directory / "data.csv").write_text("x\n41\n")
    code = (
        "import sys; n = int(open('data.csv').read().split()[1]); print(n); print('aside', file=sys.stderr)\n"
        "open('made.txt', 'w').write('new' * 100_000)\nn + 1"
    )
    ran = elsewhere(belljar, platform, "run", *flag, "-c", code, "--file", "data.csv", "--out", "out")
    assert (ran.returncode, ran.stdout) == (0, "41\n42\n"), ran.stderr
    assert ran.stderr == "aside\nsaved out/made.txt\n"
    assert (belljar.directory / "out/made.txt").read_text() == "new" * 100_000


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("import sys; sys.exit(7)", 7, ""),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import os; os._exit(9)", 9, "ended its own interpreter with exit code 9"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139, "crashed"),
    ],
)
def test_its_exit_codes_are_those_of_here(away: Command, code: str, status: int, said: str) -> None:
    ran = away("run", "-c", code)
    assert ran.returncode == status, ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr or "<cell 1>" in ran.stderr


def test_limits_and_packages_go_along(away: Command) -> None:
    ran = away("run", "--timeout", "0.5", "-c", "while True: pass")
    assert ran.returncode == 124
    assert "give it longer: --timeout" in ran.stderr
    assert away("run", "--memory", "128m", "-c", "x = bytearray(2 << 30)").returncode in (1, 137)
    assert "Only the standard library is there." in away("run", "--packages", "none", "-c", "import pandas").stderr
    ran = away("run", "--require", "no way", "-c", "1")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("belljar: error: --require[0]: ") or ran.stderr.startswith("belljar: error: --require")


def test_ctrl_c_interrupts_the_code_there(away: Command) -> None:
    with away.start("run", "-c", "print('on', flush=True)\nimport time; time.sleep(600)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Interrupted on request." in err


def test_ending_leaves_no_sandbox_there(away: Command, server: Served) -> None:
    with away.start("run", "-c", "print('on', flush=True)\nimport time; time.sleep(600)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "Traceback" not in err
    assert in_use(away, server) == 0


def in_use(command: Command, server: Served) -> int:
    """Sandboxes that are somebody's, once the server has had time to end them."""
    code = """if True:
        import asyncio, sys
        from belljar.sandbox.remote.http_client import SandboxServerClient
        async def main():
            client = SandboxServerClient(sys.argv[1], None)
            for _ in range(200):
                told = await client.look()
                if not told["current_load"]:
                    break
                await asyncio.sleep(0.05)
            print(told["current_load"])
            await client.close()
        asyncio.run(main())
    """
    return int(command.python(code, server.url).stdout)


# -- a server that is away, refuses, or is something else --------------------------------------------------------------


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("command", [("run", "-c", "1"), ("packages",), ("chat", "1")])
@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_server_that_is_away_is_told_in_a_line(belljar: Command, command: tuple[str, ...], kind: str) -> None:
    url = f"http://127.0.0.1:{closed_port()}" if kind == "tcp" else f"unix://{belljar.directory}/no.sock"
    ran = belljar(*command, "--sandbox-url", url)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"belljar: error: the sandbox server at {url} does not answer: ")
    assert "start it with `belljar sandbox`, or change sandbox_url" in ran.stderr
    assert ran.stderr.count("\n") == 1


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Something that is no sandbox server."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = door.accept()
                    with connection:
                        connection.recv(1 << 16)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}"
        finally:
            door.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_something_else_there_is_told(belljar: Command) -> None:
    with answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\nwhat?") as url:
        for command in (("run", "-c", "1"), ("packages",), ("chat", "1")):
            ran = belljar(*command, "--sandbox-url", url)
            assert (ran.returncode, ran.stdout) == (3, "")
            assert f"sandbox_url: what answers at {url} is no belljar sandbox (404 Not Found)" in ran.stderr


@pytest.mark.parametrize("url", ["htp://x", "127.0.0.1:8080", "http://", "unix://relative.sock", "http://u:secret@h"])
def test_what_is_no_address_is_told(belljar: Command, url: str) -> None:
    for command in (("run", "-c", "1"), ("doctor",), ("packages",), ("chat", "1")):
        ran = belljar(*command, "--sandbox-url", url)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith("belljar: error: sandbox_url: ")
        assert "secret" not in ran.stderr
        assert ran.stderr.count("\n") == 1


def test_a_token_is_sent_and_missed(belljar: Command, cache: Path, tmp_path: Path) -> None:
    keeper = Command(tmp_path, cache)
    keeper.environment["BELLJAR_SANDBOX_TOKEN"] = TOKEN
    with serving(keeper, "--port", "0") as served:
        for token, told in (("", "does not take requests without one"), ("wrong", "does not take ours")):
            belljar.environment["BELLJAR_SANDBOX_TOKEN"] = token or "none"
            if not token:
                del belljar.environment["BELLJAR_SANDBOX_TOKEN"]
            ran = belljar("run", "-c", "1", "--sandbox-url", served.url)
            assert (ran.returncode, ran.stdout) == (3, "")
            assert told in ran.stderr
            assert "set BELLJAR_SANDBOX_TOKEN to its token" in ran.stderr
        belljar.environment["BELLJAR_SANDBOX_TOKEN"] = TOKEN
        assert belljar("run", "-c", "6 * 7", "--sandbox-url", served.url).stdout == "42\n"
        code = "import sys; from belljar import Sandbox\nwith Sandbox(source=sys.argv[1]) as b: print(b.run('42').text)"
        assert belljar.python(code, served.url).stdout == "42\n"


def test_a_server_that_dies_in_the_middle(belljar: Command, cache: Path, tmp_path: Path) -> None:
    with serving(Command(tmp_path, cache), "--port", "0") as served:
        code = "print('on', flush=True)\nimport time; time.sleep(600)"
        with belljar.start("run", "-c", code, "--sandbox-url", served.url) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "on\n"
            served.process.kill()
            _, err = process.communicate(timeout=60)
    assert process.returncode == 137
    assert "Traceback" not in err
    assert f"the sandbox server at {served.url}" in err


# -- a server that has /execute alone ----------------------------------------------------------------------------------


def test_commands_take_a_server_that_has_execute_alone(belljar: Command) -> None:
    (belljar.directory / "data.csv").write_text("x\n41\n")
    code = "n = int(open('data.csv').read().split()[1]); print(n)\nopen('made.txt', 'w').write('new')\nn + 1"
    with execute_server.running() as server:
        server.token = TOKEN
        belljar.environment |= {"BELLJAR_SANDBOX_URL": server.url, "BELLJAR_SANDBOX_TOKEN": TOKEN}
        ran = belljar("run", "-c", code, "--file", "data.csv", "--out", "out")
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "41\n42\n", "saved out/made.txt\n")
        assert (belljar.directory / "out/made.txt").read_text() == "new"
        assert belljar("run", "-c", "import sys; sys.exit(7)").returncode == 7
        ran = belljar("doctor")
        assert f"ok       sandbox server  {server.url}: unknown, and no variables stay" in ran.stdout
        assert (ran.returncode, "1 + 1 = 2 in " in ran.stdout) == (0, True)
        assert {"numpy", "pandas"} <= {one["name"] for one in json.loads(belljar("packages", "--json").stdout)}
        server.token = "another"
        ran = belljar("run", "-c", "1")
        assert (ran.returncode, ran.stderr.startswith("belljar: error: sandbox_token: ")) == (3, True), ran.stderr


# -- doctor, packages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_doctor_tells_of_the_server(away: Command, server: Served, platform: str) -> None:
    ran = elsewhere(away, platform, "doctor")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert ran.stdout.startswith(f"ok       sandbox server  {server.url}: full")
    assert "Code runs on the sandbox server: started in " in ran.stdout
    assert "1 + 1 = 2 in " in ran.stdout
    ran = elsewhere(away, platform, "doctor", "--json")
    told = json.loads(ran.stdout)
    assert (told["level"], told["sandbox_url"], told["proof"]["ok"]) == ("full", server.url, True)
    assert told["checks"][0]["ok"]


def test_doctor_tells_that_it_is_away(belljar: Command) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    ran = belljar("doctor", "--sandbox-url", url)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert f"MISSING  sandbox server  the sandbox server at {url} does not answer" in ran.stdout
    ran = belljar("doctor", "--json", "--sandbox-url", url)
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["level"], told["proof"]["ok"]) == (1, "refused", False)


def test_packages_are_those_of_the_server(away: Command) -> None:
    there = elsewhere(away, "darwin", "packages", "--json")
    assert there.returncode == 0, there.stderr
    del away.environment["BELLJAR_SANDBOX_URL"]
    assert json.loads(there.stdout) == json.loads(away("packages", "--json").stdout)


# -- chat -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_chat_is_its_own_gateway(away: Command, platform: str) -> None:
    away.environment["BELLJAR_PORT"] = str(closed_port())
    away.environment["BELLJAR_DISCOVER"] = "false"
    (away.directory / "data.csv").write_text("41")
    code = "print(int(open('data.csv').read()) + 1); open('made.txt', 'w').write('new')"
    ran = elsewhere(away, platform, "chat", code, "--file", "data.csv", "--yes")
    assert ran.returncode == 0, ran.stderr
    assert "42" in ran.stdout
    assert (away.directory / "made.txt").read_text() == "new"


def test_a_gateway_says_that_it_does_not_run_on_windows(away: Command) -> None:
    for command in (("serve", "--port", "0"), ("chat", "1")):
        ran = elsewhere(away, "win32", *command)
        assert (ran.returncode, ran.stdout) == (3, "")
        assert ran.stderr.startswith("belljar: error: a gateway does not run on Windows: ")
        assert ran.stderr.count("\n") == 1


def test_chat_leaves_it_to_a_gateway_that_answers(belljar: Command) -> None:
    """By the setting; the flag is for the command itself."""
    belljar.environment["BELLJAR_SANDBOX_URL"] = away_url = f"http://127.0.0.1:{closed_port()}"
    gateway = Command(belljar.directory, Path(belljar.environment["BELLJAR_CACHE_DIR"]))
    with gateway.serve() as served:
        belljar.environment["BELLJAR_PORT"] = served.url.rpartition(":")[2]
        ran = belljar("chat", "print(6 * 7)")
        assert (ran.returncode, "42" in ran.stdout) == (0, True), ran.stderr
        ran = belljar("chat", "print(6 * 7)", "--sandbox-url", away_url)
        assert (ran.returncode, "does not answer" in ran.stderr) == (3, True)


@pytest.mark.parametrize(
    ("args", "whose"), [(("--provider", "openai"), "openai"), (("--url", "http://h/v1"), "the gateway at --url")]
)
def test_chat_says_who_decides(belljar: Command, args: tuple[str, ...], whose: str) -> None:
    ran = belljar("chat", "hi", "--sandbox-url", "http://127.0.0.1:9", *args)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"belljar: error: --sandbox-url: {whose} decides itself where code runs; leave one of them out\n"
    )


# -- the library ------------------------------------------------------------------------------------------------------

LIBRARY = """
import sys
from belljar import AsyncSandbox, Sandbox
from belljar.sandbox.remote import RemoteSource

def use(box):
    box.files.write("a.txt", "41")
    box.files.write_many([("b/c.bin", bytes(300_000)), ("d", [b"x", b"y"])])
    ran = box.run("import os; n = int(open('a.txt').read()); print('live'); open('new', 'wb').write(bytes(9)); n + 1")
    print(ran.text, ran.stdout, [file.name for file in ran.files], sorted(one.name for one in box.files.list()))
    print(len(box.files.read("b/c.bin")), b"".join(box.files.stream("d")), len(box.id) > 3)
    box.files.delete("d")
    for output in box.stream("import time\\nwhile True: print(n, flush=True); time.sleep(.01)"):
        break
    print(box.run("n").text)
    box.restart()
    print(box.run("n").error.type, box.run("len(os.listdir()) if 'os' in dir() else 'gone'").text)

async def use_async(box):
    await box.files.write("a.txt", "41")
    print((await box.run("int(open('a.txt').read()) + 1")).text)

async def main(source):
    async with AsyncSandbox(source=source) as box:
        await use_async(box)
    async with AsyncSandbox() as box:
        await use_async(box)

given = RemoteSource(sys.argv[1])
for source in (sys.argv[1], given, None):
    with Sandbox(source=source) as box:
        use(box)
with Sandbox(source=given) as box, Sandbox(source=given) as other:
    print(box.run("1").text, other.run("2").text, box.id != other.id)
import asyncio
asyncio.run(main(sys.argv[1]))

async def close():
    await main(given)
    await given.close()

asyncio.run(close())
"""


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_library_takes_an_address_and_a_source(away: Command, server: Served, platform: str) -> None:
    code = LIBRARY if platform == "linux" else faked(platform) + LIBRARY
    ran = away.python(code, server.url)
    assert ran.stderr == ""
    lines = ran.stdout.splitlines()
    one = ["42 live", " ['new'] ['a.txt', 'b/c.bin', 'd', 'new']", "300000 b'xy' True", "41", "NameError 'gone'"]
    assert lines == [*one * 3, "1 2 True", *["42"] * 4]
    assert ran.returncode == 0
    assert in_use(away, server) == 0


def test_several_threads_of_a_program(away: Command, server: Served) -> None:
    code = """if True:
        import sys
        from concurrent.futures import ThreadPoolExecutor
        from belljar import Sandbox
        from belljar.sandbox.remote import RemoteSource
        source = RemoteSource(sys.argv[1])
        def one(n):
            with Sandbox(source=source) as box:
                return box.run(f"{n} * 2").text
        with ThreadPoolExecutor(8) as pool:
            print(*pool.map(one, range(8)))
    """
    assert away.python(code, server.url).stdout == "0 2 4 6 8 10 12 14\n"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("'htp://x'", "source: 'htp://x' is not an address such as http://127.0.0.1:8080 or unix:///run/"),
        ("'http://u:secret@h'", "source: it is not an address without a name and password in it"),
        ("''", "source: '' is not an address"),
        ("7", "source: 7 is no source of sandboxes (it has no "),
    ],
)
def test_what_is_no_source_is_told(belljar: Command, source: str, told: str) -> None:
    code = f"""if True:
        import asyncio
        from belljar import AsyncSandbox, Sandbox
        from belljar.errors import InvalidRequest
        async def enter():
            async with AsyncSandbox(source={source}):
                pass
        def hold():
            with Sandbox(source={source}):
                pass
        for act in (hold, lambda: asyncio.run(enter())):
            try:
                act()
            except InvalidRequest as error:
                print(error.param, error)
    """
    ran = belljar.python(code)
    assert ran.stderr == ""
    for line in ran.stdout.splitlines():
        assert line.startswith(f"source {told}")
    assert ran.stdout.count("\n") == 2


def test_a_source_of_another_loop_is_told(away: Command, server: Served) -> None:
    code = """if True:
        import asyncio, sys
        from belljar import AsyncSandbox
        from belljar.errors import InvalidRequest
        from belljar.sandbox.remote import RemoteSource
        source = RemoteSource(sys.argv[1])
        async def use():
            async with AsyncSandbox(source=source) as box:
                print((await box.run("6 * 7")).text)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use())
        try:
            asyncio.run(use())
        except InvalidRequest as error:
            print(error)
        loop.run_until_complete(source.close())
        loop.close()
    """
    ran = away.python(code, server.url)
    first, second = ran.stdout.splitlines()
    assert (first, ran.stderr) == ("42", "")
    assert "is used by another event loop already; make one for each" in second
