"""A sandbox server of the founding document and nothing more: `POST /execute`, `GET /health`, an optional token.

Each piece of code is a script in a fresh directory, run by this Python; what lies in `output` afterwards, and not in
directories below it, comes back. No jail: only for code of ours.
"""

from __future__ import annotations

import base64
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LARGEST_BODY = 10 << 20
_FORKER = """
import ast, asyncio, base64, builtins, gc, io, json, linecache, os, runpy, shutil, signal, socketserver, stat, sys, time
import traceback, types, typing, warnings

class Handler(socketserver.StreamRequestHandler):
    def handle(self):  # in a process of its own, which waits for the script
        asked = json.loads(self.rfile.readline())
        child = os.fork()
        if child == 0:
            os.setsid()
            os.chdir(asked["cwd"])
            os.environ.clear()
            os.environ.update(asked["env"])
            for number, name in (0, "/dev/null"), (1, ".out"), (2, ".err"):
                os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
            os.closerange(3, 64)
            sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), ".pylibs")]
            sys.argv = ["script.py"]
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            code = 1
            try:
                runpy.run_path("script.py", run_name="__main__")
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
        signal.signal(signal.SIGTERM, lambda *_: (os.killpg(child, signal.SIGKILL), os._exit(1)))
        end, status, late = time.monotonic() + asked["timeout"], None, False
        while status is None:
            done, told = os.waitpid(child, os.WNOHANG)
            if done:
                status = os.waitstatus_to_exitcode(told)
            elif not late and time.monotonic() > end:
                late = True
                os.killpg(child, signal.SIGKILL)
            else:
                time.sleep(0.002)
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wfile.write(json.dumps([status, late]).encode() + b"\\n")

class Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    max_children, request_queue_size = 100, 100
    def service_actions(self):
        super().service_actions()
        if os.getppid() == 1:
            raise SystemExit

def stop(*_):
    for child in server.active_children or ():
        os.kill(child, signal.SIGTERM)
    os._exit(0)

server = Server(sys.argv[1], Handler)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
server.serve_forever(0.2)
"""
"""Runs scripts in forks of itself."""


