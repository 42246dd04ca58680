"""The list of fonts that is kept between starts: made once, and anew when it is not as we left it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from belljar.sandbox.local.environments import font_list


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with a list in it; it takes a second to make one."""
    cache = tmp_path_factory.mktemp("made")
    assert font_list(cache) is not None
    return cache


@pytest.fixture
def cache(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "cache")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was started to make a list: nothing here, but a list that fontconfig left a cache beside."""
    commands = []

    def run(command: list[str], *, env: dict[str, str], **_: Any) -> None:
        commands.append(command)
        home = Path(env["HOME"])
        (home / ".cache" / "fontconfig").mkdir(parents=True)
        (home / ".cache" / "fontconfig" / "CACHEDIR.TAG").write_text("Signature")
        Path(env["MPLCONFIGDIR"], "fontlist-v1.json").write_text('{"made": "anew"}')

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def path_of(cache: Path) -> Path:
    [path] = cache.glob("matplotlib-*")
    return path


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def change(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"DejaVu", b"DejaBu", 1))


def link(path: Path) -> None:
    """With the right content, even."""
    elsewhere = path.rename(path.parent.parent / "elsewhere.json")
    path.symlink_to(elsewhere)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def close(path: Path) -> None:
    path.chmod(0)
    os.truncate(path, 0) if os.geteuid() == 0 else None


def give_away(path: Path) -> None:
    """Where only root can: a copy of another user's making. Otherwise at least another content."""
    os.chown(path, 12345, 12345) if os.geteuid() == 0 else empty(path)


def test_it_is_made_once(cache: Path, started: list[list[str]]) -> None:
    kept = font_list(cache)
    assert kept is not None
    assert kept[0].startswith("fontlist-v")
    assert kept[1] == path_of(cache)
    assert started == []


@pytest.mark.parametrize("spoil", [truncate, empty, change, link, pipe, close, give_away])
def test_a_spoilt_one_is_made_anew(cache: Path, started: list[list[str]], spoil: Callable[[Path], None]) -> None:
    spoil(path_of(cache))
    kept = font_list(cache)
    assert kept is not None
    assert kept == ("fontlist-v1.json", path_of(cache)), "and the spoilt one is gone"
    assert kept[1].read_text() == '{"made": "anew"}'
    assert font_list(cache) == kept
    assert len(started) == 1


def test_only_the_list_is_kept(tmp_path: Path, started: list[list[str]]) -> None:
    kept = font_list(tmp_path / "new")
    assert kept is not None
    assert sorted(path.name for path in (tmp_path / "new").rglob("*")) == sorted([kept[1].name, "tmp"])
    assert kept[1].stat().st_mode & 0o777 == 0o644


def test_what_else_lies_there_is_none_of_ours(cache: Path, started: list[list[str]]) -> None:
    before = font_list(cache)
    (cache / "matplotlib-3.9.0" / ".cache" / "fontconfig").mkdir(parents=True)
    (cache / f"matplotlib-0-{'0' * 64}-fontlist-v1.json").mkdir()
    (cache / "fontlist-v1.json").write_text("[]")
    (cache / ".uuid").touch()
    assert font_list(cache) == before
    assert started == []


def test_a_directory_by_its_very_name_is_lived_with(cache: Path, started: list[list[str]]) -> None:
    path = path_of(cache)
    path.unlink()
    (path / "inside").mkdir(parents=True)
    kept = font_list(cache)
    assert kept is not None
    assert kept[1].read_text() == '{"made": "anew"}'
    assert font_list(cache) == kept


def test_several_that_start_at_once(tmp_path: Path) -> None:
    results: list[tuple[str, Path] | None] = []
    threads = [threading.Thread(target=lambda: results.append(font_list(tmp_path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = font_list(tmp_path)
    assert found in results
    assert all(kept is not None and json.loads(kept[1].read_bytes())["ttflist"] for kept in results)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_one_that_is_cut_off_while_it_is_made_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], *, env: dict[str, str], **_: Any) -> None:
        Path(env["MPLCONFIGDIR"], "fontlist-v1.json").write_text('{"made": "an')

    monkeypatch.setattr(subprocess, "run", run)
    assert font_list(tmp_path) is None
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp"]


def fail(command: list[str], **_: Any) -> None:
    raise subprocess.TimeoutExpired(command, 120)


def test_one_that_takes_for_ever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", fail)
    assert font_list(tmp_path) is None


@pytest.mark.parametrize("cache", ["/dev/null/cache", "/proc/cache"])
def test_where_none_can_be_kept_there_is_none(cache: str) -> None:
    assert font_list(Path(cache)) is None
