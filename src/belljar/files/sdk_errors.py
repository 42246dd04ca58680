"""What an SDK's exception means for a file: the vendors' words in our tree of errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from belljar.errors import BadKey, BelljarError, NotFound, ProviderError, TooLarge, Unreachable
from belljar.providers.failures import broken
from belljar.vendors import errors

Meaning: TypeAlias = Callable[[int, Mapping[str, str], bytes, str], ProviderError]
"""What a vendor's answer means: the `fault` of its dialect."""


def of_openai_kind(
    error: Exception, sdk: Any, vendor: str, key: str, fault: Meaning = errors.fault
) -> BelljarError | None:
    """For SDKs that have the classes of OpenAI's; None for what is not theirs."""
    if isinstance(error, sdk.APIStatusError):
        body = json.dumps(error.body).encode()
        return of_answer(error.status_code, error.response.headers, body, vendor, key, fault)
    if isinstance(error, sdk.APIConnectionError):
        return Unreachable(f"{vendor} could not be reached ({error.__cause__ or error}); look at the connection")
    return of_connection(error, vendor)


def of_answer(
    status: int, headers: Mapping[str, str], body: bytes, vendor: str, key: str, fault: Meaning
) -> BelljarError:
    """What a server said, where that is about a file."""
    meant = fault(status, headers, body, vendor)
    match status:
        case 404:
            return NotFound(str(meant), param="file_id")
        case 413:
            return TooLarge(f"{vendor} finds the file too large; send a smaller one")
    if isinstance(meant, BadKey):
        meant.args = (f"{vendor} refused the key; set {key} to one that it takes",)
    return meant


def of_connection(error: Exception, vendor: str) -> Unreachable | None:
    """What broke on the way; None for what did not."""
    if broken(error) is None:
        return None
    return Unreachable(f"the connection to {vendor} broke ({type(error).__name__}: {error}); try again")
