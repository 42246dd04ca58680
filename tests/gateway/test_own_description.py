"""Whatever is asked by the gateway's own /openapi.json, or against it, the answer is as described and never a 5xx."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from requests import Session
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)
from tests.gateway.houses import House
from tests.gateway.wiretap import Wire
from tests.unit.server.fakes import EngineServices

from belljar.gateway.server.app import GatewayApp
from belljar.gateway.server.options import ServerOptions
from belljar.gateway.server.routes.description import ABOUT
from belljar.http_server.openapi import describe

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
ELSEWHERE = ("previous_response_id", "conversation", "prompt_cache_options", "context_management")
"""Members of a request that need something else to be there."""


def description() -> dict[str, Any]:
    """Of a gateway with everything that it can have, asked for the model that is there."""
    routes = GatewayApp(EngineServices().services, ServerOptions(project=Path())).routes
    described = cast(dict[str, Any], copy.deepcopy(msgspec.to_builtins(describe(ABOUT, routes))))
    for name in ("ResponseBody", "CountBody", "CompactBody", "ChatBody"):
        properties = described["components"]["schemas"][name]["properties"]
        properties["model"] = {"const": "belljar"}
        for member in ELSEWHERE:
            properties.pop(member, None)
    for path, method in (("/v1/responses", "post"), ("/v1/responses/{id}", "get"), ("/v1/chat/completions", "post")):
        # Frames are not events; what is in them is checked in test_schemas.
        described["paths"][path][method]["responses"]["200"]["content"]["text/event-stream"] = {}
    content = described["paths"]["/v1/containers/{id}/files"]["post"]["requestBody"]["content"]
    for media in [media for media in content if media not in ("application/json", "multipart/form-data")]:
        del content[media]  # archives, which are made by hand in test_files
    return described


schema = schemathesis.openapi.from_dict(description())
schema.config.phases.coverage.enabled = False  # every bound of every field, which takes minutes


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    home = tmp_path_factory.mktemp("described")
    (home / "project").mkdir()
    (home / "project" / "known.csv").write_text("1")
    with House(home / "state", "--project", str(home / "project")) as house:
        yield house


@pytest.fixture(scope="module")
def known(own: House) -> Mapping[str, str]:
    """Ids of things that are there, by what stands before them in a path."""
    wire = Wire(own.base_url)
    container = wire.post("/containers", {"name": "known"})["id"]
    conversation = wire.post("/conversations", {"items": [{"role": "user", "content": "hi"}]})["id"]
    items = wire.send("GET", f"/conversations/{conversation}/items").json["data"]
    return {
        "responses": wire.post("/responses", {"model": "belljar", "input": "Hello."})["id"],
        "containers": container,
        "conversations": conversation,
        "items": items[0]["id"],
        "files": wire.upload("/files", "known.csv", b"1", purpose="user_data").json["id"],
        "containers files": wire.upload(f"/containers/{container}/files", "known.csv", b"1").json["id"],
        "models": "belljar",
        "web": "index.html",
    }


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as session:
        yield session


@schema.parametrize()
@settings(max_examples=6, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_described(case: Case[Any], own: House, known: Mapping[str, str], session: Session) -> None:
    if case.method != "DELETE" and case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        segments = case.path.split("/")
        for at, segment in enumerate(segments):
            if segment.startswith("{"):
                before = segments[at - 1]
                nested = f"{segments[1] if segments[1] != 'v1' else segments[2]} {before}"
                case.path_parameters[segment.strip("{}")] = known.get(nested) or known[before]
        if isinstance(case.body, dict) and "container_id" in case.body:
            case.body |= {"container_id": known["containers"], "file_ids": [known["containers files"]]}
    case.call_and_validate(base_url=own.base_url.removesuffix("/v1"), session=session, checks=CHECKS)