class ExecuteServer(ThreadingHTTPServer):
    """What a test may set, and what was asked of it."""

    daemon_threads = True

    def __init__(self, *, port: int = 0, wheels: Path | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.token: str | None = None
        self.capacity = 8
        self.mode = "python"
        self.answer: Callable[[_Handler], bool] | None = None
        """Answers in place of `/execute`, where it returns True."""
        self.asked: list[dict[str, Any]] = []
        """What `/execute` was asked, in the order of coming."""
        self.wheels = wheels
        self.load = 0
        self._changing = threading.Lock()
        self._place = tempfile.TemporaryDirectory(prefix="execute-server-")
        self._forking = os.path.join(self._place.name, "s")
        self._forker = subprocess.Popen(
            [sys.executable, "-c", _FORKER, self._forking], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        assert self._forker.stdout is not None
        with self._forker.stdout as started:
            started.readline()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def enter(self) -> bool:
        with self._changing:
            if self.load >= self.capacity:
                return False
            self.load += 1
            return True

    def leave(self) -> None:
        with self._changing:
            self.load -= 1

    def run(self, asked: dict[str, Any]) -> dict[str, Any]:
        timeout = asked.get("timeout_seconds", 0)
        timeout = timeout if timeout > 0 else 30
        with tempfile.TemporaryDirectory(prefix="execute-", ignore_cleanup_errors=True) as place:
            home = Path(place)
            for name, data in asked.get("files", {}).items():
                (home / os.path.basename(name)).write_bytes(base64.b64decode(data, validate=True))
            for requirement in asked.get("requirements", ()):
                if why := self._install(requirement, home):
                    return _answer(-1, stderr=f"package installation failed: {why}")
            (output := home / "output").mkdir()
            (home / "script.py").write_text(asked["code"], encoding="utf-8", errors="surrogatepass")
            variables = {
                "PATH": os.environ["PATH"], "PYTHONPATH": ".pylibs", "OUTPUT_DIR": str(output), "PYTHONUTF8": "1",
                "MPLCONFIGDIR": os.path.join(tempfile.gettempdir(), "execute-server-matplotlib"),
            }  # fmt: skip
            begun = time.monotonic()
            code, out, err, late = self._script(home, variables, timeout)
            took = time.monotonic() - begun
            if late:
                code, err = -1, err or f"execution timed out after {timeout} seconds".encode()
            found = {one.name: one.read_bytes() for one in output.iterdir() if one.is_file() and not one.is_symlink()}
            return _answer(code, out.decode(errors="replace"), err.decode(errors="replace"), took, found)

    def _script(self, home: Path, variables: dict[str, str], timeout: float) -> tuple[int, bytes, bytes, bool]:
        """As `python script.py` there, but forked of a Python that has loaded what scripts use: that takes longest."""
        wanted = {"cwd": str(home), "env": variables, "timeout": timeout}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(self._forking)
            line.sendall(json.dumps(wanted).encode() + b"\n")
            with line.makefile() as answer:
                code, late = json.loads(answer.readline())
        return code, (home / ".out").read_bytes(), (home / ".err").read_bytes(), late

    def _install(self, requirement: str, home: Path) -> str:
        """Why it cannot be had; only wheels of one module are known here."""
        found = sorted((self.wheels or home).glob(f"{requirement}-*.whl"))
        if not requirement.isidentifier() or not found:
            return f"no version of {requirement} found"
        with __import__("zipfile").ZipFile(found[-1]) as wheel:
            wheel.extractall(home / ".pylibs")
        return ""

    def server_close(self) -> None:
        super().server_close()
        self._forker.terminate()
        self._forker.wait()
        self._place.cleanup()


def _answer(
    code: int, stdout: str = "", stderr: str = "", seconds: float = 0.0, files: dict[str, bytes] | None = None
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "status": "success" if code == 0 else "error", "stdout": stdout, "stderr": stderr, "exit_code": code,
        "execution_time_ms": round(seconds * 1000),
    }  # fmt: skip
    if files:
        told["files_produced"] = {name: base64.b64encode(data).decode() for name, data in files.items()}
    return told


class _Handler(BaseHTTPRequestHandler):
    server: ExecuteServer

    def log_message(self, format: str, *args: object) -> None: ...

    def tell(self, status: int, told: object) -> None:
        body = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        server = self.server
        if self.path != "/health":
            return self.tell(404 if self.path != "/execute" else 405, b"404 page not found\n")
        told = {"status": "healthy", "mode": server.mode, "runtime_version": platform.python_version(),
                "capacity": server.capacity, "current_load": server.load, "uptime_seconds": 1}  # fmt: skip
        self.tell(200, told)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/execute":
            return self.tell(404, b"404 page not found\n")
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            return self.tell(401, {"error": "unauthorized"})
        if len(body) > LARGEST_BODY:
            return self.tell(400, {"error": "invalid request: http: request body too large"})
        asked = json.loads(body)
        if not asked.get("code"):
            return self.tell(400, {"error": "code is required"})
        self.server.asked.append(asked)
        if self.server.answer is not None and self.server.answer(self):
            return None
        if not self.server.enter():
            most = self.server.capacity
            return self.tell(429, {"error": f"at capacity ({most + 1}/{most} concurrent executions)"})
        try:
            told = self.server.run(asked)
        finally:
            self.server.leave()
        self.tell(200, told)

    do_PUT = do_DELETE = do_GET


@contextmanager
def running(*, port: int = 0, wheels: Path | None = None) -> Iterator[ExecuteServer]:
    """A server in a thread of this process."""
    server = ExecuteServer(port=port, wheels=wheels)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
