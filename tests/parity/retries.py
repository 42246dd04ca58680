"""Answers that are worth another try or are not, and what each face does about them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import pytest
from tests.library.adapters.evaluation.replies import prompt
from tests.library.providers.replay import Reply
from tests.parity.faces import DIALECTS, FACES, KEY, Face, Faces
from tests.parity.server import MODELS

from belljar.adapters.claude_agent_sdk import ClaudeAgentSDKAdapter
from belljar.adapters.openai import OpenAIAdapter
from belljar.config import Upstream
from belljar.errors import BelljarError
from belljar.files.registry import FACTORIES
from belljar.gateway.upstream.transport import Transport
from belljar.gateway.upstream.upstream_model import DialectModel
from belljar.providers import create_client
from belljar.runtime import Session, ThrottlePolicy
from belljar.vendors import retry
from belljar.vendors.request import ModelRequest
from belljar.wire.items import Message

TRIES = 3
THRICE = ThrottlePolicy(max_attempts=TRIES)


@dataclass(frozen=True, kw_only=True)
class Retried:
    """What the vendor answers every time, and the pauses that are made before it is believed."""

    id: str
    vendor: str
    reply: Reply
    pauses: tuple[float, ...] = ()

    @property
    def faces(self) -> tuple[Face, ...]:
        return FACES[self.vendor]

    def __str__(self) -> str:
        return f"{self.vendor}-{self.id}"


_AGAIN = (0.5, 0.5)
_STATUSES: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    418: "UNKNOWN",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
"""What Google calls them."""


def _answer(vendor: str, status: int, said: str = "no", **headers: str) -> Reply:
    error: dict[str, Any] = {"message": said}
    if vendor == "gemini":
        error |= {"code": status, "status": _STATUSES[status]}
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply({"error": error}, status=status, headers=told)


def _rows(vendor: str) -> list[Retried]:
    def row(id: str, *pauses: float, **answer: Any) -> Retried:
        return Retried(id=id, vendor=vendor, reply=_answer(vendor, **answer), pauses=pauses)

    return [
        row("busy", *_AGAIN, status=503),
        row("broken", *_AGAIN, status=500),
        row("too slow", *_AGAIN, status=408),
        row("limited", *_AGAIN, status=429),
        row("limited for a while", 2.0, 2.0, status=429, retry_after="2"),
        row("busy for a while", 3.0, 3.0, status=503, retry_after="3"),
        row("limited for 20 s", 20.0, status=429, retry_after="20"),
        row("limited for long", status=429, retry_after="3600"),
        row("broken for good", status=500, x_should_retry="false"),
        row("in conflict for now", *_AGAIN, status=409, x_should_retry="true"),
        row("wrong", status=400),
        row("no key", status=401),
        row("a teapot", status=418),
        row("too long with a server's status", status=500, said="This model's maximum context length is 8192 tokens"),
    ]


RETRIES = tuple(row for vendor in FACES for row in _rows(vendor))


def pauses_of(faces: Faces, row: Retried, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, list[float]]]:
    """How often each face asked, and how long it waited in between, with nothing left to chance."""
    found: dict[str, tuple[int, list[float]]] = {}
    slept: list[float] = []

    def choose(error: BelljarError, *given: Any, chance: float) -> float | None:
        return retry.choose_pause(error, *given, chance=0.0)

    for place in ("gateway.upstream.transport", "adapters.retry", "files.retry"):
        monkeypatch.setattr(f"belljar.{place}.choose_pause", choose)
    monkeypatch.setattr("belljar.adapters.steps.sleep", slept.append)
    faces.vendors.fault = row.reply
    try:
        for face in row.faces:
            faces.vendors.sent.clear()
            slept.clear()
            with suppress(BelljarError):
                _ask(faces, face, row.vendor, slept)
            found[face] = len(faces.vendors.sent), list(slept)
    finally:
        faces.vendors.fault = None
    return found


def _ask(faces: Faces, face: Face, vendor: str, slept: list[float]) -> None:
    match face:
        case "gateway":
            asyncio.run(_ask_upstream(faces.vendors.base_url(vendor), vendor, slept))
        case "client":
            _ask_client(faces, vendor, slept)
        case "adapter":
            kind: Any = ClaudeAgentSDKAdapter if vendor == "anthropic" else OpenAIAdapter
            adapter = kind(model=MODELS[vendor], client=faces._sdk(vendor), throttle=THRICE)
            adapter.evaluate(prompt(), session=Session())
        case "files":
            files = cast(Any, FACTORIES[vendor])(client=faces._sdk(vendor), attempts=TRIES, sleep=slept.append)
            files.file_metadata("files/1" if vendor == "gemini" else "file_1")


async def _ask_upstream(base_url: str, vendor: str, slept: list[float]) -> None:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    transport = Transport(sleep=sleep)
    upstream = Upstream(name=vendor, base_url=base_url, dialect=DIALECTS.get(vendor, "chat"), api_key=KEY)
    request = ModelRequest(model=MODELS[vendor], items=(Message(role="user", content="Hi"),))
    try:
        async for _ in DialectModel(upstream, transport).ask(request):
            pass
    finally:
        await transport.close()


def _ask_client(faces: Faces, vendor: str, slept: list[float]) -> None:
    """The vendor's SDK tries again by itself, as its user told it to; who does so in its place goes by the error."""
    client = create_client(vendor, model=MODELS[vendor], client=faces._sdk(vendor))
    tries = 0
    while True:
        try:
            client.send_message("Hi")
        except BelljarError as error:
            tries += 1
            pause = retry.choose_pause(error, tries, sum(slept), retry.RetryLimits(tries=TRIES), chance=0.0)
            if pause is None:
                raise
            slept.append(pause)
