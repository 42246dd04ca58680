"""`POST /execute`: what is asked is read strictly, runs in a fresh sandbox of the real jail, and comes back folded."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import InvalidRequest, Lost, NoneFree, Refused, TooLarge
from belljar.sandbox.base import MIB, TIERS, Attached, Sandbox, SandboxHandle, SandboxSource, Spec
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.outputs import Display, Error, Exit, Result, Stderr, Stdout, fold
from belljar.sandbox.packages import LayerPolicy
from belljar.sandbox.server.execute import (
    LARGEST_BODY,
    LARGEST_PRODUCED,
    Execution,
    decode_execution,
    encode_run,
    execute,
    name_figures,
)
from belljar.sandbox.validation import make_spec

Post: TypeAlias = Callable[..., tuple[int, dict[str, Any]]]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def body(**fields: object) -> bytes:
    return json.dumps({"code": "pass", **fields}).encode()


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ({}, Execution("pass")),
        ({"timeout_seconds": 0}, Execution("pass", 30)),
        ({"timeout_seconds": -5}, Execution("pass", 30)),
        ({"timeout_seconds": None, "requirements": None, "files": None, "memory": None}, Execution("pass")),
        ({"memory": "1g"}, Execution("pass", memory="1g")),
        ({"memory": "64g"}, Execution("pass", memory="64g")),
        ({"timeout_seconds": 3600}, Execution("pass", 3600)),
        ({"requirements": ["humanize"], "unknown": 1}, Execution("pass", requirements=("humanize",))),
        ({"files": {"a.txt": b64(b"hello")}}, Execution("pass", files={"a.txt": b"hello"})),
        ({"files": {"a.txt": "aGVs\r\nbG8=\n", "e": ""}}, Execution("pass", files={"a.txt": b"hello", "e": b""})),
        ({"files": {"../../etc/passwd": "", "/a/b/": ""}}, Execution("pass", files={"passwd": b"", "b": b""})),
        ({"files": {"donn\xe9es \udce9.csv": ""}}, Execution("pass", files={"donn\xe9es \udce9.csv": b""})),
        ({"code": " \n"}, Execution(" \n")),
    ],
)
def test_what_is_asked(told: dict[str, object], read: Execution) -> None:
    assert decode_execution(body(**told)) == read


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (b"", "invalid request: the body is not JSON"),
        (b"{", "invalid request: the body is not JSON"),
        (b"\xff\xfe{", "invalid request: the body is not JSON"),
        (b'{"code": "\xff"}', "invalid request: the body is not JSON"),
        (b"[" * 100_000, "invalid request: the body is nested too deeply"),
        (b'{"timeout_seconds": ' + b"9" * 5000 + b"}", "invalid request: the body is not JSON"),
        (b'["code"]', "invalid request: the body is not a JSON object"),
        (b"null", "invalid request: the body is not a JSON object"),
        (b"{}", "code is required"),
        (body(code=""), "code is required"),
        (body(code=None), "code is required"),
        (body(code=1), "invalid request: code: not a text"),
        (body(code=["print(1)"]), "invalid request: code: not a text"),
        (body(timeout_seconds="5"), "invalid request: timeout_seconds: not a whole number"),
        (body(timeout_seconds=1.5), "invalid request: timeout_seconds: not a whole number"),
        (body(timeout_seconds=True), "invalid request: timeout_seconds: not a whole number"),
        (body(timeout_seconds=3601), "invalid request: timeout_seconds: 3601 is too long; 3600 are the most"),
        (body(timeout_seconds=10**100), "invalid request: timeout_seconds: 10000000000000000000 is too long"),
        (body(memory="2g"), "invalid request: memory: '2g' is not one of 1g, 4g, 16g, 64g"),
        (body(memory=""), "invalid request: memory: '' is not one of 1g, 4g, 16g, 64g"),
        (body(memory="4G" * 100), "invalid request: memory: '4G4G4G4G4G4G4G4G4G4G' is not one of 1g, 4g, 16g, 64g"),
        (body(memory=4), "invalid request: memory: not one of 1g, 4g, 16g, 64g"),
        (body(memory=["4g"]), "invalid request: memory: not one of 1g, 4g, 16g, 64g"),
        (body(requirements="numpy"), "invalid request: requirements: not a list of texts"),
        (body(requirements=[1]), "invalid request: requirements: not a list of texts"),
        (body(files=[]), "invalid request: files: not an object of names and base64"),
        (body(files={"a": 1}), "invalid request: files: 'a' is not a text of base64"),
        (body(files={"a": None}), "invalid request: files: 'a' is not a text of base64"),
        (body(files={"a.txt": "?"}), "failed to decode file a.txt: "),
        (body(files={"a.txt": "abc"}), "failed to decode file a.txt: Incorrect padding"),
        (body(files={"a.txt": "é"}), "failed to decode file a.txt: it has characters that base64 has not"),
        (body(files={"": ""}), "invalid request: files: '' is not the name of a file"),
        (body(files={"//": ""}), "invalid request: files: '//' is not the name of a file"),
        (body(files={"a/..": ""}), "invalid request: files: 'a/..' is not the name of a file"),
        (body(files={"a\0b": ""}), "invalid request: files: 'a\\x00b' is not the name of a file"),
        (body(files={"\ud800": ""}), "invalid request: files: '\\ud800' is not the name of a file"),
        (body(files={"é" * 128: ""}), "invalid request: files: "),
        (body(files={"a/x": "", "b/x": ""}), "invalid request: files: two of them are named 'x'"),
    ],
)
def test_what_cannot_be_read_says_why(told: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_execution(told)
    assert str(caught.value).startswith(said)


def test_a_body_has_a_most() -> None:
    most = body(files={"f": ""})
    padded = most[:-1] + b" " * (LARGEST_BODY - len(most)) + b"}"
    assert len(padded) == LARGEST_BODY
    assert decode_execution(padded).files == {"f": b""}
    with pytest.raises(TooLarge, match=f"{LARGEST_BODY + 1} bytes; {LARGEST_BODY} are the most"):
        decode_execution(padded + b" ")
    with pytest.raises(TooLarge, match="code: "):
        decode_execution(body(code="#" * (8 * MIB + 1)))


@given(st.binary(max_size=200) | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_whatever_comes_is_read_or_refused(told: object) -> None:
    everywhere = dict.fromkeys(("code", "timeout_seconds", "memory", "requirements", "files"), told)
    sent = told if isinstance(told, bytes) else body(**everywhere)
    try:
        read = decode_execution(sent)
    except InvalidRequest:
        return
    assert read.code
    assert 0 < read.timeout <= 3600


# -- telling -----------------------------------------------------------------------------------------------------------

ERROR = Error("ValueError", "no", "Traceback (most recent call last):\nValueError: no\n")


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (Exit("ok"), 0),
        (Exit("ok", code=0), 0),
        (Exit("raised", error=ERROR), 1),
        (Exit("raised", code=3), 3),
        (Exit("raised", code=256), 0),
        (Exit("raised", code=-1), 255),
        (Exit("timed_out"), -1),
        (Exit("killed", reason="memory"), -1),
        (Exit("killed", reason="crashed", code=-11), -1),
        (Exit("killed", reason="exited", code=7), 7),
    ],
)
def test_exit_codes(end: Exit, code: int) -> None:
    assert end.exit_code == code
    told = encode_run(fold([end]), {}, [], timeout=1)
    assert told["status"] == ("success" if code == 0 else "error")


@pytest.mark.parametrize(
    ("written", "end", "stderr"),
    [
        ("", Exit("ok"), ""),
        ("warned", Exit("ok"), "warned"),
        ("warned", Exit("raised", error=ERROR), f"warned\n{ERROR.traceback}"),
        ("warned\n", Exit("raised", error=ERROR), f"warned\n{ERROR.traceback}"),
        ("", Exit("raised", hint="Try less.", error=ERROR), f"{ERROR.traceback}Try less."),
        ("bye\n", Exit("raised", hint="It left.", code=1, error=Error("SystemExit", "bye", "x")), "bye\n"),
        ("", Exit("timed_out", "Stopped."), "execution timed out after 7 seconds"),
        ("warned", Exit("timed_out", "Stopped."), "warned"),
        ("warned", Exit("killed", "Killed.", reason="memory"), "warned\nKilled."),
    ],
)
def test_standard_error_ends_with_the_end(written: str, end: Exit, stderr: str) -> None:
    assert encode_run(fold([Stderr(written), end]), {}, [], timeout=7)["stderr"] == stderr


def test_an_answer_has_what_there_is_and_no_more() -> None:
    plain = encode_run(fold([Stdout("a"), Stdout("b"), Exit("ok", seconds=1.2346)]), {}, [], timeout=1)
    assert plain == {"status": "success", "stdout": "ab", "stderr": "", "exit_code": 0, "execution_time_ms": 1235}
    full = encode_run(fold([Result({"text/plain": "''"}), Exit("ok")]), {"a": b"1"}, ["b", "c"], timeout=1)
    assert full["result"] == "''"
    assert full["files_produced"] == {"a": b64(b"1")}
    assert full["stderr"] == "files that do not fit the answer's 32 MiB: 'b', 'c'\n"


def test_figures_take_names_that_are_free() -> None:
    shown = [Display({"image/png": bytes([n])}) for n in range(3)]
    run = fold([*shown, Display({"text/plain": "x"}), Result({"image/png": b"r"}), Exit("ok")])
    names = ["figure-1.png", "figure-3.png", "figure-4.png", "figure-6.png"]
    assert list(name_figures(run, {"figure-2.png", "figure-5.png"})) == names


# -- the real thing ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of wheels, which has one."""
    directory = tmp_path_factory.mktemp("wheels")
    with zipfile.ZipFile(directory / "present-1.0-py3-none-any.whl", "w") as archive:
        info = "present-1.0.dist-info"
        archive.writestr("present.py", "answer = 42\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: present\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"present.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return directory


@pytest.fixture(scope="module")
def source(runner: asyncio.Runner, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSource]:
    policy = LayerPolicy(find_links=(str(wheels),), offline=True)
    made = LocalSource(JailOptions(cache=tmp_path_factory.mktemp("cache"), most=3, layers=policy))
    yield made
    runner.run(made.close())


async def alive(source: LocalSource, count: int) -> None:
    """Wait until so many sandboxes are in use."""
    deadline = time.monotonic() + 30
    while source.in_use < count:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


@pytest.fixture
def post(runner: asyncio.Runner, source: LocalSource) -> Post:
    def send(code: str, **fields: object) -> tuple[int, dict[str, Any]]:
        status, answer = runner.run(execute(source, body(code=code, **fields)))
        return status, json.loads(json.dumps(answer))

    return send


def test_code_runs_and_tells_what_it_wrote(post: Post) -> None:
    status, answer = post("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    taken = answer.pop("execution_time_ms")
    assert (status, answer) == (
        200,
        {"status": "success", "stdout": "out\n", "stderr": "err\n", "exit_code": 0, "result": "42"},
    )
    assert isinstance(taken, int)


def test_code_that_raises_ends_with_its_traceback(post: Post) -> None:
    _, answer = post("def f(): 1 / 0\nprint('so far')\nf()")
    assert (answer["status"], answer["exit_code"], answer["stdout"]) == ("error", 1, "so far\n")
    assert answer["stderr"].startswith("Traceback (most recent call last):\n")
    assert 'File "<cell 1>", line 3' in answer["stderr"]
    assert answer["stderr"].endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        ("raise SystemExit(3)", 3),
        ("import sys; sys.exit('bye')", 1),
        ("import sys; sys.exit()", 0),
        ("import os; os._exit(4)", 4),
        ("import os; os.abort()", -1),
        ("x = (", 1),
        ("'\ud800'", 1),
    ],
)
def test_code_that_ends_itself(post: Post, code: str, ends: int) -> None:
    status, answer = post(code)
    assert (status, answer["exit_code"]) == (200, ends)
    assert ("Traceback" in answer["stderr"]) is False


