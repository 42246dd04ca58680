"""A context for handlers, with everything in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pytest

from belljar.runtime import Deadline, Session, SessionProtocol
from belljar.tools import ResourceRegistry, ToolContext

MakeContext: TypeAlias = Callable[..., ToolContext]


@dataclass(frozen=True)
class Plan:
    ns: str = "tests"
    key: str = "tools"
    name: str | None = "a prompt"


class Echo:
    def evaluate(self, prompt: Any, *, session: SessionProtocol) -> Any:
        return prompt, session


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def make_context(session: Session) -> MakeContext:
    def make(resources: ResourceRegistry | None = None) -> ToolContext:
        return ToolContext(
            prompt=Plan(),
            adapter=Echo(),
            session=session,
            deadline=Deadline(datetime.now(UTC) + timedelta(minutes=1)),
            resources=resources or ResourceRegistry(),
        )

    return make


@pytest.fixture
def context(make_context: MakeContext) -> ToolContext:
    return make_context()
