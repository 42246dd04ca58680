"""Validate `requirements`, and drop what the base environment has already."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib.metadata import Distribution, distributions
from itertools import chain
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from belljar.errors import InvalidRequest

LONGEST = 200
"""Characters of one requirement."""

# Without `/ : @ $ # \` and control characters there is no URL, path, option file, variable or second line.
_HARMLESS = re.compile(r"[A-Za-z0-9 ._,<>=!~*+\[\]()'\";-]*")
_LIKE = 'write a name with optional extras and versions, such as "humanize", "polars>=1" or "rich[jupyter]==13.*"'

MEANT: Mapping[str, str] = {
    "apt": "nothing: system packages cannot be installed here",
    "attr": "attrs",
    "beautifulsoup": "beautifulsoup4",
    "bio": "biopython",
    "bs4": "beautifulsoup4",
    "crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "discord": "discord.py",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "pymupdf",
    "git": "gitpython",
    "imblearn": "imbalanced-learn",
    "jwt": "pyjwt",
    "kafka": "kafka-python",
    "magic": "python-magic",
    "matplotlib-pyplot": "matplotlib",
    "mpl-toolkits": "matplotlib",
    "nacl": "pynacl",
    "opencv": "opencv-python-headless",
    "openssl": "pyopenssl",
    "pil": "pillow",
    "pkg-resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "pytorch": "torch",
    "ruamel": "ruamel.yaml",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "telegram": "python-telegram-bot",
    "umap": "umap-learn",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
"""What people import or say -> what it is called in an index. Asked with a version, a name is taken as written."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A distribution of the base environment."""

    name: str
    version: str
    summary: str = ""
    imports: tuple[str, ...] = ()
    """Top-level names it can be imported by."""
    extras: tuple[str, ...] = ()
    """What it requires for its extras, as it says it: `openpyxl>=3; extra == "excel"`."""


def list_installed(site_packages: Sequence[Path], *, only: Collection[str] | None = None) -> tuple[Installed, ...]:
    """Every distribution on these paths, by name, or `only` these; on the first path where a name occurs twice."""
    paths = [str(path) for path in site_packages]
    wanted = (
        (distributions(path=paths, name=name) for name in only) if only is not None else [distributions(path=paths)]
    )
    found: dict[str, Installed] = {}
    for distribution in chain.from_iterable(wanted):
        head = HeaderParser().parsestr(distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or "")
        name = canonicalize_name(head.get("Name", ""))
        if name and name not in found:
            extras = tuple(one for one in head.get_all("Requires-Dist", []) if "extra" in one and "@" not in one)
            imports = tuple(sorted(set(_imports(distribution))))
            found[name] = Installed(name, head.get("Version", ""), head.get("Summary", ""), imports, extras)
    return tuple(found[name] for name in sorted(found))


def _imports(distribution: Distribution) -> Iterable[str]:
    listed = distribution.read_text("top_level.txt")
    if listed is not None:
        yield from (line for line in listed.split() if line.isidentifier() and not line.startswith("_"))
        return
    for line in (distribution.read_text("RECORD") or "").splitlines():
        top, slash, _ = line.partition("/")
        top, _, _ = top.partition(",")
        name, _, ending = top.partition(".")
        if name.isidentifier() and not name.startswith("_") and (bool(slash) ^ ending.endswith(("py", "so"))):
            yield name


def find_missing(
    requirements: Sequence[str],
    *,
    base: Mapping[str, Installed],
    most: int,
    allow: Collection[str] | None = None,
) -> tuple[Requirement, ...]:
    """The requirements that the base environment does not satisfy: checked, merged, in normal form and order.

    Those with extras or markers are left to the resolver, which knows the base environment's versions too.
    """
    if isinstance(requirements, str):
        raise _invalid("requirements", requirements, "is text, not a list", f'write a list: ["{requirements[:40]}"]')
    if len(requirements) > most:
        raise InvalidRequest(
            f"requirements: {len(requirements)} given, at most {most} are allowed; name only what the code imports",
            param="requirements",
        )
    merged: dict[tuple[str, str], Requirement] = {}
    for number, text in enumerate(requirements):
        where = f"requirements[{number}]"
        one = _parse_requirement(where, text)
        _check_name(where, text, one, base)
        if allow is not None and one.name not in base and one.name not in {canonicalize_name(name) for name in allow}:
            raise _invalid(where, text, "is not on this installation's list", f"allowed: {', '.join(sorted(allow))}")
        key = one.name, str(one.marker or "")
        if key in merged:
            merged[key].specifier &= one.specifier
            merged[key].extras |= one.extras
        else:
            merged[key] = one
    return tuple(merged[key] for key in sorted(merged) if not _is_satisfied(merged[key], base))


def find_unrequested(requirements: Iterable[str], asked: Iterable[str]) -> tuple[str, ...]:
    """Of these requirements, those for packages that are not asked for."""
    names = {_name(one) for one in asked}
    return tuple(one for one in requirements if _name(one) not in names)


def _name(text: object) -> str:
    return canonicalize_name(re.split(r"[^A-Za-z0-9._-]", str(text).strip(), maxsplit=1)[0])


def _parse_requirement(where: str, text: object) -> Requirement:
    if not isinstance(text, str) or not text.strip():
        raise _invalid(where, text, "is not a requirement", _LIKE)
    if len(text) > LONGEST:
        raise _invalid(where, text, f"has {len(text)} characters, at most {LONGEST} are allowed", _LIKE)
    if text.lstrip().startswith("-"):
        raise _invalid(where, text, "is an option, and options are not taken", _LIKE)
    if not text.isprintable():
        raise _invalid(where, text, "has control characters", _LIKE)
    if not _HARMLESS.fullmatch(text):
        raise _invalid(where, text, "is not a plain name; URLs, paths and variables are not taken", _LIKE)
    try:
        one = Requirement(text)
    except InvalidRequirement:
        raise _invalid(where, text, "cannot be read as a requirement", _LIKE) from None
    if one.url is not None or any(each.operator == "===" for each in one.specifier):
        raise _invalid(where, text, "uses a form that is not taken here", _LIKE)
    one.name = canonicalize_name(one.name)
    one.extras = {canonicalize_name(extra) for extra in one.extras}
    return one


def _check_name(where: str, text: str, one: Requirement, base: Mapping[str, Installed]) -> None:
    if one.name in base:
        return
    name = one.name.replace("-", "_")
    if name in sys.stdlib_module_names:
        raise _invalid(where, text, "is part of Python", f"leave it out and `import {name}`")
    for owner in base.values():
        for known in owner.imports:
            if known.lower() == name:
                about = f"is what {owner.name} {owner.version} is imported by, and that is installed already"
                raise _invalid(where, text, about, f"leave it out and `import {known}`")
    if one.name in MEANT and not one.specifier:
        raise _invalid(where, text, "is not what the package is called", f"write {MEANT[one.name]}")


def _is_satisfied(one: Requirement, base: Mapping[str, Installed]) -> bool:
    have = base.get(one.name)
    if have is None or one.marker is not None:
        return False
    if not one.specifier.contains(have.version, prereleases=True):
        raise InvalidRequest(
            f"requirements: {str(one)!r} contradicts {have.name} {have.version}, which is preloaded and cannot be "
            f"changed; leave the version out, or use a sandbox without the preloaded packages (packages='none')",
            param="requirements",
        )
    return not one.extras


def _invalid(where: str, value: object, problem: str, remedy: str) -> InvalidRequest:
    shown = ascii(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return InvalidRequest(f"{where}: {shown} {problem}; {remedy}", param="requirements")
