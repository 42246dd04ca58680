"""What can be asked for beside the words: what each changes in the request, from every face that can be told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.parity.faces import FACES, Asking, Face, Faces
from tests.parity.meaning import changes, meaning
from tests.parity.rows import Row
from tests.parity.server import VENDORS

from belljar.models import supports_verbosity
from belljar.prompt import Tool, ToolContext, ToolResult


@dataclass(frozen=True)
class Where:
    city: str


@dataclass(frozen=True)
class Weather:
    degrees: int


@dataclass(frozen=True)
class Scores:
    """Anybody's, by name: an object that cannot be closed."""

    of: dict[str, int]


def look(params: Where, *, context: ToolContext) -> ToolResult[Weather]:
    return ToolResult("20", Weather(20))


LOOK = Tool[Where, Weather](name="look", description="Tells the weather.", handler=look)


@dataclass(frozen=True, kw_only=True)
class Option(Row):
    """The gateway's dialect is what the others are held to."""

    asking: Asking = field(default_factory=Asking)
    before: Asking | None = field(default_factory=Asking)
    """What it is compared with; None: the whole request counts."""
    faces: tuple[Face, ...]
    wanted: str | None = None
    """What it changes, where the gateway is not right either."""


_TALKING: Mapping[str, tuple[Face, ...]] = {
    vendor: tuple(face for face in FACES[vendor] if face != "files") for vendor in VENDORS
}
_SYSTEM: tuple[Face, ...] = ("gateway", "client")
"""An adapter's prompt is all one text."""
_SETTINGS: tuple[Face, ...] = ("gateway", "adapter")
_TOOL = Asking(tool=LOOK)


def _rows(vendor: str) -> list[Option]:
    talking = _TALKING[vendor]
    rows = [
        Option(id="a plain request", vendor=vendor, before=None, faces=talking),
        Option(id="system", vendor=vendor, asking=Asking(system="Be brief."), faces=_SYSTEM),
        Option(id="max_tokens", vendor=vendor, asking=Asking(long=2_000), faces=talking),
        Option(id="many max_tokens", vendor=vendor, asking=Asking(long=100_000), faces=talking),
        Option(id="many, streamed", vendor=vendor, asking=Asking(long=100_000, streamed=True), faces=talking),
        Option(id="a tool", vendor=vendor, asking=_TOOL, faces=talking),
        Option(
            id="one call at a time", vendor=vendor, asking=Asking(tool=LOOK, parallel=False), before=_TOOL,
            faces=_SYSTEM if vendor == "anthropic" else talking,
        ),
        *(
            Option(id=f"verbosity {one}", vendor=vendor, asking=Asking(verbosity=one), faces=talking)
            for one in ("low", "medium", "high")
        ),
    ]  # fmt: skip
    if vendor in ("openai", "anthropic", "gemini", "xai"):
        code: tuple[Face, ...] = _SYSTEM if vendor != "anthropic" else talking
        rows += [
            Option(id="code", vendor=vendor, asking=Asking(code=True), faces=code),
            Option(id="code and a tool", vendor=vendor, asking=Asking(code=True, tool=LOOK), faces=code),
        ]
    if "adapter" in talking:
        who = Asking(more={"safety_identifier": "user-1"})
        rows.append(Option(id="safety_identifier", vendor=vendor, asking=who, faces=_SETTINGS))
    return rows


_VERBOSE = tuple(
    Option(
        id=f"verbosity {one} of {model}",
        vendor="openai",
        asking=Asking(model=model, verbosity=one),
        before=Asking(model=model),
        faces=_TALKING["openai"],
        wanted=None if supports_verbosity(model) else "{}",
    )
    for model in ("gpt-5", "gpt-5.2-codex", "gpt-6-astra", "o4-mini", "gpt-4.1")
    for one in ("low", "high")
)
_SAMPLED = tuple(
    Option(
        id=f"{name} of {model}",
        vendor="openai",
        asking=Asking(model=model, more={name: 0.5}),
        before=Asking(model=model),
        faces=_SETTINGS,
    )
    for model in ("gpt-4.1", "gpt-5.4", "o4-mini")
    for name in ("temperature", "top_p")
)
_BY_TOOL = json.dumps(
    {
        "tool_choice": {"disable_parallel_tool_use": True, "type": "any"},
        "tools": [
            {
                "description": "Give the answer. Call this once, when you have it.",
                "input_schema": {
                    "additionalProperties": False,
                    "properties": {"of": {"additionalProperties": {"type": "integer"}, "type": "object"}},
                    "required": ["of"],
                    "type": "object",
                },
                "name": "json",
            }
        ],
    }
)
"""A form that the model cannot keep, as an open one, is asked for by a tool."""
_FORMS = tuple(
    Option(
        id=f"{name} of {model}",
        vendor=vendor,
        asking=Asking(model=model, form=form),
        before=Asking(model=model),
        faces=_SETTINGS,
        wanted=_BY_TOOL if vendor == "anthropic" and form is Scores else None,
    )
    for vendor, model in (
        ("openai", "gpt-5.4"),
        ("anthropic", "claude-sonnet-5"),
        ("anthropic", "claude-opus-4-20250514"),
    )
    for name, form in (("a form", Weather), ("an open form", Scores))
)
_CACHED = Option(id="prompt_cache_key", vendor="openai", asking=Asking(more={"prompt_cache_key": "k"}), faces=_SETTINGS)

