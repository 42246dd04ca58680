"""Checks of `/v1`: leases, cells, files. The first docstring line of each says what must hold.

Nothing here waits for a moment and hopes: where order matters, code waits for a file that is put there when the time
has come.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import tarfile
import time
from collections.abc import AsyncIterator

import aiohttp

from belljar.sandbox.conformance import checked_lease
from belljar.sandbox.conformance.checked_lease import (
    fail_if_late,
    lease_sandbox,
    open_lease,
    read_next,
    release_lease,
    wait_until_gone,
)
from belljar.sandbox.conformance.wire import MIB, CheckedServer, check, expect, in_path, member

_WAIT = "import os, time\nwhile not os.path.exists({name!r}): time.sleep(0.01)\n"


# -- leases ------------------------------------------------------------------------------------------------------------


async def lease(server: CheckedServer) -> None:
    """a sandbox lives as long as the connection that asked for it, and no longer"""
    async with open_lease(server) as held:
        told = (await held.ask("GET")).has(200).json()
        expect("the sandbox", (told.get("id"), told.get("alive")), (held.id, True))
    await wait_until_gone(held)


async def lease_in_a_cell(server: CheckedServer) -> None:
    """a sandbox whose lease is closed in the middle of a cell is gone too, and the cell's answer ends"""
    async with open_lease(server) as held:
        running = held.cell("print('begun', flush=True)\nwhile True: pass")
        outputs = await running.__aenter__()
        expect("the first line", await read_next(outputs), {"type": "stdout", "text": "begun\n"})
    try:
        await wait_until_gone(held)
        async with fail_if_late("the cell's answer to end with its sandbox"):
            async for _ in outputs:
                pass
    except aiohttp.ClientError:
        pass  # cut off is an end too
    finally:
        await running.__aexit__(None, None, None)


async def release(server: CheckedServer) -> None:
    """DELETE ends a sandbox and its lease's answer, and may be asked again"""
    async with lease_sandbox(server) as held:
        (await held.ask("DELETE")).has(204)
        async with fail_if_late("the lease's answer to end"):
            rest = [line async for line in held.rest]
        check(all(set(line) == {"ended"} for line in rest), "the lease to end", rest)
        (await held.ask("DELETE")).has(204)
        (await held.ask("GET")).refused(404, code="sandbox_lost")


async def load(server: CheckedServer) -> None:
    """a lease counts as load, and its end frees its place"""

    async def now() -> int:
        came = await server.ask("GET", "/health")
        return int(member(came.has(200).json(), "current_load", int, "/health"))

    async with open_lease(server) as one:
        held = await now()
        check(held >= 1, "a load of 1 or more", held)
    try:
        deadline = time.monotonic() + checked_lease.SOON
        while (left := await now()) >= held:
            check(time.monotonic() < deadline, f"a load below {held} when the lease is over", left)
            await asyncio.sleep(0.02)
    finally:
        await release_lease(one)


async def limits(server: CheckedServer) -> None:
    """a sandbox has the limits that were asked for; wrong ones are refused with their name"""
    async with lease_sandbox(server, limits={"timeout": None, "disk": 32 * MIB, "cpus": None}, packages="none") as held:
        code = "import os; s = os.statvfs('.'); print(s.f_blocks * s.f_frsize)"
        expect("the size of the workspace", await held.text(code), f"{32 * MIB}\n")
    wrong: tuple[dict[str, object], ...] = (
        {"limits": {"memory": 1}}, {"limits": {"processes": "many"}}, {"limits": []}, {"packages": "other"},
    )  # fmt: skip
    for asked in wrong:
        (await server.ask("POST", "/v1/sandboxes", asked)).refused(400, code="invalid_request")


async def installed(server: CheckedServer) -> None:
    """/v1/packages lists what is installed"""
    listed = member((await server.ask("GET", "/v1/packages")).has(200).json(), "packages", list, "/v1/packages")
    for one in listed:
        member(one, "name", str, "a package")
        member(one, "version", str, "a package")


