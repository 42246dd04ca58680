"""What is asked of any model: one turn of a conversation, in no vendor's words."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeGuard

from msgspec import Struct, field

from belljar.errors import InvalidRequest
from belljar.wire.items import Compaction, InputItem, ItemReference
from belljar.wire.requests import Sampling
from belljar.wire.responses import Reasoner, TextConfig
from belljar.wire.tools import CodeInterpreterTool, CustomTool, FunctionTool, HostedTool, ToolChoice


class HostedFile(Struct, frozen=True, kw_only=True):
    """A file in the provider's sandbox: kept by the vendor under an id, or here in whole."""

    name: str | None
    type: str
    id: str | None = None
    container_id: str = ""
    """The vendor's container that has it, where only that gives it out."""
    data: bytes | None = None


class VendorFile(Struct, frozen=True, kw_only=True):
    """A file that the vendor has under an id of its own, or is given here."""

    id: str
    name: str
    type: str = ""
    """Where somebody said so; else it follows from the name."""
    data: bytes | None = None
    """The file itself, from who knows that its vendor wants no id for it."""


class AttachedFiles(Struct, frozen=True):
    """Files of the vendor's that belong to the user's message after it.

    Only the library has them: at the gateway a file's id is ours, and the model is told of it in words.
    """

    files: tuple[VendorFile, ...]
    for_code: bool = False
    """They are put into the vendor's sandbox; without, the model reads them itself."""


class Verbatim(Struct, frozen=True):
    """An answer as its vendor wants it back, unread: what a decoder that keeps it gives at the end.

    Items lose what only the vendor knows (signatures of thoughts, results of its own tools). Sent to no other vendor.
    """

    vendor: str
    blocks: tuple[dict[str, Any], ...]
    calls: tuple[str, ...] = ()
    """The ids of its calls in their order as they were told, where the vendor itself may have given them none."""


class VendorTool(Struct, frozen=True):
    """A tool that the vendor runs itself, declared in its own words; sent to no other vendor."""

    vendor: str
    body: dict[str, Any]
    container: str | None = None
    """The vendor's container that it goes on in, where it has one."""


Asked: TypeAlias = InputItem | AttachedFiles | Verbatim
"""What a conversation may hold: the items of OpenAI's wire, and what only a library's conversation has."""


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One turn, as any dialect can write it.

    `items` is the whole conversation in order. A cell that we ran is in it as a `CodeInterpreterCall` with its outputs
    in place: a dialect without such items writes it as a call of the function `code_interpreter` and its result.
    `tools` holds the `code_interpreter` function where we run the code, the `CodeInterpreterTool` itself where the
    provider does: its container is then the provider's, by the id that it has there.
    """

    model: str
    """The name that the upstream knows."""
    items: tuple[Asked, ...]
    instructions: str | None = None
    tools: tuple[FunctionTool | CustomTool | CodeInterpreterTool | HostedTool | VendorTool, ...] = ()
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
    user: str | None = None
    """OpenAI's older word for that and for `prompt_cache_key`."""
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
    failed_calls: frozenset[str] = frozenset()
    """Calls of functions whose output tells of a failure, by their ids: some wires say so beside the output."""
    previous: str | None = None
    """The response by which the vendor remembers what came before `items`, where it remembers."""
    store: bool | None = False
    """The vendor may remember this turn; None: it does as it does by itself."""
    hops: tuple[str, ...] = ()
    """Gateways that it came through before this one; of no concern to a dialect."""

    @property
    def plain_items(self) -> tuple[InputItem, ...]:
        """Those of OpenAI's wire: all that there are at the gateway."""
        return tuple(item for item in self.items if _is_plain(item))


def _is_plain(item: Asked) -> TypeGuard[InputItem]:
    return type(item) is not AttachedFiles and type(item) is not Verbatim


def refuse_item(model: str, item: Compaction | ItemReference) -> InvalidRequest:
    """For wires that know no such thing."""
    kind = type(item).__struct_config__.tag
    message = f"input: {model!r} cannot be given {kind!r} items; send the items that it stands for"
    return InvalidRequest(message, param="input")
