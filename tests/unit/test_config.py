"""Settings: four layers, each value with its origin, and every mistake named with its remedy."""

import json
import os
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from belljar import config
from belljar.config import Settings, Upstream, read_warm_pools
from belljar.errors import BadSettings

CODE = "providers.code_interpreter"
SET = f"{CODE}.settings"


def load(tmp_path: Path, *, file: str | None = None, name: str = "config.toml", **variables: str) -> Settings:
    environment = {"HOME": str(tmp_path), **variables}
    if file is not None:
        path = tmp_path / ".config/belljar" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file)
    return Settings.load(environment=environment)


def test_the_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings.cache_dir == tmp_path / ".cache/belljar"
    assert (settings.max_sandboxes, settings.warm, settings.memory, settings.timeout) == (256, 2, "1g", 60.0)
    assert (settings.index, settings.find_links, settings.offline, settings.allow) == (None, (), False, None)
    assert (settings.requirements_count, settings.requirements_size) == (50, 1 << 30)
    assert (settings.requirements_timeout, settings.exclude_newer) == (120.0, None)
    assert dict(settings.origins) == {}


def test_file_then_environment_then_flags(tmp_path: Path) -> None:
    file = 'memory = "2g"\ntimeout = 30\nwarm = 0\n'
    path = tmp_path / ".config/belljar/config.toml"
    settings = load(tmp_path, file=file, BELLJAR_TIMEOUT="40", BELLJAR_WARM="1")
    assert (settings.memory, settings.timeout, settings.warm) == ("2g", 40.0, 1)
    environment = {"HOME": str(tmp_path), "BELLJAR_TIMEOUT": "40", "BELLJAR_WARM": "1"}
    settings = Settings.load(environment=environment, flags={"warm": 5, "memory": None})
    assert (settings.memory, settings.timeout, settings.warm) == ("2g", 40.0, 5)
    assert dict(settings.origins) == {
        "memory": str(path),
        "timeout": "environment variable BELLJAR_TIMEOUT",
        "warm": "--warm",
    }


def test_every_value_of_a_file(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        file="""
cache_dir = "~/c"
max_sandboxes = 9
memory = 536870912
timeout = "none"
index = "https://u:secret@example.com/simple"
find_links = ["/wheels", "https://example.com/w"]
offline = true
allow = ["polars"]
exclude_newer = "2026-01-01T00:00:00Z"
requirements_count = 3
requirements_size = "1.5g"
requirements_timeout = 2.5
""",
    )
    assert settings.cache_dir == Path(os.path.expanduser("~/c"))
    assert (settings.max_sandboxes, settings.memory, settings.timeout) == (9, "536870912", None)
    assert settings.index == "https://u:secret@example.com/simple"
    assert settings.find_links == ("/wheels", "https://example.com/w")
    assert (settings.offline, settings.allow, settings.exclude_newer) == (True, ("polars",), "2026-01-01T00:00:00Z")
    assert (settings.requirements_count, settings.requirements_size) == (3, 3 << 29)
    assert settings.requirements_timeout == 2.5


def test_every_value_of_the_environment(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        BELLJAR_CACHE_DIR="/c",
        BELLJAR_FIND_LINKS="/a, /b",
        BELLJAR_OFFLINE="Yes",
        BELLJAR_ALLOW="",
        BELLJAR_TIMEOUT="none",
        BELLJAR_REQUIREMENTS_SIZE="10MiB",
    )
    assert (settings.cache_dir, settings.find_links, settings.offline) == (Path("/c"), ("/a", "/b"), True)
    assert (settings.allow, settings.timeout, settings.requirements_size) == ((), None, 10 << 20)


def test_the_gateways_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert (settings.host, settings.port, settings.state_dir) == ("127.0.0.1", 8787, tmp_path / ".local/state/belljar")
    assert (settings.upstreams, settings.discover, settings.deadline, settings.max_turns) == ((), True, 1800.0, 50)
    assert (settings.code_interpreter, settings.executor, settings.isolation) == (True, "belljar", "per_container")
    assert (settings.container_memory, settings.container_minutes) == ("1g", 20)
    assert (settings.sandbox_url, settings.sandbox_template) == (None, None)
    assert (settings.sandbox_namespace, settings.claim_timeout) == ("default", 30.0)
    assert (settings.largest_body, settings.largest_upload) == (64 << 20, 512 << 20)
    assert (settings.page, settings.allowed_origins, settings.ping, settings.drain) == (True, (), 15.0, 10.0)
    assert (settings.log_level, settings.log_format) == ("info", "text")
    quotas = (settings.quota_requests, settings.quota_responses, settings.quota_sandboxes, settings.quota_bytes)
    assert quotas == (None, None, None, None)


