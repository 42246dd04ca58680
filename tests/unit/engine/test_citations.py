"""Links in a message are found by index, and they are those that a look at every file would find."""

from __future__ import annotations

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.engine.citations import Citations
from belljar.gateway.store.base import ContainerFileRecord

LINK = "sandbox:/mnt/data/"
NAMES = st.text(alphabet="ab./ %é(", min_size=1, max_size=6)


def file(path: str) -> ContainerFileRecord:
    return ContainerFileRecord(
        id=f"cfile_{path}", container_id="cntr_1", path=path, created_at=0, size=1, modified=0, source="user", blob="b"
    )


def found(paths: list[str], text: str) -> list[tuple[str, int, int]]:
    citations = Citations()
    citations.add_known(map(file, paths))
    return [(one.file_id, one.start_index, one.end_index) for one in citations.cite(text, last=False)]  # type: ignore[union-attr]


def looked_for(paths: list[str], text: str) -> list[tuple[str, int, int]]:
    """By a look at every spelling of every file at each link."""
    spelled = {quote(path, safe=safe): path for path in paths for safe in ("/", "/()!*'~,;:@&=+$")}
    spelled |= {path: path for path in paths}
    told, at = [], text.find(LINK)
    while at >= 0:
        here = text[at + len(LINK) :]
        if name := max((name for name in spelled if here.startswith(name)), key=len, default=""):
            told.append((f"cfile_{spelled[name]}", at, at + len(LINK) + len(name)))
        at = text.find(LINK, at + len(LINK))
    return told


@given(st.lists(NAMES, max_size=12, unique=True), st.lists(NAMES | NAMES.map(quote), max_size=6))
def test_links_are_those_that_a_look_at_all_files_finds(paths: list[str], links: list[str]) -> None:
    text = " ".join(f"[see]({LINK}{link}) {link}" for link in links)
    assert found(paths, text) == looked_for(paths, text)


def test_the_longest_name_counts() -> None:
    assert found(["a.csv", "a.csv.gz", "a"], f"{LINK}a.csv.gz, {LINK}a.csvx {LINK}b") == [
        ("cfile_a.csv.gz", 0, 26),
        ("cfile_a.csv", 28, 51),
    ]


def test_of_very_many_files_the_latest_can_be_linked_and_those_that_were_made() -> None:
    citations = Citations()
    citations.add_made([file("made")])
    citations.add_known(file(f"f{n}") for n in range(10_001))
    text = " ".join(f"{LINK}{name}" for name in ("made", "f0", "f10000"))
    told = [one.filename for one in citations.cite(text, last=False)]  # type: ignore[union-attr]
    assert told == ["made", "f10000"]
