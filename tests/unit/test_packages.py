"""Packages of pi: sources, manifests, filters, entries, and their resources without Node."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludolf.base import CommandError, ConfigError, dumps, loads
from ludolf.cli.packages.programs import find_npm
from ludolf.config.packages.contents import ConfiguredPackages, configured_packages
from ludolf.config.packages.entries import edit_entries
from ludolf.config.packages.filters import changed, chosen
from ludolf.config.packages.manifest import KINDS
from ludolf.config.packages.origin import identity, parse_origin
from ludolf.config.packages.places import npm_root, package_folder
from ludolf.config.packages.version_ranges import satisfies
from ludolf.config.resources.skills import load_skills
from ludolf.config.resources.sources import command_items, find_sources
from ludolf.config.resources.templates import load_templates
from ludolf.config.settings.executed import digest
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles
from ludolf.extensions.loader import find_extensions


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(agent=tmp_path / "u/.pi/agent", cwd=tmp_path / "repo", user=tmp_path / "u")
    home.agent.mkdir(parents=True)
    home.project.mkdir(parents=True)
    return home


def put(folder: Path, **files: str) -> None:
    """Write files; `__` in a name is a slash, `_` before the ending a dot."""
    for name, text in files.items():
        stem, _, ending = name.rpartition("_")
        path = folder / f"{stem.replace('__', '/')}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def skill(name: str) -> str:
    return f"---\nname: {name}\ndescription: About {name}.\n---\nDo {name}.\n"


def installed(home: Home, name: str, manifest: dict[str, Any] | None = None) -> Path:
    """A package of the user with two skills, a prompt in a folder, and a script."""
    folder = npm_root(home, "user") / "node_modules" / name
    put(
        folder,
        skills__review__SKILL_md=skill("review"),
        skills__plan__SKILL_md=skill("plan"),
        prompts__deep__ask_md="Ask $1",
        extensions__main_ts="export default () => {}",
        themes__dark_json="{}",
    )
    text = {"name": name, "version": "1.2.0", **({} if manifest is None else {"pi": manifest})}
    (folder / "package.json").write_bytes(dumps(text))
    return folder


def use(home: Home, *packages: Any, project: bool = False) -> None:
    path = home.project_settings_file if project else home.settings_file
    path.write_bytes(dumps({"packages": packages}))


def found(home: Home, *, trusted: bool = False) -> ConfiguredPackages:
    return configured_packages(home, SettingsFiles(home, trusted=trusted))


def names(home: Home, *, trusted: bool = False) -> list[str]:
    files = SettingsFiles(home, trusted=trusted)
    skills = load_skills(find_sources("skills", home, files)).items
    prompts = load_templates(find_sources("prompts", home, files)).items
    return [one.name for one in (*skills, *prompts)]


# ---------------------------------------------------------------- sources


@pytest.mark.parametrize(
    ("source", "kind", "name", "version", "url", "pinned"),
    [
        ("npm:pi-btw", "npm", "pi-btw", None, "", False),
        ("npm:@a/b@1.2.3", "npm", "@a/b", "1.2.3", "", True),
        ("npm:@a/b@^1", "npm", "@a/b", "^1", "", False),
        ("git:github.com/u/r", "git", "github.com/u/r", None, "https://github.com/u/r", False),
        ("https://x.org/u/r.git@v1", "git", "x.org/u/r", "v1", "https://x.org/u/r.git", True),
        ("git:git@x.org:u/r", "git", "x.org/u/r", None, "git@x.org:u/r", False),
        ("ssh://git@x.org:22/u/r", "git", "x.org/u/r", None, "ssh://git@x.org:22/u/r", False),
        ("./here", "path", "./here", None, "", True),
    ],
)
def test_a_source_is_npm_git_or_a_path(
    source: str, kind: str, name: str, version: str | None, url: str, pinned: bool
) -> None:
    origin = parse_origin(source)
    assert (origin.kind, origin.name, origin.version, origin.url, origin.pinned) == (
        kind,
        name,
        version,
        url,
        pinned,
    )


@pytest.mark.parametrize(
    "source",
    [
        *("", "npm:", "npm:../x", "npm:-g", "npm:a@--force", "npm:a/../b", "npm:@a/../../b"),
        *("git:x.org/../../etc", "git:x.org/%2e%2e/y", "git:word/r", "git:-x.org/u/r"),
        *("https://x.org/u/r@--upload-pack=x", "https:///u/r", "https://[/u/r", "npm:a\nb"),
        "git:git@x.org:../../u",
    ],
)
def test_a_source_that_leads_elsewhere_or_is_an_option_is_refused(source: str) -> None:
    with pytest.raises(ConfigError):
        parse_origin(source)


def test_packages_are_in_the_folders_of_pi(home: Home) -> None:
    places = {
        package_folder(home, parse_origin(source), scope).relative_to(home.user.parent).as_posix()
        for source in ("npm:@a/b@1", "git:x.org/u/r@v1")
        for scope in ("user", "project", "temporary")
    }
    assert places == {
        "u/.pi/agent/npm/node_modules/@a/b",
        "repo/.pi/npm/node_modules/@a/b",
        "u/.pi/agent/tmp/extensions/npm/f35b2129/node_modules/@a/b",
        "u/.pi/agent/git/x.org/u/r",
        "repo/.pi/git/x.org/u/r",
        "u/.pi/agent/tmp/extensions/git-x.org/da08c77c/u/r",
    }


def test_versions_and_protocols_do_not_make_another_package() -> None:
    base = Path("/base")
    same = ("git:x.org/u/r@v1", "https://x.org/u/r.git", "git:git@x.org:u/r")
    assert len({identity(parse_origin(one), base, base) for one in same}) == 1


# ---------------------------------------------------------------- resources


def test_resources_come_from_conventional_folders(home: Home) -> None:
    folder = installed(home, "tools")
    use(home, "npm:tools")
    assert names(home) == ["plan", "review", "ask"]
    (package,) = found(home).packages
    assert package.version == "1.2.0"
    assert package.scripts() == [folder / "extensions/main.ts"]
    assert package.enabled("themes") == [folder / "themes/dark.json"]


def test_a_host_sees_the_package_as_the_source(home: Home) -> None:
    folder = installed(home, "@a/tools")
    use(home, "npm:@a/tools@^1")
    skills = load_skills(find_sources("skills", home, SettingsFiles(home))).items
    item = next(one for one in command_items(skills, "skill") if one.name == "skill:review")
    assert loads(dumps(item.source_info)) == {
        "path": str(folder / "skills/review/SKILL.md"),
        "source": "npm:@a/tools@^1",
        "scope": "user",
        "origin": "package",
        "baseDir": str(folder),
    }
    assert item.location == "user"


def test_a_manifest_replaces_the_conventional_folders(home: Home) -> None:
    folder = installed(home, "tools", {"skills": ["./skills/*", "!**/plan"], "prompts": 7})
    use(home, "npm:tools")
    assert names(home) == ["review"]
    assert found(home).packages[0].scripts() == []
    # A filter of the entry lists kinds that the manifest leaves out, as pi does.
    use(home, {"source": "npm:tools", "skills": []})
    assert names(home) == ["ask"]
    assert (folder / "skills/review").is_dir()


def test_filters_choose_resources(home: Home) -> None:
    installed(home, "tools")
    use(home, {"source": "npm:tools", "skills": ["-skills/plan"], "prompts": []})
    assert names(home) == ["review"]
    use(home, {"source": "npm:tools", "skills": ["pl{an,ay}"], "extensions": ["!*"]})
    assert names(home) == ["plan", "ask"]
    assert found(home).packages[0].scripts() == []
    use(home, {"source": "npm:tools", "autoload": False, "skills": ["+skills/plan"]})
    assert names(home) == ["plan"]


def test_patterns_have_an_order_of_precedence() -> None:
    base = Path("/p")
    files = [base / name for name in ("a.md", "b.md", "c/SKILL.md", "c/d/e.md")]
    assert chosen(files, ["[ab].md"], base) == files[:2]
    assert chosen(files, ["!*.md", "+a.md"], base) == [files[0]]
    assert chosen(files, ["+a.md", "-a.md"], base) == files[1:]
    assert chosen(files, ["c/**"], base) == files[2:]
    assert changed(files, ["!a.md", "+c", "a.md"], base) == {files[0]: True, files[2]: True}


def test_the_entry_of_a_trusted_project_replaces_that_of_the_user(home: Home) -> None:
    installed(home, "tools")
    use(home, "npm:tools")
    use(home, {"source": "npm:tools@2.0.0", "skills": ["review"]}, project=True)
    assert names(home) == ["plan", "review", "ask"]
    assert found(home, trusted=True).warnings == (
        "Package npm:tools@2.0.0 is not installed. Run: ludolf install npm:tools@2.0.0 -l",
    )
    assert names(home, trusted=True) == []


def test_a_project_can_filter_the_package_of_the_user(home: Home) -> None:
    installed(home, "tools")
    use(home, "npm:tools")
    use(
        home,
        {"source": "npm:tools", "autoload": False, "skills": ["-skills/plan/SKILL.md"]},
        project=True,
    )
    assert names(home, trusted=True) == ["review", "ask"]
    assert found(home, trusted=True).warnings == ()


def test_own_resources_win_over_those_of_packages(home: Home) -> None:
    installed(home, "tools")
    put(home.agent, skills__plan__SKILL_md=skill("plan"))
    use(home, "npm:tools")
    loaded = load_skills(find_sources("skills", home, SettingsFiles(home)))
    assert [one.info.origin for one in loaded.items] == ["top-level", "package"]


def test_files_of_a_package_must_not_link_to_private_ones(home: Home) -> None:
    folder = installed(home, "tools", {"skills": ["../../../../secret.md", "skills"]})
    (home.user / "secret.md").write_text(skill("secret"))
    (folder / "skills/evil").mkdir()
    (folder / "skills/evil/SKILL.md").symlink_to(home.user / "secret.md")
    use(home, "npm:tools")
    assert names(home) == ["plan", "review"]


def test_an_extension_in_a_folder_must_be_inside_the_package(home: Home) -> None:
    folder = installed(home, "tools", {"extensions": ["./extensions"]})
    put(home.user, private_ts="")
    manifest = {"pi": {"extensions": ["./own.ts", "../../../../../../private.ts"]}}
    put(folder / "extensions/sub", own_ts="", package_json=dumps(manifest).decode())
    use(home, "npm:tools")
    names = [path.name for path in found(home).packages[0].scripts()]
    assert names == ["main.ts", "own.ts"]


def test_a_path_is_a_package_or_an_extension(home: Home) -> None:
    put(home.agent / "own", skills__solo__SKILL_md=skill("solo"))
    put(home.agent / "plain", index_ts="export default () => {}")
    put(home.agent, single_ts="export default () => {}")
    use(home, "./own", "./plain", "./single.ts", "./gone")
    listed = found(home)
    assert names(home) == ["solo"]
    assert [one.scripts() for one in listed.packages] == [
        [],
        [home.agent / "plain"],
        [home.agent / "single.ts"],
        [],
    ]
    assert listed.warnings == (f"Package ./gone is missing: {home.agent / 'gone'} does not exist",)


def test_a_package_of_the_command_line_must_be_installed_for_the_session(home: Home) -> None:
    (error,) = find_extensions(home, SettingsFiles(home), paths=("npm:tools",)).errors
    assert error.explicit and "npm:tools is not installed in" in error.error
    put(npm_root(home, "temporary") / "node_modules/tools", skills__solo__SKILL_md=skill("solo"))
    assert find_extensions(home, SettingsFiles(home), paths=("npm:tools",)).errors == []
    sources = find_sources("skills", home, SettingsFiles(home), paths=("npm:tools",))
    assert [one.scope for one in sources] == ["temporary"]


def test_invalid_entries_are_reported_and_others_count(home: Home) -> None:
    installed(home, "tools")
    use(home, {"skills": []}, "npm:..", "npm:tools")
    assert names(home) == ["plan", "review", "ask"]
    assert [text.partition(": ")[0] for text in found(home).warnings] == [
        f"packages in {home.settings_file}"
    ] * 2


# ---------------------------------------------------------------- settings and trust


def test_an_edit_keeps_the_rest_of_the_settings(home: Home) -> None:
    home.settings_file.write_text('{\n    "theme": "dark",\n    "unknown": 1\n}\n')
    assert edit_entries(home, "user", lambda old: [*old, "npm:x"])
    assert not edit_entries(home, "user", lambda old: old)
    assert home.settings_file.read_text() == (
        '{\n    "theme": "dark",\n    "unknown": 1,\n    "packages": [\n        "npm:x"\n    ]\n}\n'
    )


def test_an_invalid_settings_file_is_not_overwritten(home: Home) -> None:
    home.settings_file.write_text("{")
    with pytest.raises(ConfigError, match="Correct it first"):
        edit_entries(home, "user", lambda old: [*old, "npm:x"])
    assert home.settings_file.read_text() == "{"


def test_trust_covers_the_lock_file_commits_and_scripts_of_packages(home: Home) -> None:
    git = home.project / "git/x.org/u/r"
    put(home.project / "own/extensions", main_ts="1", other_ts="2")
    put(home.project, npm__package_lock_json="{}")
    (home.project / "npm/package_lock.json").rename(home.project / "npm/package-lock.json")
    put(git, package_json="{}")
    (git / ".git").mkdir()
    (git / ".git/HEAD").write_text("ref: refs/heads/main")
    use(home, "./own", "git:x.org/u/r", project=True)
    seen = {digest(home)}
    for path, text in (
        (home.project / "npm/package-lock.json", '{"packages": {}}'),
        (git / ".git/HEAD", "0" * 40),
        (home.project / "own/extensions/other.ts", "3"),
        (home.project_settings_file, '{"packages": ["./own"]}'),
    ):
        path.write_text(text)
        seen.add(digest(home))
    assert len(seen) == 5


# ---------------------------------------------------------------- npm


def test_npm_is_that_of_the_setting_of_path_or_of_the_wheel(tmp_path: Path) -> None:
    put(tmp_path, lib__node_modules__npm__bin__npm_js="")
    (tmp_path / "lib/node_modules/npm/bin/npm.js").rename(
        tmp_path / "lib/node_modules/npm/bin/npm-cli.js"
    )
    nowhere = {"PATH": str(tmp_path / "none")}
    found = find_npm(("npm",), nowhere, tmp_path)
    assert found.words[0] == str(tmp_path / "bin/node")
    assert found.environ["PATH"].startswith(str(tmp_path / "bin"))
    with pytest.raises(CommandError, match=r"ludolf\[pi\]"):
        find_npm(("npm",), nowhere, None)
    with pytest.raises(CommandError, match="npmCommand"):
        find_npm(("pnpm",), nowhere, tmp_path)
    (tmp_path / "npm").write_text("#!/bin/sh\n")
    (tmp_path / "npm").chmod(0o755)
    assert find_npm(("npm",), {"PATH": str(tmp_path)}, None).words == ("npm",)


# ---------------------------------------------------------------- hostile input

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
_ENTRY = st.sampled_from(
    ["/", "..", "~", "**", "!", "+", "-", "./skills", "[z-a]", "{a,b}" * 20, "x" * 5000, "a\0b"]
)


@given(st.text(max_size=60) | st.text("npm:git@/.#-%a1", max_size=40))
def test_any_text_is_a_source_or_refused(text: str) -> None:
    with suppress(ConfigError):
        origin = parse_origin(text)
        assert ".." not in origin.name.split("/") or origin.kind == "path"


@given(
    st.fixed_dictionaries({kind: _JSON | st.lists(_ENTRY, max_size=4) for kind in KINDS}),
    st.fixed_dictionaries({kind: st.lists(_ENTRY, max_size=4) for kind in KINDS}),
)
@settings(max_examples=30)
def test_any_manifest_and_filter_gives_files_inside_the_package(
    tmp_path_factory: pytest.TempPathFactory, manifest: Any, filters: Any
) -> None:
    root = tmp_path_factory.mktemp("hostile")
    home = Home(agent=root / "agent", cwd=root, user=root)
    home.agent.mkdir()
    folder = installed(home, "tools", manifest)
    use(home, {"source": "npm:tools", **filters}, "npm:tools")
    (package,) = found(home).packages
    files = [file.path for kind in KINDS for file in package.files[kind]]
    assert all(Path(os.path.realpath(path)).is_relative_to(folder.parent) for path in files)


@pytest.mark.parametrize(
    ("wanted", "fitting", "others"),
    [
        ("^1.2.3", ("1.2.3", "1.9.0"), ("1.2.2", "2.0.0", "2.0.0-0", "1.3.0-beta")),
        ("^0.2.3", ("0.2.3", "0.2.9"), ("0.3.0", "0.2.2")),
        ("^0.0.3", ("0.0.3",), ("0.0.4",)),
        ("~1.2", ("1.2.0", "1.2.9"), ("1.3.0", "1.1.9")),
        ("1.x || >=3", ("1.0.0", "3.0.0", "9.1.0"), ("2.0.0",)),
        ("1.2 - 2.3", ("1.2.0", "2.3.9"), ("1.1.9", "2.4.0")),
        (">1.2 <=2", ("1.3.0", "2.9.9"), ("1.2.9", "3.0.0")),
        (">=1.0.0-rc.2", ("1.0.0-rc.10", "1.0.0"), ("1.0.0-rc.1", "1.1.0-rc.3")),
        ("*", ("0.0.1",), ("1.0.0-rc.1",)),
        ("v1.2.3", ("1.2.3", "1.2.3+build"), ("1.2.4",)),
    ],
)
def test_ranges_of_versions_mean_what_they_mean_in_npm(
    wanted: str, fitting: tuple[str, ...], others: tuple[str, ...]
) -> None:
    assert [satisfies(one, wanted) for one in fitting] == [True] * len(fitting)
    assert [satisfies(one, wanted) for one in others] == [False] * len(others)


@given(st.text(max_size=30), st.text("0123456789.x*^~<>=|- v", max_size=30))
@settings(deadline=None)
def test_any_text_is_a_version_range_or_not(version: str, wanted: str) -> None:
    assert satisfies(version, wanted) in (True, False, None)
    assert satisfies("1.2.3", wanted) in (True, False, None)
    assert satisfies("1.2.3", "latest") is None


def test_an_installed_version_outside_of_the_range_is_reported(home: Home) -> None:
    installed(home, "tools")
    for wanted, complaints in (("^1.2", 0), ("next", 0), ("^2", 1)):
        source = f"npm:tools@{wanted}"
        put(home.agent, settings_json=dumps({"packages": [source]}).decode())
        texts = configured_packages(home, SettingsFiles(home)).warnings
        assert len(texts) == complaints
    assert texts[0].endswith("is installed as version 1.2.0. Run: ludolf install npm:tools@^2")


def test_a_package_that_is_installed_globally_is_found_last(home: Home, tmp_path: Path) -> None:
    everywhere = tmp_path / "global"
    put(everywhere / "tools", package_json="{}", skills__plan__SKILL_md=skill("plan"))
    npm = tmp_path / "npm"
    npm.write_text(f'#!/bin/sh\n[ "$1 $2" = "root -g" ] && echo {everywhere}\n')
    npm.chmod(0o755)
    raw = {"packages": ["npm:tools", "npm:missing"], "npmCommand": [str(npm)]}
    put(home.agent, settings_json=dumps(raw).decode())
    found = configured_packages(home, SettingsFiles(home))
    assert found.packages[0].folder == everywhere / "tools"
    assert [text for text in found.warnings if "npm:tools" in text] == []
    assert "npm:missing is not installed" in found.warnings[0]
    own = installed(home, "tools")
    assert configured_packages(home, SettingsFiles(home)).packages[0].folder == own
