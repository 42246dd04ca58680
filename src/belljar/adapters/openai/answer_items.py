"""What only the items of OpenAI tell of an answer: its messages one by one, what it ran itself, what it cites. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from belljar.adapters.turns import HostedCall
from belljar.output_names import paths_by_id

Item: TypeAlias = Mapping[str, Any]

_CALL = "_call"
_OURS = ("function_call", "custom_tool_call")


def list_texts(items: Iterable[Item]) -> list[str]:
    """What each message says; a refusal is something said, too."""
    return ["".join(part.get("text") or part.get("refusal") or "" for part in parts) for parts in _contents(items)]


def list_annotations(items: Iterable[Item]) -> list[Item]:
    return [one for parts in _contents(items) for one in _annotations(parts)]


def list_hosted_calls(items: Iterable[Item]) -> list[HostedCall]:
    """Each call with what later messages cite of it."""
    calls: list[dict[str, Any]] = []
    for item in items:
        if item["type"].endswith(_CALL) and item["type"] not in _OURS:
            calls.append({**item, "annotations": []})
        elif item["type"] == "message":
            for annotation in _annotations(item["content"]):
                maker = next((call for call in calls[::-1] if _is_made_by(call, annotation)), None)
                if maker is not None:
                    maker["annotations"].append(annotation)
    return [HostedCall(call.get("id"), call["type"].removesuffix(_CALL), call) for call in calls]


def locate_citations(items: Sequence[Item]) -> list[Item]:
    """Our gateway tells with each call where its files are; on the wire it shares with OpenAI, citations do not."""
    paths: dict[str, str] = {}
    for end in (item["belljar"] for item in items if item.get("belljar")):
        paths |= paths_by_id(end.get("file_ids", ()), end.get("files", ()))
    return [_locate_files(item, paths) if paths and item["type"] == "message" else item for item in items]


def _contents(items: Iterable[Item]) -> list[Sequence[Item]]:
    return [item["content"] for item in items if item["type"] == "message"]


def _annotations(parts: Iterable[Item]) -> list[Item]:
    return [one for part in parts for one in part.get("annotations") or ()]


def _locate_files(message: Item, paths: Mapping[str, str]) -> Item:
    def place(one: Item) -> Item:
        return {**one, "path": paths[one["file_id"]]} if one.get("file_id") in paths else one

    content = [
        {**part, "annotations": [place(one) for one in part.get("annotations") or ()]} for part in message["content"]
    ]
    return {**message, "content": content}


def _is_made_by(call: Item, annotation: Item) -> bool:
    """Whether the call made what is cited. Our gateway tells; of OpenAI's calls it is the last before the message."""
    if "belljar" not in call:
        return True
    return annotation.get("file_id") in call["belljar"].get("file_ids", ())
