"""previous_response_id, conversation and input: the items that the model sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

from msgspec import UNSET, Struct, structs

from belljar.errors import InvalidRequest, NotFound
from belljar.gateway.engine.turn_calls import Stray
from belljar.gateway.store.base import FoundContainer, Records, ResponseRecord
from belljar.wire import ids
from belljar.wire.items import (
    CellEnd,
    CodeInterpreterCall,
    Compaction,
    CompactionTrigger,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputItem,
    ItemReference,
    Message,
    OtherItem,
    OutputItem,
    Reasoning,
)
from belljar.wire.reading import read_stored_items
from belljar.wire.requests import CompactRequest, CreateResponse

_KINDS: Mapping[type, ids.Kind] = {
    FunctionCall: "fc",
    FunctionCallOutput: "fc",
    CustomToolCall: "ctc",
    CustomToolCallOutput: "ctc",
    Reasoning: "rs",
    Compaction: "cmp",
    OtherItem: "item",
}
MOST_ITEMS = 10_000
"""Of a conversation: each is looked at many times in a turn, while others wait."""
MOST_BYTES = 64 << 20
"""Of what came before: it is in memory as often as somebody goes on from it."""


class History(Struct, frozen=True, kw_only=True):
    """What came before a request, and the request's own items with ids."""

    before: tuple[InputItem, ...] = ()
    own: tuple[InputItem, ...] = ()
    containers: tuple[str, ...] = ()
    """Of code that ran before, newest first."""
    versions: Mapping[str, int] = {}
    """Of these containers, the newest that the model knows of."""
    container: FoundContainer | None = None
    """The one that the newest response before names, where it was read along with that."""
    compact_now: bool = False

    @property
    def items(self) -> tuple[InputItem, ...]:
        return self.before + self.own


class HistoryRequest(Struct, frozen=True, kw_only=True):
    """The part of a request that says what came before."""

    input: tuple[InputItem, ...]
    previous_response_id: str | None = None
    conversation: str | None = None

    @classmethod
    def of(cls, request: CreateResponse | CompactRequest) -> HistoryRequest:
        conversation = request.conversation if isinstance(request, CreateResponse) else None
        return cls(input=request.input, previous_response_id=request.previous_response_id, conversation=conversation)


async def read_history(
    records: Records,
    asked: HistoryRequest,
    owner: str,
    response_id: str,
    memory: Mapping[str, ResponseRecord] | None = None,
    *,
    housed: bool = False,
) -> History:
    """Everything before, in order: the chain or the conversation, then the input. Faults name what does not fit.

    `housed` says that the container is wanted as well.
    """
    before: list[InputItem] = []
    containers: list[str] = []
    versions: dict[str, int] = {}
    container: FoundContainer | None = None
    if asked.previous_response_id is not None:
        chain, container = await _read_chain(records, asked.previous_response_id, owner, memory or {}, housed=housed)
        _check_size(sum(len(record.input) + len(record.output) for record in chain))
        for record in chain:
            before += read_stored_items(record.input)
            before += read_stored_items(record.output)
            if record.container_id is not None:
                containers.append(record.container_id)
                if record.container_version is not None:
                    versions[record.container_id] = record.container_version
    elif asked.conversation is not None:
        if await records.get_conversation(asked.conversation, owner) is None:
            raise NotFound(f"Conversation with id '{asked.conversation}' not found.")
        rows = await records.all_items(asked.conversation)
        _check_size(sum(len(row.body) for row in rows))
        for kept in rows:
            before += read_stored_items(b"[" + kept.body + b"]")
    _check_count(len(before) + len(asked.input))
    own = assign_ids(await _dereference(records, asked.input, before, owner), response_id)
    items = [*before, *own]
    _check_items(items)
    cells = [item for item in items if type(item) is CodeInterpreterCall]
    containers += [cell.container_id for cell in cells]
    for cell in cells:
        if isinstance(cell.belljar, CellEnd) and cell.belljar.version is not None:
            versions[cell.container_id] = max(versions.get(cell.container_id, 0), cell.belljar.version)
    compact_now = bool(own) and isinstance(own[-1], CompactionTrigger)
    return History(
        before=_drop_compacted(before, own),
        own=tuple(own[:-1] if compact_now else own),
        containers=tuple(dict.fromkeys(reversed(containers))),
        versions=versions,
        container=container,
        compact_now=compact_now,
    )


