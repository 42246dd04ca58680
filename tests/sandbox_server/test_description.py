"""The OpenAPI description is valid, has every route of the real server and no other, and its answers are as it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, get_args

import jsonschema
import msgspec
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31

from belljar.config import PACKAGES
from belljar.errors import BelljarError
from belljar.sandbox.base import TIERS
from belljar.sandbox.codec import EPOCH, decode_attachment, decode_cell, decode_spec, decode_terms, encode_output
from belljar.sandbox.outputs import Display, Error, Exit, FileChanged, Output, Result, Stderr, Stdout
from belljar.sandbox.server import bodies
from belljar.sandbox.server.bodies import ExitLine
from belljar.sandbox.server.execute import decode_execution
from belljar.wire.tools import Tier

from .conftest import Box, Client, Told
from .live import described

DESCRIBED: dict[str, Any] = described()
VERBS = ("get", "put", "post", "delete", "patch")
SANDBOX = "/v1/sandboxes/{id}"


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DESCRIBED["paths"].items():
        for verb, operation in item.items():
            assert verb in VERBS
            yield path, verb, operation


def schema_of(content: dict[str, Any]) -> dict[str, Any]:
    [one] = content.values()
    schema: dict[str, Any] = one["schema"]
    return schema


def taken(path: str, method: str) -> dict[str, Any]:
    """The schema of a request's body."""
    return schema_of(DESCRIBED["paths"][path][method]["requestBody"]["content"])


def given(path: str, method: str, status: str = "200") -> dict[str, Any]:
    """The schema of an answer, or of each line of it."""
    return schema_of(DESCRIBED["paths"][path][method]["responses"][status]["content"])


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = DESCRIBED["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def fits(told: object, schema: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator({**DESCRIBED, **schema}).is_valid(told))


def validate(told: object, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator({**DESCRIBED, **schema}).validate(told)


# -- the whole --------------------------------------------------------------------------------------------------------


def test_it_is_openapi() -> None:
    jsonschema.Draft202012Validator(OPENAPI_31).validate(DESCRIBED)
    for schema in DESCRIBED["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_it_has_every_route_and_no_other(client: Client) -> None:
    routes = client.app.routes
    found = {(path, verb) for path, verb, _ in operations()}
    assert found == {(route.template.replace("+}", "}"), route.method.lower()) for route in routes}
    assert len(found) == len(routes)


async def test_every_route_is_there(client: Client) -> None:
    """The server knows each path with its method, and these methods alone."""
    for path, item in DESCRIBED["paths"].items():
        async with client.open("PATCH", path.replace("{", "").replace("}", "")) as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, ", ".join(item).upper())


def test_operations_are_told_apart() -> None:
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids))


def test_which_need_no_token() -> None:
    free = {path for path, _, operation in operations() if operation.get("security") == [{}]}
    assert free == {"/health", "/healthz"}


def test_what_gives_nothing_says_so() -> None:
    empty = {(path, verb) for path, verb, operation in operations() if "204" in operation["responses"]}
    assert empty == {
        (SANDBOX, "delete"),
        (f"{SANDBOX}/interrupt", "post"),
        (f"{SANDBOX}/restart", "post"),
        (f"{SANDBOX}/packages", "post"),
        (f"{SANDBOX}/files/{{name}}", "delete"),
    }
    for path, verb in empty:
        responses = DESCRIBED["paths"][path][verb]["responses"]
        assert "content" not in responses["204"]
        assert "200" not in responses


def test_what_is_of_lines_says_so() -> None:
    lined = {
        path for path, _, operation in operations() if "application/x-ndjson" in json.dumps(operation["responses"])
    }
    assert lined == {"/v1/sandboxes", f"{SANDBOX}/attach", f"{SANDBOX}/cells"}


def test_whoever_holds_a_sandbox_can_say_so() -> None:
    """Every request about one takes the epoch, and may be refused for it."""
    about_one = {(path, verb) for path, verb, _ in operations() if path.startswith(f"{SANDBOX}")}
    fenced = {(path, verb) for path, verb, operation in operations() if "409" in operation["responses"]}
    told = {
        (path, verb)
        for path, verb, operation in operations()
        if any(one["in"] == "header" and one["name"] == EPOCH for one in operation.get("parameters", []))
    }
    assert fenced == about_one
    assert told == about_one - {(f"{SANDBOX}/attach", "post")}  # which says it in its body


def test_errors_of_execute_are_its_own() -> None:
    responses = DESCRIBED["paths"]["/execute"]["post"]["responses"]
    assert responses["429"]["description"] == "At capacity"
    assert responses["429"]["content"] == responses["default"]["content"]
    assert resolved(given("/execute", "post", "default"))["properties"] == {"error": {"type": "string"}}


# -- the types, against those who read and write ----------------------------------------------------------------------

READERS: dict[str, Callable[[Any], object]] = {
    "/v1/sandboxes": lambda told: (decode_spec(told), decode_terms(told)),
    f"{SANDBOX}/attach": decode_attachment,
    f"{SANDBOX}/cells": decode_cell,
    "/execute": lambda told: decode_execution(json.dumps(told).encode()),
}


