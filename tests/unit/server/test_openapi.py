"""/openapi.json is valid, has every route and no other, and what the gateway answers is as it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31
from tests.unit.server.conftest import FORM, Gateway, Opened, form

from belljar.http_server.routing import Found

VERBS = {"get", "put", "post", "delete"}


@pytest.fixture
def described(opened: Opened, tmp_path: Path) -> tuple[Gateway, dict[str, Any]]:
    """A gateway with everything that it can have, and what it says of itself."""
    gateway = opened(project=tmp_path)
    answer = gateway.ask("GET", "/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    return gateway, answer.json


def validate(document: dict[str, Any], path: str, method: str, status: str, told: object) -> None:
    content = document["paths"][path][method]["responses"][status]["content"]["application/json"]
    jsonschema.Draft202012Validator({**document, **content["schema"]}).validate(told)


def test_it_is_openapi(described: tuple[Gateway, dict[str, Any]]) -> None:
    _, document = described
    jsonschema.Draft202012Validator(OPENAPI_31).validate(document)
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_what_is_referred_to_is_there(described: tuple[Gateway, dict[str, Any]]) -> None:
    _, document = described
    assert references(document) == {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}


def test_it_has_every_route_and_no_other(described: tuple[Gateway, dict[str, Any]]) -> None:
    gateway, document = described
    found = {(path, verb) for path, item in document["paths"].items() for verb in item}
    assert {verb for _, verb in found} <= VERBS
    routes = gateway.app.routes
    assert found == {(route.template.replace("+}", "}"), route.method.lower()) for route in routes}
    assert len(found) == len(routes)
    for path, verb in found:
        assert isinstance(gateway.app.router.find(verb.upper(), path.replace("{", "").replace("}", "")), Found)


def test_operations_are_told_apart(described: tuple[Gateway, dict[str, Any]]) -> None:
    _, document = described
    ids = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(ids) == len(set(ids))


def test_without_the_page_it_has_none_of_its_routes(opened: Opened) -> None:
    document = opened(page=False).ask("GET", "/openapi.json").json
    assert [path for path in document["paths"] if path == "/" or path.startswith(("/web", "/belljar"))] == []
    assert "/v1/responses" in document["paths"]


def test_it_needs_no_key_and_says_which_do_not(described: tuple[Gateway, dict[str, Any]]) -> None:
    _, document = described
    free = {path for path, item in document["paths"].items() if item.get("get", {}).get("security") == [{}]}
    assert free == {"/", "/healthz", "/metrics", "/openapi.json", "/readyz", "/web/{name}"}


def test_answers_are_as_described(described: tuple[Gateway, dict[str, Any]]) -> None:
    gateway, document = described
    asked = {"model": "m", "input": "hi"}
    upload = form(('name="purpose"', b"user_data"), ('name="file"; filename="a.txt"', b"1"))
    for method, path, body, headers in (
        ("get", "/healthz", None, {}),
        ("get", "/readyz", None, {}),
        ("get", "/v1/models", None, {}),
        ("get", "/v1/files", None, {}),
        ("get", "/v1/containers", None, {}),
        ("get", "/belljar/page", None, {}),
        ("get", "/belljar/project", None, {}),
        ("post", "/v1/responses", asked, {}),
        ("post", "/v1/responses/input_tokens", asked, {}),
        ("post", "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "hi"}]}, {}),
        ("post", "/v1/files", upload, FORM),
        ("post", "/v1/containers", {"name": "c"}, {}),
    ):
        answer = gateway.ask(method.upper(), path, body, headers)
        assert answer.status == 200, (path, answer.body)
        validate(document, path, method, "200", answer.json)


def test_every_body_of_json_has_a_type(described: tuple[Gateway, dict[str, Any]]) -> None:
    """But for the description itself, whose type is OpenAPI's."""
    _, document = described
    loose = {
        path
        for path, item in document["paths"].items()
        for operation in item.values()
        for one in (operation.get("requestBody", {}), *operation["responses"].values())
        if one.get("content", {}).get("application/json", {}).get("schema") in ({}, {"type": "object"})
    }
    assert loose == {"/openapi.json"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", "/v1/files/{id}", None), ("POST", "/v1/responses", {"model": 1}), ("POST", "/v1/containers", {})],
)
def test_faults_are_as_described(
    described: tuple[Gateway, dict[str, Any]], method: str, path: str, body: object
) -> None:
    gateway, document = described
    answer = gateway.ask(method, path.replace("{id}", "file-none"), body)
    assert answer.status in (400, 404)
    validate(document, path, method.lower(), "default", answer.json)


@pytest.mark.parametrize(
    ("path", "body", "fits"),
    [
        ("/v1/responses", {"model": "m", "input": "hi", "temperature": 2}, True),
        ("/v1/responses", {"model": "m", "input": [{"role": "user", "content": "hi"}]}, True),
        ("/v1/responses", {"model": "m", "input": "hi", "temperature": 3}, False),
        ("/v1/responses", {"input": "hi"}, False),
        ("/v1/responses", {"model": "m", "input": 1}, False),
        ("/v1/containers", {"name": "c", "memory_limit": "4g"}, True),
        ("/v1/containers", {"name": "c", "memory_limit": "5g"}, False),
        ("/v1/conversations", {"metadata": {"a": "b"}}, True),
        ("/v1/conversations", {"metadata": {"a": 1}}, False),
        ("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "hi"}]}, True),
        ("/v1/chat/completions", {"model": "m", "messages": []}, False),
    ],
)
def test_what_is_described_is_what_is_taken(
    described: tuple[Gateway, dict[str, Any]], path: str, body: object, fits: bool
) -> None:
    """The types that are described are not the readers themselves: here they agree, on both sides of the line."""
    gateway, document = described
    schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert jsonschema.Draft202012Validator({**document, **schema}).is_valid(body) is fits
    assert (gateway.ask("POST", path, body).status == 200) is fits
