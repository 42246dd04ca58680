"""A whole response of the Responses API as an answer: what was said, called, run and made."""

from __future__ import annotations

import base64
import itertools
import mimetypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from belljar.providers.code_execution import CodeExecution, Outcome, OutputFile
from belljar.providers.tool_converters import Tool, tool_call
from belljar.providers.types import FINISHES, Answer, FinishReason
from belljar.vendors.deltas import CallBegun, CallEnd, Cited, Decoder, Finish, HostedEnd, Refused, Text, UsageDelta
from belljar.wire.items import CodeInterpreterCall, ContainerFileCitation, Image, Logs

_OUTCOMES: Mapping[str, Outcome] = {"ok": "OUTCOME_OK", "timed_out": "OUTCOME_DEADLINE_EXCEEDED"}


class Made(NamedTuple):
    """A file as the vendor refers to it."""

    file_id: str
    filename: str | None
    container_id: str
    """Empty where there are no containers."""
    path: str | None = None
    """Below the workspace, where the answer tells."""


FileOf = Callable[[Made], OutputFile]


@dataclass(frozen=True, slots=True)
class _Ran:
    """A cell, and what Belljar's own gateway says of its end beyond the wire that it shares with OpenAI."""

    item: CodeInterpreterCall
    end: Mapping[str, Any]
    files: tuple[OutputFile, ...] = ()
    """That the call itself refers to."""


def read(body: bytes, decoder: Decoder, tools: Sequence[Tool], file_of: FileOf) -> Answer:
    """Raises the error that the response itself reports."""
    deltas = [*decoder.feed(body), *decoder.close()]
    response = msgspec.json.decode(body)
    ends = {item["id"]: item["belljar"] for item in response.get("output", ()) if item.get("belljar")}
    paths = paths_of(response.get("output", ()))
    text: list[str] = []
    names: dict[int, tuple[str, str]] = {}
    calls, ran = [], []
    usage = None
    cited: dict[str, ContainerFileCitation] = {}
    finish: FinishReason = "stop"
    files: dict[str, OutputFile] = {}

    def file(made: Made) -> OutputFile:
        return files[made.file_id] if made.file_id in files else files.setdefault(made.file_id, file_of(made))

    for delta in deltas:
        match delta:
            case Text() | Refused():
                text.append(delta.text)
            case CallBegun():
                names[delta.index] = (delta.call_id, delta.name)
            case CallEnd():
                calls.append(tool_call(*names[delta.index], delta.arguments, tools))
            case HostedEnd():
                made = [Made(one.id, one.name, "", one.name or None) for one in delta.files if one.id]
                ran.append(_Ran(delta.item, ends.get(delta.item.id, {}), tuple(map(file, made))))
            case Cited(ContainerFileCitation() as citation):
                cited[citation.file_id] = citation
            case UsageDelta():
                usage = delta.usage
            case Finish():
                finish = FINISHES[delta.reason]
    for id, one in cited.items():
        file(Made(id, one.filename, one.container_id, paths.get(id)))
    pictures = itertools.count(1)
    executions = [_execution(one, _files_of(one, ran, files, pictures)) for one in ran]
    return Answer(
        text="".join(text),
        tool_calls=calls,
        executions=executions,
        files=list(files.values()) or [one for execution in executions for one in execution.output_files],
        finish=finish,
        usage=usage,
        id=response.get("id"),
    )


def paths_of(output: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Where below the workspace the files of a response are, by their ids, as Belljar's own gateway tells."""
    ends = [item["belljar"] for item in output if item.get("belljar")]
    told = [zip(end.get("file_ids", ()), end.get("files", ()), strict=False) for end in ends]  # figures have no paths
    return dict(itertools.chain.from_iterable(told))


def _execution(ran: _Ran, files: Sequence[OutputFile]) -> CodeExecution:
    outputs = ran.item.outputs or ()
    exit = ran.end.get("exit", "ok" if ran.item.status == "completed" else "failed")
    logs = "".join(output.logs for output in outputs if isinstance(output, Logs))
    return CodeExecution(
        code=ran.item.code or "",
        stdout=ran.end.get("stdout", logs),
        stderr=ran.end.get("stderr", ""),
        exit=ran.end.get("exit_code"),
        logs=logs,
        outcome=_OUTCOMES.get(exit, "OUTCOME_FAILED"),
        output_files=tuple(files),
    )


def _files_of(
    one: _Ran, ran: Sequence[_Ran], files: Mapping[str, OutputFile], numbers: Iterator[int]
) -> list[OutputFile]:
    """What the call refers to, or the cited files that it made. Where there is none, the pictures that it showed."""
    if one.files:
        return list(one.files)
    if files:
        return [file for id, file in files.items() if len(ran) == 1 or id in one.end.get("file_ids", ())]
    shown = [output.url for output in one.item.outputs or () if isinstance(output, Image)]
    return [_picture(next(numbers), url) for url in shown if url.startswith("data:")]


def _picture(number: int, url: str) -> OutputFile:
    head, _, data = url.partition(",")
    kind = head.removeprefix("data:").partition(";")[0]
    return OutputFile.of_bytes(f"image-{number}{mimetypes.guess_extension(kind) or ''}", base64.b64decode(data), kind)
