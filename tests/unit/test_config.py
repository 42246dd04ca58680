"""Settings: four layers, each value with its origin, and every mistake named with its remedy."""

import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from belljar import config
from belljar.config import Settings
from belljar.errors import BadSettings


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


@pytest.mark.parametrize("name", ["config.yaml", "config.yml"])
def test_yaml_where_it_can_be_read(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, file="memory: 4g\nallow:\n  - polars\n", name=name).allow == ("polars",)
    assert load(tmp_path, file="", name=name).memory == "1g"


def test_yaml_without_pyyaml_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(BadSettings, match="needs PyYAML; run: pip install pyyaml, or write a "):
        load(tmp_path, file="memory: 4g", name="config.yaml")


def test_the_file_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("warm = 7")
    assert load(tmp_path, BELLJAR_CONFIG=str(path)).warm == 7
    with pytest.raises(
        BadSettings, match="BELLJAR_CONFIG: there is no file '/nowhere'; name one that is there or unset"
    ):
        load(tmp_path, BELLJAR_CONFIG="/nowhere")


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
    assert Settings.load(environment={"BELLJAR_CACHE_DIR": "/c"}).cache_dir == Path("/c")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("BELLJAR_MEMROY", "1g", r"memroy: there is no such setting \(.* BELLJAR_MEMROY\); did you mean memory\?"),
        ("BELLJAR_ZZZ", "1", r"zzz: there is no such setting \(.* BELLJAR_ZZZ\); known are cache_dir, "),
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
        ("[sandbox]\nmemory = '1g'", r"sandbox: there is no such setting \(.*config\.toml\)"),
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


def test_every_setting_has_a_reader() -> None:
    assert {one.name for one in fields(Settings)} - {*config._READERS} == {"fetch_variables", "origins"}


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
    readers = [
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if any(word in path.read_text() for word in ("os.environ", "os.getenv", "getenv("))
    ]
    assert [name for name in readers if not name.startswith((*inner, "config.py"))] == []
