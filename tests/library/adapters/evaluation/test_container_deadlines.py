"""Containers are made, looked up and filled within the deadline, and throttled servers are tried again until then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from tests.helpers.openai import FlatContainers
from tests.library.adapters.evaluation.conftest import AT_ONCE
from tests.library.adapters.evaluation.replies import prompt, says

from belljar.adapters.openai import OpenAIAdapter, OpenAIContainerWorkspaceSection, OpenAIHostedToolsConfig
from belljar.errors import DeadlineExceededError, PromptEvaluationError, Unreachable
from belljar.filesystem import HostMount
from belljar.prompt import Prompt
from belljar.runtime import Budget, Deadline, Session
from belljar.tools import OpenAICodeInterpreterTool

CODE = OpenAIHostedToolsConfig(code_interpreter=True)


def ahead(seconds: float) -> Deadline:
    return Deadline(datetime.now(UTC) + timedelta(seconds=seconds))


def over_once(server: FlatContainers, held: tuple[str, str]) -> Deadline:
    """A deadline that comes while the server holds this request back, however long it took to get there."""
    begun, before, short = datetime.now(UTC), server.requests.count(held), timedelta(seconds=1.2)
    return Deadline(begun + short, clock=lambda: begun + short if server.requests.count(held) > before else begun)


@pytest.fixture
def server() -> Iterator[FlatContainers]:
    with FlatContainers() as server:
        server.response = says("ok").body or b""
        yield server
        for event in server.held.values():
            event.set()


@pytest.fixture
def client(server: FlatContainers) -> Iterator[OpenAI]:
    """As users have it: patient, and with the SDK's own retries."""
    with OpenAI(base_url=server.base_url, api_key="k") as client:
        yield client


@pytest.fixture
def adapter(client: OpenAI) -> OpenAIAdapter:
    return OpenAIAdapter(model="sim", client=client, hosted_tools=CODE, throttle=AT_ONCE)


@pytest.fixture
def workspace(tmp_path: Path, session: Session) -> Iterator[OpenAIContainerWorkspaceSection]:
    (tmp_path / "a.txt").write_text("1")
    (tmp_path / "b.txt").write_text("2")
    section = OpenAIContainerWorkspaceSection(
        session=session, mounts=(HostMount(str(tmp_path), "."),), allowed_host_roots=(tmp_path,)
    )
    yield section
    section.cleanup()


def mounted(tmp_path: Path) -> Prompt[Any]:
    (tmp_path / "a.txt").write_text("1")
    container = {"type": "auto", "host_mounts": [HostMount(str(tmp_path), "x")]}
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(name="python", container=container)
    return prompt(tool)


def evaluated(adapter: OpenAIAdapter, how: str, *given: Any, **more: Any) -> object:
    if how == "asyncio":
        return asyncio.run(adapter.evaluate_async(*given, **more))
    return adapter.evaluate(*given, **more)


@pytest.mark.parametrize("held", [("POST", "containers"), ("POST", "containers/files")])
@pytest.mark.parametrize("how", ["deadline", "budget", "asyncio"])
def test_a_workspace_is_not_waited_for_beyond_the_deadline(
    held: tuple[str, str],
    how: str,
    server: FlatContainers,
    adapter: OpenAIAdapter,
    session: Session,
    workspace: OpenAIContainerWorkspaceSection,
) -> None:
    server.held[held] = threading.Event()
    deadline = over_once(server, held)
    given: Any = {"budget": Budget(deadline=deadline)} if how == "budget" else {"deadline": deadline}
    with pytest.raises(DeadlineExceededError) as caught:
        evaluated(adapter, how, prompt(sections=[workspace]), session=session, **given)
    assert isinstance(caught.value, PromptEvaluationError)
    assert caught.value.phase == "budget"
    assert isinstance(caught.value.__cause__, DeadlineExceededError)
    assert isinstance(caught.value.__cause__.__cause__, Unreachable)
    assert server.requests.count(held) == 1, "nothing is tried again when the time is over"
    server.held.pop(held).set()
    assert adapter.evaluate(prompt(sections=[workspace]), session=session).text == "ok", "it works when there is time"
    assert workspace.filesystem.glob("*") == ["a.txt", "b.txt"]


def test_a_workspace_that_is_there_is_looked_up_within_the_deadline(
    server: FlatContainers,
    adapter: OpenAIAdapter,
    session: Session,
    workspace: OpenAIContainerWorkspaceSection,
) -> None:
    adapter.evaluate(prompt(sections=[workspace]), session=session, deadline=ahead(60))
    server.held["GET", "containers"] = threading.Event()
    with pytest.raises(DeadlineExceededError):
        adapter.evaluate(
            prompt(sections=[workspace]), session=session, deadline=over_once(server, ("GET", "containers"))
        )
    server.held.pop(("GET", "containers")).set()
    assert workspace.filesystem.read("a.txt") == b"1", "a deadline that is over binds nobody else"


def test_a_container_that_is_in_use_is_not_waited_for(
    server: FlatContainers, adapter: OpenAIAdapter, session: Session, workspace: OpenAIContainerWorkspaceSection
) -> None:
    workspace.bind(adapter.client)
    manager = workspace.filesystem._manager
    held, done = threading.Event(), threading.Event()

    def use() -> None:
        with manager.lock:
            held.set()
            done.wait()

    begun = datetime.now(UTC)
    standing = Deadline(begun + timedelta(seconds=1.2), clock=lambda: begun)  # all of it is left for the wait
    user = threading.Thread(target=use)
    user.start()
    try:
        assert held.wait(60)
        with pytest.raises(DeadlineExceededError, match="in use elsewhere"):
            adapter.evaluate(prompt(sections=[workspace]), session=session, deadline=standing)
    finally:
        done.set()
        user.join()
    assert server.requests == []


@pytest.mark.parametrize("held", [("POST", "containers"), ("POST", "containers/files")])
def test_host_mounts_are_not_waited_for_either(
    held: tuple[str, str], server: FlatContainers, adapter: OpenAIAdapter, session: Session, tmp_path: Path
) -> None:
    server.held[held] = threading.Event()
    with pytest.raises(DeadlineExceededError):
        adapter.evaluate(mounted(tmp_path), session=session, deadline=over_once(server, held))
    assert server.requests.count(held) == 1


def test_nor_is_a_container_that_is_named(server: FlatContainers, adapter: OpenAIAdapter, session: Session) -> None:
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(name="python", container={"id": "cntr_1"})
    server.held["GET", "containers"] = threading.Event()
    with pytest.raises(DeadlineExceededError):
        adapter.evaluate(prompt(tool), session=session, deadline=over_once(server, ("GET", "containers")))
    assert server.requests == [("GET", "containers")]


@pytest.mark.parametrize("times", [1, 3])
def test_a_server_with_too_much_to_do_is_asked_again_within_the_deadline(
    times: int,
    server: FlatContainers,
    adapter: OpenAIAdapter,
    session: Session,
    workspace: OpenAIContainerWorkspaceSection,
) -> None:
    server.overloaded = times
    assert adapter.evaluate(prompt(sections=[workspace]), session=session, deadline=ahead(60)).text == "ok"
    assert server.requests.count(("POST", "containers")) == times + 1
    assert len(server.containers) == 1