async def _read_chain(
    records: Records, id: str, owner: str, memory: Mapping[str, ResponseRecord], *, housed: bool
) -> tuple[list[ResponseRecord], FoundContainer | None]:
    """Oldest first. `memory` has what one WebSocket keeps for itself; a chain of it may rest on stored ones."""
    kept: list[ResponseRecord] = []
    at: str | None = id
    while at is not None and at in memory:
        kept.append(memory[at])
        at = memory[at].previous_id
    stored: list[ResponseRecord] = []
    container: FoundContainer | None = None
    if at is not None and housed:
        stored, container = await records.chain_with_container(at, owner)
    elif at is not None:
        stored = await records.chain(at, owner)
    if at is not None and (not stored or stored[-1].id != at):
        raise _build_lost_error(at)
    if stored and stored[0].previous_id is not None:
        raise _build_lost_error(stored[0].previous_id)
    chain = [*stored, *reversed(kept)]
    if chain and chain[-1].status in ("queued", "in_progress"):
        raise InvalidRequest(
            f"Previous response with id '{id}' is still in progress. Wait until it is done, or cancel it.",
            param="previous_response_id",
        )
    return chain, container


def _build_lost_error(id: str) -> InvalidRequest:
    return InvalidRequest(
        f"Previous response with id '{id}' not found.",
        param="previous_response_id",
        fault="previous_response_not_found",
    )


async def _dereference(
    records: Records, own: Sequence[InputItem], before: Iterable[InputItem], owner: str
) -> list[InputItem]:
    """References become the items that they name, and cells get back what their callers left out or changed.

    What they printed may be missing. Where they ran may be another's name for it: LiteLLM and others like it put names
    of their own in the place of containers, while the id of the call stays ours and tells where it is kept.
    """
    named = [item.id for item in own if type(item) is ItemReference or _is_bare(item) or _is_astray(item)]
    if not named:
        return list(own)
    known = _index_by_id(before)
    homes = dict.fromkeys(ids.home(id) for id in named if id not in known)
    for home in filter(None, homes):
        record = await records.get_response(home, owner)
        if record is not None:
            known |= _index_by_id([*read_stored_items(record.input), *read_stored_items(record.output)])
    found: list[InputItem] = []
    for number, item in enumerate(own):
        if isinstance(item, ItemReference):
            if item.id not in known:
                raise InvalidRequest(f"Item with id '{item.id}' not found.", param=f"input[{number}].id")
            item = known[item.id]
        elif _is_bare(item) and isinstance(kept := known.get(item.id), CodeInterpreterCall):
            item = structs.replace(item, outputs=kept.outputs, belljar=kept.belljar, told=kept.told)
        found.append(item)
    return await _assign_containers(records, found, known, owner)


async def _assign_containers(
    records: Records, own: Sequence[InputItem], known: Mapping[str, InputItem], owner: str
) -> list[InputItem]:
    """Cells with containers of ours: the one that is kept, else that their response made, else of the cell before."""
    made: dict[str, bool] = {}
    before: str | None = None
    found: list[InputItem] = []
    for item in own:
        if _is_astray(item):
            kept, home = known.get(item.id), ids.home(item.id)
            id = ids.beside("cntr", home) if home is not None else item.container_id
            if isinstance(kept, CodeInterpreterCall):
                id = kept.container_id
            elif id not in made:
                made[id] = await records.get_container(id, owner) is not None
            if before is not None and not made.get(id, True):
                id = before
            item = structs.replace(item, container_id=id)
        if isinstance(item, CodeInterpreterCall):
            before = item.container_id
        found.append(item)
    return found