# -- cells -------------------------------------------------------------------------------------------------------------


async def streaming(server: CheckedServer) -> None:
    """a cell's outputs come while it runs"""
    async with lease_sandbox(server) as held:
        code = f"print('one', flush=True)\n{_WAIT.format(name='go')}print('two')"
        async with held.cell(code) as outputs:
            expect("the first line", await read_next(outputs), {"type": "stdout", "text": "one\n"})
            await held.put("go")
            expect("the second line", await read_next(outputs), {"type": "stdout", "text": "two\n"})
            expect("the last line", (await read_next(outputs)).get("type"), "exit")


async def outputs(server: CheckedServer) -> None:
    """outputs have their types and come in the order in which the code made them; the last is the exit"""
    code = (
        "import sys\nprint('a')\ndisplay('shown')\nprint('b', file=sys.stderr)\n"
        "open('made \\u00e9.txt', 'w').write('x')\n'value'"
    )
    async with lease_sandbox(server) as held:
        came = await held.run(code)
        expect(
            "the types in order",
            [one["type"] for one in came],
            ["stdout", "display", "stderr", "result", "file_changed", "exit"],
        )
        printed, shown, warned, value, made, end = came
        expect("stdout", printed, {"type": "stdout", "text": "a\n"})
        expect("stderr", warned, {"type": "stderr", "text": "b\n"})
        expect("display", member(shown, "data", dict, "a display").get("text/plain"), "'shown'")
        expect("result", member(value, "data", dict, "a result").get("text/plain"), "'value'")
        told = {name: made.get(name) for name in ("name", "size", "mime", "change")}
        wanted = {"name": "made é.txt", "size": 1, "mime": "text/plain", "change": "created"}
        expect("file_changed", told, wanted)
        fields = {"type", "status", "text", "hint", "reason", "error", "code", "kept", "seconds"}
        check(fields <= set(end), f"an exit with {', '.join(sorted(fields))}", end)
        expect("status", end["status"], "ok")


async def state(server: CheckedServer) -> None:
    """variables live on from cell to cell, also after an exception, which the exit tells"""
    async with lease_sandbox(server) as held:
        await held.run("x = 41")
        end = (await held.run("x += 1\nraise ValueError('no')"))[-1]
        expect("status", end["status"], "raised")
        error = member(end, "error", dict, "the exit")
        expect("the error", (error.get("type"), error.get("message")), ("ValueError", "no"))
        check("ValueError: no" in str(error.get("traceback")), "a traceback", error)
        expect("x", await held.text("print(x)"), "42\n")
        end = (await held.run("import sys; sys.exit(3)"))[-1]
        expect("status and code of sys.exit(3)", (end["status"], end["code"]), ("raised", 3))


async def turns(server: CheckedServer) -> None:
    """cells of one sandbox run one at a time, in the order in which they came"""
    async with lease_sandbox(server) as held:
        async with held.cell(f"print('one', flush=True)\n{_WAIT.format(name='go')}x = 1") as first:
            expect("the first line", await read_next(first), {"type": "stdout", "text": "one\n"})
            second = asyncio.create_task(held.run("print('x' in globals())"))
            await held.names()  # the second has been sent by now, and must still wait
            await held.put("go")
            rest = [one["type"] async for one in first]
            expect("the rest of the first cell", rest, ["exit"])
        came = await second
        expect("whether the second saw the first's variable", came[0].get("text"), "True\n")


async def timeouts(server: CheckedServer) -> None:
    """a cell that takes longer than its timeout is stopped"""
    async with lease_sandbox(server) as held:
        end = (await held.run("import time; time.sleep(60)", timeout=0.5))[-1]
        expect("status", end["status"], "timed_out")
        check(bool(end["text"]), "a text that says so", end)


