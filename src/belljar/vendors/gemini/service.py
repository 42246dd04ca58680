"""The two services that speak Gemini's wire, AI Studio and Vertex, and in what they differ."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from belljar.vendors.gemini import vendor
from belljar.vendors.vendor import Vendor


class Service(Struct, frozen=True, kw_only=True):
    """One row."""

    issuer: Literal["gemini", "vertex"]
    """Whose signatures it takes: each refuses the other's."""
    bearer: bool = False
    """It takes tokens, as most servers do; the other has keys with a header of their own."""
    streams_arguments: bool = False
    """The arguments of calls come as they are written, where that is asked for."""
    tells_server_tools: bool = False
    """It takes the question for what its own tools did, beside calls of functions."""
    takes_uploads: bool = False


AI_STUDIO = Service(issuer="gemini", tells_server_tools=True, takes_uploads=True)
VERTEX = Service(issuer="vertex", bearer=True, streams_arguments=True)


def service_of(at: Vendor) -> Service:
    return VERTEX if at.name == vendor.VERTEX.name else AI_STUDIO
