"""Write docs/reference.md, the public names with their signatures and docstrings; `--check` only compares.

The source is read and never imported: the page is the same wherever it is made, and made in a second. A name stands in
the package that it is defined in, whatever other packages also have it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PAGE = ROOT / "docs/reference.md"
PACKAGES = {
    "belljar": "sandbox.md",
    "belljar.sandbox.outputs": "sandbox.md",
    "belljar.errors": "troubleshooting.md",
    "belljar.openai": "library.md",
    "belljar.providers": "providers.md",
    "belljar.models": "providers.md",
    "belljar.files": "files.md",
    "belljar.adapters": "adapters.md",
    "belljar.adapters.openai": "adapters.md",
    "belljar.adapters.claude_agent_sdk": "adapters.md",
    "belljar.prompt": "adapters.md",
    "belljar.tools": "adapters.md",
    "belljar.runtime": "adapters.md",
    "belljar.filesystem": "workspaces.md",
    "belljar.testing": "library.md",
}
"""What people import from, with the page that tells how it is used."""
HEAD = """# API reference

Every public name, with its signature and what its docstring says first. Those marked † can be imported from `belljar`
itself. Whatever else is in the source may change without notice. The pages that each section names tell how it is used.

<!-- written by scripts/reference.py; `make fix` writes it anew -->
"""
WIDTH = 110
_MACHINERY = {"ABC", "Generic", "NamedTuple", "Protocol", "Struct", "TypedDict"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Found:
    """What defines a name: usually one statement, several where a function has overloads."""

    module: str
    name: str
    nodes: tuple[ast.stmt, ...]
    doc: str


@cache
def tree(module: str) -> ast.Module | None:
    path = SOURCE.joinpath(*module.split("."))
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if file.exists():
            return ast.parse(file.read_text())
    return None


@cache
def imports(module: str) -> dict[str, tuple[str, str]]:
    """Where each name that a module imports comes from, those for checkers too."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree(module) or ast.Module([], []))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def public(module: str) -> list[str]:
    """The names of its `__all__`; without one, what it defines under a name without underscore."""
    body = body_of(module)
    for node in body:
        if isinstance(node, ast.Assign) and "__all__" in names(node):
            return sorted(ast.literal_eval(node.value), key=str.lower)
    return sorted({name for node in body for name in names(node) if not name.startswith("_")}, key=str.lower)


def body_of(module: str) -> list[ast.stmt]:
    found = tree(module)
    if found is None:
        sys.exit(f"scripts/reference.py: there is no module {module}")
    return found.body


def names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def find(module: str, name: str) -> Found | None:
    """The definition of a name, however many modules hand it on; None where it is not ours."""
    if tree(module) is None:
        return None
    body = body_of(module)
    places = [i for i, node in enumerate(body) if name in names(node)]
    if places:
        nodes = tuple(body[i] for i in places)
        return Found(module, name, nodes, docstring(nodes[-1], body[places[-1] + 1 :]))
    if name in imports(module):
        return find(*imports(module)[name])
    return None


def docstring(node: ast.stmt, after: list[ast.stmt]) -> str:
    """What it says of itself, or what stands below it, as for fields: the first paragraph, in one line."""
    text: object = None
    if isinstance(node, Function | ast.ClassDef):
        text = ast.get_docstring(node)
    elif after and isinstance(after[0], ast.Expr) and isinstance(after[0].value, ast.Constant):
        text = after[0].value.value
    return " ".join(text.strip().split("\n\n")[0].split()) if isinstance(text, str) else ""


# -- signatures --------------------------------------------------------------------------------------------------------


def call(name: str, parameters: list[str], returns: str = "", *, one_line: bool = False) -> str:
    line = f"{name}({', '.join(parameters)}){returns}"
    if one_line or len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in parameters), f"){returns}"])


def of_function(module: str, node: Function) -> str:
    return call(prefix(node) + node.name, parameters(module, node.args), returns(node))


def of_method(module: str, node: Function) -> str:
    """As it is called on an object, in one line."""
    if decorations(node) & {"property", "cached_property"}:
        return f"{node.name}: {ast.unparse(node.returns) if node.returns else 'object'}"
    given = parameters(module, node.args)
    own = given if "staticmethod" in decorations(node) else given[1:]
    return call(prefix(node) + node.name, own, returns(node), one_line=True)


