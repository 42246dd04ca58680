"""OpenAI's client with the founding documents' extra calls, and `local()` for a gateway inside the program."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import openai
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient
from openai.types.responses import Response

from belljar.openai.items import readable
from belljar.openai.mounts import Mounted, mount, mount_async
from belljar.openai.transport import AsyncInsideTransport, InsideTransport
from belljar.vendors.deltas import AnsweringModel

if TYPE_CHECKING:
    from functools import cached_property

    from belljar.openai.signatures import AsyncResponses, Responses

Upstreams: TypeAlias = Sequence[str] | Mapping[str, Mapping[str, object]]

_NOWHERE: Any = {"base_url": "http://belljar.localhost/v1", "api_key": "none"}
"""An address that is never looked up, and a key that nobody asks for."""


class OpenAI(openai.OpenAI):
    """`openai.OpenAI`, and: `container_files`, output items with keys, `host_mounts` of a container, `local()`."""

    allowed_host_roots: Sequence[str | os.PathLike[str]] = (".",)
    """Where `host_mounts` may come from."""

    @classmethod
    def local(
        cls,
        *,
        state_dir: str | os.PathLike[str] | None = None,
        upstreams: Upstreams | None = None,
        model: AnsweringModel | None = None,
        **settings: object,
    ) -> Self:
        """A client of a whole gateway inside this program: no port, no key. Closing the client ends it.

        Responses, containers and files are kept in `state_dir`, or else in a temporary directory that goes with the
        client. `upstreams` are model servers: `["http://127.0.0.1:8000/v1"]`, or by name with their settings. `model`
        stands in for the built-in model `belljar`, such as a `ScriptedModel` in tests. The other settings are those
        of `belljar serve`, from its file and environment too.
        """
        from belljar.openai.embedded_gateway import Inside  # all of the gateway, which other clients do not need

        transport = InsideTransport(Inside({**settings, "upstreams": upstreams}, state_dir=state_dir, model=model))
        return cls(http_client=DefaultHttpxClient(transport=transport), **_NOWHERE)

    @property
    def container_files(self) -> ContainerFiles:
        return ContainerFiles(self)

    if TYPE_CHECKING:

        @cached_property
        def responses(self) -> Responses: ...

    else:  # a checker keeps the SDK's own signature

        def copy(self, **options: Any) -> Self:
            made = super().copy(**options)
            made.allowed_host_roots = self.allowed_host_roots
            return made

        with_options = copy

    def request(self, cast_to: Any, options: Any, **more: Any) -> Any:
        for mounted in Mounted.all_of(options):
            with mounted.copy_files(self.allowed_host_roots) as directory:
                options = mounted.with_container(options, mount(self, mounted.container, directory))
        return _readable(super().request(cast_to, options, **more))


class ContainerFiles:
    """The founding example's name for the files of containers."""

    def __init__(self, client: openai.OpenAI) -> None:
        self._client = client

    def content(self, *, container_id: str, file_id: str) -> bytes:
        return self._client.containers.files.content.retrieve(file_id, container_id=container_id).read()


class AsyncOpenAI(openai.AsyncOpenAI):
    """`openai.AsyncOpenAI`, with the same beside its own."""

    allowed_host_roots: Sequence[str | os.PathLike[str]] = (".",)
    _inside: AsyncInsideTransport | None = None

    @classmethod
    def local(
        cls,
        *,
        state_dir: str | os.PathLike[str] | None = None,
        upstreams: Upstreams | None = None,
        model: AnsweringModel | None = None,
        **settings: object,
    ) -> Self:
        """As `OpenAI.local`. It waits until the gateway is there, which takes a moment; use the client on any loop."""
        from belljar.openai.embedded_gateway import Inside

        transport = AsyncInsideTransport(Inside({**settings, "upstreams": upstreams}, state_dir=state_dir, model=model))
        made = cls(http_client=DefaultAsyncHttpxClient(transport=transport), **_NOWHERE)
        made._inside = transport
        return made

    def blocking_inside(self) -> OpenAI | None:
        """A blocking client of the same gateway, which ends with this one; None where the gateway is not inside."""
        if self._inside is None:
            return None
        return OpenAI(http_client=DefaultHttpxClient(transport=self._inside.blocking()), **_NOWHERE)

    @property
    def container_files(self) -> AsyncContainerFiles:
        return AsyncContainerFiles(self)

    if TYPE_CHECKING:

        @cached_property
        def responses(self) -> AsyncResponses: ...

    else:  # a checker keeps the SDK's own signature

        def copy(self, **options: Any) -> Self:
            made = super().copy(**options)
            made.allowed_host_roots, made._inside = self.allowed_host_roots, self._inside
            return made

        with_options = copy

    async def request(self, cast_to: Any, options: Any, **more: Any) -> Any:
        for mounted in Mounted.all_of(options):
            with await asyncio.to_thread(mounted.copy_files, self.allowed_host_roots) as directory:
                options = mounted.with_container(options, await mount_async(self, mounted.container, directory))
        return _readable(await super().request(cast_to, options, **more))


class AsyncContainerFiles:
    """The same for asyncio."""

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._client = client

    async def content(self, *, container_id: str, file_id: str) -> bytes:
        content = await self._client.containers.files.content.retrieve(file_id, container_id=container_id)
        return await content.aread()


def _readable(answer: Any) -> Any:
    if isinstance(answer, Response):
        readable(answer.output)
    return answer
