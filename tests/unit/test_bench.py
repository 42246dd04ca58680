"""The benchmark's table and verdicts. Nothing here is timed."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from bench import processes, table
from bench.measures import MEASURES
from bench.table import END, Bar, Row

BEGIN = table.BEGIN.format(script="sandbox.py")

BARS = table.read_bars((Path(__file__).parents[2] / "bench/bars.toml").read_text())
FAST = Row("cell-apart", "round trip", 0.2, ratio=3.0, against="echo, 0.067 ms", n=1000, note="p95 0.3")
SLOW = Row("create", "create", 30.0, ratio=3.01)


@pytest.mark.parametrize(
    ("bar", "row", "met"),
    [
        (Bar(most={"ratio": 3}), Row("x", "", 9.0, ratio=3.0), True),
        (Bar(most={"ratio": 3}), Row("x", "", 9.0, ratio=3.001), False),
        (Bar(most={"ratio": 3}), Row("x", "", 1.0), False),  # without a floor nothing is proven
        (Bar(most={"value": 2}), Row("x", "", 1.9, ratio=100.0), True),
        (Bar(least={"ratio": 60}), Row("x", "", 10.0, ratio=60.0), True),
        (Bar(least={"ratio": 60}), Row("x", "", 10.0, ratio=59.9), False),
        (Bar(least={"value": 300, "ratio": 0.5}), Row("x", "", 299.0, "MB/s", ratio=0.5), True),
        (Bar(least={"value": 300, "ratio": 0.5}), Row("x", "", 300.0, "MB/s", ratio=0.1), True),
        (Bar(least={"value": 300, "ratio": 0.5}), Row("x", "", 299.0, "MB/s", ratio=0.4), False),
    ],
)
def test_a_bar_is_met_by_any_of_its_marks(bar: Bar, row: Row, met: bool) -> None:
    assert bar.met(row) is met


def test_verdicts() -> None:
    absent = Row("cell-jupyter", "peer", note="ImportError: no")
    rows = [FAST, SLOW, absent, Row("destroy", "information", 5.0)]
    assert [table.verdict(row, BARS) for row in rows] == ["met", "missed", "absent", ""]
    assert table.missed(rows, BARS) == [SLOW]


def test_an_absent_row_is_neither_zero_nor_missed() -> None:
    absent = Row("cell-jupyter", "peer", note="ImportError: no")
    assert table.missed([absent], BARS) == []
    assert "cell-jupyter" in table.unmeasured([absent], BARS)
    (line,) = [line for line in table.render([absent], BARS).splitlines() if "peer" in line]
    assert "absent" in line
    assert "ImportError: no" in line
    assert " 0 " not in line


def test_a_bar_tells_its_units() -> None:
    assert BARS["drain"].tell("MB/s") == "≥ 300 MB/s or ≥ 0.5 ×"
    assert BARS["warm-claim"].tell("ms") == "≤ 2 ms"
    assert BARS["create"].tell("ms") == "≤ 3 ×"


@pytest.mark.parametrize("text", ["[x]", "[x]\nmost = {}", "[x]\nmost = { seconds = 1 }"])
def test_a_bar_that_cannot_be_judged_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bar 'x'"):
        table.read_bars(text)


def test_every_bar_belongs_to_a_measure() -> None:
    assert all(any(name == key or name.startswith(f"{key}-") for key in MEASURES) for name in BARS)
    assert all(any(bar.startswith(measure) for bar in BARS) for measure in MEASURES)


def test_the_table_is_markdown() -> None:
    lines = table.render([FAST, SLOW], BARS).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert lines[1].strip("|-") == ""
    assert "| 0.200 ms " in lines[2]
    assert "| 3.00 × " in lines[2]
    assert "| met " in lines[2]
    assert "| **missed** " in lines[3]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0"),
        (0.0134, "0.013"),
        (0.5, "0.500"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (12345.6, "12,346"),
    ],
)
def test_numbers_are_short(value: float, told: str) -> None:
    assert table.number(value) == told


def test_data_for_machines() -> None:
    first, second = json.loads(json.dumps(table.as_data([FAST, Row("cell-jupyter", "peer")], BARS)))
    assert first["verdict"] == "met"
    assert first["bar"] == "≤ 5 ×"
    assert second["value"] is None
    assert second["verdict"] == "absent"


def test_only_the_block_is_replaced() -> None:
    page = f"# Speed\n\n{BEGIN}old\nlines\n{END}\n\nThe end.\n"
    fresh = table.replace_block(page, "| new |\n", "sandbox.py")
    assert fresh == f"# Speed\n\n{BEGIN}| new |\n{END}\n\nThe end.\n"
    assert table.replace_block(fresh, "| new |", "sandbox.py") == fresh


@pytest.mark.parametrize("page", ["no markers", BEGIN, END])
def test_a_page_without_the_block_is_left_alone(page: str) -> None:
    with pytest.raises(ValueError, match="no block"):
        table.replace_block(page, "x", "sandbox.py")


@pytest.mark.parametrize("script", ["sandbox.py", "gateway.py"])
def test_the_page_has_the_block(script: str) -> None:
    page = (Path(__file__).parents[2] / "docs/performance.md").read_text()
    assert "| new |" in table.replace_block(page, "| new |", script)


def test_the_bars_of_the_gateway_are_for_rows_that_it_has() -> None:
    bars = table.read_bars((Path(__file__).parents[2] / "bench/gateway_bars.toml").read_text())
    source = (Path(__file__).parents[2] / "bench/gateway_measures.py").read_text()
    assert [name for name in bars if f'"{name}"' not in source] == []


def test_medians() -> None:
    assert table.ms([0.001, 0.002, 0.9]) == 2.0
    assert table.p95([0.004]) == 4.0
    assert table.p95([i / 1000 for i in range(101)]) == pytest.approx(95.0)


def test_a_process_that_never_was_does_not_exist() -> None:
    assert not processes.exists(processes.Process(2**22 + 1, "0"))


def test_processor_time_of_little_work_is_not_none() -> None:
    before = processes.spent(os.getpid())
    assert sum(range(1_000)) > 0
    assert processes.spent(os.getpid()) > before


def test_processor_time_of_a_process_that_is_gone() -> None:
    with subprocess.Popen(["true"]) as process:
        pass
    with pytest.raises(OSError, match="Invalid argument"):
        processes.spent(process.pid)
