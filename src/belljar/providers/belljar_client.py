"""Belljar's own gateway, with whatever model is behind it."""

from __future__ import annotations

from belljar.providers.failures import ClientError
from belljar.providers.responses_client import ResponsesClient


class GatewayError(ClientError):
    """The gateway failed, or found fault."""

    vendor = "the gateway"
    key = "api_key"


class BelljarClient(ResponsesClient):
    """Any model behind a gateway. What a model does not take, the gateway leaves out."""

    provider = "belljar"
    error = GatewayError

    def _takes_effort(self) -> bool:
        return True

    def _takes_verbosity(self) -> bool:
        return True
