"""Checks of `GET /health` and `POST /execute`. The first docstring line of each says what must hold."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from numbers import Real
from typing import Any

from belljar.sandbox.conformance.wire import MIB, Came, CheckedServer, CheckFailed, check, expect, member

NO_PACKAGE = "belljar-conformance-no-such-package"


async def _post(server: CheckedServer, code: str, **fields: object) -> Came:
    return await server.ask("POST", "/execute", {"code": code, **fields})


async def _execute(server: CheckedServer, code: str, **fields: object) -> dict[str, Any]:
    """An answer that has all it must have."""
    answer = (await _post(server, code, **fields)).has(200).json()
    for name, kind in {"stdout": str, "stderr": str, "exit_code": int, "execution_time_ms": int}.items():
        member(answer, name, kind, "the answer of /execute")
    status = member(answer, "status", str, "the answer of /execute")
    expect("status", status, "success" if answer["exit_code"] == 0 else "error")
    told: dict[str, Any] = answer
    return told


async def _check_refused(server: CheckedServer, said: str, *statuses: int, data: bytes) -> None:
    came = await server.ask("POST", "/execute", data=data, headers={"Content-Type": "application/json"})
    error = member(came.has(*statuses).json(), "error", str, f"the answer to {data[:60]!r}")
    check(error.startswith(said), f"the error for {data[:60]!r} to begin with {said!r}", error)


def _decode_files(answer: dict[str, Any]) -> dict[str, bytes]:
    files = member(answer, "files_produced", dict, "the answer of /execute")
    try:
        return {name: base64.b64decode(data, validate=True) for name, data in files.items()}
    except (TypeError, ValueError):
        raise CheckFailed(f"files_produced: expected base64, came {files}") from None


async def health(server: CheckedServer) -> None:
    """/health tells a healthy server, its mode and version, capacity, load and uptime, and needs no token"""
    came = await server.ask("GET", "/health", headers={"Authorization": ""})
    told = came.has(200).json()
    expect("status", member(told, "status", str, "/health"), "healthy")
    for name in ("mode", "runtime_version"):
        check(bool(member(told, name, str, "/health")), f"/health to have {name}", told)
    check(member(told, "capacity", int, "/health") >= 3, "a capacity of 3 or more", told)
    check(member(told, "current_load", int, "/health") >= 0, "a load of 0 or more", told)
    check(member(told, "uptime_seconds", Real, "/health") >= 0, "an uptime", told)


async def load(server: CheckedServer) -> None:
    """/health counts what is running"""
    running = asyncio.create_task(_execute(server, "import time; time.sleep(2)", timeout_seconds=20))
    try:
        while not running.done():
            if (await server.ask("GET", "/health")).json().get("current_load", 0) >= 1:
                return
            await asyncio.sleep(0.05)
    finally:
        await running
    raise CheckFailed("current_load: expected 1 or more while code runs, came 0 all the time")


async def outputs(server: CheckedServer) -> None:
    """/execute answers with what the code wrote to standard output and standard error"""
    answer = await _execute(server, "import sys\nprint('out \\u00e9')\nprint('err', file=sys.stderr)")
    expect("stdout", answer["stdout"], "out é\n")
    expect("stderr", answer["stderr"], "err\n")
    expect("exit_code", answer["exit_code"], 0)
    check(answer["execution_time_ms"] >= 0, "a time of 0 or more", answer)
    check(not answer.get("files_produced"), "no files where none were made", answer)


async def defaults(server: CheckedServer) -> None:
    """/execute takes a timeout of zero or less for the usual one, and empty lists for none"""
    for timeout in (0, -5):
        answer = await _execute(server, "print(1)", timeout_seconds=timeout, requirements=[], files={})
        expect(f"stdout with timeout_seconds {timeout}", answer["stdout"], "1\n")


async def exceptions(server: CheckedServer) -> None:
    """/execute answers an exception with exit code 1 and the traceback at the end of standard error"""
    code = "import sys\nprint('kept')\nprint('mine', file=sys.stderr)\n1 / 0"
    answer = await _execute(server, code)
    expect("exit_code", answer["exit_code"], 1)
    expect("stdout", answer["stdout"], "kept\n")
    check(answer["stderr"].startswith("mine\n"), "stderr to begin with what the code wrote", answer["stderr"])
    last = answer["stderr"].rstrip("\n").rpartition("\n")[2]
    expect("the last line of stderr", last, "ZeroDivisionError: division by zero")


async def exit_codes(server: CheckedServer) -> None:
    """/execute answers sys.exit(n) with exit code n"""
    for number in (0, 3):
        expect("exit_code", (await _execute(server, f"import sys; sys.exit({number})"))["exit_code"], number)


async def files(server: CheckedServer) -> None:
    """/execute puts files beside the code, by their last part only, and gives back those that it made"""
    code = (
        "import os, pathlib\n"
        "out = pathlib.Path(os.environ.get('OUTPUT_DIR', '.'))\n"
        "(out / 'copy \\u00e9.bin').write_bytes(pathlib.Path('given.bin').read_bytes() + b'!')\n"
        "print(os.path.exists('../above.txt'), os.path.exists('above.txt'))"
    )
    data = bytes(range(256))
    given = {"given.bin": data, "../above.txt": b""}
    answer = await _execute(server, code, files={name: base64.b64encode(one).decode() for name, one in given.items()})
    check(answer["exit_code"] == 0, "exit code 0", answer)
    expect("whether '../above.txt' is above, and here", answer["stdout"], "False True\n")
    produced = _decode_files(answer)
    expect("files_produced['copy é.bin']", produced.get("copy é.bin"), data + b"!")
    check("given.bin" not in produced, "files that were given and not changed to be left out", list(produced))


async def bad_requests(server: CheckedServer) -> None:
    """/execute answers 400 and {"error": "..."} to what cannot be read, and names the file that it cannot decode"""
    await _check_refused(server, "code is required", 400, data=b"{}")
    await _check_refused(server, "code is required", 400, data=b'{"code": ""}')
    await _check_refused(server, "failed to decode file x.txt", 400, data=b'{"code": "1", "files": {"x.txt": "?"}}')
    wrong: tuple[object, ...] = ({"code": 1}, {"code": "1", "timeout_seconds": "5"}, {"code": "1", "files": []}, [])
    for data in (b"", b"{", *(json.dumps(one).encode() for one in wrong)):
        await _check_refused(server, "invalid request: ", 400, data=data)


async def large_bodies(server: CheckedServer) -> None:
    """/execute refuses a body above 10 MiB, and takes one below"""
    most = base64.b64encode(bytes(7 * MIB)).decode()
    answer = await _execute(server, "import os; print(os.path.getsize('big'))", files={"big": most})
    expect("stdout", answer["stdout"], f"{7 * MIB}\n")
    data = b'{"code": "pass"' + b" " * (10 * MIB) + b"}"
    came = await server.ask("POST", "/execute", data=data, headers={"Content-Type": "application/json"})
    member(came.has(400, 413).json(), "error", str, "the answer to more than 10 MiB")


async def deadline(server: CheckedServer) -> None:
    """/execute ends within a second of its deadline, with exit code -1"""
    for code in ("import time\nprint('begun', flush=True)\ntime.sleep(60)", _STUBBORN):
        answer = await _in_time(server, code)
        expect("exit_code", answer["exit_code"], -1)
        expect("stdout", answer["stdout"], "begun\n")
        expect("stderr, where the code wrote none", answer["stderr"], "execution timed out after 2 seconds")


_STUBBORN = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('begun', flush=True)
while True:
    try: time.sleep(60)
    except BaseException: pass
"""


