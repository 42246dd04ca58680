"""A client that speaks a vendor's dialect: turns as it writes them, answers as it reads them, sent by the vendor's SDK.

It is the same dialect that the gateway speaks, so that both ask alike and understand alike.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from typing import ClassVar

from belljar.providers.base import BaseClient
from belljar.providers.code_execution import CodeExecution, OutputFile, execution_of
from belljar.providers.context_manager import Message
from belljar.providers.failures import ClientError, translate_errors, translate_stream_errors
from belljar.providers.tool_converters import as_text, build_openai_tool_results, function_tools, tool_call
from belljar.providers.types import FINISHES, ClientAnswer, ClientTurn, OnText
from belljar.providers.uploads import FileReference
from belljar.vendors.deltas import Decoder, Delta, HostedEnd, Refused, Text
from belljar.vendors.dialect import Dialect
from belljar.vendors.fold import Folded, fold
from belljar.vendors.registry import VENDORS
from belljar.vendors.request import Asked, AttachedFiles, HostedFile, ModelRequest, VendorFile, Verbatim
from belljar.wire import items
from belljar.wire.responses import Reasoner
from belljar.wire.tools import CodeInterpreterTool


class DialectClient(BaseClient):
    """A vendor's client brings its SDK: how a body is posted, and where files come from and go."""

    error: ClassVar[type[ClientError]]
    strict_tools: ClassVar[bool] = False
    """The model is held to the schemas of tools that can be strict."""
    flags_failures: ClassVar[bool] = False
    """Its wire says beside the output of a tool that the tool failed; elsewhere the output says so."""

    @cached_property
    def _dialect(self) -> Dialect:
        return VENDORS[self.provider].dialect(self.error.vendor)

    # -- what a vendor's client brings

    @abstractmethod
    def _post(self, body: bytes) -> Generator[bytes, None, None]:
        """The answer to this body, as it comes; closing it closes the connection."""

    @abstractmethod
    def _failure(self, error: BaseException) -> ClientError:
        """What an exception of the SDK means, or one of our own tree."""

    @abstractmethod
    def _code_tool(self, turn: ClientTurn) -> CodeInterpreterTool:
        """The vendor's code interpreter, where a turn wants it; raises where the vendor runs no code."""

    def _output_file(self, file: HostedFile) -> OutputFile:
        """A file that the vendor's code made and keeps."""
        raise NotImplementedError(f"{self.provider} keeps no files")

    def _vendor_file(self, file: FileReference) -> VendorFile:
        return VendorFile(id=file.id, name=file.filename)

    def _reasoner(self) -> Reasoner | None:
        """How long the model is to think; the dialect sends what the model takes of it."""
        return Reasoner(effort=self._wanted_effort) if self._wanted_effort else None

    def _note(self, turn: ClientTurn, folded: Folded) -> None:
        """What of this answer the next turn goes on with, such as a container."""

    # -- one turn

    def _ask(self, turn: ClientTurn) -> ClientAnswer:
        request = self._request(turn)
        decoder = self._dialect.decoder(request, keep=True)
        heard: list[Delta] = []
        with closing(self._deltas(request, decoder)) as batches:
            for batch in batches:
                heard += batch
                if turn.on_text is not None:
                    _tell(batch, turn.on_text)
        folded = fold(heard)
        self._note(turn, folded)
        return self._answer(turn, folded, decoder.verbatim())

    def _request(self, turn: ClientTurn) -> ModelRequest:
        """With all names and schemas as the caller has them: what does not fit the wire is the dialect's concern."""
        functions = function_tools(turn.tools, strict=self.strict_tools)
        code = [self._code_tool(turn)] if turn.code_execution else []
        return ModelRequest(
            model=self.get_model(),
            items=tuple(self._items(turn)),
            instructions=turn.system or None,
            tools=(*functions, *code),
            parallel_tool_calls=self.parallel_tool_calls,
            max_output_tokens=self.max_tokens,
            reasoning=self._reasoner(),
            failed_calls=frozenset(_failed_calls(turn)) if self.flags_failures else frozenset(),
        )

    def _deltas(self, request: ModelRequest, decoder: Decoder) -> Generator[list[Delta], None, None]:
        """A list a read. The SDK only carries: what servers send fits its types only nearly."""
        body: bytes | None = self._dialect.encode(request)
        while body is not None:
            with closing(self._post(body)) as answered:
                for data in translate_stream_errors(answered, self._failure):
                    with translate_errors(self._failure):
                        batch = decoder.feed(data)
                    yield batch
            with translate_errors(self._failure):
                batch = decoder.close()
            yield batch
            body = decoder.resume()

    # -- the conversation

    def _items(self, turn: ClientTurn) -> Iterator[Asked]:
        for message in turn.messages:
            match message["role"]:
                case "tool":
                    yield from self._outputs(message)
                case "assistant":
                    yield from _model_items(message)
                case role:
                    files = tuple(map(self._vendor_file, message.get("files", ())))
                    for_code = bool(message.get("for_code"))
                    if files or for_code:
                        yield AttachedFiles(files, for_code)
                    yield items.Message(role=role, content=message["content"])

    def _outputs(self, message: Message) -> Iterator[items.FunctionCallOutput]:
        for result in message["tool_results"]:
            [marked] = build_openai_tool_results([result])
            output = as_text(result["content"]) if self.flags_failures else marked["output"]
            yield items.FunctionCallOutput(call_id=result["tool_use_id"], output=output)

    # -- the answer

    def _answer(self, turn: ClientTurn, folded: Folded, verbatim: Verbatim | None) -> ClientAnswer:
        files: dict[str, OutputFile] = {}
        executions = [self._execution(cell, files) for cell in folded.cells]
        return ClientAnswer(
            text=folded.text,
            tool_calls=[tool_call(call.id, call.name, call.arguments, turn.tools) for call in folded.calls],
            executions=executions,
            files=[file for execution in executions for file in execution.output_files],
            finish="other" if folded.unknown_finish else FINISHES[folded.finish],
            usage=folded.usage,
            id=folded.id,
            native=verbatim or folded.thoughts,
        )

    def _execution(self, cell: HostedEnd, files: dict[str, OutputFile]) -> CodeExecution:
        """Each file once, though several cells may tell of it."""
        made = []
        for file in cell.files:
            if file.id is None:
                made.append(OutputFile.of_bytes(file.name or "", file.data or b"", file.type))
                continue
            if file.id not in files:
                files[file.id] = self._output_file(file)
            made.append(files[file.id])
        return execution_of(cell, made)


def _tell(batch: Sequence[Delta], on_text: OnText) -> None:
    for delta in batch:
        if isinstance(delta, Text | Refused):
            on_text(delta.text)


def _model_items(message: Message) -> Iterator[Asked]:
    """As the vendor wants it back, or in words of ours with the thoughts that led to it."""
    native = message.get("native")
    if isinstance(native, Verbatim):
        yield native
        return
    yield from native or ()
    if message["content"]:
        yield items.Message(role="assistant", content=message["content"])
    for call in message.get("tool_calls", ()):
        arguments = json.dumps(call["input"], ensure_ascii=False)
        yield items.FunctionCall(call_id=call["id"], name=call["name"], arguments=arguments)


def _failed_calls(turn: ClientTurn) -> Iterator[str]:
    for message in turn.messages:
        for result in message.get("tool_results", ()):
            if result.get("is_error"):
                yield result["tool_use_id"]
