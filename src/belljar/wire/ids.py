"""Make and recognise ids: a prefix that names the kind of object, and enough randomness that nobody guesses one."""

from __future__ import annotations

import random
import re
import secrets
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "resp", "msg", "rs", "ci", "fc", "call", "cmp", "cntr", "cfile", "file", "conv", "ctc", "req", "key", "item", "gw"
]

_BYTES = 24
_RANDOM = re.compile(r"[0-9a-f]{48}")
_LIKE = re.compile(r"[a-zA-Z0-9_-]{1,200}")


def new(kind: Kind) -> str:
    """A new id, such as `resp_68c2…`; uploaded files have a dash there, as on the real wire."""
    return _start(kind) + secrets.token_hex(_BYTES)


def several(kind: Kind, count: int) -> list[str]:
    """New ids: asking the kernel for chance once is much cheaper than once for each."""
    digits = secrets.token_hex(_BYTES * count)
    start = _start(kind)
    return [start + digits[at : at + 2 * _BYTES] for at in range(0, len(digits), 2 * _BYTES)]


def new_request() -> str:
    """A request's id. It opens nothing, so it need not be secret; chance from the kernel costs 20 us."""
    return f"req_{random.getrandbits(128):032x}"


def within(kind: Kind, response_id: str, number: int) -> str:
    """The id of a response's `number`th item: it tells where the item is kept, so that a reference needs no index."""
    return f"{kind}_{response_id.removeprefix('resp_')}{number:04x}"


def home(item_id: str) -> str | None:
    """The response that an id of `within` belongs to."""
    _, _, rest = item_id.partition("_")
    return f"resp_{rest[:48]}" if len(rest) == 52 else None


def beside(kind: Kind, response_id: str) -> str:
    """The id of the one thing of that kind that a response makes for itself: whoever has one id has the other."""
    return f"{kind}_{response_id.removeprefix('resp_')}"


def is_ours(kind: Kind, id: str) -> bool:
    """Whether it has the form that `new` gives; clients in between may have made another of it."""
    return _RANDOM.fullmatch(id.removeprefix(_start(kind))) is not None and id.startswith(_start(kind))


def is_like(kind: Kind, id: str) -> bool:
    """Whether it could be such an id."""
    return _LIKE.fullmatch(id) is not None and id.startswith(_start(kind))


def _start(kind: Kind) -> str:
    return "file-" if kind == "file" else f"{kind}_"
