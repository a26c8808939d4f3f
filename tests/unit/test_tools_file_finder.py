"""Files are found by letters of their path, with or without ripgrep."""

import os
from pathlib import Path

import pytest

from ludolf.tools.file_finder import FoundFile, find_files, match_score


@pytest.fixture(params=["ripgrep", "own search"])
def env(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    if request.param == "own search":
        monkeypatch.setattr("ludolf.tools.file_finder.ripgrep_path", lambda *_: None)
    return {"PATH": os.environ["PATH"]}


def _project(root: Path) -> Path:
    for name in ("src/app/main.py", "src/app/maintain.md", ".github/ci.yml", "docs/a b.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "build").mkdir()
    (root / "build" / "main.py").write_text("")
    (root / ".git").mkdir()
    (root / ".git" / "main").write_text("")
    (root / ".gitignore").write_text("build/\n")
    return root


async def test_names_come_before_letters_and_ignored_files_never(
    tmp_path: Path, env: dict[str, str]
) -> None:
    found = await find_files(_project(tmp_path), "main", 10, env)
    assert [each.path for each in found] == ["src/app/main.py", "src/app/maintain.md"]
    (folder,) = await find_files(tmp_path, "SRAP", 1, env)
    assert folder == FoundFile(path="src/app", is_directory=True)
    assert await find_files(tmp_path, "no such file", 10, env) == ()


async def test_without_a_query_the_nearest_paths_come_first(
    tmp_path: Path, env: dict[str, str]
) -> None:
    found = await find_files(_project(tmp_path), "", 4, env)
    assert {each.path for each in found} == {"src", "docs", ".github", ".gitignore"}


def test_a_match_at_the_beginning_of_words_is_better() -> None:
    assert match_score("fb", "foo/bar.py") > match_score("fb", "offaxbx.py") > -1
