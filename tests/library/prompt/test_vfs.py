"""Files as tools of a prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from belljar.filesystem import HostFilesystem, HostMount, InMemoryFilesystem
from belljar.prompt import Prompt, PromptTemplate, ToolContext, VfsToolsSection
from belljar.runtime import Session
from belljar.tools import call_tool


def use(section: VfsToolsSection, name: str, **arguments: Any) -> Any:
    prompt = Prompt(PromptTemplate(ns="n", key="k", sections=[section]))
    (tool,) = [one for one in prompt.render().tools if one.name == name]
    adapter: Any = None
    context = ToolContext(prompt=prompt, adapter=adapter, session=Session())
    return call_tool(tool, arguments, context=context, adapter="test")


@pytest.fixture(params=["memory", "host"])
def section(request: pytest.FixtureRequest, tmp_path: Path) -> VfsToolsSection:
    if request.param == "memory":
        return VfsToolsSection()
    (tmp_path / "files").mkdir()
    return VfsToolsSection(filesystem=HostFilesystem(tmp_path / "files"))


def test_a_model_writes_reads_finds_changes_and_removes(section: VfsToolsSection) -> None:
    assert use(section, "write_file", path="src/a.py", content="x = 1\ny = 1\n").message == "src/a.py is written"
    assert [entry.name for entry in use(section, "ls").value] == ["src"]
    page = use(section, "read_file", path="src/a.py", limit=1)
    assert (page.message, page.value.content) == ("src/a.py has 2 lines; there is more", "x = 1\n")
    assert use(section, "glob", pattern="**/*.py").value.paths == ("src/a.py",)
    assert [match.line_number for match in use(section, "grep", pattern="= 1").value] == [1, 2]
    assert use(section, "edit_file", path="src/a.py", old="x = 1", new="x = 2").success
    assert use(section, "edit_file", path="src/a.py", old="= ", new=" = ", every=True).success
    assert section.filesystem.read_text("src/a.py") == "x  = 2\ny  = 1\n"
    assert use(section, "rm", path="src", recursive=True).success
    assert use(section, "ls").value == []


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("read_file", {"path": "none.txt"}, "none.txt"),
        ("read_file", {"path": "../etc/passwd"}, "'..' is refused"),
        ("read_file", {"path": "a.bin"}, "no text in UTF-8"),
        ("grep", {"pattern": "("}, "no regular expression"),
        ("edit_file", {"path": "two.txt", "old": "x", "new": "y"}, "2 times"),
        ("edit_file", {"path": "two.txt", "old": "", "new": "y"}, "0 times"),
        ("rm", {"path": "."}, "not permitted"),
    ],
)
def test_what_cannot_be_done_is_told_to_the_model(tool: str, arguments: dict[str, Any], said: str) -> None:
    files = InMemoryFilesystem()
    files.write("a.bin", b"\xff")
    files.write_text("two.txt", "x x")
    result = use(VfsToolsSection(filesystem=files), tool, **arguments)
    assert not result.success
    assert said in result.message


def test_mounts_are_copied_in(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("n")
    section = VfsToolsSection(
        session=Session(), mounts=(HostMount("notes.md", "docs/notes.md"),), allowed_host_roots=(tmp_path,)
    )
    assert section.filesystem.read("docs/notes.md") == b"n"
    assert section.mount_previews[0].mount_path == "docs/notes.md"


def test_read_only_files_are_looked_at_only() -> None:
    section = VfsToolsSection(filesystem=InMemoryFilesystem(read_only=True))
    assert [tool.name for tool in section.tools] == ["ls", "read_file", "glob", "grep"]
    assert "write_file" not in section.render_body(None)


def test_a_prompt_finds_its_files() -> None:
    files = InMemoryFilesystem()
    assert Prompt(PromptTemplate(ns="n", key="k", sections=[VfsToolsSection(filesystem=files)])).filesystem() is files
