"""The page's own files, and what it is told: nothing of others runs in it, and strangers learn nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
from tests.unit.server.conftest import Gateway, Opened

JSON = {"accept": "application/json"}
GOOD = {"authorization": "Bearer bj-good"}
WEB = Path(str(files("belljar.gateway") / "web"))
ASSETS = sorted(path.name for path in WEB.iterdir())


class Page(HTMLParser):
    """Tags and attributes of a page; a tag that is not closed in its order is a failure."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta", "link", "input", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.attributes += attributes

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_only_its_own_scripts_run_and_they_make_no_markup(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["img-src"] == "'self' data: blob:"
    assert policy["require-trusted-types-for"] == "'script'"
    assert policy["trusted-types"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    page = Page(answer.body.decode())
    assert page.tags.count("script") == 1
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "style"]
    assert all(
        re.fullmatch(r"web/[\w.]+|#\w*", value or "") for name, value in page.attributes if name in ("href", "src")
    )


@pytest.mark.parametrize("name", ASSETS)
def test_its_files_are_there_and_name_nobody_else(gateway: Gateway, name: str) -> None:
    answer = gateway.ask("GET", f"/web/{name}")
    kind = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}[
        name.split(".")[-1]
    ]
    assert (answer.status, answer.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
    assert answer.body == (WEB / name).read_bytes()
    again = gateway.ask("GET", f"/web/{name}", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    text = answer.body.decode()
    assert not re.search(
        r"\burl\(|@import|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text
    )
    called = re.findall(r"(?:from|import) \"([^\"]+)\"", text)
    assert all(re.fullmatch(r"\./\w+\.js", one) and one[2:] in ASSETS for one in called)


@pytest.mark.parametrize(
    "path", ["/web/", "/web/missing.js", "/web/../page.py", "/web/%2e%2e/app.py", "/web//etc/passwd"]
)
def test_nothing_else_is(gateway: Gateway, path: str) -> None:
    assert gateway.ask("GET", path).status == 404


@pytest.mark.parametrize("path", ["/", "/web/style.css"])
def test_head(gateway: Gateway, path: str) -> None:
    whole, head = gateway.ask("GET", path), gateway.ask("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.body))
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_programs_get_json(opened: Opened) -> None:
    told = opened().ask("GET", "/", headers=JSON)
    assert (told.json["api"], told.json["health"]) == ("/v1", "/healthz")
    assert told.headers["vary"] == "accept"
    browser = {"accept": "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8"}
    assert opened().ask("GET", "/", headers=browser).body.startswith(b"<!doctype html>")


def test_it_is_told_the_limits(opened: Opened, tmp_path: Path) -> None:
    plain = opened(largest_upload=7, interpreter=False).ask("GET", "/belljar/page").json
    assert plain == {
        "isolation": "full", "interpreter": False, "packages": ["pandas"], "largest_upload": 7, "large_upload": 7,
        "project": None, "remedies": plain["remedies"],
    }  # fmt: skip
    assert plain["remedies"]["time"] == "Ask for it in smaller steps."
    told = opened(project=tmp_path).ask("GET", "/belljar/page").json
    assert (told["large_upload"], told["project"]) == (100 << 20, str(tmp_path))


def test_who_has_no_key_gets_the_page_and_learns_nothing(opened: Opened, tmp_path: Path) -> None:
    gateway = opened(keys=True, project=tmp_path)
    assert gateway.ask("GET", "/").status == gateway.ask("GET", "/web/app.js").status == 200
    for path in ("/belljar/page", "/belljar/project", "/belljar/containers/cntr_1/files", "/belljar/containers/x/zip"):
        assert gateway.ask("GET", path).status == 401
    assert gateway.ask("GET", "/belljar/page", headers=GOOD).status == 200


def test_it_can_be_switched_off(opened: Opened, tmp_path: Path) -> None:
    gateway = opened(page=False, project=tmp_path)
    paths = ("/", "/web/style.css", "/belljar/page", "/belljar/project")
    assert [gateway.ask("GET", path).status for path in paths] == [404] * 4


def test_pages_of_strangers_cannot_reach_the_project(opened: Opened, tmp_path: Path) -> None:
    gateway = opened(project=tmp_path)
    (tmp_path / "a.txt").write_text("a")
    for headers in ({"origin": "https://evil.example"}, {"host": "evil.example"}):
        assert gateway.ask("GET", "/belljar/project", headers=headers).status == 403
        answer = gateway.ask("POST", "/belljar/project/attach", {"path": "a.txt"}, headers)
        assert answer.status == 403
    assert not gateway.rooms.records.files
