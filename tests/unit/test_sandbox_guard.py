"""Code that runs later: no command and no file tool changes it, whether it exists or not."""

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.agent.tool import ToolFailure
from ludolf.tools.sandbox import sensitive_paths as places
from ludolf.tools.sandbox.guard import NoSandbox
from ludolf.tools.sandbox.leftovers import Leftovers, remove_of_dead
from tests.unit.sandbox_place import Place, Shell

COMMIT = "git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log --oneline"


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="ludolf-test-") as root:
        made = Place(Path(root))
        try:
            yield made
        finally:
            made.close()


def _git(place: Place, *words: str) -> None:
    subprocess.run(["git", "init", "-q", *words], cwd=place.work, check=True)


def _write(path: Path, text: str = "old") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _shell(place: Place, **more: Any) -> Shell:
    return Shell(place, place.sandbox("bwrap", **more))


def _refuses_to_write(shell: Shell, place: Place, path: Path) -> bool:
    with pytest.raises(ToolFailure) as error:
        shell.sandbox.walls(place.work).replace(path, b"evil")
    return "protects" in str(error.value)


# ---------------------------------------------------------------- absent


def test_settings_of_agents_and_editors_cannot_be_created(place: Place) -> None:
    shell = _shell(place)
    for name in places.PROJECT_SETTINGS:
        assert shell.fails(f"mkdir -p {name} && echo evil > {name}/x"), name
        assert shell.fails(f"mkdir -p evil && echo evil > evil/x && mv -T evil {name}"), name
        assert shell.fails(f"ln -sfn /tmp {name} && test -L {name}"), name
        assert shell.fails(f"rm -rf {name} && echo evil > {name}"), name
        assert _refuses_to_write(shell, place, place.work / name.upper() / "x")
    shell.sandbox.close()
    assert os.listdir(place.work) == ["evil"]


def test_settings_of_git_cannot_be_created_and_commits_work(place: Place) -> None:
    _git(place, "--template=")
    git = place.work / ".git"
    (git / "config").unlink()
    before = sorted(os.listdir(git))
    shell = _shell(place)
    for name in ("config", "config.worktree", "hooks/pre-commit"):
        assert shell.fails(f"mkdir -p .git/hooks; echo evil > .git/{name}"), name
        assert shell.fails(f"echo evil > x; mv -f x .git/{name}"), name
    assert shell.says(COMMIT).endswith("x\n")
    shell.sandbox.close()
    new = {"COMMIT_EDITMSG", "index", "logs"}
    assert set(os.listdir(git)) - new == set(before) - new


def test_code_that_is_absent_cannot_be_created(place: Place) -> None:
    (place.work / "have").mkdir()
    code = (place.work / "have" / "a.py", place.work / "no" / "such" / "b.py")
    shell = _shell(place, guarded=code)
    for path in code:
        assert shell.fails(f"mkdir -p {path.parent} && echo evil > {path}")
        assert _refuses_to_write(shell, place, path)
    assert shell.fails("mv have else && mkdir have && echo evil > have/a.py")
    assert shell.says("echo x > have/other; ls have") == "a.py\nother\n"
    shell.sandbox.close()
    assert os.listdir(place.work) == ["have"]
    assert os.listdir(place.work / "have") == ["other"]


def test_an_empty_folder_that_a_second_session_needs_stays(place: Place) -> None:
    first, second = _shell(place), _shell(place)
    first.sandbox.close()
    assert second.fails("mkdir -p .claude && echo evil > .claude/x")
    assert (place.work / ".claude").is_dir()
    second.sandbox.close()
    assert os.listdir(place.work) == []


def test_a_folder_that_somebody_filled_is_not_removed(place: Place) -> None:
    shell = _shell(place)
    _write(place.work / ".vscode" / "settings.json", "{}")
    assert shell.fails("echo evil > .vscode/tasks.json")
    shell.sandbox.close()
    assert (place.work / ".vscode" / "settings.json").read_text() == "{}"


# ---------------------------------------------------------------- existing


