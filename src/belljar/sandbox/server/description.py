"""The server's interface as OpenAPI 3.1, in one place: what may be asked, and what comes back. Data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TypeAlias, get_args

from belljar import __version__
from belljar.config import PACKAGES
from belljar.sandbox.base import TIERS, Limits
from belljar.sandbox.outputs import Limit, Reason
from belljar.sandbox.server.execute import LONGEST_TIMEOUT, USUAL_MEMORY, USUAL_TIMEOUT

Schema: TypeAlias = dict[str, object]

_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_BASE64: Schema = {"type": "string", "contentEncoding": "base64"}
_KINDS: Mapping[str, object] = {
    "int": "integer",
    "float": "number",
    "int | None": ["integer", "null"],
    "float | None": ["number", "null"],
}


def describe() -> dict[str, object]:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Belljar sandbox server",
            "version": __version__,
            "summary": "Python under glass, over HTTP.",
            "description": "`/v1` is a stateful sandbox that lives as long as the connection that asked for it; "
            "`/execute` runs code in a fresh one and answers once.",
        },
        "security": [{"token": []}, {}],
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "parameters": {
                "id": {"name": "id", "in": "path", "required": True, "schema": _TEXT, "example": "sbx_4f9c"},
                "name": {
                    "name": "name", "in": "path", "required": True, "schema": _TEXT, "example": "data.csv",
                    "description": "A path relative to /mnt/data. Percent-encode its bytes, which need not be UTF-8.",
                },
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Where the server has a token."}
            },
        },
    }  # fmt: skip


# -- paths -------------------------------------------------------------------------------------------------------------


def _paths() -> dict[str, object]:
    id, name = {"$ref": "#/components/parameters/id"}, {"$ref": "#/components/parameters/name"}
    health: Schema = {
        "summary": "How the server is; needs no token",
        "security": [{}],
        "responses": {"200": _json("Health", "Ready"), "503": _json("Health", "Starting, stopping, or failed")},
    }
    sandbox = "/v1/sandboxes/{id}"
    return {
        "/health": {"get": health},
        "/healthz": {"get": health},
        "/openapi.json": {"get": _operation("This description", {"200": _json(None, "OpenAPI 3.1")})},
        "/execute": {
            "post": {
                "summary": "Run code in a fresh sandbox, and answer when it has ended",
                "requestBody": _body("Execution"),
                "responses": {
                    "200": _json("Executed", "It ran, or its packages cannot be had; `status` says how it went"),
                    "429": _json("Plain", "At capacity"),
                    "default": _json("Plain", "It did not run"),
                },
            }
        },
        "/v1/packages": {"get": _operation("What is installed", {"200": _json("Packages", "By name")})},
        "/v1/sandboxes": {
            "post": _operation(
                "Make a sandbox, and keep it for as long as the answer stays open",
                {"200": _lines("LeaseLine", "The id on the first line; then empty objects; why it ended, if it did")},
                body="Spec",
            )
        },
        sandbox: {
            "parameters": [id],
            "get": _operation("Whether it lives", {"200": _json("Sandbox", "It does, or has just ended")}),
            "delete": _operation("End it", {"204": {"description": "It is gone"}}),
        },
        f"{sandbox}/cells": {
            "parameters": [id],
            "post": _operation(
                "Run a cell; closing the connection stops it",
                {"200": _lines("OutputLine", "Outputs as they come; the last line is the exit or an error")},
                body="Cell",
            ),
        },
        f"{sandbox}/interrupt": {"parameters": [id], "post": _operation("Stop the running cell", _done())},
        f"{sandbox}/restart": {"parameters": [id], "post": _operation("A new interpreter, the same files", _done())},
        f"{sandbox}/packages": {
            "parameters": [id],
            "post": _operation("Make packages importable from the next cell on", _done(), body="Requirements"),
        },
        f"{sandbox}/files": {
            "parameters": [id],
            "get": _operation("All files", {"200": _json("Files", "Regular files, also of directories")}),
            "put": {
                **_operation("Put many files in place", {"200": _json("Files", "Those that were written")}),
                "requestBody": {"required": True, "content": {"application/x-tar": {}}},
            },
        },
        f"{sandbox}/files/{{name}}": {
            "parameters": [id, name],
            "get": {
                **_operation(
                    "A file's bytes", {"200": {"description": "Bytes", "content": {"application/octet-stream": {}}}}
                ),
                "parameters": [
                    {
                        "name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 0},
                        "description": "Refuse with 413 if it is larger.",
                    }
                ],
            },
            "put": {
                **_operation("Put a file in place", {"200": _json("File", "What was written")}),
                "requestBody": {"required": True, "content": {"application/octet-stream": {}}},
            },
            "delete": _operation("Remove a file", _done()),
        },
    }  # fmt: skip


def _operation(summary: str, responses: Schema, *, body: str | None = None) -> Schema:
    operation: Schema = {"summary": summary, "responses": {**responses, "default": _json("Failure", "Why it was not")}}
    return operation if body is None else {**operation, "requestBody": _body(body)}


def _body(schema: str) -> Schema:
    return {"required": True, "content": {"application/json": {"schema": _ref(schema)}}}


def _json(schema: str | None, description: str) -> Schema:
    content: Schema = {"schema": {"type": "object"} if schema is None else _ref(schema)}
    return {"description": description, "content": {"application/json": content}}


def _lines(schema: str, description: str) -> Schema:
    """OpenAPI 3.1 has no word for lines; the schema is that of each of them."""
    return {"description": description, "content": {"application/x-ndjson": {"schema": _ref(schema)}}}


def _done() -> Schema:
    return {"204": {"description": "Done"}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


# -- schemas -----------------------------------------------------------------------------------------------------------


def _schemas() -> dict[str, object]:
    return {
        "Execution": _object(
            {
                "code": {**_TEXT, "minLength": 1},
                "timeout_seconds": {
                    **_WHOLE, "default": USUAL_TIMEOUT, "maximum": LONGEST_TIMEOUT,
                    "description": f"0 or less stands for {USUAL_TIMEOUT}.",
                },
                "memory": {"enum": [*TIERS], "default": USUAL_MEMORY},
                "requirements": _TEXTS,
                "files": _by_name("Base64 by name; directories of a name do not count."),
            },
            required=["code"],
            examples=[
                {"code": "print(open('in.txt').read())", "files": {"in.txt": "aGVsbG8="}, "timeout_seconds": 5},
                {"code": "import humanize", "requirements": ["humanize>=4"], "memory": "4g"},
            ],
        ),
        "Executed": _object(
            {
                "status": {"enum": ["success", "error"]},
                "stdout": _TEXT,
                "stderr": _TEXT,
                "exit_code": {**_WHOLE, "description": "-1 where it was stopped or never ran."},
                "execution_time_ms": _WHOLE,
                "files_produced": _by_name("Made or changed; pictures that were shown are figure-1.png and so on."),
                "result": {**_TEXT, "description": "The last expression's value."},
            },
            required=["status", "stdout", "stderr", "exit_code", "execution_time_ms"],
            examples=[
                {"status": "success", "stdout": "hello\n", "stderr": "", "exit_code": 0, "execution_time_ms": 3},
                {
                    "status": "error", "stdout": "", "stderr": "execution timed out after 5 seconds", "exit_code": -1,
                    "execution_time_ms": 5004, "files_produced": {"made.txt": "aGVsbG8="},
                },
            ],
        ),
        "Plain": _object({"error": _TEXT}, examples=[{"error": "code is required"}]),
        "Failure": _object(
            {"error": _object({"code": _TEXT, "message": _TEXT, "param": _or_null(_TEXT)})},
            examples=[{"error": {"code": "none_free", "message": "all 3 sandboxes are in use", "param": None}}],
        ),
        "Health": _object(
            {
                "status": {"enum": ["healthy", "starting", "stopping", "failed"]},
                "mode": _TEXT,
                "runtime_version": _TEXT,
                "capacity": _WHOLE,
                "current_load": _WHOLE,
                "uptime_seconds": _WHOLE,
                "belljar": _TEXT,
                "api": _WHOLE,
                "isolation": _or_null(_TEXT),
                "spare": _WHOLE,
                "pod_name": _TEXT,
                "pod_uid": _TEXT,
                "error": _TEXT,
            },
            required=["status", "mode", "runtime_version", "capacity", "current_load", "uptime_seconds", "api"],
            examples=[
                {
                    "status": "healthy", "mode": "python", "runtime_version": "3.11.2", "capacity": 256,
                    "current_load": 3, "uptime_seconds": 12, "api": 1,
                },
            ],
        ),
        "Packages": _object({"packages": _array(_object({"name": _TEXT, "version": _TEXT}))}),
        "Requirements": _object({"requirements": _TEXTS}, examples=[{"requirements": ["humanize>=4"]}]),
        "Limits": _object({one.name: _limit(one.type, one.default) for one in fields(Limits)}, required=[]),
        "Spec": _object(
            {"limits": _ref("Limits"), "packages": {"enum": list(PACKAGES)}, "requirements": _TEXTS},
            required=[],
            examples=[{}, {"limits": {"memory": 1 << 30, "timeout": None}, "packages": "none"}],
        ),
        "LeaseLine": _object(
            {"id": _TEXT, "ended": _TEXT},
            required=[],
            examples=[{"id": "sbx_4f9c"}, {}, {"ended": "the sandbox server is stopping"}],
        ),
        "Sandbox": _object({"id": _TEXT, "alive": {"type": "boolean"}}, examples=[{"id": "sbx_4f9c", "alive": True}]),
        "Cell": _object(
            {"code": _TEXT, "timeout": {"type": ["number", "null"], "exclusiveMinimum": 0}},
            required=["code"],
            examples=[{"code": "print(6 * 7)"}, {"code": "x", "timeout": 2.5}],
        ),
        "OutputLine": {"anyOf": [*_outputs(), {"type": "object", "maxProperties": 0}]},
        "File": _object({"name": _TEXT, "size": _WHOLE, "modified": _NUMBER, "type": _TEXT}),
        "Files": _object({"files": _array(_ref("File"))}),
    }  # fmt: skip


def _outputs() -> list[Schema]:
    data: Schema = {
        "type": "object",
        "additionalProperties": {"anyOf": [_TEXT, _object({"base64": _BASE64})]},
        "description": "The same thing by MIME type.",
    }
    error = _object({"type": _TEXT, "message": _TEXT, "traceback": _TEXT})
    return [
        _output("stdout", {"text": _TEXT}),
        _output("stderr", {"text": _TEXT}),
        _output("display", {"data": data}),
        _output("result", {"data": data}),
        _output(
            "file_changed",
            {
                "name": _TEXT, "size": _WHOLE, "modified": _NUMBER, "mime": _TEXT,
                "change": {"enum": ["created", "modified"]},
            },
        ),
        _output(
            "exit",
            {
                "status": {"enum": ["ok", "raised", "timed_out", "killed"]},
                "text": _TEXT,
                "hint": _TEXT,
                "reason": {"enum": [*get_args(Reason), None]},
                "error": _or_null(error),
                "code": _or_null(_WHOLE),
                "kept": {"type": "boolean"},
                "seconds": _NUMBER,
                "limit": {"enum": [*get_args(Limit), None]},
            },
        ),
        _output("error", {"error": _object({"code": _TEXT, "message": _TEXT}, required=["code", "message"])}),
    ]  # fmt: skip


def _output(kind: str, properties: Schema) -> Schema:
    return _object({"type": {"const": kind}, **properties})


def _object(properties: Schema, *, required: list[str] | None = None, examples: list[object] | None = None) -> Schema:
    """All of the properties are required unless said otherwise."""
    made: Schema = {"type": "object", "properties": properties}
    made["required"] = list(properties) if required is None else required
    return made if examples is None else {**made, "examples": examples}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _by_name(description: str) -> Schema:
    return {"type": "object", "additionalProperties": _BASE64, "description": description}


def _limit(kind: object, default: object) -> Schema:
    return {"type": _KINDS[str(kind)], "default": default}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}
