"""The page at /: nothing in it can run, and it tells strangers nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from tests.unit.server.conftest import Gateway, Opened
from tests.unit.server.fakes import Info

NASTY = "<script>alert('\"&amp;')</script>"
JSON = {"accept": "application/json"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; a tag that is not closed in its order is a failure."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta", "link"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.attributes += attributes

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_nothing_in_it_can_run(gateway: Gateway) -> None:
    gateway.rooms.models.infos += [Info(NASTY, NASTY), *(Info(f"m{number}", "many") for number in range(40))]
    gateway.rooms.health.isolation = NASTY
    answer = gateway.ask("GET", "/", headers={"host": '"><b>'})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["style-src"] == "'self'"
    assert "script-src" not in policy
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    page = Page(answer.body.decode())
    assert page.text.count(NASTY) == 3
    assert "m11 and 28 more" in page.text
    assert not {"script", "b", "style", "iframe", "img", "form"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "style"]
    assert all((value or "").startswith(("/", "data:,")) for name, value in page.attributes if name in ("href", "src"))
    assert f"http://127.0.0.1:{gateway.host.port}/v1" in page.text


def test_it_tells_the_address_that_the_browser_used(gateway: Gateway) -> None:
    for headers, told in [
        ({"host": "localhost:9"}, "http://localhost:9/v1"),
        ({"host": "[::1]:9"}, "http://[::1]:9/v1"),
        ({"host": "192.168.0.7", "x-forwarded-proto": "https"}, "https://192.168.0.7/v1"),
    ]:
        page = Page(gateway.ask("GET", "/", headers=headers).body.decode())
        assert page.text.count(told) == 3


def test_who_has_no_key_is_told_nothing_of_the_inside(opened: Opened) -> None:
    gateway = opened(keys=True)
    page = Page(gateway.ask("GET", "/").body.decode())
    assert "Every request needs a key" in page.text
    assert "qwen" not in page.text
    assert "isolation" not in page.text
    assert "full" not in page.text
    assert page.text.count("YOUR_KEY") == 2


def test_its_style_is_there(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/web/style.css")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert not re.search(rb"url\(|@import", answer.body)


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


def test_it_can_be_switched_off(opened: Opened) -> None:
    gateway = opened(page=False)
    assert [gateway.ask("GET", path).status for path in ("/", "/web/style.css")] == [404, 404]
