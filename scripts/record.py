"""Record the sessions of the README: run the commands of its `console` blocks and write down what they print.

A block is a session in a directory of its own. A line that begins with `$ ` is a command; what follows, up to the next,
is what it printed. `--check` compares and writes nothing: the suite does that, so no session is made up.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "README.md"
_SESSION = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)


def replay(session: re.Match[str]) -> str:
    commands = [line for line in session[1].splitlines() if line.startswith("$ ")]
    with tempfile.TemporaryDirectory(prefix="belljar-session-") as folder:
        told = [f"{command}\n{printed(command.removeprefix('$ '), folder)}" for command in commands]
    return f"```console\n{''.join(told)}```"


def printed(command: str, folder: str) -> str:
    """What a command says, as a terminal shows it: both streams in their order."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return ran.stdout if not ran.stdout or ran.stdout.endswith("\n") else f"{ran.stdout}\n"


def main() -> None:
    page = PAGE.read_text()
    fresh = _SESSION.sub(replay, page)
    if "--check" not in sys.argv:
        PAGE.write_text(fresh)
    elif fresh != page:
        sys.exit(f"README.md: a session goes otherwise by now; run `make record`\n{_difference(page, fresh)}")


def _difference(page: str, fresh: str) -> str:
    import difflib

    lines = difflib.unified_diff(page.splitlines(), fresh.splitlines(), "as recorded", "as it went", lineterm="")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
