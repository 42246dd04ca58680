"""Whatever is asked, by the server's own description or against it: an answer that is described, never a 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
)

from .live import described, live

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, unsupported_method]
STREAMED = ("/v1/sandboxes", "/v1/sandboxes/{id}/cells")
"""Answers of lines, which go on for ever or are no single JSON; the contract's tests have those."""


@schemathesis.serializer("application/x-tar")
def some_bytes(context: Any, value: Any) -> bytes:
    """Hardly ever an archive."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def asked() -> dict[str, Any]:
    whole = described()
    return {**whole, "paths": {path: item for path, item in whole["paths"].items() if path not in STREAMED}}


schema = schemathesis.openapi.from_dict(asked())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live(tmp_path_factory.mktemp("cache")) as url:
        yield url


@pytest.fixture(scope="module")
def known(server: str) -> Iterator[str]:
    """The id of a sandbox that lives."""
    with requests.post(f"{server}/v1/sandboxes", data=b"{}", stream=True, timeout=60) as lease:
        yield next(lease.iter_lines(chunk_size=1)).decode().split('"')[3]


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


@schema.parametrize()
@settings(max_examples=15, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_described(case: Case[Any], server: str, known: str, session: requests.Session) -> None:
    if "id" in case.path_parameters and case.method != "DELETE":
        case.path_parameters["id"] = known
    case.call_and_validate(base_url=server, session=session, checks=CHECKS, timeout=60)
