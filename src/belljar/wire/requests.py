"""Request bodies as frozen values. `reading` parses them from bytes."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from belljar.wire.extras import RequestExtras
from belljar.wire.items import InputItem, Json
from belljar.wire.responses import Reasoner, TextConfig
from belljar.wire.tools import NetworkPolicy, Tier, Tool, ToolChoice

Include: TypeAlias = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]

ServiceTier: TypeAlias = Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"]


class StreamOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    include_obfuscation: bool | None = None


class ContextManagement(Struct, frozen=True, kw_only=True):
    type: Literal["compaction"]
    compact_threshold: Annotated[int, Meta(ge=1000)] | None = None


Id: TypeAlias = Annotated[str, Meta(min_length=1)]
Metadata: TypeAlias = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)
]


Stop: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1000)]


class Sampling(Struct, frozen=True, kw_only=True):
    """How the words of an answer are chosen, beyond temperature and top_p: wishes, under the names of chat completions.

    OpenAI has the first five there only; the rest are those of the open model servers.
    """

    stop: Stop | Annotated[tuple[Stop, ...], Meta(max_length=16)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Meta(ge=0, le=10)] | None = None
    chat_template_kwargs: dict[str, Json] | None = None

    def sampling(self) -> Sampling:
        """This part alone, of a request that has it among its own members."""
        return Sampling(**dict(zip(Sampling.__struct_fields__, _read_sampling(self), strict=True)))

    def given_members(self) -> dict[str, Json]:
        """What was said, even where it is what a server would do anyway: its own defaults may be others."""
        fields = zip(Sampling.__struct_fields__, _read_sampling(self), strict=True)
        said = {name: value for name, value in fields if value is not None}
        if isinstance(self.stop, str):
            said["stop"] = (self.stop,)
        return said

    def wishes(self) -> frozenset[str]:
        """The names of what changes an answer: not those whose value asks for nothing."""
        return frozenset(
            name for name, value in self.given_members().items() if value not in _NEUTRAL.get(name, ((), {}))
        )


_read_sampling = attrgetter(*Sampling.__struct_fields__)
"""The values of its fields, of a request as well: one look at what every request is asked for."""

_NEUTRAL: dict[str, tuple[Json, ...]] = {
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "repetition_penalty": (1,),
}


class RequestOptions(Sampling, frozen=True, kw_only=True):
    """What a request says beside its items, tools and conversation; the types say what is in range."""

    model: Id
    instructions: str | None = None
    previous_response_id: Id | None = None
    store: bool = True
    stream: bool = False
    stream_options: StreamOptions | None = None
    background: bool = False
    include: tuple[Include, ...] = ()
    parallel_tool_calls: bool = True
    max_tool_calls: Annotated[int, Meta(ge=1)] | None = None
    max_output_tokens: Annotated[int, Meta(ge=16)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] = 0
    text: TextConfig = field(default_factory=TextConfig)
    reasoning: Reasoner | None = None
    truncation: Literal["auto", "disabled"] = "disabled"
    context_management: tuple[ContextManagement, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    prompt_cache_key: Annotated[str, Meta(max_length=64)] | None = None
    prompt_cache_options: dict[str, Json] | None = None
    prompt_cache_retention: str | None = None
    service_tier: ServiceTier | None = None
    safety_identifier: Annotated[str, Meta(max_length=128)] | None = None
    user: str | None = None
    belljar: RequestExtras = field(default_factory=RequestExtras)


class CreateResponse(RequestOptions, frozen=True, kw_only=True):
    """POST /v1/responses. Tools and items are in their typed forms, a text input is one user message."""

    input: tuple[InputItem, ...] = ()
    conversation: str | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    prompt: dict[str, Json] | None = None


class CompactRequest(Struct, frozen=True, kw_only=True):
    """POST /v1/responses/compact."""

    model: str
    input: tuple[InputItem, ...] = ()
    instructions: str | None = None
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None


class ExpiresAfter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    anchor: Literal["last_active_at"]
    minutes: Annotated[int, Meta(ge=1, le=525_600)]


class CreateContainer(Struct, frozen=True, kw_only=True):
    """POST /v1/containers."""

    name: Id
    memory_limit: Tier = "1g"
    expires_after: ExpiresAfter | None = None
    file_ids: tuple[str, ...] = ()
    network_policy: NetworkPolicy | None = None
