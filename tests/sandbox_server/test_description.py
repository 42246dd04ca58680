"""The OpenAPI description is valid, has every route of the real server and no other, and its answers are as it says."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from typing import Any, cast

import jsonschema
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31

from belljar.sandbox.codec import read_cell, read_spec
from belljar.sandbox.server.app import App
from belljar.sandbox.server.description import describe
from belljar.sandbox.server.execute import read_execution

from .conftest import Box, Client, Told

DESCRIBED: dict[str, Any] = describe()
SCHEMAS: dict[str, Any] = DESCRIBED["components"]["schemas"]
VERBS = ("get", "put", "post", "delete", "patch")


def validate(told: object, schema: str) -> None:
    """Against one of the description's schemas."""
    jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{schema}", **DESCRIBED}).validate(told)


def routes() -> Iterator[tuple[str, str]]:
    """Every path and method that the server has, as its source says."""
    [match] = [
        node
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(App._find))))
        if isinstance(node, ast.Match)
    ]
    for case in match.cases:
        assert isinstance(case.pattern, ast.MatchSequence)
        parts = [
            cast(str, ast.literal_eval(part.value)) if isinstance(part, ast.MatchValue) else _variable(part)
            for part in case.pattern.patterns
        ]
        returned = case.body[-1]
        assert isinstance(returned, ast.Return)
        assert isinstance(returned.value, ast.Dict)
        for method in returned.value.keys:
            assert method is not None
            yield "/" + "/".join(parts), cast(str, ast.literal_eval(method)).lower()
    yield "/health", "get"
    yield "/healthz", "get"


def _variable(part: ast.pattern) -> str:
    assert isinstance(part, ast.MatchAs)
    return "{" + {"encoded": "name"}.get(str(part.name), str(part.name)) + "}"


def test_it_is_openapi() -> None:
    jsonschema.Draft202012Validator(OPENAPI_31).validate(DESCRIBED)
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_it_has_every_route_and_no_other() -> None:
    described = {(path, verb) for path, item in DESCRIBED["paths"].items() for verb in item if verb in VERBS}
    assert described == set(routes())


EXAMPLES = [
    pytest.param(name, example, id=f"{name}-{count}")
    for name, schema in SCHEMAS.items()
    for count, example in enumerate(schema.get("examples", []))
]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_examples_are_as_described(name: str, example: Told) -> None:
    validate(example, name)
    with pytest.raises(jsonschema.ValidationError):
        validate([example], name)
    if name == "Spec":
        read_spec(example)
    if name == "Cell":
        read_cell(example)
    if name == "Execution":
        read_execution(json.dumps(example).encode())


async def test_the_server_tells_it(client: Client) -> None:
    assert await client.ask("GET", "/openapi.json") == (200, DESCRIBED)


async def test_answers_are_as_described(client: Client, box: Box) -> None:
    status, health = await client.ask("GET", "/health")
    validate(health, "Health")
    assert status == 200
    assert set(health) <= set(SCHEMAS["Health"]["properties"])
    for method, path, schema in (
        ("GET", "/v1/packages", "Packages"),
        ("GET", box.path, "Sandbox"),
        ("GET", f"{box.path}/files", "Files"),
        ("GET", "/nowhere", "Failure"),
        ("GET", "/execute", "Failure"),
        ("POST", "/v1/sandboxes/nobody/cells", "Failure"),
    ):
        _, told = await client.ask(method, path)
        validate(told, schema)
    _, told = await box.ask("PUT", "/files/x.txt", data=b"1")
    validate(told, "File")
    code = "import sys\nprint(1)\nprint(2, file=sys.stderr)\ndisplay(3)\nopen('y', 'w').close()\n4"
    lines = [*await box.run(code), *await box.run("1 / 0"), *await box.run("import os; os._exit(1)")]
    assert {line["type"] for line in lines} == {"stdout", "stderr", "display", "result", "file_changed", "exit"}
    for line in lines:
        validate(line, "OutputLine")


async def test_executions_are_as_described(client: Client) -> None:
    for body, schema in (
        ({"code": "open('x', 'w').close(); 1"}, "Executed"),
        ({"code": "1 / 0"}, "Executed"),
        ({"code": ""}, "Plain"),
        ({"code": "1", "timeout_seconds": 10**6}, "Plain"),
    ):
        _, told = await client.ask("POST", "/execute", json=body)
        validate(told, schema)
        assert set(told) <= set(SCHEMAS[schema]["properties"])
