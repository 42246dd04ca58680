"""Alerts and dashboard ask for what a gateway tells at /metrics: every metric, every label, and values that occur."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from tests.deploy.kustomization import ROOT

from belljar.gateway.server.metrics import Histogram, Metrics

DEPLOY = ROOT / "deploy"
OURS = {"job", "instance", "le"}
"""Labels that Prometheus adds."""


def find_alerts() -> dict[str, str]:
    [group] = yaml.safe_load((DEPLOY / "prometheus/rules.yaml").read_text())["groups"]
    return {one["alert"]: one["expr"] for one in group["rules"]}


def find_panels() -> dict[str, Any]:
    board = json.loads((DEPLOY / "grafana/belljar.json").read_text())
    return {one["title"]: one for one in board["panels"]}


def list_expressions() -> dict[str, str]:
    panels = {
        f"{title} {target['refId']}": target["expr"]
        for title, panel in find_panels().items()
        for target in panel["targets"]
    }
    return {**find_alerts(), **panels}


def list_served() -> dict[str, set[str]]:
    """Labels of every series, by the name that Prometheus has it under."""
    found: dict[str, set[str]] = {}
    for one in vars(Metrics()).values():
        ends = ("_bucket", "_sum", "_count") if isinstance(one, Histogram) else ("",)
        found.update({f"{one.name}{end}": set(one.labels) for end in ends})
    return found


@pytest.mark.parametrize("expression", list_expressions().values(), ids=list_expressions().keys())
def test_it_asks_for_what_is_served(expression: str) -> None:
    served = list_served()
    names = set(re.findall(r"\bbelljar_\w+", expression))
    assert names <= served.keys()
    labels = set().union(*(served[name] for name in names)) | OURS
    given = re.findall(r"(\w+)=~?\"", expression)
    given += [one.strip() for by in re.findall(r"\bby \(([^)]*)\)", expression) for one in by.split(",")]
    assert set(filter(None, given)) <= labels
    assert names or expression.startswith(("up{", "sum(up{"))


def test_the_dashboard_shows_every_metric() -> None:
    text = " ".join(target["expr"] for panel in find_panels().values() for target in panel["targets"])
    bare = {one.name for one in vars(Metrics()).values()}
    assert {name for name in bare if name not in text} == set()


def test_the_kinds_that_alerts_name_occur() -> None:
    """As the sandbox tells them, and the gateway counts them."""
    told = (ROOT / "src/belljar/sandbox/explain.py").read_text()
    [kinds] = re.findall(r'exit=~"([^"]+)"', find_alerts()["BelljarCodeIsKilled"])
    for kind in kinds.split("|"):
        assert f'"{kind}"' in told
    app = (ROOT / "src/belljar/gateway/app.py").read_text()
    for state in re.findall(r'state="(\w+)"', " ".join(list_expressions().values())):
        assert f'sandboxes.ask("{state}"' in app


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in find_panels().values():
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    board = json.loads((DEPLOY / "grafana/belljar.json").read_text())
    assert len({one["id"] for one in board["panels"]}) == len(board["panels"])
