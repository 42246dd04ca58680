"""Render a kustomization, as far as the files of `deploy/kubernetes` use them: resources, and patches by JSON Patch.

Where there is a `kubectl`, `tests/kubernetes/test_manifests.py` holds it to the real thing.
"""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

Object: TypeAlias = dict[str, Any]

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
TREES = {
    name: KUBERNETES / path
    for name, path in (
        ("base", "."),
        ("gvisor", "overlays/gvisor"),
        ("kata", "overlays/kata"),
        ("trial", "overlays/trial"),
    )
}
_KNOWN = {"apiVersion", "kind", "resources", "patches"}


def render(folder: Path) -> list[Object]:
    """Objects that the caller may change."""
    return copy.deepcopy(_render(folder))


@cache
def _render(folder: Path) -> list[Object]:
    file = folder / "kustomization.yaml"
    wanted = yaml.safe_load(file.read_text())
    assert set(wanted) <= _KNOWN, f"{file}: this renderer does not know {set(wanted) - _KNOWN}"
    objects: list[Object] = []
    for name in wanted["resources"]:
        there = folder / name
        objects += render(there) if there.is_dir() else read(there)
    for patch in wanted.get("patches", ()):
        found = [one for one in objects if _is_target(one, patch["target"])]
        assert found, f"{file}: nothing is {patch['target']}"
        for one in found:
            for step in yaml.safe_load(patch["patch"]):
                _apply(one, step)
    return objects


def read(file: Path) -> list[Object]:
    return copy.deepcopy(_read(file))


@cache
def _read(file: Path) -> list[Object]:
    return [one for one in yaml.safe_load_all(file.read_text()) if one]


def _is_target(one: Object, target: Object) -> bool:
    assert set(target) == {"kind", "name"}
    return (one["kind"], one["metadata"]["name"]) == (target["kind"], target["name"])


def _apply(one: Object, step: Object) -> None:
    *path, last = step["path"].removeprefix("/").split("/")
    place: Any = one
    for name in path:
        place = place[int(name)] if isinstance(place, list) else place[name]
    match step["op"]:
        case "add" if last == "-":
            place.append(step["value"])
        case "add":
            assert last not in place, f"{step['path']} is there already"
            place[last] = step["value"]
        case "replace":
            assert last in place, f"{step['path']} is not there"
            place[last] = step["value"]
        case "remove":
            del place[last]
        case other:
            raise AssertionError(f"this renderer does not know {other}")
