"""Whether a container that somebody names is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from belljar.errors import ContainerExpired, InvalidContainer
from belljar.providers import handle_openai_error
from belljar.tools import ExistingContainerRef

if TYPE_CHECKING:
    from openai import OpenAI

_OVER = ("expired", "deleted")


def check_reference(client: OpenAI, reference: ExistingContainerRef) -> str | None:
    """Its memory, where the server tells."""
    import openai

    try:
        found = client.containers.retrieve(reference.id)
    except openai.NotFoundError as error:
        raise _expired_error(reference.id) from error
    except openai.OpenAIError as error:
        raise handle_openai_error(error) from error
    if found.status in _OVER:
        raise _expired_error(reference.id)
    if None not in (reference.memory_limit, found.memory_limit) and reference.memory_limit != found.memory_limit:
        raise InvalidContainer(
            f"container.memory_limit: {reference.memory_limit!r} is not what {reference.id} has, {found.memory_limit!r}"
        )
    return found.memory_limit


def _expired_error(id: str) -> ContainerExpired:
    return ContainerExpired(
        f"container.id: {id} has expired or is gone; make another with client.containers.create(…), or use "
        "{'type': 'auto'}"
    )
