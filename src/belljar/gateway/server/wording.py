"""How the gateway words what every server has to say: OpenAI's headers, and every error in OpenAI's shape."""

from __future__ import annotations

from belljar.errors import BelljarError, Unauthenticated
from belljar.http_server.asgi import Headers
from belljar.http_server.request import ProtocolRefusal, Request
from belljar.wire import faults
from belljar.wire.faults import Fault

_VERSION = (b"openai-version", b"2020-10-01")
_CHALLENGE: Headers = ((b"www-authenticate", b"Bearer"),)


class Wording:
    """OpenAI's."""

    def common(self, request: Request) -> Headers:
        return (
            (b"x-request-id", request.id.encode()),
            (b"openai-processing-ms", b"%d" % (request.seconds * 1000)),
            _VERSION,
        )

    def refusal(self, error: BelljarError) -> ProtocolRefusal:
        return ProtocolRefusal(faults.of(error), _CHALLENGE if isinstance(error, Unauthenticated) else ())

    def unexpected(self, request: Request) -> Fault:
        return faults.unexpected(request.id)

    def stopping(self) -> Fault:
        return stopping()

    def body(self, fault: Fault) -> bytes:
        return faults.body(fault)


def stopping() -> Fault:
    """The server ends before the request does."""
    return Fault(
        status=503,
        type="server_error",
        code="shutting_down",
        message="The gateway is shutting down. Send the request again in a moment.",
        retry_after=1.0,
    )