def test_files_go_in_and_come_out(post: Post) -> None:
    code = """
import os, pathlib
assert os.getcwd() == os.environ['OUTPUT_DIR'] == '/mnt/data'
data = pathlib.Path('données.csv').read_bytes()
pathlib.Path('sub').mkdir()
pathlib.Path('sub/upper \U0001f600.csv').write_bytes(data.upper())
open(b'caf\\xe9.bin', 'wb').write(bytes(range(256)))
open('changed.txt', 'a').write('!')
sorted(os.listdir('.'))
"""
    given = {"in/données.csv": b64(b"a,b\n"), "changed.txt": b64(b"now"), "left.txt": b64(b"alone")}
    status, answer = post(code, files=given)
    assert (status, answer["status"]) == (200, "success"), answer
    assert {name: base64.b64decode(data) for name, data in answer["files_produced"].items()} == {
        "sub/upper \U0001f600.csv": b"A,B\n",
        "caf\udce9.bin": bytes(range(256)),
        "changed.txt": b"now!",
    }


def test_figures_that_are_shown_are_files(post: Post) -> None:
    code = "import matplotlib.pyplot as plt\nfor n in range(2):\n    plt.figure(); plt.plot([n, 1])\n"
    _, answer = post(code, files={"figure-1.png": b64(b"mine")})
    assert list(answer["files_produced"]) == ["figure-2.png", "figure-3.png"]
    assert base64.b64decode(answer["files_produced"]["figure-2.png"]).startswith(b"\x89PNG")


