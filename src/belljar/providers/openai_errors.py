"""The OpenAI SDK's exceptions as ours: by the code that the server gives, its type and status, last by its words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from belljar.dialects import faults
from belljar.errors import ProviderError, RateLimited
from belljar.providers.failures import ClientError, broken, code_of

if TYPE_CHECKING:
    import openai


def failure(error: BaseException, kind: type[ClientError]) -> ClientError:
    """The `kind` of error that this is; one that is ours already stays as it is."""
    import openai

    if isinstance(error, ClientError):
        return error
    if isinstance(error, ProviderError):
        return kind.of(code_of(error), str(error), error, error)
    if isinstance(error, openai.APITimeoutError):
        return kind.of("TIMEOUT", "", error)
    if isinstance(error, openai.APIConnectionError):
        return kind.of("CONNECTION_ERROR", str(error.__cause__ or error), error)
    if isinstance(error, openai.APIError):
        return _answered(error, kind)
    return kind.of(broken(error) or "UNKNOWN_ERROR", f"{type(error).__name__}: {error}", error)


def _answered(error: openai.APIError, kind: type[ClientError]) -> ClientError:
    """The server said what is wrong: before the stream with a status, or inside it."""
    import openai

    status = error.status_code if isinstance(error, openai.APIStatusError) else None
    if isinstance(error, openai.APIStatusError):
        meant = faults.fault(error.status_code, error.response.headers, error.response.content, kind.vendor)
        headers = error.response.headers
    else:
        meant = faults.reported(error.body or error.message, kind.vendor)
        headers = None
    code = code_of(meant, status)
    if isinstance(meant, RateLimited) and code == "RATE_LIMIT":
        spent = headers is not None and headers.get("x-ratelimit-remaining-tokens") == "0"
        if error.type == "tokens" or spent or "tokens per min" in error.message:
            code = "TOKEN_RATE_LIMIT"
    return kind.of(code, str(meant), error, meant)
