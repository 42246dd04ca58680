"""What the README promises, with the official SDK and nothing but its address changed."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response, ResponseCodeInterpreterToolCall, ResponseOutputMessage, ResponseOutputText
from tests.gateway.houses import CODE, OUTPUTS

SNIPPET = """\
```python
import pandas as pd, matplotlib.pyplot as plt
df = pd.DataFrame({'x': [1, 2, 3]})
df.plot(); df.to_csv('numbers.csv'); df.describe()
```"""


def cell(response: Response, number: int = 0) -> ResponseCodeInterpreterToolCall:
    return [item for item in response.output if isinstance(item, ResponseCodeInterpreterToolCall)][number]


def said(response: Response) -> ResponseOutputText:
    message = response.output[-1]
    assert isinstance(message, ResponseOutputMessage)
    text = message.content[0]
    assert isinstance(text, ResponseOutputText)
    return text


def logs(response: Response, number: int = 0) -> str:
    return "".join(one.logs for one in cell(response, number).outputs or [] if one.type == "logs")


def test_the_built_in_model_runs_code_and_hands_back_text_plot_and_file(client: OpenAI) -> None:
    response = client.responses.create(
        model="belljar", tools=cast(Any, CODE), include=cast(Any, OUTPUTS), input=SNIPPET
    )
    assert response.status == "completed"
    assert "count  3.0" in logs(response)
    images = [one.url for one in cell(response).outputs or [] if one.type == "image"]
    assert len(images) == 1
    assert images[0].startswith("data:image/png;base64,iVBOR")
    text = said(response)
    cited = {one.filename: one for one in text.annotations if one.type == "container_file_citation"}
    csv = cited["numbers.csv"]
    assert text.text[csv.start_index : csv.end_index] == "sandbox:/mnt/data/numbers.csv"
    content = client.containers.files.content.retrieve(csv.file_id, container_id=csv.container_id)
    assert content.read() == b",x\n0,1\n1,2\n2,3\n"
    [picture] = [one for name, one in cited.items() if name.endswith(".png")]
    assert (picture.start_index, picture.end_index) == (0, 0)
    png = client.containers.files.content.retrieve(picture.file_id, container_id=picture.container_id).read()
    assert png.startswith(b"\x89PNG")
    again = client.responses.create(
        model="belljar",
        tools=cast(Any, CODE),
        include=cast(Any, OUTPUTS),
        previous_response_id=response.id,
        input="df.shape",
    )
    assert logs(again) == "(3, 1)"
    assert cell(again).container_id == cell(response).container_id


def test_the_same_streamed(client: OpenAI) -> None:
    with client.responses.stream(model="belljar", tools=cast(Any, CODE), input=SNIPPET) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert cell(final).outputs is None
    assert any(one.type == "container_file_citation" for one in said(final).annotations)


def test_the_same_from_asyncio(remote: AsyncOpenAI) -> None:
    async def ask() -> Response:
        async with remote as client:
            return await client.responses.create(
                model="belljar", tools=cast(Any, CODE), include=cast(Any, OUTPUTS), input="sum(range(10))"
            )

    assert logs(asyncio.run(ask())) == "45"


def test_words_are_answered_with_how_to_connect_a_model(client: OpenAI) -> None:
    response = client.responses.create(model="belljar", input="Hello, who are you?")
    assert "model" in response.output_text


def test_models_are_listed(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["belljar", "sim", "llava"]