def test_every_value_of_a_gateways_file(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        name="config.yaml",
        file="""
host: 0.0.0.0
port: 80
state_dir: ~/s
page: false
allowed_origins: ["https://example.org", "http://localhost:3000"]
largest_body: 10MB
largest_upload: 1g
ping: 500ms
drain: 1.5
log_level: debug
log_format: json
discover: false
deadline: 1h
max_turns: 3
code_interpreter: false
executor: provider
isolation: per_call
container_memory: 4g
container_minutes: 5
sandbox_url: http://sandbox:8080/
sandbox_namespace: code
claim_timeout: 5m
quota_requests: 60
quota_responses: 4
quota_sandboxes: 8
quota_bytes: 2 GiB
""",
    )
    assert (settings.host, settings.port, settings.page) == ("0.0.0.0", 80, False)
    assert settings.state_dir == Path(os.path.expanduser("~/s"))
    assert settings.allowed_origins == ("https://example.org", "http://localhost:3000")
    assert (settings.largest_body, settings.largest_upload) == (10 << 20, 1 << 30)
    assert (settings.ping, settings.drain, settings.deadline, settings.claim_timeout) == (0.5, 1.5, 3600.0, 300.0)
    assert (settings.log_level, settings.log_format, settings.discover) == ("debug", "json", False)
    assert (settings.max_turns, settings.code_interpreter, settings.executor) == (3, False, "provider")
    assert (settings.isolation, settings.container_memory, settings.container_minutes) == ("per_call", "4g", 5)
    assert (settings.sandbox_url, settings.sandbox_namespace) == (("http://sandbox:8080",), "code")
    quotas = (settings.quota_requests, settings.quota_responses, settings.quota_sandboxes, settings.quota_bytes)
    assert quotas == (60, 4, 8, 2 << 30)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30.0), ("500ms", 0.5), ("5m", 300.0), ("2h", 7200.0), ("1.5", 1.5), (" 7 S ", 7.0)]
)
def test_times(tmp_path: Path, text: str, seconds: float) -> None:
    assert load(tmp_path, BELLJAR_DEADLINE=text).deadline == seconds


@pytest.mark.parametrize("name", ["config.yaml", "config.yml"])
def test_yaml(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, file="memory: 4g\nallow:\n  - polars\n", name=name).allow == ("polars",)
    assert load(tmp_path, file="", name=name).memory == "1g"


def test_the_file_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("warm = 7")
    assert load(tmp_path, BELLJAR_CONFIG=str(path)).warm == 7
    with pytest.raises(
        BadSettings, match="BELLJAR_CONFIG: there is no file '/nowhere'; name one that is there or unset"
    ):
        load(tmp_path, BELLJAR_CONFIG="/nowhere")


def test_the_file_may_be_an_option(tmp_path: Path) -> None:
    """Which counts more than the variable."""
    (tmp_path / "one.toml").write_text("warm = 1")
    (tmp_path / "two.yaml").write_text("warm: 2")
    environment = {"HOME": str(tmp_path), "BELLJAR_CONFIG": str(tmp_path / "one.toml")}
    settings = Settings.load(environment=environment, file=str(tmp_path / "two.yaml"))
    assert (settings.warm, settings.origins["warm"]) == (2, str(tmp_path / "two.yaml"))
    with pytest.raises(BadSettings, match="--config: there is no file '/nowhere'; name one that is there or leave it"):
        Settings.load(environment=environment, file="/nowhere")


def test_the_base_directories(tmp_path: Path) -> None:
    (tmp_path / "x/belljar").mkdir(parents=True)
    (tmp_path / "x/belljar/config.toml").write_text("warm = 7")
    settings = load(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "x"), XDG_CACHE_HOME="/caches")
    assert (settings.warm, settings.cache_dir) == (7, Path("/caches/belljar"))
    assert load(tmp_path, XDG_CACHE_HOME="relative").cache_dir == tmp_path / ".cache/belljar"


