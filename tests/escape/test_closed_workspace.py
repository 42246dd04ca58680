"""Code that closes its own folders hides nothing from a host that is the same user, as it hides nothing from root."""

from __future__ import annotations

from tests.escape.conftest import Worker


def test_the_host_finds_its_way_in(user: str) -> None:
    worker = Worker(user, "tests.escape.closed_workspace")
    files = ["a/b/deep.txt", "a/secret.txt", "top.txt"]
    assert worker.hello == {
        "list": files,
        "read": "a/secret.txt",
        "write": "a/b/new.txt",
        "delete": None,
        "glance": sorted(files, key=lambda name: worker.hello["glance"].index(name)),
    }
    worker.close()
