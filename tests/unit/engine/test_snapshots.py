"""What is told back of a request, and kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from belljar.gateway.engine import snapshots
from belljar.wire import reading
from belljar.wire.codec import encode

SECRET = "hunter2"
POLICY = {"type": "allowlist", "allowed_domains": ["a.example"]}
SECRETS = {"domain_secrets": [{"domain": "a.example", "name": "T", "value": SECRET}]}


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        (
            {"type": "code_interpreter", "container": {"type": "auto", "network_policy": {**POLICY, **SECRETS}}},
            {"type": "code_interpreter", "container": {"type": "auto", "network_policy": POLICY}},
        ),
        (
            {"type": "shell", "environment": {"type": "container_auto", "network_policy": {**POLICY, **SECRETS}}},
            {"type": "shell", "environment": {"type": "container_auto", "network_policy": POLICY}},
        ),
        (
            {
                "type": "mcp",
                "server_label": "s",
                "server_url": "https://s.example",
                "authorization": SECRET,
                "headers": {"x-key": SECRET},
                "allowed_tools": ["a"],
            },
            {"type": "mcp", "server_label": "s", "server_url": "https://s.example", "allowed_tools": ["a"]},
        ),
        ({"type": "code_interpreter", "container": "cntr_1"}, {"type": "code_interpreter", "container": "cntr_1"}),
        ({"type": "web_search", "filters": {"x": [1]}}, {"type": "web_search", "filters": {"x": [1]}}),
    ],
)
def test_tools_are_told_back_without_their_secrets(tool: dict[str, Any], told: dict[str, Any]) -> None:
    request = reading.read_response({"model": "m", "input": "hi", "tools": [tool]})
    response = snapshots.build_first(request, "resp_1", 0)
    assert msgspec.json.decode(encode(response))["tools"] == [told]
    assert msgspec.json.decode(encode(request.tools)) == [tool]  # the model's side gets them
