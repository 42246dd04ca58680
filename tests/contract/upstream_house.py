"""A gateway in front of a vendor's model, asked by the unmodified SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import yaml
from openai import OpenAI
from openai.types.responses import Response, ResponseCodeInterpreterToolCall
from tests.gateway.houses import CODE, OUTPUTS, House, Scene


@contextmanager
def serve_vendor(directory: Path, scene: Scene, *, name: str, dialect: str, key: str) -> Iterator[OpenAI]:
    """A client of a gateway whose one upstream is the scene, under this name."""
    upstream = {"base_url": scene.server.base_url, "dialect": dialect, "api_key": key}
    settings = directory / "config.yaml"
    settings.write_text(yaml.safe_dump({"upstreams": {name: upstream}}))
    with (
        House(directory / "state", "--config", str(settings)) as house,
        OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client,
    ):
        yield client


def ask_for_code(client: OpenAI, **more: Any) -> Response:
    return cast(Response, client.responses.create(**{"tools": CODE, "include": OUTPUTS, "input": "go", **more}))


def cells(response: Response) -> list[ResponseCodeInterpreterToolCall]:
    return [item for item in response.output if isinstance(item, ResponseCodeInterpreterToolCall)]


def logs(cell: ResponseCodeInterpreterToolCall) -> str:
    return "".join(one.logs for one in cell.outputs or [] if one.type == "logs")
