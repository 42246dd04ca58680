"""What is said of the data stack, by what is installed of it."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from belljar.errors import BadSettings
from belljar.sandbox.local.environments import choose, environment
from belljar.sandbox.packages import Installed, Stack
from belljar.sandbox.packages.stack import judge_stack, read_declared

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def found(*names: str) -> tuple[Installed, ...]:
    imports = {"pillow": "PIL"}
    return tuple(Installed(name, "1", imports=(imports.get(name, name),)) for name in names)


WHOLE = judge_stack(found(*read_declared()[1]))
CORE = judge_stack(found("pyyaml"))
PART = judge_stack(found("numpy", "pillow", "pyyaml"))


def test_the_stack_is_what_the_project_says() -> None:
    core, data = read_declared()
    assert core == {Requirement(text).name for text in PROJECT["dependencies"]}
    assert data == {Requirement(text).name for text in PROJECT["optional-dependencies"]["data"]}


@pytest.mark.parametrize(
    ("stack", "auto", "flaw", "remedy"),
    [
        (WHOLE, "data", "", ""),
        (CORE, "none", "is not installed", "pip install 'belljar[data]'"),
        (judge_stack(()), "none", "is not installed", "pip install 'belljar[data]'"),
        (PART, "data", "lacks beautifulsoup4, lxml, matplotlib, ", "pip install 'belljar[data]'"),
        (
            WHOLE.tried({"numpy": "ImportError: no"}),
            "data",
            "has a broken numpy (ImportError: no)",
            "pip install --force-reinstall numpy",
        ),
        (
            PART.tried({"PIL.Image": "ImportError: no"}),
            "data",
            "xlsxwriter; has a broken pillow (ImportError: no)",
            "pip install 'belljar[data]'; pip install --force-reinstall pillow",
        ),
    ],
)
def test_what_is_wrong_with_it_and_what_mends_that(stack: Stack, auto: str, flaw: str, remedy: str) -> None:
    assert flaw in stack.flaw
    assert stack.remedy == remedy
    assert (choose("auto", stack), choose("none", stack)) == (auto, "none")
    if not flaw:
        assert (stack.flaw, stack.refusal(), stack.summary) == ("", "", "the data stack")
        assert choose("data", stack) == "data"
        return
    assert stack.summary.endswith(remedy)
    with pytest.raises(BadSettings) as raised:
        choose("data", stack)
    assert flaw in str(raised.value)
    assert f"; run: {remedy} (or use 'auto', for what is there, or 'none'" in str(raised.value)
    assert f"the data stack on the moon {stack.flaw}" in stack.refusal(" on the moon")


def test_what_does_not_load_is_not_promised_nor_tried_again() -> None:
    stack = WHOLE.tried({"numpy": f"ImportError: {'very ' * 400}long", "unknown": "x"})
    assert "numpy" not in {one.name for one in stack.present}
    assert len(stack.flaw) < 300
    told = environment("data", stack, preload=True)
    assert "numpy" not in told.preload
    assert "pandas" in told.preload
    assert "numpy" not in told.settings["packages"]
    assert environment("data", stack, preload=False).preload == ()


def test_the_bare_environment_knows_what_is_missed() -> None:
    told = environment("none", CORE, preload=True)
    assert (told.site, told.preload, told.settings["packages"]) == (False, (), [])
    assert {"pandas", "pil", "pillow", "sklearn", "bs4"} <= set(told.settings["missed"])
    assert "yaml" not in told.settings["missed"]
    assert environment("none", WHOLE, preload=True).settings["missed"] == []
