"""A real small model, whose chat template knows no tools, on llama.cpp: it hears of the interpreter, and its code runs.

What such a model says is often wrong. What is asserted is ours: that it is told, that a block of code is run, that it
reads the result, and that every answer ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from openai import OpenAI
from openai.types.responses import Response
from tests.gateway.houses import CODE, OUTPUTS, House
from tests.helpers.ports import free_port

MODEL = Path(__file__).parents[2] / ".venv" / "model"
pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """llama.cpp's server in Python, as `make test-model` installs it."""
    [weights] = (MODEL / "weights").glob("*/*.gguf")
    port = free_port()
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(weights), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--n_ctx", "4096", "--model_alias", "smollm2", "--verbose", "false"]
    environment = {**os.environ, "PYTHONPATH": str(MODEL / "server")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            url = f"http://127.0.0.1:{port}/v1"
            while not _answers(f"{url}/models"):
                assert server.poll() is None, "the model's server did not start"
                time.sleep(0.2)
            yield url
        finally:
            server.kill()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def client(llama: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    with (
        House(tmp_path_factory.mktemp("small") / "state", "--upstream", f"local={llama}") as house,
        OpenAI(base_url=house.base_url, api_key="none", max_retries=0, timeout=800) as client,
    ):
        yield client


def ask(client: OpenAI, words: str, **more: Any) -> Response:
    given = {"model": "smollm2", "tools": CODE, "include": OUTPUTS, "temperature": 0, "max_output_tokens": 120, **more}
    return cast(Response, client.responses.create(input=words, **given))


def test_it_is_told_of_the_interpreter_in_the_prompt(client: OpenAI) -> None:
    plain, told = ask(client, "Hello!", tools=[]).usage, ask(client, "Hello!").usage
    assert plain is not None
    assert told is not None
    assert told.input_tokens > plain.input_tokens + 150


@pytest.mark.parametrize("stream", [False, True])
def test_its_code_is_run_and_it_reads_what_came_of_it(client: OpenAI, stream: bool) -> None:
    words = "Write a Python block that prints 2 ** 10."
    asked: Any = ask(client, words, tool_choice="required", stream=stream)
    response = list(asked)[-1].response if stream else asked
    first = next(item for item in response.output if item.type == "code_interpreter_call")
    assert "".join(output.logs for output in first.outputs) == "1024\n"
    assert first.belljar["repaired"] == "wrote code without calling the tool"
    assert response.output[-1].type == "message"
    assert response.status in ("completed", "incomplete")


def test_a_conversation_goes_on(client: OpenAI) -> None:
    first = ask(client, "Write a Python block that prints 2 ** 10.", tool_choice="required")
    later = ask(client, "Thank you!", previous_response_id=first.id)
    assert later.output_text
