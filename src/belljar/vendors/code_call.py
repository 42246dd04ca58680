"""A cell that we ran, as a wire knows it that has only functions: a call of `code_interpreter` and its result."""

from __future__ import annotations

from belljar.vendors.request import ModelRequest
from belljar.wire import codec
from belljar.wire.items import CellEnd, CodeInterpreterCall, Logs

NAME = "code_interpreter"
ALIASES = frozenset(
    {
        NAME,
        "python",
        "python3",
        "python_tool",
        "python_interpreter",
        "python_code_interpreter",
        "code",
        "code-interpreter",
        "code_execution",
        "execute_code",
        "execute_python",
        "execute_python_code",
        "run_code",
        "run_python",
        "run_python_code",
        "ipython",
        "jupyter",
    }
)
"""Names by which models call it that guess."""


def write_arguments(item: CodeInterpreterCall) -> str:
    return codec.encode({"code": item.code or ""}).decode()


def has_more_calls(item: CodeInterpreterCall) -> bool:
    """The model called on in the same turn: a wire has those calls together, and then their results."""
    return isinstance(item.belljar, CellEnd) and item.belljar.more


def find_written_text(item: CodeInterpreterCall) -> str | None:
    """What the model wrote in place of the call, where it only wrote it down."""
    return item.belljar.written if isinstance(item.belljar, CellEnd) else None


def write_output(item: CodeInterpreterCall, request: ModelRequest) -> str:
    """What the model is told came of it, never nothing."""
    said = request.call_outputs.get(item.id)
    if said is None:
        said = "".join(output.logs for output in item.outputs or () if isinstance(output, Logs))
    return said or "(no output)"
