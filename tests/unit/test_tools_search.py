"""grep, find and ls: results, limits, ignore rules; with ripgrep and without."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from ludolf.agent.tool import Tool, ToolContext, ToolError, ToolOutput
from ludolf.ai.messages import text_of
from ludolf.tools import ripgrep
from ludolf.tools.find import FindTool
from ludolf.tools.grep import GrepTool
from ludolf.tools.ls import LsTool
from ludolf.tools.search import glob_expression, walk

GREPS = [GrepTool(), GrepTool(None)]


async def ignore(partial: ToolOutput) -> None:
    del partial


def run(tool: Tool, cwd: Path, **args: Any) -> ToolOutput:
    ctx = ToolContext(call_id="c", cwd=cwd, report=ignore)
    return asyncio.run(tool.execute(tool.prepare(args), ctx))


def shown(tool: Tool, cwd: Path, **args: Any) -> str:
    return text_of(run(tool, cwd, **args).content)


def failure(tool: Tool, cwd: Path, **args: Any) -> str:
    with pytest.raises(ToolError) as error:
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
    assert ripgrep.ripgrep_path(Path.cwd()) is not None


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
    import re

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
