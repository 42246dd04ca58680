"""Files that a provider's code made become files of our container; what cannot be kept is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from belljar.config import Upstream
from belljar.gateway.containers import Containers, Policy
from belljar.gateway.engine import hosted_files
from belljar.gateway.engine.hosted_files import HostedFileKeeper
from belljar.gateway.store.base import ContainerFileRecord
from belljar.gateway.store.local_store import open_store
from belljar.gateway.upstream.endpoint import Endpoint
from belljar.gateway.upstream.transport import Transport
from belljar.gateway.upstream.vendor_files import HostedFiles
from belljar.sandbox.base import SandboxSource
from belljar.vendors.deltas import HostedEnd
from belljar.vendors.request import HostedFile
from belljar.wire.items import CellEnd, CodeInterpreterCall, Logs

Kept = tuple[HostedEnd, tuple[ContainerFileRecord, ...], list[bytes]]


def inline(name: str | None, data: bytes = b"data") -> HostedFile:
    return HostedFile(name=name, type="image/png", data=data)


def kept(state: Path, files: Sequence[HostedFile], **more: Any) -> Kept:
    """The cell's end as it is told, its files, and the bytes of those."""

    async def main() -> Kept:
        records, blobs = open_store(state)
        source = cast(SandboxSource, None)  # no code of ours is run
        containers = Containers(records, blobs, source, Policy())
        transport = Transport()
        endpoint = Endpoint(Upstream(name="lab", base_url="http://127.0.0.1:1/v1"))
        fetcher = HostedFiles(endpoint, transport)
        fields: dict[str, Any] = {"status": "completed", "code": "1", "container_id": "", "outputs": None, **more}
        try:
            container = await containers.create("me", name="test")
            end = HostedEnd(3, CodeInterpreterCall(id="ci_1", **fields), tuple(files))
            told, made = await HostedFileKeeper(fetcher, containers, blobs).keep(end, container)
            data = [b"".join([chunk async for chunk in blobs.stream(one.blob)]) for one in made]
        finally:
            await transport.close()
            await records.close()
        return told, made, data

    return asyncio.run(main())


def test_files_are_kept_under_their_names(tmp_path: Path) -> None:
    files = [inline("chart.png", b"one"), inline("/tmp/outputs/報告 1.png", b"two"), inline(None, b"three")]
    told, made, data = kept(tmp_path, files)
    assert [(one.path, one.type, one.source) for one in made] == [
        ("chart.png", "image/png", "assistant"),
        ("報告 1.png", "image/png", "assistant"),
        ("output_1.png", "image/png", "assistant"),
    ]
    assert data == [b"one", b"two", b"three"]
    paths, ids = ("chart.png", "報告 1.png", "output_1.png"), tuple(one.id for one in made)
    assert told.item.belljar == CellEnd(exit="ok", files=paths, file_ids=ids)
    assert (told.index, told.files, told.item.outputs) == (3, (), ())


def test_files_of_one_name_are_all_kept(tmp_path: Path) -> None:
    """Vendors that tell names alone give two files of two directories the same; the same file twice stays one."""
    given = [("r.csv", b"1"), ("r.csv", b"2"), ("r.csv", b"1"), ("sub/r.csv", b"3"), (None, b"4"), (None, b"5")]
    told, made, data = kept(tmp_path, [inline(*one) for one in given])
    assert [one.path for one in made] == ["r.csv", "r-2.csv", "r.csv", "sub/r.csv", "output_1.png", "output_2.png"]
    assert data == [b"1", b"2", b"1", b"3", b"4", b"5"]
    assert told.item.outputs == (Logs(logs="[There is another r.csv: this one is kept as r-2.csv]\n"),)


def test_how_the_cell_ended_stays(tmp_path: Path) -> None:
    end = CellEnd(exit="raised", text="It ended with the exit code 1.")
    told, made, _ = kept(tmp_path, [inline("a")], belljar=end, outputs=(Logs(logs="x"),))
    ids = tuple(one.id for one in made)
    assert told.item.belljar == CellEnd(exit="raised", text=end.text, files=("a",), file_ids=ids)
    assert told.item.outputs == (Logs(logs="x"),)


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (inline(".."), "leads out of /mnt/data"),
        (inline("big", bytes(2000)), "more than"),
        (HostedFile(name="far", type="", id="file_1"), "gave no way to fetch it"),
    ],
)
def test_what_cannot_be_kept_is_told_and_the_rest_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: HostedFile, why: str
) -> None:
    monkeypatch.setattr(hosted_files, "LARGEST", 1000)
    told, made, _ = kept(tmp_path, [file, inline("a")], outputs=(Logs(logs="x"),))
    assert [one.path for one in made] == ["a"]
    first, second = told.item.outputs or ()
    assert first == Logs(logs="x")
    assert isinstance(second, Logs)
    assert second.logs.startswith(f"[The file {file.name} could not be kept: ")
    assert why in second.logs