def test_no_home_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(BadSettings, match="cache_dir: this user has no home directory; set BELLJAR_CACHE_DIR"):
        Settings.load(environment={})
    settings = Settings.load(environment={"BELLJAR_CACHE_DIR": "/c"})
    assert (settings.cache_dir, settings.state_dir) == (Path("/c"), Path("/var/lib/belljar"))


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("BELLJAR_MEMROY", "1g", r"memroy: there is no such setting \(.* BELLJAR_MEMROY\); did you mean memory\?"),
        ("BELLJAR_ZZZ", "1", r"zzz: there is no such setting \(.* BELLJAR_ZZZ\); known are host, "),
        ("BELLJAR_WARM", "-1", r"warm: '-1' is not a whole number, 0 or more \(environment variable .*\); change it"),
        ("BELLJAR_MAX_SANDBOXES", "0", "max_sandboxes: '0' is not a whole number, 1 or more"),
        ("BELLJAR_MAX_SANDBOXES", "1.5", "is not a whole number"),
        ("BELLJAR_MEMORY", "big", "memory: 'big' is not a size"),
        ("BELLJAR_MEMORY", "0", "memory: '0' is not a size"),
        ("BELLJAR_TIMEOUT", "0", "timeout: '0' is not a number of seconds above 0, or none"),
        ("BELLJAR_TIMEOUT", "nan", "timeout: 'nan' is not a number of seconds"),
        ("BELLJAR_REQUIREMENTS_TIMEOUT", "none", "requirements_timeout: 'none' is not a number of seconds above 0 "),
        ("BELLJAR_OFFLINE", "perhaps", "offline: 'perhaps' is not true or false"),
        ("BELLJAR_CACHE_DIR", "here", "cache_dir: 'here' is not an absolute path"),
        ("BELLJAR_INDEX", " ", "index: the value is not a text that is not empty"),
        ("BELLJAR_PORT", "65536", "port: '65536' is not a whole number from 0 to 65535 "),
        ("BELLJAR_PORT", "-1", "port: '-1' is not a whole number from 0 to 65535 "),
        ("BELLJAR_HOST", "", "host: '' is not a text that is not empty"),
        ("BELLJAR_STATE_DIR", "here", "state_dir: 'here' is not an absolute path"),
        ("BELLJAR_PAGE", "maybe", "page: 'maybe' is not true or false"),
        ("BELLJAR_ALLOWED_ORIGINS", "https://x/y", "allowed_origins: 'https://x/y' is not a list of origins such as "),
        ("BELLJAR_ALLOWED_ORIGINS", "*", r"allowed_origins: '\*' is not a list of origins such as "),
        ("BELLJAR_LARGEST_UPLOAD", "much", "largest_upload: 'much' is not a size"),
        ("BELLJAR_PING", "0s", "ping: '0s' is not a number of seconds above 0"),
        ("BELLJAR_DEADLINE", "30 parsecs", "deadline: '30 parsecs' is not a number of seconds above 0"),
        ("BELLJAR_MAX_TURNS", "0", "max_turns: '0' is not a whole number, 1 or more"),
        ("BELLJAR_LOG_LEVEL", "loud", "log_level: 'loud' is not one of debug, info, warning, error "),
        ("BELLJAR_LOG_FORMAT", "xml", "log_format: 'xml' is not one of text, json "),
        ("BELLJAR_EXECUTOR", "me", "executor: 'me' is not one of belljar, provider "),
        ("BELLJAR_ISOLATION", "none", "isolation: 'none' is not one of per_container, per_call "),
        ("BELLJAR_CONTAINER_MEMORY", "8g", "container_memory: '8g' is not one of 1g, 4g, 16g, 64g "),
        ("BELLJAR_QUOTA_REQUESTS", "0", "quota_requests: '0' is not a whole number, 1 or more, or none "),
        ("BELLJAR_QUOTA_BYTES", "0", "quota_bytes: '0' is not a size: .*, or none "),
        ("BELLJAR_SANDBOX_URL", "ftp://x", "sandbox_url: 'ftp://x' is not an address such as .*, or none "),
        ("BELLJAR_PROVIDERS", "x", "providers: there is no such setting"),
        ("BELLJAR_MAX-TURNS", "3", "max-turns: there is no such setting .*; did you mean max_turns"),
        ("BELLJAR_PROVIDER_VARIABLES", "x", "provider_variables: there is no such setting"),
        ("BELLJAR_FETCH_VARIABLES", "x", "fetch_variables: there is no such setting"),
    ],
)  # fmt: skip
def test_mistakes_in_the_environment(tmp_path: Path, variable: str, value: str, message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        load(tmp_path, **{variable: value})


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("warm = true", r"warm: True is not a whole number, 0 or more \(.*config\.toml\); change it or leave it out"),
        ('find_links = [1]', r"find_links: \[1\] is not a list of texts"),
        ("[sandbox]\nmemory = '1g'", r"^sandbox\.memory: there is no such setting \(.*\); did you mean memory\?$"),
        ("[server]\nread_timeout = 3", r"^server: there is no such setting \(.*config\.toml\); known are host, port, "),
        ("[upstream.x]\nbase_url = 'http://x'", r"^upstream: there is no such setting .*; did you mean upstreams\?$"),
        ("memory = ", r"config: .*config\.toml cannot be read: .*; mend or remove it"),
        ("index = 3", "index: the value is not a text"),
        ("cache_dir = 3", "cache_dir: 3 is not a text"),
    ],
)  # fmt: skip
def test_mistakes_in_the_file(tmp_path: Path, file: str, message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        load(tmp_path, file=file)


def test_mistakes_in_yaml(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="does not hold names and values"):
        load(tmp_path, file="- a", name="config.yaml")
    with pytest.raises(BadSettings, match=r"is not YAML: .*; mend or remove it"):
        load(tmp_path, file="{", name="config.yaml")


def test_two_files_are_one_too_many(tmp_path: Path) -> None:
    load(tmp_path, file="", name="config.yaml")
    with pytest.raises(BadSettings, match=r"there are both .*config\.toml and config\.yaml; remove one"):
        load(tmp_path, file="")


# -- the founding keys -----------------------------------------------------------------------------------------------


def test_a_provider_is_configured_as_the_founding_documents_do(tmp_path: Path) -> None:
    file = """
providers:
  code_interpreter:
    enabled: true
    settings:
      sandbox_template: python
      sandbox_namespace: code
      execution_timeout: 90s
      claim_timeout: 15
"""
    settings = load(tmp_path, file=file, name="config.yaml")
    assert (settings.code_interpreter, settings.sandbox_template, settings.sandbox_url) == (True, "python", None)
    assert (settings.sandbox_namespace, settings.timeout, settings.claim_timeout) == ("code", 90.0, 15.0)
    path = tmp_path / ".config/belljar/config.yaml"
    assert settings.origins["timeout"] == f"{SET}.execution_timeout in {path}"
    assert load(tmp_path, BELLJAR_TIMEOUT="7").timeout == 7.0
    toml = f"[{SET}]\nsandbox_url = 'http://127.0.0.1:8080'"
    path.unlink()
    assert load(tmp_path, file=toml).sandbox_url == ("http://127.0.0.1:8080",)


@pytest.mark.parametrize(
    "file", ["providers:", "providers:\n  code_interpreter:", "providers:\n  code_interpreter:\n    settings:"]
)
def test_headings_with_nothing_below(tmp_path: Path, file: str) -> None:
    assert load(tmp_path, file=file, name="config.yaml").code_interpreter is True


def test_a_provider_may_be_switched_off(tmp_path: Path) -> None:
    assert load(tmp_path, file=f"[{CODE}]\nenabled = false").code_interpreter is False


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (f"[{SET}]\nsandbox_url = 'http://x'\nsandbox_template = 'y'",
         rf"^{SET}\.sandbox_url and {SET}\.sandbox_template are both set \(.*config\.toml\); leave one of them out$"),
        (f"sandbox_url = 'http://x'\n[{SET}]\nsandbox_template = 'y'",
         rf"^sandbox_url and {SET}\.sandbox_template are both set"),
        (f"timeout = 3\n[{SET}]\nexecution_timeout = 4",
         rf"^timeout and {SET}\.execution_timeout are one setting \(.*config\.toml\); keep one of them$"),
        (f"[{SET}]\nexecution_timeout = 'soon'",
         rf"^{SET}\.execution_timeout: 'soon' is not a number of seconds above 0, or none \(.*toml\); change it"),
        (f"[{SET}]\nexecution_timeuot = 3",
         rf"^{SET}\.execution_timeuot: there is no such setting \(.*\); did you mean {SET}\.execution_timeout\?$"),
        (f"[{CODE}]\nenabeld = true", rf"^{CODE}\.enabeld: .*; did you mean {CODE}\.enabled\?$"),
        (f"[{CODE}]\nenabled = 'perhaps'", rf"^{CODE}\.enabled: 'perhaps' is not true or false"),
        (f"[{CODE}]\nzzz = 1", rf"^{CODE}\.zzz: there is no such setting .*; known are {CODE}\.enabled, {SET}$"),
        ("[providers.file_search]\nenabled = true",
         rf"^providers\.file_search: there is no such setting \(.*\); known is {CODE}$"),
        ("[providers.code_interpeter]\nenabled = true",
         rf"^providers\.code_interpeter: there is no such setting \(.*\); did you mean {CODE}\?$"),
        ("providers = 3", r"^providers: 3 is not a table of names and values \(.*config\.toml\)"),
        (f"[{CODE}]\nsettings = []", rf"^{SET}: \[\] is not a table of names and values"),
    ],
)  # fmt: skip
def test_mistakes_in_a_provider(tmp_path: Path, file: str, message: str) -> None:
    with pytest.raises(BadSettings, match=message.replace("providers.code", r"providers\.code")):
        load(tmp_path, file=file)


