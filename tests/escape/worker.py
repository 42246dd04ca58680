"""Tries attacks as the user it was started as: a name a line in, a verdict a line out."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from belljar.sandbox.local.attacks import ATTACKS, Ground
from belljar.sandbox.local.source import JailOptions, LocalSource


def main() -> None:
    source = LocalSource(JailOptions(cache=Path(sys.argv[1])))
    by_name = {attack.name: attack for attack in ATTACKS}
    try:
        with Ground(source) as ground:
            say(uid=os.getuid(), groups=os.getgroups())
            for line in sys.stdin:
                verdict = ground.attempt(by_name[line.strip()])
                say(name=verdict.attack.name, held=verdict.held, detail=verdict.detail)
    finally:
        source.shut()


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
