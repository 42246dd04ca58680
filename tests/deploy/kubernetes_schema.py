"""Check an object of Kubernetes against the types of its API: every field is known, has its type, and none is missing.

The types are those of the package `lightkube-models` (Kubernetes 1.37), which are dataclasses; their base class is a
stand-in, so that the client which belongs to them is not needed. Kinds of agent-sandbox are checked against the schemas
that the tests of claims have.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import types
import typing
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from tests.deploy.kustomization import Object

CRDS = Path(__file__).parents[1] / "kubernetes" / "crds.yaml"
AGENT_SANDBOX = "extensions.agents.x-k8s.io/v1beta1"
TEMPLATE = {
    "podTemplate", "volumeClaimTemplates", "service", "networkPolicy", "networkPolicyManagement",
    "envVarsInjectionPolicy", "volumeClaimTemplatesPolicy",
}  # fmt: skip
"""Fields of a SandboxTemplate, where the tests' schema is open."""
_GROUPS = {"": "core", "rbac.authorization.k8s.io": "rbac", "networking.k8s.io": "networking"}


def find_faults(one: Object) -> list[str]:
    """What is wrong with it, each with its place."""
    where = f"{one['kind']}/{one['metadata']['name']}"
    if one["apiVersion"] != AGENT_SANDBOX:
        return _compare(one, find_type(one["apiVersion"], one["kind"]), where)
    faults = _compare(one["metadata"], find_type("meta/v1", "ObjectMeta"), f"{where}.metadata")
    faults += [f"{where}: {error.message}" for error in _validator(one["kind"]).iter_errors(one)]
    if one["kind"] == "SandboxTemplate":
        spec = one["spec"]
        faults += [f"{where}.spec.{name}: is no field" for name in set(spec) - TEMPLATE]
        faults += _compare(spec["podTemplate"], find_type("v1", "PodTemplateSpec"), f"{where}.spec.podTemplate")
        for side in ("ingress", "egress"):
            rule = find_type("networking.k8s.io/v1", f"NetworkPolicy{side.title()}Rule")
            for number, given in enumerate(spec["networkPolicy"][side]):
                faults += _compare(given, rule, f"{where}.spec.networkPolicy.{side}[{number}]")
    return faults


def find_type(api: str, kind: str) -> type:
    _stand_in()
    group, _, version = api.rpartition("/")
    module = importlib.import_module(f"lightkube.models.{_GROUPS.get(group, group)}_{version}")
    found = getattr(module, kind)
    assert isinstance(found, type)
    return found


def _compare(given: Any, wanted: Any, where: str) -> list[str]:
    inner = typing.get_args(wanted)
    if type(None) in inner:
        if given is None:
            return [f"{where}: is empty"]
        inner = tuple(one for one in inner if one is not type(None))
        if len(inner) > 1:
            return [] if type(given) in inner else [f"{where}: {given!r} is none of {inner}"]
        return _compare(given, inner[0], where)
    if typing.get_origin(wanted) is list:
        if not isinstance(given, list):
            return [f"{where}: {given!r} is no list"]
        return [fault for n, one in enumerate(given) for fault in _compare(one, inner[0], f"{where}[{n}]")]
    if not dataclasses.is_dataclass(wanted):
        fits = wanted is object or typing.get_origin(wanted) is not None or type(given) is wanted
        texts = not isinstance(given, dict) or all(isinstance(one, str | int) for one in given.values())
        return [] if fits and texts else [f"{where}: {given!r} is no {wanted}"]
    if not isinstance(given, dict):
        return [f"{where}: {given!r} is no object"]
    known = {one.name.rstrip("_"): one for one in dataclasses.fields(wanted)}
    hints = _hints(typing.cast(type, wanted))
    faults = [f"{where}.{name}: is no field" for name in given if name not in known]
    missing = [
        name for name, one in known.items() if one.default is dataclasses.MISSING and name not in given
    ]  # those with a default are optional
    faults += [f"{where}.{name}: is missing" for name in missing if known[name].default_factory is dataclasses.MISSING]
    for name in known.keys() & given.keys():
        faults += _compare(given[name], hints[known[name].name], f"{where}.{name}")
    return faults


@cache
def _hints(of: type) -> dict[str, Any]:
    return typing.get_type_hints(of)


@cache
def _stand_in() -> None:
    """For the base class of the types, which is the client's."""
    schema = types.ModuleType("lightkube.core.schema")
    vars(schema).update(dataclass=dataclasses.dataclass, field=dataclasses.field, DictMixin=type("DictMixin", (), {}))
    sys.modules.setdefault("lightkube.core", types.ModuleType("lightkube.core"))
    sys.modules.setdefault("lightkube.core.schema", schema)


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    for crd in yaml.safe_load_all(CRDS.read_text()):
        if crd["spec"]["names"]["kind"] == kind:
            return jsonschema.Draft202012Validator(_closed(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))
    raise AssertionError(f"no schema of {kind}")


def _closed(schema: Any, *, top: bool = True) -> Any:
    """Fields that it does not name are refused, as a strict API server does."""
    if not isinstance(schema, dict):
        return schema
    made = {name: _closed(one, top=False) for name, one in schema.items() if name != "properties"}
    if "properties" in schema:
        made["properties"] = {name: _closed(one, top=False) for name, one in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields") and not top:
            made["additionalProperties"] = False
    return made