def test_code_stays_with_the_folders_that_hold_it(place: Place) -> None:
    code = _write(place.work / "a" / "b" / "ext.py")
    shell = _shell(place, guarded=(code,))
    for command in (
        "echo evil > a/b/ext.py",
        "rm a/b/ext.py",
        "mv a/b/ext.py x",
        "mv a x",
        "mv a/b x",
        "echo evil > x; mv x a/b/ext.py",
        "rm -rf a",
    ):
        assert shell.fails(command), command
    shell.run("rm -f x; echo fine > a/b/more.py")
    assert code.read_text() == "old"
    assert (place.work / "a" / "b" / "more.py").read_text() == "fine\n"
    assert _refuses_to_write(shell, place, code)


def test_a_place_to_write_to_around_the_folder_does_not_uncover_it(place: Place) -> None:
    code = _write(place.work / "ext.py")
    _git(place)
    shell = _shell(place, guarded=(code,), write=(place.root / "work" / "..",), home=Path("/none"))
    assert shell.says(f"echo x > {place.outside}/new; cat {place.outside}/new") == "x\n"
    name = place.work.name
    for command in (
        "echo evil > ext.py",
        "echo evil > .git/hooks/pre-commit",
        f"cd ..; mv {name} x; mkdir {name}",
        f"cd ..; mv {name}/.git x",
    ):
        assert shell.fails(command), command
    assert code.read_text() == "old"


def test_a_folder_that_was_replaced_from_outside_is_not_opened_by_its_old_name(
    place: Place,
) -> None:
    code = _write(place.work / "a" / "ext.py")
    shell = _shell(place, guarded=(code,))
    code.unlink()
    code.parent.rmdir()
    code.parent.symlink_to(place.outside)
    assert shell.fails("echo evil > a/new")
    assert shell.fails(f"echo evil > {place.outside}/new")
    assert os.listdir(place.outside) == ["open.txt"]


def test_a_hidden_file_in_the_folder_cannot_be_moved_into_sight(place: Place) -> None:
    secret = _write(place.work / "a" / "b" / "key", "hush")
    (place.work / ".env").symlink_to("a/b/key")
    shell = _shell(place, hide=(place.work / ".env",))
    for command in ("mv a c", "mv a/b c", "mv a/b/key c", "rm .env; echo > .env"):
        shell.run(command)
        assert "hush" not in shell.run("grep -rs . . ; cat c/b/key c/key c a/b/key").stdout
    assert secret.read_text() == "hush"


# ---------------------------------------------------------------- links


@pytest.mark.parametrize("name", [".claude", ".git", ".vscode"])
def test_a_link_that_a_command_could_replace_is_refused(name: str, place: Place) -> None:
    (place.work / "real").mkdir()
    (place.work / name).symlink_to("real")
    with pytest.raises(NoSandbox, match=f"{name} is a link"):
        place.sandbox("bwrap")
    with pytest.raises(NoSandbox, match=f"{name} is a link"):
        place.sandbox("auto")
    place.sandbox("bwrap", "read-only")


def test_a_link_by_which_this_program_runs_code_is_refused(place: Place) -> None:
    _write(place.work / "src" / "a.py")
    (place.work / "ext").symlink_to("src")
    with pytest.raises(NoSandbox, match="ext is a link"):
        place.sandbox("bwrap", guarded=(place.work / "ext" / "a.py",))


@pytest.mark.parametrize("name", ["hooks", "config"])
def test_a_repository_that_is_made_of_links_stays_as_it_is(name: str, place: Place) -> None:
    _git(place)
    git, shared = place.work / ".git", place.work / "shared"
    shared.mkdir()
    os.rename(git / name, shared / name)
    (git / name).symlink_to(f"../shared/{name}")
    shell = _shell(place)
    for command in (
        f"rm .git/{name}",
        f"echo evil > x; mv -T x .git/{name}",
        "echo evil > .git/hooks/pre-commit",
        "echo evil >> .git/config",
        f"rm -rf shared/{name}",
        f"touch shared/{name}/evil || echo evil >> shared/{name}",
        "mv shared other",
    ):
        assert shell.fails(command), command
    assert (git / name).is_symlink()
    assert "?? shared/" in shell.says("git status --short")


