"""One gateway for all tests of a worker: starting one takes a second, and sharing it is what it is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI, OpenAI
from tests.gateway.houses import House, Scene


@pytest.fixture(scope="session")
def _scene() -> Iterator[Scene]:
    scene = Scene()
    with scene.server:
        yield scene


@pytest.fixture(scope="session")
def house(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """`model="sim"` is the scripted model, `model="belljar"` the built-in one."""
    state = tmp_path_factory.mktemp("gateway") / "state"
    with House(state, "--upstream", f"loop={_scene.server.base_url}", preload=True) as house:
        yield house


@pytest.fixture
def scene(_scene: Scene) -> Scene:
    _scene.play()
    return _scene


@pytest.fixture
def client(house: House) -> Iterator[OpenAI]:
    """The unmodified SDK; only the address is ours."""
    with OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def remote(house: House) -> AsyncOpenAI:
    """The same for asyncio; use it as a context."""
    return AsyncOpenAI(base_url=house.base_url, api_key="none", max_retries=0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    path.write_bytes(b"a,b\n1,2\n3,4\n")
    return path