def test_both_kinds_of_sandbox_from_two_layers(tmp_path: Path) -> None:
    file = f"[{SET}]\nsandbox_template = 'y'"
    with pytest.raises(BadSettings, match=r"sandbox_url and .*sandbox_template are both set \(.*SANDBOX_URL; .*toml\)"):
        load(tmp_path, file=file, BELLJAR_SANDBOX_URL="http://x")
    assert load(tmp_path, BELLJAR_SANDBOX_URL="http://x", BELLJAR_SANDBOX_TEMPLATE="none").sandbox_template is None


def test_a_template_is_the_warm_pool_of_its_name(tmp_path: Path) -> None:
    assert load(tmp_path, BELLJAR_SANDBOX_TEMPLATE="x").warm_pools == read_warm_pools("x")
    assert load(tmp_path, BELLJAR_SANDBOX_WARM_POOL="x").warm_pools == read_warm_pools("x")
    assert load(tmp_path).warm_pools is None
    with pytest.raises(BadSettings, match=r"^sandbox_url and sandbox_warm_pool are both set \(.*_URL; .*_WARM_POOL\)"):
        load(tmp_path, BELLJAR_SANDBOX_URL="http://x", BELLJAR_SANDBOX_WARM_POOL="x")
    with pytest.raises(BadSettings, match=r"^sandbox_warm_pool and sandbox_template are both set"):
        load(tmp_path, BELLJAR_SANDBOX_TEMPLATE="x", BELLJAR_SANDBOX_WARM_POOL="x")


