"""A real gateway as a process of its own, with a scripted model server behind it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self, cast

from tests.helpers import guarded
from tests.helpers.guarded import BLOCKED

from belljar.testing import LoopbackUpstream, Received, Reply, ReplyStep

GUARDED = Path(guarded.__file__)
CODE: list[dict[str, Any]] = [{"type": "code_interpreter", "container": {"type": "auto"}}]
OUTPUTS = ["code_interpreter_call.outputs"]


class Scene:
    """The model server behind a gateway, with a script that each test writes anew."""

    def __init__(self, vendor: str | None = None, models: Iterable[str] = ("sim", "llava")) -> None:
        self._replies: deque[Reply | ReplyStep | list[ReplyStep]] = deque()
        self.server = LoopbackUpstream(self._script(), models=models, vendor=vendor)

    def _script(self) -> Iterator[Any]:
        while True:
            yield (
                self._replies.popleft()
                if self._replies
                else Reply(status=400, body=b'{"error":{"message":"no script"}}')
            )

    def play(self, *replies: Reply | ReplyStep | list[ReplyStep]) -> None:
        self._replies.clear()
        self.server.requests.clear()
        self._replies.extend(replies)

    @property
    def asked(self) -> list[Received]:
        """What the model was asked, in order."""
        return [one for one in self.server.requests if one.method == "POST"]

    @property
    def left(self) -> int:
        return len(self._replies)


class House:
    """`belljar serve` on a free port; leaving it stops it and everything in it."""

    def __init__(
        self, state: Path, *flags: str, environment: dict[str, str] | None = None, discover: bool = False
    ) -> None:
        self._command = [
            sys.executable, str(GUARDED), "serve", "--json", "--port", "0", "--state-dir", str(state),
            "--log-level", "warning", *([] if discover else ["--no-discover"]), *flags,
        ]  # fmt: skip
        self.environment = {**os.environ, **(environment or {})}
        self.state = state
        self.log = state.with_name(f"{state.name}.log")
        """All that it wrote to its standard error."""

    def __enter__(self) -> Self:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.told = json.loads(line or "{}")
        """What it said when it listened."""
        if "url" not in self.told:
            self.process.communicate(timeout=30)
            raise AssertionError(f"the gateway did not start: {line}{self.log.read_text()}")
        self.url = self.told["url"]
        return self

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def keys(self, *command: str) -> dict[str, Any]:
        """`belljar keys …`, as an operator calls it beside the gateway."""
        told = subprocess.run(
            [sys.executable, "-m", "belljar.cli", "keys", *command, "--json", "--state-dir", str(self.state)],
            env=self.environment,
            check=True,
            capture_output=True,
            timeout=60,
        )
        return cast(dict[str, Any], json.loads(told.stdout))

    def run(self) -> subprocess.CompletedProcess[str]:
        """What becomes of a gateway that cannot start."""
        return subprocess.run(self._command, env=self.environment, capture_output=True, text=True, timeout=60)

    def kill(self) -> None:
        """As the kernel would, in the middle of everything."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=30)

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=60)
        finally:
            self.process.kill()
        assert BLOCKED not in (log := self.log.read_text(errors="replace")), log
