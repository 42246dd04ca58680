"""Whatever is asked, by OpenAI's description or against it, the answer is a described one: never a 5xx, never a 422."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from requests import Session
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from tests.gateway.houses import House
from tests.gateway.shapes import openai_description
from tests.gateway.wiretap import Wire

READ = {
    "Tool": ["FunctionTool", "CodeInterpreterTool"],
    "Item": [
        "OutputMessage",
        "FunctionToolCall",
        "ReasoningItem",
        "CodeInterpreterToolCall",
        "CompactionSummaryItemParam",
    ],
}
"""Of the many kinds of tools and items, those that the gateway reads with the most care; all of them take minutes."""


def description() -> dict[str, Any]:
    """What there is to ask, bounded, with our models; all errors have the one body, which few operations describe."""
    described = copy.deepcopy(openai_description())
    schemas = described["components"]["schemas"]
    for name, kinds in READ.items():
        schemas[name]["oneOf"] = [{"$ref": f"#/components/schemas/{kind}"} for kind in kinds]
    body = schemas["CreateResponse"] = _merged(schemas["CreateResponse"], schemas)
    body["required"] = ["model", "input"]
    for name in ("prompt", "previous_response_id", "conversation", "stream_options"):  # need something else to be there
        del body["properties"][name]
    schemas["ContextManagementParam"]["properties"]["type"]["enum"] = ["compaction"]
    schemas["ReasoningModeEnum"] = {"type": "string", "enum": ["standard", "pro"]}
    for name in ("CompactResponseMethodPublicBody", "TokenCountsBody"):  # read as for a response, where all are tried
        for property, kind in (("input", "EasyInputMessage"), ("tools", "FunctionTool")):
            if property in schemas[name]["properties"]:
                some = {"type": "array", "items": {"$ref": f"#/components/schemas/{kind}"}}
                schemas[name]["properties"][property] = {"anyOf": [some, {"type": "null"}]}
    schemas["ModelIdsResponses"] = schemas["ModelIdsCompaction"] = {"type": "string", "enum": ["belljar"]}
    error = {
        "description": "",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}},
    }
    for operations in described["paths"].values():
        for operation in operations.values():
            operation["responses"] = {"200": operation["responses"]["200"], "default": error}
    described["paths"]["/files/{file_id}/content"]["get"]["responses"]["200"] = {"description": ""}
    for path, method in (("/responses", "post"), ("/responses/{response_id}", "get")):
        # Frames are not events; what is in them is checked in test_schemas.
        described["paths"][path][method]["responses"]["200"]["content"]["text/event-stream"] = {}
    schemas["ModelResponseProperties"]["properties"]["safety_identifier"]["anyOf"][0]["maxLength"] = (
        128  # as in the SDK
    )
    schemas["OpenAIFile"]["properties"]["purpose"]["enum"].append("evals")
    return cast(dict[str, Any], _plain(described))


def _merged(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """One object in place of `allOf`: else each part of it is tried alone, and none of them makes a request."""
    merged: dict[str, Any] = {"type": "object", "properties": {}}
    for part in schema["allOf"]:
        part = schemas[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        part = _merged(part, schemas) if "allOf" in part else part
        merged["properties"] |= part["properties"]
    return merged


def _plain(value: Any) -> Any:
    """Without discriminators, whose values would have to be names of schemas, and formats, which bind nobody."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if key not in ("discriminator", "format")}
    return [_plain(one) for one in value] if isinstance(value, list) else value


schema = schemathesis.openapi.from_dict(description())


@schemathesis.check
def never_422(ctx: Any, response: Any, case: Case[Any]) -> None:
    assert response.status_code != 422


CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, never_422]


@pytest.fixture(scope="module")
def known(house: House) -> Mapping[str, str]:
    """Ids of things that are there, by the name of the parameter; a container's file has the name of a file."""
    wire = Wire(house.base_url)
    container = wire.post("/containers", {"name": "known"})["id"]
    return {
        "response_id": wire.post("/responses", {"model": "belljar", "input": "Hello."})["id"],
        "container_id": container,
        "file_id": wire.upload("/files", "known.csv", b"1", purpose="user_data").json["id"],
        "container's file_id": wire.upload(f"/containers/{container}/files", "known.csv", b"1").json["id"],
    }


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as session:
        yield session


@schema.parametrize()
@settings(max_examples=10, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_described(case: Case[Any], house: House, known: Mapping[str, str], session: Session) -> None:
    if case.method != "DELETE" and case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        whose = "container's " if "container_id" in case.path_parameters else ""
        for name in case.path_parameters:
            case.path_parameters[name] = known[f"{whose}{name}" if name == "file_id" else name]
    case.call_and_validate(base_url=house.base_url, session=session, checks=CHECKS)
