"""What any model answers: fragments of one turn, in no vendor's words, and who makes them of a vendor's bytes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from belljar.vendors.file_reading import FileReading
from belljar.vendors.request import HostedFile, ModelRequest, Verbatim
from belljar.wire.items import Annotation, CodeInterpreterCall, Json, OtherItem, Reasoning
from belljar.wire.responses import Usage


class Begun(Struct, frozen=True):
    """The vendor's id of this answer, by which it may remember the conversation. Before all else, from who keeps it."""

    id: str


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
    expires_at: str | None = None
    """Until when, as the vendor writes it, where it says so."""


class Ran(Struct, frozen=True, kw_only=True):
    """What a provider's own run of code put out, each stream apart: an item has only one log of both."""

    code: str
    """As people read it."""
    stdout: str = ""
    stderr: str = ""
    exit: int | None = None
    """None where the vendor does not tell, or it never ended."""
    late: bool = False
    """It took longer than the vendor allows."""


class HostedEnd(Struct, frozen=True):
    """The provider ran it."""

    index: int
    item: CodeInterpreterCall
    files: tuple[HostedFile, ...] = ()
    ran: Ran | None = None


class PassThrough(Struct, frozen=True):
    """An item of the vendor's that we hand on whole."""

    item: OtherItem


class Finish(Struct, frozen=True):
    """The model is done with this turn. Always the last but for `UsageDelta`."""

    reason: Literal["stop", "calls", "length", "filtered"]
    unknown: bool = False
    """The vendor gave a reason that we do not know, and `stop` is only a guess."""


class UsageDelta(Struct, frozen=True):
    """Tokens of this turn."""

    usage: Usage


class Repaired(Struct, frozen=True):
    """The dialect put right what the model got wrong, before the call that follows."""

    what: str
    written: str | None = None
    """The text of the model's that the call was found in, as far as it was not told as `Text`."""


Delta: TypeAlias = (
    Begun
    | Text
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

    def verbatim(self) -> Verbatim | None:
        """After `close`: the answer as the vendor wants it back, where the decoder was told to keep it."""
        return None


class AnsweringModel(Protocol):
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
    reading: FileReading | None = None
    """How it is given files to read itself; None where it reads none."""
    carries: frozenset[str] | None = None
    """Wishes of how to sample that reach it, by our names; None where it is not known and nothing need be told."""
