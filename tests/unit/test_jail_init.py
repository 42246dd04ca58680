"""Process 1 of the jail outlives whoever it has to tell something."""

from __future__ import annotations

import os

from belljar.sandbox.local import jail_init, messages


def test_a_host_that_has_let_go_of_a_sandbox_stops_nobody() -> None:
    host, inside = messages.pair()
    with inside:
        host.close()
        jail_init._tell(inside.fileno(), {"init": 1}, [inside.fileno()])
        assert os.fstat(inside.fileno())  # it was lent, and is still open


def test_a_host_that_is_there_hears_it() -> None:
    host, inside = messages.pair()
    with host, inside:
        jail_init._tell(inside.fileno(), {"error": "no"})
        assert messages.receive(host) == ({"error": "no"}, [])
