"""The page at /: what it shows to be copied works as it stands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html import unescape

import httpx2
import pytest
from tests.gateway.houses import House


@pytest.fixture(scope="module")
def html(house: House) -> str:
    return httpx2.get(house.url, headers={"accept": "text/html"}).text


def shown(html: str, id: str) -> str:
    found = re.search(rf'<code id="{id}">(.*?)</code>', html, re.DOTALL)
    assert found is not None
    return unescape(found[1])


def test_it_says_where_it_is_and_what_there_is(house: House, html: str) -> None:
    assert f"<code>{house.base_url}</code>" in html
    for name in ("belljar", "sim", "llava"):
        assert f"<code>{name}</code>" in html
    assert "<dt>isolation</dt><dd>full" in html
    for path in re.findall(r'href="(/[^"]*)"', html):
        assert httpx2.get(house.url + path).status_code in (200, 503)


def test_the_python_works_as_it_stands(html: str) -> None:
    ran = subprocess.run([sys.executable, "-c", shown(html, "python")], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "[1, 1, 2, 6, 24, 120, 720, 5040]" in ran.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_curl_line_works_as_it_stands(html: str) -> None:
    ran = subprocess.run(["sh", "-c", shown(html, "curl")], capture_output=True, text=True, timeout=60, check=True)
    assert r'"logs":"42\n"' in ran.stdout
