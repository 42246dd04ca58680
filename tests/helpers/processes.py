"""A process that a test starts, and ends as its owner or as the kernel would."""

from __future__ import annotations

import signal
import subprocess


class OwnProcess:
    """Leaving its context stops it."""

    process: subprocess.Popen[str]

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