@pytest.mark.parametrize(
    ("file", "written"),
    [
        ("sandbox_warm_pool = 'small'", None),
        ("[sandbox_warm_pool]\n4g = 'large'\n1g = 'small'", None),
        ("", "4g=large,1g=small"),
        ("sandbox_warm_pool = 'other'", " 1g=small 4g=large "),
    ],
)
def test_warm_pools_by_tier(tmp_path: Path, file: str, written: str | None) -> None:
    variables = {} if written is None else {"BELLJAR_SANDBOX_WARM_POOL": written}
    settings = load(tmp_path, file=file, **variables)
    assert settings.warm_pools is not None
    by_tier = written is not None or file.startswith("[")
    assert str(settings.warm_pools) == ("1g=small,4g=large" if by_tier else "small")
    [shown] = [one.value for one in settings.shown() if one.name == "sandbox_warm_pool"]
    assert load(tmp_path, BELLJAR_SANDBOX_WARM_POOL=str(shown)).warm_pools == settings.warm_pools
    given = Settings.load(environment={}, flags={"sandbox_warm_pool": settings.warm_pools})
    assert given.warm_pools == settings.warm_pools


@pytest.mark.parametrize(
    ("pools", "asked", "found", "tiers"),
    [
        ("any", 100 << 30, "any", "1g 4g 16g 64g"),
        ("1g=small,4g=large", 64 << 20, "small", "1g 4g"),
        ("1g=small,4g=large", 1 << 30, "small", "1g 4g"),
        ("1g=small,4g=large", (1 << 30) + 1, "large", "1g 4g"),
        ("1g=small,4g=large", (4 << 30) + 1, None, "1g 4g"),
        ("16g=huge", 1 << 30, "huge", "1g 4g 16g"),
        ("1g=small,64g=huge", 4 << 30, "huge", "1g 4g 16g 64g"),
    ],
)
def test_the_smallest_warm_pool_that_is_enough(pools: str, asked: int, found: str | None, tiers: str) -> None:
    read = read_warm_pools(pools)
    assert (read.choose(asked), " ".join(read.tiers)) == (found, tiers)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("2g=small", r"'2g=small' is not a pool for each tier, such as .* with tiers of 1g, 4g, 16g, 64g, or none \("),
        ("1g=small,large", r"'1g=small,large' is not a pool for each tier, such as"),
        ("1g=a,1g=b", r"'1g=a,1g=b' is not a pool for each tier: 1g has two, or none \("),
        ("1g=Small", r"'1g=Small' is not a pool .*: that of 1g has to be a name of Kubernetes: .*, or none \("),
        ("1g=", r"'1g=' is not a pool for each tier: that of 1g has to be a name"),
        ("=", r"'=' is not a pool for each tier"),
        ("small,large", r"'small,large' is not a name of Kubernetes"),
    ],
)  # fmt: skip
def test_warm_pools_that_are_not(tmp_path: Path, written: str, message: str) -> None:
    with pytest.raises(BadSettings, match=rf"^sandbox_warm_pool: {message}"):
        load(tmp_path, BELLJAR_SANDBOX_WARM_POOL=written)


@pytest.mark.parametrize("table", ["sandbox_warm_pool = {}", "sandbox_warm_pool = {1g = 3}", "sandbox_warm_pool = []"])
def test_a_table_of_warm_pools_that_is_not(tmp_path: Path, table: str) -> None:
    with pytest.raises(BadSettings, match=r"^sandbox_warm_pool: .* is not a .*config\.toml"):
        load(tmp_path, file=table)


def test_a_container_that_asks_for_nothing_has_a_pool(tmp_path: Path) -> None:
    expected = (
        r"^container_memory: '16g' is more than any pool of sandbox_warm_pool has, 1g=small,4g=large "
        r"\(.*BELLJAR_CONTAINER_MEMORY\); set it to 4g or less, or name a pool for 16g$"
    )
    with pytest.raises(BadSettings, match=expected):
        load(tmp_path, BELLJAR_SANDBOX_WARM_POOL="1g=small,4g=large", BELLJAR_CONTAINER_MEMORY="16g")
    load(tmp_path, BELLJAR_SANDBOX_WARM_POOL="1g=small,4g=large", BELLJAR_CONTAINER_MEMORY="4g")
    load(tmp_path, BELLJAR_SANDBOX_WARM_POOL="small", BELLJAR_CONTAINER_MEMORY="64g")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("http://sandbox:8080/", "http://sandbox:8080"),
        ("https://sandbox.example/jail", "https://sandbox.example/jail"),
        ("unix:///run/belljar/sandbox.sock", "unix:///run/belljar/sandbox.sock"),
        ("http://a:1, http://b:2/ http://a:1", "http://a:1 http://b:2"),
        ("none", None),
    ],
)
def test_where_sandbox_servers_may_be(tmp_path: Path, written: str, read: str | None) -> None:
    settings = load(tmp_path, BELLJAR_SANDBOX_URL=written)
    settings.check_gateway()
    assert settings.sandbox_url == (None if read is None else tuple(read.split()))


