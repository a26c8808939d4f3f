"""grep, find and ls: results, limits, ignore rules; with ripgrep and without."""

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from ludolf.agent.tool import Tool, ToolContext, ToolFailure, ToolOutput
from ludolf.ai.messages import text_of
from ludolf.tools import BuiltinToolOptions, BuiltinTools, ripgrep
from ludolf.tools.find import FindTool
from ludolf.tools.grep import GrepTool
from ludolf.tools.ls import LsTool
from ludolf.tools.search import glob_expression, matching_lines, walk
from tests.samples import ignore, run_tool

GREPS = [GrepTool(), GrepTool(None)]


def run(tool: Tool, cwd: Path, **args: Any) -> ToolOutput:
    ctx = ToolContext(call_id="c", cwd=cwd, report=ignore)
    return asyncio.run(run_tool(tool, args, ctx))


def shown(tool: Tool, cwd: Path, **args: Any) -> str:
    return text_of(run(tool, cwd, **args).content)


def failure(tool: Tool, cwd: Path, **args: Any) -> str:
    with pytest.raises(ToolFailure) as error:
        run(tool, cwd, **args)
    return str(error.value)


def make(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    make(
        tmp_path,
        {
            ".gitignore": "*.log\n!keep.log\n/build/\ndocs/**/draft.md\ncache/\n",
            ".git/config": "needle\n",
            ".hidden": "needle hidden\n",
            "a.py": "x\nneedle one\ny\nNeedle two\nz\n",
            "app.log": "needle\n",
            "keep.log": "needle kept\n",
            "build/out.txt": "needle\n",
            "src/build/in.txt": "needle nested\n",
            "src/b.py": "needle (x)\n",
            "src/cache/c.txt": "needle\n",
            "docs/one/two/draft.md": "needle\n",
            "docs/final.md": "needle\n",
            "src/.gitignore": "secret.*\n",
            "src/secret.txt": "needle\n",
            "bin": "needle\0\n",
        },
    )
    return tmp_path


def test_a_ripgrep_is_there_to_compare_with() -> None:
    assert ripgrep.ripgrep_path(Path.cwd(), os.environ["PATH"]) is not None


@pytest.mark.parametrize("grep", GREPS)
def test_grep_honours_ignore_files_and_sees_hidden_ones(grep: GrepTool, tree: Path) -> None:
    result = run(grep, tree, pattern="needle")
    assert text_of(result.content).split("\n") == [
        ".hidden:1: needle hidden",
        "a.py:2: needle one",
        "docs/final.md:1: needle",
        "keep.log:1: needle kept",
        "src/b.py:1: needle (x)",
        "src/build/in.txt:1: needle nested",
    ]
    assert result.details is UNSET


@pytest.mark.parametrize("grep", GREPS)
def test_grep_takes_its_options(grep: GrepTool, tree: Path) -> None:
    assert shown(grep, tree, pattern="needle", ignoreCase=True, path="a.py", context=1) == (
        "a.py-1- x\na.py:2: needle one\na.py-3- y\na.py:4: Needle two\na.py-5- z"
    )
    assert shown(grep, tree, pattern="(x)", literal=True) == "src/b.py:1: needle (x)"
    assert shown(grep, tree, pattern="needle", glob="*.{py,rs}", path="src") == "b.py:1: needle (x)"
    assert shown(grep, tree, pattern="needle", glob="final.*") == "docs/final.md:1: needle"
    assert shown(grep, tree, pattern="one|kept", glob="!*.py") == "keep.log:1: needle kept"
    assert shown(grep, tree, pattern="absent") == "No matches found"


@pytest.mark.parametrize(
    "glob", ["*.md", "*.log", "*", "!src", "!*.md", "src/*.py", "/a.*", "src/**"]
)
def test_a_glob_outranks_ignore_files_alike_with_and_without_ripgrep(glob: str, tree: Path) -> None:
    with_ripgrep, without = (shown(grep, tree, pattern="needle", glob=glob) for grep in GREPS)
    assert with_ripgrep == without
    assert ".git/config" not in without


@pytest.mark.parametrize("grep", GREPS)
def test_grep_stops_at_its_limit_and_says_so(grep: GrepTool, tmp_path: Path) -> None:
    make(tmp_path, {"f": "".join(f"hit {number}\n-\n-\n-\n" for number in range(9))})
    result = run(grep, tmp_path, pattern="hit", limit=2, context=1)
    assert text_of(result.content) == (
        "f:1: hit 0\nf-2- -\nf-4- -\nf:5: hit 1\nf-6- -\n\n"
        "[2 matches limit reached. Use limit=4 for more, or refine pattern]"
    )
    assert result.details == {"matchLimitReached": 2}
    assert run(grep, tmp_path, pattern="hit", limit=9).details is UNSET


@pytest.mark.parametrize("grep", GREPS)
def test_a_match_beyond_the_limit_may_stand_around_the_last(grep: GrepTool, tmp_path: Path) -> None:
    make(tmp_path, {"f": "hit 0\n-\nhit 1\n-\n-\nhit 2\n", "g": "hit 3\n"})
    assert shown(grep, tmp_path, pattern="hit", limit=1, context=3) == (
        "f:1: hit 0\nf-2- -\nf-3- hit 1\nf-4- -\n\n"
        "[1 matches limit reached. Use limit=2 for more, or refine pattern]"
    )


@pytest.mark.parametrize("grep", GREPS)
def test_grep_cuts_long_lines_and_long_results(grep: GrepTool, tmp_path: Path) -> None:
    make(tmp_path, {"f": ("x" * 100_000 + "\n") * 99 + "x" * 500})
    result = run(grep, tmp_path, pattern="x+")
    text = text_of(result.content)
    assert text.startswith("f:1: " + "x" * 500 + "... [truncated]\nf:2: ")
    assert text.endswith(
        "\n\n[50.0KB limit reached. Some lines truncated to 500 chars. "
        "Use read tool to see full lines]"
    )
    assert result.details["linesTruncated"] is True
    assert result.details["truncation"]["truncatedBy"] == "bytes"


@pytest.mark.parametrize("grep", GREPS)
def test_grep_refuses_what_it_cannot_search(grep: GrepTool, tree: Path) -> None:
    assert failure(grep, tree, pattern="x", path="no") == f"Path not found: {tree}/no"
    assert "regex parse error" in failure(grep, tree, pattern="(")


def test_a_pattern_without_end_does_not_hold_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {"f": "a" * 40 + "!\n"})
    assert shown(GrepTool(), tmp_path, pattern="(a+)+$") == "No matches found"
    monkeypatch.setattr(ripgrep, "SEARCH_SECONDS", 0.3)
    assert failure(GrepTool(None), tmp_path, pattern="(a+)+$") == (
        "Search stopped after 0.3 seconds. Use a narrower path or pattern."
    )


