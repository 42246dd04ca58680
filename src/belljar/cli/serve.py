"""`belljar serve`: start the gateway, print its banner, and run until a signal stops it."""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from belljar import __version__
from belljar.cli import settings_flags
from belljar.cli.command_parser import add_command
from belljar.visible import visible

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from belljar.config import Settings
    from belljar.gateway.app import StartReport
    from belljar.gateway.server.log import Journal

_MODELS = 6
"""Models of an upstream that the banner names."""

_EXAMPLES = """\
examples:
  belljar serve
  belljar serve --port 9000 --upstream vllm=http://127.0.0.1:8000/v1
  belljar serve --project .            # the page may attach files from here, and save files here after asking
  belljar serve --host 0.0.0.0        # beyond this machine: make a key first, belljar keys add NAME
  belljar serve --sandbox-url http://127.0.0.1:8080    # code runs where `belljar sandbox` does
  belljar serve --workers 4           # past one core; nothing else to set up
  belljar serve --sandbox-warm-pool belljar --sandbox-namespace sandboxes    # in pods of Kubernetes
  belljar serve --database postgresql://belljar@db/belljar    # one of several, on any number of machines
  belljar serve --config /etc/belljar.yaml --log-format json

Then, with any client of OpenAI's API:
  OpenAI(base_url="http://127.0.0.1:8787/v1", api_key="none")

exit codes:
  0    it was told to stop, by Ctrl-C or SIGTERM, and did
  130  it was told twice, and did not wait for what ran
  2    the port is taken, or it would listen to others without a key
  3    a setting is wrong, or this host cannot confine code
"""


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "serve",
        help="serve OpenAI's Responses API with this code interpreter",
        description="Serve OpenAI's Responses, Containers and Files API: any model behind it, code in the jail.",
        examples=_EXAMPLES,
    )
    parser.add_argument("--host", metavar="ADDRESS", help="where to listen (127.0.0.1)")
    parser.add_argument("--port", metavar="N", help="the port, or 0 for any that is free (8787)")
    parser.add_argument(
        "--upstream",
        dest="upstreams",
        action="append",
        metavar="[NAME=]URL",
        help="a model server, such as http://127.0.0.1:8000/v1; may be repeated",
    )
    parser.add_argument("--no-discover", dest="discover", action="store_const", const=False, help="look for no models")
    settings_flags.add_config(parser)
    settings_flags.add_state(parser)
    settings_flags.add_blobs(parser)
    parser.add_argument("--timeout", metavar="S", help="seconds of one cell, or none (60)")
    parser.add_argument("--isolation", metavar="KIND", help="a sandbox for each: per_container (default) or per_call")
    settings_flags.add_sandbox_url(parser)
    settings_flags.add_warm_pool(parser)
    settings_flags.add_packages(parser)
    parser.add_argument("--max-sandboxes", metavar="N", help="sandboxes alive at once (256)")
    parser.add_argument("--warm", metavar="N", help="sandboxes kept ready (2)")
    parser.add_argument("--no-page", dest="page", action="store_const", const=False, help="serve no page at /")
    parser.add_argument(
        "--project",
        type=os.path.abspath,
        metavar="DIR",
        help="let the page attach files from here and save files here, after asking",
    )
    parser.add_argument("--workers", metavar="N", help="gateways behind this port, for more than one core (1)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error (info)")
    parser.add_argument("--log-format", metavar="FORMAT", help="text or json (text)")
    parser.add_argument("--json", action="store_true", help="one JSON line in place of the banner")
    parser.set_defaults(main=main)


_FLAGS = (
    "host", "port", "upstreams", "discover", "state_dir", "database", "blobs", "timeout", "isolation", "sandbox_url",
    "sandbox_warm_pool", "sandbox_namespace", "packages", "max_sandboxes", "warm", "page", "project", "workers",
    "log_level", "log_format",
)  # fmt: skip