def test_several_sandbox_servers_in_the_file(tmp_path: Path) -> None:
    settings = load(tmp_path, file='sandbox_url = ["http://a:1", "unix:///run/b.sock"]')
    assert settings.sandbox_url == ("http://a:1", "unix:///run/b.sock")
    with pytest.raises(BadSettings, match=r"^sandbox_url: .* is not an address such as http:"):
        load(tmp_path, file='sandbox_url = ["http://a:1", 7]')


@pytest.mark.parametrize(
    "written", ["unix://", "unix:///", "unix://relative", "sandbox:8080", "tcp://x:1", "unix:///x?y"]
)
def test_where_no_sandbox_server_is(tmp_path: Path, written: str) -> None:
    with pytest.raises(BadSettings, match=r"^sandbox_url: '.*' is not an address such as http:.* or unix:.*, or none "):
        load(tmp_path, BELLJAR_SANDBOX_URL=written)


def test_a_sandbox_token_is_never_shown(tmp_path: Path) -> None:
    settings = load(tmp_path, BELLJAR_SANDBOX_TOKEN="s3cret")
    assert settings.sandbox_token == "s3cret"
    assert "s3cret" not in repr(settings)
    assert [one.value for one in settings.shown() if one.name == "sandbox_token"] == [config.HIDDEN]
    with pytest.raises(BadSettings, match=r"^sandbox_token: the value is not a text of ASCII") as caught:
        load(tmp_path, BELLJAR_SANDBOX_TOKEN="with space")
    assert "with space" not in str(caught.value)


def test_a_project_must_be_a_directory(tmp_path: Path) -> None:
    assert load(tmp_path).project is None
    load(tmp_path, BELLJAR_PROJECT=str(tmp_path)).check_gateway()
    missing = tmp_path / "missing"
    told = rf"^project: '{missing}' is not a directory \(environment variable BELLJAR_PROJECT\); name one that is there"
    with pytest.raises(BadSettings, match=told):
        load(tmp_path, BELLJAR_PROJECT=str(missing)).check_gateway()


# -- upstreams -------------------------------------------------------------------------------------------------------


def test_upstreams_of_a_file(tmp_path: Path) -> None:
    file = """
upstreams:
  vllm:
    base_url: http://gpu:8000/v1/
    api_key_env: MY_KEY
    models: [qwen3-*, llama]
    quirks: qwen
    headers: {X-Team: data}
    timeout: 30s
  openai:
    base_url: https://api.openai.com/v1
    api_key: sk-secret
"""
    settings = load(tmp_path, file=file, name="config.yaml", MY_KEY="k-secret", OPENAI_API_KEY="another")
    vllm, openai = settings.upstreams
    assert vllm == Upstream(
        name="vllm",
        base_url="http://gpu:8000/v1",
        dialect="chat",
        api_key="k-secret",
        api_key_env="MY_KEY",
        models=("qwen3-*", "llama"),
        quirks="qwen",
        headers={"X-Team": "data"},
        timeout=30.0,
    )
    assert openai == Upstream(
        name="openai", base_url="https://api.openai.com/v1", dialect="openai", api_key="sk-secret"
    )
    assert "secret" not in repr(settings)
    settings.check_gateway()


def test_a_key_that_is_not_in_the_environment(tmp_path: Path) -> None:
    """Only a gateway needs it: `belljar run` reads the same file."""
    settings = load(tmp_path, file="[upstreams.vllm]\nbase_url = 'http://gpu'\napi_key_env = 'MY_KEY'")
    with pytest.raises(
        BadSettings, match=r"^upstreams\.vllm\.api_key_env: MY_KEY is not set in the environment; set it"
    ):
        settings.check_gateway()


