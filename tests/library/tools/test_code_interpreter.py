"""OpenAI's code interpreter as a tool: containers, the wire, and what a call means."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from belljar.errors import InvalidContainer, PromptValidationError, WinkError
from belljar.prompt import ToolContext
from belljar.prompt.tool_result import ToolResult
from belljar.tools import (
    AutoContainerConfig,
    CodeInterpreterOutput,
    ExistingContainerRef,
    FileCitation,
    HostMount,
    OpenAICodeInterpreterTool,
    ProviderTool,
    VfsPath,
)
from belljar.tools.code_interpreter import citations_in, read_call

CITED = {"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1", "filename": "plot.png"}
CALL = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "print(1)",
    "container_id": "cntr_1",
    "outputs": [
        {"type": "logs", "logs": "1\n"},
        {"type": "image", "url": "https://host/plot.png"},
        {"type": "logs", "logs": "2\n"},
    ],
}
OUTPUT = CodeInterpreterOutput(
    output_text="1\n2\n",
    code="print(1)",
    container_id="cntr_1",
    stdout="1\n2\n",
    images=("https://host/plot.png",),
)


def tool_of(container: Any, **changes: Any) -> OpenAICodeInterpreterTool[Any]:
    return OpenAICodeInterpreterTool(name="openai_python", container=container, **changes)


def test_it_is_openais() -> None:
    tool = tool_of({"type": "auto"})
    assert isinstance(tool, ProviderTool)
    assert (tool.provider, tool.type, tool.params_type) == ("openai", "code_interpreter", type(None))
    assert tool.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert "Python that the model writes" in tool.description


def test_the_founding_example(context: ToolContext) -> None:
    host_mount = HostMount(
        host_path="sunfish",
        mount_path=VfsPath(("workspace", "sunfish")),
        include_glob=("*.py", "*.md", "*.txt"),
        exclude_glob=("**/__pycache__/**",),
        max_bytes=600_000,
    )
    assert isinstance(host_mount.mount_path, VfsPath)
    container = {
        "type": "auto",
        "memory_limit": "4g",
        "file_ids": ["file_csv_upload"],
        "host_mounts": [
            {
                "host_path": host_mount.host_path,
                "mount_path": "/" + "/".join(host_mount.mount_path.segments),
                "include_glob": list(host_mount.include_glob),
                "exclude_glob": list(host_mount.exclude_glob),
                "max_bytes": host_mount.max_bytes,
                "follow_symlinks": host_mount.follow_symlinks,
            }
        ],
    }

    def identity_provider_output(result: dict[str, object], context: ToolContext) -> ToolResult[dict[str, object]]:
        return ToolResult(
            message=str(result.get("output_text") or result.get("message") or ""), value=result, success=True
        )

    tool = OpenAICodeInterpreterTool(
        name="openai_python",
        description="Executes model-authored Python in a sandboxed container.",
        container=container,
        handle_provider_output=identity_provider_output,
    )
    assert tool.container == container
    assert json.loads(json.dumps(tool.container)) == container
    assert isinstance(tool.config, AutoContainerConfig)
    [mount] = tool.config.host_mounts
    assert (mount.host_path, mount.mount_path, mount.max_bytes) == ("sunfish", "/workspace/sunfish", 600_000)
    assert mount.include_glob == host_mount.include_glob
    assert tool.wire() == {
        "type": "code_interpreter",
        "container": {"type": "auto", "memory_limit": "4g", "file_ids": ["file_csv_upload"]},
    }
    result = tool.receive(CALL, context=context)
    assert (result.message, result.success) == ("1\n2\n", True)
    assert result.value is not None
    assert (result.value["message"], result.value["stdout"]) == ("1\n2\n", "1\n2\n")


@pytest.mark.parametrize(
    ("container", "wire"),
    [
        ({"type": "auto"}, {"type": "auto", "memory_limit": "1g"}),
        (AutoContainerConfig(), {"type": "auto", "memory_limit": "1g"}),
        (
            AutoContainerConfig(memory_limit="64g", file_ids=("f",)),
            {"type": "auto", "memory_limit": "64g", "file_ids": ["f"]},
        ),
        ({"type": "auto", "host_mounts": [HostMount("x")]}, {"type": "auto", "memory_limit": "1g"}),
        (AutoContainerConfig(host_mounts=(HostMount("x"),)), {"type": "auto", "memory_limit": "1g"}),
        ({"id": "cntr_1"}, "cntr_1"),
        ({"id": "cntr_1", "memory_limit": "16g"}, "cntr_1"),
        (ExistingContainerRef("cntr_1"), "cntr_1"),
        (ExistingContainerRef(id="cntr_1", memory_limit="4g"), "cntr_1"),
    ],
    ids=repr,
)
def test_every_form_on_the_wire(container: Any, wire: object) -> None:
    tool = tool_of(container)
    assert tool.container == container
    assert tool.wire() == {"type": "code_interpreter", "container": wire}


@pytest.mark.parametrize("tier", ["1g", "4g", "16g", "64g"])
def test_tiers(tier: str) -> None:
    assert tool_of({"type": "auto", "memory_limit": tier}).wire()["container"]["memory_limit"] == tier


@pytest.mark.parametrize(
    ("container", "message"),
    [
        (
            {"type": "auto", "memory_limit": "2g"},
            "container.memory_limit: '2g' is not a tier; use one of 1g, 4g, 16g, 64g",
        ),
        ({"type": "auto", "memory_limit": "8g"}, "container.memory_limit: '8g' is not a tier"),
        ({"id": "cntr_1", "memory_limit": "2g"}, "container.memory_limit: '2g' is not a tier"),
        ({"id": ""}, "container.id: '' is not a container's id"),
        ({"id": "  "}, "container.id: '  ' is not a container's id"),
        ({"id": None}, "container.id: None is not a container's id"),
        (None, "container: None is not a container; use {'type': 'auto'}"),
        ({}, "container: {} is not a container"),
        ("cntr_1", "container: 'cntr_1' is not a container"),
        ({"type": "manual"}, "container.type: 'manual' is unknown"),
        ({"type": "auto", "id": "cntr_1"}, "container: has both a type and an id"),
        ({"type": "auto", "memory": "1g"}, "container.memory: is unknown here"),
        ({"id": "cntr_1", "file_ids": []}, "container.file_ids: is unknown here"),
        ({"type": "auto", "file_ids": "file_1"}, "container.file_ids: 'file_1' is not a list of str"),
        ({"type": "auto", "file_ids": [""]}, "container.file_ids: [''] is not a list of str"),
        ({"type": "auto", "host_mounts": [{}]}, "container.host_mounts[0]: lacks host_path"),
        ({"type": "auto", "host_mounts": [{"host_path": 1}]}, "container.host_mounts[0].host_path: must be a string"),
    ],
    ids=repr,
)
def test_bad_containers_are_named_and_break_the_contract(container: Any, message: str) -> None:
    with pytest.raises(InvalidContainer, match=re.escape(message)) as caught:
        tool_of(container)
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, WinkError)


@pytest.mark.parametrize("make", [AutoContainerConfig, lambda **given: ExistingContainerRef("cntr_1", **given)])
def test_the_dataclasses_check_themselves(make: Any) -> None:
    with pytest.raises(InvalidContainer, match="'2g' is not a tier"):
        make(memory_limit="2g")


def test_the_wire_does_not_change_with_what_was_given() -> None:
    container = {"type": "auto", "file_ids": ["f"]}
    tool = tool_of(container)
    container["file_ids"] = ["g"]
    assert tool.wire()["container"]["file_ids"] == ["f"]
    assert tool.container == {"type": "auto", "file_ids": ["f"]}


# -- what a call means ------------------------------------------------------------------------------------------------


def test_a_call_without_hook_and_handler(context: ToolContext) -> None:
    assert tool_of({"type": "auto"}).receive(CALL, context=context) == ToolResult("1\n2\n", OUTPUT)


def test_a_typed_hook(context: ToolContext) -> None:
    def hook(result: CodeInterpreterOutput, context: ToolContext) -> ToolResult[CodeInterpreterOutput]:
        return ToolResult(result.output_text.strip(), result)

    tool = OpenAICodeInterpreterTool(name="python", container=AutoContainerConfig(), handle_provider_output=hook)
    assert tool.receive(CALL, context=context) == ToolResult("1\n2", OUTPUT)


def test_a_handler_gets_the_output(context: ToolContext) -> None:
    def handle(params: CodeInterpreterOutput, *, context: ToolContext) -> ToolResult[CodeInterpreterOutput]:
        return ToolResult(f"printed {params.output_text!r}", params)

    result = tool_of({"type": "auto"}, handler=handle).receive(CALL, context=context)
    assert result == ToolResult("printed '1\\n2\\n'", OUTPUT)


@pytest.mark.parametrize(
    ("takes", "message"),
    [(int, "params is annotated int, and the tool's parameters are CodeInterpreterOutput"), (5, "has no signature")],
)
def test_a_handler_of_another_type_is_refused(takes: Any, message: str) -> None:
    def handle(params: int, *, context: ToolContext) -> ToolResult[CodeInterpreterOutput]:
        raise NotImplementedError

    with pytest.raises(PromptValidationError, match=re.escape(message)):
        tool_of({"type": "auto"}, handler=handle if takes is int else takes)


def test_a_handler_is_called_without_parameters(context: ToolContext) -> None:
    def handle(params: None, *, context: ToolContext) -> ToolResult[CodeInterpreterOutput]:
        assert params is None
        return ToolResult("handled", None)

    assert tool_of({"type": "auto"}, handler=handle).receive(CALL, context=context).message == "handled"


def test_a_hook_of_another_type_is_refused() -> None:
    def hook(result: int, context: ToolContext) -> ToolResult[int]:
        raise NotImplementedError

    with pytest.raises(PromptValidationError, match="not CodeInterpreterOutput or dict"):
        tool_of({"type": "auto"}, handle_provider_output=hook)


@pytest.mark.parametrize(
    ("changes", "success", "exit_code"),
    [
        ({}, True, None),
        ({"belljar": {"exit": "ok"}}, True, 0),
        ({"belljar": {"exit": "raised"}}, False, 1),
        ({"belljar": {"exit": "timed_out"}}, False, None),
        ({"belljar": {"exit": "timed_out", "exit_code": -1}}, False, -1),
        ({"belljar": {"exit": "raised", "exit_code": 3}}, False, 3),
        ({"status": "failed"}, False, None),
        ({"status": "incomplete"}, False, None),
    ],
    ids=repr,
)
def test_failure_is_what_the_provider_says(
    changes: dict[str, Any], success: bool, exit_code: int | None, context: ToolContext
) -> None:
    result = tool_of({"type": "auto"}).receive({**CALL, **changes}, context=context)
    assert result.success is success
    assert result.message == "1\n2\n"
    assert isinstance(result.value, CodeInterpreterOutput)
    assert result.value.exit_code == exit_code
    assert (result.value.stdout, result.value.stderr) == (("1\n2\n", None) if success else (None, "1\n2\n"))


@pytest.mark.parametrize(("exit", "success"), [("ok", True), ("raised", False)])
def test_streams_that_are_told_apart_stay_so(exit: str, success: bool) -> None:
    end = {"exit": exit, "stdout": "1\n", "stderr": "2\n" * 2000}
    output = read_call({**CALL, "belljar": end})
    assert (output.stdout, output.stderr, output.output_text) == ("1\n", end["stderr"], "1\n2\n")
    assert output.success is success


def test_stderr_is_an_excerpt_from_the_end() -> None:
    logs = "x" * 5000 + "ValueError: bad"
    output = read_call({"outputs": [{"type": "logs", "logs": logs}], "belljar": {"exit": "raised"}})
    assert output.stderr is not None
    assert output.stderr.endswith("ValueError: bad")
    assert len(output.stderr) == 2000


def test_outputs_may_be_missing() -> None:
    assert read_call({**CALL, "outputs": None}).output_text == ""


def test_citations_are_kept_once() -> None:
    cited = FileCitation("cntr_1", "cfile_1", "plot.png")
    assert citations_in([CITED, {"type": "url_citation", "url": "x"}, CITED]) == (cited,)
    assert read_call(CALL, [CITED]).citations == (cited,)
