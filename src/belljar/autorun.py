"""Recognise files that tools run by themselves: which never leave a sandbox, and which do with a warning.

Code in a sandbox chooses the names of what it makes. Copied into a repository, `.git/config` has the next `git status`
run a command of its choice. So every way in which files leave (`belljar run --out`, a workspace that is synced,
`belljar chat`, the page) asks here first: what runs by itself is refused, what a tool runs or obeys once it is used is
saved with a word about it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from fnmatch import fnmatchcase

_REFUSED = {
    ".git": "git runs commands that are named in it",
    ".hg": "Mercurial runs commands that are named in it",
    ".svn": "Subversion trusts what is in it",
    ".jj": "Jujutsu runs commands that are named in it",
    ".sl": "Sapling runs commands that are named in it",
    ".bzr": "Breezy trusts what is in it",
    ".pijul": "Pijul runs commands that are named in it",
    "_darcs": "darcs runs commands that are named in it",
    "__pycache__": "Python runs what is in it in place of the source that is seen",
}
"""Wherever they stand in a path."""

_REFUSED_FILES = {"head": "with it git takes its directory for a repository, and runs commands that are named there"}

_WARNED = {
    "builds run what it says": (
        "Makefile", "GNUmakefile", "*.mk", "justfile", ".justfile", "Rakefile", "Gemfile", "*.gemspec",
        "CMakeLists.txt", "configure", "meson.build", "SConstruct", "SConscript", "BUILD", "BUILD.bazel", "WORKSPACE",
        "Taskfile.y*ml", "build.gradle*", "settings.gradle*", "gradlew*", "mvnw*", "pom.xml", "build.xml", "Cargo.toml",
        "build.rs", "*.csproj", "*.targets", "build.zig", "Package.swift",
    ),
    "Python's tools run it, or what it says": (
        "conftest.py", "noxfile.py", "fabfile.py", "dodo.py", "setup.py", "setup.cfg", "pyproject.toml",
        "tox.ini", "pytest.ini", "Pipfile", "jupyter_*_config.*", "ipython_config.py",
    ),
    "Python runs it whenever it starts": ("sitecustomize.py", "usercustomize.py", "*.pth", "*.egg-link"),
    "Python can run it in place of a source": ("*.pyc", "*.pyo", "*.so", "*.pyd"),
    "npm and its kin run what it says": (
        "package.json", "*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts", "*.config.cts", "*.config.mts",
        "Gruntfile.*", "gulpfile.*", "deno.json*", "bunfig.toml",
    ),
    "containers and machines are made as it says": (
        "Dockerfile*", "Containerfile*", "compose.y*ml", "compose.*.y*ml", "docker-compose*.y*ml", "Vagrantfile",
        "Procfile", "Jenkinsfile", "azure-pipelines.y*ml", "*.service", "*.timer",
    ),
    "editors and desktops run what it says": (
        "*.code-workspace", "*.sublime-project", "*.desktop", "*.lnk", "autorun.inf", "desktop.ini", "*.scf",
    ),
    "coding assistants do what it says": ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"),
    "a shell runs it when it starts": (
        ".bash*", ".zsh*", ".zlog*", ".zprofile", ".profile", ".login", ".logout", ".cshrc", ".tcshrc", ".kshrc",
        ".inputrc", ".xinitrc", ".xprofile", ".xsession*", "config.fish", "*profile.ps1",
    ),
    "direnv runs it where it is let": (".envrc",),
    "git obeys it": (".gitconfig", ".gitattributes", ".gitmodules"),
    "pre-commit runs what it says before every commit": (".pre-commit-config.y*ml", ".pre-commit-hooks.y*ml"),
    "npm obeys it": (".npmrc", ".yarnrc*", ".pnpmfile.*"),
}  # fmt: skip
"""By the last name in a path."""

_WARNED_FOLDERS = {
    ".vscode": "editors run tasks that are named in it",
    ".idea": "editors run tasks that are named in it",
    ".devcontainer": "editors run commands that are named in it",
    ".husky": "git runs what is in it",
    ".githooks": "git may run what is in it",
    ".github": "workflows in it run when it is pushed",
    ".gitlab": "workflows in it run when it is pushed",
    ".circleci": "workflows in it run when it is pushed",
    ".ssh": "it says who may log in, and how",
    "node_modules": "programs run what is in it",
}
_HIDDEN = "hidden, and tools obey such files without being asked"

_IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
"""Besides all of category Cf: what file systems that fold names leave out of them."""
_SHORT = re.compile(r"([^~]{1,6})~\d+")


def refusal(path: str) -> str | None:
    """Why a file of this name must not be put on a host; None where it may."""
    names = list(_names(path))
    for name in names:
        found = _REFUSED.get(name) or _expand_short_name(name)
        if found:
            return found
    return _REFUSED_FILES.get(names[-1]) if names else None


def warning(path: str) -> str | None:
    """What to say of a file of this name that is put on a host; None where there is nothing to say."""
    names = list(_names(path))
    if not names:
        return None
    for why, patterns in _WARNED.items():
        if any(fnmatchcase(names[-1], pattern.casefold()) for pattern in patterns):
            return why
    for name in names:
        if name in _WARNED_FOLDERS:
            return _WARNED_FOLDERS[name]
    return _HIDDEN if any(name.startswith(".") for name in names) else None


def _names(path: str) -> Iterator[str]:
    """The names in a path as the most lenient file systems know them: `.GIT`, `.git.`, `.git::$DATA`, `.g\u200cit`."""
    for name in re.split(r"[/\\]", path):
        folded = unicodedata.normalize("NFKC", _drop_invisible(name)).casefold()
        folded = _drop_invisible(folded).partition(":")[0].rstrip(" .") or _drop_invisible(name)
        if folded not in ("", ".", ".."):
            yield folded


def _drop_invisible(name: str) -> str:
    if name.isascii():
        return name
    return "".join(char for char in _IGNORED.sub("", name) if unicodedata.category(char) != "Cf")


def _expand_short_name(name: str) -> str | None:
    """`git~1` is `.git` where names of eight letters are kept beside the long ones."""
    short = _SHORT.fullmatch(name)
    if short is None:
        return None
    return next((why for long, why in _REFUSED.items() if long.lstrip(".")[:6] == short[1]), None)
