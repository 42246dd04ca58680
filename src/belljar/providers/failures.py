"""What goes wrong at a vendor, under one set of codes with a word to the user, and each in its place in our tree.

ClientError              .error_code .user_message .original_error
└── OpenAIError, AnthropicError, …: one for each vendor; each raised error is also the kind that its code stands for,
    such as `RateLimited`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar, cast

from belljar.errors import (
    BadKey,
    ContextTooLong,
    DeadlinePassed,
    Declined,
    Filtered,
    Garbled,
    Loading,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unreachable,
)

_T = TypeVar("_T")
_Failure = TypeVar("_Failure", bound="ClientError")

CODES: Mapping[str, tuple[type[ProviderError], str]] = MappingProxyType(
    {
        "AUTH_ERROR": (BadKey, "Invalid API key: set {key} to one that {name} takes."),
        "RATE_LIMIT": (RateLimited, "Rate limited: {name} wants fewer requests; wait a little and try again."),
        "TOKEN_RATE_LIMIT": (
            RateLimited,
            "Token rate limited: {name} wants fewer tokens a minute; wait a little, or send less at once.",
        ),
        "QUOTA_EXCEEDED": (
            QuotaExceeded,
            "Quota exceeded: the account at {name} has nothing left; look at its billing.",
        ),
        "CONNECTION_ERROR": (Unreachable, "Network issue: {name} could not be reached; look at the connection."),
        "TIMEOUT": (Unreachable, "Request timed out: {name} did not answer in time; try again, or ask for less."),
        "INVALID_MODEL": (Declined, "Invalid model name: {name} has no such model for this key; choose one it lists."),
        "CONTEXT_LENGTH_EXCEEDED": (
            ContextTooLong,
            "Conversation too long: it does not fit the model; start a new one, or send less.",
        ),
        "INVALID_SCHEMA": (Declined, "Invalid function schema: {name} does not take the schema of one of the tools."),
        "CONTENT_POLICY": (Filtered, "Content policy violation: {name} refused the request; put it differently."),
        "BAD_REQUEST": (Declined, "Bad request: {name} finds fault with what was sent."),
        "SERVER_OVERLOADED": (Unreachable, "Servers overloaded: {name} has no capacity now; try again in a minute."),
        "API_ERROR": (ProviderError, "Server error: something went wrong at {name}; try again."),
        "UNKNOWN_ERROR": (ProviderError, "Unknown error."),
    }
)
"""Each code, the kind of error it is, and what the user is told."""


class ClientError(ProviderError):
    """A vendor's failure as a client raises it; the SDK's own exception is its cause."""

    vendor: ClassVar[str]
    key: ClassVar[str]
    """What the user has to set for the vendor to know him."""
    _kinds: ClassVar[Mapping[type[ProviderError], type[ClientError]]]

    def __init_subclass__(cls) -> None:
        if "vendor" in vars(cls):
            kinds = {kind for kind, _ in CODES.values()} | {Loading, Garbled, DeadlinePassed}
            mixed = {kind: type(cls.__name__, (cls, kind), {"__module__": cls.__module__}) for kind in kinds}
            cls._kinds = MappingProxyType({**mixed, ProviderError: cls})

    def __init__(self, message: str, error_code: str, original_error: BaseException | None = None) -> None:
        told = CODES[error_code][1]
        self.error_code = self.reason = error_code
        self.user_message = told.format(name=self.vendor, key=self.key)
        self.detail = message
        self.original_error = original_error
        self.after: float | None = None
        self.again: bool | None = None
        self.param: str | None = None
        self.fault: str | None = None
        Exception.__init__(self, f"{self.user_message} ({message})" if message else self.user_message)
        self.__cause__ = original_error

    @classmethod
    def of(
        cls,
        error_code: str,
        message: str = "",
        original: BaseException | None = None,
        like: ProviderError | None = None,
    ) -> Self:
        """The error for this code, which is also of a kind: that of `like`, which has what the vendor's words told."""
        told = CODES[error_code][0] if like is None else type(like)
        kind = next(one for one in told.__mro__ if one in cls._kinds)
        failure = cast(Self, cls._kinds[kind](message, error_code, original))
        if like is not None:
            for name in ("after", "again", "param", "fault"):
                setattr(failure, name, getattr(like, name, None))
        return failure

    def __reduce__(self) -> tuple[object, ...]:
        base = next(one for one in type(self).__mro__ if "vendor" in vars(one))
        kind = next(one for one in type(self).__mro__ if one.__module__ == ProviderError.__module__)
        told = {"after": self.after, "again": self.again, "param": self.param, "fault": self.fault}
        return _rebuilt, (base, kind, self.error_code, self.detail, told)


