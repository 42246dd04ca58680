"""What the host finds in a workspace that its code has closed to its own user: a line of JSON. For an ordinary user."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from belljar.errors import BelljarError
from belljar.sandbox.local.files import Files


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    (folder / "a/b").mkdir(parents=True)
    for name in ("top.txt", "a/b/deep.txt", "a/secret.txt"):
        (folder / name).write_text(name)
    files = Files(os.open(folder, os.O_PATH), owner=None, quota=1 << 20)
    found: dict[str, object] = {}

    def attempt(what: str, action: Callable[[], object]) -> None:
        for name in ("a/secret.txt", "a/b", "a", "."):
            os.chmod(folder / name, 0)
        try:
            found[what] = action()
        except (BelljarError, OSError) as error:
            found[what] = f"{type(error).__name__}: {error}"
        for name in (".", "a", "a/b"):
            os.chmod(folder / name, 0o700)

    attempt("list", lambda: [file.name for file in files.list()])
    attempt("read", lambda: files.read("a/secret.txt").decode())
    attempt("write", lambda: files.write("a/b/new.txt", b"x").name)
    attempt("delete", lambda: files.delete("a/b/new.txt"))
    attempt("glance", lambda: [change.name for change in files.glance().changes])  # type: ignore[union-attr]
    files.close()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