def prefix(node: Function) -> str:
    return "async " if isinstance(node, ast.AsyncFunctionDef) else ""


def returns(node: Function) -> str:
    return f" -> {ast.unparse(node.returns)}" if node.returns else ""


def decorations(node: Function) -> set[str]:
    return {ast.unparse(one) for one in node.decorator_list}


def parameters(module: str, given: ast.arguments) -> list[str]:
    """As they are written, one text each; keywords that a typed dictionary names stand by themselves."""
    told = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(told) - len(given.defaults)) + [*given.defaults]
    texts = [parameter(one, default) for one, default in zip(told, defaults, strict=True)]
    if given.posonlyargs:
        texts.insert(len(given.posonlyargs), "/")
    if given.vararg:
        texts.append("*" + parameter(given.vararg, None))
    elif given.kwonlyargs:
        texts.append("*")
    texts += [parameter(one, default) for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg is None:
        return texts
    match given.kwarg.annotation:
        case ast.Subscript(value=ast.Name(id="Unpack"), slice=ast.Name(id=name)) if found := find(module, name):
            return [*texts, *(f"{text} = …" for text in fields(found, class_of(found)))]
        case _:
            return [*texts, "**" + parameter(given.kwarg, None)]


def class_of(found: Found) -> ast.ClassDef:
    last = found.nodes[-1]
    if not isinstance(last, ast.ClassDef):
        sys.exit(f"{found.module}: {found.name} is not a class")
    return last


def parameter(one: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(one)
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if one.annotation else f"{text}={ast.unparse(default)}"


def of_class(found: Found, node: ast.ClassDef) -> str:
    """How it is made: by its `__init__`, or by its fields, its own or those of a class that it is made of."""
    bases = [ast.unparse(base) for base in node.bases]
    if made_of_fields(found, node):
        return call(f"class {node.name}", fields(found, node))
    if made := initialiser(found, node):
        module, init = made
        return call(f"class {node.name}", parameters(module, init.args)[1:])
    return f"class {node.name}({', '.join(bases)})" if bases else f"class {node.name}"


def parents(found: Found, node: ast.ClassDef) -> Iterator[tuple[Found, ast.ClassDef]]:
    for base in node.bases:
        bare = base.value if isinstance(base, ast.Subscript) else base
        parent = find(found.module, bare.id) if isinstance(bare, ast.Name) else None
        if parent and isinstance(parent.nodes[-1], ast.ClassDef):
            yield parent, parent.nodes[-1]


def initialiser(found: Found, node: ast.ClassDef) -> tuple[str, Function] | None:
    """Its own or an inherited one, and the module that it stands in."""
    for one in node.body:
        if isinstance(one, Function) and one.name == "__init__":
            return found.module, one
    return next((made for parent in parents(found, node) if (made := initialiser(*parent))), None)


def made_of_fields(found: Found, node: ast.ClassDef) -> bool:
    told = " ".join(map(ast.unparse, [*node.decorator_list, *node.bases]))
    marked = any(word in told for word in ("dataclass", "Dataclass", "Struct", "TypedDict", "NamedTuple"))
    return marked or any(made_of_fields(*parent) for parent in parents(found, node))


def fields(found: Found, node: ast.ClassDef) -> list[str]:
    inherited = [text for parent in parents(found, node) for text in fields(*parent)]
    own = [
        ast.unparse(one)
        for one in node.body
        if isinstance(one, ast.AnnAssign) and "ClassVar" not in ast.unparse(one.annotation) and not hidden(one)
    ]
    replaced = {text.split(":")[0] for text in own}
    return [text for text in inherited if text.split(":")[0] not in replaced] + own


def hidden(node: ast.stmt) -> bool:
    return any(name.startswith("_") for name in names(node))


def of_value(node: ast.stmt) -> str:
    """A constant or an alias; the value of a long constant is left out."""
    text = ast.unparse(node)
    if len(text) <= WIDTH:
        return text
    return fill(text, WIDTH, subsequent_indent="    ") if "TypeAlias = " in text else text.split(" = ")[0] + " = …"


# -- the page ----------------------------------------------------------------------------------------------------------


def entry(found: Found, *, shown: bool) -> Iterator[str]:
    mark = " †" if shown else ""
    yield f"### `{found.name}`{mark}\n"
    last = found.nodes[-1]
    if isinstance(last, ast.ClassDef):
        signatures = [of_class(found, last)]
    elif isinstance(last, Function):
        signatures = [of_function(found.module, one) for one in without_body(found.nodes)]
    else:
        signatures = [of_value(last)]
    yield "```py\n" + "\n".join(signatures) + "\n```\n"
    said = f"{found.doc} {kinds(signatures[0], last)}".strip()
    if said:
        yield wrapped(said) + "\n"
    if isinstance(last, ast.ClassDef) and (told := list(members(found.module, last))):
        yield "\n".join(told) + "\n"


def kinds(signature: str, node: ast.stmt) -> str:
    """What a class is beside itself, where its signature does not tell."""
    told = [ast.unparse(one).split("[")[0] for one in node.bases] if isinstance(node, ast.ClassDef) else []
    shown = [name for name in told if not name.startswith("_") and name not in _MACHINERY]
    return "" if not shown or f"({', '.join(told)})" in signature else f"A kind of {', '.join(map(code, shown))}."


def without_body(nodes: tuple[ast.stmt, ...]) -> list[Function]:
    """The overloads where there are any, since what stands behind them is nothing that anybody calls."""
    functions = [node for node in nodes if isinstance(node, Function)]
    overloads = [one for one in functions if "overload" in decorations(one)]
    return overloads or functions[-1:]


def members(module: str, node: ast.ClassDef) -> Iterator[str]:
    """Methods and properties, and fields that have something said of them."""
    for i, one in enumerate(node.body):
        if hidden(one) or not names(one):
            continue
        said = docstring(one, node.body[i + 1 :])
        if isinstance(one, Function):
            if decorations(one) & {"overload", f"{one.name}.setter"}:
                continue
            yield wrapped(f"- `{of_method(module, one)}`" + (f": {said}" if said else ""), "  ")
        elif said:
            yield wrapped(f"- `{names(one)[0]}`: {said}", "  ")


def wrapped(text: str, indent: str = "") -> str:
    return fill(text, 140, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def section(package: str, top: set[str]) -> Iterator[str]:
    doc = ast.get_docstring(tree(package) or ast.Module([], [])) or ""
    page = PACKAGES[package]
    yield f"## `{package}`\n"
    yield wrapped(f"{' '.join(doc.split(chr(10) * 2)[0].split())} See [{page.removesuffix('.md')}]({page}).") + "\n"
    elsewhere: dict[str, list[str]] = {}
    for name in public(package):
        if name.startswith("__"):
            continue
        found = find(package, name)
        if found is None:
            sys.exit(f"{package}: {name} is in its __all__, and no statement of ours defines it")
        home = home_of(found.module, name) or package
        if home == package:
            yield from entry(found, shown=name in top)
        else:
            elsewhere.setdefault(home, []).append(name)
    if package != "belljar" and elsewhere:
        told = "; ".join(
            f"of [`{home}`](#{anchor(home)}) {', '.join(map(code, all))}" for home, all in elsewhere.items()
        )
        yield wrapped(f"Also here, {told}.") + "\n"


def home_of(module: str, name: str) -> str | None:
    """The innermost public package around it that has the name; None where it is defined in none."""
    around = [one for one in PACKAGES if f"{module}.".startswith(f"{one}.") and name in public(one)]
    return max(around, key=len, default=None)


def anchor(package: str) -> str:
    return package.replace(".", "")


def code(name: str) -> str:
    return f"`{name}`"


def contents() -> str:
    return "".join(f"- [`{package}`](#{anchor(package)})\n" for package in PACKAGES)


def main() -> None:
    top = set(public("belljar"))
    parts = [HEAD, contents(), *(part for package in PACKAGES for part in section(package, top))]
    fresh = "\n".join(parts)
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text() != fresh:
            sys.exit("docs/reference.md: the reference is stale; run `make fix`")
    else:
        PAGE.write_text(fresh)


if __name__ == "__main__":
    main()
