"""The processes on the other side: floors and peers, driven by lines on standard input.

`python drivers.py NAME` says on its first line, as JSON, that it is ready or why it cannot be; then it answers every
word it is told with the seconds that took. Runs under any Python that has what the driver needs, so this file imports
nothing but the standard library at its top.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, TextIO

Actions = Mapping[str, Callable[[], object]]
"""What can be asked. An action may give back another that clears up, which is not timed."""

PANDAS = "import pandas as pd; print(pd.DataFrame({'x': [1, 2, 3]}).sum())"


def fork(stack: ExitStack) -> Actions:
    """The floor of making a box: the fork of a process that has what a zygote has."""
    from belljar.sandbox.guest import serve
    from belljar.sandbox.local import linux
    from belljar.sandbox.local.environments import PRELOAD

    for name in PRELOAD:
        importlib.import_module(name)
    guest = serve.prepare()
    if len(os.listdir("/proc/self/task")) != 1:
        raise RuntimeError("the floor has threads, a zygote has none")
    gc.collect()
    gc.freeze()
    linux.collapse_heap()

    def once() -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    return {"fork": once, "name": lambda: repr(guest)}


def echo(stack: ExitStack) -> Actions:
    """The floor of a cell: answers messages on a socket until its end."""
    sock = stack.enter_context(socket.socket(fileno=int(sys.argv[2])))

    def serve() -> None:
        while data := sock.recv(4096):
            sock.sendall(data)

    return {"serve": serve}


def hold(stack: ExitStack) -> Actions:
    """A program with boxes that is about to be killed."""
    from belljar import Sandbox
    from belljar.config import Settings
    from belljar.sandbox.local.source import JailOptions, LocalSource

    count = int(sys.argv[2])
    source = LocalSource(JailOptions(cache=Settings.load().cache_dir, most=count))
    stack.callback(source.shut)
    for _ in range(count):
        stack.enter_context(Sandbox(source=source)).run("x = 1")
    return {}


def jupyter(stack: ExitStack) -> Actions:
    """A Jupyter kernel, asked as its own client library asks."""
    start = importlib.import_module("jupyter_client.manager").start_new_kernel
    importlib.import_module("ipykernel")
    importlib.import_module("pandas")

    def run(client: Any, code: str) -> None:
        ident = client.execute(code)
        while True:
            message = client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") == ident and message["content"].get("execution_state") == "idle":
                break
        answer = client.get_shell_msg(timeout=60)
        if answer["content"]["status"] != "ok":
            raise RuntimeError(str(answer["content"]))

    def begin() -> tuple[Any, Any]:
        manager, client = start(kernel_name="python3", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return manager, client

    def end(kernel: tuple[Any, Any]) -> None:
        kernel[1].stop_channels()
        kernel[0].shutdown_kernel(now=True)

    def first() -> Callable[[], None]:
        kernel = begin()
        run(kernel[1], PANDAS)
        return lambda: end(kernel)

    warm = begin()
    stack.callback(end, warm)
    return {"first": first, "cell": lambda: run(warm[1], "1+1")}


def llm_sandbox(stack: ExitStack) -> Actions:
    """llm-sandbox with its bubblewrap backend, spared the virtual environment it would make for each session."""
    module = importlib.import_module("llm_sandbox")
    config = importlib.import_module("llm_sandbox.local.config")
    importlib.import_module("pandas")
    paths = (*config.DEFAULT_READ_ONLY_PATHS, *dict.fromkeys((sys.prefix, sys.base_prefix)))
    paths = tuple(path for path in paths if path == "/usr" or not path.startswith("/usr/"))
    settings = config.LocalSandboxConfig(python_executable=sys.executable, read_only_paths=paths)

    def begin() -> Any:
        session = module.SandboxSession(
            backend=module.SandboxBackend.BUBBLEWRAP,
            lang="python",
            sandbox_config=settings,
            skip_environment_setup=True,
        )
        session.open()
        return session

    def run(session: Any, code: str) -> None:
        result = session.run(code)
        if result.exit_code:
            raise RuntimeError(result.stderr)

    def first() -> Callable[[], None]:
        session = begin()
        run(session, PANDAS)
        return lambda: session.close()

    warm = begin()
    stack.callback(warm.close)
    run(warm, PANDAS)
    return {"first": first, "cell": lambda: run(warm, "print(1+1)")}


def bubblewrap(stack: ExitStack) -> Actions:
    """bubblewrap around a fresh Python for each call: no state is kept from one to the next."""
    program = shutil.which("bwrap")
    if program is None:
        raise ImportError("bwrap is not installed")
    walls = [program, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]

    def run(code: str) -> None:
        subprocess.run([*walls, sys.executable, "-I", "-c", code], check=True, capture_output=True)

    run(PANDAS)
    return {"first": lambda: run(PANDAS), "cell": lambda: run("print(1+1)")}


DRIVERS: Mapping[str, Callable[[ExitStack], Actions]] = {
    "fork": fork,
    "echo": echo,
    "hold": hold,
    "jupyter": jupyter,
    "llm-sandbox": llm_sandbox,
    "bubblewrap": bubblewrap,
}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # whatever a library prints must not pass for an answer
    os.dup2(2, 1)
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    with ExitStack() as stack:
        try:
            actions = DRIVERS[sys.argv[1]](stack)
        except Exception as error:  # noqa: BLE001 - told to whoever started us
            _say(answers, {"absent": f"{type(error).__name__}: {error}"})
            return
        _say(answers, {"ready": True})
        for line in sys.stdin:
            action = actions[line.strip()]
            started = time.perf_counter()
            tidy = action()
            seconds = time.perf_counter() - started
            if callable(tidy):
                tidy()
            _say(answers, seconds)


def _say(answers: TextIO, what: object) -> None:
    answers.write(json.dumps(what) + "\n")


if __name__ == "__main__":
    main()
