"""Strict checks of shapes: by the SDK's own types, by OpenAI's description, by that of Open Responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

from jsonschema import Draft202012Validator
from openai.types import responses
from pydantic import BaseModel, ValidationError

DATA = Path(__file__).parents[1] / "data"
OURS = "belljar:code_interpreter_call.output.delta"
FAILED = "response.code_interpreter_call.failed"
"""The only events of ours that OpenAI does not know."""
UNKNOWN_TO_THE_SDK = frozenset(
    {
        "Response.store",  # on the real wire
        "Response.presence_penalty",  # asked for by Open Responses
        "Response.frequency_penalty",
        "ResponseFunctionCallArgumentsDoneEvent.name",  # openai 2.x and the description require it
        "ResponseCustomToolCall.status",  # in the description, of items that have an id
        "Response.belljar",  # our own
        "ResponseCodeInterpreterToolCall.belljar",
    }
)


# -- the SDK ----------------------------------------------------------------------------------------------------------


def by_sdk(value: Any, model: type[BaseModel]) -> None:
    """Its type takes the value as it is, without converting anything, and knows every key in it."""
    try:
        made = model.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise AssertionError(f"not a {model.__name__}: {_told(error)}\n{json.dumps(value)[:2000]}") from None
    unknown = set(_unknown(made)) - UNKNOWN_TO_THE_SDK
    assert not unknown, f"the SDK does not know {sorted(unknown)}"


def _told(error: ValidationError) -> str:
    """Without the members of unions that the value does not claim to be."""
    found = error.errors(include_url=False, include_context=False)
    others = {one["loc"][:-1] for one in found if one["loc"][-1] == "type" and one["type"] == "literal_error"}
    told = [one for one in found if not any(one["loc"][: len(other)] == other for other in others)]
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in told or found)


def event_by_sdk(event: dict[str, Any]) -> None:
    if event["type"] == "error":  # nested on the wire, flat in the SDK, which raises it before it looks at its type
        event = {**event, **event["error"], "type": "error"}
        del event["error"]
    by_sdk(event, sdk_event(event["type"]))


@cache
def sdk_event(type: str) -> type[BaseModel]:
    union, *_ = get_args(responses.ResponseStreamEvent)
    [found] = [one for one in get_args(union) if type in get_args(one.model_fields["type"].annotation)]
    return found  # type: ignore[no-any-return]


def _unknown(value: object) -> Iterator[str]:
    if isinstance(value, BaseModel):
        for name in value.model_extra or ():
            yield f"{type(value).__name__}.{name}"
        for name in type(value).model_fields:
            yield from _unknown(getattr(value, name))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _unknown(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _unknown(one)


# -- OpenAI's description ---------------------------------------------------------------------------------------------


def _null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


@cache
def openai_description() -> dict[str, Any]:
    """As published, but for where OpenAI's own recorded traffic does not follow it, and we follow the traffic."""
    described: dict[str, Any] = json.loads((DATA / "openai-subset.json").read_text())
    schemas = described["components"]["schemas"]
    shared, response = schemas["ModelResponseProperties"]["properties"], schemas["Response"]["allOf"][-1]["properties"]
    shared["user"] = _null(shared["user"])
    response["usage"] = _null(response["usage"])
    file = schemas["OpenAIFile"]["properties"]
    file["expires_at"], file["status_details"] = _null(file["expires_at"]), _null(file["status_details"])
    error = schemas["ResponseErrorEvent"]
    nested = {"type": "object", "properties": error["properties"], "required": ["code", "message", "param", "type"]}
    nested["properties"] = {**error["properties"], "type": {"type": "string"}}
    error["properties"] = {name: error["properties"][name] for name in ("type", "sequence_number")} | {"error": nested}
    error["required"] = ["type", "sequence_number", "error"]
    return described


@cache
def _schema_of_event(type: str) -> str:
    schemas = openai_description()["components"]["schemas"]
    names = [one["$ref"].rpartition("/")[2] for one in schemas["ResponseStreamEvent"]["anyOf"]]
    [found] = [name for name in names if type in schemas[name]["properties"]["type"]["enum"]]
    return str(found)


def by_openai(value: Any, name: str) -> None:
    _check(value, name, openai_description)


def event_by_openai(event: dict[str, Any]) -> None:
    by_openai(event, _schema_of_event(event["type"]))


# -- Open Responses ---------------------------------------------------------------------------------------------------


@cache
def open_responses() -> dict[str, Any]:
    described: dict[str, Any] = json.loads((DATA / "openresponses-2026-04-24.json").read_text())
    return described


@cache
def _schema_of_open_event(type: str) -> str:
    schemas = open_responses()["components"]["schemas"]
    [found] = [
        name
        for name, schema in schemas.items()
        if name.endswith("StreamingEvent") and type in schema["properties"]["type"]["enum"]
    ]
    return str(found)


def by_open_responses(value: Any, name: str) -> None:
    _check(value, name, open_responses)


def event_by_open_responses(event: dict[str, Any]) -> None:
    by_open_responses(event, _schema_of_open_event(event["type"]))


# -- one validator a schema -------------------------------------------------------------------------------------------


def _check(value: Any, name: str, description: Any) -> None:
    errors = sorted(_validator(name, description).iter_errors(value), key=lambda error: list(map(str, error.path)))
    assert not errors, f"not a {name}: " + "; ".join(f"{one.json_path}: {one.message[:600]}" for one in errors)


@cache
def _validator(name: str, description: Any) -> Draft202012Validator:
    schema = {"$ref": f"#/components/schemas/{name}", "components": description()["components"]}
    return Draft202012Validator(schema)
