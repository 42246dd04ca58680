"""Namespaces of tools, for models that know only functions: written into each name, and read out of it again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from belljar.vendors.deltas import CallBegun
from belljar.wire import error_messages
from belljar.wire.items import CustomToolCall, FunctionCall, InputItem
from belljar.wire.reading_tools import read_tools
from belljar.wire.tools import CustomTool, FunctionTool, HostedTool, Tool

NAMESPACE = "namespace"
Named = FunctionTool | CustomTool


class Namespaces:
    """The tools of one request, each with a name of its own; left as they are for a model that knows namespaces."""

    def __init__(self, tools: Sequence[Tool], *, known: bool = False) -> None:
        self._known = known
        self._taken = {tool.name for tool in tools if isinstance(tool, FunctionTool | CustomTool)}
        self._flat: dict[tuple[str, str], str] = {}
        self._places: dict[str, tuple[str, str]] = {}
        self.tools = tuple(one for number, tool in enumerate(tools) for one in self._flatten(tool, f"tools[{number}]"))

    def _flatten(self, tool: Tool, path: str) -> Iterable[Tool]:
        if self._known or not isinstance(tool, HostedTool) or tool.type != NAMESPACE:
            return (tool,)
        name, about = tool.data.get("name"), tool.data.get("description")
        if not isinstance(name, str) or not name:
            raise error_messages.missing(error_messages.at(path, "name"))
        inner = read_tools(tool.data.get("tools"), f"{path}.tools")
        flat: list[Tool] = []
        for number, one in enumerate(inner):
            if not isinstance(one, FunctionTool | CustomTool):
                kind = tool.data["tools"][number]["type"]
                raise error_messages.not_one_of(f"{path}.tools[{number}].type", kind, ("function", "custom"))
            flat.append(self._rename(name, one, about))
        return flat

    def _rename(self, namespace: str, tool: Named, about: object) -> Named:
        flat = f"{namespace}__{tool.name}"
        while flat in self._taken:
            flat += "_"
        self._taken.add(flat)
        self._flat[namespace, tool.name] = flat
        self._places[flat] = namespace, tool.name
        described = "\n\n".join(text for text in (about, tool.description) if isinstance(text, str) and text)
        return structs.replace(tool, name=flat, description=described)

    def flatten_names(self, items: Iterable[InputItem]) -> tuple[InputItem, ...]:
        """Items as the model knows them: each call by the name that was declared to it."""
        return tuple(items) if self._known else tuple([self._flatten_name(item) for item in items])

    def _flatten_name(self, item: InputItem) -> InputItem:
        # By exact types: a struct needs 170 ns to say that it is no instance, and a conversation can be long.
        if (type(item) is FunctionCall or type(item) is CustomToolCall) and isinstance(item.namespace, str):
            flat = self._flat.get((item.namespace, item.name), f"{item.namespace}__{item.name}")
            return structs.replace(item, name=flat, namespace=None)
        return item

    def restore_name(self, begun: CallBegun) -> CallBegun:
        """A call as its caller declared it."""
        if begun.name not in self._places:
            return begun
        namespace, name = self._places[begun.name]
        return structs.replace(begun, name=name, namespace=namespace)
