"""Files under one root, wherever they are kept: in memory, in a directory, or behind a container."""

from belljar.filesystem.base import READ_ENTIRE_FILE, FileEntry, FileStat, Filesystem, GrepMatch, ReadResult
from belljar.filesystem.host import HostFilesystem
from belljar.filesystem.memory import InMemoryFilesystem
from belljar.filesystem.mounts import HostMount, HostMountPreview, copy_mounts
from belljar.filesystem.paths import VfsPath

__all__ = [
    "READ_ENTIRE_FILE",
    "FileEntry",
    "FileStat",
    "Filesystem",
    "GrepMatch",
    "HostFilesystem",
    "HostMount",
    "HostMountPreview",
    "InMemoryFilesystem",
    "ReadResult",
    "VfsPath",
    "copy_mounts",
]