def test_find_looks_at_names_or_at_whole_paths(tree: Path) -> None:
    (tree / "empty").mkdir()
    assert shown(FindTool(), tree, pattern="*.py") == "a.py\nsrc/b.py"
    assert shown(FindTool(), tree, pattern="src/*.py") == "src/b.py"
    assert shown(FindTool(), tree, pattern="docs/**/*.md") == "docs/final.md"
    assert shown(FindTool(), tree, pattern=f"{tree}/*.py") == "a.py"
    assert shown(FindTool(), tree, pattern="e*") == "empty/"
    assert shown(FindTool(), tree, pattern="*.py", path="src") == "b.py"
    assert shown(FindTool(), tree, pattern="{a,b}.p?") == "a.py\nsrc/b.py"
    assert shown(FindTool(), tree, pattern=".h*") == ".hidden"
    assert shown(FindTool(), tree, pattern="*.rs") == "No files found matching pattern"


def test_find_lists_what_git_would_not_ignore(tree: Path) -> None:
    assert shown(FindTool(), tree, pattern="*").split("\n") == [
        ".gitignore",
        ".hidden",
        "a.py",
        "bin",
        "docs/",
        "docs/final.md",
        "docs/one/",
        "docs/one/two/",
        "keep.log",
        "src/",
        "src/.gitignore",
        "src/b.py",
        "src/build/",
        "src/build/in.txt",
    ]


def test_find_stops_at_its_limit_and_says_so(tree: Path) -> None:
    result = run(FindTool(), tree, pattern="*.py", limit=1)
    assert text_of(result.content) == (
        "a.py\n\n[1 results limit reached. Use limit=2 for more, or refine pattern]"
    )
    assert result.details == {"resultLimitReached": 1}
    assert failure(FindTool(), tree, pattern="*", path="no") == f"Path not found: {tree}/no"


