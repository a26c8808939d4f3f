"""Rule files: which are found, what their headers mean, and which are refused."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ludolf.config.resources.linear_pattern import LinearPattern
from ludolf.config.resources.rules import (
    LIMITS,
    MOST_FILES,
    RuleTarget,
    StreamRule,
    load_stream_rules,
)
from ludolf.config.resources.sources import LoadedItems
from ludolf.config.settings.home import Home


def _load(root: Path, disabled: tuple[str, ...] = ()) -> LoadedItems[StreamRule]:
    return load_stream_rules(Home(agent=root / "agent", cwd=root, user=root / "user"), disabled)


def _write(root: Path, header: str, at: str = ".pi/rules/rule.md", body: str = "Do not.") -> None:
    path = root / at
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{header}\n---\n{body}\n")


def test_a_rule_without_a_condition_is_none_of_these(tmp_path: Path) -> None:
    _write(tmp_path, "alwaysApply: true")
    assert _load(tmp_path) == LoadedItems()


def test_rules_come_from_the_folders_of_several_agents_and_the_project_wins(tmp_path: Path) -> None:
    _write(tmp_path, "condition: a", ".cursor/rules/one.mdc", "project")
    _write(tmp_path, "condition: b", "agent/rules/one.md", "user")
    _write(tmp_path, "ttsr_trigger: c", "user/.omp/agent/rules/two.md", "user")
    _write(tmp_path, "condition: d", "agent/rules/off.md")
    rules = {rule.name: rule for rule in _load(tmp_path, ("off",)).items}
    assert rules.keys() == {"one", "two"}
    assert (rules["one"].content, rules["one"].level) == ("project", "project")
    assert rules["two"].condition == ("c",)


def test_places_default_to_prose_and_tools(tmp_path: Path) -> None:
    _write(tmp_path, "condition: x")
    (rule,) = _load(tmp_path).items
    assert rule.places == (RuleTarget("text"), RuleTarget("tool"))


def test_a_scope_may_name_tools_and_files(tmp_path: Path) -> None:
    _write(tmp_path, 'condition: x\nscope: "thinking, tool:edit(*.ts), tool:bash"')
    (rule,) = _load(tmp_path).items
    assert rule.places == (
        RuleTarget("thinking"),
        RuleTarget("tool", "edit", "*.ts"),
        RuleTarget("tool", "bash"),
    )


def test_a_condition_that_is_a_file_name_means_its_edits(tmp_path: Path) -> None:
    _write(tmp_path, 'condition: "*.rs"')
    (rule,) = _load(tmp_path).items
    assert rule.places == (RuleTarget("tool", "edit", "*.rs"), RuleTarget("tool", "write", "*.rs"))
    assert rule.patterns == ()


def test_flags_before_a_pattern_count(tmp_path: Path) -> None:
    _write(tmp_path, 'condition: ["(?i)hello", "plain"]')
    (rule,) = _load(tmp_path).items
    assert rule.patterns[0].search("HELLO")
    assert not rule.patterns[1].search("PLAIN")


@pytest.mark.parametrize(
    "header",
    ["condition: '('", "condition: x\nscope: sky", "condition: x\ninterruptMode: maybe", "{"],
)
def test_a_spoilt_rule_is_reported_by_its_file(tmp_path: Path, header: str) -> None:
    _write(tmp_path, header)
    found = _load(tmp_path)
    assert found.items == ()
    assert "rule.md" in found.warnings[0]


def test_a_pattern_that_needs_backtracking_is_used_only_when_the_project_is_trusted(
    tmp_path: Path,
) -> None:
    _write(tmp_path, r"condition: '(\w)\1'")
    home = Home(agent=tmp_path / "agent", cwd=tmp_path, user=tmp_path / "user")
    untrusted = load_stream_rules(home)
    assert untrusted.items == ()
    assert "trust the project" in untrusted.warnings[0]
    (rule,) = load_stream_rules(home, trusted=True).items
    assert rule.patterns[0].search("aa")
    assert not rule.patterns[0].search("ab")


def test_a_nested_repeat_is_searched_in_linear_time(tmp_path: Path) -> None:
    _write(tmp_path, 'condition: "(a+)+$"')
    (rule,) = _load(tmp_path).items
    (pattern,) = rule.patterns
    assert isinstance(pattern, LinearPattern)
    assert not pattern.search("a" * 10_000 + "!")


# ---------------------------------------------------------------- hostile files


def _hostile(root: Path, make: Callable[[Path], object]) -> LoadedItems[StreamRule]:
    path = root / "work" / ".cursor" / "rules" / "rule.md"
    path.parent.mkdir(parents=True)
    make(path)
    home = Home(agent=root / "home/.pi/agent", cwd=root / "work", user=root / "home")
    return load_stream_rules(home)


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to("/proc/self/environ"),
        lambda path: path.write_text("---\ncondition: x\n---\n" + "x" * 70_000),
        lambda path: path.write_text(f"---\ncondition: {'[' * 60_000}\n---\n"),
        lambda path: path.write_text(f"---\ncondition: {'a?' * 600}{'a' * 600}b\n---\n"),
    ],
)
def test_a_hostile_rule_file_is_refused_with_a_warning(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    found = _hostile(tmp_path, make)
    assert found.items == ()
    assert "rule.md" in found.warnings[0]


def test_a_folder_of_rules_that_is_a_link_out_of_the_project_is_not_listed(tmp_path: Path) -> None:
    _write(tmp_path / "elsewhere", "condition: x", "rule.md")
    (tmp_path / "work" / ".cursor").mkdir(parents=True)
    (tmp_path / "work" / ".cursor" / "rules").symlink_to(tmp_path / "elsewhere")
    home = Home(agent=tmp_path / "home/agent", cwd=tmp_path / "work", user=tmp_path / "home")
    found = load_stream_rules(home)
    assert found.items == ()
    assert "outside" in found.warnings[0]


def test_a_project_that_is_not_trusted_has_few_rules(tmp_path: Path) -> None:
    for number in range(LIMITS["rules"] + 5):
        _write(tmp_path, "condition: x", f".clinerules/r{number:03}.md")
    found = _load(tmp_path)
    assert len(found.items) == LIMITS["rules"]
    (warning,) = found.warnings
    assert "too many rules" in warning
    home = Home(agent=tmp_path / "agent", cwd=tmp_path, user=tmp_path / "user")
    assert len(load_stream_rules(home, trusted=True).items) == LIMITS["rules"] + 5


def test_a_project_has_a_limited_number_of_rule_files(tmp_path: Path) -> None:
    (tmp_path / ".clinerules").mkdir()
    for number in range(MOST_FILES + 1):
        (tmp_path / ".clinerules" / f"r{number:03}.md").write_text("no header")
    (warning,) = _load(tmp_path).warnings
    assert f"only the first {MOST_FILES} are used" in warning


def test_the_size_of_all_patterns_of_a_project_is_limited(tmp_path: Path) -> None:
    for number in range(4):
        _write(tmp_path, "condition: 'x{900}'", f".clinerules/r{number}.md")
    assert len(_load(tmp_path).items) == 2


@pytest.mark.parametrize("end", ["]", ""])
def test_the_size_of_all_headers_of_a_project_is_limited(tmp_path: Path, end: str) -> None:
    """Invalid headers count too: they took as long to parse."""
    wide = "y: [" + "a," * 25_000 + end
    for number in range(8):
        _write(tmp_path, f"condition: x\n{wide}", f".clinerules/r{number}.md")
    warnings = _load(tmp_path).warnings
    assert "r5.md and later ones" in warnings[-1]
