"""Children that use a store: to be killed, to run out of disk, to be somebody else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from belljar.gateway.store.base import ResponseRecord

Child: TypeAlias = "subprocess.Popen[str]"
Children: TypeAlias = Callable[..., Child]


def response(id: str, status: str = "completed", body: bytes = b"{}", holder: str | None = None) -> ResponseRecord:
    return ResponseRecord(id=id, owner="local", created_at=1, status=status, body=body, holder=holder)


@pytest.fixture
def start() -> Iterator[Children]:
    """Starts Python with some code and arguments; whatever still runs at the end is killed."""
    started: list[Child] = []

    def run(code: str, *args: str | Path, before: tuple[str, ...] = ()) -> Child:
        command = [*before, sys.executable, "-W", "error", "-c", code, *map(str, args)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(child)
        return child

    yield run
    for child in started:
        child.kill()
        with child:  # closes the pipes and waits
            pass


@pytest.fixture
def start_on_small_disk(start: Children, tmp_path: Path) -> Callable[[str], Child]:
    """Starts Python with some code whose first argument is a directory on a disk of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=4m,mode=700 none "$0" && exec "$@"', str(disk))
    return lambda code: start(code, disk, before=mounted)
