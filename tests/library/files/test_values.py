"""The values that the founding document names: snake_case here, camelCase for a page."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from belljar.files import (
    AssistantItem,
    CodeExecutionArgs,
    CodeExecutionOutputFile,
    CodeExecutionResult,
    ExecutableCode,
    FileUploadResult,
    as_json,
)
from belljar.files.limits import format_size
from belljar.files.results import download_result


def test_an_upload() -> None:
    sent = FileUploadResult(file_id="f", filename="a.csv", size=3, expires_at=datetime(2026, 1, 2, tzinfo=UTC))
    told = json.loads(json.dumps(as_json(sent)))
    assert told == {
        "fileId": "f",
        "filename": "a.csv",
        "size": 3,
        "expiresAt": "2026-01-02T00:00:00+00:00",
        "mimeType": None,
        "uri": "",
    }
    assert FileUploadResult(file_id="f", filename="a", size=0).expires_at is None


def test_a_download_is_read_as_often_as_one_likes_until_it_is_closed() -> None:
    data = b"x" * 3_000_000
    with download_result("a.bin", "application/octet-stream", data) as fetched:
        assert (fetched.filename, fetched.mime_type, fetched.size) == ("a.bin", "application/octet-stream", len(data))
        assert fetched.content == fetched.content == data
        assert max(map(len, fetched.chunks())) < 1_000_000
    with pytest.raises(ValueError, match="closed"):
        _ = fetched.content


def test_an_answer() -> None:
    file = CodeExecutionOutputFile(
        file_id="f",
        filename="o.csv",
        size=2,
        mime_type="text/csv",
        download=lambda: download_result("o.csv", "", b"ab"),
    )
    item = AssistantItem(
        text="done",
        parts=(
            ExecutableCode(code="a"),
            CodeExecutionResult(outcome="OUTCOME_FAILED", output="1"),
            ExecutableCode(code="b"),
            CodeExecutionResult(outcome="OUTCOME_OK", output="2", output_files=(file,)),
        ),
        output_files=(file,),
    )
    assert item.executable_code == ExecutableCode(language="python", code="a\nb")
    result = item.code_execution_result
    assert result is not None
    assert (result.outcome, result.output, result.output_files) == ("OUTCOME_OK", "12", (file,))
    told = as_json(item)
    assert told["parts"][0] == {"language": "python", "code": "a"}
    assert told["parts"][3]["outputFiles"] == [{"fileId": "f", "filename": "o.csv", "size": 2, "mimeType": "text/csv"}]
    json.dumps(told)


def test_an_answer_without_code_has_no_result() -> None:
    assert AssistantItem(text="hello").code_execution_result is None
    assert AssistantItem(text="hello").executable_code is None


def test_the_arguments() -> None:
    assert CodeExecutionArgs("do").file_paths == ()
    assert as_json(CodeExecutionArgs("do", ("a",))) == {"message": "do", "filePaths": ["a"]}


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (2048, "2.0 KB"), (5 << 20, "5.0 MB"), (3 << 30, "3.0 GB")]
)
def test_sizes(size: int, text: str) -> None:
    assert format_size(size) == text
