"""The system prompt and the context files."""

import os
from pathlib import Path

import msgspec
import pytest

from ludolf.base import ConfigError
from ludolf.config.resources.context_files import ContextFile, load_context_files
from ludolf.config.resources.skills import Skill
from ludolf.config.resources.sources import SourceDetails
from ludolf.config.resources.system_prompt import (
    PromptFiles,
    PromptSources,
    build_sections,
    docs_folder,
    find_addenda,
    find_custom_prompt,
    render,
)
from ludolf.config.settings.home import Home


class FakeTool(msgspec.Struct, frozen=True):
    name: str
    snippet: str | None = None
    guidelines: tuple[str, ...] = ()


READ = FakeTool("read", "look into a file", ("Read before you edit.",))
BASH = FakeTool("bash", "run a command", ("Read before you edit.", "Quote paths."))
SILENT = FakeTool("silent")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(agent=tmp_path / "agent", cwd=tmp_path / "repo" / "sub", user=tmp_path)
    home.agent.mkdir()
    home.project.mkdir(parents=True)
    return home


def skill(name: str, *, hidden: bool = False) -> Skill:
    info = SourceDetails(path=f"/{name}", source="auto", scope="user", origin="top-level")
    return Skill(
        name=name, description="a < b & c", path=Path(f"/{name}"), info=info, hidden=hidden
    )


def full() -> PromptSources:
    return PromptSources(
        docs=docs_folder(os.environ),
        cwd=Path("/work"),
        tools=(READ, BASH, SILENT),
        addenda=("First.", "Second."),
        context_files=(ContextFile(Path("/AGENTS.md"), "Be kind."), ContextFile(Path("/b"), "B")),
        skills=(skill("greet"), skill("hid", hidden=True)),
        guidelines=("Quote paths.", "From an extension."),
        extra={"my_section": "Mine."},
    )


# ---------------------------------------------------------------- sections


def test_sections_come_in_their_order() -> None:
    assert list(build_sections(full())) == [
        "preamble",
        "tools",
        "rules",
        "docs",
        "addendum",
        "project_context",
        "skills",
        "cwd",
        "my_section",
    ]


def test_a_custom_prompt_replaces_what_speaks_of_tools() -> None:
    sections = build_sections(msgspec.structs.replace(full(), custom="You are a poet."))
    names = ["preamble", "addendum", "project_context", "skills", "cwd", "my_section"]
    assert list(sections) == names
    assert sections["preamble"] == "You are a poet."


def test_only_what_is_there_gets_a_section() -> None:
    sections = build_sections(PromptSources(cwd=Path("/work"), docs=docs_folder(os.environ)))
    assert list(sections) == ["preamble", "tools", "rules", "docs", "cwd"]
    assert sections["tools"].startswith("(none)\n")


def test_every_section_but_the_preamble_is_wrapped() -> None:
    assert render({"preamble": "Hi.", "rules": "- a", "cwd": "/w"}) == (
        "Hi.\n\n<rules>\n- a\n</rules>\n\n<cwd>\n/w\n</cwd>"
    )


def test_tools_with_a_snippet_are_listed() -> None:
    lines = build_sections(full())["tools"].splitlines()
    assert lines[:3] == ["- read: look into a file", "- bash: run a command", ""]


def test_rules_stand_once_and_in_tool_order() -> None:
    rules = build_sections(full())["rules"].splitlines()
    assert "with bash" in rules[0]
    assert rules[1:4] == ["- Read before you edit.", "- Quote paths.", "- From an extension."]
    assert len(rules) == len(set(rules)) == 6


@pytest.mark.parametrize("tools", [(READ,), (BASH, FakeTool("grep")), (BASH, FakeTool("ls"))])
def test_the_exploration_rule_needs_a_shell_and_no_finder(tools: tuple[FakeTool, ...]) -> None:
    rules = build_sections(PromptSources(cwd=Path("/w"), tools=tools))["rules"]
    assert "Look at files" not in rules


def test_context_files_are_quoted_with_their_paths() -> None:
    text = build_sections(full())["project_context"]
    first = '<project_instructions path="/AGENTS.md">\nBe kind.\n</project_instructions>'
    second = '<project_instructions path="/b">\nB\n</project_instructions>'
    assert text.split("\n\n")[1:] == [first, second]


