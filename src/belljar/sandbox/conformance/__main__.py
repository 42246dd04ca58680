"""`python -m belljar.sandbox.conformance URL`: a line for each check; exits 0 if all hold, 1 if not, 2 if no answer."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

import aiohttp

from belljar.config import variables
from belljar.sandbox.conformance.runner import CheckOutcome, choose_checks, conform


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m belljar.sandbox.conformance",
        description="Ask a live sandbox server whether it keeps the contract. It runs harmless code there, at most "
        "three at once, and leaves nothing behind.",
    )
    parser.add_argument("url", help="http://HOST:PORT, https://HOST or unix:///PATH")
    parser.add_argument("--token", help="the server's token; BELLJAR_SANDBOX_TOKEN if left out")
    parser.add_argument("--execute-only", action="store_true", help="/health and /execute, without /v1")
    parser.add_argument("--json", action="store_true", help="an object a line instead of text")
    given = parser.parse_args(arguments)
    token = given.token or variables("BELLJAR_SANDBOX_TOKEN").get("BELLJAR_SANDBOX_TOKEN") or None
    try:
        return asyncio.run(_report(given.url, token, execute_only=given.execute_only, as_json=given.json))
    except ValueError as error:
        sys.stderr.write(f"url: {error}\n")
    except (aiohttp.ClientError, OSError) as error:
        sys.stderr.write(f"url: nobody answers at {given.url} ({error}); is the server running?\n")
    except KeyboardInterrupt:
        return 130
    return 2


async def _report(url: str, token: str | None, *, execute_only: bool, as_json: bool) -> int:
    failed = 0
    async for outcome in conform(url, choose_checks(execute_only=execute_only), token):
        failed += not outcome.ok
        sys.stdout.write((_as_json if as_json else _as_text)(outcome) + "\n")
        sys.stdout.flush()
    return 1 if failed else 0


def _as_text(outcome: CheckOutcome) -> str:
    return f"ok      {outcome.check}" if outcome.ok else f"FAILED  {outcome.check}\n        {outcome.problem}"


def _as_json(outcome: CheckOutcome) -> str:
    told = {"check": outcome.check, "ok": outcome.ok, "problem": outcome.problem}
    return json.dumps({**told, "seconds": round(outcome.seconds, 3)})


if __name__ == "__main__":
    sys.exit(main())
