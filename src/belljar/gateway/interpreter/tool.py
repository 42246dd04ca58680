"""Run a model's code_interpreter call as a cell, and turn its outputs into items for the wire and the model."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from belljar.errors import BelljarError, InvalidRequest, OperatorError
from belljar.gateway.containers import Containers, Differences, Policy, Use
from belljar.gateway.interpreter import prompts
from belljar.gateway.interpreter.transcript import Transcript
from belljar.gateway.store.base import ContainerFileRecord, ContainerRecord
from belljar.sandbox.outputs import Exit, FileChanged, Output
from belljar.sandbox.packages import Installed
from belljar.sandbox.remedies import Reader, address_to
from belljar.sandbox.validation import make_cell
from belljar.wire.items import CellEnd, CodeOutput, Logs
from belljar.wire.tools import FunctionTool

NAME = "code_interpreter"

_SANDBOX_LOG = re.compile(r"output-\d+\.log")
_PARAMETERS = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "description": "The Python code to run."},
        "requirements": {
            "type": "array",
            "items": {"type": "string"},
            "description": 'Packages to install first that are not installed yet, such as ["humanize>=4"].',
        },
    },
    "required": ["code"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """What came of a call."""

    status: Literal["completed", "failed"]
    """A Python exception is `completed`; `failed` is a call that was stopped, or that could not be run."""
    outputs: tuple[CodeOutput, ...]
    """In time order, as on the wire."""
    told: str
    """For the model."""
    images: tuple[str, ...] = ()
    """Data URLs, for models that see."""
    files: tuple[ContainerFileRecord, ...] = ()
    """Made or changed, then the figures."""
    gone: tuple[ContainerFileRecord, ...] = ()
    """Deleted: they were there before."""
    end: CellEnd


class Interpreter:
    """Runs code for models."""

    def __init__(self, containers: Containers, policy: Policy, packages: Callable[[], Sequence[Installed]]) -> None:
        """`packages` tells what the base environment has, when first asked."""
        self._containers = containers
        self._policy = policy
        self._packages = packages

    def declare(self, container: ContainerRecord) -> FunctionTool:
        """The tool as a function that any model can call; the same for the life of a container and its memory."""
        packages = [one.name for one in self._packages()] if self._policy.packages != "none" else []
        about = prompts.describe_tool(
            container,
            self._policy,
            packages,
            per_call=self._containers.per_call,
            stateless=self._containers.stateless,
        )
        return FunctionTool(name=NAME, description=about, parameters=_PARAMETERS, strict=False)

    def write_note(
        self,
        container: ContainerRecord,
        files: Sequence[ContainerFileRecord],
        known: str | None,
        missed: Differences | None = None,
    ) -> str | None:
        """What the container has by now, for the end of the conversation; None if the note that is `known` says it.

        `missed` is what became of it since the model knew it last.
        """
        note = prompts.write_note(container, files)
        if missed:
            note = f"{prompts.describe_changes(missed, per_call=self._containers.per_call)}\n{note}"
        return None if (known or prompts.EMPTY).endswith(note) else note

    async def run(
        self,
        container: ContainerRecord,
        code: str,
        requirements: Sequence[str] = (),
        *,
        timeout: float | None = None,
        moved: bool = False,
        known: int | None = None,
    ) -> AsyncGenerator[Output | CellResult, None]:
        """Text and displays as they come, and at the end one `CellResult`. Leaving early stops the code.

        `moved` says that the code which the model ran before was in another container, as it is then told. `known` is
        the version of this one that it knows: it is told what has changed since.

        Faults of the installation are raised; everything else that can go wrong with the code, its packages or its
        sandbox, and that none was free for too long, is told in the `CellResult`.
        """
        missed, ended = Differences(), False
        try:
            if not code.strip():
                raise InvalidRequest(prompts.NO_CODE, param="code")
            cell = make_cell(code, timeout)
            async with self._containers.use(container) as use:
                if known is not None:
                    missed = await self._containers.differences(container, known, use.began)
                if requirements:
                    await use.require(requirements)
                transcript = Transcript()
                changed: list[FileChanged] = []
                end = Exit("ok")
                async with aclosing(use.run(cell)) as outputs:
                    async for output in outputs:
                        if isinstance(output, FileChanged):
                            changed.append(output)
                            continue
                        if isinstance(output, Exit):
                            end = address_to(output, Reader.CALLER)
                            transcript.add(address_to(output, Reader.MODEL))
                        else:
                            transcript.add(output)
                            yield output
                ended = True
                ran = await self._collect_run(use, transcript, changed, end)
        except OperatorError:
            raise
        except BelljarError as error:
            ran = _describe_trouble(error, ended=ended)
        if missed:
            ran = replace(
                ran, told=f"{prompts.describe_changes(missed, per_call=self._containers.per_call)}\n\n{ran.told}"
            )
        yield replace(ran, told=f"{prompts.MOVED}\n\n{ran.told}") if moved else ran

    async def _collect_run(
        self, use: Use, transcript: Transcript, changed: Sequence[FileChanged], end: Exit
    ) -> CellResult:
        pictures = transcript.pictures
        files = await use.collect(changed, [(one.data, one.type) for one in pictures])
        text = transcript.text
        if len(text) > self._policy.told:
            log = await _save_log(use, text, files)
            text = prompts.cut_output(text, self._policy.told, log)
        return CellResult(
            status="completed" if end.status in ("ok", "raised") else "failed",
            outputs=transcript.outputs,
            told=prompts.describe_result(text, healed=use.healed, files=files, left_out=use.left_out),
            images=tuple(one.url for one in pictures[: self._policy.images]),
            files=(*files, *use.figures),
            gone=use.gone,
            end=CellEnd(
                exit=end.status,
                reason=end.reason,
                text=end.text,
                exit_code=end.exit_code,
                stdout=transcript.stdout,
                stderr=transcript.stderr,
                limit=end.limit,
                remedy=end.remedy,
                seconds=end.seconds,
                healed=use.healed,
                files=tuple(one.path for one in files),
                file_ids=tuple(one.id for one in (*files, *use.figures)),
                version=use.version,
            ),
        )


async def _save_log(use: Use, text: str, files: Sequence[ContainerFileRecord]) -> str | None:
    """The path of the whole text: the sandbox's own log, where there was too much even for people, else one of ours."""
    own = next((one.path for one in files if _SANDBOX_LOG.fullmatch(one.path)), None)
    if own is not None:
        return own
    try:
        return (await use.save(f"output-{use.cells}.txt", text.encode(), "text/plain")).path
    except BelljarError:  # the workspace is full, most likely
        return None


def _describe_trouble(error: BelljarError, *, ended: bool) -> CellResult:
    """The code was not run, or it came to its end and then nothing of that could be kept."""
    told = f"{'The code ran, but what it did was not kept.' if ended else 'The code was not run.'} {error}"
    return CellResult(
        status="failed",
        outputs=(Logs(logs=told),),
        told=told,
        end=CellEnd(exit="killed", reason=error.code, text=str(error), exit_code=-1),
    )
