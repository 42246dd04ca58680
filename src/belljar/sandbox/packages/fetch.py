"""Run uv to resolve and fetch wheels, bounded in time and bytes, and translate its errors."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from belljar.config import FETCH_VARIABLES
from belljar.errors import BadSettings, BelljarError, InvalidRequest, Refused, TooLarge
from belljar.sandbox.base import GIB, MIB
from belljar.sandbox.explain import size as shown
from belljar.sandbox.packages.requirements import Installed
from belljar.sandbox.packages.uv_program import find_uv

_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_NO_NETWORK = (
    r"found in the cache|network was disabled|error sending request|Failed to fetch|[Cc]onnection|timed out|dns error"
)
_POLL = 0.02


@dataclass(frozen=True, slots=True)
class LayerPolicy:
    """Where packages may come from, and how much of them."""

    index: str | None = None
    """The index to use instead of uv's default."""
    find_links: tuple[str, ...] = ()
    """Directories or pages of wheels, beside the index."""
    offline: bool = False
    """Use nothing but `find_links` and what was fetched before."""
    max_count: int = 50
    """Requirements of one sandbox."""
    max_bytes: int = GIB
    """One layer, unpacked."""
    timeout: float = 120.0
    """Seconds from the question to the finished layer."""
    allow: frozenset[str] | None = None
    """The only names that may be asked for (what they depend on comes along)."""
    exclude_newer: str | None = None
    """Ignore what was published after this date, RFC 3339."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One wheel of a layer."""

    name: str
    version: str
    hash: str
    """`sha256:…` of the wheel, which was checked."""


@dataclass(frozen=True, slots=True)
class Work:
    """Where one layer is being made."""

    path: Path
    hold: int
    """Descriptor with the lock on `path`; uv inherits it, so that the lock lasts as long as anyone works here."""
    deadline: float


