"""Whether anything more can be kept, for whoever asks if a gateway is ready."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from belljar.gateway.store import disk_errors

from .conftest import Child, Children

OPEN = """
import asyncio, resource, sys
from pathlib import Path
from belljar.errors import OperatorError
from belljar.gateway.store.directory import DirectoryBlobs

async def main():
    blobs = DirectoryBlobs(Path(sys.argv[1]) / "blobs")
    with open("/dev/null") as last:
        resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno() + 1, 4096))
        try:
            await blobs.keep([b"x"])
        except OperatorError as error:
            print(error.status, error.retryable, error)

asyncio.run(main())
"""
FILL = """
import sys
from pathlib import Path
from belljar.gateway.store.disk_errors import find_problem

root = Path(sys.argv[1])
print(find_problem(root))
file = root / "large"
try:
    file.write_bytes(bytes(8 << 20))
except OSError:
    print(find_problem(root))
file.unlink()
print(find_problem(root))
"""


def test_a_disk_is_a_problem_while_it_is_full(start_on_small_disk: Callable[[str], Child]) -> None:
    child = start_on_small_disk(FILL)
    told, _ = child.communicate()
    assert told.splitlines() == [
        "None",
        "the disk of its state is full; free some space there, or move it to a larger disk",
        "None",
    ]
    assert child.returncode == 0


def test_where_no_more_files_may_be_open_callers_come_again(start: Children, tmp_path: Path) -> None:
    told, _ = start(OPEN, tmp_path).communicate()
    assert told == (
        "503 True this server has as many files open as it may; come again in a moment. Whoever runs it can raise the "
        "limit: `ulimit -n`, or LimitNOFILE= in its unit\n"
    )


def test_a_directory_that_is_gone_is_a_problem_too(tmp_path: Path) -> None:
    gone = "the directory of its state cannot be used: No such file or directory"
    assert disk_errors.find_problem(tmp_path / "gone") == gone