@pytest.mark.parametrize(
    ("text", "upstreams"),
    [
        ("http://127.0.0.1:8000/v1", [("local-8000", "http://127.0.0.1:8000/v1", "chat", None)]),
        ("http://localhost:1234/v1/", [("local-1234", "http://localhost:1234/v1", "chat", None)]),
        ("http://[::1]:1/v1", [("local-1", "http://[::1]:1/v1", "chat", None)]),
        ("http://gpu", [("gpu", "http://gpu", "chat", None)]),
        ("http://10.0.0.5:80", [("10.0.0.5-80", "http://10.0.0.5:80", "chat", None)]),
        ("https://api.openai.com/v1", [("openai", "https://api.openai.com/v1", "openai", "sk-1")]),
        ("https://api.groq.com/openai/v1", [("groq", "https://api.groq.com/openai/v1", "chat", "gsk-1")]),
        ("my-llm=https://api.x.ai/v1", [("my-llm", "https://api.x.ai/v1", "chat", "mine")]),
        ("a=http://a:1, b=http://a:2 http://a:3",
         [("a", "http://a:1", "chat", None), ("b", "http://a:2", "chat", None), ("a-3", "http://a:3", "chat", None)]),
        ("", []),
    ],
)  # fmt: skip
def test_upstreams_as_texts(tmp_path: Path, text: str, upstreams: list[object]) -> None:
    keys = {"OPENAI_API_KEY": "sk-1", "GROQ_API_KEY": "gsk-1", "MY_LLM_API_KEY": "mine"}
    for settings in (
        load(tmp_path, BELLJAR_UPSTREAMS=text, **keys),
        Settings.load(environment={"HOME": str(tmp_path), **keys}, flags={"upstreams": text.replace(",", "").split()}),
    ):
        found = [(one.name, one.base_url, one.dialect, one.api_key) for one in settings.upstreams]
        assert found == upstreams


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("upstreams = 3", r"^upstreams: the value is not a table by name, or a list of NAME=URL \(.*config\.toml\)"),
        ("upstreams.x = 3", r"^upstreams\.x: 3 is not a table of names and values"),
        ("[upstreams.x]\nmodels = []", r"^upstreams\.x\.base_url: is missing \(.*\); say where it is, such as http"),
        ("[upstreams.x]\nbase_ulr = 'http://x'",
         r"^upstreams\.x\.base_ulr: there is no such setting \(.*\); did you mean upstreams\.x\.base_url\?$"),
        ("[upstreams.x]\nbase_url = 'x'", r"^upstreams\.x\.base_url: 'x' is not an address such as "),
        ("[upstreams.x]\nbase_url = 'http://x:y'", r"^upstreams\.x\.base_url: 'http://x:y' is not an address such as "),
        ("[upstreams.x]\nbase_url = 'http://x?a=b'", r"^upstreams\.x\.base_url: .* is not an address such as "),
        ("[upstreams.x]\nbase_url = 'http://u:secret@x'", r"^upstreams\.x\.base_url: the value is not an address "),
        ("[upstreams.x]\nbase_url = 'http://x'\ndialect = 3", r"^upstreams\.x\.dialect: 3 is not a text"),
        ("[upstreams.x]\nbase_url = 'http://x'\napi_key = 3", r"^upstreams\.x\.api_key: the value is not a text"),
        ("[upstreams.x]\nbase_url = 'http://x'\nheaders = {Authorization = 3}",
         r"^upstreams\.x\.headers: the value is not a table of header names and texts"),
        ("[upstreams.x]\nbase_url = 'http://x'\ntimeout = -1", r"^upstreams\.x\.timeout: -1 is not a number of "),
        ("[upstreams.x]\nbase_url = 'http://x'\nmodels = 3", r"^upstreams\.x\.models: 3 is not a list of texts"),
        ("[upstreams.x]\nbase_url = 'http://x'\napi_key = 'a'\napi_key_env = 'B'",
         r"^upstreams\.x\.api_key and upstreams\.x\.api_key_env are both set"),
        ("[upstreams.'x/y']\nbase_url = 'http://x'", r"^upstreams: 'x/y' is not a name of letters, digits"),
    ],
)  # fmt: skip
def test_mistakes_in_upstreams(tmp_path: Path, file: str, message: str) -> None:
    with pytest.raises(BadSettings, match=message) as caught:
        load(tmp_path, file=file)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("localhost:8000", "^upstreams: 'localhost:8000' is not an address such as .*UPSTREAMS"),
        ("x=ftp://y", "^upstreams: 'ftp://y' is not an address such as "),
        ("http://u:secret@x", "^upstreams: the value is not an address without a name and password"),
        ("http://a.b http://c.a.b", r"^upstreams: two are called a \(.*\); tell them apart by NAME=URL$"),
        ("x/y=http://x", "^upstreams: 'x/y' is not a name of letters"),
    ],
)
def test_mistakes_in_upstreams_as_texts(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadSettings, match=message) as caught:
        load(tmp_path, BELLJAR_UPSTREAMS=text)
    assert "secret" not in str(caught.value)


