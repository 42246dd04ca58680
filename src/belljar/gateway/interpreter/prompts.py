"""Texts for the model: the tool's description with its limits, and the result of each cell. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from belljar.gateway.containers import Differences, LeftOut, Policy, names
from belljar.gateway.store.base import ContainerFileRecord, ContainerRecord
from belljar.sandbox import explain
from belljar.sandbox.server.execute import LARGEST_WORKSPACE

MANY = 50
"""Files that are listed one by one."""
_FEW = 10
"""Files that are named in a sentence."""

RESTARTED = (
    "[The Python session was restarted since the last call: all files in /mnt/data are back, but variables, imports "
    "and running processes are gone. Define again what you need.]"
)
MOVED = (
    "[This is not the container of the earlier calls: their variables and imports are gone, and so are the files that "
    "they made. Make again what you need.]"
)

_WORKSPACE_ELSEWHERE = (
    "Files are in the working directory, wherever that is: use names such as open('data.csv'), and no paths that begin "
    "with /mnt/data. Save there what the user is to get, and link it in your answer as [name](sandbox:/mnt/data/name)."
)
"""Where the sandbox server decides what the working directory is called."""
_WORKSPACE = (
    "/mnt/data is the working directory. Save there what the user is to get, and link it in your answer as "
    "[name](sandbox:/mnt/data/name)."
)
EMPTY = "[/mnt/data is empty now.]"
"""The note of a container that has nothing, as one does that is new."""
NO_CODE = (
    "The call had none: `code` was empty, null or left out. Nothing was installed either. Call again with the Python "
    "code in `code`."
)


def describe_tool(
    container: ContainerRecord,
    policy: Policy,
    packages: Sequence[str],
    *,
    per_call: bool = False,
    stateless: bool = False,
) -> str:
    """The tool's description. It stands before the conversation, which servers keep only as long as nothing before it
    changes: what changes with a call or a file is told elsewhere.

    `stateless`: a sandbox server that keeps nothing, and says little of itself.
    """
    return "\n\n".join(
        [
            _describe_kernel(packages, per_call=per_call),
            _describe_limits(container, policy, stateless=stateless),
            _describe_packages(packages, stateless=stateless),
            _WORKSPACE_ELSEWHERE if stateless else _WORKSPACE,
        ]
    )


def write_note(container: ContainerRecord, files: Sequence[ContainerFileRecord]) -> str:
    """What the container has by now, to be told at the end of the conversation."""
    here = [one for one in files if not names.is_figure(one)]
    lines = [f"- {names.shown(names.MOUNT + one.path)} ({explain.size(one.size)})" for one in here[:MANY]]
    more = [f"- and {len(here) - MANY} more"] if len(here) > MANY else []
    parts = ["\n".join(["/mnt/data holds now:", *lines, *more])] if lines else []
    if container.requirements:
        parts.append(f"Installed by earlier calls: {', '.join(container.requirements)}.")
    told = "\n".join(parts)
    return f"[{told}]" if told else EMPTY


def describe_changes(since: Differences, *, per_call: bool) -> str:
    """What became of the container while the model was not looking, in one sentence."""
    parts = [
        f"{what} {_list_some(some)}"
        for what, some in (
            ("added", since.added),
            ("changed", since.changed),
            ("removed", since.removed),
            ("installed", since.installed),
        )
        if some
    ]
    if since.cells:
        ran = "1 cell was" if since.cells == 1 else f"{since.cells} cells were"
        then = "" if per_call else ", so variables may differ"
        parts.append(f"{ran} run in it{then}")
    return f"[The container has changed since your last turn: {'; '.join(parts)}.]"


def _list_some(some: Sequence[str]) -> str:
    more = [f"{len(some) - _FEW} more"] if len(some) > _FEW else []
    return ", ".join([*map(names.shown, some[:_FEW]), *more])


def _describe_kernel(packages: Sequence[str], *, per_call: bool) -> str:
    state = (
        "Each call starts a fresh interpreter: variables and imports are gone, and only files stay from call to call."
        if per_call
        else "It works like a notebook: variables, imports and files stay from call to call."
    )
    figures = ""
    if any("matplotlib" in one for one in packages):
        figures = "Every matplotlib figure is shown to the user, without plt.show() and without being saved. "
    return (
        f'Runs Python in a sandbox; also known as the "python tool". {state} What the code prints is shown, and so is '
        f"the value of the last expression. {figures}Top-level await works."
    )


def _describe_limits(container: ContainerRecord, policy: Policy, *, stateless: bool) -> str:
    limits = policy.spec(container).limits
    time = f"{limits.timeout:g} seconds a call" if limits.timeout is not None else "no time limit"
    shown = f"You are shown {policy.told} characters of a call's output, and told where the rest is."
    if stateless:
        return f"Limits: {time}; {explain.size(LARGEST_WORKSPACE)} of files. {shown}"
    return (
        f"Limits: {time}; {explain.size(limits.memory)} of memory, in which files count; {explain.size(limits.disk)} "
        f"of files; {limits.processes} processes and threads. {shown} There is no network: nothing can be downloaded."
    )


def _describe_packages(packages: Sequence[str], *, stateless: bool) -> str:
    base = f"Installed: {', '.join(packages)}." if packages else "Only the standard library is installed."
    if stateless:
        some = f"Installed are {', '.join(packages)}, and maybe others" if packages else "Few may be installed"
        return f"{some}. What is missing can be named in `requirements`."
    return f"{base} Others can be named in `requirements`, and stay installed; pip does not work inside."


def describe_result(
    text: str, *, healed: bool, files: Sequence[ContainerFileRecord], left_out: Sequence[LeftOut]
) -> str:
    """What came of a call; `text` is the output, cut already."""
    parts = [RESTARTED] if healed else []
    parts.append(text.rstrip("\n") if text.strip() else "[The code ran and printed nothing.]")
    if files:
        lines = [f"- {_format_link(one.path)} ({explain.size(one.size)})" for one in files]
        parts.append("\n".join(["Files made or changed:", *_cut_lines(lines)]))
    if left_out:
        lines = [f"- {names.shown(one.path)} ({explain.size(one.size)}): {one.why}" for one in left_out]
        parts.append("\n".join(["Not kept, and out of the user's reach:", *_cut_lines(lines)]))
    return "\n\n".join(parts)


def _format_link(path: str) -> str:
    plain = names.shown(path)
    return f"[{path}](sandbox:{names.MOUNT}{path})" if plain == path else plain


def _cut_lines(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MANY else [*lines[:MANY], f"- and {len(lines) - MANY} more"]


def cut_output(text: str, most: int, log: str | None) -> str:
    """At most so many characters: the beginning and the end, and where the whole is."""
    if len(text) <= most:
        return text
    tail = most * 2 // 5
    head = most - tail
    where = f"all of it is in {names.MOUNT}{log}" if log else "print less, or write it to a file"
    return f"{text[:head]}\n[… {len(text) - most} characters cut here; {where} …]\n{text[-tail:]}"