def test_what_links_in_protected_folders_lead_to_stays_as_it_is(place: Place) -> None:
    _git(place)
    hook = _write(place.work / "scripts" / "pre-commit")
    (place.work / ".git" / "hooks" / "pre-commit").symlink_to("../../scripts/pre-commit")
    tasks = _write(place.work / "shared" / "tasks.json")
    (place.work / ".vscode").mkdir()
    (place.work / ".vscode" / "tasks.json").symlink_to(tasks)
    shell = _shell(place)
    for path in (hook, tasks):
        assert shell.fails(f"echo evil > {path}")
        assert shell.fails(f"mv {path.parent} x && mkdir {path.parent} && echo evil > {path}")
        assert _refuses_to_write(shell, place, path)
        assert path.read_text() == "old"


def test_a_repository_whose_folder_lies_elsewhere_in_the_working_folder(place: Place) -> None:
    _git(place, "--separate-git-dir", "bare")
    shell = _shell(place)
    for name in ("hooks/pre-commit", "config", "config.worktree"):
        assert shell.fails(f"echo evil > bare/{name}"), name
        assert _refuses_to_write(shell, place, place.work / "bare" / name)
    assert shell.fails("echo 'gitdir: evil' > .git")
    assert shell.fails("rm .git")
    assert shell.says(COMMIT).endswith("x\n")


def test_settings_of_submodules_and_worktrees_stay_as_they_are(place: Place) -> None:
    _git(place)
    git = place.work / ".git"
    subprocess.run(["git", "init", "-q", "--bare", str(git / "modules/a/b")], check=True)
    _write(git / "worktrees" / "w" / "HEAD", "ref: refs/heads/w")
    _write(git / "worktrees" / "w" / "commondir", "../..")
    shell = _shell(place)
    for name in (
        "modules/a/b/config",
        "modules/a/b/hooks/post-checkout",
        "worktrees/w/commondir",
        "worktrees/w/config.worktree",
    ):
        assert shell.fails(f"echo evil > .git/{name}"), name
    assert shell.fails("mv .git/modules/a .git/modules/c")
    shell.run("echo evil > .git/modules/a/b/commondir")
    assert shell.sandbox.sweep() == (git / "modules/a/b/commondir",)


# ---------------------------------------------------------------- after a kill


def test_a_kill_leaves_nothing_that_leads_git_elsewhere(place: Place) -> None:
    """The sandbox's own process waits for the end of the program, however that comes."""
    foreign = place.work / "commondir"
    script = (
        "import sys; from pathlib import Path\n"
        "from ludolf.tools.sandbox.leftovers import Leftovers\n"
        f"left = Leftovers(Path({str(place.root)!r}))\n"
        f"left.forbid([Path({str(foreign)!r})])\n"
        f"left.make(Path({str(place.work / '.claude')!r}), folder=True)\n"
        f"Path({str(foreign)!r}).write_text('evil')\n"
        "print(left._sweeper[0], flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        sweeper = os.pidfd_open(int(program.stdout.readline()))
        assert foreign.exists()
        program.send_signal(signal.SIGKILL)
        program.wait()
    # The descriptor of a process is readable when the process has ended.
    assert select.select([sweeper], [], [], 20)[0]
    os.close(sweeper)
    assert os.listdir(place.work) == [".claude"]
    remove_of_dead(place.root)
    assert os.listdir(place.work) == []
    assert not list(place.root.glob("left-*"))


def test_the_next_start_removes_what_a_killed_program_left(place: Place) -> None:
    left = Leftovers(place.root)
    left.make(place.work / ".claude", folder=True)
    left.make(place.work / "config", folder=False)
    (record,) = place.root.glob("left-*")
    gone = subprocess.Popen(["true"])
    gone.wait()
    os.rename(record, place.root / f"left-{gone.pid}-x")
    (place.work / "config").write_text("filled by the user")
    remove_of_dead(place.root)
    assert os.listdir(place.work) == ["config"]


def test_what_a_living_program_needs_is_not_removed(place: Place) -> None:
    left = Leftovers(place.root)
    left.make(place.work / ".claude", folder=True)
    remove_of_dead(place.root)
    assert os.listdir(place.work) == [".claude"]
    left.close()
    assert os.listdir(place.work) == []