def test_options_are_called_by_their_names(tmp_path: Path) -> None:
    flags = {"upstreams": ["http://x"], "discover": False, "page": False, "log_format": "json"}
    settings = Settings.load(environment={"HOME": str(tmp_path)}, flags=flags)
    assert dict(settings.origins) == {
        "upstreams": "--upstream",
        "discover": "--no-discover",
        "page": "--no-page",
        "log_format": "--log-format",
    }


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_settings_are_shown_without_their_secrets(tmp_path: Path) -> None:
    file = """
index = "https://u:secret@x"
[upstreams.x]
base_url = "http://x"
api_key = "secret"
headers = {Authorization = "secret"}
"""
    shown = {one.name: one for one in load(tmp_path, file=file, BELLJAR_WARM="3").shown()}
    assert "secret" not in json.dumps([one.value for one in shown.values()])
    assert list(shown) == list(config._READERS)
    assert (shown["index"].value, shown["exclude_newer"].value) == (config.HIDDEN, None)
    assert (shown["warm"].value, shown["warm"].origin) == (3, "environment variable BELLJAR_WARM")
    assert (shown["port"].value, shown["port"].origin) == (8787, "default")
    assert shown["upstreams"].value == [
        {
            "name": "x",
            "base_url": "http://x",
            "dialect": "chat",
            "api_key": config.HIDDEN,
            "api_key_env": None,
            "models": [],
            "quirks": None,
            "headers": {"Authorization": config.HIDDEN},
            "timeout": 600.0,
        }
    ]


def test_what_discovering_may_see(tmp_path: Path) -> None:
    passed = {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": "http://x"}
    settings = load(tmp_path, **passed, AWS_SECRET_ACCESS_KEY="s", _API_KEY="s", NOT_A_KEY="s")
    assert dict(settings.provider_variables) == passed
    assert "secret" not in repr(settings)
    assert "secret" not in json.dumps([one.value for one in settings.shown()])


def test_what_fetching_may_see(tmp_path: Path) -> None:
    passed = {
        "PATH": "/bin", "SSL_CERT_FILE": "/c.pem", "SSL_CERT_DIR": "/c", "HTTPS_PROXY": "http://p", "NO_PROXY": "x",
        "UV_DEFAULT_INDEX": "https://i", "UV_INDEX_MINE_PASSWORD": "s",
    }  # fmt: skip
    settings = load(tmp_path, **passed, AWS_SECRET_ACCESS_KEY="s", OPENAI_API_KEY="s", UV_PYTHON="x")
    assert dict(settings.fetch_variables) == {"HOME": str(tmp_path), **passed}
    assert "secret" not in repr(load(tmp_path, UV_DEFAULT_INDEX="https://u:secret@x"))


def test_settings_do_not_change(tmp_path: Path) -> None:
    settings = load(tmp_path)
    with pytest.raises(FrozenInstanceError):
        settings.warm = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.origins["warm"] = "me"  # type: ignore[index]


def test_the_table_in_the_docs_is_complete_and_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2] / "docs/config.md"
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (?:`(.+)`)? \|$", page.read_text(), re.M)
    assert [name for name, _ in rows] == list(config._READERS)
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = load(tmp_path)
    for name, default in rows:
        expected = getattr(settings, name)
        assert (config._READERS[name](default) == expected) if default else expected in (None, ()), name
    founding = re.findall(r"^\| (providers\.\S+) \| `(\w+)` \|$", page.read_text(), re.M)
    assert dict(founding) == config._FOUNDING
    parts = re.findall(r"^\| (\w+(?:, \w+)*) \| .+ \| .+ \|$", page.read_text().split("## Upstreams")[1], re.M)
    assert {part for cell in parts for part in cell.split(", ")} - {"key"} == {*config._UPSTREAM}


def test_the_clients_table_in_the_docs_is_complete_and_right() -> None:
    page = Path(__file__).parents[2] / "docs/config.md"
    rows = re.findall(r"^\| `api\.(\w+)` \| .+ \| (?:`(\S+)`)?.*\|$", page.read_text(), re.M)
    assert [name for name, _ in rows] == list(config._API_READERS)
    for name, default in rows:
        expected = getattr(config.ApiSettings(), name)
        assert expected is None or config._API_READERS[name](default) == expected, name


def test_every_setting_has_a_reader() -> None:
    assert {one.name for one in fields(Settings)} - {*config._READERS} == {
        "fetch_variables",
        "provider_variables",
        "origins",
    }


def test_variables_are_those_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("container", "podman")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert config.variables("container", "KUBERNETES_SERVICE_HOST") == {"container": "podman"}


def test_config_imports_errors_only() -> None:
    code = "import sys, belljar.config; print(*sorted(n for n in sys.modules if n.startswith('belljar')))"
    environment = {"PYTHONPATH": str(Path(config.__file__).parents[1])}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["belljar", "belljar.config", "belljar.errors"]


def test_nobody_else_reads_the_environment() -> None:
    """The guest and the jail's inner processes are programs of their own, with an environment that we made."""
    source = Path(config.__file__).parent
    inner = {"sandbox/guest", "sandbox/local/zygote.py", "sandbox/local/interpreter.py", "sandbox/local/attacks"}
    inner |= {"sandbox/conformance/execution.py", "sandbox/remote/execute_script.py"}  # code that goes into a sandbox
    readers = [
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if any(word in path.read_text() for word in ("os.environ", "os.getenv", "getenv("))
    ]
    assert [name for name in readers if not name.startswith((*inner, "config.py"))] == []