async def _in_time(server: CheckedServer, code: str) -> dict[str, Any]:
    """The better of two tries: the host may have been busy. What any answer takes does not count."""
    late = 0.0
    for _ in range(2):
        begun = time.monotonic()
        await _execute(server, "pass")
        between = time.monotonic()
        answer = await _execute(server, code, timeout_seconds=2)
        took, usual = time.monotonic() - between, between - begun
        check(took >= 2, "a deadline of 2 seconds not to come early", f"an end after {took:.2f} s")
        late = took - usual - 2
        if late <= 1:
            return answer
    raise CheckFailed(f"expected an end within 1 s of the deadline, came {late:.2f} s after it, twice")


async def own_words(server: CheckedServer) -> None:
    """/execute leaves standard error as it is where code that ran out of time wrote to it"""
    code = "import sys, time\nprint('mine', file=sys.stderr, flush=True)\ntime.sleep(60)"
    answer = await _execute(server, code, timeout_seconds=1)
    expect("exit_code", answer["exit_code"], -1)
    expect("stderr", answer["stderr"], "mine\n")


async def at_once(server: CheckedServer) -> None:
    """/execute runs three at once"""
    code = "import time; print(time.time()); time.sleep(2); print(time.time())"
    came = await asyncio.gather(*(_execute(server, code) for _ in range(3)), return_exceptions=True)
    for one in came:  # only now: where one fails, the others still run, and the next check would be a fourth
        if isinstance(one, BaseException):
            raise one
    answers = [one for one in came if not isinstance(one, BaseException)]
    check(all(one["exit_code"] == 0 for one in answers), "three successes", answers)
    spans = [[float(when) for when in one["stdout"].split()] for one in answers]
    check(max(span[0] for span in spans) < min(span[1] for span in spans), "three spans that overlap", spans)


async def packages(server: CheckedServer) -> None:
    """/execute reports packages that cannot be had before it runs anything"""
    for wanted in (NO_PACKAGE, "../evil"):
        answer = await _execute(server, "print('ran')", requirements=[wanted])
        expect("exit_code", answer["exit_code"], -1)
        expect("stdout", answer["stdout"], "")
        said = answer["stderr"]
        check(said.startswith("package installation failed: "), "stderr 'package installation failed: …'", said)


async def fresh(server: CheckedServer) -> None:
    """/execute starts in a fresh directory each time, and not as root"""
    code = "import os\nprint(os.path.exists('left.txt'), os.getuid() != 0)\nopen('left.txt', 'w').close()"
    for _ in range(2):
        answer = await _execute(server, code)
        expect("whether the last one's file is there, and the user is not root", answer["stdout"], "False True\n")


async def tokens(server: CheckedServer) -> None:
    """/execute answers 401 without the token"""
    if server.token:
        for given in ("", "Bearer wrong", f"Bearer {server.token}x", f"Basic {server.token}"):
            came = await server.ask("POST", "/execute", {"code": "1"}, headers={"Authorization": given})
            came.has(401)


async def others(server: CheckedServer) -> None:
    """unknown paths answer 404, and other methods 405"""
    (await server.ask("GET", "/belljar-conformance")).has(404)
    (await server.ask("GET", "/execute")).has(405)


CHECKS = (
    health, load, outputs, defaults, exceptions, exit_codes, files, bad_requests, large_bodies, deadline, own_words,
    at_once, packages, fresh, tokens, others,
)  # fmt: skip
