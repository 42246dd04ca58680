"""The flags that set settings, and the settings loaded with them: flags over environment over file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from belljar.config import Settings
from belljar.errors import BadSettings, InvalidRequest


def load_settings(flags: Mapping[str, object], *, file: str | None = None) -> Settings:
    """A wrong flag is the caller's fault, a wrong file or variable the operator's."""
    Settings.load(file=file)
    try:
        return Settings.load(flags=flags, file=file)
    except BadSettings as error:
        raise InvalidRequest(str(error)) from None


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="the settings file, in place of the user's own")


def add_packages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--packages",
        metavar="KIND",
        help="what code finds installed: data (the data stack), none (the standard library), or auto, what there is of "
        "the stack (auto)",
    )


WHERE = ("sandbox_url", "sandbox_warm_pool", "sandbox_namespace")
"""What the flags of `add_sandbox_url` and `add_warm_pool` set."""


def add_sandbox_url(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sandbox-url",
        action="append",
        metavar="URL",
        help="run code on this sandbox server (see: belljar sandbox); several times for several servers",
    )


def add_warm_pool(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sandbox-warm-pool",
        metavar="NAME",
        help="run code in pods claimed from this warm pool of Kubernetes, or from one for each tier of memory: "
        "1g=small,4g=large",
    )
    parser.add_argument("--sandbox-namespace", metavar="NAME", help="the namespace of that pool (default)")


def add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-dir", type=os.path.abspath, metavar="DIR", help="the database and the files (~/.local/state/belljar)"
    )
    parser.add_argument(
        "--database",
        metavar="URL",
        help="a PostgreSQL that several gateways share: postgresql://USER@HOST/NAME; with a password: BELLJAR_DATABASE",
    )


def add_blobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--blobs", metavar="s3://BUCKET/PREFIX", help="keep the bytes of files in a bucket, in place of --state-dir"
    )
