"""Try the attacks: two sandboxes side by side, and tripwires on the host that nothing may touch."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import select
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from belljar.errors import BelljarError
from belljar.sandbox import owned_directories
from belljar.sandbox.base import Cell, Limits, Spec
from belljar.sandbox.local import run_steps
from belljar.sandbox.local.attacks import calls, identity, leaks, limits, neighbours, network, processes, tree, wire
from belljar.sandbox.local.attacks.attack import PRELUDE, Attack, Verdict
from belljar.sandbox.local.box import Box
from belljar.sandbox.local.jail import code_directory
from belljar.sandbox.local.source import LocalSource
from belljar.sandbox.outputs import Exit, Run, fold

_OURS = re.compile(r"belljar-tripwire-[0-9a-f]{16}")

ATTACKS: tuple[Attack, ...] = tuple(
    attack
    for theme in (leaks, processes, identity, tree, network, neighbours, calls, wire, limits)
    for attack in theme.ATTACKS
)


def run_attacks(source: LocalSource) -> Iterator[Verdict]:
    """Try every attack; one verdict each, in order. Give a source that has not started yet: its jail must not know
    the secret that is planted first."""
    with Ground(source) as ground:
        for attack in ATTACKS:
            yield ground.attempt(attack)


class Tripwires:
    """Things of the host's that nothing in the jail may reach: a key, a file, a process, sockets."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._key = f"canary-{secrets.token_hex(16)}"
        self.variables = {"BELLJAR_TRIPWIRE": self._key}
        self.asked: list[str] = []
        """What a sandbox that is gone was told, backwards."""

    def __enter__(self) -> Self:
        _sweep(tempfile.gettempdir())
        folder, hold = owned_directories.claim(_new_folder)
        self._stack.callback(owned_directories.let_go, hold)
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        os.chmod(folder, 0o755)  # so that only the jail can be what keeps code out
        self._file = Path(folder, "key.txt")
        self._file.write_text(self._key)
        command = ["tail", "-f", f"--pid={os.getpid()}", str(self._file)]  # it ends with us, however we end
        self._process = self._stack.enter_context(
            subprocess.Popen(command, env=self.variables, stdout=subprocess.DEVNULL, start_new_session=True)
        )
        self._stack.callback(self._process.kill)
        self._listeners = {
            "port": self._listen(socket.AF_INET, ("127.0.0.1", 0)),
            "abstract": self._listen(socket.AF_UNIX, f"\0belljar-tripwire-{secrets.token_hex(8)}"),
            "socket": self._listen(socket.AF_UNIX, f"{folder}/socket"),
        }
        os.chmod(f"{folder}/socket", 0o777)
        self._datagrams = self._stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._datagrams.bind(("127.0.0.1", 0))
        before = os.environ.get("BELLJAR_TRIPWIRE")
        os.environ.update(self.variables)
        self._stack.callback(_set_variable, "BELLJAR_TRIPWIRE", before)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _listen(self, family: socket.AddressFamily, address: object) -> socket.socket:
        listener = self._stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        listener.bind(address)  # type: ignore[arg-type]
        listener.listen(16)
        return listener

    @property
    def known(self) -> dict[str, object]:
        """What an attacker is told: everything but the key."""
        abstract = self._listeners["abstract"].getsockname()
        return {
            "pid": self._process.pid,
            "file": str(self._file),
            "home": os.path.expanduser("~"),
            "paths": [code_directory(), str(self._file.parent)],
            "port": self._listeners["port"].getsockname()[1],
            "udp": self._datagrams.getsockname()[1],
            "abstract": abstract.decode() if isinstance(abstract, bytes) else abstract,
            "socket": self._listeners["socket"].getsockname(),
            "address": _own_address(),
            "asked": self.asked,
        }

    def touched(self) -> str | None:
        """What was reached since the last look, if anything."""
        for name, listener in self._listeners.items():
            if select.select([listener], [], [], 0)[0]:
                listener.accept()[0].close()
                return f"the host's {name} was called"
        if select.select([self._datagrams], [], [], 0)[0]:
            self._datagrams.recv(1)
            return "a datagram reached the host"
        if self._process.poll() is not None:
            return "a process of the host was ended"
        if self._file.read_text() != self._key:
            return "a file of the host was changed"
        return None

    def script(self, attack: Attack, code: str | None = None) -> str:
        """The attack as it is run."""
        return f"{PRELUDE}\nHOST = {self.known!r}\n{attack.code if code is None else code}"


