"""A response of the Responses API as an answer: what was said, called, run and cited. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from belljar.adapters.turns import Answer, Call, HostedCall
from belljar.providers.output_names import paths_by_id
from belljar.providers.tool_converters import Tool, tool_call
from belljar.runtime import TokenUsage

_CALL = "_call"
_FUNCTION = "function_call"
_ENDS: Mapping[str, Literal["length", "filtered"]] = {"content_filter": "filtered", "max_output_tokens": "length"}


def read(payload: Mapping[str, Any], tools: Sequence[Tool] = ()) -> Answer:
    """`tools` are the functions that were offered: where a strict schema made the model say null, theirs is meant."""
    output = _with_paths(payload.get("output") or ())
    said = [_text(item) for item in output if item["type"] == "message"]
    parts = [part for item in output if item["type"] == "message" for part in item["content"]]
    refusals = [part["refusal"] for part in parts if part["type"] == "refusal"]
    reason = (payload.get("incomplete_details") or {}).get("reason", "")
    return Answer(
        text="\n\n".join(filter(None, said)),
        last=said[-1] if said else "",
        refusal="\n".join(refusals) or None,
        calls=[_call(item, tools) for item in output if item["type"] == _FUNCTION],
        hosted=_hosted(output),
        annotations=_annotations(parts),
        usage=_usage(payload.get("usage") or {}),
        finish=_ENDS.get(reason, "length") if payload.get("status") == "incomplete" else "stop",
        id=payload.get("id"),
    )


def _call(item: Mapping[str, Any], tools: Sequence[Tool]) -> Call:
    made = tool_call(item["call_id"], item["name"], item["arguments"], tools)
    return Call(made["id"], made["name"], made.get("invalid", made["input"]))


def _text(message: Mapping[str, Any]) -> str:
    """A refusal is something said, too."""
    return "".join(part.get("text") or part.get("refusal") or "" for part in message["content"])


def _annotations(parts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for part in parts for one in part.get("annotations") or ()]


def _with_paths(output: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Our gateway tells with each call where its files are; on the wire it shares with OpenAI, citations do not."""
    paths: dict[str, str] = {}
    for end in (item["belljar"] for item in output if item.get("belljar")):
        paths |= paths_by_id(end.get("file_ids", ()), end.get("files", ()))
    return [_located(item, paths) if paths and item["type"] == "message" else item for item in output]


def _located(message: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    def place(one: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**one, "path": paths[one["file_id"]]} if one.get("file_id") in paths else one

    content = [
        {**part, "annotations": [place(one) for one in part.get("annotations") or ()]} for part in message["content"]
    ]
    return {**message, "content": content}


def _hosted(output: Sequence[Mapping[str, Any]]) -> list[HostedCall]:
    """Each call with what later messages cite of it."""
    calls: list[dict[str, Any]] = []
    for item in output:
        if item["type"].endswith(_CALL) and item["type"] != _FUNCTION:
            calls.append({**item, "annotations": []})
        elif item["type"] == "message":
            for annotation in _annotations(item["content"]):
                maker = next((call for call in calls[::-1] if _made(call, annotation)), None)
                if maker is not None:
                    maker["annotations"].append(annotation)
    return [HostedCall(call.get("id"), call["type"].removesuffix(_CALL), call) for call in calls]


def _made(call: Mapping[str, Any], annotation: Mapping[str, Any]) -> bool:
    """Whether the call made what is cited. Our gateway tells; of OpenAI's calls it is the last before the message."""
    if "belljar" not in call:
        return True
    return annotation.get("file_id") in call["belljar"].get("file_ids", ())


def _usage(usage: Mapping[str, Any]) -> TokenUsage:
    cached = (usage.get("input_tokens_details") or {}).get("cached_tokens")
    return TokenUsage(usage.get("input_tokens"), usage.get("output_tokens"), cached)
