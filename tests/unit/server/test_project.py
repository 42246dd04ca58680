"""The page's way to the project: what is listed, attached, proposed and saved, and what is refused."""

from __future__ import annotations

import asyncio
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.conftest import Answer, Gateway, Opened

from belljar.gateway.store.base import ContainerFileRecord, ContainerRecord


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def gateway(opened: Opened, root: Path) -> Gateway:
    return opened(project=root, largest_upload=1000)


def container(gateway: Gateway, files: dict[str, bytes], owner: str = "local") -> tuple[str, dict[str, str]]:
    """A container with these files; its id, and theirs by path."""

    async def make() -> tuple[ContainerRecord, list[ContainerFileRecord]]:
        rooms = gateway.rooms
        made = await rooms.containers.create(owner, name="", memory="1g", minutes=None, network=None)
        kept = []
        for path, data in files.items():
            async with rooms.blobs.write() as writer:
                await writer.write(data)
                blob = await writer.finish()
            kept.append(await rooms.containers.put_file(made, path, blob, type="text/plain"))
        return made, kept

    made, kept = asyncio.run(make())
    return made.id, {one.path: one.id for one in kept}


def propose(gateway: Gateway, id: str, file_ids: list[str], rename: list[Any] | None = None) -> list[dict[str, Any]]:
    asked = {"container_id": id, "file_ids": file_ids} | ({"rename": rename} if rename else {})
    answer = gateway.ask("POST", "/belljar/project/propose", asked)
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json["proposals"]
    return found


def save(gateway: Gateway, id: str, file_ids: list[str], *approved: dict[str, Any]) -> Answer:
    asked = {"container_id": id, "file_ids": file_ids, "save": list(approved)}
    return gateway.ask("POST", "/belljar/project/save", asked)


def approval(proposal: dict[str, Any]) -> dict[str, Any]:
    return {name: proposal[name] for name in ("number", "destination", "seen")}


# -- in ---------------------------------------------------------------------------------------------------------------


def test_directories_are_listed(gateway: Gateway, root: Path, tmp_path: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "zwölf.csv").write_text("12")
    (root / "B.txt").write_text("b")
    (root / "a.txt").write_text("aa")
    (root / ".hidden").write_text("h")
    (root / ".git").mkdir()
    (root / "link").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    listed = gateway.ask("GET", "/belljar/project").json
    assert [(one["kind"], one["path"], one["size"]) for one in listed["entries"]] == [
        ("directory", "sub", 0), ("file", "a.txt", 2), ("file", "B.txt", 1),
    ]  # fmt: skip
    assert listed["entries"][1]["type"] == "text/plain"
    below = gateway.ask("GET", "/belljar/project?path=sub").json["entries"]
    assert [one["path"] for one in below] == ["sub/zwölf.csv"]
    every = gateway.ask("GET", "/belljar/project?hidden=true").json["entries"]
    assert [one["name"] for one in every] == ["sub", ".hidden", "a.txt", "B.txt"]


@pytest.mark.parametrize(
    "path", ["..", "/", "/etc", "sub/../..", "link", "link/x", ".git", "missing", "a.txt", "a%00b"]
)
def test_nothing_outside_is_listed_or_attached(gateway: Gateway, root: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "x").write_text("secret")
    (root / "link").symlink_to(tmp_path)
    (root / ".git").mkdir()
    (root / "a.txt").write_text("a")
    listed = gateway.ask("GET", f"/belljar/project?path={path}")
    assert (listed.status, listed.error["type"]) == (400, "invalid_request_error")
    if path != "a.txt":
        attached = gateway.ask("POST", "/belljar/project/attach", {"path": path})
        assert attached.status == 400
        assert not gateway.rooms.records.files