class Fetch:
    """Resolves and installs with uv, which gets an environment of its own."""

    def __init__(self, *, cache: Path, python: Path, policy: LayerPolicy, env: Mapping[str, str]) -> None:
        self.policy, self.python = policy, python
        self.env = {"PATH": os.defpath, "HOME": str(cache), "UV_HTTP_RETRIES": "2"}
        if os.path.exists(_CERTIFICATES):  # a mirror or proxy may be known to this machine alone
            self.env["UV_SYSTEM_CERTS"] = "true"
        self.env |= {name: value for name, value in env.items() if FETCH_VARIABLES.fullmatch(name)}
        if policy.index is not None:  # not an argument: it may carry a password, and arguments can be seen by others
            self.env.pop("UV_INDEX_URL", None)
            self.env["UV_DEFAULT_INDEX"] = policy.index
        index = sorted(item for item in self.env.items() if item[0].startswith("UV_"))
        self.source = [index, policy.find_links, policy.exclude_newer]
        """What decides which packages are found."""
        self.env |= {"UV_CACHE_DIR": str(cache), "UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never"}
        self.env |= {"UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
        self.tied = make_die_with_parent(self.env["PATH"])
        self._uv = ""

    def resolve(
        self, wanted: Sequence[Requirement], work: Work, *, base: Mapping[str, Installed], stand_ins: Path
    ) -> tuple[Pin, ...]:
        """Write pylock.toml: what is wanted, as wheels that go with `base`, without what `base` has."""
        (work.path / "wanted.txt").write_text("".join(f"{one}\n" for one in wanted))
        # By path, so that no index is asked about them, and what others say about their versions still counts.
        fixed = (f"{one.name} @ {(stand_ins / _wheel(one)).as_uri()}\n" for one in base.values())
        (work.path / "base.txt").write_text("".join(fixed))
        args = ["compile", "wanted.txt", "--constraints", "base.txt", "--format", "pylock.toml", "--no-header"]
        args += ["--output-file", "pylock.toml", *(f"--no-emit-package={name}" for name in base)]
        args += [f"--find-links={place}" for place in self.policy.find_links]
        if self.policy.exclude_newer is not None:
            args += [f"--exclude-newer={self.policy.exclude_newer}"]
        # What was fetched before may be old, so the cache is asked first only where nothing newer can be meant.
        said = self._run_twice(args, work, cache_first=all(_exact(one) for one in wanted))
        if said is not None:
            raise explain(said, base=base)
        return self._pins(tomllib.loads((work.path / "pylock.toml").read_text()).get("packages", []))

    def install(self, work: Work, target: Path, *, base: Iterable[str]) -> None:
        """Install pylock.toml; uv checks the hashes in it."""
        args = ["install", "--requirements", "pylock.toml", "--no-deps", f"--target={target}"]
        said = self._run_twice(args, work, cache_first=True)
        if said is not None:
            raise explain(said, base=base)
        (target / ".lock").unlink(missing_ok=True)

    def uv(self) -> str:
        """The program, looked for when it is first needed, and again once it is gone."""
        if not os.access(self._uv, os.X_OK):
            self._uv = find_uv(self.env)
        return self._uv

    def late(self) -> Refused:
        """The error for what took too long."""
        return Refused(
            f"requirements: fetching them took longer than the {self.policy.timeout:g} s of requirements_timeout; try "
            "again (what arrived is kept), or ask for fewer packages"
        )

    def fits(self, size: int | None) -> None:
        """Raise unless so many bytes are allowed; None stands for too many."""
        if size is None or size > self.policy.max_bytes:
            told = "more" if size is None else shown(size)
            raise TooLarge(
                f"requirements: they take {told}, and requirements_size allows {shown(self.policy.max_bytes)}; ask for "
                "fewer or smaller packages"
            )

    def _pins(self, packages: Iterable[dict[str, Any]]) -> tuple[Pin, ...]:
        pins, packed = [], 0
        for package in packages:
            wheel = next(iter(package.get("wheels", ())), None)
            if wheel is None:
                raise Refused(f"requirements: {package['name']} did not resolve to a wheel; ask for another version")
            pins.append(Pin(package["name"], package["version"], f"sha256:{wheel['hashes'].get('sha256', '')}"))
            packed += wheel.get("size", 0)
        self.fits(packed)
        return tuple(sorted(pins, key=lambda pin: pin.name))

    def _run_twice(self, args: Sequence[str], work: Work, *, cache_first: bool) -> str | None:
        """Ask the cache, and the index if that does not do; or the other way round. None, or what uv said."""
        if self.policy.offline:
            return self._run([*args, "--offline"], work)
        if cache_first:
            return self._run([*args, "--offline"], work) and self._run(args, work)
        said = self._run(args, work)
        if said is not None and isinstance(explain(said, base=()), Refused):
            return self._run([*args, "--offline"], work) and said
        return said

    def _run(self, args: Sequence[str], work: Work) -> str | None:
        command = [*self.tied, self.uv(), "pip", *args, "--quiet", "--only-binary=:all:"]
        with (work.path / "said").open("w+b") as said:
            process = subprocess.Popen(
                [*command, f"--python={self.python}"],
                cwd=work.path, env=self.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                pass_fds=(work.hold,), start_new_session=True,
            )  # fmt: skip
            try:
                while process.poll() is None:
                    self._check(process.pid, work.deadline)
                    try:
                        process.wait(_POLL)
                    except subprocess.TimeoutExpired:
                        pass
            finally:
                end(process)
            said.seek(0)
            text = said.read(MIB).decode(errors="replace")
        return None if process.returncode == 0 else text or f"uv ended with {process.returncode}"

    def _check(self, pid: int, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise self.late()
        # Twice, since a download may be written packed and unpacked; index pages on top.
        if _count_written(pid) > 2 * self.policy.max_bytes + 64 * MIB:
            self.fits(None)


def explain(said: str, *, base: Iterable[str]) -> BelljarError:
    """The error for what uv said, with the next step."""
    text = re.sub(r"://[^/\s@]*@", "://", " ".join(said.split()))
    reason = text.partition(" hint: ")[0].removeprefix("error: ")
    reason = reason.removeprefix("No solution found when resolving dependencies cause: ")
    reason = reason if len(reason) <= 500 else reason[:497] + "..."
    if "Hash mismatch" in text:
        return Refused(f"requirements: a downloaded file is not what the index promised; try again later ({reason})")
    if re.search(r"No space left|Disk quota exceeded", text):
        return BadSettings("requirements: the disk of the package store is full; free some space and try again")
    if re.search(r"\b(401 Unauthorized|403 Forbidden|407 Proxy)", text):
        return Refused("requirements: the package index or the proxy refused us; check the credentials in its URL")
    if re.search(_NO_NETWORK, text):
        names = ", ".join(base) or "the standard library only"
        missed = re.search(r"(\S+) was not found in the cache", text)
        return Refused(
            f"requirements: {f'{missed[1]} is ' if missed else ''}not available here: the package index cannot be "
            "reached, or is not to be asked; do without, or let an operator check the network and the index; "
            f"installed already: {names}"
        )
    if found := re.search(r"(\S+) was not found in the (package registry|provided package locations)", text):
        return _invalid(f"{found[1]} is not in the package index; check the spelling, which may differ from the import")
    if re.search(r"no (usable )?wheels", text):
        return _invalid(
            f"there is no wheel for this Python and platform, and source archives are refused, since building one "
            f"runs its code outside the sandbox; ask for another version or package ({reason})"
        )
    if "No solution found" in text:
        return _invalid(f"no versions fit together and fit what is preloaded; ask for other versions ({reason})")
    return Refused(f"requirements: uv failed; see whether a different version works ({reason})")


def _invalid(problem: str) -> InvalidRequest:
    return InvalidRequest(f"requirements: {problem}", param="requirements")


def _exact(one: Requirement) -> bool:
    return bool(one.specifier) and all(spec.operator == "==" and "*" not in spec.version for spec in one.specifier)


def write_stand_ins(home: Path, base: Iterable[Installed]) -> None:
    """Empty wheels with the names, versions and extras of what is installed, for uv to resolve with."""
    for one in base:
        info = f"{one.name.replace('-', '_')}-{one.version}.dist-info"
        head = ["Metadata-Version: 2.1", f"Name: {one.name}", f"Version: {one.version}", *_extras(one)]
        with zipfile.ZipFile(home / _wheel(one), "w") as wheel:
            wheel.writestr(f"{info}/METADATA", "\n".join(head) + "\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")


def _extras(one: Installed) -> Iterator[str]:
    names: set[str] = set()
    for line in one.extras:
        try:
            marker = str(Requirement(line).marker)
        except InvalidRequirement:
            continue
        names.update(re.findall(r'extra == "([^"]+)"', marker))
        yield f"Requires-Dist: {line}"
    yield from (f"Provides-Extra: {name}" for name in sorted(names))


def _wheel(one: Installed) -> str:
    return f"{one.name.replace('-', '_')}-{one.version}-py3-none-any.whl"


def _count_written(pid: int) -> int:
    """Bytes a process has written so far, to whatever; 0 where the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/io", "rb") as io:
            return next((int(line[6:]) for line in io if line.startswith(b"wchar:")), 0)
    except OSError:
        return 0


def make_die_with_parent(path: str) -> Sequence[str]:
    """A prefix to a command that makes it die with the thread that starts it, where the host has the tool."""
    found = shutil.which("setpriv", path=path)
    return () if found is None else (found, "--pdeathsig", "KILL")


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a session leader with its whole group, and reap it. Nothing happens where it has ended."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.kill()
        process.wait()