def test_rules_of_outer_folders_hold_up_to_the_repository(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "*.b\n", "repo/.gitignore": "/sub/*.c\n"})
    make(tmp_path, {f"repo/sub/x.{kind}": "" for kind in "abc"})
    assert [entry.path for entry in walk(f"{tmp_path}/repo/sub")] == ["x.a"]
    (tmp_path / "repo/.git").mkdir()
    assert [entry.path for entry in walk(f"{tmp_path}/repo/sub")] == ["x.a", "x.b"]


@pytest.mark.parametrize(
    ("pattern", "fits", "misses"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("**/x", ["x", "a/x", "a/b/x"], ["ax"]),
        ("a/**", ["a/b", "a/b/c"], ["a"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["ab"]),
        ("[!a-c]?", ["dx"], ["ax", "d", "/x"]),
        ("[]x]", ["]", "x"], ["["]),
        ("a\\*b", ["a*b"], ["axb"]),
        ("x{1,2{a,b}}", ["x1", "x2a", "x2b"], ["x2", "x{1"]),
        ("[open", ["[open"], ["o"]),
    ],
)
def test_globs_mean_what_they_mean_elsewhere(
    pattern: str, fits: list[str], misses: list[str]
) -> None:
    expression = re.compile(glob_expression(pattern, braces=True))
    assert [name for name in fits + misses if expression.fullmatch(name)] == fits


def test_ls_sorts_without_case_and_marks_folders(tmp_path: Path) -> None:
    make(tmp_path, {"b.txt": "", "A.txt": "", ".dot": "", "c/x": ""})
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "linked").symlink_to("c")
    result = run(LsTool(), tmp_path)
    assert text_of(result.content) == ".dot\nA.txt\nb.txt\nc/\nlinked/"
    assert result.details is UNSET


def test_ls_stops_at_its_limit_and_says_so(tmp_path: Path) -> None:
    make(tmp_path, {"a": "", "b": "", "c": ""})
    result = run(LsTool(), tmp_path, limit=2)
    assert text_of(result.content) == "a\nb\n\n[2 entries limit reached. Use limit=4 for more]"
    assert result.details == {"entryLimitReached": 2}


def test_ls_tells_what_it_cannot_list(tmp_path: Path) -> None:
    make(tmp_path, {"file": ""})
    (tmp_path / "empty").mkdir()
    assert shown(LsTool(), tmp_path, path="empty") == "(empty directory)"
    assert failure(LsTool(), tmp_path, path="no") == f"Path not found: {tmp_path}/no"
    assert failure(LsTool(), tmp_path, path="file") == f"Not a directory: {tmp_path}/file"


