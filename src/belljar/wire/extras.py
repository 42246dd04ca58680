"""Our additions to OpenAI's requests and responses, all under the key `belljar`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Executor: TypeAlias = Literal["belljar", "provider"]


class RequestExtras(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`belljar` in a request: what OpenAI's own fields cannot say. The SDK sends it by `extra_body`."""

    executor: Executor | None = None
    """Who runs the code, where the model's vendor could; None leaves it to the gateway's settings."""
    live: bool | None = None
    """Whether events of our own tell what code prints as it does; None leaves it to what is known of the client."""
    inline_files: bool = False
    """Whether small files that code makes come with the call that made them, as `data:` URLs."""


class Ignored(Struct, frozen=True, kw_only=True):
    """Something in a request that had no effect and did not stop it either."""

    param: str
    """Its path in the request, such as `tools[1]`."""
    message: str
    """Why, and what to do about it."""


class LeftContainer(Struct, frozen=True, kw_only=True):
    """A container as a response left it."""

    id: str
    version: int
    """How often its files, its packages or its cells had changed: another number later means that it has moved on."""


class ResponseExtras(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`belljar` in a response: there only where there is something to tell."""

    ignored: tuple[Ignored, ...] = ()
    container: LeftContainer | None = None
