"""Code execution with files in and out: upload, refer by id, run, collect, report, clean up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

from belljar.files.base import FilesApiProvider
from belljar.files.cache import CachedUploads, clean_up
from belljar.files.generation import (
    AssistantItem,
    CodeExecutionArgs,
    ExpectedResponseType,
    GenerateContentConfig,
    GenerateContentFn,
    OnText,
    UploadedFile,
    asking,
)
from belljar.files.limits import format_size
from belljar.files.registry import files_api_of, get_files_api_provider
from belljar.files.results import CodeExecutionOutputFile, is_numbered
from belljar.files.upload_reader import OnProgress
from belljar.providers.base import BaseClient
from belljar.providers.factory import create_client

PutSystemMessage: TypeAlias = Callable[[str, Any], None]
"""The channel of progress: a line for people, and the values it speaks of."""

_LIFETIME = timedelta(hours=1)
"""What is asked for where the vendor takes it, so that an upload whose deletion fails does not stay for ever."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FailedUpload:
    """A file that the vendor does not have, and why."""

    original_path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExecutionResponse:
    """The answer, and what became of the files that were to go with the question."""

    assistant: AssistantItem
    uploaded_files: tuple[UploadedFile, ...] = ()
    failed_uploads: tuple[FailedUpload, ...] = ()

    @property
    def output_files(self) -> tuple[CodeExecutionOutputFile, ...]:
        return self.assistant.output_files


def run_code_execution(
    args: CodeExecutionArgs,
    *,
    service_type: str | None = None,
    client: BaseClient | None = None,
    files: FilesApiProvider | None = None,
    generate_content_fn: GenerateContentFn | None = None,
    put_system_message: PutSystemMessage = lambda text, data: None,
    on_text: OnText | None = None,
    on_progress: OnProgress | None = None,
) -> CodeExecutionResponse:
    """Let a model run code with files.

    The service is that of the client, or the one that is named. Its Files API is looked up in the registry where none
    is given; without one the files are left out and the code runs all the same. A file that cannot be uploaded is
    reported and left out. What was uploaded is deleted at the end, however it ends; `CachedUploads` as `files` keeps
    it for the next round, which a conversation that goes on needs where its vendor is sent the whole history.
    """
    if client is None and generate_content_fn is None:
        client = create_client(service_type)
    if files is None:
        files = get_files_api_provider(service_type) if client is None else files_api_of(client)
    ask = generate_content_fn
    if ask is None:
        assert client is not None
        ask = asking(client, files, on_text)
    uploaded: list[UploadedFile] = []
    failed: list[FailedUpload] = []
    try:
        for one in _upload(args.file_paths, files, on_progress) if files is not None else ():
            if isinstance(one, UploadedFile):
                uploaded.append(one)
                put_system_message(f"uploaded {one.original_path}", one)
            else:
                failed.append(one)
                _log.warning("%s was not uploaded: %s", one.original_path, one.reason)
                put_system_message(f"{one.original_path} was not uploaded: {one.reason}", one)
        config = GenerateContentConfig(
            expected_response_type=ExpectedResponseType(code_execution=True),
            file_ids=tuple(one.file_id for one in uploaded),
            uploaded_files=tuple(uploaded),
        )
        assistant = ask(args.message, config)
        for made in assistant.output_files:
            apart = f"; there is another {made.told}" if is_numbered(made) else ""
            put_system_message(f"made {made.filename} ({format_size(made.size)}){apart}", made)
    finally:
        if files is not None and not isinstance(files, CachedUploads):
            clean_up(files, (one.file_id for one in uploaded))
    return CodeExecutionResponse(assistant=assistant, uploaded_files=tuple(uploaded), failed_uploads=tuple(failed))


def _upload(
    paths: tuple[str, ...], files: FilesApiProvider, on_progress: OnProgress | None
) -> Iterator[UploadedFile | FailedUpload]:
    """One by one, each with the path it came from, so that none is taken for another when some fail."""
    for path in paths:
        try:
            sent = files.upload_file(Path(path), lifetime=_LIFETIME, on_progress=on_progress)
        except Exception as error:  # noqa: BLE001 - a provider of the caller's own may raise anything
            yield FailedUpload(path, str(error))
        else:
            yield UploadedFile(
                file_id=sent.file_id,
                filename=sent.filename,
                original_path=path,
                mime_type=sent.mime_type,
                uri=sent.uri,
            )
