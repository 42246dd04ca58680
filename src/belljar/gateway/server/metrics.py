"""Counters, gauges and histograms, and how Prometheus reads them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Labels = tuple[str, ...]

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


_MOST = 1_000
"""Values of one counter: callers choose the names of models, and each would stay for ever."""
_OTHER = "other"


class Counter:
    """Only goes up."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        self._values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, *labels: str, by: float = 1) -> None:
        value = self._values.get(labels)
        if value is None:
            if len(self._values) >= _MOST:
                labels = (_OTHER,) * len(labels)
            value = self._values.get(labels, 0)
        self._values[labels] = value + by

    def format_lines(self) -> Iterator[str]:
        for labels, value in sorted(self._values.items()):
            yield f"{self.name}{_format_labels(self.labels, labels)} {_format_number(value)}"


class Gauge:
    """Goes up and down, or is asked for when it is read."""

    kind = "gauge"

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        self._values: dict[Labels, float] = {} if labels else {(): 0}
        self._asked: dict[Labels, Callable[[], float]] = {}

    def add(self, *labels: str, by: float = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + by

    def ask(self, *labels: str, how: Callable[[], float]) -> None:
        """From now on, `how` tells the value."""
        self._asked[labels] = how

    def format_lines(self) -> Iterator[str]:
        values = self._values | {labels: how() for labels, how in self._asked.items()}
        for labels, value in sorted(values.items()):
            yield f"{self.name}{_format_labels(self.labels, labels)} {_format_number(value)}"


class Histogram:
    """How often a value was at most each bound."""

    kind = "histogram"

    def __init__(self, name: str, help: str, labels: Labels = (), bounds: Sequence[float] = _SECONDS) -> None:
        self.name, self.help, self.labels = name, help, labels
        self._bounds = tuple(bounds)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def format_lines(self) -> Iterator[str]:
        for labels, counts in sorted(self._counts.items()):
            so_far = 0
            for bound, count in zip((*map(_format_number, self._bounds), "+Inf"), counts, strict=True):
                so_far += count
                yield f"{self.name}_bucket{_format_labels((*self.labels, 'le'), (*labels, bound))} {so_far}"
            yield f"{self.name}_sum{_format_labels(self.labels, labels)} {_format_number(self._sums[labels])}"
            yield f"{self.name}_count{_format_labels(self.labels, labels)} {so_far}"


class Metrics:
    """Everything that is counted."""

    def __init__(self) -> None:
        self.requests = Counter("belljar_http_requests_total", "Requests answered.", ("method", "route", "status"))
        self.seconds = Histogram("belljar_http_request_seconds", "How long they took.", ("method", "route"))
        self.in_flight = Gauge("belljar_http_requests_in_flight", "Requests being answered now.")
        self.sockets = Gauge("belljar_websockets_open", "WebSockets open now.")
        self.turns = Counter("belljar_turns_total", "Times that a model was asked.", ("upstream", "model"))
        self.turn_seconds = Histogram("belljar_turn_seconds", "How long models took to answer.", ("upstream",))
        self.tokens = Counter(
            "belljar_tokens_total", "Tokens that models read and wrote.", ("upstream", "model", "kind")
        )
        self.cells = Counter("belljar_cells_total", "Cells run, by how they ended.", ("exit",))
        self.cell_seconds = Histogram("belljar_cell_seconds", "How long cells ran.")
        self.sandboxes = Gauge("belljar_sandboxes", "Sandboxes, by what they do.", ("state",))
        self.claims_made = Counter("belljar_sandbox_claims_made_total", "Claims on pods of Kubernetes.")
        self.claims_waiting = Gauge("belljar_sandbox_claims_waiting", "Claims that have no pod yet.")
        self.claim_seconds = Histogram(
            "belljar_sandbox_claim_ready_seconds", "How long a pod took, from the pool (warm) or not.", ("launch",)
        )
        self.claims_ended = Counter("belljar_sandbox_claims_ended_total", "Claims that ended here.", ("reason",))
        self.servers_up = Gauge("belljar_sandbox_server_up", "Whether each of several servers is well.", ("server",))
        self.servers_free = Gauge("belljar_sandbox_server_free", "Sandboxes that each may give yet.", ("server",))

    def count_made(self) -> None:
        """A claim was made: this and the next three are what a source of claims tells."""
        self.claims_made.add()

    def count_ready(self, seconds: float, launch: str) -> None:
        self.claim_seconds.observe(seconds, launch)

    def count_ended(self, reason: str) -> None:
        self.claims_ended.add(reason)

    def ask_waiting(self, how: Callable[[], float]) -> None:
        self.claims_waiting.ask(how=how)

    def format_text(self) -> bytes:
        """In Prometheus's text format, version 0.0.4."""
        lines: list[str] = []
        for one in vars(self).values():
            lines += [f"# HELP {one.name} {one.help}", f"# TYPE {one.name} {one.kind}", *one.format_lines()]
        return "".join(f"{line}\n" for line in lines).encode()


def merge(texts: Iterable[bytes]) -> bytes:
    """The sum of what several gateways tell: of every series, in the order of the first that has it."""
    lines: dict[str, float | None] = {}
    for text in texts:
        for line in text.decode().splitlines():
            if line.startswith("#"):
                lines.setdefault(line, None)
            else:
                series, _, value = line.rpartition(" ")
                lines[series] = (lines.get(series) or 0.0) + float(value)
    return "".join(
        f"{line}\n" if value is None else f"{line} {_format_number(value)}\n" for line, value in _group(lines)
    ).encode()


def _group(lines: Mapping[str, float | None]) -> Iterator[tuple[str, float | None]]:
    """Every series below the head of its own: one that only a later gateway has came last."""
    names = [line.split(" ", 3)[2] for line in lines if line.startswith("# HELP")]
    for name in names:
        of = re.compile(rf"(# (HELP|TYPE) {name} |{name}(_bucket|_sum|_count)?(\{{|$))")
        yield from ((line, value) for line, value in lines.items() if of.match(line))


def _format_labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _format_number(value: float) -> str:
    return f"{value:.15g}"
