"""A session with openai 2.x, as its user would write it; prints what it saw as JSON. Argument: the base URL.

Run without the packages of our own environment, where openai is 3.x.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import openai
from openai import OpenAI

TOOLS: Any = [{"type": "code_interpreter", "container": {"type": "auto"}}]
OUTPUTS: Any = ["code_interpreter_call.outputs"]
ATTACH: Any = {"Content-Type": "multipart/form-data"}
"""How openai 1.x attached an uploaded file to a container."""


def main(client: OpenAI) -> dict[str, Any]:
    made = client.responses.create(model="sim", input="make a file", tools=TOOLS, include=OUTPUTS)
    kinds = []
    with client.responses.stream(
        model="sim", input="read it", tools=TOOLS, include=OUTPUTS, previous_response_id=made.id
    ) as stream:
        for event in stream:
            kinds.append(event.type)
        streamed = stream.get_final_response()
    [citation] = citations(made)
    container = client.containers.create(name="from openai 2.x")
    upload = client.files.create(file=("zwölf.csv", io.BytesIO(b"1,2\n")), purpose="user_data")
    put = client.containers.files.create(container.id, file=("über.txt", b"sent as a form"))
    by_json = client.containers.files.create(container.id, file_id=upload.id)
    by_form = client.containers.files.create(container.id, file_id=upload.id, extra_headers=ATTACH)
    compacted = client.responses.compact(model="sim", input="A long story.")
    without: Any = [{"type": "code_interpreter"}]
    try:
        client.responses.create(model="sim", input="go", tools=without)
    except openai.BadRequestError as error:
        refused = [error.code, error.param]
    return {
        "version": openai.__version__,
        "output": [item.to_dict() for item in made.output],
        "kinds": kinds,
        "streamed": [item.to_dict() for item in streamed.output],
        "downloaded": client.containers.files.content.retrieve(
            citation["file_id"], container_id=citation["container_id"]
        )
        .read()
        .decode(),
        "files": {one.path: one.bytes for one in client.containers.files.list(container.id)},
        "attached": [put.path, by_json.path, by_form.path],
        "sent": client.containers.files.content.retrieve(put.id, container_id=container.id).read().decode(),
        "file": [upload.filename, client.files.content(upload.id).read().decode()],
        "listed": upload.id in [one.id for one in client.files.list()],
        "deleted": client.files.delete(upload.id).deleted,
        "container": client.containers.retrieve(container.id).status,
        "compacted": [item.type for item in compacted.output],
        "refused": refused,
    }


def citations(response: Any) -> list[dict[str, Any]]:
    return [one.to_dict() for item in response.output if item.type == "message" for one in item.content[0].annotations]


if __name__ == "__main__":
    with OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0) as client:
        print(json.dumps(main(client)))