def main(args: argparse.Namespace) -> int:
    settings = settings_flags.load_settings({name: getattr(args, name) for name in _FLAGS}, file=args.config)
    if settings.code_interpreter and settings.sandbox_url is None and settings.warm_pools is None:
        from belljar.sandbox.local.probe import check_platform

        check_platform()
    settings.check_gateway()
    import asyncio

    sys.setswitchinterval(0.0002)  # a busy loop must not starve the store's writer
    from belljar.gateway.server import log
    from belljar.net import new_event_loop

    journal = log.set_up(sys.stderr, level=settings.log_level, form=cast(Literal["text", "json"], settings.log_format))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        if settings.workers > 1:
            from belljar.cli import workers

            workers.check(settings)
            runner.run(workers.serve(settings, args, lambda told: _announce_workers(told, as_json=args.json)))
            if not args.json:
                print("stopped", file=sys.stderr)
        elif args.worker is not None:
            runner.run(_serve_as_worker(settings, journal, args.worker))
        else:
            runner.run(_serve(settings, journal, as_json=args.json))
    return 0


def _announce_workers(told: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(told), flush=True)
        return
    from belljar.gateway.app import StartReport

    known = {one.name for one in dataclass_fields(StartReport)}
    _announce(StartReport(**{name: value for name, value in told.items() if name in known}), as_json=False)


async def _serve_as_worker(settings: Settings, journal: Journal, worker: str) -> None:
    """One of several behind a port: its socket is inherited, the others reach it by one of its own."""
    from belljar.cli.listen import listen_unix
    from belljar.gateway.app import Shared, build
    from belljar.sandbox.local.linux import die_with_parent

    _, descriptor, address = worker.split(":", 2)
    die_with_parent(signal.SIGTERM)
    with (
        socket.socket(fileno=int(descriptor)) as door,
        listen_unix(Path(address.removeprefix("unix:"))) as inner,
    ):
        async with build(settings, journal=journal, shared=Shared(address=address)) as gateway:
            await gateway.serve(door, lambda started: _begin(started, as_json=True), inner)


async def _serve(settings: Settings, journal: Journal, *, as_json: bool) -> None:
    from belljar.cli.listen import listen

    with listen(settings.host, settings.port) as door:
        from belljar.gateway.app import build, share

        async with build(settings, journal=journal, shared=share(settings, door)) as gateway:
            await gateway.serve(door, lambda started: _begin(started, as_json=as_json))
    if not as_json:
        print("stopped", file=sys.stderr)


def _begin(started: StartReport, *, as_json: bool) -> None:
    # What was loaded so far stays to the end, and requests leave few cycles: looking for them after every 700
    # objects, as is the default, is every second request.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    _announce(started, as_json=as_json)


def _announce(started: StartReport, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**asdict(started), "version": __version__, "pid": os.getpid()}), flush=True)
        return
    keys = "none needed on this machine" if started.keys is None else f"{started.keys}; every request needs one"
    rows = [("API", f"{started.url}/v1")]
    rows += [("page", started.page)] if started.page else []
    listed = [_describe_upstream(name, models, started.troubles.get(name)) for name, models in started.models.items()]
    if started.nobody_at and len(listed) == 1:
        listed.append(f"no model server yet; one is found when it starts at {', '.join(started.nobody_at)}")
    rows += [("models" * (number == 0), one) for number, one in enumerate(listed)]
    rows += [("isolation", started.isolation)]
    rows += [("packages", started.packages)] if started.packages else []
    rows += [("keys", keys), ("data", ", ".join(filter(None, (started.database, started.state_dir))))]
    print(f"belljar {__version__}\n")
    for name, text in rows:
        print(f"  {name:<10} {visible(text)}")  # names of models are the servers'
    print("\nCtrl-C stops it.", flush=True)


def _describe_upstream(upstream: str, models: Sequence[str], trouble: str | None) -> str:
    if trouble and not models:
        return trouble
    more = f" and {len(models) - _MODELS} more" if len(models) > _MODELS else ""
    return f"{upstream}: {', '.join(models[:_MODELS]) or 'no models'}{more}"
