"""Attempts to get out of the jail, as data, and the runner that tries them.

Owns what `belljar doctor --attack` and tests/escape run: every attack is a short piece of Python that runs inside a
sandbox and says `held: …` or `BROKEN: …`. Anything else than the expected ending counts as not held.
"""

from belljar.sandbox.local.attacks.attack import Attack, Verdict
from belljar.sandbox.local.attacks.ground import ATTACKS, Ground, run_attacks

__all__ = ["ATTACKS", "Attack", "Ground", "Verdict", "run_attacks"]