async def interrupt(server: CheckedServer) -> None:
    """interrupt stops the running cell and keeps the variables"""
    async with lease_sandbox(server) as held:
        async with held.cell("x = 1\nprint('begun', flush=True)\nimport time; time.sleep(60)") as outputs:
            await read_next(outputs)
            (await held.ask("POST", "/interrupt")).has(204)
            end = await read_next(outputs)
        expect("status and reason", (end.get("status"), end.get("reason")), ("killed", "interrupted"))
        expect("x", await held.text("print(x)"), "1\n")


async def leaving(server: CheckedServer) -> None:
    """a cell whose caller closes the connection is stopped, and the next one runs"""
    async with lease_sandbox(server) as held:
        async with held.cell("x = 1\nprint('begun', flush=True)\nimport time; time.sleep(60)") as outputs:
            await read_next(outputs)
        async with fail_if_late("the next cell to run"):
            expect("x", await held.text("print(x)"), "1\n")


async def restart(server: CheckedServer) -> None:
    """restart forgets the variables and keeps the files"""
    async with lease_sandbox(server) as held:
        await held.run("x = 1; open('kept.txt', 'w').write('x')")
        (await held.ask("POST", "/restart")).has(204)
        expect("x, and the file", await held.text("print('x' in globals(), open('kept.txt').read())"), "False x\n")


async def install(server: CheckedServer) -> None:
    """packages that cannot be had are refused, and nothing changes"""
    async with lease_sandbox(server) as held:
        await held.run("x = 1")
        (await held.ask("POST", "/packages", {"requirements": ["../evil"]})).refused(400, code="invalid_request")
        expect("x", await held.text("print(x)"), "1\n")


# -- files -------------------------------------------------------------------------------------------------------------

NAMES = ("plain.txt", "données \U0001f600.csv", "with space, 100%?#&+.txt", "caf\udce9.bin", "sub/deep/er.txt")
"""Unicode, what URLs have a meaning for, bytes that are not UTF-8, and directories."""


async def names(server: CheckedServer) -> None:
    """files keep their names in every byte, in and out, also where they are not UTF-8"""
    async with lease_sandbox(server) as held:
        for name in NAMES:
            data = name.encode("utf-8", "surrogateescape")
            told = (await held.put(name, data)).json()
            expect(f"what PUT says of {name!r}", (told.get("name"), told.get("size")), (name, len(data)))
            expect(f"the bytes of {name!r}", await held.get(name), data)
        expect("the names", await held.names(), sorted(NAMES))
        code = "import os; print(sorted(os.path.join(d, f)[2:] for d, _, fs in os.walk(b'.') for f in fs))"
        expect(
            "the names inside",
            await held.text(code),
            f"{sorted(name.encode('utf-8', 'surrogateescape') for name in NAMES)}\n",
        )
        made = await held.run("open(b'new\\xff', 'wb').write(b'1')")
        changed = [one.get("name") for one in made if one["type"] == "file_changed"]
        expect("the name of a new file", changed, ["new\udcff"])


async def large_files(server: CheckedServer) -> None:
    """large files are streamed in and out, exact in every byte, with their length told"""
    piece = bytes(range(256)) * 1024

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(32):
            yield piece

    async with lease_sandbox(server) as held:
        (await held.ask("PUT", "/files/big.bin", data=pieces())).has(200)
        came = (await held.ask("GET", "/files/big.bin")).has(200)
        expect("the length told", came.headers.get("Content-Length"), str(32 * len(piece)))
        check(came.body == piece * 32, "the same bytes", f"{len(came.body)} bytes")
        code = "import hashlib; print(hashlib.sha256(open('big.bin', 'rb').read()).hexdigest())"
        expect("the sum inside", await held.text(code), hashlib.sha256(piece * 32).hexdigest() + "\n")
        (await held.ask("GET", "/files/big.bin?limit=1000")).refused(413, code="too_large")


