"""Measure what a dialect costs an event, beside parsing its JSON alone; exit 1 if a bar is missed.

`.venv/bin/python bench/vendors.py --quick --only gemini`. Each row is a stream of 10,000 events, as the vendor's
recordings have them, decoded from reads of 16 KiB: words of an answer, or pieces of a call's arguments. The floor is
the same payloads through the JSON parser and into nothing. The bars: bench/vendors_bars.toml.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec

from belljar.testing import Call
from belljar.testing.gemini_wire import GeminiWire
from belljar.testing.wires import ChatWire, MessagesWire, ResponsesWire, Wire
from belljar.vendors.deltas import CallPiece, Decoder, Text
from belljar.vendors.registry import WIRES
from belljar.vendors.request import ModelRequest
from belljar.vendors.vendor import GENERIC
from bench import reporting, table
from bench.reporting import say

SCRIPT = Path(__file__).name
BARS = Path(__file__).with_name("vendors_bars.toml")
EVENTS = 10_000
READ = 16 * 1024
SIMULATED: dict[str, type[Wire]] = {
    "chat": ChatWire,
    "openai": ResponsesWire,
    "anthropic": MessagesWire,
    "gemini": GeminiWire,
    "xai": ResponsesWire,
}


def words(wire: Wire) -> bytes:
    return wire.begin() + b"".join(wire.text(f" word{n % 100}") for n in range(EVENTS)) + wire.end()


def arguments(wire: Wire) -> bytes:
    """Eight characters an event, as the wires cut them."""
    code = "x = 12;\\n" * EVENTS
    return wire.begin() + wire.call(Call("code_interpreter", f'{{"code": "{code}"}}')) + wire.end()


def payloads(body: bytes) -> list[bytes]:
    return [line[6:] for line in body.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data: {")]


def decode(make: Callable[[], Decoder], reads: list[bytes]) -> int:
    """How many pieces came out: all of them, or the measure is void."""
    decoder, found = make(), 0
    for read in reads:
        found += sum(isinstance(delta, Text | CallPiece) for delta in decoder.feed(read))
    return found + sum(isinstance(delta, Text | CallPiece) for delta in decoder.close())


def parse(lines: list[bytes]) -> None:
    for line in lines:
        msgspec.json.decode(line)


def seconds(runs: Sequence[Callable[[], object]], samples: int) -> list[float]:
    """The median of each, in time of the processor and without the collector's pauses.

    They take turns, so that what else goes on at the machine falls on all alike.
    """
    found: list[list[float]] = [[] for _ in runs]
    gc.disable()
    try:
        for _ in range(samples):
            for run, taken in zip(runs, found, strict=True):
                began = process_time()
                run()
                taken.append(process_time() - began)
                gc.collect()
    finally:
        gc.enable()
    return list(map(median, found))


def measure(name: str, kind: str, body: bytes, samples: int) -> table.Row:
    dialect = GENERIC.dialect(name, WIRES[name])
    request = ModelRequest(model="sim", items=())
    make = partial(dialect.decoder, request)
    reads = [body[at : at + READ] for at in range(0, len(body), READ)]
    lines = payloads(body)
    pieces = decode(make, reads)
    if pieces < EVENTS:
        raise SystemExit(f"{name}: {pieces} pieces of {EVENTS} came out")
    floor, taken = seconds([lambda: parse(lines), lambda: decode(make, reads)], samples)
    return table.Row(
        name if kind == "words" else f"{name}-{kind}",
        f"an event of {kind}",
        taken / len(lines) * 1e6,
        "us",
        ratio=taken / floor,
        against=f"parsing it, {floor / len(lines) * 1e6:.2f} us",
        n=len(lines),
        note=f"{len(body) / taken / 1e6:.0f} MB/s",
    )


def main() -> int:
    chosen = reporting.parse(reporting.parser(SCRIPT, (__doc__ or "").partition("\n")[0], WIRES))
    load, busy = reporting.look(chosen)
    bars = table.read_bars(BARS.read_text())
    samples = 3 if chosen.quick else 21
    rows: list[table.Row] = []
    for name in WIRES:
        if not chosen.only or name in chosen.only:
            say(f"measuring {name}")
            rows.append(measure(name, "words", words(SIMULATED[name](1)), samples))
            rows.append(measure(name, "arguments", arguments(SIMULATED[name](1)), samples))
    return reporting.report(chosen, SCRIPT, reporting.machine(load), rows, bars, busy=busy)


if __name__ == "__main__":
    sys.exit(main())