def test_a_file_is_attached_as_if_it_had_been_uploaded(gateway: Gateway, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "zwölf 報告.csv").write_bytes(b"a,b\n")
    answer = gateway.ask("POST", "/belljar/project/attach", {"path": "sub/zwölf 報告.csv"})
    assert (answer.json["object"], answer.json["filename"], answer.json["bytes"]) == ("file", "zwölf 報告.csv", 4)
    assert gateway.ask("GET", f"/v1/files/{answer.json['id']}/content").body == b"a,b\n"
    (root / "large").write_bytes(b"x" * 1001)
    refused = gateway.ask("POST", "/belljar/project/attach", {"path": "large"})
    assert (refused.status, "larger than 1000 bytes" in refused.error["message"]) == (413, True)
    for body in ({}, {"path": 7}):
        assert gateway.ask("POST", "/belljar/project/attach", body).error["param"] == "path"


# -- out --------------------------------------------------------------------------------------------------------------


def test_files_of_a_container_have_types_and_names_for_people(gateway: Gateway) -> None:
    id, by_path = container(gateway, {"out/a.csv": b"a", "x.txt": b"x"})
    figure = gateway.rooms.containers.files[id][1]
    gateway.rooms.containers.files[id][1] = ContainerFileRecord(
        id="cfile_1", container_id=id, path="cfile_1.png", created_at=2, size=1, modified=2.0, source="assistant",
        blob=figure.blob, type="image/png",
    )  # fmt: skip
    listed = gateway.ask("GET", f"/belljar/containers/{id}/files").json["data"]
    assert [(one["name"], one["type"], one["figure"]) for one in listed] == [
        ("out/a.csv", "text/plain", False), ("figure-1.png", "image/png", True),
    ]  # fmt: skip
    with zipfile.ZipFile(io.BytesIO(gateway.ask("GET", f"/belljar/containers/{id}/zip").body)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"out/a.csv": b"a", "figure-1.png": b"x"}
    some = gateway.ask("GET", f"/belljar/containers/{id}/zip?file_id=cfile_1")
    assert zipfile.ZipFile(io.BytesIO(some.body)).namelist() == ["figure-1.png"]
    assert gateway.ask("GET", f"/belljar/containers/{id}/zip?file_id={by_path['x.txt']}").status == 404
    assert gateway.rooms.blobs.open == 0


def test_proposals_tell_what_would_happen_and_write_nothing(gateway: Gateway, root: Path) -> None:
    (root / "old.txt").write_text("one\n")
    id, by_path = container(gateway, {"old.txt": b"two\n", "new/n.txt": b"n"})
    old, new = propose(gateway, id, list(by_path.values()))
    assert (old["state"], old["size"], old["mimeType"]) == ("overwrites", 4, "text/plain")
    assert "-one\n+two\n" in old["diff"]
    assert (new["state"], new["destination"]) == ("new", "new/n.txt")
    assert [path.name for path in root.iterdir()] == ["old.txt"]
    (moved, _) = propose(gateway, id, list(by_path.values()), [{"number": 1, "destination": "../x"}])
    assert (moved["state"], moved["seen"]) == (None, None)
    assert "leads out of the project" in moved["refused"]


def test_what_runs_by_itself_is_not_saved_and_what_tools_obey_is_warned_of(gateway: Gateway, root: Path) -> None:
    contents = {".git/config": b"x", "sub/.GIT/config": b"x", "HEAD": b"x", "Makefile": b"all:\n", "a.csv": b"1"}
    id, by_path = container(gateway, contents)
    listed = gateway.ask("GET", f"/belljar/containers/{id}/files").json["data"]
    assert {one["name"] for one in listed if one["refused"]} == {".git/config", "sub/.GIT/config", "HEAD"}
    proposals = propose(gateway, id, list(by_path.values()))
    assert [one["state"] for one in proposals] == [None, None, None, "new", "new"]
    assert "git runs commands" in proposals[0]["refused"]
    assert [one["warning"] for one in proposals[2:]] == [None, "builds run what it says", None]
    refused = save(gateway, id, list(by_path.values()), {"number": 1, "destination": ".git/config", "seen": None})
    assert refused.status == 400
    assert list(root.iterdir()) == []
    with zipfile.ZipFile(io.BytesIO(gateway.ask("GET", f"/belljar/containers/{id}/zip").body)) as archive:
        assert sorted(archive.namelist()) == ["Makefile", "a.csv"]


