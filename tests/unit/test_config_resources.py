"""Trust, discovery of resources, skills and prompt templates."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ludolf.base import CommandError
from ludolf.base.project_files import Reader
from ludolf.config.resources.ignore import is_ignored, read_rules
from ludolf.config.resources.skills import expand_skill, load_skills
from ludolf.config.resources.sources import (
    ResourceKind,
    Source,
    command_items,
    find_sources,
    missing_paths,
)
from ludolf.config.resources.templates import (
    expand_template,
    fill,
    load_templates,
    split_args,
)
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles
from ludolf.config.settings.trust import decide_trust, saved_decision


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(
        agent=tmp_path / "u" / ".pi" / "agent", cwd=tmp_path / "repo" / "sub", user=tmp_path / "u"
    )
    home.agent.mkdir(parents=True)
    home.cwd.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    return home


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def put_skill(folder: Path, name: str, description: str = "d", more: str = "") -> Path:
    text = f"---\nname: {name}\ndescription: {description}\n{more}---\n# Title\nBody of {name}.\n"
    return put(folder / "SKILL.md", text)


def sources(
    home: Home, kind: ResourceKind, *, trusted: bool = True, **more: Any
) -> tuple[Source, ...]:
    return find_sources(kind, home, SettingsFiles(home, trusted=trusted), **more)


def skill_names(home: Home, **more: Any) -> list[str]:
    return [skill.name for skill in load_skills(sources(home, "skills", **more)).items]


# ---------------------------------------------------------------- trust


@pytest.mark.parametrize(
    ("flag", "answer", "saved", "default", "expected"),
    [
        (True, False, False, "never", True),
        (False, True, True, "always", False),
        (None, True, False, "never", True),
        (None, None, True, "never", True),
        (None, None, False, "always", False),
        (None, None, None, "always", True),
        (None, None, None, "never", False),
        (None, None, None, "ask", False),
    ],
)
def test_trust_follows_its_order(
    home: Home,
    flag: bool | None,
    answer: bool | None,
    saved: bool | None,
    default: Any,
    expected: bool,
) -> None:
    if saved is not None:
        put(home.trust_file, json.dumps({str(home.cwd.resolve()): saved}))
    trust = decide_trust(home, flag=flag, answer=answer, default=default)
    assert trust.trusted is expected


def test_the_nearest_saved_decision_wins(home: Home) -> None:
    parent = home.cwd.parent.resolve()
    put(home.trust_file, json.dumps({str(parent): False, str(parent.parent): True}))
    assert saved_decision(home.trust_file, home.cwd) == (parent, False)
    above = parent.parent
    assert saved_decision(home.trust_file, above / "x") == (above, True)
    assert saved_decision(home.trust_file, Path("/")) is None


def test_a_link_is_judged_by_where_it_leads(home: Home, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(home.cwd)
    put(home.trust_file, json.dumps({str(home.cwd.resolve()): True}))
    assert saved_decision(home.trust_file, link) == (home.cwd.resolve(), True)


@pytest.mark.parametrize("name", [".pi/settings.json", ".pi/SYSTEM.md", "../.agents/skills/x"])
def test_ignored_project_content_is_told(home: Home, name: str) -> None:
    assert decide_trust(home).notice is None
    put(home.cwd / name, "{}")
    notice = decide_trust(home).notice
    assert notice is not None
    assert "--approve" in notice


def test_a_spoilt_trust_file_trusts_nobody(home: Home) -> None:
    put(home.trust_file, "{broken")
    trust = decide_trust(home, default="always")
    assert not trust.trusted
    assert (trust.notice or "").startswith("Invalid trust file")


# ---------------------------------------------------------------- discovery


def test_places_are_listed_as_hosts_know_them(home: Home) -> None:
    put_skill(home.agent / "skills" / "greet", "greet")
    put_skill(home.agent / "skills" / "sub" / "deep", "deep")
    put(home.agent / "skills" / "loose.md", "---\nname: loose\ndescription: d\n---\n")
    put(home.agent / "skills" / "README.md", "No header.")
    put_skill(home.user / ".agents" / "skills" / "mine", "mine")
    put_skill(home.project / "skills" / "proj", "proj")
    put_skill(home.cwd.parent / ".agents" / "skills" / "above", "above")
    put_skill(home.cwd.parent.parent / ".agents" / "skills" / "outside", "outside")
    put_skill(home.user / "listed" / "one", "listed")
    put_skill(home.cwd / "given", "given")
    put(home.settings_file, json.dumps({"skills": ["../../listed"]}))
    loaded = load_skills(sources(home, "skills", paths=["given"]))
    rows = [(s.name, s.info.scope, s.info.source, s.info.base_dir) for s in loaded.items]
    assert rows == [
        ("proj", "project", "auto", str(home.project)),
        ("above", "project", "auto", str(home.cwd.parent / ".agents")),
        ("listed", "user", "local", None),
        ("greet", "user", "auto", str(home.agent)),
        ("loose", "user", "auto", str(home.agent)),
        ("deep", "user", "auto", str(home.agent)),
        ("mine", "user", "auto", str(home.user / ".agents")),
        ("given", "temporary", "local", str(home.cwd / "given")),
    ]
    assert loaded.warnings == ()


def test_an_untrusted_project_gives_nothing(home: Home) -> None:
    put_skill(home.project / "skills" / "proj", "proj")
    put_skill(home.cwd / ".agents" / "skills" / "x", "x")
    put_skill(home.agent / "skills" / "mine", "mine")
    assert skill_names(home, trusted=False) == ["mine"]


def test_switched_off_discovery_keeps_what_was_given(home: Home) -> None:
    put_skill(home.agent / "skills" / "mine", "mine")
    put_skill(home.cwd / "given", "given")
    assert skill_names(home, paths=["given/SKILL.md"], discover=False) == ["given"]
    assert missing_paths(home, ["given", "gone"]) == (f"Path does not exist: {home.cwd / 'gone'}",)


def test_of_two_skills_with_one_name_the_stronger_wins(home: Home) -> None:
    put_skill(home.agent / "skills" / "a", "same", "user")
    put_skill(home.project / "skills" / "a", "same", "project")
    loaded = load_skills(sources(home, "skills"))
    assert [skill.description for skill in loaded.items] == ["project"]
    assert 'the name "same" is taken by' in loaded.warnings[0]
    put_skill(home.cwd / "given", "same", "given")
    loaded = load_skills(sources(home, "skills", paths=["given"]))
    assert [skill.description for skill in loaded.items] == ["given"]


def test_setting_lists_understand_globs_and_marks(home: Home) -> None:
    for name in ("a", "b", "c"):
        put(home.agent / "more" / f"{name}.md", name)
    for name in ("auto", "beta", "gamma"):
        put(home.agent / "prompts" / f"{name}.md", name)
    marks = ["more/[ab].md", "!prompts/*a.md", "+prompts/beta.md", "-more/b.md", "gone.md"]
    put(home.settings_file, json.dumps({"prompts": marks}))
    loaded = load_templates(sources(home, "prompts"))
    assert sorted(template.name for template in loaded.items) == ["a", "auto", "beta"]


# ---------------------------------------------------------------- skills


def test_ignored_hidden_and_vendored_folders_are_skipped(home: Home) -> None:
    root = home.agent / "skills"
    for name in ("kept", "dropped", ".hidden", "node_modules/x", "part/one", "part/two"):
        put_skill(root / name, name.replace("/", "-").strip("."))
    put(root / ".gitignore", "# comment\n/dropped\npart/*\n!part/two\n")
    assert skill_names(home) == ["kept", "part-two"]


@pytest.mark.parametrize(
    ("rule", "path", "folder", "expected"),
    [
        ("*.md", "a/b.md", False, True),
        ("/a.md", "b/a.md", False, False),
        ("a/**/z", "a/b/c/z", False, True),
        ("docs/", "docs", False, False),
        ("docs/", "x/docs", True, True),
        ("file[0-9]?", "file1x", False, True),
        ("file[!0-9]", "file1", False, False),
        ("\\#x", "#x", False, True),
    ],
)
def test_ignore_rules_mean_what_git_means(
    tmp_path: Path, rule: str, path: str, folder: bool, expected: bool
) -> None:
    put(tmp_path / ".gitignore", rule + "\n")
    assert (
        is_ignored(tmp_path / path, read_rules(tmp_path, Reader(within=tmp_path)), folder=folder)
        is expected
    )


def test_links_are_followed_once(home: Home) -> None:
    root = home.agent / "skills"
    put_skill(home.user / "elsewhere" / "s", "linked")
    root.mkdir()
    (root / "a").symlink_to(home.user / "elsewhere" / "s")
    (root / "b").symlink_to(home.user / "elsewhere" / "s")
    (root / "loop").symlink_to(root)
    loaded = load_skills(sources(home, "skills"))
    assert [skill.path for skill in loaded.items] == [root / "a" / "SKILL.md"]
    assert loaded.warnings == ()


def test_odd_skills_are_reported(home: Home) -> None:
    root = home.agent / "skills"
    put(root / "nameless" / "SKILL.md", "---\ndescription: d\n---\n")
    put(root / "empty" / "SKILL.md", "---\nname: empty\n---\n")
    put(root / "broken" / "SKILL.md", "---\nname: [\n---\n")
    put_skill(root / "odd", "Odd--Name")
    put_skill(root / "hid", "hid", more="disable-model-invocation: true\nlicense: MIT\n")
    loaded = load_skills(sources(home, "skills"))
    assert [(s.name, s.hidden) for s in loaded.items] == [
        ("hid", True),
        ("nameless", False),
        ("Odd--Name", False),
    ]
    reasons = [text.split(": ", 1)[1] for text in loaded.warnings]
    assert reasons[0].startswith("invalid front matter")
    assert reasons[1] == "description is required"
    assert reasons[2].startswith('name "Odd--Name"')


def test_skill_calls_are_expanded_as_hosts_know_them(home: Home) -> None:
    path = put_skill(home.agent / "skills" / "greet", "greet")
    skills = load_skills(sources(home, "skills")).items
    block = (
        f'<skill name="greet" location="{path}">\n'
        f"References are relative to {path.parent}.\n\n"
        "# Title\nBody of greet.\n</skill>"
    )
    assert expand_skill("/skill:greet", skills) == block
    assert expand_skill("/skill:greet  the queen\nnow ", skills) == f"{block}\n\nthe queen\nnow"
    for text in ("/skill:nosuch x", "say /skill:greet", "/skill:", "plain"):
        assert expand_skill(text, skills) == text
    path.unlink()
    with pytest.raises(CommandError, match="does not exist"):
        expand_skill("/skill:greet", skills)


# ---------------------------------------------------------------- templates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  a  b\tc\n", ["a", "b", "c"]),
        ("\"a b\" 'c d'", ["a b", "c d"]),
        ('x"a b"y \'it"s\'', ["xa by", 'it"s']),
        ('a "" b', ["a", "", "b"]),
        ("back\\ slash", ["back\\", "slash"]),
        ('"open end', ["open end"]),
    ],
)
def test_arguments_are_split_at_blanks_outside_quotes(text: str, expected: list[str]) -> None:
    assert split_args(text) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("$1-$2-$9", "one-two-"),
        ("$@ / $ARGUMENTS", "one two $1 / one two $1"),
        ("${1:-d} ${7:-d e} ${7:-}", "one d e "),
        ("${@:-d} ${ARGUMENTS:-d}", "one two $1 one two $1"),
        ("${@:2}", "two $1"),
        ("${@:0:1} ${@:2:1} ${@:9}", "one two "),
        ("$3", "$1"),
        ("costs $ and ${x} and $0", "costs $ and ${x} and "),
    ],
)
def test_slots_are_filled_in_one_pass(body: str, expected: str) -> None:
    assert fill(body, ["one", "two", "$1"]) == expected


def test_defaults_stand_in_for_missing_and_empty_arguments() -> None:
    assert fill("${1:-a} ${@:-all} ${2:-b}", ["", ""]) == "a   b"
    assert fill("${@:-all}", []) == "all"


def test_templates_are_loaded_and_expanded(home: Home) -> None:
    head = "---\ndescription: Fix tests\nargument-hint: <area>\n---\n"
    put(home.agent / "prompts" / "fix.md", head + "Fix $1 with care ($@).\n")
    put(home.agent / "prompts" / "plain.md", "\n" + "x" * 70 + "\nSecond.\n")
    put(home.agent / "prompts" / "deep" / "no.md", "not a direct child")
    put(home.project / "prompts" / "fix.md", "Project: $1")
    loaded = load_templates(sources(home, "prompts"))
    rows = [(t.name, t.description, t.argument_hint, t.info.scope) for t in loaded.items]
    assert rows == [
        ("fix", "Project: $1", None, "project"),
        ("plain", "x" * 60 + "...", None, "user"),
    ]
    assert len(loaded.warnings) == 1
    user = load_templates(sources(home, "prompts", trusted=False)).items
    assert user[0].argument_hint == "<area>"
    assert expand_template("/fix 'a b' c", user) == "Fix a b with care (a b c)."
    assert expand_template("/fix", user) == "Fix  with care ()."
    for text in ("/fixing x", "/ fix", "do /fix", "/nosuch"):
        assert expand_template(text, user) == text


def test_commands_have_the_form_of_the_wire(home: Home) -> None:
    path = put(home.project / "prompts" / "fix.md", "Fix it")
    skill = put_skill(home.cwd / "given", "greet", "How to greet.")
    templates = load_templates(sources(home, "prompts")).items
    skills = load_skills(sources(home, "skills", paths=["given"])).items
    items = (*command_items(templates, "prompt"), *command_items(skills, "skill"))
    assert msgspec.to_builtins(items) == (
        {
            "name": "fix",
            "description": "Fix it",
            "source": "prompt",
            "sourceInfo": {
                "path": str(path),
                "source": "auto",
                "scope": "project",
                "origin": "top-level",
                "baseDir": str(home.project),
            },
            "path": str(path),
            "location": "project",
        },
        {
            "name": "skill:greet",
            "description": "How to greet.",
            "source": "skill",
            "sourceInfo": {
                "path": str(skill),
                "source": "local",
                "scope": "temporary",
                "origin": "top-level",
                "baseDir": str(home.cwd / "given"),
            },
            "path": str(skill),
            "location": "path",
        },
    )


# ---------------------------------------------------------------- hostile folders


def _skill(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: d\n---\nbody of {name}"
    )


def test_a_skill_that_links_out_of_the_project_is_refused_now_and_later(home: Home) -> None:
    skills = home.project / "skills"
    _skill(skills, "one")
    (home.agent / "auth.json").write_text("---\nname: two\ndescription: d\n---\nsecret")
    (skills / "two").mkdir()
    (skills / "two" / "SKILL.md").symlink_to(home.agent / "auth.json")
    loaded = load_skills(sources(home, "skills"))
    assert [skill.name for skill in loaded.items] == ["one"]
    assert "outside" in loaded.warnings[0]
    (skills / "one" / "SKILL.md").unlink()
    (skills / "one" / "SKILL.md").symlink_to(home.agent / "auth.json")
    with pytest.raises(CommandError, match="outside"):
        expand_skill("/skill:one", loaded.items)


def test_a_folder_of_skills_that_is_a_link_out_of_the_project_is_not_listed(home: Home) -> None:
    _skill(home.agent / "private", "one")
    home.project.mkdir(parents=True, exist_ok=True)
    (home.project / "skills").symlink_to(home.agent / "private")
    assert load_skills(sources(home, "skills")).items == ()


def test_skills_of_the_user_may_be_links(home: Home, tmp_path: Path) -> None:
    _skill(tmp_path / "dotfiles", "one")
    (home.agent / "skills").symlink_to(tmp_path / "dotfiles")
    assert [skill.name for skill in load_skills(sources(home, "skills")).items] == ["one"]


def test_folders_that_link_to_each_other_are_searched_in_bounds(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludolf.config.resources.skills.MOST_FOLDERS", 50)
    skills = home.project / "skills"
    for depth in range(12):
        (skills / f"d{depth}").mkdir(parents=True)
        for side in "ab":
            (skills / f"d{depth}" / side).symlink_to(f"../d{depth + 1}")
    loaded = load_skills(sources(home, "skills"))
    assert any("only the first 50 folders" in text for text in loaded.warnings)


def test_odd_templates_are_refused_with_a_warning(home: Home) -> None:
    prompts = home.project / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "good.md").write_text("fine")
    (prompts / "deep.md").write_text("---\nx: " + "[" * 50_000 + "\n---\nbody")
    (home.agent / "auth.json").write_text("secret")
    (prompts / "link.md").symlink_to(home.agent / "auth.json")
    (prompts / "zero.md").symlink_to("/dev/zero")
    loaded = load_templates(sources(home, "prompts"))
    assert [template.name for template in loaded.items] == ["good"]
    deep, link = loaded.warnings
    assert "nested too deeply" in deep
    assert "outside" in link


def test_a_hostile_ignore_file_of_skills_ignores_nothing(home: Home) -> None:
    skills = home.project / "skills"
    _skill(skills, "one")
    (skills / ".gitignore").write_text("[z-a]\n")
    (skills / ".ignore").symlink_to("/dev/zero")
    assert [skill.name for skill in load_skills(sources(home, "skills")).items] == ["one"]


def test_settings_of_the_project_are_a_regular_file_inside_it(home: Home, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.json").write_text('{"steeringMode": "all"}')
    home.project.mkdir(parents=True, exist_ok=True)
    path = home.project_settings_file
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "elsewhere.json")
    files = SettingsFiles(home, trusted=True)
    assert files.current.steering_mode == "one-at-a-time"
    assert "outside" in files.warnings[0]


def test_a_pattern_with_many_stars_is_matched_soon(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*a" * 40 + "b\n" + "**/a/" * 40 + "b\n")
    rules = read_rules(tmp_path, Reader())
    assert not is_ignored(tmp_path / ("a" * 200), rules, folder=True)
    assert is_ignored(tmp_path / ("a" * 200 + "b"), rules, folder=True)
