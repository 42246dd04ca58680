"""/v1/chat/completions over HTTP, by the official client."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from msgspec import structs
from tests.unit.server.conftest import Gateway
from tests.unit.server.fakes import saying

from belljar.wire import events
from belljar.wire.requests import CreateResponse
from belljar.wire.responses import Response, ResponseError

ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
RESPONSE = Response(id="resp_1", created_at=5, status="completed", model="m")


def test_the_sdk_completes(gateway: Gateway) -> None:
    with gateway.client() as client:
        made = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        assert made.choices[0].message.content == "Hello there"
        streamed = client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        seen = list(streamed)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in seen if chunk.choices) == "Hello there"
    assert seen[-1].usage is not None


@pytest.mark.parametrize("stream", [True, False])
def test_a_model_that_is_not_there_is_404_here(gateway: Gateway, stream: bool) -> None:
    answer = gateway.ask("POST", "/v1/chat/completions", {**ASK, "model": "absent", "stream": stream})
    assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "model_not_found", "model")


@pytest.mark.parametrize("stream", [True, False])
def test_a_failed_response_is_an_error(gateway: Gateway, stream: bool) -> None:
    async def failing(request: CreateResponse, *rest: object) -> Any:
        first, *_ = saying(request, "a")
        yield first
        error = ResponseError(code="server_error", message="boom")
        yield [events.Failed(sequence_number=4, response=structs.replace(RESPONSE, status="failed", error=error))]

    gateway.rooms.engine.play = failing
    with gateway.client() as client, pytest.raises(openai.APIError, match="boom"):
        list(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=stream))


def test_a_stream_that_breaks_is_an_error(gateway: Gateway) -> None:
    async def breaking(request: CreateResponse, *rest: object) -> Any:
        first, *_ = saying(request, "a")
        yield first
        raise ZeroDivisionError

    gateway.rooms.engine.play = breaking
    with gateway.client() as client, pytest.raises(openai.APIError, match="Internal error"):
        list(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True))
