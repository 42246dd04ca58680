"""`belljar doctor`: check what this host can enforce and what is missing; `--attack` tries to get out of a sandbox."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from dataclasses import asdict, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from belljar.cli.command_parser import add_command
from belljar.cli.settings_flags import WHERE, add_sandbox_url, add_warm_pool, load_settings
from belljar.config import Settings
from belljar.errors import BadSettings, BelljarError
from belljar.visible import visible, visible_lines

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from belljar.sandbox.local.diagnosis import Report
    from belljar.sandbox.local.source import LocalSource
    from belljar.sandbox.remote import RemoteSource

BOUNDARY = (
    "Code under glass has no network, no environment, no file of yours but those you put there, and fixed limits.",
    "The wall is the Linux kernel, which it shares with you: a hole in the kernel is a hole in the jail.",
)

_DRAWING = """\
import pandas as pd
from matplotlib import pyplot as plt
plt.plot(pd.Series([1, 2]))
plt.title("1 + 1")
1 + 1
"""

_EXAMPLES = """\
examples:
  belljar doctor
  belljar doctor --attack
  belljar doctor --json | jq .level

Where the setting sandbox_url names sandbox servers, or sandbox_warm_pool a pool, those are looked at;
--attack is for this host's own jail.

exit codes: 0 the jail runs here, or there (and, with --attack, every attack was held off), 1 it does not.
"""


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "doctor",
        help="say what this host can enforce, and how to mend what it cannot",
        description="Look at what this host can enforce, name what is missing with the command that mends it, and "
        "start one jail to prove it.",
        examples=_EXAMPLES,
    )
    parser.add_argument("--attack", action="store_true", help="try to get out of a jail, one line a try")
    add_sandbox_url(parser)
    add_warm_pool(parser)
    parser.add_argument("--json", action="store_true", help="the same as JSON; with --attack one line a try")
    parser.set_defaults(main=main)


def main(args: argparse.Namespace) -> int:
    if args.attack:
        return _attack(args.json)
    try:
        settings = load_settings({name: getattr(args, name) for name in WHERE})
    except BadSettings:  # told as a part of the report
        return _examine(args.json)
    if settings.runs_elsewhere:
        return _examine_server(settings, as_json=args.json)
    return _examine(args.json)


def _examine_server(settings: Settings, *, as_json: bool) -> int:
    """Whether code can run there, from here: each server is looked at, and code is run on one that is well."""
    from belljar.sandbox.default import settled_source
    from belljar.sandbox.local.diagnosis import Check, Report
    from belljar.sandbox.packages.stack import judge_stack

    source = cast("RemoteSource", settled_source(settings))
    pools, urls = settings.warm_pools, settings.sandbox_url or ()
    looked_at = [(url, settled_source(replace(settings, sandbox_url=(url,)))) for url in urls]
    remedy = "see that it runs, and what `belljar doctor` says on its host"
    where: dict[str, object] = {"sandbox_url": urls[0] if len(urls) == 1 else [*urls]}
    what = "sandbox server"
    if pools is not None:
        what, remedy = "warm pool", "see docs/kubernetes.md for what the cluster needs"
        looked_at, where = [(f"{pools} in {settings.sandbox_namespace}", source)], {"sandbox_warm_pool": str(pools)}
    checks: list[Check] = []
    for place, one in looked_at:
        one = cast("RemoteSource", one)
        try:
            one.learn()
            checks.append(Check(what, True, f"{place}: {one.isolation}"))
        except BelljarError as error:
            checks.append(Check(what, False, str(error), remedy))
    well = any(check.ok for check in checks)
    if well and len(urls) > 1:
        source.learn()
    elif well:
        source = cast("RemoteSource", looked_at[0][1])
    report = Report(tuple(checks), ())
    proof: dict[str, Any] = {"ok": False, "error": f"not tried: the {what} does not answer as it should"}
    if well:
        stack = judge_stack(source.packages)
        words = "the standard library" if settings.packages == "none" else f"{stack.summary} (there)"
        proof = _prove_server(source, words)
    if as_json:
        print(json.dumps({"level": "full" if proof["ok"] else "refused", **where, **asdict(report),
                          "proof": proof, "boundary": " ".join(BOUNDARY)}, indent=2))  # fmt: skip
        return 0 if proof["ok"] else 1
    _print_checks(report)
    print()
    if proof["ok"]:
        print(
            f"Code runs on the {what}: started in {proof['start_ms']:g} ms, 1 + 1 = 2 in {proof['cell_ms']:g} "
            f"ms, gone in {proof['end_ms']:g} ms.\nA sandbox starts with {proof['packages']}."
        )
    else:
        print(f"No code can run on the {what}: {visible_lines(proof['error'])}")
    print("\n".join(BOUNDARY).replace("shares with you", "shares with the server's host"))
    return 0 if proof["ok"] else 1


def _examine(as_json: bool) -> int:
    from belljar.sandbox.local.probe import probe

    report = probe()
    proof: dict[str, Any] = {"ok": False, "error": "not tried: something needed is missing"}
    source = None
    if report.level == "full":
        try:
            source, report = _with_cache(report)
        except BelljarError as error:
            proof = {"ok": False, "error": str(error)}
    if not as_json:
        _print_checks(report)
    if source is not None:
        proof = _prove(source)
    runs = report.level == "full" and proof["ok"]
    if as_json:
        print(json.dumps({"level": report.level if runs else "refused", **asdict(report), "proof": proof,
                          "boundary": " ".join(BOUNDARY)}, indent=2))  # fmt: skip
    else:
        _print_verdict(report, proof)
    return 0 if runs else 1


def _with_cache(report: Report) -> tuple[LocalSource, Report]:
    """Sandboxes as the settings want them, and the report with a word on what they keep, and fetch."""
    from belljar.sandbox.default import local_source
    from belljar.sandbox.local import diagnosis
    from belljar.sandbox.packages.uv_program import find_uv

    settings = Settings.load()
    # What is wanted and cannot be had is told as what there is, with the remedy.
    wanted = replace(settings, packages="none" if settings.packages == "none" else "auto")
    source = local_source(wanted, warm=0)
    cache = diagnosis.check_cache(str(settings.cache_dir), source.no_store)
    program, problem = "", None
    try:
        program = find_uv(settings.fetch_variables)
    except BelljarError as error:
        problem = str(error)
    return source, replace(report, checks=(*report.checks, cache, diagnosis.check_fetching(program, problem)))


def _prove(source: LocalSource) -> dict[str, Any]:
    """Start a jail, run something in it, end it, and draw with the data stack in another; how long each took."""
    from belljar.sandbox.blocking import Sandbox

    logging.getLogger("belljar.sandbox").setLevel(logging.ERROR)  # what it would warn of is part of what we tell
    times = [time.monotonic()]
    try:
        try:
            with Sandbox(source=source, packages="none") as box:
                times.append(time.monotonic())
                ran = box.run("1 + 1")
                times.append(time.monotonic())
            times.append(time.monotonic())
            if source.environment == "data" and ran.text == "2":
                with Sandbox(source=source) as box:
                    if not source.stack.flaw:  # which is known whole once it has been loaded
                        ran = box.run(_DRAWING)
                        times.append(time.monotonic())
        finally:
            source.shut()
    except (BelljarError, OSError) as error:
        return {"ok": False, "error": str(error)}
    if ran.text != "2":
        return {"ok": False, "error": f"1 + 1 gave {ran.text!r}: {ran.exit.text}"}
    start, cell, end, *stack = (round((after - before) * 1000, 1) for before, after in pairwise(times))
    return {"ok": True, "start_ms": start, "cell_ms": cell, "end_ms": end, "data_ms": stack[0] if stack else None,
            "packages": source.summary}  # fmt: skip


def _prove_server(source: RemoteSource, packages: str) -> dict[str, Any]:
    """The same for a server: what it starts with it tells itself."""
    from belljar.sandbox.blocking import Sandbox

    times = [time.monotonic()]
    try:
        with Sandbox(source=source) as box:
            times.append(time.monotonic())
            ran = box.run("1 + 1")
            times.append(time.monotonic())
    except (BelljarError, OSError) as error:
        return {"ok": False, "error": str(error)}
    times.append(time.monotonic())
    if ran.text != "2":
        return {"ok": False, "error": f"1 + 1 gave {ran.text!r}: {ran.exit.text}"}
    start, cell, end = (round((after - before) * 1000, 1) for before, after in pairwise(times))
    return {"ok": True, "start_ms": start, "cell_ms": cell, "end_ms": end, "data_ms": None, "packages": packages}


def _print_checks(report: Report) -> None:
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        mark = "ok     " if check.ok else "MISSING" if check.needed else "absent "
        print(f"{mark}  {check.name:<{width}}  {visible(check.detail)}")
        for line in check.remedy.splitlines() if not check.ok else ():
            print(f"{'':9}{'':{width}}    {line}")
    if report.rungs and report.level == "full":
        print("\nlimits are kept by")
        width = max(len(rung.limit) for rung in report.rungs)
        for rung in report.rungs:
            print(f"  {rung.limit:<{width}}  {rung.keeper}")
    sys.stdout.flush()


def _print_verdict(report: Report, proof: dict[str, Any]) -> None:
    print()
    if proof["ok"]:
        print(
            f"The jail runs here: started in {proof['start_ms']:g} ms, 1 + 1 = 2 in {proof['cell_ms']:g} ms, "
            f"gone in {proof['end_ms']:g} ms."
        )
        if proof["data_ms"] is not None:
            print(f"The data stack loads and draws: {proof['data_ms']:g} ms from its start to its end.")
        else:
            print(f"A sandbox starts with {proof['packages']}.")
    elif report.level == "full":
        print(f"The jail does not run here, though nothing seems to be missing: {visible_lines(proof['error'])}")
    else:
        names = ", ".join(check.name for check in report.causes)
        print(f"Refused: this host cannot confine code. Missing: {names}. There is no weaker mode to fall back to.")
    print("\n".join(BOUNDARY))


def _attack(as_json: bool) -> int:
    from belljar.sandbox.default import local_source

    source = local_source(Settings.load(), warm=0, preload=False)
    held = broken = 0
    try:
        from belljar.sandbox.local.attacks import run_attacks

        for verdict in run_attacks(source):
            held, broken = held + verdict.held, broken + (not verdict.held)
            if as_json:
                line = {"attack": verdict.attack.name, "goal": verdict.attack.goal, "held": verdict.held}
                print(json.dumps({**line, "detail": verdict.detail}), flush=True)
            else:
                mark = "held  " if verdict.held else "BROKEN"
                print(f"{mark}  {verdict.attack.name}: {verdict.attack.goal}; {visible(verdict.detail)}", flush=True)
    finally:
        source.shut()
    if as_json:
        print(json.dumps({"held": held, "broken": broken}))
    else:
        print(f"\n{held + broken} attacks: {held} held off, {broken} got through.")
        print("\n".join(BOUNDARY))
    return 0 if held and not broken else 1
