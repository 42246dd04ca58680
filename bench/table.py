"""Rows, bars and verdicts: what a run found, what was wanted, and how both are told. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Literal, TypeAlias

BEGIN = "<!-- table: written by bench/{script} --write -->\n"
END = "<!-- end of table -->"

Verdict: TypeAlias = Literal["met", "missed", "absent", ""]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. A row without a value is absent, and its note says why."""

    name: str
    what: str
    value: float | None = None
    unit: str = "ms"
    ratio: float | None = None
    against: str = ""
    n: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """What a row is held to: any one of the marks suffices."""

    least: Mapping[str, float] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)

    def met(self, row: Row) -> bool:
        found = {"value": row.value, "ratio": row.ratio}
        high = any((got := found[of]) is not None and got >= mark for of, mark in self.least.items())
        return high or any((got := found[of]) is not None and got <= mark for of, mark in self.most.items())

    def tell(self, unit: str) -> str:
        units = {"value": unit, "ratio": "×"}
        marks = [("≥", of, mark) for of, mark in self.least.items()] + [
            ("≤", of, mark) for of, mark in self.most.items()
        ]
        return " or ".join(f"{sign} {mark:g} {units[of]}" for sign, of, mark in marks)


def read_bars(text: str) -> dict[str, Bar]:
    """The bars by row; `ValueError` for a bar that could never be judged."""
    bars = {}
    for name, marks in tomllib.loads(text).items():
        bar = Bar(**marks)
        if not {*bar.least, *bar.most} or not {*bar.least, *bar.most} <= {"value", "ratio"}:
            raise ValueError(f"bar {name!r}: wants a `value` or a `ratio`")
        bars[name] = bar
    return bars


def verdict(row: Row, bars: Mapping[str, Bar]) -> Verdict:
    if row.value is None:
        return "absent"
    if row.name not in bars:
        return ""
    return "met" if bars[row.name].met(row) else "missed"


def missed(rows: Iterable[Row], bars: Mapping[str, Bar]) -> list[Row]:
    return [row for row in rows if verdict(row, bars) == "missed"]


def unmeasured(rows: Iterable[Row], bars: Mapping[str, Bar]) -> list[str]:
    """Bars that this run says nothing about."""
    seen = {row.name for row in rows if row.value is not None}
    return [name for name in bars if name not in seen]


def render(rows: Sequence[Row], bars: Mapping[str, Bar]) -> str:
    """A Markdown table, readable in a terminal as well."""
    head = ("row", "what", "measured", "against", "ratio", "bar", "", "n", "more")
    lines = [head, *(_cells(row, bars) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    drawn = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    drawn.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(line.rstrip() for line in drawn) + "\n"


def _cells(row: Row, bars: Mapping[str, Bar]) -> tuple[str, ...]:
    bar = bars[row.name].tell(row.unit) if row.name in bars else ""
    verdicts = {"met": "met", "missed": "**missed**", "absent": "absent", "": ""}
    return (
        row.name,
        row.what,
        "" if row.value is None else f"{number(row.value)} {row.unit}",
        row.against,
        "" if row.ratio is None else f"{number(row.ratio)} ×",
        bar,
        verdicts[verdict(row, bars)],
        str(row.n) if row.n else "",
        row.note,
    )


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0 or not abs(value) < 1e15:
        return f"{value:g}"
    digits = 3 - len(str(int(abs(value)))) if abs(value) >= 1 else 3
    return f"{value:,.{max(0, digits)}f}"


def as_data(rows: Sequence[Row], bars: Mapping[str, Bar]) -> list[dict[str, object]]:
    """The same for machines."""
    return [
        {
            "name": row.name,
            "what": row.what,
            "value": row.value,
            "unit": row.unit,
            "ratio": row.ratio,
            "against": row.against,
            "n": row.n,
            "note": row.note,
            "bar": bars[row.name].tell(row.unit) if row.name in bars else None,
            "verdict": verdict(row, bars) or None,
        }
        for row in rows
    ]


def replace_block(page: str, block: str, script: str) -> str:
    """The page with everything between the two markers of this script replaced."""
    begin = BEGIN.format(script=script)
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"the page has no block to write to: {begin.strip()} … {END}")
    return f"{before}{begin}{block.rstrip()}\n{END}{after}"


def ms(seconds: Sequence[float]) -> float:
    """The median, in milliseconds."""
    return median(seconds) * 1e3


def p95(seconds: Sequence[float]) -> float:
    return (quantiles(seconds, n=20, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]) * 1e3