async def archives(server: CheckedServer) -> None:
    """many files go in at once as a tar archive"""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in NAMES:
            info = tarfile.TarInfo(name)
            info.size = len(name)
            archive.addfile(info, io.BytesIO(b"x" * len(name)))
    async with lease_sandbox(server) as held:
        headers = {"Content-Type": "application/x-tar"}
        came = await held.ask("PUT", "/files", data=packed.getvalue(), headers=headers)
        told = member(came.has(200).json(), "files", list, "the answer")
        expect(
            "what was written", sorted((one["name"], one["size"]) for one in told), sorted((n, len(n)) for n in NAMES)
        )
        expect("the names", await held.names(), sorted(NAMES))
        (await held.ask("PUT", "/files", data=b"not a tar " * 200, headers=headers)).refused(400)


async def missing_files(server: CheckedServer) -> None:
    """files are deleted; those that are not there, and names that lead out, are refused"""
    async with lease_sandbox(server) as held:
        await held.put("here.txt", b"x")
        (await held.ask("DELETE", "/files/here.txt")).has(204)
        (await held.ask("DELETE", "/files/here.txt")).refused(404, code="not_found")
        (await held.ask("GET", "/files/here.txt")).refused(404, code="not_found")
        await held.run("import os; os.symlink('/etc/passwd', 'link'); os.mkdir('folder')")
        for name in ("../out.txt", "/etc/passwd", "link", "folder"):
            (await held.ask("GET", f"/files/{in_path(name)}")).refused(400)
        (await held.ask("PUT", f"/files/{in_path('../out.txt')}", data=b"x")).refused(400)
        expect("the names", await held.names(), [])


# -- errors ------------------------------------------------------------------------------------------------------------


async def bad_requests(server: CheckedServer) -> None:
    """what cannot be read is refused in one shape, {"error": {"code", "message", "param"}}"""
    json_type = {"Content-Type": "application/json"}
    for data in (b"{", b"[]", b"\xff"):
        (await server.ask("POST", "/v1/sandboxes", data=data, headers=json_type)).refused(400, code="invalid_request")
    async with lease_sandbox(server) as held:
        for body in ({}, {"code": 1}, {"code": "1", "timeout": -1}, {"code": "1", "timeout": "long"}):
            (await held.ask("POST", "/cells", body)).refused(400, code="invalid_request")


async def strangers(server: CheckedServer) -> None:
    """a sandbox that is not there is 404 for every question"""
    asked: tuple[tuple[str, str, object], ...] = (
        ("GET", "", None), ("GET", "/files", None), ("GET", "/files/x", None), ("POST", "/cells", {"code": "1"}),
        ("POST", "/interrupt", None), ("POST", "/restart", None), ("POST", "/packages", {"requirements": []}),
        ("DELETE", "/files/x", None),
    )  # fmt: skip
    for method, path, body in asked:
        (await server.ask(method, f"/v1/sandboxes/nobody{path}", body)).refused(404, code="sandbox_lost")


async def paths(server: CheckedServer) -> None:
    """unknown paths are 404 and other methods 405 with Allow, in the same shape"""
    for path in ("/v1", "/v1/nothing", "/v1/sandboxes/x/nothing"):
        (await server.ask("GET", path)).refused(404)
    for method, path, allowed in (("PUT", "/v1/sandboxes", "POST"), ("PATCH", "/v1/packages", "GET")):
        came = await server.ask(method, path)
        came.refused(405)
        check(allowed in came.headers.get("Allow", ""), f"Allow to name {allowed}", dict(came.headers))


async def doors(server: CheckedServer) -> None:
    """pages in a browser are turned away, and whoever has not the token"""
    (await server.ask("POST", "/v1/sandboxes", {}, headers={"Origin": "https://example.com"})).refused(403)
    if server.token:
        for given in ("", "Bearer wrong"):
            came = await server.ask("POST", "/v1/sandboxes", {}, headers={"Authorization": given})
            came.refused(401, code="unauthenticated")


CHECKS = (
    lease, lease_in_a_cell, release, load, limits, installed, streaming, outputs, state, turns, timeouts, interrupt,
    leaving, restart, install, names, large_files, archives, missing_files, bad_requests, strangers, paths, doors,
)  # fmt: skip
