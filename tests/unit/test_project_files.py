"""Files of a project are read only if they are regular, lie inside their folder and are small."""

import os
from pathlib import Path

import pytest

from ludolf.base import ConfigError
from ludolf.base.project_files import FileRefused, Reader, project_reader, read_bytes, read_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "private").write_text("secret")
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_a_regular_file_is_read(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("\ufeffbe brief", "utf-8")
    assert read_text(folder / "AGENTS.md", within=folder) == "be brief"


def test_a_missing_file_is_none(folder: Path) -> None:
    (folder / "file").touch()
    assert read_text(folder / "none", within=folder) is None
    assert read_text(folder / "file" / "below", within=folder) is None


def test_a_link_inside_the_folder_is_followed(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("be brief")
    (folder / "CLAUDE.md").symlink_to("AGENTS.md")
    assert read_text(folder / "CLAUDE.md", within=folder) == "be brief"


@pytest.mark.parametrize("target", ["../private", "/proc/self/environ", "loop/../private"])
def test_a_link_that_leaves_the_folder_is_refused(folder: Path, target: str) -> None:
    (folder / "loop").symlink_to(".")
    (folder / "AGENTS.md").symlink_to(target)
    with pytest.raises(FileRefused, match="outside"):
        read_text(folder / "AGENTS.md", within=folder)


@pytest.mark.parametrize("target", [".git/config", ".git/modules/x/config", ".env", ".env.local"])
def test_a_link_to_private_files_of_the_repository_is_refused(folder: Path, target: str) -> None:
    (folder / target).parent.mkdir(parents=True, exist_ok=True)
    (folder / target).write_text("https://token@host")
    (folder / "AGENTS.md").symlink_to(target)
    with pytest.raises(FileRefused, match="private"):
        read_text(folder / "AGENTS.md", within=folder)


def test_a_linked_parent_that_leaves_the_folder_is_refused(folder: Path) -> None:
    (folder / "rules").symlink_to("..")
    with pytest.raises(FileRefused, match="outside"):
        read_text(folder / "rules" / "private", within=folder)


def test_a_hidden_file_is_refused(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("be brief")
    with pytest.raises(FileRefused, match="the sandbox hides"):
        read_text(folder / "AGENTS.md", within=folder, is_hidden=lambda path: True)


def test_a_pipe_a_device_and_a_folder_are_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "zero").symlink_to("/dev/zero")
    for path, within in ((folder / "pipe", folder), (folder / "zero", None), (folder, folder)):
        with pytest.raises(FileRefused, match="not a regular file"):
            read_bytes(path, within=within)


def test_a_file_of_the_kernel_is_refused(folder: Path) -> None:
    with pytest.raises(FileRefused, match="size is not known"):
        read_bytes(Path("/proc/self/environ"), within=None)


def test_a_file_over_the_limit_is_refused_without_reading_it(folder: Path) -> None:
    big = folder / "AGENTS.md"
    with big.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileRefused, match="larger than 1,048,576 bytes"):
        read_bytes(big, within=folder)
    big.write_bytes(b"x" * 10)
    assert read_bytes(big, within=folder, limit=10) == b"x" * 10
    with pytest.raises(FileRefused, match="larger than 9 bytes"):
        read_bytes(big, within=folder, limit=9)


def test_a_loop_of_links_is_an_error(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    with pytest.raises(ConfigError, match="symbolic links"):
        read_bytes(folder / "a", within=folder)


def test_a_path_that_no_file_can_have_is_an_error(folder: Path) -> None:
    with pytest.raises(ConfigError):
        read_bytes(folder / "a\0b", within=folder)


# ---------------------------------------------------------------- what belongs to a project


def test_a_link_inside_a_repository_is_followed_from_any_folder_of_it(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "sub").mkdir()
    (folder / "AGENTS.md").write_text("be brief")
    (folder / "sub" / "AGENTS.md").symlink_to("../AGENTS.md")
    reader = project_reader(folder / "sub", [])
    assert reader.text(folder / "sub" / "AGENTS.md") == "be brief"


def test_without_a_repository_a_link_must_stay_in_its_folder(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "AGENTS.md").write_text("be brief")
    (folder / "sub" / "AGENTS.md").symlink_to("../AGENTS.md")
    with pytest.raises(FileRefused, match="outside"):
        project_reader(folder / "sub", []).text(folder / "sub" / "AGENTS.md")


def test_a_folder_that_holds_the_home_of_the_user_is_not_a_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("secret")
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").symlink_to(home / ".ssh" / "id")
    with pytest.raises(FileRefused, match="outside"):
        project_reader(work, [home]).text(work / "AGENTS.md")


def test_a_folder_that_everybody_may_write_to_is_not_a_repository(tmp_path: Path) -> None:
    shared, work = tmp_path / "shared", tmp_path / "shared" / "work"
    work.mkdir(parents=True)
    shared.chmod(0o1777)
    (shared / ".git").mkdir()
    (shared / "private").write_text("secret")
    (work / "AGENTS.md").symlink_to("../private")
    with pytest.raises(FileRefused, match="outside"):
        project_reader(work, []).text(work / "AGENTS.md")


def test_links_in_the_home_of_the_user_do_not_lead_to_its_hidden_places(tmp_path: Path) -> None:
    for name in (".ssh", ".pi/rules", "dotfiles"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".ssh" / "id").write_text("secret")
    (tmp_path / ".pi" / "rules" / "rule.md").write_text("be kind")
    (tmp_path / "dotfiles" / "AGENTS.md").write_text("be brief")
    (tmp_path / "AGENTS.md").symlink_to("dotfiles/AGENTS.md")
    (tmp_path / "CLAUDE.md").symlink_to(".ssh/id")
    (tmp_path / "rules").symlink_to(".ssh")
    reader = project_reader(tmp_path, [tmp_path])
    assert reader.text(tmp_path / "AGENTS.md") == "be brief"
    assert reader.text(tmp_path / ".pi" / "rules" / "rule.md") == "be kind"
    for path in (tmp_path / "CLAUDE.md", tmp_path / "rules" / "id"):
        with pytest.raises(FileRefused, match="private"):
            reader.text(path)


def test_a_linked_working_folder_is_read_like_any_other(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "AGENTS.md").write_text("be brief")
    (folder.parent / "link").symlink_to(folder)
    reader = project_reader(folder.parent / "link", [folder.parent / "home"])
    assert reader.text(folder.parent / "link" / "AGENTS.md") == "be brief"


# ---------------------------------------------------------------- names in a folder


def test_names_are_sorted_and_a_missing_folder_has_none(folder: Path) -> None:
    for name in ("b", "a"):
        (folder / name).touch()
    reader = Reader(within=folder)
    assert reader.names(folder) == ["a", "b"]
    assert reader.names(folder / "none") == reader.names(folder / "a") == []


def test_a_folder_outside_a_hidden_one_and_a_giant_one_are_not_listed(folder: Path) -> None:
    (folder / "rules").symlink_to("..")
    with pytest.raises(FileRefused, match="outside"):
        Reader(within=folder).names(folder / "rules")
    with pytest.raises(FileRefused, match="the sandbox hides"):
        Reader(is_hidden=lambda path: True).names(folder)
    for number in range(4):
        (folder / str(number)).touch()
    with pytest.raises(FileRefused, match="more than 3 files"):
        Reader(within=folder).names(folder, limit=3)
