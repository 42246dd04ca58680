"""What `pip install belljar` gives, without the data stack: all works with the standard library, and says what is less.

Our own wheel, in environments that are made without an index, from what is installed here.
"""

import importlib.metadata
import json
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.cli.conftest import Command

ROOT = Path(__file__).parents[2]
SITE = Path(sysconfig.get_path("purelib"))
REMEDY = "pip install 'belljar[data]'"
REFUSED = f"packages: 'data' cannot be had: the data stack is not installed; run: {REMEDY}"
IMPORTS = {
    "beautifulsoup4": "bs4", "pillow": "PIL", "python-docx": "docx", "python-pptx": "pptx", "pyyaml": "yaml",
    "scikit-learn": "sklearn",
}  # fmt: skip
"""Those of the data stack that are imported by another name than they are installed by."""


# -- environments -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [found] = made.glob("belljar-*.whl")
    return found


def needed(name: str, extras: frozenset[str] = frozenset(), *, seen: set[str] | None = None) -> set[str]:
    """What a distribution asks for, by itself and for these extras, and what those ask for."""
    seen = set() if seen is None else seen
    for text in importlib.metadata.requires(name) or ():
        one = Requirement(text)
        wanted = one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras))
        if wanted and canonicalize_name(one.name) not in seen:
            seen.add(canonicalize_name(one.name))
            needed(one.name, frozenset(one.extras), seen=seen)
    return seen


def link(name: str, path: Path) -> None:
    """Put an installed distribution into another environment."""
    for file in importlib.metadata.files(name) or ():
        first = file.parts[0]
        if first == "..":
            kept, source = path / "bin" / file.name, Path(str(file.locate()))
        else:
            kept, source = site(path) / first, SITE / first
        if first != "__pycache__" and not kept.is_symlink():
            kept.symlink_to(source)


def site(path: Path) -> Path:
    [found] = path.glob("lib/python3*/site-packages")
    return found


@pytest.fixture(scope="session")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make an environment with our wheel, what it needs for these extras, and nothing else."""

    def make(*extras: str) -> Path:
        path = tmp_path_factory.mktemp("installed")
        uv = [str(Path(sys.executable).with_name("uv")), "--offline", "--no-config", "--cache-dir", str(path / "uv")]
        python = str(path / "bin/python")
        for args in (
            ["venv", "--allow-existing", "--python", sys.executable, str(path)],
            ["pip", "install", "--no-deps", "--link-mode", "copy", "--python", python, str(wheel)],
        ):
            subprocess.run([*uv, *args], check=True, capture_output=True)
        shutil.rmtree(path / "uv")
        path.chmod(0o755)  # as root a sandbox has a user of its own, who reads it
        for name in needed("belljar", frozenset(extras)):
            link(name, path)
        return path

    return make


@pytest.fixture(scope="session")
def core(install: Callable[..., Path]) -> Path:
    return install()


@pytest.fixture(scope="session")
def with_openai(install: Callable[..., Path]) -> Path:
    return install("openai")


@pytest.fixture
def belljar(core: Path, tmp_path: Path) -> Command:
    return Command(tmp_path, tmp_path / "cache", installed=core / "bin/python")


@pytest.fixture
def with_sdk(with_openai: Path, tmp_path: Path) -> Command:
    return Command(tmp_path, tmp_path / "cache", installed=with_openai / "bin/python")


def pretend(path: Path, name: str, code: str = "") -> None:
    """Install a distribution that has nothing but this code."""
    module = IMPORTS.get(name, name)
    info = f"{name.replace('-', '_')}-99.dist-info"
    for file, text in (
        (f"{module}/__init__.py", code),
        (f"{module}/pyplot.py", "_backend_mod = None"),  # what is loaded ahead of matplotlib
        (f"{module}/Image.py", ""),  # and of pillow
        (f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 99\n"),
        (f"{info}/RECORD", f"{module}/__init__.py,,\n"),
    ):
        target = site(path) / file
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)


def stack() -> set[str]:
    """The names that `belljar[data]` asks for, and the core does not."""
    asked = [Requirement(text) for text in importlib.metadata.requires("belljar") or ()]
    return {one.name for one in asked if one.marker and one.marker.evaluate({"extra": "data"})} - needed("belljar")


# -- the core alone ---------------------------------------------------------------------------------------------------


def test_the_core_is_small(core: Path) -> None:
    """What `pip install belljar` fetches: at most 21 distributions, and about 36 MB of files."""
    names = {*needed("belljar"), "belljar"}
    sizes = {name: sum(map(weight, importlib.metadata.files(name) or ())) for name in names - {"belljar"}}
    sizes["belljar"] = sum(path.stat().st_size for path in (site(core) / "belljar").rglob("*.*") if is_file(path))
    told = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in sorted(sizes.items(), key=lambda one: -one[1]))
    total = sum(sizes.values()) / 1e6
    print(f"{len(names)} distributions, {total:.1f} MB: {told}")
    assert len(names) <= 21, told
    assert 10 < total < 40, told
    assert not {"cryptography", "cffi", "uv"} & names


def weight(file: importlib.metadata.PackagePath) -> int:
    path = Path(str(file.locate()))
    return path.stat().st_size if is_file(path) else 0


def is_file(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc"


LOADED = """
import atexit, sys

