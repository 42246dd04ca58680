"""A workspace in a container: host files that the code interpreter reads and changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from belljar.adapters.openai.archives import HostFiles
from belljar.adapters.openai.config import ContainerConfig
from belljar.adapters.openai.settings import OpenAIClientConfig
from belljar.adapters.workspace_section import MountedSection, Roots, WorkspaceProgress
from belljar.errors import WorkspaceError
from belljar.filesystem import HostMount
from belljar.filesystem.export import Take
from belljar.runtime import SessionProtocol

if TYPE_CHECKING:
    from openai import OpenAI

    from belljar.adapters.openai.container_fs import ContainerFilesystem


class OpenAIContainerWorkspaceSection(MountedSection):
    """Host files in a container, which is made at the first evaluation or the first use of `filesystem`.

    An adapter hands in its client (`bind`) and asks for the container's id (`filesystem.ensure_container()`) before
    each request; without an adapter, that of `OpenAIClientConfig()` is used. In mode `auto` the container of earlier
    turns of the session goes on being used: what is missing in it is uploaded, and the rest stays as those turns left
    it.

    >>> workspace = OpenAIContainerWorkspaceSection(  # doctest: +SKIP
    ...     session=session,
    ...     mounts=(
    ...         HostMount(
    ...             host_path="/path/to/repo",
    ...             mount_path="repo",
    ...             exclude_glob=(".git/*", "__pycache__/*"),
    ...             max_bytes=10_000_000,
    ...         ),
    ...     ),
    ...     allowed_host_roots=("/path/to",),
    ... )
    """

    provider = "openai"

    def __init__(
        self,
        *,
        session: SessionProtocol,
        mounts: Sequence[HostMount] = (),
        allowed_host_roots: Roots = (),
        container_config: ContainerConfig | None = None,
        sync_on_cleanup: bool = False,
        accepts_overrides: bool = False,
        sync_to: os.PathLike[str] | str | None = None,
        sync_overwrite: bool = False,
        on_progress: Callable[[WorkspaceProgress], object] | None = None,
    ) -> None:
        """`sync_on_cleanup` brings what code made or changed into `sync_to`, or else into a directory of its own, which
        `results_dir` names afterwards: `temp_dir` itself is removed. What a mount brought from there and is there still
        as it was is replaced; anything else in the way stays, and the new file is kept beside it under a name with a
        number, unless `sync_overwrite` is given. Files that tools run by themselves, such as `.git`, are left behind.
        `unsynced` tells of both.
        """
        super().__init__(
            title="Workspace",
            key="openai-container-workspace",
            session=session,
            mounts=mounts,
            allowed_host_roots=allowed_host_roots,
            sync_on_cleanup=sync_on_cleanup,
            sync_to=sync_to,
            sync_overwrite=sync_overwrite,
            on_progress=on_progress,
            accepts_overrides=accepts_overrides,
        )
        self.container_config = container_config or ContainerConfig()
        self._client: OpenAI | None = None
        self._filesystem: ContainerFilesystem | None = None

    @property
    def filesystem(self) -> ContainerFilesystem:
        """The container's files. Having it makes no container; using it does."""
        from belljar.adapters.openai.container import NAME
        from belljar.adapters.openai.container_fs import ContainerFilesystem

        with self._lock:
            if self._cleaned:
                raise self._over()
            if self._filesystem is None:
                self._reserve_directory()
                auto = self.container_config.mode == "auto"
                self._filesystem = ContainerFilesystem(
                    client=self._bound,
                    container_config=self.container_config,
                    mounted=self._archive,
                    name=f"belljar-{self.session.session_id}" if auto else NAME,
                    on_progress=self._counter("upload") if self._on_progress is not None else None,
                )
            return self._filesystem

    @property
    def container_id(self) -> str | None:
        """None before the container is first used."""
        return None if self._filesystem is None else self._filesystem.container_id

    def bind(self, client: OpenAI) -> None:
        """The client to use. Another of the same server changes nothing; one of another server is refused once there is
        a container, since that server would not know it.
        """
        with self._lock:
            if self._client is not None and self.container_id is not None:
                old, new = str(self._client.base_url), str(client.base_url)
                if old != new:
                    raise WorkspaceError(
                        f"section {self.key!r}: its container is at {old}, not at {new}; make a section for each server"
                    )
                return
            self._client = client

    def cleanup(self, *, delete_container: bool = False) -> None:
        """As the base has it; the container is left to expire, unless it is to be deleted now."""
        super().cleanup()
        if self._filesystem is not None:
            self._filesystem.cleanup(delete_container=delete_container and self.container_id is not None)

    def _bound(self) -> OpenAI:
        with self._lock:
            if self._client is None:
                self._client = OpenAIClientConfig().client()
            return self._client

    def _archive(self) -> HostFiles:
        with self._lock:
            return HostFiles(self._find_files())

    def _is_used(self) -> bool:
        return self.container_id is not None

    def _place(self) -> str:
        return (
            "These files of the host are in `/mnt/data`, where Python code runs and may change them. On a server "
            "without directories, `a/b.txt` is named `a%2Fb.txt`."
        )

    def _fetch_changed(self, take: Take) -> None:
        assert self._filesystem is not None
        self._filesystem.fetch_changed(take)
