"""`belljar chat`: one question to a model that can run code, with files in and out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belljar import autorun
from belljar.cli.command_parser import add_command
from belljar.cli.outdir import directory_for
from belljar.cli.settings_flags import add_sandbox_url, add_warm_pool
from belljar.config import TIERS
from belljar.errors import BelljarError, InvalidRequest, Unreachable, WorkspaceError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from belljar.cli.chat_output import Teller
    from belljar.files import CodeExecutionOutputFile, CodeExecutionResponse
    from belljar.files.approval import Ask
    from belljar.files.project import Project
    from belljar.providers import BaseClient

_WITH_MEMORY = ("belljar", "openai")
"""Providers whose containers are made with the memory that is asked for."""

_EXAMPLES = """\
examples:
  belljar chat "print(6 * 7)"                     # the gateway's built-in model, which runs Python and does not think
  belljar chat "Which month was best? Draw it." --file sales.csv --model qwen3
  belljar chat "Clean this up" --file data.csv --provider openai --out cleaned/
  belljar chat "One chart for each region" --file sales.csv --zip charts.zip
  belljar chat "Plot it" --file data.csv --yes --json > events.jsonl
  git diff | belljar chat -
  belljar chat "print(6 * 7)" --sandbox-url http://127.0.0.1:8080    # needs no gateway: one is in the command itself

The provider belljar is a gateway: start one by `belljar serve`. With --sandbox-url, or with that setting where no
gateway answers, the command is its own gateway, and code runs on that sandbox server. The answer goes to standard
output; the code, what it prints and the files that it made are shown on standard error. Nothing is saved that you have
not agreed to: you are shown each file with its size and place, and what would change, and answer yes, no, select 1 3,
or rename 1 NAME. With --yes you are not asked, and what is there already stays as it is, unless --overwrite is given.
What tools run by themselves, such as .git, is never saved.

exit codes:
  0    it answered
  1    it answered, but its code failed, or a file could not be sent or saved
  2    the command is wrong
  3    the provider or the gateway failed, or cannot be reached
  130  it was interrupted (Ctrl-C); nothing more is saved