OPTIONS = (*(row for vendor in VENDORS for row in _rows(vendor)), *_VERBOSE, *_SAMPLED, *_FORMS, _CACHED)


def told(faces: Faces, row: Option) -> dict[str, str]:
    """What is otherwise than it should be, by face."""
    found = {face: _changed(faces, face, row) for face in row.faces}
    wanted = found["gateway"] if row.wanted is None else row.wanted
    return {face: what for face, what in found.items() if what != wanted}


def _changed(faces: Faces, face: Face, row: Option) -> str:
    after = _body(faces, face, row.vendor, row.asking)
    if isinstance(after, str) or row.before is None:
        return _shown(after)
    before = _body(faces, face, row.vendor, row.before)
    assert not isinstance(before, str), before
    return _shown(changes(before, after))


def _body(faces: Faces, face: Face, vendor: str, asking: Asking) -> Any:
    outcome = faces.ask(face, vendor, asking)
    if outcome.seen is not None:
        return f"{outcome.seen.kind} {outcome.seen.reason or ''}".strip()
    return meaning(outcome.sent[-1].json)


def _shown(value: Any) -> str:
    written = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return "in words" if "It fits this JSON schema" in written else written


# -- attachments ------------------------------------------------------------------------------------------------------

_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c49444154789c63606060000000040001f61738550000000049454e44ae426082"
)
_PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
CONTENT = {"plot.png": _PNG, "paper.pdf": _PDF, "notes.txt": b"Good.\n", "table.csv": b"a,b\n1,2\n"}


@dataclass(frozen=True, kw_only=True)
class Attachment(Row):
    """A file beside the words, for the model to read or for its code."""

    filename: str
    code: bool = False
    wanted: str
    """Where it is in the request."""
    faces: tuple[Face, ...] = ("gateway", "client")


_READ = {
    "openai": {"plot.png": "input_image", "paper.pdf": "input_file", "notes.txt": "input_file"},
    "anthropic": {"plot.png": "image", "paper.pdf": "document", "notes.txt": "document"},
    "gemini": {"plot.png": "part", "paper.pdf": "part", "notes.txt": "part"},
    "xai": {"plot.png": "input_image", "paper.pdf": "input_file", "notes.txt": "input_file"},
}
_FOR_CODE = {"openai": "file_ids", "anthropic": "container_upload", "gemini": "part", "xai": "input_file"}

ATTACHMENTS = (
    *(
        Attachment(id=f"{name} to read", vendor=vendor, filename=name, wanted=wanted)
        for vendor, files in _READ.items()
        for name, wanted in files.items()
    ),
    *(
        Attachment(id=f"{name} for code", vendor=vendor, filename=name, code=True, wanted=wanted)
        for vendor, wanted in _FOR_CODE.items()
        for name in ("table.csv", "plot.png")
    ),
)


def attached(faces: Faces, row: Attachment, directory: Path) -> dict[str, str]:
    """Where each face puts the file."""
    path = directory / row.filename
    path.write_bytes(CONTENT[row.filename])
    found: dict[str, str] = {}
    for face in row.faces:
        outcome = faces.ask(face, row.vendor, Asking(files=(path,), code=row.code))
        found[face] = "refused" if outcome.seen is not None else _place(outcome.sent[-1].json)
    return found


def _place(body: Any) -> str:
    """The kind of part that is no text; a file by its id and one in the request mean the same."""
    told = [content for message in body.get("input", body.get("messages", ())) for content in _parts(message)]
    kinds = [part["type"] for part in told if part.get("type") not in ("text", "input_text")]
    kinds += ["file_ids" for tool in body.get("tools", ()) if (tool.get("container") or {}).get("file_ids")]
    kinds += ["part" for one in body.get("contents", ()) for part in one["parts"] if "text" not in part]
    return " ".join(kinds) or "in words"


def _parts(message: Any) -> list[Any]:
    content = message["content"]
    return content if isinstance(content, list) else []
