"""A turn as the body of a request to the Responses API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from belljar.providers.context_manager import Message
from belljar.providers.tool_converters import Body, build_openai_tool_results
from belljar.providers.types import Turn
from belljar.providers.uploads import FileReference

OUTPUTS = "code_interpreter_call.outputs"


def items(messages: Iterable[Message], *, files_in_container: bool) -> list[Body]:
    """The conversation as input items. Files for the code go into its container, where there is one."""
    return [item for message in messages for item in _items(message, files_in_container)]


def _items(message: Message, files_in_container: bool) -> Iterator[Body]:
    match message["role"]:
        case "tool":
            yield from build_openai_tool_results(message["tool_results"])
        case "assistant":
            if message["content"]:
                yield {"role": "assistant", "content": message["content"]}
            for call in message.get("tool_calls", ()):
                arguments = json.dumps(call["input"], ensure_ascii=False)
                yield {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": arguments}
        case role:
            attached = () if message.get("for_code") and files_in_container else message.get("files", ())
            yield {"role": role, "content": _content(message["content"], attached, sees=files_in_container)}


def _content(text: str, files: Iterable[FileReference], *, sees: bool) -> str | list[Body]:
    attached: list[Body] = [{"type": _part(file) if sees else "input_file", "file_id": file.id} for file in files]
    return [*attached, {"type": "input_text", "text": text}] if attached else text


def _part(file: FileReference) -> str:
    """A picture is no file to OpenAI: it is looked at, not read. Whether xAI looks at one by its id is not known."""
    return "input_image" if file.mime_type.startswith("image/") else "input_file"


def code_interpreter(turn: Turn) -> Body:
    """The hosted tool, in the chain's container or a new one, with the files that are for the code."""
    files = [file.id for message in turn.messages if message.get("for_code") for file in message.get("files", ())]
    return {"type": "code_interpreter", "container": {"type": "auto", **({"file_ids": files} if files else {})}}
