"""`belljar sandbox`: serve this host's sandboxes over HTTP, for gateways on other machines."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from belljar import __version__
from belljar.cli import settings_flags
from belljar.cli.command_parser import add_command
from belljar.config import TIERS
from belljar.errors import InvalidRequest

if TYPE_CHECKING:
    import socket
    from argparse import _SubParsersAction

    from belljar.config import Settings
    from belljar.sandbox.server.run import Started

_EXAMPLES = """\
examples:
  belljar sandbox
  belljar sandbox --socket /run/belljar/sandbox.sock      # for this machine's own, of the same user
  belljar sandbox --host 0.0.0.0 --token-file /run/secrets/sandbox
  belljar sandbox --host 0.0.0.0 --open                   # in a pod, where a network policy keeps others out

Then, where the gateway runs, with the same token in BELLJAR_SANDBOX_TOKEN:
  belljar serve --sandbox-url http://127.0.0.1:8080

exit codes:
  0    it was told to stop, by Ctrl-C or SIGTERM, and did
  130  it was told twice, and did not wait for what ran
  2    the port or the socket is taken, or it would listen to others without a token
  3    a setting is wrong, or this host cannot confine code
"""


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "sandbox",
        help="serve this host's sandboxes to gateways elsewhere",
        description="Serve this host's sandboxes over HTTP: to a gateway on another machine, under another user, in a "
        "pod; or to anything else that has code to run.",
        examples=_EXAMPLES,
    )
    parser.add_argument("--host", dest="sandbox_host", metavar="ADDRESS", help="where to listen (127.0.0.1)")
    parser.add_argument("--port", dest="sandbox_port", metavar="N", help="the port, or 0 for any that is free (8080)")
    parser.add_argument(
        "--socket",
        dest="sandbox_socket",
        type=os.path.abspath,
        metavar="PATH",
        help="a unix socket to listen on, in place of an address",
    )
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="holds the token that every request needs")
    parser.add_argument(
        "--open",
        dest="sandbox_open",
        action="store_const",
        const=True,
        help="listen to others without a token: the network keeps them out",
    )
    parser.add_argument("--max-sandboxes", metavar="N", help="sandboxes alive at once (256)")
    parser.add_argument("--warm", metavar="N", help="sandboxes kept ready (2)")
    parser.add_argument(
        "--memory", dest="container_memory", choices=TIERS, help="of those that are kept ready (1g)", metavar="TIER"
    )
    settings_flags.add_packages(parser)
    settings_flags.add_config(parser)
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error (info)")
    parser.add_argument("--json", action="store_true", help="one JSON line in place of the banner")
    parser.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(main=main)


_FLAGS = (
    "sandbox_host", "sandbox_port", "sandbox_socket", "sandbox_open", "max_sandboxes", "warm", "container_memory",
    "packages", "log_level",
)  # fmt: skip


def main(args: argparse.Namespace) -> int:
    flags = {name: getattr(args, name) for name in _FLAGS} | {"sandbox_token": _read_token(args.token_file)}
    settings = settings_flags.load_settings(flags, file=args.config)
    from belljar.sandbox.local.probe import check_platform

    check_platform()
    if args.with_parent:
        from belljar.sandbox.local.linux import die_with_parent

        die_with_parent(signal.SIGTERM)
    import asyncio

    from belljar.gateway.server import log
    from belljar.net import new_event_loop

    log.set_up(sys.stderr, level=settings.log_level, form=cast(Literal["text", "json"], settings.log_format))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(settings, as_json=args.json))
    return 0


def _read_token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidRequest(f"token-file: {file} cannot be read ({why}); name one that holds a token") from None
    if not token:
        raise InvalidRequest(f"token-file: {file} is empty; write a token into it, such as: openssl rand -hex 32")
    return token


async def _serve(settings: Settings, *, as_json: bool) -> None:
    from belljar.sandbox.server import run

    run.check(settings)
    with _door(settings) as listen:
        await run.serve(settings, listen, lambda started: _announce(started, settings, as_json=as_json))
    if not as_json:
        print("stopped", file=sys.stderr)


def _door(settings: Settings) -> AbstractContextManager[socket.socket]:
    from belljar.cli import listen

    if settings.sandbox_socket is not None:
        return listen.listen_unix(settings.sandbox_socket)
    return listen.listen(settings.sandbox_host, settings.sandbox_port)


def _announce(started: Started, settings: Settings, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**asdict(started), "version": __version__, "pid": os.getpid()}), flush=True)
        return
    if started.token:
        access = "every request needs the token"
    elif settings.sandbox_socket is not None:
        shared = os.stat(settings.sandbox_socket).st_mode & 0o077
        access = "whoever may open the socket" if shared else "this user alone"
    else:
        access = "whoever can connect, by --open" if settings.sandbox_open else "this machine alone, without a token"
    print(f"belljar {__version__}\n")
    for name, text in (
        ("API", started.url),
        ("isolation", started.isolation),
        ("packages", started.packages),
        ("capacity", f"{started.capacity} sandboxes at once, {started.warm} kept ready"),
        ("access", access),
        ("gateway", f"belljar serve --sandbox-url {started.url}"),
    ):
        print(f"  {name:<10} {text}")
    print("\nCtrl-C stops it.", flush=True)
