"""/v1/conversations and their items."""

from __future__ import annotations

from belljar.gateway.server import objects
from belljar.gateway.server.bodies import INCLUDE, PAGE, ConversationBody, ItemsBody, MetadataBody
from belljar.gateway.server.interfaces import Conversations
from belljar.gateway.server.options import ServerOptions
from belljar.gateway.server.request import Request
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.routing import Operation, Route, json_of
from belljar.wire import error_messages, reading
from belljar.wire.answers import Deleted, ListPage
from belljar.wire.codec import encode
from belljar.wire.conversations import Conversation
from belljar.wire.items import InputItem, Json

_ONE, _ITEMS = json_of(Conversation), json_of(ListPage[InputItem])


class ConversationRoutes:
    def __init__(self, conversations: Conversations, options: ServerOptions) -> None:
        self._conversations = conversations
        self._options = options

    def routes(self) -> list[Route]:
        one, items = "/v1/conversations/{id}", "/v1/conversations/{id}/items"
        return [
            Route("POST", "/v1/conversations", self.create, Operation("Begin one", _ONE, json_of(ConversationBody))),
            Route("GET", one, self.get, Operation("One of them", _ONE)),
            Route("POST", one, self.update, Operation("Change its metadata", _ONE, json_of(MetadataBody))),
            Route("DELETE", one, self.delete, Operation("Delete it", json_of(Deleted))),
            Route("POST", items, self.add_items, Operation("Add items", _ITEMS, json_of(ItemsBody))),
            Route("GET", items, self.list_items, Operation("Its items", _ITEMS, query=(*PAGE, INCLUDE))),
            Route(
                "GET", f"{items}/{{item_id}}", self.get_item, Operation("An item", json_of(InputItem), query=(INCLUDE,))
            ),
            Route("DELETE", f"{items}/{{item_id}}", self.delete_item, Operation("Delete an item", _ONE)),
        ]

    async def create(self, request: Request) -> Answer:
        metadata, items = await request.json(self._options.largest_body, _read_new)
        record = await self._conversations.create(request.caller, metadata, items)
        return Reply(200, encode(objects.build_conversation(record)))

    async def get(self, request: Request) -> Answer:
        record = await self._conversations.get(request.params["id"], request.caller)
        return Reply(200, encode(objects.build_conversation(record)))

    async def update(self, request: Request) -> Answer:
        metadata = await request.json(self._options.largest_body, _read_metadata)
        record = await self._conversations.update(request.params["id"], request.caller, metadata)
        return Reply(200, encode(objects.build_conversation(record)))

    async def delete(self, request: Request) -> Answer:
        id = request.params["id"]
        await self._conversations.delete(id, request.caller)
        return Reply(200, objects.encode_deleted(id, "conversation.deleted"))

    async def add_items(self, request: Request) -> Answer:
        items = await request.json(self._options.largest_body, _read_items)
        kept = await self._conversations.add_items(request.params["id"], request.caller, items)
        return Reply(200, objects.encode_item_page(kept, False))

    async def list_items(self, request: Request) -> Answer:
        query = request.query
        items, more = await self._conversations.list_items(
            request.params["id"], request.caller, query.read_page(), query.read_include()
        )
        return Reply(200, objects.encode_item_page(items, more))

    async def get_item(self, request: Request) -> Answer:
        item = await self._conversations.get_item(
            request.params["id"], request.params["item_id"], request.caller, request.query.read_include()
        )
        return Reply(200, item.body)

    async def delete_item(self, request: Request) -> Answer:
        record = await self._conversations.delete_item(request.params["id"], request.params["item_id"], request.caller)
        return Reply(200, encode(objects.build_conversation(record)))


def _read_new(body: dict[str, Json]) -> tuple[dict[str, str], tuple[InputItem, ...]]:
    _check_names(body, "metadata", "items")
    items = reading.read_items(body["items"], "items") if body.get("items") is not None else ()
    return reading.read_metadata(body.get("metadata")), items


def _read_metadata(body: dict[str, Json]) -> dict[str, str]:
    _check_names(body, "metadata")
    if "metadata" not in body:
        raise error_messages.missing("metadata")
    return reading.read_metadata(body["metadata"])


def _read_items(body: dict[str, Json]) -> tuple[InputItem, ...]:
    _check_names(body, "items")
    if "items" not in body:
        raise error_messages.missing("items")
    return reading.read_items(body["items"], "items")


def _check_names(body: dict[str, Json], *accepted: str) -> None:
    for name in body:
        if name not in accepted:
            raise error_messages.unknown(name)
