"""How the sandbox server words errors: a code, a message and the field, or a plain text where the interface says so."""

from __future__ import annotations

from belljar.errors import BelljarError, InvalidRequest, Lost
from belljar.http_server.asgi import Headers
from belljar.http_server.request import ProtocolRefusal, Request
from belljar.sandbox.codec import encode_error, encode_json
from belljar.wire.faults import Fault

STOPPING = "the sandbox server is stopping; ask another, or again later"
_PLAIN = "plain"
_AGAIN = 1
"""Seconds: it is full, or it starts or stops. Soon it may be otherwise."""
AGAIN: Headers = ((b"retry-after", b"%d" % _AGAIN),)
_KIT = {"invalid_request_error": InvalidRequest.code}
"""Faults of HTTP itself are worded by the kit, whose types are those of another API."""


class Wording:
    """What every answer of `/v1` has in common."""

    def common(self, request: Request) -> Headers:
        return ()

    def refusal(self, error: BelljarError, status: int | None = None) -> ProtocolRefusal:
        return ProtocolRefusal(_fault(status or error.status, error.code, str(error), encode_error(error)["param"]))

    def unexpected(self, request: Request) -> Fault:
        message = f"the sandbox server failed; its log says how, under {request.id}"
        return _fault(BelljarError.status, BelljarError.code, message)

    def stopping(self) -> Fault:
        return self.refusal(Lost(STOPPING)).fault

    def body(self, fault: Fault) -> bytes:
        return encode_json({"error": fault.message if fault.type == _PLAIN else encode_fault(fault)})


def encode_fault(fault: Fault) -> dict[str, object]:
    """The same as `encode_error` of the error that it was."""
    return {"code": _KIT.get(fault.type, fault.type), "message": fault.message, "param": fault.param}


def plain(status: int, message: str) -> ProtocolRefusal:
    """A refusal that is a text and nothing more, as /execute has it."""
    return ProtocolRefusal(_fault(status, _PLAIN, message))


def _fault(status: int, code: str, message: str, param: object = None) -> Fault:
    return Fault(
        status=status,
        type=code,
        message=message,
        param=param if isinstance(param, str) else None,
        retry_after=_AGAIN if status in (429, 503) else None,
    )
