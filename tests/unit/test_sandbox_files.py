"""File tools within the sandbox: no link, no race and no spelling leads out of it."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ludolf.agent.tool import Tool, ToolContext, ToolFailure, ToolOutput
from ludolf.ai.messages import text_of
from ludolf.tools.edit import EditTool
from ludolf.tools.ls import LsTool
from ludolf.tools.options import BuiltinToolOptions
from ludolf.tools.read import ReadTool
from ludolf.tools.sandbox.file_access import FileWalls, Tmp
from ludolf.tools.sandbox.policy import Confinement, Ground, Policy
from ludolf.tools.write import WriteTool
from tests.samples import ignore, run_tool

SECRET = "the-secret-key"


class Shown:
    """The private temporary folder as commands see it; no command is run here."""

    def __init__(self, tmp: Tmp) -> None:
        self.tmp = tmp

    def enclose(
        self, policy: Policy, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]
    ) -> tuple[tuple[str, ...], Path, dict[str, str]]:
        raise AssertionError("no command is run here")


class Place:
    """A home with credentials, a working folder, and a folder outside of both."""

    def __init__(self, root: Path, mode: Confinement = "workspace") -> None:
        self.root = root
        self.work, self.home, self.outside = root / "work", root / "home", root / "outside"
        self.agent, box = self.home / ".pi" / "agent", root / "box"
        for folder in (self.work, self.agent, self.home / ".ssh", self.outside, box):
            folder.mkdir(parents=True)
        (self.agent / "auth.json").write_text(SECRET)
        (self.home / ".ssh" / "id").write_text(SECRET)
        (self.outside / "open.txt").write_text("open")
        ground = Ground(
            environ=os.environ, mode=mode, network=True, home=self.home, agent=self.agent
        )
        self.tmp = Tmp(box, Path("/private-tmp"), root / "kept")
        self.walls = FileWalls(Policy(ground=ground, cwd=self.work), Shown(self.tmp))

    def run(self, tool: Tool, **args: Any) -> str:
        async def ignore(partial: ToolOutput) -> None:
            del partial

        ctx = ToolContext(call_id="c", cwd=self.work, report=ignore, walls=self.walls)
        return text_of(asyncio.run(run_tool(tool, args, ctx)).content)

    def read(self, path: str | Path) -> str:
        return self.run(ReadTool(BuiltinToolOptions()), path=str(path))

    def write(self, path: str | Path, content: str = "new") -> str:
        return self.run(WriteTool(), path=str(path), content=content)

    def edit(self, path: str | Path, old: str, new: str) -> str:
        return self.run(EditTool(), path=str(path), edits=[{"oldText": old, "newText": new}])

    def refusal(self, act: Callable[..., str], *args: Any) -> str:
        with pytest.raises(ToolFailure) as error:
            act(*args)
        return str(error.value)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ---------------------------------------------------------------- inside


def test_the_working_folder_is_open(place: Place) -> None:
    assert place.write("a/b/new.txt", "one") == "Successfully wrote to a/b/new.txt"
    assert place.read("a/b/new.txt") == "one"
    place.edit("a/b/new.txt", "one", "two")
    assert (place.work / "a/b/new.txt").read_text() == "two"
    (place.work / "link").symlink_to("a")
    place.write("link/b/new.txt", "three")
    assert (place.work / "a/b/new.txt").read_text() == "three"
    assert sorted(os.listdir(place.work / "a/b")) == ["new.txt"]


def test_a_mode_is_kept_and_a_file_that_is_read_only_stays(place: Place) -> None:
    script = place.work / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    place.write("run.sh", "new")
    assert (script.read_text(), script.stat().st_mode & 0o777) == ("new", 0o750)


def test_files_outside_can_be_read(place: Place) -> None:
    assert place.read(place.outside / "open.txt") == "open"
    assert place.read("../outside/open.txt") == "open"


# ---------------------------------------------------------------- writing out


def _links(place: Place) -> None:
    (place.work / "file").symlink_to(place.outside / "open.txt")
    (place.work / "folder").symlink_to(place.outside)
    (place.work / "dangling").symlink_to(place.outside / "new.txt")
    (place.work / "chain").symlink_to("file")
    (place.work / "upwards").symlink_to("..")


@pytest.mark.parametrize(
    "path",
    [
        "../outside/open.txt",
        "../outside/new.txt",
        "a/../../outside/open.txt",
        "{root}/outside/open.txt",
        "{root}/work/../outside/open.txt",
        "file://{root}/outside/open.txt",
        "@../outside/open.txt",
        "file",
        "folder/open.txt",
        "folder/new.txt",
        "folder/deep/new.txt",
        "dangling",
        "chain",
        "upwards/outside/open.txt",
        "/proc/self/root{root}/outside/open.txt",
        "/proc/self/cwd/new.txt",
        "/etc/ludolf-new",
        "/",
    ],
)
def test_no_path_leads_to_a_write_outside(path: str, place: Place) -> None:
    _links(place)
    named = path.format(root=place.root)
    assert "sandbox" in place.refusal(place.write, named)
    if named.endswith("open.txt"):
        assert "sandbox" in place.refusal(place.edit, named, "open", "shut")
    assert (place.outside / "open.txt").read_text() == "open"
    assert os.listdir(place.outside) == ["open.txt"]
    assert not os.path.exists("/etc/ludolf-new")


def test_a_refusal_names_the_real_path_and_what_is_open(place: Place) -> None:
    _links(place)
    text = place.refusal(place.write, "chain")
    assert f"real path: {place.outside}/open.txt" in text
    assert f"Only {place.work} and /private-tmp can be written to." in text


def test_a_hard_link_to_a_file_outside_gives_nothing_away_but_its_own_name(place: Place) -> None:
    os.link(place.outside / "open.txt", place.work / "same.txt")
    place.write("same.txt", "mine")
    place.edit("same.txt", "mine", "still mine")
    assert (place.work / "same.txt").read_text() == "still mine"
    assert (place.outside / "open.txt").read_text() == "open"


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/commondir",
        ".git",
        "sub/.git/config",
        ".git/modules/sub/hooks/x",
        ".pi/settings.json",
        ".pi/extensions/evil.py",
        ".agents/skills/x/SKILL.md",
        ".vscode/tasks.json",
        "alias/settings.json",
    ],
)
def test_what_runs_code_later_stays_as_it_is_also_where_it_is_missing(
    path: str, place: Place
) -> None:
    (place.work / "alias").symlink_to(".pi")
    assert "protects" in place.refusal(place.write, path)
    assert sorted(os.listdir(place.work)) == ["alias"]


def test_the_rest_of_a_repository_can_be_written(place: Place) -> None:
    place.write(".git/COMMIT_EDITMSG", "x")
    place.write(".gitignore", "x")
    place.write("src/config", "x")
    place.write("hooks/use-x.ts", "x")


def test_read_only_means_that_nothing_but_temporary_files_is_written(tmp_path: Path) -> None:
    place = Place(tmp_path, "read-only")
    (place.work / "a").write_text("a")
    assert "read-only" in place.refusal(place.write, "a")
    assert "read-only" in place.refusal(place.write, "b")
    assert "read-only" in place.refusal(place.edit, "a", "a", "b")
    place.write("/private-tmp/x/y", "z")
    assert place.read("/private-tmp/x/y") == "z"
    assert place.read("a") == "a"
    assert os.listdir(place.work) == ["a"]


def test_temporary_files_are_those_that_commands_see(place: Place) -> None:
    place.write("/private-tmp/a", "x")
    assert (place.tmp.real / "a").read_text() == "x"
    assert place.run(LsTool(), path="/private-tmp") == "a"
    (place.tmp.real / "out").symlink_to(place.outside)
    assert "sandbox" in place.refusal(place.write, "/private-tmp/out/open.txt")
    assert "sandbox" in place.refusal(place.write, "/private-tmp/../etc/x")


# ---------------------------------------------------------------- reading credentials


@pytest.mark.parametrize(
    "path",
    [
        "{root}/home/.pi/agent/auth.json",
        "{root}/home/.ssh/id",
        "../home/.ssh/id",
        "../home/./.ssh/../.ssh/id",
        "link",
        "folder/id",
        "agent/auth.json",
        "/proc/self/root{root}/home/.ssh/id",
    ],
)
def test_no_path_leads_to_credentials(path: str, place: Place) -> None:
    (place.work / "link").symlink_to(place.home / ".ssh" / "id")
    (place.work / "folder").symlink_to(place.home / ".ssh")
    (place.work / "agent").symlink_to(place.agent)
    named = path.format(root=place.root)
    assert "hidden" in place.refusal(place.read, named)
    assert "hidden" in place.refusal(place.edit, named, SECRET, "x")
    assert "hidden" in place.refusal(place.write, named)


def test_a_hard_link_to_credentials_is_known_again(place: Place) -> None:
    os.link(place.home / ".ssh" / "id", place.work / "id")
    os.link(place.outside / "open.txt", place.work / "open")
    assert "hides" in place.refusal(place.read, "id")
    assert place.read("open") == "open"


def test_a_credential_place_that_is_a_link_is_hidden_by_its_real_path(place: Place) -> None:
    keys = place.outside / "keys"
    keys.mkdir()
    (keys / "credentials").write_text(SECRET)
    (place.home / ".aws").symlink_to(keys)
    assert "hidden" in place.refusal(place.read, keys / "credentials")
    assert "hidden" in place.refusal(place.read, place.home / ".aws" / "credentials")


def test_credentials_are_not_listed(place: Place) -> None:
    assert "hidden" in place.refusal(lambda: place.run(LsTool(), path=str(place.home / ".ssh")))
    assert place.run(LsTool(), path=str(place.outside)) == "open.txt"


def test_what_is_no_file_is_refused(place: Place) -> None:
    os.mkfifo(place.work / "pipe")
    assert "named pipe" in place.refusal(place.read, "pipe")
    assert "named pipe" in place.refusal(place.write, "pipe")
    assert "EISDIR" in place.refusal(place.read, ".")
    assert "ENOENT" in place.refusal(place.read, "missing")
    (place.work / "round").symlink_to("round")
    assert "round" in place.refusal(place.read, "round")


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="there is no /proc")
def test_our_own_environment_is_no_file_to_read_sandbox_or_not(place: Place) -> None:
    (place.work / "env").symlink_to(f"/proc/{os.getpid()}/environ")
    ctx = ToolContext(call_id="c", cwd=place.work, report=ignore)
    for path in ("/proc/self/environ", "/proc/thread-self/environ", "env"):
        assert "may contain keys" in place.refusal(place.read, path)
        with pytest.raises(ToolFailure, match="may contain keys"):
            asyncio.run(ReadTool(BuiltinToolOptions()).execute({"path": path}, ctx))
    assert "Linux" in place.read("/proc/version")


# ---------------------------------------------------------------- races


def _fine(path: Path) -> None:
    path.write_text("fine")


def _put(beside: Path, name: Path) -> None:
    while beside.is_symlink() or beside.exists():
        with suppress(OSError):  # somebody made it anew meanwhile: once more
            if name.is_symlink() or name.exists():
                os.rename(name, name.with_name(f"old-{os.urandom(4).hex()}"))
            os.rename(beside, name)


@contextmanager
def _swapping(
    name: Path, one: Callable[[Path], None], other: Callable[[Path], None]
) -> Iterator[None]:
    """A name that is now this and now that, as fast as a thread can change it."""
    over = threading.Event()
    beside = name.with_name("beside")

    def swap() -> None:
        while not over.is_set():
            for make in (one, other):
                make(beside)
                _put(beside, name)

    one(name)
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_file_that_becomes_a_link_is_never_read_through(place: Place) -> None:
    secret = place.home / ".ssh" / "id"
    read: set[str] = set()
    with _swapping(place.work / "x", _fine, lambda p: p.symlink_to(secret)):
        for _ in range(100):
            try:
                read.add(place.read("x"))
            except ToolFailure:
                continue
    assert read <= {"fine"}


def test_a_folder_that_becomes_a_link_is_never_written_through(place: Place) -> None:
    wrote = 0
    with _swapping(place.work / "d", Path.mkdir, lambda p: p.symlink_to(place.outside)):
        # On a busy machine, the name may be a link for all of the first attempts.
        for number in range(3000):
            with suppress(ToolFailure):
                place.write(f"d/{number}.txt")
                wrote += 1
            if wrote and number >= 60:
                break
    assert os.listdir(place.outside) == ["open.txt"]
    assert wrote


def test_a_file_that_becomes_a_link_is_never_written_through(place: Place) -> None:
    target = place.outside / "open.txt"
    with _swapping(place.work / "x", _fine, lambda p: p.symlink_to(target)):
        for _ in range(60):
            try:
                place.write("x", "changed")
            except ToolFailure:
                continue
    assert target.read_text() == "open"
