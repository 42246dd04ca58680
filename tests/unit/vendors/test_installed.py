"""Vendors of other packages: found where these are installed, and told of where they cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from belljar.vendors.installed import load_vendors
from belljar.vendors.openai.vendor import VENDOR
from belljar.vendors.registry import VENDORS, WIRES

ROWS = """
from belljar.vendors.vendor import Vendor, Wire

GOOD = Vendor(name="good", title="Good", wire=Wire("good", "good.dialect:GoodDialect"))
TWIN = Vendor(name="twin", title="Twin", wire=Wire("good", "good.dialect:GoodDialect"))
AGAIN = Vendor(name="good", title="Good again")
TAKEN = Vendor(name="openai", title="Not OpenAI")
OTHER = Vendor(name="other", title="Other", wire=Wire("openai", "other.dialect:OtherDialect"))
WORD = "openai"
"""


def install(directory: Path, *points: str) -> None:
    (directory / "good_rows.py").write_text(ROWS)
    about = directory / "good_rows-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: good-rows\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[belljar.vendors]\n" + "\n".join(points) + "\n")


def test_an_installed_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "good = good_rows:GOOD", "twin = good_rows:TWIN")
    monkeypatch.syspath_prepend(tmp_path)
    assert [row.title for row in load_vendors([VENDOR])] == ["Good", "Twin"]


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ("bad = no_such_module:ROW", "the vendor bad cannot be loaded from no_such_module:ROW: ModuleNotFoundError"),
        ("bad = good_rows:NONE", "cannot be loaded from good_rows:NONE: AttributeError"),
        ("bad = good_rows:WORD", "the vendor bad of good_rows:WORD cannot be used: it is a str, not a Vendor; mend"),
        ("bad = good_rows:AGAIN", "there is a vendor good already"),
        ("bad = good_rows:TAKEN", "there is a vendor openai already"),
        ("bad = good_rows:OTHER", "there is another wire openai already"),
    ],
)
def test_one_that_cannot_be_used_is_told_of_and_keeps_nobody_away(
    point: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path, "a = good_rows:GOOD", point, "z = good_rows:TWIN")
    monkeypatch.syspath_prepend(tmp_path)
    assert [row.name for row in load_vendors([VENDOR])] == ["good", "twin"]
    assert why in caplog.text


def test_our_own_come_first() -> None:
    assert next(iter(VENDORS)) == VENDOR.name
    assert list(WIRES)[:5] == ["chat", "openai", "anthropic", "gemini", "xai"]
