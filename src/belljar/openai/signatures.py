"""Type signatures of `client.responses.create`: all that the SDK takes, and what only our client takes.

Nothing here is there at run time: the SDK's own `create` is called, and hands on what it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Required, TypeAlias, TypedDict, Unpack, overload

from openai import AsyncStream, BaseModel, NotGiven, Stream, Timeout
from openai.resources import responses as resources
from openai.types.responses import Response, ResponseInputItemParam, ResponseStreamEvent, ToolParam
from openai.types.responses import response_create_params as params
from openai.types.responses.tool_param import CodeInterpreterContainerCodeInterpreterToolAuto

from belljar.filesystem import HostMount


class MountedContainer(CodeInterpreterContainerCodeInterpreterToolAuto, total=False):
    host_mounts: Required[Iterable[HostMount | Mapping[str, Any]]]


class MountedCodeInterpreter(TypedDict):
    type: Literal["code_interpreter"]
    container: MountedContainer


Input: TypeAlias = str | Iterable[ResponseInputItemParam | Mapping[str, Any] | BaseModel]
"""Items may be plain objects, as `to_dict()` and a compaction give them, and those of an earlier response."""
Tools: TypeAlias = Iterable[ToolParam | MountedCodeInterpreter]


class _More(TypedDict, total=False):
    extra_headers: Mapping[str, Any] | None
    extra_query: Mapping[str, object] | None
    extra_body: object
    timeout: float | Timeout | NotGiven | None


# A member of a TypedDict may not be widened by those that extend it; ours are only ever written, never read.


class _Whole(params.ResponseCreateParamsNonStreaming, _More, total=False):
    input: Input  # type: ignore[misc]
    tools: Tools  # type: ignore[misc]


class _Streamed(params.ResponseCreateParamsStreaming, _More, total=False):
    input: Input  # type: ignore[misc]
    tools: Tools  # type: ignore[misc]


class _Either(params.ResponseCreateParamsBase, _More, total=False):
    input: Input  # type: ignore[misc]
    tools: Tools  # type: ignore[misc]
    stream: Required[bool]


class Responses(resources.Responses):
    @overload  # type: ignore[override]
    def create(self, **asked: Unpack[_Whole]) -> Response: ...

    @overload
    def create(self, **asked: Unpack[_Streamed]) -> Stream[ResponseStreamEvent]: ...

    @overload
    def create(self, **asked: Unpack[_Either]) -> Response | Stream[ResponseStreamEvent]: ...

    def create(self, **asked: Any) -> Any: ...


class AsyncResponses(resources.AsyncResponses):
    @overload  # type: ignore[override]
    async def create(self, **asked: Unpack[_Whole]) -> Response: ...

    @overload
    async def create(self, **asked: Unpack[_Streamed]) -> AsyncStream[ResponseStreamEvent]: ...

    @overload
    async def create(self, **asked: Unpack[_Either]) -> Response | AsyncStream[ResponseStreamEvent]: ...

    async def create(self, **asked: Any) -> Any: ...
