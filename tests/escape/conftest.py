"""One jail for each user and test process, started when first needed; attacks are handed to it by name."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests import as_user


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "user" in metafunc.fixturenames:
        metafunc.parametrize("user", as_user.users(), scope="session")


@dataclass(frozen=True, slots=True)
class Told:
    """A verdict as the worker tells it."""

    held: bool
    detail: str


def folder_of(user: str, name: str) -> Path:
    """A new directory that belongs to the user."""
    folder = Path(tempfile.mkdtemp(prefix=f"belljar-{name}-"))
    if user == "ordinary" and os.geteuid() == 0:
        os.chown(folder, as_user.ORDINARY, as_user.ORDINARY)
    return folder


def remove(folder: Path) -> None:
    """If it is there still; with the layers of packages in it, which not even their owner can list."""
    if not folder.exists():
        return
    folder.chmod(0o700)
    for layers in folder.glob("**/packages/layers"):
        layers.chmod(0o700)
    shutil.rmtree(folder)


@cache
def cache_of(user: str) -> Path:
    """What jails of this user keep between starts; one for all, since making the list of fonts takes a second."""
    folder = folder_of(user, "cache")
    atexit.register(remove, folder)
    return folder


class Worker:
    """A process of some user's that holds a jail."""

    def __init__(self, user: str, module: str = "tests.escape.worker", *, secret_of: int | None = None) -> None:
        self.folder = folder_of(user, "escape")
        variables = {"TMPDIR": str(self.folder), "HOME": str(self.folder)}
        self.process = as_user.start(user, module, str(cache_of(user)), variables=variables, secret_of=secret_of)
        self.hello = self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, f"the worker ended with {self.process.wait(10)}"
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def attempt(self, name: str) -> Told:
        assert self.process.stdin
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        assert answer["name"] == name
        return Told(answer["held"], answer["detail"])

    def close(self) -> None:
        """End it in order: what it leaves behind is a failure."""
        if self.process.stdin:
            self.process.stdin.close()
        try:
            assert self.process.wait(30) == 0
        finally:
            self.process.kill()
            self.process.wait()
            if self.process.stdout:
                self.process.stdout.close()
            remove(self.folder)


@pytest.fixture(scope="session")
def jail_of() -> Iterator[Callable[[str], Worker]]:
    workers: dict[str, Worker] = {}

    def jail_of(user: str) -> Worker:
        worker = workers.get(user)
        if worker is None or worker.process.poll() is not None:
            workers[user] = worker = Worker(user)
        return worker

    yield jail_of
    for worker in workers.values():
        worker.close()
