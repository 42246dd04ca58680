"""The normal form: what is asked of any model, and the fragments of its answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

from belljar.wire.items import Annotation, CodeInterpreterCall, InputItem, Json, OtherItem, Reasoning
from belljar.wire.requests import Sampling
from belljar.wire.responses import Reasoner, TextConfig, Usage
from belljar.wire.tools import CodeInterpreterTool, CustomTool, FunctionTool, HostedTool, ToolChoice


class HostedFile(Struct, frozen=True, kw_only=True):
    """A file in the provider's sandbox: kept by the vendor under an id, or here in whole."""

    name: str | None
    type: str
    id: str | None = None
    container_id: str = ""
    """The vendor's container that has it, where only that gives it out."""
    data: bytes | None = None


# -- asked ------------------------------------------------------------------------------------------------------------


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One turn, as any dialect can write it.

    `items` is the whole conversation in order. A cell that we ran is in it as a `CodeInterpreterCall` with its outputs
    in place: a dialect without such items writes it as a call of the function `code_interpreter` and its result.
    `tools` holds the `code_interpreter` function where we run the code, the `CodeInterpreterTool` itself where the
    provider does: its container is then the provider's, by the id that it has there.
    """

    model: str
    """The name that the upstream knows."""
    items: tuple[InputItem, ...]
    instructions: str | None = None
    tools: tuple[FunctionTool | CustomTool | CodeInterpreterTool | HostedTool, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    sampling: Sampling = field(default_factory=Sampling)
    """A dialect carries what `sampling` says that its servers take."""
    logprobs: bool = False
    """Whether to tell the probability of each token."""
    top_logprobs: int = 0
    """And of how many others that could have stood there."""
    text: TextConfig = field(default_factory=TextConfig)
    reasoning: Reasoner | None = None
    encrypted_reasoning: bool = False
    """The caller keeps the conversation: ask the vendor for reasoning that can be sent back."""
    prompt_cache_key: str | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    truncation: Literal["auto", "disabled"] = "disabled"
    in_words: bool = False
    """The model is not given tools by its server: they are told in the prompt, and called in its answer."""
    stream: bool = True
    """Somebody wants the answer as it is written; a dialect may ask for it whole otherwise."""
    call_outputs: dict[str, str] = field(default_factory=dict)
    """What the model is told of each cell that we ran, by the `code_interpreter_call`'s id."""
    call_images: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Data URLs of the images each cell made, for models that see."""
    files: tuple[HostedFile, ...] = ()
    """To be put into the sandbox of the provider that runs the code, as they are not in it yet."""
    hops: tuple[str, ...] = ()
    """Gateways that it came through before this one; of no concern to a dialect."""


# -- answered ---------------------------------------------------------------------------------------------------------


class Text(Struct, frozen=True, gc=False):
    """A piece of the answer."""

    text: str
    logprobs: tuple[Json, ...] = ()


class Refused(Struct, frozen=True):
    """A piece of a refusal."""

    text: str


class Cited(Struct, frozen=True):
    """An annotation of the text so far."""

    annotation: Annotation


class Thought(Struct, frozen=True):
    """A piece of reasoning: raw, or the `index`th paragraph of a summary."""

    text: str
    kind: Literal["raw", "summary"] = "raw"
    index: int = 0


class ThoughtEnd(Struct, frozen=True):
    """The reasoning is over; `item` has what must go back to the vendor unchanged."""

    item: Reasoning


class VendorState(Struct, frozen=True):
    """What must go back to the vendor unchanged with the text of this answer so far."""

    content: str


class CallBegun(Struct, frozen=True):
    """The model begins to call a function; `index` tells parallel calls apart."""

    index: int
    call_id: str
    name: str
    custom: bool = False
    """Its input is free text, not JSON."""
    namespace: str | None = None
    """Where its vendor knows namespaces: the one that the function is declared in."""


class CallPiece(Struct, frozen=True):
    """A fragment of the call's argument JSON, exactly as it came."""

    index: int
    text: str


class CallEnd(Struct, frozen=True):
    """The call is complete; `arguments` is the whole of it."""

    index: int
    arguments: str


class HostedCode(Struct, frozen=True):
    """A piece of the code that the provider itself is about to run, in its own container."""

    index: int
    id: str
    container_id: str
    text: str


class ContainerUsed(Struct, frozen=True):
    """The provider's container in which the code of this answer was run: the next request can go on in it."""

    container_id: str


class HostedEnd(Struct, frozen=True):
    """The provider ran it."""

    index: int
    item: CodeInterpreterCall
    files: tuple[HostedFile, ...] = ()


class PassThrough(Struct, frozen=True):
    """An item of the vendor's that we hand on whole."""

    item: OtherItem


class Finish(Struct, frozen=True):
    """The model is done with this turn. Always the last but for `UsageDelta`."""

    reason: Literal["stop", "calls", "length", "filtered"]


class UsageDelta(Struct, frozen=True):
    """Tokens of this turn."""

    usage: Usage


class Repaired(Struct, frozen=True):
    """The dialect put right what the model got wrong, before the call that follows."""

    what: str
    written: str | None = None
    """The text of the model's that the call was found in, as far as it was not told as `Text`."""


Delta: TypeAlias = (
    Text
    | Refused
    | Cited
    | Thought
    | ThoughtEnd
    | VendorState
    | CallBegun
    | CallPiece
    | CallEnd
    | HostedCode
    | HostedEnd
    | ContainerUsed
    | PassThrough
    | Finish
    | UsageDelta
    | Repaired
)


class Decoder(Protocol):
    """One answer, streamed: bytes as they arrive in, deltas out. Any split of the bytes gives the same deltas."""

    def feed(self, data: bytes) -> list[Delta]:
        """What these bytes complete. Raises `Garbled` or the error that the stream itself reports."""
        ...

    def close(self) -> list[Delta]:
        """The stream ended: what is left; `Garbled` if it ended too soon."""
        ...

    def resume(self) -> bytes | None:
        """After `close`: the body to send if the vendor only paused, whose answer is then fed to this same decoder."""
        return None


class Model(Protocol):
    """A model behind the gateway, ready to be asked."""

    def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        """One turn; a list per read from the network. A `ProviderError` before the first list has an HTTP status."""
        ...


class Traits(Struct, frozen=True, kw_only=True):
    """What a model can do, as far as the gateway must know."""

    sees: bool = True
    """Images may be sent to it."""
    hosted: bool = False
    """Its vendor runs hosted tools of the Responses API."""
    runs: bool = False
    """Its vendor can run code in a sandbox of its own."""
    dialect: str = "chat"
    carries: frozenset[str] | None = None
    """Wishes of how to sample that reach it, by our names; None where it is not known and nothing need be told."""
