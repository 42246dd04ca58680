"""The exposition is what Prometheus reads."""

from __future__ import annotations

from belljar.gateway.server.metrics import Counter, Gauge, Histogram, Metrics


def test_a_counter_tells_each_combination_of_labels() -> None:
    counter = Counter("c_total", "Help.", ("route", "status"))
    counter.add("/v1", "200")
    counter.add("/v1", "200", by=2)
    counter.add('"\\\n', "500")
    assert list(counter.format_lines()) == [
        'c_total{route="\\"\\\\\\n",status="500"} 1',
        'c_total{route="/v1",status="200"} 3',
    ]


def test_a_counter_without_labels_begins_at_zero() -> None:
    counter = Counter("c_total", "Help.")
    assert list(counter.format_lines()) == ["c_total 0"]
    counter.add(by=0.5)
    assert list(counter.format_lines()) == ["c_total 0.5"]


def test_a_gauge_goes_down_and_can_be_asked_for() -> None:
    gauge = Gauge("g", "Help.", ("state",))
    gauge.add("idle", by=3)
    gauge.add("idle", by=-1)
    gauge.ask("busy", how=lambda: 7)
    assert list(gauge.format_lines()) == ['g{state="busy"} 7', 'g{state="idle"} 2']


def test_a_histogram_adds_up() -> None:
    histogram = Histogram("h", "Help.", ("route",), bounds=(0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 3.0):
        histogram.observe(value, "/")
    assert list(histogram.format_lines()) == [
        'h_bucket{route="/",le="0.1"} 2',
        'h_bucket{route="/",le="1"} 3',
        'h_bucket{route="/",le="+Inf"} 4',
        'h_sum{route="/"} 3.65',
        'h_count{route="/"} 4',
    ]


def test_everything_is_told_with_help_and_type() -> None:
    text = Metrics().format_text().decode()
    assert text.endswith("\n")
    kinds = [line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE")]
    assert ["belljar_http_requests_total", "counter"] in kinds
    assert ["belljar_http_request_seconds", "histogram"] in kinds
    assert ["belljar_http_requests_in_flight", "gauge"] in kinds
    assert len({name for name, _ in kinds}) == len(kinds)


def test_names_that_callers_make_up_do_not_add_up() -> None:
    counter = Counter("turns", "Turns.", ("upstream", "model"))
    for n in range(3_000):
        counter.add("sim", f"made-up-{n}")
    counter.add("sim", "made-up-7")
    lines = list(counter.format_lines())
    assert len(lines) == 1_001
    assert 'turns{upstream="other",model="other"} 2000' in lines
    assert 'turns{upstream="sim",model="made-up-7"} 2' in lines
