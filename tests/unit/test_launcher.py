"""The launcher's look at its host: one that is killed closes its sockets before its end can be heard of."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from belljar.sandbox.local import launcher


def test_who_is_on_its_way_out() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        pidfd = os.pidfd_open(child.pid)
        try:
            assert not launcher._is_exiting(pidfd)
            child.send_signal(signal.SIGKILL)
            os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
            assert launcher._is_exiting(pidfd), "dead, and nobody has asked how"
            child.wait()
            assert launcher._is_exiting(pidfd), "gone"
        finally:
            os.close(pidfd)
