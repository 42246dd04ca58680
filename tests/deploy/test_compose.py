"""`deploy/compose.yaml`: what Compose knows, real settings, and secrets that both sides have in the same form."""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.deploy.kustomization import ROOT

from belljar import __version__
from belljar.config import Settings

DEPLOY = ROOT / "deploy"
SERVICES = ("gateway", "sandbox")


@pytest.fixture(scope="module")
def project() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_it_is_what_compose_reads(project: Any) -> None:
    """By the schema of the Compose specification, as `check-jsonschema` brings it."""
    schema = json.loads(files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text())
    check = jsonschema.Draft202012Validator(schema)
    assert [f"{error.json_path}: {error.message}" for error in check.iter_errors(project)] == []
    project["services"]["gateway"]["comand"] = []
    assert list(check.iter_errors(project)), "the check can fail"
    del project["services"]["gateway"]["comand"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_setting_is_one_that_belljar_reads(project: Any, name: str) -> None:
    given = {key: str(value) for key, value in project["services"][name]["environment"].items()}
    ours = {key: value for key, value in given.items() if key.startswith("BELLJAR_")}
    settings = Settings.load(environment=ours)
    assert set(settings.origins) == {key.removeprefix("BELLJAR_").lower() for key in ours}
    service = project["services"][name]
    assert service["image"] == f"belljar-{name}:{__version__}"
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    assert service["build"]["target"] == name


def test_what_is_named_is_there(project: Any) -> None:
    """Secrets, networks and volumes of services, and the services that the gateway asks."""
    for service in project["services"].values():
        assert set(service.get("secrets", ())) <= set(project["secrets"])
        assert set(service["networks"]) <= set(project["networks"])
        assert {one.split(":")[0] for one in service.get("volumes", ())} <= set(project["volumes"])
        assert set(service.get("depends_on", ())) <= set(project["services"])
    gateway = project["services"]["gateway"]
    for setting, host in (("BELLJAR_SANDBOX_URL", "sandbox"), ("BELLJAR_BLOBS_ENDPOINT", "objects")):
        assert gateway["environment"][setting].split("/")[2].split(":")[0] == host
        assert set(gateway["networks"]) & set(project["services"][host]["networks"])
    for setting in ("BELLJAR_DATABASE_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        assert Path(gateway["environment"][setting]).name in gateway["secrets"]


def test_code_has_no_way_out_and_nothing_to_find(project: Any) -> None:
    sandbox = project["services"]["sandbox"]
    assert project["networks"]["sandboxes"] == {"internal": True}
    assert sandbox["networks"] == ["sandboxes"]
    assert not {"secrets", "volumes", "ports", "env_file"} & set(sandbox)
    others = [name for name, one in project["services"].items() if "sandboxes" in one["networks"]]
    assert others == ["gateway", "sandbox"]
    for name in SERVICES:
        service = project["services"][name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
    published = [one for service in project["services"].values() for one in service.get("ports", ())]
    assert published == ["127.0.0.1:8787:8787"]


def test_secrets_are_made_once_and_fit_together(project: Any, tmp_path: Path) -> None:
    script = tmp_path / "deploy" / "compose-secrets"
    script.parent.mkdir()
    script.write_bytes((DEPLOY / "compose-secrets").read_bytes())
    subprocess.run(["sh", script], check=True)
    made = {one.name: one.read_text() for one in (script.parent / "secrets").iterdir()}
    assert {Path(one["file"]).name for one in project["secrets"].values()} == set(made)
    assert script.parent.joinpath("secrets").stat().st_mode & 0o777 == 0o700
    database = Settings.load(environment={"BELLJAR_DATABASE": made["database"].strip()}).database
    assert database is not None
    name = project["services"]["database"]["environment"]["POSTGRES_USER"]
    assert f"//{name}:{made['database_password']}@database/" in database
    identity, key = made["objects_key"].split(",")
    assert made["aws"] == f"[default]\naws_access_key_id = {identity}\naws_secret_access_key = {key}\n"
    assert len({made["database_password"], identity, key}) == 3
    subprocess.run(["sh", script], check=True, capture_output=True)
    assert (script.parent / "secrets" / "database").read_text() == made["database"]