def test_names_that_are_not_utf8_do_not_break_a_result(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/caf\xe9.txt", "wb") as file:
        file.write(b"needle\n")
    for text in (
        shown(LsTool(), tmp_path),
        shown(FindTool(), tmp_path, pattern="*"),
        *(shown(grep, tmp_path, pattern="needle") for grep in GREPS),
    ):
        assert text.startswith("caf?.txt")


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file whose path is longer than the system allows."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        there = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    os.close(os.open("needle.txt", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    (tmp_path / "needle.txt").write_text("needle\n")
    yield tmp_path
    # From the inside: no path reaches the innermost folder.
    subprocess.run(["rm", "-rf", "--", "d" * 200], cwd=tmp_path, check=True)


def test_find_says_that_folders_are_too_deep(deep: Path) -> None:
    assert shown(FindTool(), deep, pattern="needle*").startswith(
        "needle.txt\n\n[Some folders were not searched"
    )
    assert shown(FindTool(), deep, pattern="other*").startswith(
        "No files found matching pattern\n\n[Some folders were not searched"
    )


@pytest.mark.parametrize("grep", GREPS)
def test_grep_says_that_not_everything_was_searched(grep: GrepTool, deep: Path) -> None:
    notice = "[Some files or folders could not be searched: not readable, or too deep]"
    assert shown(grep, deep, pattern="needle") == f"needle.txt:1: needle\n\n{notice}"
    assert shown(grep, deep, pattern="other") == f"No matches found\n\n{notice}"


@pytest.mark.parametrize("tool", [*GREPS, FindTool()])
def test_a_pattern_or_a_folder_that_is_not_unicode_breaks_no_search(
    tool: Tool, tmp_path: Path
) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    make(odd, {"needle": "needle\n"})
    assert "needle" in shown(tool, odd, pattern="needle")
    for pattern in ("\ud800", "\udcff", "a\0b"):
        try:
            text = shown(tool, odd, pattern=pattern)
        except ToolFailure as error:
            text = str(error)
        assert text


TOOLS = [*BuiltinTools(BuiltinToolOptions()).values(), GrepTool(None)]
ARGUMENTS: dict[str, Any] = {
    "pattern": "x",
    "content": "x",
    "edits": [{"oldText": "a", "newText": "b"}],
}


def _name(tool: Tool) -> str:
    return tool.name


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool.name != "bash"], ids=_name)
def test_a_path_that_no_file_can_have_is_refused_with_a_reason(tool: Tool, tmp_path: Path) -> None:
    for path, reason in (
        ("a\0b", "Invalid path: it contains a NUL character."),
        ("file:///a%00b", "Invalid path: it contains a NUL character."),
        ("~\0", "Invalid path: it contains a NUL character."),
        ("\ud800", "Invalid path: it contains a lone surrogate."),
        ("a/\udcff", "Invalid path: it contains a lone surrogate."),
        ("file://[", "Invalid path: not a valid file URL"),
        ("x" * 5000, ""),
        ("x" * 300, ""),
        ("a/" * 3000, ""),
        ("/".join(["d" * 200] * 30), ""),
    ):
        text = failure(tool, tmp_path, path=path, **ARGUMENTS)
        assert text.startswith(reason)
        assert reason or "ENAMETOOLONG" in text or text.startswith("Path not found: ")
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- hostile ignore files


def _odd(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "giant":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.symlink_to(kind)


@pytest.mark.parametrize("name", [".gitignore", ".ignore", ".rgignore"])
@pytest.mark.parametrize("kind", ["pipe", "giant", "/dev/zero"])
def test_a_search_ends_whatever_ignore_files_are(
    tmp_path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "MOMENT_SECONDS", 0.01)
    make(tmp_path, {"sub/a.txt": "needle\n"})
    _odd(tmp_path / "sub" / name, kind)
    for grep in GREPS:
        assert shown(grep, tmp_path, pattern="needle") == "sub/a.txt:1: needle"
    assert shown(FindTool(), tmp_path, pattern="*.txt") == "sub/a.txt"


def test_an_odd_ignore_file_above_the_searched_folder_is_found_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "MOMENT_SECONDS", 0.01)
    make(tmp_path, {"sub/a.txt": "needle\n"})
    os.mkfifo(tmp_path / ".gitignore")
    for grep in GREPS:
        assert shown(grep, tmp_path / "sub", pattern="needle") == "a.txt:1: needle"


def test_ripgrep_that_crashes_is_replaced(tmp_path: Path) -> None:
    make(tmp_path, {"a.txt": "needle\n", "rg": "#!/bin/sh\necho ./a.txt\nkill -ABRT $$\n"})
    (tmp_path / "rg").chmod(0o755)
    grep = GrepTool(str(tmp_path / "rg"))
    assert shown(grep, tmp_path, pattern="needl[e]") == "a.txt:1: needle"


def test_ignore_files_of_many_stars_are_matched_soon(tmp_path: Path) -> None:
    stars = "*a" * 30 + "b\n" + "**/a/" * 20 + "b\n"
    make(tmp_path, {".gitignore": stars, f"{'a' * 200}.txt": "", f"{'a/' * 60}c.txt": ""})
    assert len(shown(FindTool(), tmp_path, pattern="*.txt").splitlines()) == 2


def test_a_line_without_end_is_searched_at_its_start_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludolf.tools.search.LONGEST_SEARCHED", 16)
    (tmp_path / "a.txt").write_text("needle " + "x" * 40 + "needle\nnext needle\n")
    lines = list(matching_lines(str(tmp_path / "a.txt"), re.compile("needle").search, 0))
    assert lines == ["1:needle xxxxxxxxx", "2:next needle"]


def test_a_pipe_cannot_be_searched(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for grep in GREPS:
        assert "Not a regular file" in failure(grep, tmp_path, pattern="x", path="pipe")
