"""Store fetched packages as layers: one directory for each resolution, made once and never changed.

    root/            0711
      layers/        0311  what the jail mounts; nobody, not even its owner, can list it; entries 0755
        <hmac>/            one resolution: what `sys.path` gets
      records/             <requirements>.json -> layer, pins with hashes; <layer>.json the same; *.compiled
      base/                empty wheels that stand for the base environment when uv resolves
      cache/               uv's, shared by all
      tmp/                 work in progress, each locked by whoever lives; swept otherwise
      secret         0600  makes the names of layers impossible to guess

A layer is complete when it has its name: it is installed in tmp/ and moved. A requirement set is resolved once;
to resolve it anew, delete its record.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from belljar.errors import BadSettings, InvalidRequest
from belljar.sandbox import owned_directories
from belljar.sandbox.packages.fetch import Fetch, LayerPolicy, Pin, Work, end, write_stand_ins
from belljar.sandbox.packages.requirements import Installed, find_missing

_POLL = 0.02
_SECRET = 32
# Runs outside the jail, so it only parses: -S -I, no imports of the layer, bounded, and out of everyone's way.
_COMPILE = """
import compileall, os, py_compile, resource, sys
layer, mount, done = sys.argv[1:]
os.nice(19), os.umask(0o022)
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (600, 600))
compileall.compile_dir(layer, maxlevels=50, quiet=2, workers=1, stripdir=os.path.dirname(layer), prependdir=mount,
                       invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
os.close(os.open(done, os.O_CREAT | os.O_WRONLY, 0o600))
"""


@dataclass(frozen=True, slots=True)
class Layer:
    """What `sys.path` gets: the directory `name` of `LayerStore.layers`."""

    name: str
    pins: tuple[Pin, ...]
    bytes: int


class LayerStore:
    """Makes layers, once each. Blocking; any number of threads and processes may share a root."""

    def __init__(
        self,
        root: Path,
        *,
        python: Path,
        base: Sequence[Installed],
        policy: LayerPolicy = LayerPolicy(),  # noqa: B008 - frozen
        env: Mapping[str, str] | None = None,
        mount: str = "/pkgs",
    ) -> None:
        self.policy = policy
        self._root, self._python, self._mount = root.absolute(), python.absolute(), mount
        self._base = dict(_usable(base))
        self.layers, self._records, self._tmp, self._stubs, self._cache = (
            self._root / name for name in ("layers", "records", "tmp", "base", "cache")
        )
        self._fetch = Fetch(cache=self._cache, python=self._python, policy=policy, env=env or {})
        self._mutex = threading.Lock()
        self._tried: set[str] = set()
        self._compiling: set[subprocess.Popen[bytes]] = set()
        try:
            _directory(self._root, 0o711)
            _directory(self.layers, 0o311)
            for path in (self._records, self._tmp, self._stubs, self._cache):
                _directory(path, 0o700)
            self._secret = self._keep_secret()
            binary = self._python.stat()
            owned_directories.sweep(self._tmp)
            self._sweep_cache()
        except OSError as error:
            raise self._unusable(error) from error
        versions = [[one.name, one.version, *one.extras] for one in self._base.values()]
        environment = [str(self._python.resolve()), binary.st_size, binary.st_mtime_ns, versions]
        self._environment = hashlib.sha256(json.dumps(environment).encode()).hexdigest()

    def layer(self, requirements: Sequence[str]) -> Layer | None:
        """The layer that satisfies these, made now if need be; None when the base environment does already."""
        wanted = find_missing(requirements, base=self._base, most=self.policy.max_count, allow=self.policy.allow)
        if not wanted:
            return None
        key = self._name("requirements", self._fetch.source, [str(one) for one in wanted])
        try:
            found = self._read_record(key) or self._make(key, wanted, time.monotonic() + self.policy.timeout)
            self._fetch.fits(found.bytes)
            if found.name:
                self._compile(found.name)
        except OSError as error:
            raise self._unusable(error) from error
        return found if found.name else None

    def close(self, wait: float = 0.0) -> None:
        """Stop compiling in the background, after so many seconds' patience. The store can still be used."""
        with self._mutex:
            compiling = list(self._compiling)
        deadline = time.monotonic() + wait
        for process in compiling:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                end(process)

    def _make(self, key: str, wanted: Sequence[Requirement], deadline: float) -> Layer:
        with self._alone(key, deadline):
            if found := self._read_record(key):
                return found
            with self._work(deadline) as work:
                pins = self._fetch.resolve(wanted, work, base=self._base, stand_ins=self._stand_ins(deadline))
                name = self._name("layer", [[pin.name, pin.version, pin.hash] for pin in pins]) if pins else ""
                found = Layer(name, pins, 0)
                if name:
                    with self._alone(name, deadline):
                        found = self._read_record(name) or self._install(name, pins, work)
                self._record(key, found, wanted)
                return found

    def _install(self, name: str, pins: tuple[Pin, ...], work: Work) -> Layer:
        target = work.path / "layer"
        self._fetch.install(work, target, base=self._base)
        layer = Layer(name, pins, _seal_files(target))
        self._fetch.fits(layer.bytes)
        if not (self.layers / name).exists():
            target.rename(self.layers / name)
        self._record(name, layer, ())
        return layer

    def _stand_ins(self, deadline: float) -> Path:
        """The directory of wheels that stand for the base environment."""
        home = self._stubs / self._name("base")
        if not home.is_dir():
            with self._alone(home.name, deadline), self._work(deadline) as work:
                if not home.is_dir():
                    (work.path / "base").mkdir()
                    write_stand_ins(work.path / "base", self._base.values())
                    (work.path / "base").rename(home)
        return home

    def _compile(self, name: str) -> None:
        """See that the layer has bytecode, some time: without, every sandbox would compile it anew."""
        done = self._records / f"{name}.compiled"
        with self._mutex:
            if name in self._tried:
                return
            self._tried.add(name)
        if not done.exists():
            started = threading.Event()
            threading.Thread(target=self._compile_now, args=(name, done, started), daemon=True).start()
            started.wait()

    def _compile_now(self, name: str, done: Path, started: threading.Event) -> None:
        """In a thread of its own, which stays: the child dies with the thread that starts it."""
        layer = self.layers / name
        script = [str(self._python), "-I", "-S", "-c", _COMPILE, str(layer), self._mount, str(done)]
        process = None
        try:
            hold = os.open(layer, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)  # another process may be at it
                null = subprocess.DEVNULL
                process = subprocess.Popen([*self._fetch.tied, *script], env={}, stdin=null, stdout=null, stderr=null,
                                           pass_fds=(hold,), start_new_session=True)  # fmt: skip
            finally:
                os.close(hold)
            with self._mutex:
                self._compiling.add(process)
        except OSError:
            pass  # slower imports, nothing worse
        finally:
            started.set()
        if process is not None:
            process.wait()
            with self._mutex:
                self._compiling.discard(process)

    def _name(self, *of: object) -> str:
        return hmac.new(self._secret, json.dumps([self._environment, of]).encode(), hashlib.sha256).hexdigest()[:32]

    def _read_record(self, name: str) -> Layer | None:
        try:
            record = json.loads((self._records / f"{name}.json").read_bytes())
            found = Layer(record["layer"], tuple(Pin(**pin) for pin in record["pins"]), record["bytes"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        return found if not found.name or (self.layers / found.name).is_dir() else None

    def _record(self, name: str, layer: Layer, wanted: Sequence[Requirement]) -> None:
        pins = [{"name": pin.name, "version": pin.version, "hash": pin.hash} for pin in layer.pins]
        record = {"requirements": [str(one) for one in wanted], "layer": layer.name, "bytes": layer.bytes, "pins": pins}
        with tempfile.NamedTemporaryFile("w", dir=self._records, prefix=".", delete=False) as file:
            json.dump(record, file)
        os.replace(file.name, self._records / f"{name}.json")

    @contextmanager
    def _alone(self, name: str, deadline: float) -> Iterator[None]:
        """One thread of one process at a time."""
        path = self._records / f"{name}.lock"
        while True:
            lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                while not owned_directories.try_lock(lock):
                    if time.monotonic() > deadline:
                        raise self._fetch.late()
                    time.sleep(_POLL)
                if not owned_directories.is_at(path, lock):  # the one before us has finished and removed it
                    continue
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                    fcntl.flock(lock, fcntl.LOCK_UN)  # by hand: a fork elsewhere may have copied the descriptor
                return
            finally:
                os.close(lock)

    @contextmanager
    def _work(self, deadline: float) -> Iterator[Work]:
        """A directory that is swept when everyone who holds its lock is dead."""
        try:
            with owned_directories.work(self._tmp) as (path, hold):
                yield Work(path, hold, deadline)
        finally:
            self._sweep_cache()

    def _sweep_cache(self) -> None:
        """Remove what a killed uv was unpacking."""
        for path in self._cache.glob(".tmp*"):
            owned_directories.remove_if_abandoned(path, self._cache / ".lock")  # every uv holds it, shared

    def _keep_secret(self) -> bytes:
        """Made once, whoever comes first; anew if it was cut off, since names could be guessed then."""
        path = self._root / "secret"
        _, hold = owned_directories.claim(
            lambda: self._root
        )  # one at a time: nobody may go by a secret that another replaces
        try:
            if not path.exists() or path.stat().st_size != _SECRET:
                with owned_directories.work(self._tmp) as (folder, _):
                    new = folder / "secret"
                    new.touch(0o600)
                    new.write_bytes(secrets.token_bytes(_SECRET))
                    new.replace(path)
            return path.read_bytes()
        finally:
            owned_directories.let_go(hold)

    def _unusable(self, error: OSError) -> BadSettings:
        return BadSettings(
            f"the package store {self._root} cannot be used: {error}; make it writable and give it space, or choose "
            f"another cache_dir (BELLJAR_CACHE_DIR), and check that {self._python} exists"
        )


def _usable(base: Iterable[Installed]) -> Iterator[tuple[str, Installed]]:
    """By name, in normal form; without what has no version that a resolver could understand."""
    for one in sorted(base, key=lambda one: one.name):
        try:
            name, version = canonicalize_name(one.name, validate=True), str(Version(one.version))
        except (InvalidName, InvalidVersion):
            continue
        yield name, replace(one, name=name, version=version)


def _directory(path: Path, mode: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    status = path.stat()
    if status.st_uid != os.geteuid():  # whoever owns it could change under us what we fetch
        raise PermissionError(errno.EPERM, f"it belongs to user {status.st_uid}, and we are {os.geteuid()}", str(path))
    if stat.S_IMODE(status.st_mode) != mode:
        path.chmod(mode)


def _seal_files(top: Path) -> int:
    """Plain modes, plain files; the number of bytes."""
    total = 0
    top.chmod(0o755)
    for here, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(here, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                raise InvalidRequest(f"requirements: a wheel holds {name!r}, which is no plain file; ask for another "
                                     f"version", param="requirements")  # fmt: skip
            plain = 0o755 if stat.S_ISDIR(mode) or mode & 0o111 else 0o644
            if stat.S_IMODE(mode) != plain:
                os.chmod(path, plain)
            total += 0 if stat.S_ISDIR(mode) else os.lstat(path).st_size
    return total
