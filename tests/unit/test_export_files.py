"""Where the page is written: names, modes, existing files, links, refusals."""

import os
import stat
from pathlib import Path

import pytest

from ludolf.base import CommandError
from ludolf.page.html import default_name, export_html
from ludolf.session.tree import Session, new_session
from tests.export_page import message, no_warning, session_of

NAME = "ludolf-session-2026-11-15T06-20-38-644Z_sample"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    folder = tmp_path / "sessions"
    folder.mkdir()
    return session_of(folder, message("u1", None, "user", content="Hello page"))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def _mode(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_the_page_is_private_whatever_the_umask(session: Session, desk: Path) -> None:
    before = os.umask(0o277)
    try:
        export_html(session, desk / "a.html")
    finally:
        os.umask(before)
    assert _mode(desk / "a.html") == 0o600
    assert "Hello page" in (desk / "a.html").read_text()


def test_the_path_comes_back_as_it_was_given(session: Session, desk: Path) -> None:
    assert export_html(session, Path("b.html")) == Path("b.html")
    assert (desk / "b.html").is_file()


def test_the_default_name_comes_from_the_session_file(session: Session, desk: Path) -> None:
    assert default_name(session) == f"{NAME}.html"
    assert [str(export_html(session)) for _ in range(3)] == [
        f"{NAME}.html",
        f"{NAME}-1.html",
        f"{NAME}-2.html",
    ]


def test_a_default_name_taken_by_a_broken_link_is_passed_over(session: Session, desk: Path) -> None:
    (desk / f"{NAME}.html").symlink_to(desk / "elsewhere")
    assert export_html(session) == Path(f"{NAME}-1.html")
    assert not (desk / "elsewhere").exists()


def test_an_existing_file_is_left_alone(session: Session, desk: Path) -> None:
    target = desk / "a.html"
    target.write_text("mine")
    with pytest.raises(CommandError, match=r"File exists: .*a\.html"):
        export_html(session, target)
    assert target.read_text() == "mine"


def test_an_existing_file_is_replaced_when_asked(session: Session, desk: Path) -> None:
    target = desk / "a.html"
    target.write_text("old")
    target.chmod(0o644)
    assert export_html(session, target, overwrite=True) == target
    assert "Hello page" in target.read_text()
    assert _mode(target) == 0o600
    assert os.listdir(desk) == ["a.html"]


def test_overwrite_may_also_create(session: Session, desk: Path) -> None:
    export_html(session, desk / "new.html", overwrite=True)
    assert os.listdir(desk) == ["new.html"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_link_is_never_followed(session: Session, desk: Path, overwrite: bool) -> None:
    (desk / "victim").write_text("mine")
    link = desk / "a.html"
    link.symlink_to(desk / "victim")
    with pytest.raises(CommandError, match="symbolic link" if overwrite else "File exists"):
        export_html(session, link, overwrite=overwrite)
    assert (desk / "victim").read_text() == "mine"
    assert link.is_symlink()
    assert sorted(os.listdir(desk)) == ["a.html", "victim"]


def test_a_broken_link_is_not_written_through(session: Session, desk: Path) -> None:
    (desk / "a.html").symlink_to(desk / "nowhere")
    with pytest.raises(CommandError, match="File exists"):
        export_html(session, desk / "a.html")
    assert not (desk / "nowhere").exists()


def test_only_a_regular_file_is_replaced(session: Session, desk: Path) -> None:
    os.mkfifo(desk / "pipe")
    with pytest.raises(CommandError, match="not a regular file"):
        export_html(session, desk / "pipe", overwrite=True)
    with pytest.raises(CommandError, match="not a regular file"):
        export_html(session, desk, overwrite=True)
    assert os.listdir(desk) == ["pipe"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_missing_folder_is_told(session: Session, desk: Path, overwrite: bool) -> None:
    with pytest.raises(CommandError, match=r"Cannot write .*no/a\.html: No such file"):
        export_html(session, desk / "no" / "a.html", overwrite=overwrite)


def test_a_session_in_memory_cannot_be_exported(desk: Path) -> None:
    session = new_session("/project", None, no_warning)
    with pytest.raises(CommandError, match=r"^Cannot export in-memory session to HTML$"):
        export_html(session, desk / "a.html")
    with pytest.raises(CommandError, match=r"^Cannot export in-memory session to HTML$"):
        default_name(session)
    assert os.listdir(desk) == []


def test_an_empty_session_cannot_be_exported(desk: Path, tmp_path: Path) -> None:
    session = new_session("/project", tmp_path / "later", no_warning)
    with pytest.raises(CommandError, match=r"^Nothing to export yet - start a conversation first$"):
        export_html(session, desk / "a.html")
    assert os.listdir(desk) == []


def test_a_page_that_cannot_be_finished_leaves_nothing_behind(session: Session, desk: Path) -> None:
    class Broken:
        name = "t"
        description = "d"

        @property
        def parameters(self) -> dict[str, object]:
            raise RuntimeError("broken tool")

    (desk / "old.html").write_text("mine")
    for target, overwrite in (("new.html", False), ("old.html", True)):
        with pytest.raises(RuntimeError, match="broken tool"):
            export_html(session, desk / target, overwrite=overwrite, tools=[Broken()])
    assert os.listdir(desk) == ["old.html"]
    assert (desk / "old.html").read_text() == "mine"


def test_exporting_changes_nothing_about_the_session(session: Session, desk: Path) -> None:
    assert session.path is not None
    before = session.path.read_bytes()
    messages = [entry.decoded for entry in session.entries()]
    export_html(session, desk / "a.html")
    assert session.path.read_bytes() == before
    assert [entry.decoded for entry in session.entries()] == messages == [None]
