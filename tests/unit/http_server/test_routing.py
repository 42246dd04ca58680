"""Paths find their handlers, whatever is in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.http_server.reply import Answer, Reply
from belljar.http_server.request import Request
from belljar.http_server.routing import Found, Missed, Operation, Route, Router


async def nothing(request: Request) -> Answer:
    return Reply(204)


NOTHING = Operation("Nothing")
ROUTES = [
    Route("GET", "/", nothing, NOTHING),
    Route("GET", "/v1/files", nothing, NOTHING),
    Route("POST", "/v1/files", nothing, NOTHING),
    Route("GET", "/v1/files/{id}", nothing, NOTHING),
    Route("DELETE", "/v1/files/{id}", nothing, NOTHING),
    Route("GET", "/v1/files/{id}/content", nothing, NOTHING),
    Route("POST", "/v1/responses/compact", nothing, NOTHING),
    Route("GET", "/v1/responses/{id}", nothing, NOTHING),
    Route("GET", "/v1/models/{id+}", nothing, NOTHING),
]
ROUTER = Router(ROUTES)


@pytest.mark.parametrize(
    ("method", "path", "template", "params"),
    [
        ("GET", "/", "/", {}),
        ("GET", "/v1/files", "/v1/files", {}),
        ("GET", "/v1/files/", "/v1/files", {}),
        ("HEAD", "/v1/files", "/v1/files", {}),
        ("POST", "/v1/files", "/v1/files", {}),
        ("GET", "/v1/files/file-1", "/v1/files/{id}", {"id": "file-1"}),
        ("GET", "/v1/files/a%2Fb", "/v1/files/{id}", {"id": "a/b"}),
        ("GET", "/v1/files/%E5%A0%B1/content/", "/v1/files/{id}/content", {"id": "報"}),
        ("POST", "/v1/responses/compact", "/v1/responses/compact", {}),
        ("GET", "/v1/responses/resp_1", "/v1/responses/{id}", {"id": "resp_1"}),
        ("GET", "/v1/models/lab/qwen", "/v1/models/{id+}", {"id": "lab/qwen"}),
        ("GET", "/v1/models/lab%2Fqwen", "/v1/models/{id+}", {"id": "lab/qwen"}),
    ],
)
def test_found(method: str, path: str, template: str, params: dict[str, str]) -> None:
    found = ROUTER.find(method, path)
    assert isinstance(found, Found)
    assert (found.route.template, found.params) == (template, params)


@pytest.mark.parametrize(
    "path",
    [
        "/v2/files",
        "/v1",
        "/v1/",
        "/v1//files",
        "/v1/files//content",
        "/v1/files/a/b",
        "/v1/files/%FF",
        "/v1/files/%00",
        "/v1/files/%0A",
        "/v1/models",
        "/v1/models/",
        "/V1/files",
        "*",
    ],
)
def test_missed(path: str) -> None:
    assert ROUTER.find("GET", path) == Missed()


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/files", ("GET", "HEAD", "OPTIONS", "POST")),
        ("OPTIONS", "/v1/files/x", ("DELETE", "GET", "HEAD", "OPTIONS")),
        ("GET", "/v1/responses/compact", ("OPTIONS", "POST")),
        ("HEAD", "/v1/responses/compact", ("OPTIONS", "POST")),
        ("get", "/", ("GET", "HEAD", "OPTIONS")),
    ],
)
def test_other_methods_are_named(method: str, path: str, allowed: tuple[str, ...]) -> None:
    assert ROUTER.find(method, path) == Missed(allowed)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60))
def test_no_path_breaks_the_router(path: str) -> None:
    assert isinstance(ROUTER.find("GET", f"/{path}"), Found | Missed)


# -- exact ------------------------------------------------------------------------------------------------------------

EXACT = Router(
    [
        Route("GET", "/v1/boxes/{id}", nothing, NOTHING),
        Route("DELETE", "/v1/boxes/{id}", nothing, NOTHING),
        Route("GET", "/v1/boxes/{id}/files", nothing, NOTHING),
        Route("PUT", "/v1/boxes/{id}/files/{name+}", nothing, NOTHING),
    ],
    exact=True,
)


@pytest.mark.parametrize(
    ("method", "path", "params"),
    [
        ("GET", "/v1/boxes/a", {"id": "a"}),
        ("GET", "/v1/boxes/", {"id": ""}),
        ("GET", "/v1/boxes/%61%ff", {"id": "%61%ff"}),
        ("GET", "/v1/boxes/a/files", {"id": "a"}),
        ("PUT", "/v1/boxes/a/files/", {"id": "a", "name": ""}),
        ("PUT", "/v1/boxes/a/files/b/", {"id": "a", "name": "b/"}),
        ("PUT", "/v1/boxes/a/files//b//c", {"id": "a", "name": "/b//c"}),
        ("PUT", "/v1/boxes/a/files/%FF%0A%2F", {"id": "a", "name": "%FF%0A%2F"}),
    ],
)
def test_exact_paths_are_taken_as_they_come(method: str, path: str, params: dict[str, str]) -> None:
    found = EXACT.find(method, path)
    assert isinstance(found, Found)
    assert found.params == params


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/boxes/a/", ()),
        ("GET", "//v1/boxes/a", ()),
        ("GET", "/v1/boxes", ()),
        ("GET", "/", ()),
        ("HEAD", "/v1/boxes/a", ("GET", "DELETE")),
        ("OPTIONS", "/v1/boxes/a/files", ("GET",)),
    ],
)
def test_exact_paths_have_their_own_methods_alone(method: str, path: str, allowed: tuple[str, ...]) -> None:
    assert EXACT.find(method, path) == Missed(allowed)
