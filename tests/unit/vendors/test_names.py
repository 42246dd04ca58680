"""A vendor's name stands in its folder, in the registry, and in the modules that must be called so: nowhere else.

What is known of a vendor then has one place: whoever looks elsewhere for a special case finds none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import belljar

SOURCE = Path(belljar.__file__).parent

NAMES = {
    "anthropic": "anthropic|claude",
    "gemini": "gemini|google|vertex",
    "xai": r"(?<![a-z])xai(?![a-z])|grok",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "groq": "groq",
}

PUBLIC = {
    "anthropic": ("providers/anthropic_client.py", "files/anthropic_files.py", "adapters/claude_agent_sdk/"),
    "gemini": ("providers/gemini_client.py", "files/gemini_files.py"),
    "xai": ("providers/xai_client.py", "files/openai_files.py"),
}
"""Called so by the founding documents, or the one module that asks the vendor's SDK."""

EVERYBODY = {
    "__init__.py": "the public names",
    "files/__init__.py": "the public names",
    "providers/__init__.py": "the public names",
    "providers/factory.py": "which client a provider's name gives, for type checkers",
    "providers/tool_converters.py": "the founding documents' names",
    "providers/context_manager.py": "the founding documents' names",
    "providers/base.py": "calls a founding name of the context manager",
    "models.py": "collects the vendors' tables",
    "config.py": "documents the settings, and may not import the registry",
    "autorun.py": "names of files that tools obey",
    "testing/": "stands in for the vendors' servers, at the wire",
    "vendors/registry.py": "collects the rows",
    "vendors/call_ids.py": "which form of an id is whose",
    "vendors/function_names.py": "which form of a name is whose",
    "vendors/hosted_sandbox.py": "has the columns of every vendor's sandbox",
    "vendors/errors.py": "words by which those who have no codes are told apart",
    "vendors/openai/stream.py": "says what is otherwise on the wire that was made after it",
    "adapters/sdk.py": "which clients of the SDKs can be made again",
    "providers/failures.py": "draws the tree of errors",
    "gateway/upstream/loop_guard.py": "clouds where models are served and no gateway is",
}
"""Who may name any of them, and why."""


def mentions(name: str) -> Iterator[str]:
    pattern = re.compile(NAMES[name], re.IGNORECASE)
    own = (f"vendors/{name}/", *PUBLIC.get(name, ()), *EVERYBODY)
    if name not in ("anthropic", "gemini", "xai"):
        own = (*own, "vendors/chat/")
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if not any(place == one or (one.endswith("/") and place.startswith(one)) for one in own):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if pattern.search(line):
                    yield f"{place}:{number}: {line.strip()}"


@pytest.mark.parametrize("name", NAMES)
def test_a_vendor_is_named_in_its_own_places(name: str) -> None:
    assert "\n".join(mentions(name)) == ""