"""


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "chat",
        help="ask a model that can run code",
        description="Ask a model that can run code, give it files, and take home the files that its code makes.",
        examples=_EXAMPLES,
    )
    parser.add_argument("message", help="what to ask, or - for standard input")
    parser.add_argument(
        "--file", dest="files", action="append", default=[], metavar="PATH", help="a file for the code; may be repeated"
    )
    parser.add_argument("--provider", default="belljar", metavar="NAME", help="see belljar models (belljar)")
    parser.add_argument("--model", metavar="NAME", help="the provider's default without")
    parser.add_argument("--url", metavar="URL", help="where the provider is (http://127.0.0.1:8787/v1 for a gateway)")
    add_sandbox_url(parser)
    add_warm_pool(parser)
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="a file with the key, for a gateway with keys")
    parser.add_argument(
        "--memory", choices=TIERS, metavar="TIER", help="memory that code may use: 1g, 4g, 16g or 64g (1g)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where files are saved; made if missing (.)")
    parser.add_argument("--zip", metavar="NAME", help="all files as one archive of that name")
    saving = parser.add_mutually_exclusive_group()
    saving.add_argument("--yes", action="store_true", help="save without asking")
    saving.add_argument("--no-save", action="store_true", help="save nothing and ask nothing")
    parser.add_argument("--overwrite", action="store_true", help="with --yes: files that are there give way")
    parser.add_argument("--json", action="store_true", help="one JSON object a line; saves only with --yes")
    parser.set_defaults(main=main)


def main(args: argparse.Namespace) -> int:
    from belljar.files.upload_reader import regular

    if args.overwrite and not args.yes:
        raise InvalidRequest("--overwrite: without --yes you are asked about each file; add --yes, or leave it out")
    paths = [str(regular(path)) for path in args.files]
    with directory_for(args.out or Path()):
        _check_archive(args)
        return _chat(args, _message(args.message), paths)


def _chat(args: argparse.Namespace, message: str, paths: Sequence[str]) -> int:
    import logging

    from belljar.cli.chat_output import Teller
    from belljar.cli.own_gateway import own_gateway
    from belljar.providers import create_client
    from belljar.providers.vendor_settings import provider_named

    key = _key(args.key_file)
    if args.memory is not None and provider_named(args.provider) not in _WITH_MEMORY:
        raise InvalidRequest(f"--memory: {args.provider} has no such choice; leave it out")
    logging.getLogger("belljar").addHandler(logging.NullHandler())  # what it would say is said by the teller
    teller = Teller(as_json=args.json)
    url = _url(args.url, args.provider)
    with own_gateway(args) as own:
        client = create_client(args.provider, model=args.model, base_url=url, api_key=key, client=own)
        answered = _ask(client, message, paths, teller, args.memory)
        teller.end_answer()
        teller.parts(answered.assistant.parts)
        result = answered.assistant.code_execution_result
        ran = result is None or result.outcome == "OUTCOME_OK"
        if not ran:
            teller.advise()
        saved = _save(answered, teller, args)
        return teller.end(0 if ran and saved and not answered.failed_uploads else 1)


def _ask(
    client: BaseClient, message: str, paths: Sequence[str], teller: Teller, memory: str | None
) -> CodeExecutionResponse:
    from belljar.cli.live import Watched
    from belljar.cli.upload_progress import Sending
    from belljar.files import CodeExecutionArgs, FailedUpload, files_api_of, run_code_execution, why_no_files_api
    from belljar.files.results import CodeExecutionOutputFile, is_numbered
    from belljar.providers import ClientError
    from belljar.providers.responses_client import ResponsesClient

    watched: Any = None
    if isinstance(client, ResponsesClient):
        watched = Watched(client.client, teller.see, memory=memory)
        client.client = watched
    files = files_api_of(client, largest=None)  # each was named by hand, so what the service takes is sent
    if paths and files is None:
        raise InvalidRequest(f"--file: {why_no_files_api(client.provider)}", param="file")

    sending = Sending(paths, teller)

    def tell(text: str, data: Any) -> None:
        sending.show_progress(data)
        if isinstance(data, FailedUpload) or (isinstance(data, CodeExecutionOutputFile) and is_numbered(data)):
            teller.note(f"belljar: {text}")

    try:
        return run_code_execution(
            CodeExecutionArgs(message, tuple(paths)),
            client=client,
            files=files,
            put_system_message=tell,
            on_text=teller.text,
            on_progress=sending.progress,
        )
    except ClientError as error:
        if watched is not None and watched.failed is not None:
            raise watched.failed from None
        if client.provider == "belljar" and error.error_code == "CONNECTION_ERROR":
            address = str(watched.base_url).rstrip("/")
            raise Unreachable(f"no gateway answers at {address}; start one: belljar serve, or name it: --url") from None
        raise
    finally:
        sending.over()


def _save(answered: CodeExecutionResponse, teller: Teller, args: argparse.Namespace) -> bool:
    """Save what may be saved; whether all went well."""
    from belljar.files import approval
    from belljar.files.project import Project

    files: Sequence[CodeExecutionOutputFile] = answered.output_files
    if not files:
        return True
    place = args.out or Path()
    well = not args.zip or not any(autorun.refusal(one.filename) for one in files)
    files = _pack_files(files, args.zip, teller) if args.zip else _name_figures(files, place)
    if not files:
        return well
    project = Project(place)
    proposals = approval.propose(files, project)
    chosen = _decider(args, project, teller)(proposals)
    for number, one in enumerate(proposals, 1):
        path = None
        try:
            if number in chosen.chosen:
                saved = approval.save_one(one, chosen.chosen[number], project)
                path = str(saved.path)
                teller.note(f"{'overwrote' if saved.overwrote else 'saved'} {path}")
                if args.yes and one.warning:
                    teller.note(f"belljar: warning: {one.destination}: {one.warning}; read it first")
            elif args.yes:
                there = f"{one.destination!r} is there already and differs; to overwrite it: --overwrite"
                raise InvalidRequest(one.refused or there)
        except (BelljarError, OSError) as error:
            teller.note(f"belljar: error: {error}")
            well = False
        teller.file(one.file, path)
    return well


def _pack_files(
    files: Sequence[CodeExecutionOutputFile], name: str, teller: Teller
) -> Sequence[CodeExecutionOutputFile]:
    """One archive of all that may leave; of the rest you are told."""
    from belljar.files import zip_files

    kept: list[CodeExecutionOutputFile] = []
    for one in files:
        if why := autorun.refusal(one.filename):
            teller.note(f"belljar: error: {one.filename!r} is left out of {name}: {why}")
        else:
            kept.append(one)
    return [zip_files(kept, name)] if kept else []


def _name_figures(files: Sequence[CodeExecutionOutputFile], place: Path) -> list[CodeExecutionOutputFile]:
    """Figures that were only shown never get the name of a file in `place`: nobody has chosen it."""
    from belljar.files.results import is_shown
    from belljar.output_names import figure

    taken = {file.filename for file in files if not is_shown(file)}
    found: list[CodeExecutionOutputFile] = []
    number = 0
    for file in files:
        name = file.filename
        while is_shown(file) and (name in taken or os.path.lexists(place / name)):
            number += 1
            name = figure(number, name)
        taken.add(name)
        found.append(replace(file, filename=name))
    return found


def _decider(args: argparse.Namespace, project: Project, teller: Teller) -> Ask:
    """Who decides: the option, the person at the terminal, or nobody."""
    from belljar.cli import consent
    from belljar.files.approval import Approval, listing

    if args.yes:
        return Approval.yes if args.overwrite else lambda proposals: Approval.unasked(proposals, project)
    if not args.no_save and not args.json and args.message != "-" and sys.stdin.isatty():
        teller.fresh()
        return consent.ask_at_terminal(project, sys.stdin, sys.stderr)

    def nobody(proposals: Sequence[Any]) -> Approval:
        teller.note(listing(proposals))
        if not args.no_save:
            teller.note("belljar: nothing is saved without your word; to save: --yes")
        return Approval.no()

    return nobody


def _check_archive(args: argparse.Namespace) -> None:
    """What could not be saved in the end is found before the model is asked."""
    if args.zip is None:
        return
    from belljar.files.project import Project

    try:
        there = Project(args.out or Path()).state(args.zip) == "overwrites"
    except WorkspaceError as error:
        raise InvalidRequest(f"--zip: {error}") from None
    if there and args.yes and not args.overwrite:
        raise InvalidRequest(
            f"--zip: {args.zip!r} is there already; to overwrite it: --overwrite, or choose another name"
        )


def _message(given: str) -> str:
    if given == "-":
        try:
            given = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"message: standard input is not UTF-8 text: {error}", param="message") from None
    if not given.strip():
        raise InvalidRequest("message: it is empty; say what to ask", param="message")
    return given


def _url(given: str | None, provider: str) -> str | None:
    """Where a provider is; of a gateway the address that it shows will do, without /v1."""
    if given is None:
        return None
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(given)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname)
        parts.port  # noqa: B018 - read for what it raises
    except ValueError:
        sound = False
    if not sound:
        raise InvalidRequest(f"--url: {given!r} is not an address; write http://HOST:PORT/v1")
    bare = parts.path in ("", "/") and not parts.query
    return f"{given.rstrip('/')}/v1" if bare and provider == "belljar" else given


def _key(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text().strip()
    except OSError as error:
        raise InvalidRequest(f"--key-file: {str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError:
        raise InvalidRequest(f"--key-file: {str(path)!r} is no text; name a file with the key alone") from None