def test_files_beyond_the_most_are_named(post: Post) -> None:
    half = LARGEST_PRODUCED // 2
    code = f"for n in range(3):\n    open(f'{{n}}.bin', 'wb').write(bytes({half}))\nopen('last', 'w').close()"
    _, answer = post(code)
    assert (answer["exit_code"], list(answer["files_produced"])) == (0, ["0.bin", "1.bin", "last"])
    assert answer["stderr"] == "files that do not fit the answer's 32 MiB: '2.bin'\n"


def test_long_output_is_cut_and_whole_in_a_file(post: Post) -> None:
    _, answer = post("print('x' * 12_000_000)")
    assert (answer["exit_code"], len(answer["stdout"])) == (0, 10 * MIB)
    assert "output cut at 10 MiB" in answer["stderr"]
    assert len(base64.b64decode(answer["files_produced"]["output-1.log"])) == 12_000_001


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('begun', flush=True)\nwhile True: pass", "execution timed out after 1 seconds"),
        ("import sys, time\nprint('begun', flush=True); print('mine', file=sys.stderr)\ntime.sleep(60)", "mine\n"),
        (
            "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun', flush=True)\n"
            "while True:\n    try: time.sleep(60)\n    except BaseException: pass",
            "execution timed out after 1 seconds",
        ),
    ],
)
def test_a_deadline_holds(post: Post, code: str, said: str) -> None:
    status, answer = post(f"open('made', 'w').close()\n{code}", timeout_seconds=1)
    assert (status, answer["status"], answer["exit_code"]) == (200, "error", -1)
    assert (answer["stdout"], answer["stderr"]) == ("begun\n", said)
    assert list(answer["files_produced"]) == ["made"]
    assert answer["execution_time_ms"] >= 1000


