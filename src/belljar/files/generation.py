"""One request for code execution and its answer, in the founding document's words; and how a client is asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from belljar.files.base import FilesApiProvider
from belljar.files.results import CodeExecutionOutputFile, FileDownloadResult, download_result
from belljar.output_names import alone, below
from belljar.providers.base import BaseClient
from belljar.providers.code_execution import CodeExecution, Outcome, OutputFile
from belljar.providers.uploads import FileReference
from belljar.vendors.media_types import type_of


@dataclass(frozen=True, slots=True)
class CodeExecutionArgs:
    """What is wanted, and the files for it."""

    message: str
    file_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedFile:
    """A file that the vendor has, and where it came from."""

    file_id: str
    filename: str
    original_path: str
    mime_type: str | None = None
    uri: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedResponseType:
    """What the model may answer with beside text."""

    code_execution: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateContentConfig:
    """The files go by reference, never in the prompt. `uploaded_files` tells more of those in `file_ids`."""

    expected_response_type: ExpectedResponseType = field(default_factory=ExpectedResponseType)
    file_ids: tuple[str, ...] = ()
    uploaded_files: tuple[UploadedFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutableCode:
    """Code that the model wrote."""

    language: str = "python"
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExecutionResult:
    """What came of it."""

    outcome: Outcome
    output: str
    output_files: tuple[CodeExecutionOutputFile, ...] = ()


Part: TypeAlias = ExecutableCode | CodeExecutionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantItem:
    """An answer: what was said, and each piece of code followed by its result."""

    text: str
    parts: tuple[Part, ...] = ()
    output_files: tuple[CodeExecutionOutputFile, ...] = ()
    """All of them, with those that no single piece of code is known to have made."""

    @property
    def executable_code(self) -> ExecutableCode | None:
        """All code that ran, as one."""
        ran = [part.code for part in self.parts if isinstance(part, ExecutableCode)]
        return ExecutableCode(code="\n".join(ran)) if ran else None

    @property
    def code_execution_result(self) -> CodeExecutionResult | None:
        """All results as one; the last tells how it ended."""
        results = [part for part in self.parts if isinstance(part, CodeExecutionResult)]
        if not results and not self.output_files:
            return None
        return CodeExecutionResult(
            outcome=results[-1].outcome if results else "OUTCOME_OK",
            output="".join(one.output for one in results),
            output_files=self.output_files,
        )


class GenerateContentFn(Protocol):
    """Asks a model."""

    def __call__(self, message: str, config: GenerateContentConfig) -> AssistantItem: ...


OnText: TypeAlias = Callable[[str], None]


def asking(client: BaseClient, files: FilesApiProvider | None, on_text: OnText | None = None) -> GenerateContentFn:
    """Asks by a client of `belljar.providers`; files come back through `files` where it has them, in pieces."""

    def generate(message: str, config: GenerateContentConfig) -> AssistantItem:
        answer = client.send_message(
            message,
            on_text=on_text,
            files=_references(config),
            code_execution=config.expected_response_type.code_execution,
        )
        known: dict[int, CodeExecutionOutputFile] = {}

        def file(one: OutputFile) -> CodeExecutionOutputFile:
            return known.setdefault(id(one), _output(one, files))

        parts = [part for ran in answer.code_executions for part in _parts(ran, file)]
        every = tuple(file(one) for one in answer.output_files)
        return AssistantItem(text=answer.text, parts=tuple(parts), output_files=every or tuple(known.values()))

    return generate


def _references(config: GenerateContentConfig) -> list[FileReference]:
    told = {one.file_id: one for one in config.uploaded_files}
    return [_reference(file_id, told.get(file_id)) for file_id in config.file_ids]


def _reference(file_id: str, told: UploadedFile | None) -> FileReference:
    if told is None:
        return FileReference(id=file_id, filename=file_id, mime_type=type_of(""))
    kind = told.mime_type or type_of(told.filename)
    return FileReference(id=file_id, filename=told.filename, mime_type=kind, uri=told.uri)


def _parts(ran: CodeExecution, file: Callable[[OutputFile], CodeExecutionOutputFile]) -> tuple[Part, Part]:
    made = tuple(file(one) for one in ran.output_files)
    result = CodeExecutionResult(outcome=ran.outcome, output=ran.output, output_files=made)
    return ExecutableCode(code=ran.code), result


def _output(one: OutputFile, files: FilesApiProvider | None) -> CodeExecutionOutputFile:
    def download() -> FileDownloadResult:
        if files is not None and one.file_id:
            return files.download_file(one.file_id, container_id=one.container_id)
        return download_result(one.filename, one.mime_type, one.read())

    return CodeExecutionOutputFile(
        file_id=one.file_id,
        filename=one.path,
        size=one.size,
        mime_type=one.mime_type,
        told=None if alone(one.path) == alone(below(one.filename)) else one.filename,
        download=download,
    )
