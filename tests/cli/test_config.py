"""`belljar config`: what is in effect, where it came from, and nothing of what is secret."""

import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import Command

FILE = """
port: 9000
index: https://me:secret@index.example/simple
upstreams:
  vllm:
    base_url: http://gpu.example:8000/v1
    api_key: secret
    models: [qwen3-*]
providers:
  code_interpreter:
    settings:
      execution_timeout: 90s
"""


@pytest.fixture
def file(belljar: Command) -> Path:
    path = belljar.directory / "mine.yaml"
    path.write_text(FILE)
    return path


def test_the_table(belljar: Command, file: Path) -> None:
    belljar.environment["BELLJAR_WARM"] = "0"
    belljar.environment["OPENAI_API_KEY"] = "secret"
    ran = belljar("config", "--config", str(file))
    assert (ran.returncode, ran.stderr) == (0, "")
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in ran.stdout.splitlines()}
    assert rows["port"] == ["9000", str(file)]
    assert rows["warm"] == ["0", "environment variable BELLJAR_WARM"]
    assert rows["timeout"] == ["90", f"providers.code_interpreter.settings.execution_timeout in {file}"]
    assert rows["largest_upload"] == ["512m", "default"]
    assert rows["index"] == ["********", str(file)]
    assert rows["allow"] == ["none", "default"]
    assert rows["discover"] == ["true", "default"]
    assert "http://gpu.example:8000/v1 (chat, with a key, qwen3-*)" in ran.stdout
    assert "secret" not in ran.stdout


def test_the_same_as_data(belljar: Command, file: Path) -> None:
    ran = belljar("config", "--json", "--config", str(file))
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["file"], told["problem"]) == (0, str(file), None)
    assert (told["settings"]["port"], told["origins"]["port"]) == (9000, str(file))
    assert (told["settings"]["host"], told["origins"]["host"]) == ("127.0.0.1", "default")
    assert told["settings"]["upstreams"][0]["api_key"] == "********"
    assert "secret" not in ran.stdout


def test_without_a_file(belljar: Command) -> None:
    assert json.loads(belljar("config", "--json").stdout)["file"] is None
    assert belljar("config", "--check").stdout == "sound: no file\n"


def test_sound_settings(belljar: Command, file: Path) -> None:
    belljar.environment["BELLJAR_CONFIG"] = str(file)
    assert belljar("config", "--check").stdout == f"sound: {file}\n"
    assert json.loads(belljar("config", "--check", "--json").stdout) == {"ok": True, "file": str(file)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot: 1", "prot: there is no such setting ({file}); did you mean port?"),
        ("providers:\n  python: {}", "providers.python: there is no such setting ({file}); known is "),
        (
            "providers:\n  code_interpreter:\n    settings: {sandbox_url: http://x, sandbox_template: y}",
            "providers.code_interpreter.settings.sandbox_url and "
            "providers.code_interpreter.settings.sandbox_template are both set ({file}); leave one of them out",
        ),
        (
            "sandbox_warm_pool: x\nsandbox_template: y",
            "sandbox_warm_pool and sandbox_template are both set ({file}); leave one of them out",
        ),
        (
            "sandbox_warm_pool: My Pool",
            "sandbox_warm_pool: 'My Pool' is not a name of Kubernetes: at most 63 small letters, digits and '-', or "
            "none ({file}); change it or leave it out",
        ),
        (
            "sandbox_warm_pool: {1g: small, 2g: large}",
            "sandbox_warm_pool: {{'1g': 'small', '2g': 'large'}} is not a pool for each tier, such as "
            "1g=small,4g=large, with tiers of 1g, 4g, 16g, 64g, or none ({file}); change it or leave it out",
        ),
        (
            "upstreams: {x: {base_url: http://x, api_key_env: NOT_THERE}}",
            "upstreams.x.api_key_env: NOT_THERE is not set",
        ),
    ],
)
def test_settings_that_are_not(belljar: Command, file: Path, text: str, message: str) -> None:
    file.write_text(text)
    for command in ("config", "--check"), ("serve",):
        ran = belljar(*command, "--config", str(file))
        assert (ran.returncode, ran.stdout) == (3, "")
        assert ran.stderr.startswith(f"belljar: error: {message.format(file=file)}")
    ran = belljar("config", "--check", "--json", "--config", str(file))
    assert (ran.returncode, json.loads(ran.stdout)["code"]) == (3, "bad_settings")


def test_settings_that_no_gateway_can_have_are_shown_and_said_to_be_wrong(belljar: Command, file: Path) -> None:
    file.write_text("project: /not/there")
    ran = belljar("config", "--config", str(file))
    assert ran.returncode == 3
    assert re.search(r"^ *project +/not/there", ran.stdout, re.MULTILINE)
    assert ran.stderr.startswith("belljar: error: project: '/not/there' is not a directory")
    ran = belljar("config", "--json", "--config", str(file))
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["settings"]["project"]) == (3, "/not/there")
    assert told["problem"].startswith("project: '/not/there' is not a directory")


def test_a_sandbox_server_is_shown_and_its_token_is_not(belljar: Command, file: Path) -> None:
    settings = "{sandbox_url: 'http://x:8080', claim_timeout: 5s}"
    file.write_text(f"sandbox_token: s3cret\nproviders:\n  code_interpreter:\n    settings: {settings}")
    assert belljar("config", "--check", "--config", str(file)).stdout == f"sound: {file}\n"
    ran = belljar("config", "--config", str(file))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "sandbox_url           http://x:8080" in ran.stdout
    assert "sandbox_token         ********" in ran.stdout
    assert "s3cret" not in ran.stdout


def test_a_file_that_is_not_there(belljar: Command) -> None:
    ran = belljar("config", "--config", "nowhere.yaml")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "--config: there is no file 'nowhere.yaml'; name one that is there or leave it out" in ran.stderr