def test_too_much_memory_is_told(post: Post) -> None:
    status, answer = post("x = bytearray(3 << 30)\nfor n in range(0, len(x), 4096): x[n] = 1")
    assert (status, answer["status"]) == (200, "error")
    assert answer["exit_code"] in (-1, 1)  # killed, or a MemoryError, as the host keeps the limit
    assert "emory" in answer["stderr"]


class Asked(Exception):
    """Carries what a source was asked for."""


class Asking:
    """A source that tells what it is asked for."""

    def acquire(
        self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0, container: str | None = None
    ) -> AbstractAsyncContextManager[Sandbox]:
        raise Asked(spec)

    def attach(self, handle: SandboxHandle, epoch: int) -> AbstractAsyncContextManager[Attached]:
        raise AssertionError("nobody asks for it")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("memory", [None, *TIERS])
def test_a_sandbox_of_that_size_which_is_kept_ready_will_do(memory: str | None) -> None:
    with pytest.raises(Asked) as caught:
        asyncio.run(execute(Asking(), body(memory=memory)))
    (spec,) = caught.value.args
    usual = make_spec(memory=memory or "1g")
    same = {"timeout": usual.limits.timeout, "output": usual.limits.output, "grace": usual.limits.grace}
    assert replace(spec, limits=replace(spec.limits, **same)) == usual


