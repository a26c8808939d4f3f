"""Workspaces: what an item may change, the patch of it, and what stays as it was."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import CommandError
from ludolf.fleet.git import is_url, without_credentials
from ludolf.fleet.workspace import (
    PUSH_DISABLED,
    ItemWorkspace,
    WorkspaceRequest,
    find_workspace,
    make_workspace,
    remove_workspace,
    take_patch,
)
from tests.batch_stage import make_repository


class Ground:
    """A folder with a repository, and the folders of one item."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = root / "repo"
        self.item, self.work = root / "out/items/a", root / "out/work/a"
        self.item.mkdir(parents=True)
        self.work.parent.mkdir(parents=True)

    def make(self, **given: Any) -> ItemWorkspace:
        request = WorkspaceRequest(
            start=self.root, out=self.root / "out", mirrors=self.root / "mirrors", **given
        )
        made = asyncio.run(make_workspace(request, self.item, self.work))
        assert find_workspace(self.item) == made
        return made

    def patch(self) -> str:
        made = find_workspace(self.item)
        assert made is not None
        patch = asyncio.run(take_patch(made, self.work))
        assert patch is not None
        return patch.decode()

    def git(self, folder: Path, *words: str) -> str:
        identity = ("-c", "user.name=T", "-c", "user.email=t@example.org")
        done = subprocess.run(
            ("git", *identity, *words), cwd=folder, capture_output=True, check=True
        )
        return done.stdout.decode().strip()


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground(tmp_path)
    make_repository(ground.repo, {"a.txt": "one\n", "sub/b.txt": "two\n"})
    return ground


def _change(folder: Path) -> None:
    (folder / "a.txt").write_text("changed\n")
    (folder / "new.bin").write_bytes(b"\0\1\2")


@pytest.mark.parametrize("kind", ["clone", "worktree", "copy"])
def test_a_patch_has_changes_new_files_and_commits_and_applies(ground: Ground, kind: Any) -> None:
    made = ground.make(repo="repo", kind=kind)
    work = Path(made.cwd)
    _change(work)
    if kind != "copy":
        (work / "committed.txt").write_text("c\n")
        ground.git(work, "add", "committed.txt")
        ground.git(work, "commit", "-qm", "more")
        (work / "staged.txt").write_text("s\n")
        ground.git(work, "add", "staged.txt")
    patch = ground.patch()
    (ground.root / "p.diff").write_text(patch)
    ground.git(ground.repo, "apply", str(ground.root / "p.diff"))
    assert (ground.repo / "a.txt").read_text() == "changed\n"
    assert (ground.repo / "new.bin").read_bytes() == b"\0\1\2"
    assert (ground.repo / "committed.txt").exists() == (kind != "copy")
    assert (ground.repo / "staged.txt").exists() == (kind != "copy")
    asyncio.run(remove_workspace(ground.item, ground.work))
    assert os.listdir(ground.work.parent) == []
    assert len(ground.git(ground.repo, "worktree", "list").splitlines()) == 1


def test_a_clone_keeps_the_origin_without_its_password_and_cannot_push(ground: Ground) -> None:
    ground.git(ground.repo, "remote", "add", "origin", "https://me:secret@example.org/r.git")
    made = ground.make(repo="repo")
    assert ground.git(Path(made.cwd), "remote", "get-url", "origin") == "https://example.org/r.git"
    assert ground.git(Path(made.cwd), "remote", "get-url", "--push", "origin") == PUSH_DISABLED
    ground.git(Path(made.cwd), "branch", "mine")
    assert "mine" not in ground.git(ground.repo, "branch", "--all")


def test_a_clone_is_at_the_ref_and_in_the_folder_that_the_item_names(ground: Ground) -> None:
    first = ground.git(ground.repo, "rev-parse", "HEAD")
    (ground.repo / "a.txt").write_text("later\n")
    ground.git(ground.repo, "commit", "-qam", "later")
    made = ground.make(repo="repo", ref=first[:10], folder="sub")
    assert (made.commit, made.cwd) == (first, str(ground.work / "sub"))
    assert (ground.work / "a.txt").read_text() == "one\n"
    assert ground.patch() == ""
    part = ground.make(folder="repo/sub")
    assert (part.kind, part.cwd) == ("clone", str(ground.work / "sub"))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"repo": "none"}, "is not a folder"),
        ({"repo": "repo", "ref": "none"}, 'no commit "none"'),
        ({"repo": "repo", "ref": "--upload-pack=x"}, "no commit"),
        ({"repo": "repo", "folder": "../.."}, "no folder"),
        ({"repo": "repo", "folder": "none"}, "no folder"),
        ({"repo": "ext::sh -c touch% pwned"}, "is not a folder"),
    ],
)
def test_a_wrong_source_is_an_error_of_the_item(
    ground: Ground, given: dict[str, str], error: str
) -> None:
    with pytest.raises(CommandError, match=error):
        ground.make(**given)
    assert find_workspace(ground.item) is None


def test_an_address_is_mirrored_once_and_fetched_later(ground: Ground) -> None:
    url = f"file://{ground.repo}"
    ground.make(repo=url)
    (ground.repo / "a.txt").write_text("later\n")
    ground.git(ground.repo, "commit", "-qam", "later")
    made = ground.make(repo=url)
    assert (Path(made.cwd) / "a.txt").read_text() == "later\n"
    assert len(list((ground.root / "mirrors").glob("*.git"))) == 1
    _change(Path(made.cwd))
    assert "+changed" in ground.patch()


def test_the_patch_runs_no_program_that_the_workspace_names_and_needs_no_git_folder(
    ground: Ground,
) -> None:
    work = Path(ground.make(repo="repo").cwd)
    mark = ground.root / "ran"
    for key in ("core.fsmonitor", "diff.external", "filter.x.clean", "core.pager"):
        ground.git(work, "config", key, f"touch {mark}; cat")
    hook = work / ".git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    _change(work)
    (work / ".gitattributes").write_text("* filter=x diff=x\n")
    assert "+changed" in ground.patch()
    subprocess.run(("rm", "-rf", work / ".git"), check=True)
    assert "+changed" in ground.patch()
    assert not mark.exists()


def test_a_copy_leaves_out_the_folder_of_the_batch_and_read_only_folders_are_removed(
    ground: Ground,
) -> None:
    made = ground.make(kind="copy", repo=".")
    work = Path(made.cwd)
    assert sorted(os.listdir(work)) == ["repo"]
    (work / "locked").mkdir()
    (work / "locked/file").write_text("x")
    (work / "locked").chmod(0o500)
    asyncio.run(remove_workspace(ground.item, ground.work))
    assert os.listdir(ground.work.parent) == []


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("https://example.org/r.git", True),
        ("git@example.org:me/r.git", True),
        ("ssh://example.org/r", True),
        ("../r", False),
        ("ext::sh -c x", False),
        ("-u", False),
        ("a@b", False),
    ],
)
def test_addresses_are_told_from_paths(text: str, is_one: bool) -> None:
    assert is_url(text) == is_one
    assert without_credentials("https://a:b@c.org/x@y") == "https://c.org/x@y"
