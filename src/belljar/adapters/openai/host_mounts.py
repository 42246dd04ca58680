"""`host_mounts` of a code interpreter: a container that has them, since OpenAI's wire knows no such thing."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belljar.adapters.openai.archives import HostTree
from belljar.adapters.openai.container import NAME, translate_errors
from belljar.adapters.openai.container_files import ContainerFiles, Reach, unpacks
from belljar.adapters.sdk import within
from belljar.adapters.workspace_section import Roots
from belljar.filesystem import HostFilesystem, HostMount, copy_mounts
from belljar.runtime import Deadline
from belljar.tools.containers import AutoContainerConfig

if TYPE_CHECKING:
    from openai import OpenAI


def materialise(
    client: OpenAI,
    container: AutoContainerConfig,
    *,
    allowed_host_roots: Roots = (),
    deadline: Deadline | None = None,
) -> str:
    """The id of a new container with the files of `host_mounts` and `file_ids`, to be sent in place of the config.

    Without `allowed_host_roots` each mount is its own root: whoever wrote the tool named it, and no link in it leads
    out of it.
    """
    with tempfile.TemporaryDirectory(prefix="belljar-mounts-") as directory:
        into = HostFilesystem(directory)
        if allowed_host_roots:
            copy_mounts(container.host_mounts, allowed_host_roots=allowed_host_roots, into=into)
        else:
            for mount in _absolute(container.host_mounts):
                copy_mounts((mount,), allowed_host_roots=(mount.host_path,), into=into)
        tree = HostTree(Path(directory))
        with translate_errors():
            return fill_container(partial(within, client, deadline), container, tree)


def fill_container(reach: Reach, container: AutoContainerConfig, tree: HostTree) -> str:
    """The id of a new container with these files and those of `file_ids`. What the SDK raises is raised."""
    made = reach().containers.create(name=NAME, **container_fields(container))
    ContainerFiles(reach, made.id, unpacking=unpacks(reach, made.id)).put_all(tree)
    return made.id


def container_fields(container: AutoContainerConfig) -> Any:
    """The fields of OpenAI's that it has."""
    given = {"memory_limit": container.memory_limit}
    return {**given, "file_ids": list(container.file_ids)} if container.file_ids else given


def _absolute(mounts: Sequence[HostMount]) -> list[HostMount]:
    return [
        dataclasses.replace(
            mount,
            host_path=str(Path(mount.host_path).expanduser().resolve()),
            mount_path=Path(mount.host_path).expanduser().name if mount.mount_path is None else mount.mount_path,
        )
        for mount in mounts
    ]
