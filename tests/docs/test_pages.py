"""What the pages point to and quote is there: links, headings, messages, the session; and the index has all."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
INDEX = ROOT / "docs/README.md"
FOR_US = {"features.md", "README.md"}
"""Pages of `docs` that the index for users does not have."""


@cache
def prose(page: Path) -> str:
    """Without blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


@cache
def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them, and those that are written by hand."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    made = {re.sub(r"[^\w\- ]", "", re.sub(r"\]\(.*?\)", "", one).lower()).replace(" ", "-") for one in headings}
    return made | set(re.findall(r'<a id="([^"]+)">', prose(page)))


def links(page: Path) -> list[tuple[Path, str]]:
    """Files and headings of ours that a page leads to."""
    found = re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)", prose(page))
    return [((page.parent / path).resolve() if path else page, anchor) for path, anchor in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [str(path) for path, _ in links(page) if not path.exists()] == []
    assert [f"{path.name}#{anchor}" for path, anchor in links(page) if anchor and anchor not in anchors(path)] == []


def test_the_index_has_every_page_for_users() -> None:
    linked = {path for path, _ in links(INDEX)}
    missing = {page.name for page in (ROOT / "docs").glob("*.md") if page not in linked}
    assert missing == FOR_US


# -- messages ----------------------------------------------------------------------------------------------------------


@cache
def messages() -> list[str]:
    """Every text in the source, with a gap where a value goes."""
    texts: list[str] = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(one.value if isinstance(one, ast.Constant) else "\0" for one in node.values))  # type: ignore[misc]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts


def quoted() -> list[str]:
    """Of the first cell of each row, what is marked as said by Belljar: a sentence, not a name or an address."""
    cells = re.findall(r"^\| (.+?) \|", prose(ROOT / "docs/troubleshooting.md"), re.M)
    spans = [span for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    return [span for span in spans if len(re.findall(r"[a-z]{2,}", span)) >= 3 and span not in PYTHONS]


PYTHONS = {"No space left on device", "can't start new thread"}


@pytest.mark.parametrize("message", quoted())
def test_a_message_is_quoted_as_it_is_written(message: str) -> None:
    pieces = [piece.strip(" '();") for piece in message.split("…")]
    for piece in filter(None, pieces):
        assert any(piece in text for text in messages()), f"no message has {piece!r}"


def test_there_are_messages() -> None:
    assert len(quoted()) > 15


# -- the recording -----------------------------------------------------------------------------------------------------


def test_the_recorded_session_goes_as_it_is_told() -> None:
    command = [sys.executable, str(ROOT / "scripts/record.py"), "--check"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
