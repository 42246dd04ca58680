"""Whatever a cell breaks, it is answered, and so is the next."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import Driver


@pytest.mark.parametrize(
    "code",
    [
        "import builtins\nfor n in list(vars(builtins)):\n    if not n.startswith('__'): delattr(builtins, n)",
        "import builtins; vars(builtins).clear()",
        "__builtins__ = {}",
        "del __builtins__",
        "import builtins\nfor n in 'len isinstance str type getattr print repr'.split(): setattr(builtins, n, None)",
        "import sys; sys.modules['json'] = None",
        "import sys; del sys.modules['sys']",
        "import sys; sys.modules.clear()",
        "import json; json.dumps = json.loads = json.JSONEncoder.default = None",
        "import os; os.write = os.dup2 = os._exit = None",
        "import time; time.time = time.monotonic = time.sleep = None",
        "import sys; sys.setrecursionlimit(50)",
        "import sys; sys.settrace(lambda *a: 1 / 0)",
        "import sys; sys.setprofile(lambda *a: None)",
        "import threading; threading.settrace(lambda *a: None)",
        "import gc; gc.disable(); gc.freeze(); gc.set_threshold(1)",
        "import signal; signal.signal(signal.SIGINT, lambda *a: None)",
        "import signal; signal.signal = None",
        "import traceback, linecache; traceback.TracebackException = linecache.cache = None",
        "import asyncio; asyncio.set_event_loop(None)",
        "import sys; sys.excepthook = sys.displayhook = None",
        "import sys; sys.meta_path.clear(); sys.path.clear()",
        "globals().clear()",
        "import sys; sys.stdout = sys.stderr = object()",
        "import warnings; warnings.showwarning = None",
        "def f(n): return n and f(n - 1)\nf(900)",
    ],
)
def test_the_next_cell_is_answered(guest: Driver, code: str) -> None:
    guest.run(code)
    ran = guest.ok("x = 20\nx + 1")
    assert ran.result == "21"
    raised = guest.run("undefined_name")
    assert (raised.status, raised.error["type"]) == ("raised", "NameError")
    assert guest.ok("'ab'").result == "'ab'"


@pytest.mark.parametrize(
    "failure",
    [
        "import builtins; vars(builtins).clear(); 1 / 0",
        "import builtins; builtins.isinstance = builtins.len = None; 1 / 0",
        "import sys; sys.setrecursionlimit(40)\ndef f(): f()\nf()",
        "import traceback; traceback.TracebackException.format = None; 1 / 0",
        "class E(BaseException):\n    __class__ = property(lambda s: 1 / 0)\nraise E",
        "class M(type):\n    __module__ = property(lambda s: 1 / 0)\nclass E(Exception, metaclass=M): ...\nraise E",
        "raise GeneratorExit",
        "e = ValueError(); e.__cause__ = e; raise e",
        "class N(str):\n    def __str__(self): 1 / 0\nraise ImportError(N('x'), name=N('y'))",
        "import sys\nclass C:\n    def __eq__(self, o): 1 / 0\nsys.exit(C())",
    ],
)
def test_failures_are_told_even_so(guest: Driver, failure: str) -> None:
    ran = guest.run(failure)
    assert ran.status == "raised"
    assert ran.error["type"]
    assert guest.ok("1 + 1").result == "2"


def test_numpys_generator_is_not_shared(start: Callable[..., Driver]) -> None:
    code = "import numpy; numpy.random.random()"
    assert start(preload=["numpy"]).ok(code).result != start(preload=["numpy"]).ok(code).result


def test_importing_the_guest_is_cheap(guest: Driver) -> None:
    loaded = guest.ok(
        "import sys; sorted(m for m in sys.modules if m.split('.')[0] in {'numpy', 'pandas', 'matplotlib'})"
    )
    assert loaded.result == "[]"