def _rebuilt(
    base: type[ClientError], kind: type[ProviderError], code: str, detail: str, told: Mapping[str, Any]
) -> ClientError:
    failure = base._kinds[kind](detail, code)
    for name, value in told.items():
        setattr(failure, name, value)
    return failure


def code_of(error: ProviderError) -> str:
    """The code for an error of our tree: its reason, or else what its class tells."""
    if error.reason is not None:
        return error.reason
    match error:
        case Unreachable():
            return "CONNECTION_ERROR"
        case DeadlinePassed():
            return "TIMEOUT"
        case RateLimited():
            return "RATE_LIMIT"
        case _:
            codes = (code for code, (kind, _) in CODES.items() if kind is not ProviderError and isinstance(error, kind))
            return "BAD_REQUEST" if isinstance(error, Declined) else next(codes, "API_ERROR")


def own_failure(error: BaseException, kind: type[_Failure]) -> _Failure | None:
    """One that is of this kind already, or else an error of our tree as this kind; None for what an SDK raised."""
    if isinstance(error, kind):
        return error
    return kind.of(code_of(error), str(error), error, error) if isinstance(error, ProviderError) else None


def unknown_failure(error: BaseException, kind: type[_Failure]) -> _Failure:
    """What no SDK knows: a failure of the HTTP library below it, or anything at all."""
    return kind.of(broken(error) or "UNKNOWN_ERROR", f"{type(error).__name__}: {error}", error)


def explain_error(error: ProviderError, status: int | None) -> str:
    """What a vendor answered, with what to do where its address is not the vendor's; the rest `CODES` tells."""
    return f"{error}; is base_url right?" if status == 404 and type(error) is ProviderError else str(error)


def broken(error: BaseException) -> str | None:
    """The code for a failure of the HTTP library below an SDK, whichever that SDK uses; None for any other."""
    for name in ("httpx2", "httpx"):
        library = sys.modules.get(name)
        if library is not None and isinstance(error, library.TimeoutException):
            return "TIMEOUT"
        if library is not None and isinstance(error, library.TransportError):
            return "CONNECTION_ERROR"
    return None


Handle = Callable[[BaseException], ClientError]


class _End:
    """After the last item of a stream."""


_END = _End()


@contextmanager
def translate_errors(handle: Handle) -> Iterator[None]:
    """Around a call of an SDK: what it raises becomes a `ClientError`."""
    try:
        yield
    except ClientError:
        raise
    except Exception as error:
        raise handle(error) from error


def translate_stream_errors(items: Iterable[_T], handle: Handle) -> Iterator[_T]:
    """The items of an SDK's stream. Only taking the next is guarded: what the caller does with it is his own."""
    iterator = iter(items)
    while True:
        with translate_errors(handle):
            item = next(iterator, _END)
        if isinstance(item, _End):
            return
        yield item


async def translate_async_stream_errors(items: AsyncIterable[_T], handle: Handle) -> AsyncIterator[_T]:
    """The same in asyncio."""
    iterator = aiter(items)
    while True:
        with translate_errors(handle):
            item = await anext(iterator, _END)
        if isinstance(item, _End):
            return
        yield item
