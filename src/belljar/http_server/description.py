"""Serve at /openapi.json what can be asked of an application: made from its routes and their types."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from belljar.http_server.openapi import About, describe
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.request import Request
from belljar.http_server.routing import Operation, Route, json_of


def with_description(about: About, routes: Sequence[Route], *, open: bool = False) -> list[Route]:
    """These routes and the one that describes them and itself; `open` where that needs no key."""
    made: bytes | None = None

    async def show(request: Request) -> Answer:
        nonlocal made
        if made is None:  # when first asked for: few ask
            made = msgspec.json.encode(describe(about, described))
        return Reply(200, made)

    own = Route("GET", "/openapi.json", show, Operation("This description", json_of(dict)), open=open)
    described = [*routes, own]
    return described
