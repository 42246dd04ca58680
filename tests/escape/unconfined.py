"""Runs the attacks that do no harm outside any jail, where they must succeed: a name and what it said a line."""

from __future__ import annotations

import json
import os

from belljar.sandbox.local.attacks import ATTACKS
from belljar.sandbox.local.attacks.ground import Tripwires


def main() -> None:
    print(json.dumps({"uid": os.getuid()}), flush=True)
    for attack in ATTACKS:
        if attack.provable:
            with Tripwires() as tripwires:
                said = alone(tripwires.script(attack))
                touched = tripwires.touched()
            print(json.dumps({"name": attack.name, "said": said, "touched": touched}), flush=True)


def alone(script: str) -> str:
    """What a script prints in a process of its own, which it may harm."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(theirs, 1)
        os.dup2(theirs, 2)
        os.close(ours)
        try:
            exec(compile(script, "<cell 1>", "exec"), {"__name__": "__main__"})
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours, encoding="utf-8", errors="replace") as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


if __name__ == "__main__":
    main()
