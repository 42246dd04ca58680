"""What /openapi.json says of the gateway as a whole."""

from __future__ import annotations

from belljar import __version__
from belljar.http_server.openapi import About
from belljar.wire.faults import ErrorBody

ABOUT = About(
    title="Belljar gateway",
    version=__version__,
    description="OpenAI's Responses, Chat Completions, Conversations, Containers and Files API, with the code "
    "interpreter on this host. A WebSocket at /v1/responses takes `response.create` and tells the same events.",
    error=ErrorBody,
    key="Where the gateway has keys: `belljar keys`.",
)
