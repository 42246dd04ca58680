"""OpenAI's hosted code interpreter as a tool: its container on the wire, and its calls as results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast, get_origin

from belljar.tools.annotations import NoneType
from belljar.tools.containers import Container, container_of
from belljar.tools.provider import ProviderTool, annotated_result
from belljar.tools.result import ToolResult
from belljar.tools.serde import dump

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:
    from typing import TypeVar

_EXCERPT = 2000


@dataclass(frozen=True, slots=True)
class FileCitation:
    """A file that the code made, by the names it can be fetched with."""

    container_id: str
    file_id: str
    filename: str
    path: str | None = None
    """Where it is below the workspace, `a/r.csv`; None where the provider tells its name alone."""


@dataclass(frozen=True, slots=True)
class CodeInterpreterOutput:
    """One call. None: the provider did not say."""

    output_text: str = ""
    """All that the code printed."""
    code: str | None = None
    container_id: str | None = None
    status: str = "completed"
    stdout: str | None = None
    stderr: str | None = None
    """OpenAI's wire merges both streams; of a run that failed, this is the end of them, where the traceback is. Our own
    gateway, and vendors whose wire has them, tell both streams and the exit code as they were.
    """
    exit_code: int | None = None
    """-1 where it was stopped from outside."""
    images: tuple[str, ...] = ()
    citations: tuple[FileCitation, ...] = ()
    success: bool = True


if TYPE_CHECKING:
    OutputT = TypeVar("OutputT", default=CodeInterpreterOutput)
else:
    OutputT = TypeVar("OutputT")
ContainerGiven: TypeAlias = Container | Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenAICodeInterpreterTool(ProviderTool[Any, OutputT, Container]):
    """The model writes the Python, so there are no arguments: a hook or a handler is given what came of it.

    To both that is a `CodeInterpreterOutput`; to a hook that is annotated so, a dict of its members and `message`; to a
    handler whose parameters are None, nothing.
    """

    type: ClassVar[Literal["code_interpreter"]] = "code_interpreter"

    description: str = "Runs Python that the model writes, in a sandboxed container."
    container: ContainerGiven
    """As it was given; `config` is what it means."""
    provider: str = field(default="openai", init=False)
    config: Container = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", container_of(self.container))
        object.__setattr__(self, "container", deepcopy(self.container))
        super().__post_init__()

    def wire(self) -> dict[str, Any]:
        """Its place in a request's `tools`."""
        return {"type": self.type, "container": self.config.wire()}

    def read_payload(self, payload: Mapping[str, object]) -> OutputT:
        output = read_call(payload)
        if self.result_type is CodeInterpreterOutput:
            return cast(OutputT, output)
        return cast(OutputT, {"message": output.output_text, **dump(output)})

    def read_params(self, payload: Mapping[str, object]) -> CodeInterpreterOutput | None:
        return read_call(payload) if self.params_type is CodeInterpreterOutput else None

    def default_result(self, payload: Mapping[str, object]) -> ToolResult[OutputT]:
        output = read_call(payload)
        return ToolResult(output.output_text, self.read_payload(payload), output.success)

    def _types(self) -> tuple[Any, Any]:
        if self.type_arguments is not None:
            result = self.type_arguments[0]
        else:
            result = self.handle_provider_output and annotated_result(self.handle_provider_output)
        if result not in (None, CodeInterpreterOutput) and (get_origin(result) or result) not in (dict, Mapping):
            raise self._fault(
                f"handle_provider_output: takes {result!r}, not CodeInterpreterOutput or dict[str, object]"
            )
        takes = annotated_result(self.handler) if callable(self.handler) else NoneType
        return None if takes is NoneType else CodeInterpreterOutput, result or CodeInterpreterOutput


def read_call(item: Mapping[str, Any], annotations: Iterable[Mapping[str, Any]] = ()) -> CodeInterpreterOutput:
    """A `code_interpreter_call` item, with the annotations of the messages that followed it.

    Where the item carries its own (`annotations`), those count too. How the run ended, and which stream said what, is
    known of our gateway's items (`belljar`); of OpenAI's, only what `status` says.
    """
    outputs = item.get("outputs") or ()
    logs = "".join(output.get("logs", "") for output in outputs if output.get("type") == "logs")
    status = item.get("status") or "completed"
    end = item.get("belljar") or {}
    ended = end.get("exit")
    success = status == "completed" and ended in (None, "ok")
    stdout, stderr = (logs, None) if success else (None, logs[-_EXCERPT:])
    return CodeInterpreterOutput(
        output_text=logs,
        code=item.get("code"),
        container_id=item.get("container_id"),
        status=status,
        stdout=end.get("stdout", stdout),
        stderr=end.get("stderr", stderr),
        exit_code=end.get("exit_code", {"ok": 0, "raised": 1}.get(ended or "")),
        images=tuple(output["url"] for output in outputs if output.get("type") == "image"),
        citations=citations_in((*annotations, *item.get("annotations", ()))),
        success=success,
    )


def citations_in(annotations: Iterable[Mapping[str, Any]]) -> tuple[FileCitation, ...]:
    """The files among a message's annotations, each once."""
    found = (
        FileCitation(annotation["container_id"], annotation["file_id"], annotation["filename"], annotation.get("path"))
        for annotation in annotations
        if annotation.get("type") == "container_file_citation"
    )
    return tuple(dict.fromkeys(found))