def test_names_and_differences_are_shown_as_they_are(gateway: Gateway, root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    id, by_path = container(gateway, {"c\u202evsc.py": b"x", "a.txt": "two\x1b[2K\r\u202e-one\u2028+++ b/x\n".encode()})
    name, text = propose(gateway, id, list(by_path.values()))
    assert (name["name"], name["state"]) == (r"c\u202evsc.py", None)
    assert text["diff"].splitlines()[-2:] == ["-one", r"+two\x1b[2K\r\u202e-one\u2028+++ b/x"]
    listed = gateway.ask("GET", f"/belljar/containers/{id}/files").json["data"]
    assert listed[0]["shown"] == r"c\u202evsc.py"


def test_what_is_approved_is_saved_and_nothing_else(gateway: Gateway, root: Path) -> None:
    id, by_path = container(gateway, {"a.txt": b"a" * (3 << 20), "b.txt": b"b"})
    ids = list(by_path.values())
    first, _ = propose(gateway, id, ids)
    answer = save(gateway, id, ids, approval(first))
    assert answer.json == {"saved": [{"name": "a.txt", "path": "a.txt", "overwrote": False}]}
    assert {path.name: path.stat().st_size for path in root.iterdir()} == {"a.txt": 3 << 20}
    _, second = propose(gateway, id, ids, [{"number": 2, "destination": "sub/ü.txt"}])
    assert save(gateway, id, ids, approval(second)).json["saved"][0]["path"] == "sub/ü.txt"
    assert (root / "sub" / "ü.txt").read_bytes() == b"b"


def test_what_was_not_seen_is_not_saved(gateway: Gateway, root: Path) -> None:
    id, by_path = container(gateway, {"a.txt": b"a"})
    ids = list(by_path.values())
    (shown,) = propose(gateway, id, ids)
    for wrong in ({"seen": None}, {"seen": "0" * 64}, {"destination": "b.txt"}):
        refused = save(gateway, id, ids, approval(shown) | wrong)
        assert (refused.status, refused.error["code"]) == (400, "changed")
    (root / "a.txt").write_text("meanwhile")
    assert save(gateway, id, ids, approval(shown)).error["code"] == "changed"
    assert [path.read_text() for path in root.iterdir()] == ["meanwhile"]


def test_nonsense_is_refused_and_writes_nothing(gateway: Gateway, root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to(tmp_path)
    id, by_path = container(gateway, {"a.txt": b"a"})
    other, others = container(gateway, {"a.txt": b"a"}, owner="somebody")
    ids = list(by_path.values())
    for status, container_id, file_ids, approved in [
        (400, id, ids, {"number": 2, "destination": "x", "seen": ""}),
        (400, id, ids, {"number": 1, "destination": "../x", "seen": ""}),
        (400, id, ids, {"number": 1, "destination": "link/x", "seen": ""}),
        (400, id, ids, {"number": "1"}),
        (400, id, "a.txt", {"number": 1}),
        (404, id, ["cfile_x"], {"number": 1}),
        (404, other, list(others.values()), {"number": 1}),
    ]:  # fmt: skip
        asked = {"container_id": container_id, "file_ids": file_ids, "save": [approved]}
        answer = gateway.ask("POST", "/belljar/project/save", asked)
        assert (answer.status, bool(answer.error["message"])) == (status, True), answer.body
    assert gateway.ask("POST", "/belljar/project/save", {"container_id": id, "file_ids": ids}).status == 400
    assert [path.name for path in root.iterdir()] == ["link"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project"]


def test_without_a_project_there_is_no_way_to_one(opened: Opened) -> None:
    gateway = opened()
    assert gateway.ask("GET", "/belljar/project").status == 404
    assert gateway.ask("POST", "/belljar/project/save", {}).status == 404
