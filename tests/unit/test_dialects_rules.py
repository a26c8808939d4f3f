"""Rule files: which are found, what their headers mean, and which are refused."""

from pathlib import Path

import pytest

from ludolf.config.home import Home
from ludolf.config.rules import Found, Place, is_tame, load_stream_rules


def _load(root: Path, disabled: tuple[str, ...] = ()) -> Found:
    return load_stream_rules(Home(agent=root / "agent", cwd=root, user=root / "user"), disabled)


def _write(root: Path, header: str, at: str = ".pi/rules/rule.md", body: str = "Do not.") -> None:
    path = root / at
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{header}\n---\n{body}\n")


def test_a_rule_without_a_condition_is_none_of_these(tmp_path: Path) -> None:
    _write(tmp_path, "alwaysApply: true")
    assert _load(tmp_path) == Found((), ())


def test_rules_come_from_the_folders_of_several_agents_and_the_project_wins(tmp_path: Path) -> None:
    _write(tmp_path, "condition: a", ".cursor/rules/one.mdc", "project")
    _write(tmp_path, "condition: b", "agent/rules/one.md", "user")
    _write(tmp_path, "ttsr_trigger: c", "user/.omp/agent/rules/two.md", "user")
    _write(tmp_path, "condition: d", "agent/rules/off.md")
    rules = {rule.name: rule for rule in _load(tmp_path, ("off",)).rules}
    assert rules.keys() == {"one", "two"}
    assert (rules["one"].content, rules["one"].level) == ("project", "project")
    assert rules["two"].condition == ("c",)


def test_places_default_to_prose_and_tools(tmp_path: Path) -> None:
    _write(tmp_path, "condition: x")
    (rule,) = _load(tmp_path).rules
    assert rule.places == (Place("text"), Place("tool"))


def test_a_scope_may_name_tools_and_files(tmp_path: Path) -> None:
    _write(tmp_path, 'condition: x\nscope: "thinking, tool:edit(*.ts), tool:bash"')
    (rule,) = _load(tmp_path).rules
    assert rule.places == (Place("thinking"), Place("tool", "edit", "*.ts"), Place("tool", "bash"))


def test_a_condition_that_is_a_file_name_means_its_edits(tmp_path: Path) -> None:
    _write(tmp_path, 'condition: "*.rs"')
    (rule,) = _load(tmp_path).rules
    assert rule.places == (Place("tool", "edit", "*.rs"), Place("tool", "write", "*.rs"))
    assert rule.patterns == ()


def test_flags_before_a_pattern_count(tmp_path: Path) -> None:
    _write(tmp_path, 'condition: ["(?i)hello", "plain"]')
    (rule,) = _load(tmp_path).rules
    assert rule.patterns[0].search("HELLO")
    assert not rule.patterns[1].search("PLAIN")


@pytest.mark.parametrize(
    "header",
    ["condition: '('", "condition: x\nscope: sky", "condition: x\ninterruptMode: maybe", "{"],
)
def test_a_spoilt_rule_is_reported_by_its_file(tmp_path: Path, header: str) -> None:
    _write(tmp_path, header)
    found = _load(tmp_path)
    assert found.rules == ()
    assert "rule.md" in found.warnings[0]


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)*b", r"(\w)\1", ".*.*.*x", "(?P<n>a)", "(a){9,}"]
)
def test_a_pattern_that_may_run_for_long_is_not_tame(pattern: str) -> None:
    assert not is_tame(pattern)


@pytest.mark.parametrize("pattern", [r"console\.log\(", "[a-z]+", "TODO|FIXME", r"\(\d+\)"])
def test_a_plain_pattern_is_tame(pattern: str) -> None:
    assert is_tame(pattern)


def test_a_wild_pattern_of_a_project_is_used_only_when_the_project_is_trusted(
    tmp_path: Path,
) -> None:
    _write(tmp_path, 'condition: "(a+)+$"')
    home = Home(agent=tmp_path / "agent", cwd=tmp_path, user=tmp_path / "user")
    untrusted = load_stream_rules(home)
    assert untrusted.rules == ()
    assert "trust the project" in untrusted.warnings[0]
    assert len(load_stream_rules(home, trusted=True).rules) == 1
