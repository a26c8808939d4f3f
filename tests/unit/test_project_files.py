"""Files of a project are read only if they are regular, lie inside their folder and are small."""

import os
from pathlib import Path

import pytest

from ludolf.base import ConfigError
from ludolf.project_files import FileRefused, read_bytes, read_text


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
