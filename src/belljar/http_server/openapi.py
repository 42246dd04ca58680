"""OpenAPI 3.1 from a routing table: what each route says of itself, and the types that it names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from belljar.http_server.routing import Content, Operation, Parameter, Route
from belljar.http_server.schemas import Schema, Schemas

_SEGMENT = re.compile(r"\{(\w+)(\+?)\}")


class About(Struct, frozen=True, kw_only=True):
    """What a description says of the whole."""

    title: str
    version: str
    description: str
    error: Any
    """The type of the body of every error."""
    key: str
    """Where the bearer's token comes from."""


def describe(about: About, routes: Iterable[Route]) -> dict[str, Any]:
    """The whole description."""
    schemas = Schemas()
    failure = _failure(about.error, schemas)
    paths: dict[str, Schema] = {}
    for route in routes:
        path = _SEGMENT.sub(r"{\1}", route.template)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schemas, failure)
    return {
        "openapi": "3.1.0",
        "info": {"title": about.title, "version": about.version, "description": about.description},
        "security": [{"key": []}, {}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": about.key}},
        },
    }


def _operation(route: Route, schemas: Schemas, failure: Schema) -> Schema:
    told = route.about
    described: Schema = {"summary": told.summary, "operationId": _id(route), "tags": [_tag(route.template)]}
    if route.open:
        described["security"] = [{}]
    parameters = [_in_path(name, bool(rest), told, schemas) for name, rest in _SEGMENT.findall(route.template)]
    parameters += [_parameter(one, "query", schemas) for one in told.query]
    parameters += [_parameter(one, "header", schemas) for one in told.headers]
    if parameters:
        described["parameters"] = parameters
    if told.takes:
        described["requestBody"] = {"required": True, "content": _contents(told.takes, schemas)}
    if told.error is not None:
        failure = _failure(told.error, schemas)
    refusals = {str(status): {**failure, "description": why} for status, why in told.refuses}
    described["responses"] = {**_responses(told, schemas), **refusals, "default": failure}
    return described


def _responses(told: Operation, schemas: Schemas) -> Schema:
    status, meaning = told.done
    found = {str(status): _response(meaning, told.gives, schemas)}
    alike = [Content(one.type, one.media) for one in told.gives]  # of other circumstances than the examples
    for status, why in told.also:
        found[str(status)] = _response(why, alike if status != 304 else (), schemas)
    return found


def _response(description: str, contents: Sequence[Content], schemas: Schemas) -> Schema:
    found: Schema = {"description": description}
    return {**found, "content": _contents(contents, schemas)} if contents else found


def _failure(error: Any, schemas: Schemas) -> Schema:
    return _response("Why it was not", (Content(error),), schemas)


def _contents(contents: Sequence[Content], schemas: Schemas) -> Schema:
    return {one.media: _content(one, schemas) for one in contents}


def _content(content: Content, schemas: Schemas) -> Schema:
    found: Schema = {} if content.type is None else {"schema": schemas.of(content.type)}
    if content.examples:
        found["examples"] = {str(number): {"value": one} for number, one in enumerate(content.examples, 1)}
    return found


def _in_path(name: str, rest: bool, told: Operation, schemas: Schemas) -> Schema:
    for parameter in told.path:
        if parameter.name == name:
            return {**_parameter(parameter, "path", schemas), "required": True}
    found: Schema = {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return {**found, "description": "It may hold slashes."} if rest else found


def _parameter(parameter: Parameter, place: str, schemas: Schemas) -> Schema:
    found: Schema = {"name": parameter.name, "in": place, "schema": schemas.of(parameter.type)}
    return {**found, "description": parameter.description} if parameter.description else found


def _id(route: Route) -> str:
    return "_".join([route.method.lower(), *re.findall(r"\w+", route.template)])


def _tag(template: str) -> str:
    words = [word for word in template.split("/") if word and not word.startswith("{")]
    return (words[1:] or words or ["page"])[0] if words[:1] == ["v1"] else (words or ["page"])[0]