def bodies_of(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    told = {"request": operation.get("requestBody", {}), **operation["responses"]}
    for what, body in told.items():
        for content in body.get("content", {}).values():
            yield what, content


EXAMPLES = [
    pytest.param(content["schema"], example["value"], id=f"{verb}-{path}-{what}-{number}")
    for path, verb, operation in operations()
    for what, content in bodies_of(operation)
    for number, example in content.get("examples", {}).items()
]


@pytest.mark.parametrize(("schema", "example"), EXAMPLES)
def test_examples_are_as_described(schema: dict[str, Any], example: Told) -> None:
    validate(example, schema)
    assert not fits([example], schema)


@pytest.mark.parametrize("path", READERS)
def test_examples_of_requests_are_read(path: str) -> None:
    [content] = DESCRIBED["paths"][path]["post"]["requestBody"]["content"].values()
    assert content["examples"]
    for example in content["examples"].values():
        READERS[path](example["value"])


@pytest.mark.parametrize(
    ("path", "told", "right"),
    [
        ("/v1/sandboxes", {}, True),
        ("/v1/sandboxes", {"limits": {"cpus": None, "memory": 1 << 30}, "packages": "data"}, True),
        ("/v1/sandboxes", {"packages": "some"}, False),
        ("/v1/sandboxes", {"requirements": "rich"}, False),
        ("/v1/sandboxes", {"limits": {"memory": "1g"}}, False),
        ("/v1/sandboxes", {"memory": 1}, False),
        ("/v1/sandboxes", {"epoch": 1, "keep": 0, "wait": 0.5}, True),
        ("/v1/sandboxes", {"epoch": 0}, False),
        ("/v1/sandboxes", {"epoch": 1.5}, False),
        ("/v1/sandboxes", {"epoch": 1, "keep": 86_401}, False),
        ("/v1/sandboxes", {"wait": -1}, False),
        (f"{SANDBOX}/attach", {"epoch": 1 << 53}, True),
        (f"{SANDBOX}/attach", {"epoch": 2, "keep": 1.5}, True),
        (f"{SANDBOX}/attach", {}, False),
        (f"{SANDBOX}/attach", {"epoch": 2, "wait": 1}, False),
        (f"{SANDBOX}/cells", {"code": "", "timeout": None}, True),
        (f"{SANDBOX}/cells", {"code": "1", "timeout": 0}, False),
        (f"{SANDBOX}/cells", {"timeout": 1}, False),
        (f"{SANDBOX}/cells", {"code": "1", "lang": "r"}, False),
        ("/execute", {"code": "1", "memory": "64g", "timeout_seconds": 3600}, True),
        ("/execute", {"code": "1", "memory": "2g"}, False),
        ("/execute", {"code": "1", "timeout_seconds": 3601}, False),
        ("/execute", {"code": "", "requirements": []}, False),
        ("/execute", {"code": "1", "files": {"a": 1}}, False),
    ],
)
def test_what_is_described_is_what_is_read(path: str, told: Told, right: bool) -> None:
    assert fits(told, taken(path, "post")) is right
    try:
        READERS[path](told)
    except BelljarError:
        assert not right
    else:
        assert right


def test_choices_are_those_of_the_settings() -> None:
    assert get_args(Tier) == tuple(TIERS)
    assert resolved(taken("/v1/sandboxes", "post"))["properties"]["packages"]["enum"] == list(PACKAGES)


OUTPUTS: list[Output] = [
    Stdout("a"),
    Stderr("a"),
    Display({"text/plain": "a", "image/png": b"a"}),
    Result({"text/plain": "a"}),
    FileChanged("a", 1, 2.0, "text/plain", "created"),
    Exit("raised", error=Error("a", "b", "c")),
    Exit("ok"),
]


def test_every_output_is_encoded_as_its_line() -> None:
    assert {type(one) for one in OUTPUTS} == set(get_args(Output))
    lines = {one.__struct_config__.tag: one for one in get_args(bodies.OutputLine)}
    for output in OUTPUTS:
        told = encode_output(output)
        line = lines.pop(told["type"], ExitLine)
        assert list(told) == ["type", *line.__struct_encode_fields__]
        assert msgspec.convert(told, line, strict=True)
    assert set(lines) == {"error", None}


# -- the answers ------------------------------------------------------------------------------------------------------


async def test_the_server_tells_it(client: Client) -> None:
    assert await client.ask("GET", "/openapi.json") == (200, DESCRIBED)


async def test_answers_are_as_described(client: Client, box: Box) -> None:
    status, health = await client.ask("GET", "/health")
    validate(health, given("/health", "get"))
    assert status == 200
    assert set(health) <= set(resolved(given("/health", "get"))["properties"])
    for method, path, schema in (
        ("GET", "/v1/packages", given("/v1/packages", "get")),
        ("GET", box.path, given(SANDBOX, "get")),
        ("GET", f"{box.path}/files", given(f"{SANDBOX}/files", "get")),
        ("GET", "/nowhere", given(SANDBOX, "get", "default")),
        ("GET", "/execute", given(SANDBOX, "get", "default")),
        ("POST", "/v1/sandboxes/nobody/cells", given(f"{SANDBOX}/cells", "post", "default")),
    ):
        _, told = await client.ask(method, path)
        validate(told, schema)
    _, told = await box.ask("PUT", "/files/x.txt", data=b"1")
    validate(told, given(f"{SANDBOX}/files/{{name}}", "put"))
    code = "import sys\nprint(1)\nprint(2, file=sys.stderr)\ndisplay(3)\nopen('y', 'w').close()\n4"
    lines = [*await box.run(code), *await box.run("1 / 0"), *await box.run("import os; os._exit(1)")]
    assert {line["type"] for line in lines} == {"stdout", "stderr", "display", "result", "file_changed", "exit"}
    for line in lines:
        validate(line, given(f"{SANDBOX}/cells", "post"))


async def test_executions_are_as_described(client: Client) -> None:
    for body, status in (
        ({"code": "open('x', 'w').close(); 1"}, "200"),
        ({"code": "1 / 0"}, "200"),
        ({"code": ""}, "default"),
        ({"code": "1", "timeout_seconds": 10**6}, "default"),
    ):
        _, told = await client.ask("POST", "/execute", json=body)
        schema = given("/execute", "post", status)
        validate(told, schema)
        assert set(told) <= set(resolved(schema)["properties"])
