"""Items of a conversation, input and output, and their parts."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

Json: TypeAlias = Any
"""JSON that we carry and do not read: a schema, an opaque vendor value."""

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]
CallStatus: TypeAlias = Literal["in_progress", "interpreting", "completed", "incomplete", "failed"]


class Value(Struct, frozen=True, kw_only=True, tag_field="type"):
    """A value with a `type` on the wire."""


class Carried:
    """JSON that goes on as it came: `codec.encode` writes the data itself. A class, since a struct would be wrapped."""

    __slots__ = ("data",)

    def __init__(self, data: dict[str, Json]) -> None:
        self.data = data

    @property
    def type(self) -> str:
        return str(self.data["type"])

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.type)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data!r})"


# -- annotations ------------------------------------------------------------------------------------------------------


class ContainerFileCitation(Value, frozen=True, kw_only=True, tag="container_file_citation"):
    """A file that the code made; the indices are code points of `sandbox:/mnt/data/…`, 0 and 0 where unmentioned."""

    container_id: str
    file_id: str
    filename: str
    start_index: int
    end_index: int


class UrlCitation(Value, frozen=True, kw_only=True, tag="url_citation"):
    start_index: int
    end_index: int
    title: str
    url: str


class FileCitation(Value, frozen=True, kw_only=True, tag="file_citation"):
    file_id: str
    filename: str = ""
    index: int = 0


class FilePath(Value, frozen=True, kw_only=True, tag="file_path"):
    file_id: str
    index: int = 0


Annotation: TypeAlias = ContainerFileCitation | UrlCitation | FileCitation | FilePath

# -- parts of a message -----------------------------------------------------------------------------------------------


class InputText(Value, frozen=True, kw_only=True, tag="input_text"):
    text: str


class InputImage(Value, frozen=True, kw_only=True, tag="input_image"):
    """By address (often a data URL) or by the id of an uploaded file."""

    detail: Literal["low", "high", "auto", "original"] | None = "auto"
    image_url: str | None = None
    file_id: str | None = None


class InputFile(Value, frozen=True, kw_only=True, tag="input_file"):
    """By id, by data URL with a name, or by address."""

    file_id: str | UnsetType | None = UNSET
    file_data: str | UnsetType = UNSET
    file_url: str | UnsetType = UNSET
    filename: str | UnsetType = UNSET
    detail: Literal["auto", "low", "high"] | UnsetType = UNSET


class InputAudio(Value, frozen=True, kw_only=True, tag="input_audio"):
    input_audio: Json


class OutputText(Value, frozen=True, kw_only=True, tag="output_text"):
    text: str
    annotations: tuple[Annotation, ...] = ()
    logprobs: tuple[Json, ...] = ()


class Refusal(Value, frozen=True, kw_only=True, tag="refusal"):
    refusal: str


class SummaryText(Value, frozen=True, kw_only=True, tag="summary_text"):
    text: str


class ReasoningText(Value, frozen=True, kw_only=True, tag="reasoning_text"):
    text: str


InputPart: TypeAlias = InputText | InputImage | InputFile
Part: TypeAlias = InputText | InputImage | InputFile | InputAudio | OutputText | Refusal

# -- items ------------------------------------------------------------------------------------------------------------


class Message(Value, frozen=True, kw_only=True, tag="message"):
    """Said by somebody. Output messages have an id, a status and output parts."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | tuple[Part, ...]
    id: str | UnsetType = UNSET
    status: ItemStatus | UnsetType = UNSET
    phase: Literal["commentary", "final_answer"] | UnsetType | None = UNSET
    sealed: str | UnsetType = UNSET
    """What its vendor wants back with it, unread: kept, and shown to nobody."""
    told: str | UnsetType = UNSET
    """What the model was told beside a user's message: kept, so that it reads the same again, and shown to nobody."""


class Reasoning(Value, frozen=True, kw_only=True, tag="reasoning"):
    """What the model thought; `encrypted_content` is the vendor's and goes back unchanged."""

    id: str | UnsetType = UNSET
    summary: tuple[SummaryText, ...] = ()
    content: tuple[ReasoningText, ...] | UnsetType | None = UNSET
    encrypted_content: str | UnsetType | None = UNSET
    status: ItemStatus | UnsetType | None = UNSET


class FunctionCall(Value, frozen=True, kw_only=True, tag="function_call"):
    call_id: str
    name: str
    arguments: str
    id: str | UnsetType = UNSET
    status: ItemStatus | UnsetType = UNSET
    namespace: str | UnsetType | None = UNSET


class FunctionCallOutput(Value, frozen=True, kw_only=True, tag="function_call_output"):
    call_id: str
    output: str | tuple[InputPart, ...]
    id: str | UnsetType | None = UNSET
    status: ItemStatus | UnsetType | None = UNSET


