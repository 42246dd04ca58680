"""Which module may import which library of others, and that what we declare is what we import."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

ROOMS = {
    "aiohttp": (
        "gateway.peers",
        "gateway.store.s3.bucket",
        "gateway.upstream.remote",
        "sandbox.conformance",
        "sandbox.kubernetes.api_client",
        "sandbox.remote",
    ),
    "anthropic": ("adapters.claude_agent_sdk", "files.anthropic_files", "providers.anthropic_client"),
    "asyncpg": ("gateway.store.postgres",),
    "botocore": ("gateway.store.s3.account",),
    "backports": ("http_server.content_encoding",),
    "cryptography": ("gateway.engine.sealing",),
    "google": ("files.gemini_files", "providers.gemini_client"),
    "httptools": ("gateway.upstream.loopback", "http_server.uvicorn_protocol", "testing.server"),
    "msgspec": (
        "adapters",
        "cli.keys",
        "vendors",
        "gateway",
        "http_server",
        "models",
        "providers",
        "sandbox.server",
        "testing",
        "tools.serde",
        "wire",
    ),
    "openai": (
        "adapters.openai",
        "adapters.sdk",
        "files.openai_files",
        "openai",
        "providers.chat_client",
        "providers.openai_errors",
        "providers.responses_client",
    ),
    "packaging": ("sandbox.packages",),
    "python_multipart": ("http_server.multipart",),
    "uv": ("sandbox.packages.uv_program",),
    "uvicorn": ("http_server.run", "http_server.uvicorn_hooks", "http_server.uvicorn_protocol"),
    "uvloop": ("net",),
    "websockets": ("http_server.handshake",),
    "yaml": ("config", "sandbox.kubernetes.access"),
    "yarl": (
        "gateway.peers",
        "gateway.store.s3.bucket",
        "gateway.upstream.remote",
        "sandbox.conformance",
        "sandbox.remote",
    ),
}
"""Library, by the name that it is imported by -> the modules that may know it, each with all that is in it."""

UNDECLARED = {"cryptography"}
"""Imported only where somebody happens to have it: for seals of earlier versions."""
FOR_TYPES = {"httpx2", "typing_extensions"}
"""Read by type checkers alone, which bring the second; the first comes with OpenAI's SDK."""


def modules() -> Iterator[tuple[str, Path]]:
    """All but the guest, which runs inside and takes of the data stack what it finds there."""
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if "guest" not in parts:
            yield ".".join(parts).removesuffix(".__init__"), path


def imported(path: Path) -> set[str]:
    """Names of the libraries that a module imports, wherever in it: inside functions, or for types alone, too."""
    later = {"compression"}  # of the standard library from 3.14 on
    return _imported(ast.parse(path.read_text()).body, set()) - sys.stdlib_module_names - later - {"belljar"}


def _imported(statements: Iterable[ast.AST], unseen: set[str]) -> set[str]:
    found: set[str] = set()
    for node in statements:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module.partition(".")[0]} if node.module and not node.level else set()
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            found |= _imported(node.body, FOR_TYPES) | _imported(node.orelse, unseen)
        elif not isinstance(node, ast.expr):  # no expression holds a statement
            found |= _imported(ast.iter_child_nodes(node), unseen)
    return found - unseen


@cache
def imports() -> dict[str, set[str]]:
    """By module."""
    return {name: imported(path) for name, path in modules()}


def within(module: str, room: str) -> bool:
    return f"{module}.".startswith(f"belljar.{room}.")


def test_a_library_is_imported_in_its_rooms_alone() -> None:
    strays = [
        f"{module} imports {library}"
        for module, libraries in imports().items()
        for library in libraries
        if not any(within(module, room) for room in ROOMS.get(library, ()))
    ]
    assert strays == [], "let them ask a room that knows it, or name them in ROOMS, with a reason"


def test_there_is_one_http_server() -> None:
    """aiohttp is a client here; what listens stands on `belljar.http_server`."""
    named = re.compile(r"aiohttp\.web\b|from aiohttp import .*\bweb\b")
    assert [name for name, path in modules() if named.search(path.read_text())] == []


def test_only_one_room_knows_kubernetes() -> None:
    """Others may say its name; objects, groups and credentials of it stand in one place."""
    words = re.compile(r"sandboxclaim|x-k8s\.io|kubeconfig", re.IGNORECASE)
    knowing = {module for module, path in modules() if words.search(path.read_text())}
    assert {module for module in knowing if not within(module, "sandbox.kubernetes")} == set()
    assert knowing


@pytest.mark.parametrize("library", ROOMS)
def test_a_room_that_is_named_uses_it(library: str) -> None:
    unused = [
        room
        for room in ROOMS[library]
        if not any(library in libraries for module, libraries in imports().items() if within(module, room))
    ]
    assert unused == []


# -- what pyproject.toml says ------------------------------------------------------------------------------------------


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(one).name) for one in requirements}


DISTRIBUTIONS = importlib.metadata.packages_distributions()
CORE = names(PROJECT["project"]["dependencies"])
EXTRAS = {extra: names(wanted) for extra, wanted in PROJECT["project"]["optional-dependencies"].items()}


def brought_by(library: str) -> set[str]:
    if library == "backports":  # which Python 3.14 has no need of
        return {"backports-zstd"}
    return {canonicalize_name(one) for one in DISTRIBUTIONS[library]}


@pytest.mark.parametrize("library", sorted({*ROOMS} - UNDECLARED))
def test_what_is_imported_is_declared(library: str) -> None:
    """Not left to what something else happens to bring along."""
    declared = CORE.union(*EXTRAS.values())
    assert brought_by(library) & declared, f"{library} is imported, and no dependency or extra names it"


@pytest.mark.parametrize("extra", sorted({*EXTRAS} - {"all", "data"}))
def test_an_extra_brings_what_something_imports(extra: str) -> None:
    used = set[str]().union(*(brought_by(library) for library in ROOMS))
    assert EXTRAS[extra] - used == set()


def test_the_core_brings_what_something_imports() -> None:
    assert CORE - set[str]().union(*(brought_by(library) for library in ROOMS)) == set()


def test_all_is_every_other_extra() -> None:
    [everything] = PROJECT["project"]["optional-dependencies"]["all"]
    assert Requirement(everything).extras == {*EXTRAS} - {"all"}


def test_every_module_stands_in_the_order_of_rooms() -> None:
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    rooms = re.findall(r"belljar\.([\w.]+)", " ".join(layers))
    roots = {"belljar", "belljar.__main__", "belljar.gateway"}
    outside = {module for module in imports() if not any(within(module, room) for room in rooms)}
    assert outside == roots, "give it a place in the layers of pyproject.toml, and in docs/architecture.md"
