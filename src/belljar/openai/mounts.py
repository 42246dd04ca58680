"""Upload the host files that a request mounts to a container, and put its id in their place."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import openai

from belljar.adapters.openai.archives import HostTree
from belljar.adapters.openai.container import NAME
from belljar.adapters.openai.host_mounts import container_fields, fill_container
from belljar.errors import WorkspaceError
from belljar.filesystem import HostFilesystem, copy_mounts
from belljar.tools import AutoContainerConfig
from belljar.tools.containers import container_of


@dataclass(frozen=True, slots=True)
class Mounted:
    """A tool of a request that names files of the host."""

    at: int
    """Its place among the tools."""
    container: AutoContainerConfig

    @classmethod
    def all_of(cls, options: Any) -> list[Mounted]:
        """Those of a request to the SDK's `request`; none of what is not asked of /responses."""
        body = options.json_data
        tools = body.get("tools") if options.url == "/responses" and isinstance(body, Mapping) else None
        found = enumerate(tools if isinstance(tools, Sequence) else ())
        containers = ((at, tool.get("container")) for at, tool in found if isinstance(tool, Mapping))
        return [
            cls(at, container)
            for at, given in containers
            if isinstance(given, Mapping) and given.get("host_mounts")
            if isinstance(container := container_of(given), AutoContainerConfig)
        ]

    def copy_files(self, roots: Sequence[str | os.PathLike[str]]) -> TemporaryDirectory[str]:
        """The files, in a directory that is there for as long as its context."""
        directory = TemporaryDirectory(prefix="belljar-")
        try:
            copy_mounts(self.container.host_mounts, allowed_host_roots=roots, into=HostFilesystem(directory.name))
        except BaseException:
            directory.cleanup()
            raise
        return directory

    def with_container(self, options: Any, id: str) -> Any:
        """The same request, with the container that has the files."""
        made = copy.copy(options)
        tools = list(options.json_data["tools"])
        tools[self.at] = {**tools[self.at], "container": id}
        made.json_data = {**options.json_data, "tools": tools}
        return made


def mount(client: openai.OpenAI, container: AutoContainerConfig, directory: str) -> str:
    """The id of a new container with the files beneath the directory and those of `file_ids`."""
    return fill_container(lambda: client, container, HostTree(Path(directory)))


async def mount_async(client: openai.AsyncOpenAI, container: AutoContainerConfig, directory: str) -> str:
    """The same for asyncio, with servers that unpack an archive."""
    tree = HostTree(Path(directory))
    made = await client.containers.create(name=NAME, **container_fields(container))
    if tree.members():
        packed: Any = ("files.tar", tree.pack(), "application/x-tar")
        answer: Any = await client.containers.files.create(made.id, file=packed, extra_body={"extract": "true"})
        if answer.object != "list":
            raise WorkspaceError(
                f"container.host_mounts: {client.base_url} unpacks no archives; upload the files one by one, with "
                "client.containers.files.create(…), or use OpenAI in a thread, which does so itself"
            )
    return made.id
