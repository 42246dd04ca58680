"""Workspace sections: lazy, within their roots and budgets, shown in the prompt, brought back when that is asked."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from tests.helpers import servers
from tests.helpers.openai import FlatContainers
from tests.helpers.servers import Server

from belljar.adapters.claude_agent_sdk.workspace import ClaudeAgentWorkspaceSection
from belljar.adapters.openai.config import ContainerConfig
from belljar.adapters.openai.container_fs import ContainerFilesystem
from belljar.adapters.openai.workspace import OpenAIContainerWorkspaceSection
from belljar.adapters.workspace_section import MountedSection, WorkspaceProgress
from belljar.errors import (
    ContainerExpiredError,
    WorkspaceBudgetExceededError,
    WorkspaceError,
    WorkspaceSecurityError,
)
from belljar.filesystem import Filesystem, HostFilesystem, HostMount
from belljar.filesystem.export import Export
from belljar.prompt import MarkdownSection, Prompt, PromptTemplate
from belljar.runtime import Session

BOTH = pytest.mark.parametrize("kind", [OpenAIContainerWorkspaceSection, ClaudeAgentWorkspaceSection])


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.gateway(tmp_path_factory.mktemp("gateway") / "state") as server:
        yield server


@pytest.fixture
def client(gateway: Server) -> Iterator[OpenAI]:
    with gateway.client() as client:
        yield client


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repos/project"
    for path in ("main.py", "src/a.py", "src/b.pyc", ".git/config", "data/in.csv"):
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_bytes(b"1234")
    return repo


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories go, so that none can stay unseen."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def section(kind: type[Any], repo: Path, **more: Any) -> Any:
    mount = HostMount(str(repo), "project", exclude_glob=(".git/*", "*.pyc"), max_bytes=1000)
    usual = {"session": Session(), "mounts": (mount,), "allowed_host_roots": (repo.parent,)}
    return kind(**{**usual, **more})


def container(repo: Path, client: OpenAI, **more: Any) -> OpenAIContainerWorkspaceSection:
    made: OpenAIContainerWorkspaceSection = section(OpenAIContainerWorkspaceSection, repo, **more)
    made.bind(client)
    return made


# -- what both share -------------------------------------------------------------------------------------------------


@BOTH
def test_nothing_is_made_when_the_section_is(kind: type[Any], repo: Path, temporary: Path) -> None:
    made = section(kind, repo)
    assert isinstance(made, MarkdownSection)
    assert isinstance(made, MountedSection)
    assert list(temporary.iterdir()) == []
    assert made.temp_dir.parent == temporary
    assert made.temp_dir.stat().st_mode & 0o077 == 0
    assert sorted(p.name for p in (made.temp_dir / "project").rglob("*") if p.is_file()) == [
        "a.py",
        "in.csv",
        "main.py",
    ]
    made.cleanup()
    assert not made.temp_dir.exists()
    assert list(temporary.iterdir()) == []


@BOTH
def test_previews_and_the_prompt_tell_of_each_mount(kind: type[Any], repo: Path) -> None:
    with section(kind, repo) as made:
        [preview] = made.mount_previews
        assert (preview.host_path, preview.resolved_host, preview.mount_path) == (str(repo), repo, "project")
        assert (preview.is_directory, preview.bytes_copied) == (True, 12)
        assert preview.entries == ("main.py", "src/a.py", "data/in.csv")
        template = PromptTemplate(ns="t", key="t", sections=[made])
        text = Prompt(template).render().text
        assert "Workspace" in text
        told = "`project/main.py`, `project/src/a.py`, `project/data/in.csv`"
        assert f"- `project`: 12 bytes, first of all {told}" in text
        assert str(repo) not in text
    assert made.mount_previews == (preview,)


@BOTH
def test_a_path_with_a_dollar_is_shown_as_it_is(kind: type[Any], tmp_path: Path) -> None:
    (tmp_path / "$x").write_bytes(b"")
    with section(kind, tmp_path, mounts=(HostMount("$x"),), allowed_host_roots=(tmp_path,)) as made:
        assert "- `$x`: 0 bytes" in made.render_body(None)


@BOTH
def test_a_section_without_mounts_is_empty(kind: type[Any]) -> None:
    with kind(session=Session()) as made:
        assert made.mount_previews == ()
        assert list(made.temp_dir.iterdir()) == []


@BOTH
def test_mounts_are_checked_at_once(kind: type[Any], repo: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    (repo / "link").symlink_to(tmp_path / "secret")
    for path in (tmp_path / "secret", repo / "../../secret", repo / "link"):
        with pytest.raises(WorkspaceSecurityError, match="outside the allowed roots"):
            section(kind, repo, mounts=(HostMount(str(path)),))
    with pytest.raises(WorkspaceSecurityError, match="allowed_host_roots"):
        section(kind, repo, allowed_host_roots=())
    with pytest.raises(FileNotFoundError):
        section(kind, repo, mounts=(HostMount("none"),))


@BOTH
def test_a_budget_that_is_passed_leaves_nothing_behind(kind: type[Any], repo: Path, temporary: Path) -> None:
    made = section(kind, repo, mounts=(HostMount(str(repo), max_bytes=7),))
    with pytest.raises(WorkspaceBudgetExceededError, match="max_bytes=7"):
        made.temp_dir  # noqa: B018
    assert list(temporary.iterdir()) == []


@BOTH
def test_links_are_not_followed_unless_told(kind: type[Any], repo: Path) -> None:
    (repo / "alias.py").symlink_to("main.py")
    with section(kind, repo) as made:
        assert not (made.temp_dir / "project/alias.py").exists()
    followed = (HostMount(str(repo), "p", follow_symlinks=True),)
    with section(kind, repo, mounts=followed) as made:
        assert (made.temp_dir / "p/alias.py").read_bytes() == b"1234"
        assert not (made.temp_dir / "p/alias.py").is_symlink()


@BOTH
def test_it_cannot_be_used_after_cleanup(kind: type[Any], repo: Path) -> None:
    made = section(kind, repo)
    made.cleanup()
    made.cleanup()
    for name in ("temp_dir", "filesystem"):
        with pytest.raises(WorkspaceError, match="cleaned up"):
            getattr(made, name)


@BOTH
def test_a_directory_that_was_forgotten_goes_with_its_section(kind: type[Any], repo: Path, temporary: Path) -> None:
    made = section(kind, repo)
    assert made.temp_dir.is_dir()
    del made
    gc.collect()
    assert list(temporary.iterdir()) == []


@BOTH
def test_a_directory_that_was_forgotten_goes_with_its_process(kind: type[Any], repo: Path, temporary: Path) -> None:
    program = """if True:
        import sys
        from belljar import ClaudeAgentWorkspaceSection, HostMount, OpenAIContainerWorkspaceSection, Session
        kind = globals()[sys.argv[1]]
        made = kind(session=Session(), mounts=(HostMount(sys.argv[2], "p"),), allowed_host_roots=(sys.argv[2],))
        assert made.temp_dir.is_dir()
    """
    environment = {**os.environ, "TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", program, kind.__name__, str(repo)], check=True, env=environment)
    assert list(temporary.iterdir()) == []


@BOTH
def test_progress_is_told(kind: type[Any], repo: Path) -> None:
    seen: list[WorkspaceProgress] = []
    with section(kind, repo, on_progress=seen.append) as made:
        made.temp_dir  # noqa: B018
    assert seen == [WorkspaceProgress("copy", n, None) for n in (4, 8, 12)]


@BOTH
def test_a_mount_may_be_named_as_code_names_it(kind: type[Any], repo: Path) -> None:
    mounts = (HostMount(str(repo / "main.py"), "/mnt/data/in/main.py"), HostMount(str(repo), "/mnt/data"))
    with section(kind, repo, mounts=mounts) as made:
        assert [preview.mount_path for preview in made.mount_previews] == ["in/main.py", "."]
        assert (made.temp_dir / "in/main.py").read_bytes() == b"1234"
        assert "first of all `main.py`" in made.render_body(None)


@BOTH
def test_programs_stay_so_and_directories_without_files_come_along(kind: type[Any], repo: Path) -> None:
    (repo / "main.py").chmod(0o755)
    (repo / "out/plots").mkdir(parents=True)
    with section(kind, repo) as made:
        assert os.access(made.temp_dir / "project/main.py", os.X_OK)
        assert not os.access(made.temp_dir / "project/src/a.py", os.X_OK)
        assert list((made.temp_dir / "project/out/plots").iterdir()) == []


@BOTH
def test_files_of_no_use_are_refused_before_the_model_is_asked(kind: type[Any], repo: Path) -> None:
    (repo / "setup.exe").write_bytes(b"MZ")
    with section(kind, repo) as made, pytest.raises(WorkspaceError, match=r"'setup.exe' is of a type"):
        made.render_body(None)


@BOTH
def test_a_tilde_is_the_home_directory(
    kind: type[Any], repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    mounts = (HostMount("~/repos/project", "p", include_glob=("*.csv",)),)
    made = section(kind, repo, mounts=mounts, allowed_host_roots=("~/repos",), sync_to="~/back")
    with made:
        assert (made.temp_dir / "p/data/in.csv").is_file()
    assert made._sync_to == tmp_path / "back"


# -- in a container --------------------------------------------------------------------------------------------------


def test_the_container_is_made_at_the_first_use_and_only_once(repo: Path) -> None:
    with FlatContainers() as server, server.client() as client, container(repo, client) as made:
        assert isinstance(made.filesystem, ContainerFilesystem)
        assert isinstance(made.filesystem, Filesystem)
        assert made.filesystem is made.filesystem
        made.render_body(None)
        assert (made.container_id, server.requests) == (None, [])
        id = made.filesystem.ensure_container()
        assert made.container_id == id
        uploads = [asked for asked in server.requests if asked == ("POST", "containers/files")]
        assert len(uploads) == 4  # three files, and the archive that asks what the server can do
        made.filesystem.ensure_container()
        made.bind(client)
        assert made.filesystem.ensure_container() == id
        assert [asked for asked in server.requests if asked[0] == "POST"][1:] == uploads
        assert server.requests[0] == ("POST", "containers")
        assert server.containers[id].body["memory_limit"] == "4g"
        assert server.containers[id].body["name"] == "belljar-workspace"


def test_files_go_in_and_code_finds_them(gateway: Server, client: OpenAI, repo: Path) -> None:
    with container(repo, client) as made:
        answer = client.responses.create(
            model="belljar",
            input="```python\nimport os\nsorted(os.path.join(d, f) for d, _, fs in os.walk('.') for f in fs)\n```",
            tools=[{"type": "code_interpreter", "container": made.filesystem.ensure_container()}],
            include=["code_interpreter_call.outputs"],
        )
        logs = [
            output.logs
            for item in answer.output
            if item.type == "code_interpreter_call"
            for output in item.outputs or ()
            if output.type == "logs"
        ]
        assert "".join(logs).strip() == "['./project/data/in.csv', './project/main.py', './project/src/a.py']"
        assert client.containers.retrieve(made.container_id or "").memory_limit == "4g"


def test_code_runs_programs_and_finds_empty_directories(client: OpenAI, repo: Path) -> None:
    (repo / "main.py").write_text("#!/bin/sh\necho ran")
    (repo / "main.py").chmod(0o755)
    (repo / "out/plots").mkdir(parents=True)
    run = "import os, subprocess\nprint(os.path.isdir('project/out/plots'))\nsubprocess.run(['project/main.py'])"
    with container(repo, client) as made:
        answer = client.responses.create(
            model="belljar",
            input=f"```python\n{run}\n```",
            tools=[{"type": "code_interpreter", "container": made.filesystem.ensure_container()}],
        )
        assert "True" in answer.output_text
        assert "ran" in answer.output_text
        assert made.filesystem.list_dir("project/out") == ["plots"]
        assert made.filesystem.list_dir("project/out/plots") == []
        assert "project/out/plots" not in " ".join(made.filesystem.glob("**"))


def test_empty_directories_are_kept_without_unpacking_too(repo: Path) -> None:
    (repo / "out").mkdir()
    with FlatContainers() as server, server.client() as client, container(repo, client) as made:
        assert made.filesystem.is_dir("project/out")
        assert made.filesystem.list_dir("project/out") == []


@pytest.mark.parametrize("pattern", [".git", ".git/", "**/.git", ".git/*", "./.git/*"])
def test_what_is_left_out_is_not_uploaded(repo: Path, pattern: str, caplog: pytest.LogCaptureFixture) -> None:
    mounts = (HostMount(str(repo), ".", exclude_glob=(pattern, "src", "data/", "secrts/")),)
    with FlatContainers() as server, server.client() as client, container(repo, client, mounts=mounts) as made:
        assert server.names(made.filesystem.ensure_container()) == ["/mnt/data/main.py"]
        assert [preview.unmatched for preview in made.mount_previews] == [("secrts/",)]
        assert made.temp_dir.is_dir()
    told = [record.getMessage() for record in caplog.records if "matches nothing" in record.getMessage()]
    assert len(told) == 1, "once, however often it is looked at"
    assert "'secrts/'" in told[0]


def test_host_files_are_packed_from_where_they_lie(gateway: Server, client: OpenAI, repo: Path) -> None:
    with container(repo, client) as made:
        old = made.filesystem.ensure_container()
        made.filesystem.write("project/main.py", b"by a tool")
        assert made._temp_dir is not None
        assert list(made._temp_dir.iterdir()) == []
        assert (made.temp_dir / "project/main.py").read_bytes() == b"1234"
        (repo / "src/a.py").write_bytes(b"newer")
        client.containers.delete(old)
        assert made.filesystem.ensure_container() != old
        assert made.filesystem.read("project/main.py") == b"by a tool"
        assert made.filesystem.read("project/src/a.py") == b"newer"
        assert made.filesystem.read("project/data/in.csv") == b"1234"


def test_only_what_changed_comes_back(gateway: Server, client: OpenAI, repo: Path, tmp_path: Path) -> None:
    with container(repo, client, sync_on_cleanup=True, sync_to=tmp_path / "back") as made:
        id = made.filesystem.ensure_container()
        gateway.code_writes(id, "project/main.py", b"5678")
        gateway.code_writes(id, "out/plot.png", b"\x89PNG")
        temp_dir = made.temp_dir
    assert made.results_dir == tmp_path / "back"
    assert made.synced == ("out/plot.png", "project/main.py")
    assert (tmp_path / "back/project/main.py").read_bytes() == b"5678"
    assert (tmp_path / "back/out/plot.png").read_bytes() == b"\x89PNG"
    assert not (tmp_path / "back/project/src").exists()
    assert not temp_dir.exists()
    assert (repo / "main.py").read_bytes() == b"1234"
    assert client.containers.retrieve(id).id == id


def test_results_have_a_directory_of_their_own(client: OpenAI, repo: Path, temporary: Path) -> None:
    with container(repo, client, sync_on_cleanup=True) as made:
        made.filesystem.write_text("project/new.txt", "from a tool")
    assert made.results_dir is None, "what came from this side is here already"
    assert list(temporary.iterdir()) == []
    with FlatContainers() as server, server.client() as flat:
        other = container(repo, flat, sync_on_cleanup=True)
        server.write(other.filesystem.ensure_container(), "made.txt", b"1")
        other.cleanup()
        assert other.results_dir is not None
        assert [path.name for path in other.results_dir.iterdir()] == ["made.txt"]
        assert list(temporary.iterdir()) == [other.results_dir]


def test_results_never_leave_the_target(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "back").mkdir()
    (tmp_path / "back/d").symlink_to(tmp_path / "elsewhere")
    for path in ("d%2Fx", "../x"):
        with FlatContainers() as server, server.client() as client:
            made = container(repo, client, sync_on_cleanup=True, sync_to=tmp_path / "back")
            server.write(made.filesystem.ensure_container(), path, b"1")
            with pytest.raises(WorkspaceSecurityError):
                made.cleanup()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert not (tmp_path / "x").exists()


def test_results_that_are_lost_are_told_each_time_and_the_directory_goes_with_the_section(
    repo: Path, temporary: Path, tmp_path: Path
) -> None:
    with FlatContainers() as server, server.client() as client:
        made = container(repo, client, sync_on_cleanup=True, sync_to=tmp_path / "back")
        made.filesystem.ensure_container()
        server.containers.clear()
        for _ in range(2):
            with pytest.raises(ContainerExpiredError):
                made.cleanup()
    del made
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_a_container_whose_results_did_not_come_home_is_not_deleted(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "back").write_bytes(b"in the way")
    with FlatContainers() as server, server.client() as client:
        made = container(repo, client, sync_on_cleanup=True, sync_to=tmp_path / "back")
        id = made.filesystem.ensure_container()
        server.write(id, "made.txt", b"1")
        with pytest.raises(FileExistsError):
            made.cleanup(delete_container=True)
        assert id in server.containers
        (tmp_path / "back").unlink()
        made.cleanup(delete_container=True)
        assert server.containers == {}
    assert (tmp_path / "back/made.txt").read_bytes() == b"1"
    assert [path.name for path in (tmp_path / "back").iterdir()] == ["made.txt"], "what was uploaded did not change"


def test_without_a_container_there_is_nothing_to_bring_back(repo: Path) -> None:
    with FlatContainers() as server, server.client() as client:
        container(repo, client, sync_on_cleanup=True).cleanup()
        with container(repo, client, sync_on_cleanup=True) as made:
            made.temp_dir  # noqa: B018
        assert server.requests == []


def test_the_container_can_be_deleted_at_the_end(repo: Path) -> None:
    with FlatContainers() as server, server.client() as client:
        made = container(repo, client)
        made.filesystem.ensure_container()
        made.cleanup(delete_container=True)
        assert server.containers == {}


def test_mode_auto_keeps_to_its_session(repo: Path) -> None:
    session = Session()
    auto = ContainerConfig(mode="auto")
    with FlatContainers() as server, server.client() as client:
        turns = [container(repo, client, session=session, container_config=auto) for _ in range(2)]
        turns.append(container(repo, client, container_config=auto))
        one, two, other = (turn.filesystem.ensure_container() for turn in turns)
        assert one == two != other
        assert len(server.names(one)) == 3
        for turn in turns:
            turn.cleanup()


def test_upload_is_told_with_its_total(client: OpenAI, repo: Path) -> None:
    seen: list[WorkspaceProgress] = []
    with container(repo, client, on_progress=seen.append) as made:
        made.filesystem.ensure_container()
    assert seen[-1] == WorkspaceProgress("upload", 12, 12)


def test_a_container_belongs_to_one_server(client: OpenAI, repo: Path) -> None:
    with container(repo, client) as made, FlatContainers() as server, server.client() as other:
        made.bind(other)
        made.bind(client)
        made.filesystem.ensure_container()
        with pytest.raises(WorkspaceError, match="make a section for each server"):
            made.bind(other)


def test_without_an_adapter_the_environment_says_where(
    gateway: Server, client: OpenAI, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", str(client.base_url))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with section(OpenAIContainerWorkspaceSection, repo) as made:
        assert made.filesystem.list_dir("project") == ["data", "main.py", "src"]
        made._bound().close()


# -- on this host ----------------------------------------------------------------------------------------------------


def test_on_this_host_the_files_are_in_the_directory(repo: Path, tmp_path: Path) -> None:
    with section(ClaudeAgentWorkspaceSection, repo, sync_on_cleanup=True, sync_to=tmp_path / "back") as made:
        assert isinstance(made.filesystem, HostFilesystem)
        assert str(made.temp_dir) not in made.render_body(None)
        made.filesystem.write("project/main.py", b"5678")
        os.utime(made.temp_dir / "project/main.py", (0, 0))
        made.filesystem.write("new/x", b"1")
    assert made.synced == ("new/x", "project/main.py")
    assert sorted(p.name for p in (tmp_path / "back").rglob("*") if p.is_file()) == ["main.py", "x"]
    assert (repo / "main.py").read_bytes() == b"1234"


def test_the_files_of_a_directory_go_by_every_name_of_its_root(repo: Path) -> None:
    with section(ClaudeAgentWorkspaceSection, repo) as made:
        for root in ("", "/", "/mnt/data/", f"{made.temp_dir}/"):
            assert made.filesystem.read(f"{root}project/main.py") == b"1234"
            assert made.filesystem.glob(f"{root}project/src/*") == ["project/src/a.py"]
        with pytest.raises(FileNotFoundError):
            made.filesystem.read("/mnt/database/project/main.py")


def test_tools_of_the_caller_s_own_are_told_the_directory(repo: Path) -> None:
    with section(ClaudeAgentWorkspaceSection, repo, file_tools=False) as made:
        assert made.tools == ()
        assert f"`{made.temp_dir}`" in made.render_body(None)


# -- what may come home ----------------------------------------------------------------------------------------------

Syncing = Callable[..., tuple[Any, Callable[[str, bytes], None]]]
"""Makes a workspace whose changes are brought back, and a way for code to write in it."""


@pytest.fixture(params=["container", "host"])
def syncing(request: pytest.FixtureRequest, repo: Path) -> Iterator[Syncing]:
    with ExitStack() as stack:

        def make(to: Path | None, **options: Any) -> tuple[Any, Callable[[str, bytes], None]]:
            options |= {"sync_on_cleanup": True, "sync_to": to, "allowed_host_roots": (repo.parent,)}
            mounts = (HostMount(str(repo), ".", exclude_glob=(".git/*",)),)
            if request.param == "host":
                here = ClaudeAgentWorkspaceSection(session=Session(), mounts=mounts, **options)
                return here, here.filesystem.write
            server = stack.enter_context(FlatContainers())
            made = OpenAIContainerWorkspaceSection(session=Session(), mounts=mounts, **options)
            made.bind(stack.enter_context(server.client()))
            id = made.filesystem.ensure_container()
            return made, lambda path, content: server.write(id, path.replace("/", "%2F"), content)

        yield make


def test_what_runs_by_itself_does_not_come_home(
    syncing: Syncing, repo: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(repo / ".git")
    subprocess.run(["git", "init", str(repo)], check=True, capture_output=True)
    before = (repo / ".git/config").read_bytes()
    made, write = syncing(repo)
    mark = tmp_path / "ran"
    evil = before + f"\tfsmonitor = \"touch '{mark}'\"\n".encode()
    for path in (".git/config", ".GIT/config", "sub/git~1/config", "HEAD"):
        write(path, evil)
    write("Makefile", b"all:\n")
    made.cleanup()
    subprocess.run(["git", "status"], cwd=repo, capture_output=True, check=False)
    assert not mark.exists()
    assert (repo / ".git/config").read_bytes() == before
    assert made.synced == ("Makefile",)
    assert [(one.path, one.kept_at) for one in made.unsynced] == [
        (".GIT/config", None), (".git/config", None), ("HEAD", None), ("sub/git~1/config", None)
    ]  # fmt: skip
    assert "'.git/config' is not taken out of the sandbox: git runs commands" in caplog.text
    assert "'Makefile' was brought back: builds run what it says" in caplog.text


def test_what_could_not_come_home_comes_at_the_next_call(syncing: Syncing, tmp_path: Path) -> None:
    back = tmp_path / "back"
    back.write_bytes(b"in the way")
    made, write = syncing(back)
    temp_dir = made.temp_dir
    write("out/made.txt", b"1")
    for _ in range(2):
        with pytest.raises(FileExistsError) as caught:
            made.cleanup()
        assert "cleanup() may be called again" in caught.value.__notes__[0]
        assert (made.synced, made.results_dir, temp_dir.is_dir()) == ((), None, True)
    assert made.filesystem.read("out/made.txt") == b"1"
    back.unlink()
    made.cleanup()
    assert (made.synced, made.results_dir) == (("out/made.txt",), back)
    assert (back / "out/made.txt").read_bytes() == b"1"
    assert not temp_dir.exists()
    (back / "out/made.txt").write_bytes(b"mine now")
    made.cleanup()
    assert (back / "out/made.txt").read_bytes() == b"mine now", "it was brought home already"


def test_one_file_that_cannot_come_home_keeps_no_other_from_it(syncing: Syncing, tmp_path: Path) -> None:
    back = tmp_path / "back"
    back.mkdir()
    (back / "b").write_bytes(b"a file where a directory should be")
    made, write = syncing(back)
    for path in ("a.txt", "b/x.txt", "c.txt"):
        write(path, b"1")
    with pytest.raises(NotADirectoryError):
        made.cleanup()
    assert made.synced == ("a.txt", "c.txt")
    (back / "b").unlink()
    made.cleanup()
    assert made.synced == ("a.txt", "b/x.txt", "c.txt")
    assert sorted(path.name for path in back.rglob("*.txt")) == ["a.txt", "c.txt", "x.txt"], "none of them twice"


def test_results_in_a_directory_of_their_own_come_into_one(
    syncing: Syncing, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, write = syncing(None)
    write("a.txt", b"1")
    write("b.txt", b"2")
    save, full = Export.save, {"a.txt", "b.txt"}

    def saved(export: Export, at: tuple[str, ...], *rest: Any, **more: Any) -> Path:
        if at[-1] in full:
            raise OSError(errno.ENOSPC, "No space left on device", at[-1])
        return save(export, at, *rest, **more)

    monkeypatch.setattr(Export, "save", saved)
    for room in ("a.txt", "b.txt"):
        with pytest.raises(OSError, match="No space left"):
            made.cleanup()
        full.remove(room)
    made.cleanup()
    assert made.results_dir is not None
    assert sorted(path.name for path in made.results_dir.iterdir()) == ["a.txt", "b.txt"]
    assert list(temporary.iterdir()) == [made.results_dir]


def test_results_on_this_host_outlive_a_section_that_could_not_bring_them_home(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "back").write_bytes(b"in the way")
    made = section(ClaudeAgentWorkspaceSection, repo, sync_on_cleanup=True, sync_to=tmp_path / "back")
    made.filesystem.write("made.txt", b"1")
    temp_dir = made.temp_dir
    with pytest.raises(FileExistsError) as caught:
        made.cleanup()
    assert str(temp_dir) in caught.value.__notes__[0]
    del made, caught
    gc.collect()
    assert (temp_dir / "made.txt").read_bytes() == b"1"


def test_what_was_mounted_is_replaced_where_it_is_still_as_it_was(syncing: Syncing, repo: Path) -> None:
    made, write = syncing(repo)
    write("main.py", b"by code")
    made.cleanup()
    assert (made.synced, made.unsynced) == (("main.py",), ())
    assert (repo / "main.py").read_bytes() == b"by code"


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_changed_at_home_meanwhile_is_not_lost(
    syncing: Syncing, repo: Path, caplog: pytest.LogCaptureFixture, overwrite: bool
) -> None:
    made, write = syncing(repo, sync_overwrite=overwrite)
    (repo / "main.py").write_bytes(b"by me")
    (repo / "new.txt").write_bytes(b"mine")
    (repo / "same.txt").write_bytes(b"same")
    for path, content in {"main.py": b"by code", "new.txt": b"made", "same.txt": b"same"}.items():
        write(path, content)
    made.cleanup()
    now = {path.name: path.read_bytes() for path in repo.iterdir() if path.is_file()}
    if overwrite:
        assert (now["main.py"], now["new.txt"], made.unsynced) == (b"by code", b"made", ())
        return
    assert now == {
        "main.py": b"by me", "main-2.py": b"by code", "new.txt": b"mine", "new-2.txt": b"made", "same.txt": b"same"
    }  # fmt: skip
    assert made.synced == ("same.txt",)
    assert [(one.path, one.kept_at) for one in made.unsynced] == [
        ("main.py", repo / "main-2.py"), ("new.txt", repo / "new-2.txt")
    ]  # fmt: skip
    assert "'main.py' has something else in its place" in caplog.text