def _is_bare(item: InputItem) -> TypeGuard[CodeInterpreterCall]:
    return type(item) is CodeInterpreterCall and item.outputs is None


def _is_astray(item: InputItem) -> TypeGuard[CodeInterpreterCall]:
    return type(item) is CodeInterpreterCall and not ids.is_ours("cntr", item.container_id)


def _index_by_id(items: Iterable[InputItem]) -> dict[str, InputItem]:
    return {id: item for item in items if isinstance(id := getattr(item, "id", None), str)}


def assign_ids(own: Iterable[InputItem], response_id: str) -> list[InputItem]:
    """Every item gets an id; those that had one keep it."""
    found: list[InputItem] = []
    for number, item in enumerate(own):
        if getattr(item, "id", None) in (None, UNSET) and not isinstance(item, CompactionTrigger):
            fresh = ids.within(_KINDS.get(type(item), "msg"), response_id, 0x8000 + number)
            if isinstance(item, OtherItem):
                item = OtherItem({**item.data, "id": fresh})
            else:
                item = structs.replace(item, id=fresh)
        found.append(item)
    return found


def _check_count(count: int) -> None:
    if count > MOST_ITEMS:
        raise InvalidRequest(
            f"Invalid 'input': the conversation would have {count} items, with those that came before. At most "
            f"{MOST_ITEMS} are allowed. Send fewer, or make it short by POST /v1/responses/compact.",
            param="input",
            fault="array_above_max_length",
        )


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise InvalidRequest(
            f"Invalid 'input': what came before has {size} bytes, and at most {MOST_BYTES} can be gone on from. Begin "
            "anew, with what matters of it.",
            param="input",
            fault="string_above_max_length",
        )


def _check_items(items: Sequence[InputItem]) -> None:
    """Calls and their outputs belong together; ids are unique."""
    seen: set[str] = set()
    open_calls: dict[str, None] = {}
    called: set[str] = set()
    for item in items:  # by exact types, here and below: a struct needs 170 ns to say that it is no instance
        id = getattr(item, "id", None)
        if isinstance(id, str):
            if id in seen:
                raise InvalidRequest(
                    f"Duplicate item found with id {id}. Remove duplicate items from your input and try again.",
                    param="input",
                )
            seen.add(id)
        if type(item) is FunctionCall or type(item) is CustomToolCall:
            open_calls[item.call_id] = None
            called.add(item.call_id)
        elif type(item) is FunctionCallOutput or type(item) is CustomToolCallOutput:
            if item.call_id not in called:
                raise InvalidRequest(
                    f"No tool call found for function call output with call_id {item.call_id}.", param="input"
                )
            open_calls.pop(item.call_id, None)
    if open_calls:
        raise InvalidRequest(f"No tool output found for function call {next(iter(open_calls))}.", param="input")


def _drop_compacted(before: Sequence[InputItem], own: Sequence[InputItem]) -> tuple[InputItem, ...]:
    """Of what lies before the newest compaction in the chain, only the user's messages are kept beside it."""
    newest = max((at for at, item in enumerate(before) if type(item) is Compaction), default=None)
    if newest is None:
        return tuple(before)
    users = [item for item in before[:newest] if isinstance(item, Message) and item.role == "user"]
    return (*users, *before[newest:])


def list_turn_items(items: Sequence[OutputItem], strays: Sequence[Stray]) -> tuple[InputItem, ...]:
    """The items of one turn as the model knows them: with its stray calls, and our answers to those."""
    if not strays:
        return tuple(items)
    known: list[InputItem] = []
    for at in range(len(items) + 1):
        known += [stray.call for stray in strays if stray.place == at]
        known += items[at : at + 1]
    return (*known, *(stray.answer for stray in strays))
