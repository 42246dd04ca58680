"""The public names: all there, all lazy, and the version said once."""

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import belljar
from belljar import errors
from belljar.runtime import events

ROOT = Path(__file__).parents[2]
GUEST = ROOT / "src/belljar/sandbox/guest"


def test_all_is_sorted_and_complete() -> None:
    assert sorted(belljar.__all__) == belljar.__all__
    assert {*belljar.__all__} == {*belljar._HOMES, "__version__"}
    assert {*belljar.__all__} <= {*dir(belljar)}


@pytest.mark.parametrize("name", belljar.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(belljar, name) is getattr(belljar, name)


def public(module: ModuleType, kind: type) -> set[str]:
    """Names of the classes of that kind that the module itself defines."""
    found = {name: one for name, one in vars(module).items() if isinstance(one, type) and issubclass(one, kind)}
    return {name for name, one in found.items() if one.__module__ == module.__name__ and not name.startswith("_")}


def test_what_is_caught_and_what_is_listened_for_is_at_the_top() -> None:
    """All errors, and all events."""
    reported = {name for name in public(events, object) if hasattr(getattr(events, name), "event_id")}
    assert reported == {"CompactionFailed", "PromptExecuted", "PromptRendered", "ToolInvoked"}
    missing = {*public(errors, Exception), *reported, "ThrottlePolicy", "TokenUsage"} - {*belljar.__all__}
    assert missing == set(), "name it in belljar/__init__.py, among the imports and in __all__"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'belljar' has no attribute 'Bell'"):
        belljar.Bell  # type: ignore[attr-defined]  # noqa: B018


def test_import_is_light() -> None:
    code = "import sys; old = {*sys.modules}; import belljar; print(*sorted({*sys.modules} - old))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names and name != "__future__"}
    assert ours == {"belljar"}
    assert "asyncio" not in loaded


def test_a_gateway_that_is_alone_loads_no_http_client() -> None:
    """Upstreams on this machine are asked without one; the others load it when they are asked."""
    code = "import sys, belljar.gateway.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "aiohttp" not in loaded


def test_the_version_is_the_installed_one_and_in_the_changelog() -> None:
    assert belljar.__version__ == version("belljar")
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in changelog or f"## [{belljar.__version__}]" in changelog


@pytest.mark.parametrize("module", sorted(GUEST.rglob("*.py")), ids=lambda p: str(p.relative_to(GUEST)))
def test_the_guest_stands_on_the_standard_library_alone(module: Path) -> None:
    """Its module-level imports; inside functions it may look for what the user has installed."""
    tree = ast.parse(module.read_text())
    names = [a.name for node in tree.body if isinstance(node, ast.Import) for a in node.names]
    names += [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom) and not node.level]
    ours = "belljar.sandbox.guest"
    foreign = [n for n in names if n.partition(".")[0] not in sys.stdlib_module_names and not n.startswith(ours)]
    assert foreign == []