class Ground:
    """Two sandboxes of one source and the tripwires around them."""

    def __init__(self, source: LocalSource) -> None:
        self._source = source
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            self.tripwires = self._stack.enter_context(Tripwires())
            self._shared = self._lease(self._stack, Limits(), "auto")
            self._neighbour = self._lease(self._stack, Limits(), "auto")
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _lease(self, stack: contextlib.ExitStack, limits: Limits, packages: str) -> Box:
        return stack.enter_context(self._source.lease(Spec(limits=limits, packages=packages)))

    def _leave_traces(self) -> None:
        """Make a sandbox like no other and let it go: nothing of it may be in those after it."""
        layers = tuple(f"/pkgs/sbx_{secrets.token_hex(12)}" for _ in range(50))
        with contextlib.ExitStack() as own:
            box = self._lease(own, Limits(), "none")
            box.install(box.spec, layers)
            run_steps.finish(box, box.restart())
        self.tripwires.asked = [name[::-1] for name in (box.id, *(layer.removeprefix("/pkgs/") for layer in layers))]

    def attempt(self, attack: Attack) -> Verdict:
        """Try one attack. What raises here, raised in the host: that is never held."""
        before = _descriptors()
        try:
            failed, detail = self._try(attack)
        except (BelljarError, OSError, ValueError, RuntimeError) as error:
            return Verdict(attack, False, f"the host raised {type(error).__name__}: {error}")
        if _descriptors() - before >= 64:
            return Verdict(attack, False, "descriptors piled up in the host")
        return Verdict(attack, not failed, detail)

    def _try(self, attack: Attack) -> tuple[bool, str]:
        with contextlib.ExitStack() as own:
            if attack.after_another:
                self._leave_traces()
            box = self._shared if attack.limits is None else self._lease(own, attack.limits, "none")
            if attack.plant:
                planted = self._run(self._neighbour, attack, attack.plant)
                if not planted.ok:
                    return True, f"could not be prepared: {planted.stderr or planted.exit.text}"
            ran = self._run(box, attack, attack.code)
            steps = [_judge(ran, attack.ends)]
            if attack.twin:
                steps.append(_differ(ran, self._run(self._neighbour, attack, attack.code)))
            if touched := self.tripwires.touched():
                steps.append((True, touched))
            if attack.after:
                steps.append(_judge(self._run(box, attack, attack.after), ("ok",)))
            if attack.newcomer:
                newcomer = self._lease(own, Limits(), "none")
                steps.append(_judge(self._run(newcomer, attack, attack.newcomer), ("ok",)))
            if attack.neighbour:
                steps.append(_judge(self._run(self._neighbour, attack, attack.neighbour), ("ok",)))
        failures = [detail for failed, detail in steps if failed]
        return bool(failures), "; ".join(failures or [steps[0][1]])

    def _run(self, box: Box, attack: Attack, code: str) -> Run:
        return fold(run_steps.run_blocking(box, box.run(Cell(self.tripwires.script(attack, code)))))


def _new_folder() -> Path:
    """By a name that `_sweep` knows."""
    folder = Path(tempfile.gettempdir(), f"belljar-tripwire-{secrets.token_hex(8)}")
    folder.mkdir(0o700)
    return folder


def _sweep(parent: str) -> None:
    """Remove the tripwires of programs that were killed."""
    for path in (Path(parent, name) for name in os.listdir(parent) if _OURS.fullmatch(name)):
        with contextlib.suppress(OSError), owned_directories.check_abandoned(path) as dead:  # another may sweep too
            if dead and path.is_dir() and path.stat().st_uid == os.geteuid():
                shutil.rmtree(path)


def parse_report(stdout: str) -> tuple[list[str], list[str]]:
    """What a script reported: what held, and what did not."""
    lines = stdout.splitlines()
    return (
        [line.removeprefix("held: ") for line in lines if line.startswith("held: ")],
        [line.removeprefix("BROKEN: ") for line in lines if line.startswith("BROKEN: ")],
    )


def _judge(ran: Run, ends: tuple[str, ...]) -> tuple[bool, str]:
    held, broken = parse_report(ran.stdout)
    end = _end(ran.exit)
    if broken:
        return True, "; ".join(broken)[:600]
    if end not in ends:
        return True, f"ended as {end} ({ran.exit.text[:300]}), expected {' or '.join(ends)}"
    if end == "ok" and not held:
        return True, "it reported nothing"
    if end != "ok" and not ran.exit.text:
        return True, f"ended as {end} without a word why"
    return False, "; ".join(dict.fromkeys(held))[:200] if end == "ok" else end


def _end(exit: Exit) -> str:
    match exit:
        case Exit(status="killed", reason=reason):
            return f"killed:{reason}"
        case Exit(status="raised", error=error) if error is not None:
            return f"raised:{error.type}"
        case _:
            return exit.status


def _differ(one: Run, other: Run) -> tuple[bool, str]:
    tokens = [[line for line in ran.stdout.splitlines() if line.startswith("token: ")] for ran in (one, other)]
    if not tokens[0] or len(tokens[0]) != len(tokens[1]):
        return True, "nothing to compare"
    same = [a for a, b in zip(*tokens, strict=True) if a == b]
    return bool(same), f"the same in both: {', '.join(same)}"


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _own_address() -> str:
    """An address of this host other than loopback, if it has one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
            return str(sock.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