def tell():
    roots = {name.partition(".")[0] for name in sys.modules} - before - {"belljar"} - sys.stdlib_module_names
    print("loaded", *sorted(name for name in roots if not name.startswith("_sysconfigdata")), file=sys.stderr)

before = {name.partition(".")[0] for name in sys.modules}
atexit.register(tell)
"""


@pytest.mark.parametrize(
    "args", [(), ("run", "-c", "print(6 * 7)"), ("doctor",), ("doctor", "--json"), ("packages",), ("config",)]
)
def test_one_library_is_loaded_where_no_server_is_needed(belljar: Command, args: tuple[str, ...]) -> None:
    start = "import belljar; belljar.__version__" if not args else "from belljar.cli import main; sys.exit(main())"
    ran = belljar.python(LOADED + start, *args)
    assert ran.returncode == 0, ran.stderr
    *_, loaded = ran.stderr.splitlines()
    assert {*loaded.split()} - {"loaded"} <= {"packaging"}
    assert loaded.startswith("loaded")


@pytest.mark.parametrize("module", ["belljar", "belljar.cli"])
def test_the_module_is_the_command(belljar: Command, module: str) -> None:
    code = "import runpy, sys; module = sys.argv.pop(1); runpy.run_module(module, run_name='__main__', alter_sys=True)"
    ran = belljar.python(code, module, "run", "-c", "6 * 7")
    assert (ran.returncode, ran.stdout) == (0, "42\n")


def test_requirements_without_uv_name_the_extra(belljar: Command) -> None:
    remedy = (
        "fetching packages needs uv 0.9 or newer, which is not installed here; run: pip install 'belljar[packages]'"
    )
    belljar.environment["PATH"] = str(belljar.directory)  # no uv of this machine's own
    ran = belljar("run", "--require", "humanize", "-c", "1")
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "", f"belljar: error: --require: {remedy}\n")
    checks = json.loads(belljar("doctor", "--json").stdout)["checks"]
    [check] = [one for one in checks if one["name"] == "uv"]
    assert (check["ok"], check["needed"], check["detail"]) == (False, False, f"requirements: {remedy}")
    code = """if True:
        from belljar import Sandbox
        from belljar.errors import BelljarError
        try:
            with Sandbox(requirements=["humanize"]):
                pass
        except BelljarError as error:
            print(type(error).__name__, error)
        with Sandbox() as box:
            try:
                box.install(["humanize"])
            except BelljarError as error:
                print(type(error).__name__, error)
            print(box.run("6 * 7").text)
    """
    ran = belljar.python(code)
    assert ran.stdout.splitlines() == [f"BadSettings requirements: {remedy}"] * 2 + ["42"]


def test_with_the_extra_uv_is_there(install: Callable[..., Path], tmp_path: Path) -> None:
    belljar = Command(tmp_path, tmp_path / "cache", installed=install("packages") / "bin/python")
    belljar.environment |= {"PATH": str(tmp_path), "BELLJAR_OFFLINE": "true"}
    ran = belljar("run", "--require", "no-such-package-anywhere", "-c", "1")
    assert ran.returncode == 3
    assert "--require: no-such-package-anywhere is not available here" in ran.stderr
    [check] = [one for one in json.loads(belljar("doctor", "--json").stdout)["checks"] if one["name"] == "uv"]
    assert check["ok"]


def test_every_module_is_there_or_says_which_extra_it_wants(belljar: Command) -> None:
    code = """if True:
        import importlib, pathlib, belljar
        root = pathlib.Path(belljar.__file__).parent
        for path in sorted(root.rglob("*.py")):
            if path.stem == "__main__" or "guest" in path.parts:
                continue
            name = ".".join(("belljar", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
            try:
                importlib.import_module(name)
            except BaseException as error:
                print(name, type(error).__name__, error)
        for name in belljar.__all__:
            getattr(belljar, name)
    """
    ran = belljar.python(code)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    for room, package, extra in (
        ("belljar.openai", "openai", "openai"),
        ("belljar.gateway.store.postgres", "asyncpg", "postgres"),
    ):
        wants = f"the {package} package is not installed; run: pip install 'belljar[{extra}]'"
        of = [line for line in lines if line.startswith(room)]
        assert {(" BadSettings " in line, line.endswith(wants)) for line in of} == {(True, True)}
        lines = [line for line in lines if line not in of]
    assert lines == []


@pytest.mark.parametrize(
    ("provider", "extra"), [("openai", "openai"), ("anthropic", "anthropic"), ("gemini", "gemini"), ("xai", "xai")]
)
def test_a_provider_without_its_sdk_names_the_extra(belljar: Command, provider: str, extra: str) -> None:
    told = f"package is not installed; run: pip install 'belljar[{extra}]'"
    for kind in ("XAI", "OPENAI", "ANTHROPIC", "GEMINI"):
        belljar.environment[f"{kind}_API_KEY"] = "none"
    ran = belljar("chat", "hello", "--provider", provider)
    assert ran.returncode == 3
    assert told in ran.stderr
    assert ran.stderr.count("\n") == 1
    code = "import sys; from belljar.files import why_no_files_api; print(why_no_files_api(sys.argv[1]))"
    assert told in belljar.python(code, provider).stdout
    [why] = [one["why"] for one in json.loads(belljar("models", "--json").stdout) if one["provider"] == provider]
    assert told in why


def test_run_has_the_standard_library(belljar: Command) -> None:
    ran = belljar("run", "-c", "import json, sqlite3; print(json.dumps([6 * 7]))")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "[42]\n", "")
    for name in ("pandas", "PIL", "sklearn", "docx"):
        ran = belljar("run", "-c", f"import {name}")
        assert ran.returncode == 1
        assert f"Hint: {name!r} is not installed in this sandbox. Only the standard library is there." in ran.stderr
        assert ran.stderr.count(REMEDY) == 1
    ran = belljar("run", "-c", "import not_of_it")
    assert "Only the standard library is there." in ran.stderr
    assert REMEDY not in ran.stderr


def test_the_list_of_packages_is_empty_and_says_how_to_fill_it(belljar: Command) -> None:
    ran = belljar("packages", "--json")
    assert (ran.returncode, json.loads(ran.stdout)) == (0, [])
    assert ran.stderr == f"belljar: a sandbox starts with the standard library; for the data stack: {REMEDY}\n"


def test_doctor_says_it_and_is_content(belljar: Command) -> None:
    ran = belljar("doctor", "--json")
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["level"]) == (0, "full")
    [check] = [one for one in told["checks"] if one["name"] == "data stack"]
    assert (check["ok"], check["needed"], check["detail"], check["remedy"]) == (
        False,
        False,
        "is not installed",
        REMEDY,
    )
    assert told["proof"]["packages"] == f"the standard library; for the data stack: {REMEDY}"


@pytest.mark.parametrize("where", ["flag", "variable"])
@pytest.mark.parametrize("command", [("run", "-c", "1"), ("serve", "--port", "0"), ("sandbox", "--port", "0")])
def test_a_stack_that_is_asked_for_and_not_there_is_told_before_anything_else(
    belljar: Command, command: tuple[str, ...], where: str
) -> None:
    if where == "variable":
        belljar.environment["BELLJAR_PACKAGES"] = "data"
    ran = belljar(*command, *(("--packages", "data") if where == "flag" else ()))
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"belljar: error: {REFUSED}")
    assert ran.stderr.count("\n") == 1


def test_a_gateway_runs_code_and_its_banner_says_what_there_is(belljar: Command) -> None:
    belljar.environment["BELLJAR_STATE_DIR"] = str(belljar.directory / "state")
    with belljar.serve() as served:
        assert served.told["packages"] == f"the standard library; for the data stack: {REMEDY}"
        assert "data stack" not in served.told["isolation"]
        for code, logs in (("print(6 * 7)", "42\n"), ("import pandas", "ModuleNotFoundError")):
            asked = {"model": "belljar", "input": code, "include": ["code_interpreter_call.outputs"]}
            tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
            status, answer = served.ask("/v1/responses", json.dumps({**asked, "tools": tools}).encode())
            assert (status, answer["status"]) == (200, "completed")
            assert logs in answer["output"][0]["outputs"][0]["logs"]
        number, out, err = served.end(signal.SIGTERM)
    assert (number, out) == (0, "")
    assert "Traceback" not in err


def test_a_sandbox_server_gives_what_there_is_and_refuses_the_rest(belljar: Command) -> None:
    with belljar.start("sandbox", "--port", "0", "--json") as server:
        try:
            assert server.stdout is not None
            told = json.loads(server.stdout.readline())
            assert told["packages"] == f"the standard library; for the data stack: {REMEDY}"
            code = f"""if True:
                import asyncio
                from belljar import AsyncSandbox
                from belljar.errors import BelljarError
                from belljar.sandbox.remote import RemoteSource

                async def main():
                    source = RemoteSource({told["url"]!r})
                    async with AsyncSandbox(source=source) as box:
                        print((await box.run("6 * 7")).text)
                    try:
                        async with AsyncSandbox(source=source, packages="data"):
                            pass
                    except BelljarError as error:
                        print(type(error).__name__, error.status, error)
                    await source.close()

                asyncio.run(main())
            """
            ran = belljar.python(code)
            assert ran.stderr == ""
            number, refused = ran.stdout.splitlines()
            assert number == "42"
            assert refused.startswith(f"InvalidRequest 400 {REFUSED}")

            serve = ("serve", "--port", "0", "--no-discover", "--sandbox-url", told["url"])
            ran = belljar(*serve, "--packages", "data")
            assert (ran.returncode, ran.stdout) == (3, "")
            where = f"the data stack on the sandbox server at {told['url']} is not installed"
            assert where in ran.stderr
            with belljar.serve("--sandbox-url", told["url"]) as served:
                assert served.told["packages"] == f"the standard library; for the data stack: {REMEDY} (there)"
        finally:
            server.kill()


def test_a_program_is_told_nothing_that_it_did_not_ask_for(belljar: Command) -> None:
    code = """if True:
        import threading
        from belljar import Sandbox
        from belljar.errors import BelljarError
        with Sandbox() as box, Sandbox(packages="none") as other:
            print(box.run("6 * 7").text, other.run("6 * 7").text)
        try:
            with Sandbox(packages="data"):
                pass
        except BelljarError as error:
            print(type(error).__name__, error)
    """
    ran = belljar.python(code)
    numbers, refused = ran.stdout.splitlines()
    assert (ran.returncode, numbers, ran.stderr) == (0, "42 42", "")
    assert refused.startswith(f"InvalidRequest {REFUSED}")


# -- with OpenAI's client, as docs/library.md installs it --------------------------------------------------------------


def test_a_gateway_inside_the_program_runs_code(with_sdk: Command) -> None:
    code = """if True:
        from belljar.errors import BelljarError
        from belljar.openai import OpenAI
        tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
        for settings in ({}, {"packages": "none"}, {"packages": "auto"}, {"packages": "data"}, {"packages": "pandas"}):
            try:
                with OpenAI.local(discover=False, **settings) as client:
                    answer = client.responses.create(
                        model="belljar", input="6 * 7", tools=tools, include=["code_interpreter_call.outputs"]
                    )
                    print(answer.output[0].outputs[0].logs)
            except BelljarError as error:
                print(type(error).__name__, error)
    """
    ran = with_sdk.python(code)
    assert (ran.returncode, ran.stderr) == (0, "")
    *numbers, refused, wrong = ran.stdout.splitlines()
    assert numbers == ["42"] * 3
    assert refused.startswith(f"BadSettings {REFUSED}")
    assert wrong.startswith("BadSettings packages: 'pandas' is not one of auto, data, none")


def test_chat_asks_a_gateway(with_sdk: Command) -> None:
    with with_sdk.serve() as served:
        ran = with_sdk("chat", "print(6 * 7)", "--url", f"{served.url}/v1")
    assert ran.returncode == 0
    assert "42" in ran.stdout + ran.stderr


# -- a part of the stack, and one that is broken -----------------------------------------------------------------------


def test_what_is_there_of_the_stack_is_used_and_the_rest_is_named(install: Callable[..., Path], tmp_path: Path) -> None:
    path = install()
    pretend(path, "tabulate", "here = True")
    belljar = Command(tmp_path, tmp_path / "cache", installed=path / "bin/python")
    ran = belljar("packages", "--json")
    assert [one["name"] for one in json.loads(ran.stdout)] == ["pyyaml", "tabulate"]
    absent = ", ".join(sorted(stack() - {"tabulate"}))
    assert ran.stderr == f"belljar: a sandbox starts with the data stack, which lacks {absent}; to mend it: {REMEDY}\n"
    assert belljar("run", "-c", "import tabulate; tabulate.here").stdout == "True\n"
    ran = belljar("run", "-c", "import pandas")
    assert "Installed: pyyaml, tabulate." in ran.stderr
    assert ran.stderr.count(REMEDY) == 1
    ran = belljar("run", "--packages", "data", "-c", "1")
    assert ran.returncode == 3
    assert f"the data stack lacks {absent}; run: {REMEDY}" in ran.stderr


def test_a_package_that_does_not_load_is_named_and_not_promised(install: Callable[..., Path], tmp_path: Path) -> None:
    path = install()
    for name in stack():
        pretend(path, name, "here = True; rcParams = {}; set_option = print")
    broken = "import builtins\nassert not hasattr(builtins, 'again'), 'not the cause'\nbuiltins.again = 1\n"
    pretend(path, "numpy", f"{broken}raise ImportError('libblas.so: not found')")
    belljar = Command(tmp_path, tmp_path / "cache", installed=path / "bin/python")
    flaw = "has a broken numpy (ImportError: libblas.so: not found)"
    remedy = "pip install --force-reinstall numpy"

    code = """if True:
        from belljar import Sandbox
        with Sandbox() as box:
            print(box.run("import openpyxl; openpyxl.here").text)
            print(box.run("import numpy").error.message)
            print(box.run("import nothing").error.traceback.splitlines()[-1])
    """
    ran = belljar.python(code)
    assert ran.returncode == 0, ran.stderr
    here, why, hint = ran.stdout.splitlines()
    assert (here, why) == ("True", "libblas.so: not found")
    assert "numpy" not in hint
    assert "openpyxl" in hint
    assert ran.stderr == f"the data stack {flaw}; to mend it: {remedy}\n"

    ran = belljar("doctor")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"A sandbox starts with the data stack, which {flaw}; to mend it: {remedy}." in ran.stdout
    ran = belljar("serve", "--port", "0", "--no-discover", "--packages", "data")
    assert ran.returncode == 3
    assert f"belljar: error: packages: 'data' cannot be had: the data stack {flaw}; run: {remedy} (or" in ran.stderr
    assert "Traceback" not in ran.stderr