def test_more_memory_is_there_for_those_who_ask(post: Post) -> None:
    code = "x = bytearray(5 << 28)\nfor n in range(0, len(x), 4096): x[n] = 1\nlen(x)"
    (_, little), (_, much) = post(code), post(code, memory="4g")
    assert (little["status"], much["status"], much.get("result")) == ("error", "success", f"{5 << 28}")


def test_packages_come_before_the_code(post: Post) -> None:
    _, answer = post("import present; present.answer", requirements=["present"])
    assert (answer["exit_code"], answer.get("result")) == (0, "42"), answer


@pytest.mark.parametrize("wanted", ["no-such-package-here", "present==9", "../evil", "git+https://x/y", "", "\ud800"])
def test_packages_that_cannot_be_had(post: Post, wanted: str) -> None:
    status, answer = post("print('ran')", requirements=[wanted])
    assert (status, answer["status"], answer["exit_code"], answer["stdout"]) == (200, "error", -1, "")
    assert answer["stderr"].startswith("package installation failed: requirements")


def test_nothing_is_kept(post: Post, source: LocalSource) -> None:
    _, first = post("x = 1\nopen('left', 'w').close()\nopen('/tmp/left', 'w').close()")
    _, then = post(
        "import os\nprint('x' in globals(), os.listdir('.'), 'left' in os.listdir('/tmp'), os.getuid() != 0)"
    )
    assert (first["exit_code"], then["stdout"]) == (0, "False [] False True\n")
    assert source.in_use == 0


def test_several_run_at_once_and_one_too_many_is_told(runner: asyncio.Runner, source: LocalSource) -> None:
    """As many as there may be are kept running until the one too many has been answered."""

    async def main() -> None:
        waiting = [
            asyncio.create_task(execute(source, body(code="import time; time.sleep(60)", timeout_seconds=3)))
            for _ in range(3)
        ]
        await alive(source, 3)
        assert await execute(source, body()) == (429, {"error": "at capacity (4/3 concurrent executions)"})
        assert [(status, answer["exit_code"]) for status, answer in await asyncio.gather(*waiting)] == [(200, -1)] * 3

    runner.run(main())


def test_a_caller_that_leaves_takes_the_sandbox_along(runner: asyncio.Runner, source: LocalSource) -> None:
    async def main() -> None:
        task = asyncio.create_task(execute(source, body(code="import time; time.sleep(60)")))
        await alive(source, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert source.in_use == 0

    runner.run(main())


class Failing:
    """A source that has nothing but an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def acquire(
        self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0, container: str | None = None
    ) -> AbstractAsyncContextManager[Sandbox]:
        raise self._error

    def attach(self, handle: SandboxHandle, epoch: int) -> AbstractAsyncContextManager[Attached]:
        raise self._error

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (NoneFree("all are in use"), 429, "at capacity (all are in use)"),
        (NoneFree("all 3 are in use", most=3), 429, "at capacity (4/3 concurrent executions)"),
        (Refused("no room"), 503, "no room"),
        (Lost("gone"), 502, "gone"),
    ],
)
def test_what_is_not_the_callers_fault_is_an_error_too(error: Exception, status: int, said: str) -> None:
    source: SandboxSource = Failing(error)
    assert asyncio.run(execute(source, body())) == (status, {"error": said})


def test_what_cannot_be_read_makes_no_sandbox() -> None:
    source = Failing(AssertionError("asked for a sandbox"))
    assert asyncio.run(execute(source, b"{}")) == (400, {"error": "code is required"})
    assert asyncio.run(execute(source, b" " * (LARGEST_BODY + 1)))[0] == 413
