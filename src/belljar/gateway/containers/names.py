"""Names of files as callers give them: checked, and how they stand to one another. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from belljar.errors import InvalidRequest
from belljar.gateway.store.base import ContainerFileRecord

MOUNT = "/mnt/data/"
LONGEST_PART = 255
LONGEST = 4000


def checked(name: str) -> str:
    """A path under /mnt/data, relative and exact in every character; `InvalidRequest` says what is wrong with it."""
    plain = name.removeprefix(MOUNT)
    parts = [part for part in plain.split("/") if part not in ("", ".")]
    if not parts or "\0" in plain:
        raise _invalid(name, "does not name a file; give a name without NUL, such as data.csv")
    if plain.startswith("/") or ".." in parts:
        raise _invalid(name, "leads out of /mnt/data; use a relative path without '..'")
    path = "/".join(parts)
    if path.isascii() and len(path) <= LONGEST_PART:  # as most are
        return path
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        raise _invalid(name, "has characters that no file name can hold; use UTF-8") from None
    if longest > LONGEST_PART or len(path.encode()) > LONGEST:
        raise _invalid(name, f"is too long; {LONGEST_PART} bytes between slashes and {LONGEST} in all are the most")
    return path


def clashing(paths: Collection[str]) -> str | None:
    """A path that would have to be a file and a directory at once."""
    folders: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return next((path for path in paths if path in folders), None) if folders else None


def apart(path: str, file_id: str) -> str:
    """Where an uploaded file goes when its own name is taken: as on OpenAI's wire."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{file_id}-{name}"


def placed_id(container_id: str, file_id: str) -> str:
    """The id of an uploaded file in a container. The same every time, so that asking twice places it once."""
    return f"cfile_{hashlib.sha256(f'{container_id}/{file_id}'.encode()).hexdigest()[:48]}"


def is_figure(record: ContainerFileRecord) -> bool:
    """Whether this is a picture that a cell showed: named by its id, kept in the store, not in the workspace."""
    return names_figure(record.path, record.id)


def names_figure(path: str, id: str) -> bool:
    return path.startswith(id)


def shown(path: str) -> str:
    """A path as a line of text can hold it: a break in a name must not read as a new line."""
    return path if path.isprintable() and path.strip() == path else repr(path)


def _invalid(name: str, problem: str) -> InvalidRequest:
    seen = repr(name) if len(name) <= 80 else f"{name[:80]!r}…"
    return InvalidRequest(f"file: the name {seen} {problem}", param="file")
