"""A server's list of models, read: their names, what little it tells of them, and why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from belljar.models import supports_vision
from belljar.vendors import errors
from belljar.vendors.registry import sees_pictures

_LOADS = "it is still loading its model"


class Listed(Struct, frozen=True):
    """A model as its server lists it."""

    created: int = 0
    sees: bool = False
    owner: str = ""
    """Whose the server says it is; some servers tell by it what they are."""


class MissingList(Struct, frozen=True):
    """Why there is no list."""

    why: str
    loading: bool = False
    """It will be there in a while."""
    locked: bool = False
    """Another key may open it."""
    kind: str | None = None
    """The row of quirks of a server that can be told by how it says so."""


def judge(status: int, body: bytes) -> dict[str, Listed] | MissingList:
    """What a server answered that was asked for its models."""
    listed = read_list(body) if status == 200 else None
    if listed is not None:
        return listed
    words = body[:2000].decode(errors="replace")
    if errors.is_loading(status, words):
        return MissingList(_LOADS, loading=True, kind="llama_cpp" if "unavailable_error" in words else None)
    if status in (401, 403):
        return MissingList(f"it wants a key ({status})", locked=True)
    return MissingList(f"it answered {status}" + (" without a list" if status == 200 else ""))


def read_list(body: bytes) -> dict[str, Listed] | None:
    """The models by name; None if this is no such list."""
    try:
        listed = msgspec.json.decode(body, type=_List)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    data = listed.data
    if data is None:
        if listed.models:
            return _read_by_method(listed.models)
        return {} if listed.object == "list" else None  # Ollama writes null where it has no models
    return {one["id"]: _read_model(one) for one in data if isinstance(one.get("id"), str) and one["id"]}


def sees(name: str) -> bool:
    """Whether a model of this name is likely to see images: one that cannot would refuse the whole conversation."""
    known = supports_vision(name)
    return sees_pictures(name) if known is None else known


class _List(Struct):
    object: Any = None
    data: list[dict[str, Any]] | None = None
    models: list[dict[str, Any]] | None = None


def _read_by_method(models: list[dict[str, Any]]) -> dict[str, Listed]:
    """A list that tells by what method each model is asked: embedders and painters are in it too."""
    names = (
        str(one.get("name", "")).removeprefix("models/")
        for one in models
        if "generateContent" in (one.get("supportedGenerationMethods") or ())
    )
    return {name: Listed(0, sees(name)) for name in names if name}


def _read_model(model: Mapping[str, Any]) -> Listed:
    created, owner = model.get("created"), model.get("owned_by")
    told = _read_vision(model)
    return Listed(
        created if isinstance(created, int) else 0,
        sees(model["id"]) if told is None else told,
        owner if isinstance(owner, str) else "",
    )


def _read_vision(model: Mapping[str, Any]) -> bool | None:
    """What some servers say outright: by modalities, or by capabilities."""
    architecture, capabilities = model.get("architecture"), model.get("capabilities")
    if isinstance(architecture, Mapping) and isinstance(architecture.get("input_modalities"), list):
        return "image" in architecture["input_modalities"]
    if isinstance(capabilities, Mapping) and isinstance(capabilities.get("vision"), bool):
        return bool(capabilities["vision"])
    if isinstance(capabilities, list):
        return bool({"vision", "multimodal"} & set(map(str, capabilities)))
    return None
