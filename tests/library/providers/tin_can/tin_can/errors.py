"""Tin Can's errors in the terms that `belljar.vendors.errors` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from belljar.errors import ProviderError
from belljar.vendors import errors

_CODES = {"key": "invalid_api_key", "busy": "rate_limit_exceeded", "spent": "insufficient_quota"}


def fault(status: int, headers: Mapping[str, str], body: bytes, server: str) -> ProviderError:
    """The error that an answer other than 200 means."""
    try:
        oops = msgspec.json.decode(body)["oops"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return errors.fault(status, headers, body, server)
    told = {**headers, "retry-after": str(oops["wait"])} if "wait" in oops else headers
    return errors.fault(status, told, msgspec.json.encode(_said(oops)), server)


def reported(oops: dict[str, Any], server: str) -> ProviderError:
    """The error that a stream itself reports."""
    return errors.read_stream_error(_said(oops), server)


def _said(oops: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"message": oops["why"], "code": _CODES.get(oops["kind"])}}
