"""The OpenAI SDK's exceptions as ours: by the code that the server gives, its type and status, last by its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from belljar.providers.failures import (
    ClientError,
    code_of,
    explain_error,
    own_failure,
    unknown_failure,
)
from belljar.vendors import errors

if TYPE_CHECKING:
    import openai


def failure(error: BaseException, kind: type[ClientError]) -> ClientError:
    """The `kind` of error that this is; one that is ours already stays as it is."""
    import openai

    if isinstance(error, ClientError):
        return error
    if (ours := own_failure(error, kind)) is not None:
        return ours
    if isinstance(error, openai.APITimeoutError):
        return kind.of("TIMEOUT", "", error)
    if isinstance(error, openai.APIConnectionError):
        return kind.of("CONNECTION_ERROR", str(error.__cause__ or error), error)
    if isinstance(error, openai.ContentFilterFinishReasonError):
        return kind.of("CONTENT_POLICY", str(error), error)
    if isinstance(error, openai.APIError):
        return _status_error(error, kind)
    return unknown_failure(error, kind)


def _status_error(error: openai.APIError, kind: type[ClientError]) -> ClientError:
    """The server said what is wrong: before the stream with a status, or inside it."""
    import openai

    said = _error_body(error)
    if isinstance(error, openai.APIStatusError):
        body = said.encode() if isinstance(said, str) else msgspec.json.encode(said, enc_hook=str)
        meant = errors.fault(error.status_code, error.response.headers, body, kind.vendor)
    else:
        meant = errors.read_stream_error(said, kind.vendor)
    return kind.of(code_of(meant), explain_error(meant, getattr(error, "status_code", None)), error, meant)


def _error_body(error: openai.APIError) -> Any:
    """What the server said, as the SDK read it: the body, and the code beside it where whoever raised it gave one."""
    given = _known_members({"code": error.code, "type": error.type, "param": error.param})
    told = error.body or error.message
    if isinstance(told, Mapping):
        inner = told.get("error", told)
        return {**given, **_known_members(inner)} if isinstance(inner, Mapping) else told
    if not given or not isinstance(told, str):
        return told
    return {"message": "" if told.startswith("<") else told, **given}  # a page is for browsers


def _known_members(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