class CustomToolCall(Value, frozen=True, kw_only=True, tag="custom_tool_call"):
    call_id: str
    name: str
    input: str
    id: str | UnsetType = UNSET
    status: ItemStatus | UnsetType = UNSET
    namespace: str | UnsetType | None = UNSET


class CustomToolCallOutput(Value, frozen=True, kw_only=True, tag="custom_tool_call_output"):
    call_id: str
    output: str | tuple[InputPart, ...]
    id: str | UnsetType | None = UNSET


class Logs(Value, frozen=True, kw_only=True, tag="logs"):
    logs: str


class Image(Value, frozen=True, kw_only=True, tag="image"):
    url: str


CodeOutput: TypeAlias = Logs | Image


class InlineFile(Struct, frozen=True, kw_only=True):
    """A small file that a cell made, whole: for callers who asked for that."""

    path: str
    file_id: str
    url: str
    """A data URL."""


class CellEnd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Our own addition to a call, under `belljar`: how the cell ended, and what we mended to run it."""

    exit: Literal["ok", "raised", "timed_out", "killed"]
    reason: str | None = None
    text: str = ""
    exit_code: int | None = None
    """As a process of its own would have ended; -1 where it was stopped, None where its vendor does not say."""
    stdout: str | None = None
    stderr: str | None = None
    """The two apart, with the traceback at the end of the latter: `outputs` has both as they came. Shown with those."""
    limit: str | None = None
    """Which limit was behind it, where there was one."""
    remedy: str = ""
    """Of `text`, the end: what the caller can do about it."""
    seconds: float = 0.0
    repaired: str | None = None
    """What a weak model got wrong and we put right."""
    written: str | None = None
    """What it wrote in place of a call, beyond the message before; None where it called."""
    more: bool = False
    """The model made another call in the same turn, which comes after this one."""
    healed: bool = False
    """The container's sandbox was gone: files are back, variables are not."""
    files: tuple[str, ...] = ()
    """Paths of the files that the cell made or changed."""
    file_ids: tuple[str, ...] = ()
    """Their ids in the same order, and then those of the pictures that it only showed."""
    inline_files: tuple[InlineFile, ...] = ()
    """Those of them that the caller wanted at once, and that are small enough."""
    version: int | None = None
    """The version of the container that the cell left."""


class CodeInterpreterCall(Value, frozen=True, kw_only=True, tag="code_interpreter_call"):
    """One cell. All six keys are always there; `outputs` is null unless the caller included them."""

    id: str
    status: CallStatus
    code: str | None
    container_id: str
    outputs: tuple[CodeOutput, ...] | None = None
    belljar: CellEnd | UnsetType = UNSET
    told: str | UnsetType = UNSET
    """What the model was told of it: kept, so that it reads the same again, and shown to nobody."""


class Compaction(Value, frozen=True, kw_only=True, tag="compaction"):
    """Earlier turns, summarised and sealed."""

    encrypted_content: str
    id: str | UnsetType | None = UNSET


class CompactionTrigger(Value, frozen=True, kw_only=True, tag="compaction_trigger"):
    """Compact now; the last input item."""


class ItemReference(Value, frozen=True, kw_only=True, tag="item_reference"):
    id: str


class OtherItem(Carried):
    """An item that we carry for the vendor that knows it."""

    __slots__ = ()

    @property
    def id(self) -> str | UnsetType:
        found = self.data.get("id")
        return found if isinstance(found, str) else UNSET


OutputItem: TypeAlias = (
    Message | Reasoning | FunctionCall | CustomToolCall | CodeInterpreterCall | Compaction | OtherItem
)
InputItem: TypeAlias = OutputItem | FunctionCallOutput | CustomToolCallOutput | CompactionTrigger | ItemReference


class ItemTypes:
    """Item types by their tag."""

    ITEMS: ClassVar[dict[str, type[Value]]] = {
        "message": Message,
        "reasoning": Reasoning,
        "function_call": FunctionCall,
        "function_call_output": FunctionCallOutput,
        "custom_tool_call": CustomToolCall,
        "custom_tool_call_output": CustomToolCallOutput,
        "code_interpreter_call": CodeInterpreterCall,
        "compaction": Compaction,
        "compaction_trigger": CompactionTrigger,
        "item_reference": ItemReference,
    }
    OTHER: ClassVar[frozenset[str]] = frozenset(
        [
            "file_search_call",
            "web_search_call",
            "computer_call",
            "computer_call_output",
            "program",
            "program_output",
            "tool_search_call",
            "tool_search_output",
            "additional_tools",
            "image_generation_call",
            "local_shell_call",
            "local_shell_call_output",
            "shell_call",
            "shell_call_output",
            "apply_patch_call",
            "apply_patch_call_output",
            "mcp_call",
            "mcp_list_tools",
            "mcp_approval_request",
            "mcp_approval_response",
            "configuration_update",
        ]
    )