def test_skills_are_escaped_and_hidden_ones_left_out() -> None:
    text = build_sections(full())["skills"]
    assert "<name>greet</name>" in text
    assert "<description>a &lt; b &amp; c</description>" in text
    assert "<location>/greet</location>" in text
    assert "hid" not in text.partition("<available_skills>")[2]
    assert "with the read tool" in text


def test_skills_need_a_tool_that_can_read_them() -> None:
    sources = msgspec.structs.replace(full(), tools=(BASH,))
    assert "with the bash tool" in build_sections(sources)["skills"]
    assert "skills" not in build_sections(msgspec.structs.replace(full(), tools=(SILENT,)))
    hidden = msgspec.structs.replace(full(), skills=(skill("hid", hidden=True),))
    assert "skills" not in build_sections(hidden)


@pytest.mark.parametrize("name", ["preamble", "Upper", "1st", "a b", ""])
def test_a_bad_section_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        build_sections(PromptSources(cwd=Path("/w"), extra={name: "x"}))


# ---------------------------------------------------------------- custom prompts


def test_the_custom_prompt_comes_from_flag_project_user(home: Home) -> None:
    assert find_custom_prompt(home, trusted=True) is None
    (home.agent / "SYSTEM.md").write_text("user")
    (home.project / "SYSTEM.md").write_text("\ufeffproject")
    (home.cwd / "p.txt").write_text("file")
    assert find_custom_prompt(home, trusted=False) == "user"
    assert find_custom_prompt(home, trusted=True) == "project"
    assert find_custom_prompt(home, trusted=True, given="text") == "text"
    assert find_custom_prompt(home, trusted=True, given="p.txt") == "file"
    assert find_custom_prompt(home, trusted=True, given="long " * 5000) == "long " * 5000


def test_addenda_are_never_combined(home: Home) -> None:
    assert find_addenda(home, trusted=True) == ()
    (home.agent / "APPEND_SYSTEM.md").write_text("user")
    (home.project / "APPEND_SYSTEM.md").write_text("project")
    assert find_addenda(home, trusted=False) == ("user",)
    assert find_addenda(home, trusted=True) == ("project",)
    assert find_addenda(home, trusted=True, given=["a", "b"]) == ("a", "b")


# ---------------------------------------------------------------- context files


def names(home: Home) -> list[str]:
    root = home.agent.parent
    return [str(file.path.relative_to(root)) for file in load_context_files(home).items]


def test_context_files_go_from_the_user_down_to_the_folder(home: Home) -> None:
    for place in (home.cwd, home.cwd.parent, home.agent.parent, home.agent):
        (place / "AGENTS.md").write_text(place.name)
    expected = ["agent/AGENTS.md", "AGENTS.md", "repo/AGENTS.md", "repo/sub/AGENTS.md"]
    assert names(home) == expected


def test_one_file_per_folder_counts(home: Home) -> None:
    for name in ("CLAUDE.md", "AGENTS.md", "AGENTS.override.md"):
        (home.cwd / name).write_text(name)
        assert names(home) == [f"repo/sub/{name}"]
    (home.cwd.parent / "AGENTS.md").mkdir()
    (home.cwd.parent / "CLAUDE.md").write_text("\ufeffinside")
    items = load_context_files(home).items
    assert [file.content for file in items] == ["inside", "AGENTS.override.md"]


