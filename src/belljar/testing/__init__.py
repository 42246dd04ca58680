"""Doubles for tests, without a network or a key: a model that plays a script, a model server, a clock.

model = ScriptedModel([["Let me see. ", call("code_interpreter", code="6 * 7")], ["It is 42."]])

with LoopbackUpstream(["Hello!", Reply(status=429), ["Well, ", 0.5, "that broke", BREAK]]) as upstream:
    ...  # a server of chat completions and of the Responses API at upstream.base_url
"""

from __future__ import annotations

from belljar.testing.clock import FakeClock
from belljar.testing.scripted import Call, ScriptedModel, Step, call
from belljar.testing.server import BREAK, LoopbackUpstream, Received, Reply, ReplyStep

__all__ = [
    "BREAK",
    "Call",
    "FakeClock",
    "LoopbackUpstream",
    "Received",
    "Reply",
    "ReplyStep",
    "ScriptedModel",
    "Step",
    "call",
]
