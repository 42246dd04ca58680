"""A real gateway as a process of its own, with a scripted model server behind it."""

from __future__ import annotations

import json
import os
import subprocess
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self, cast

from tests.helpers import forked, loop_guard
from tests.helpers.forked import Forked
from tests.helpers.loop_guard import BLOCKED
from tests.helpers.processes import OwnProcess

from belljar.testing import LoopbackUpstream, Received, Reply, ReplyStep

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


class House(OwnProcess):
    """`belljar serve` on a free port; leaving it stops it and everything in it."""

    def __init__(
        self,
        state: Path,
        *flags: str,
        environment: dict[str, str] | None = None,
        discover: bool = False,
        preload: bool = False,
        most: float = loop_guard.MOST,
    ) -> None:
        """With `preload`, it has the data stack ready, as it usually would: for one that serves many tests.

        `most` is how many seconds its event loop may be held by one thing.
        """
        self._most = most
        self.command = [
            "serve", "--json", "--port", "0", "--state-dir", str(state),
            "--log-level", "warning", *([] if discover else ["--no-discover"]), *flags,
        ]  # fmt: skip
        self._preload = preload
        self.environment = {**os.environ, **(environment or {})}
        self.state = state
        self.log = state.with_name(f"{state.name}.log")
        """All that it wrote to its standard error."""

    def __enter__(self) -> Self:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = self.start(env=self.environment, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.told = json.loads(line or "{}")
        """What it said when it listened."""
        if "url" not in self.told:
            self.process.communicate(timeout=30)
            raise AssertionError(f"the gateway did not start: {line}{self.log.read_text()}")
        self.url = self.told["url"]
        return self

    def start(self, **options: Any) -> subprocess.Popen[str]:
        return Forked(*self.command, guard=self._most, preload=self._preload, stdin=subprocess.DEVNULL, **options)

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def keys(self, *command: str) -> dict[str, Any]:
        """`belljar keys …`, as an operator calls it beside the gateway."""
        told = forked.run("keys", *command, "--json", "--state-dir", str(self.state), env=self.environment)
        told.check_returncode()
        return cast(dict[str, Any], json.loads(told.stdout))

    def run(self) -> subprocess.CompletedProcess[str]:
        """What becomes of a gateway that cannot start."""
        return forked.run(*self.command, env=self.environment)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        assert BLOCKED not in (log := self.log.read_text(errors="replace")), log
