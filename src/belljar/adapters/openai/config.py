"""What an OpenAI adapter is told: its hosted tools, its containers, its compaction; checked when it is made."""

from __future__ import annotations

from typing import Literal, get_args

from belljar.adapters.validation import fault
from belljar.errors import InvalidContainer
from belljar.prompt.frozen import FrozenDataclass
from belljar.wire.tools import Tier

Mode = Literal["auto", "explicit"]


@FrozenDataclass()
class FileSearchConfig:
    """File search: which vector stores, and how many results of a search. Stores that are there already are named."""

    vector_store_ids: tuple[str, ...] = ()
    max_results: int = 20

    def __post_init__(self) -> None:
        given: object = self.vector_store_ids
        if not isinstance(given, list | tuple) or not all(isinstance(one, str) and one for one in given):
            raise fault("FileSearchConfig.vector_store_ids", given, "use a tuple of ids, such as ('vs_1',)")
        object.__setattr__(self, "vector_store_ids", tuple(given))
        if not _whole(self.max_results) or not 1 <= self.max_results <= 50:
            raise fault("FileSearchConfig.max_results", self.max_results, "use a number from 1 to 50")


@FrozenDataclass()
class OpenAIHostedToolsConfig:
    """Which hosted tools go along with the prompt's own. A container-backed workspace needs `code_interpreter`."""

    code_interpreter: bool = False
    file_search: FileSearchConfig | None = None
    """None: no file search."""
    web_search: bool = False

    def __post_init__(self) -> None:
        for name in ("code_interpreter", "web_search"):
            if not isinstance(getattr(self, name), bool):
                raise fault(f"OpenAIHostedToolsConfig.{name}", getattr(self, name), "use True or False")
        if not isinstance(self.file_search, FileSearchConfig | None):
            raise fault("OpenAIHostedToolsConfig.file_search", self.file_search, "use a FileSearchConfig or None")


@FrozenDataclass()
class ContainerConfig:
    """The container of a workspace."""

    memory_limit: Tier = "4g"
    mode: Mode = "explicit"
    """`explicit`: one made for this workspace. `auto`: the newest active one of earlier turns, where there is one."""

    def __post_init__(self) -> None:
        for name, allowed in (("memory_limit", get_args(Tier)), ("mode", get_args(Mode))):
            given = getattr(self, name)
            if given not in allowed:
                raise InvalidContainer(f"ContainerConfig.{name}: {given!r} is unknown; use {', '.join(allowed)}")


@FrozenDataclass()
class CompactionConfig:
    """When the server compacts a conversation into sealed items that stand for it."""

    enabled: bool = True
    threshold_tokens: int = 100_000
    """Compact when a response has used more than these."""
    zdr_mode: bool = False
    """Zero data retention: requests go with `store=false`, and the sealed items are kept on this side alone."""

    def __post_init__(self) -> None:
        for name in ("enabled", "zdr_mode"):
            if not isinstance(getattr(self, name), bool):
                raise fault(f"CompactionConfig.{name}", getattr(self, name), "use True or False")
        if not _whole(self.threshold_tokens) or self.threshold_tokens < 1:
            raise fault("CompactionConfig.threshold_tokens", self.threshold_tokens, "use a number of tokens above 0")


def _whole(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)