def test_no_path_counts_twice(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x")
    home = Home(agent=tmp_path, cwd=tmp_path, user=tmp_path)
    assert [file.path for file in load_context_files(home).items] == [tmp_path / "AGENTS.md"]


@pytest.mark.parametrize(
    ("gitdir", "own", "expected"),
    [
        ("../.git/worktrees/sub", True, ["repo/sub/AGENTS.md"]),
        ("../.git/worktrees/sub", False, ["repo/AGENTS.md"]),
        ("../.git/modules/sub", True, ["repo/AGENTS.md", "repo/sub/AGENTS.md"]),
        ("../../else/.git/worktrees/sub", True, ["repo/AGENTS.md", "repo/sub/AGENTS.md"]),
    ],
)
def test_a_nested_worktree_with_its_own_file_hides_the_main_checkouts(
    home: Home, gitdir: str, own: bool, expected: list[str]
) -> None:
    (home.cwd.parent / ".git").mkdir()
    (home.cwd.parent / "AGENTS.md").write_text("main")
    (home.cwd / ".git").write_text(f"gitdir: {gitdir}\n")
    if own:
        (home.cwd / "AGENTS.md").write_text("own")
    assert names(home) == expected


# ---------------------------------------------------------------- hostile projects


def _refused(home: Home) -> str:
    loaded = load_context_files(home)
    assert loaded.items == ()
    (warning,) = loaded.warnings
    return warning


@pytest.mark.parametrize("target", ["../../agent/auth.json", "/proc/self/environ", "/dev/zero"])
def test_a_context_file_that_links_out_of_its_project_is_refused(home: Home, target: str) -> None:
    (home.agent / "auth.json").write_text("secret")
    (home.cwd / "AGENTS.md").symlink_to(target)
    loaded = load_context_files(home)
    assert loaded.items == ()
    # Nothing is said of a device: it is not a file at all.
    assert len(loaded.warnings) == (target != "/dev/zero")


def test_a_mark_of_git_around_the_home_of_the_user_opens_nothing(home: Home) -> None:
    root = home.agent.parent
    (root / ".git").mkdir()
    (home.agent / "auth.json").write_text("secret")
    (home.cwd / "AGENTS.md").symlink_to(home.agent / "auth.json")
    assert "outside" in _refused(home)


def test_a_link_to_the_file_of_the_repository_is_used(home: Home) -> None:
    (home.cwd.parent / ".git").mkdir(exist_ok=True)
    (home.cwd.parent / "AGENTS.md").write_text("be brief")
    (home.cwd / "AGENTS.md").symlink_to("../AGENTS.md")
    loaded = load_context_files(home)
    assert [file.content for file in loaded.items] == ["be brief", "be brief"]
    assert loaded.warnings == ()


def test_links_of_the_user_may_lead_anywhere(home: Home) -> None:
    (home.agent.parent / "notes.md").write_text("mine")
    (home.agent / "AGENTS.md").symlink_to(home.agent.parent / "notes.md")
    assert [file.content for file in load_context_files(home).items] == ["mine"]


def test_a_giant_context_file_is_refused(home: Home) -> None:
    with (home.cwd / "AGENTS.md").open("wb") as file:
        file.truncate(1 << 40)
    assert "larger than" in _refused(home)


def test_a_context_file_that_the_sandbox_hides_is_refused(home: Home) -> None:
    (home.cwd / "private").mkdir()
    (home.cwd / "private" / "notes").write_text("secret")
    (home.cwd / "AGENTS.md").symlink_to("private/notes")
    hidden = home.cwd / "private"
    loaded = load_context_files(home, lambda path: path.is_relative_to(hidden))
    assert loaded.items == ()
    assert "the sandbox hides" in loaded.warnings[0]


@pytest.mark.parametrize("content", [b"gitdir: a\0b", b"gitdir: " + b"x" * 9000, b"gitdir: loop"])
def test_a_hostile_mark_of_git_is_passed_over(home: Home, content: bytes) -> None:
    (home.cwd / "AGENTS.md").write_text("be brief")
    (home.cwd / "loop").symlink_to("loop")
    (home.cwd / ".git").write_bytes(content)
    assert [file.content for file in load_context_files(home).items] == ["be brief"]


def test_a_giant_mark_of_git_is_not_read(home: Home) -> None:
    (home.cwd / "AGENTS.md").write_text("be brief")
    with (home.cwd / ".git").open("wb") as file:
        file.truncate(1 << 40)
    assert [file.content for file in load_context_files(home).items] == ["be brief"]


def test_a_system_prompt_of_the_project_that_is_refused_leaves_that_of_the_user(home: Home) -> None:
    (home.agent / "SYSTEM.md").write_text("user")
    (home.agent / "auth.json").write_text("secret")
    (home.project / "SYSTEM.md").symlink_to(home.agent / "auth.json")
    os.mkfifo(home.project / "APPEND_SYSTEM.md")
    files = PromptFiles(warnings=[])
    assert find_custom_prompt(home, trusted=True, files=files) == "user"
    assert find_addenda(home, trusted=True, files=files) == ()
    assert ["outside" in text for text in files.warnings] == [True, False]
