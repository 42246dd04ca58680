"""One gateway at a time in a directory."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from belljar.errors import BadSettings, InvalidRequest, OperatorError
from belljar.gateway.store import lock

HOLDER = """
import sys, pathlib
from belljar.gateway.store import lock
with lock.held(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_holder_is_refused_and_told_by_whom(tmp_path: Path) -> None:
    with lock.held(tmp_path), pytest.raises(InvalidRequest) as caught, lock.held(tmp_path):
        pass
    assert caught.value.param == "state_dir"
    for word in (str(tmp_path), f"process {os.getpid()} on {socket.gethostname()}", "--state-dir"):
        assert word in str(caught.value)


def test_it_is_free_again_afterwards_and_other_directories_always_are(tmp_path: Path) -> None:
    for _ in range(2):
        with lock.held(tmp_path / "one"), lock.held(tmp_path / "two"):
            pass
    with pytest.raises(ZeroDivisionError), lock.held(tmp_path / "one"):
        raise ZeroDivisionError
    with lock.held(tmp_path / "one"):
        pass


def test_the_kernel_takes_it_back_from_the_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(InvalidRequest, match=f"process {process.pid} on "), lock.held(tmp_path):
            pass
        process.kill()
    with lock.held(tmp_path):
        assert str(os.getpid()) in (tmp_path / lock.NAME).read_text()


def test_a_copy_of_the_descriptor_does_not_keep_it(tmp_path: Path) -> None:
    """As a process has that is being started at this moment."""
    place = tmp_path / lock.NAME
    with lock.held(tmp_path):
        [file] = [int(one) for one in os.listdir("/proc/self/fd") if Path("/proc/self/fd", one).resolve() == place]
        copy = os.dup(file)
    try:
        with lock.held(tmp_path):
            pass
    finally:
        os.close(copy)


@pytest.mark.parametrize("said", [b"", b"\x00\x07", b"\xff\xfe\n"])
def test_a_holder_that_has_not_said_who_it_is(tmp_path: Path, said: bytes) -> None:
    with lock.held(tmp_path):
        (tmp_path / lock.NAME).write_bytes(said)
        with pytest.raises(InvalidRequest, match="another process"), lock.held(tmp_path):
            pass


def test_a_directory_that_cannot_be_locked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OperatorError, match="cannot be used"), lock.held(tmp_path / "file"):
        pass
    (tmp_path / "target").touch()
    (tmp_path / lock.NAME).symlink_to(tmp_path / "target")
    with pytest.raises(OperatorError, match="cannot be used"), lock.held(tmp_path):
        pass
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(BadSettings, match="chmod o-w"), lock.held(tmp_path / "open"):
        pass
