"""Names of files that code made: paths that stay below whatever they are put into, told apart, and fit for people."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable

_WORKSPACE = "/mnt/data/"


def is_figure(file_id: str, name: str) -> bool:
    """Whether this is a picture that code only showed: it has its id for a name."""
    return bool(file_id) and name.startswith(file_id)


def figure(number: int, name: str) -> str:
    """What a page calls it."""
    return f"figure-{number}{os.path.splitext(name)[1]}"


def below(path: str) -> str:
    """A path as a vendor tells it, as one that stays below whatever it is put into.

    It is taken from the workspace on; what is elsewhere in the vendor's sandbox goes by its name.
    """
    plain = path.removeprefix(_WORKSPACE).replace("\\", "/").replace("\0", "")
    names = plain.encode(errors="replace").decode().split("/")
    if plain.startswith("/"):
        names = names[-1:]
    return "/".join(name for name in names if name not in ("", ".", "..")) or "output"


def paths_by_id(file_ids: Iterable[str], paths: Iterable[str]) -> dict[str, str]:
    """Where below the workspace a cell's files are, as our gateway tells; pictures, which come last, have no paths."""
    return dict(zip(file_ids, paths, strict=False))


def free_name(path: str, taken: Container[str]) -> str:
    """The path, or where it is taken the same with a number."""
    directory, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    number, free = 1, path
    while free in taken:
        number += 1
        free = f"{directory}{slash}{stem}-{number}{dot}{ending}"
    return free


def alone(path: str) -> str:
    """The name without its directories."""
    return path.rpartition("/")[2]
