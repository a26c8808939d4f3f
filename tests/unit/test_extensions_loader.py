"""Extensions are found in order, loaded fresh each time, and fail without taking others along."""

import os
import sys
from pathlib import Path

import pytest

from ludolf.config.resources.entry_points import installed
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles
from ludolf.extensions.extensions import Extensions
from ludolf.extensions.loader import (
    ExtensionFile,
    ExtensionFiles,
    find_extensions,
)
from ludolf.extensions.payloads import AgentStart
from tests.extension_host import Bench

EMPTY = "def extension(api): pass\n"


def _home(folder: Path) -> Home:
    home = Home(agent=folder / "agent", cwd=folder / "work", user=folder)
    home.agent.mkdir()
    home.cwd.mkdir()
    return home


def _write(path: Path, text: str = EMPTY) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _find(home: Home, *paths: str, trusted: bool = True, discover: bool = True) -> ExtensionFiles:
    files = SettingsFiles(home, trusted=trusted)
    return find_extensions(home, files, paths=paths, discover=discover)


def _private_modules() -> set[str]:
    return {name for name in sys.modules if name.startswith("ludolf_extension_")}


def _ignore(path: str, event: str, text: str, cause: object = None) -> None: ...


NO_FACTORY = (
    "Extension does not export a valid factory function: {path}. Define `def extension(api)` in it."
)


# ---------------------------------------------------------------- finding


def test_places_come_in_the_order_given_project_user(tmp_path: Path) -> None:
    home = _home(tmp_path)
    _write(home.agent / "settings.json", '{"extensions": ["../far/user.py"]}')
    _write(home.project / "settings.json", '{"extensions": ["../far.py"]}')
    expected = [
        _write(tmp_path / "given.py"),
        _write(home.cwd / "far.py"),
        _write(home.project / "extensions" / "a.py"),
        _write(tmp_path / "far" / "user.py"),
        _write(home.agent / "extensions" / "b.py"),
    ]
    found = _find(home, str(tmp_path / "given.py"))
    assert [origin.path.resolve() for origin in found.origins] == expected
    assert [origin.explicit for origin in found.origins] == [True, False, False, False, False]


def test_a_project_that_is_not_trusted_gives_none(tmp_path: Path) -> None:
    home = _home(tmp_path)
    _write(home.project / "extensions" / "a.py")
    user = _write(home.agent / "extensions" / "b.py")
    assert [each.path for each in _find(home, trusted=False).origins] == [user]


def test_without_discovery_only_given_paths_count(tmp_path: Path) -> None:
    home = _home(tmp_path)
    _write(home.agent / "extensions" / "b.py")
    given = _write(tmp_path / "given.py")
    assert [each.path for each in _find(home, str(given), discover=False).origins] == [given]


def test_a_folder_gives_its_files_and_its_folders_one_level_deep(tmp_path: Path) -> None:
    home = _home(tmp_path)
    folder = home.agent / "extensions"
    expected = [
        _write(folder / "alone.py"),
        _write(folder / "package" / "__init__.py"),
        _write(folder / "plain" / "extension.py"),
    ]
    for other in ("_hidden.py", "notes.txt", "deep/er/x.py", "package/part.py"):
        _write(folder / other)
    assert [each.path for each in _find(home).origins] == expected


def test_one_file_under_two_names_is_loaded_once(tmp_path: Path) -> None:
    home = _home(tmp_path)
    real = _write(home.agent / "extensions" / "b.py")
    (home.agent / "extensions" / "c.py").symlink_to(real)
    assert len(_find(home, str(real)).origins) == 1


def test_scripts_are_found_where_pi_finds_them(tmp_path: Path) -> None:
    home = _home(tmp_path)
    folder = home.agent / "extensions"
    manifest = '{"pi": {"extensions": ["./src/main.ts", "gone.ts", 3]}}'
    _write(folder / "listed" / "package.json", manifest)
    expected = [
        _write(folder / "a.ts"),
        _write(folder / "listed" / "src" / "main.ts"),
        _write(folder / "pack" / "index.js"),
    ]
    for other in ("types.d.ts", "b.mjs", "listed/index.ts", "node_modules/x/index.js"):
        _write(folder / other)
    found = _find(home).origins
    assert [each.path for each in found] == expected
    assert all(each.script for each in found)
    files = SettingsFiles(home, trusted=True)
    assert find_extensions(home, files, scripts=False).origins == []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("missing.py", "Extension path does not exist: missing.py"),
        (
            "bare",
            "No extension in {}: "
            "it needs __init__.py, extension.py, index.ts, index.js, *.py, *.ts or *.js",
        ),
    ],
)
def test_a_given_path_without_an_extension_is_an_explicit_error(
    name: str, error: str, tmp_path: Path
) -> None:
    home = _home(tmp_path)
    (home.cwd / "bare").mkdir()
    files = _find(home, name)
    (found,) = files.errors
    assert found.error == error.format(home.cwd / name)
    assert found.explicit


def test_a_package_that_is_installed_or_removed_later_is_noticed(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    _write(site / "wonder.py", "")

    def found() -> list[Path]:
        # The list of a folder that has not changed for a while is kept.
        os.utime(site, (1, os.stat(site).st_mtime - 100))
        return list(installed([str(site)]))

    assert [found(), found()] == [[], []]
    about = site / "wonder-1.0.dist-info" / "entry_points.txt"
    _write(about, "[ludolf.extensions]\nwonder = wonder\n")
    assert [found(), found()] == [[site / "wonder.py"]] * 2
    about.unlink()
    about.parent.rmdir()
    assert found() == []


async def test_an_installed_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = _write(tmp_path / "site" / "wonder_ext" / "__init__.py", "from .inner import extension")
    _write(place.parent / "inner.py", "def extension(api): api.flag('wonder')")
    entry = "[console_scripts]\nx = y:z\n\n[ludolf.extensions]\nwonder = wonder_ext:extension\n"
    _write(tmp_path / "site" / "wonder-1.0.dist-info" / "entry_points.txt", entry)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert list(installed([str(tmp_path / "site")])) == [place]
    found = _find(_home(tmp_path))
    extensions = Extensions(_ignore)
    assert await extensions.load(found.origins) == ()
    assert list(extensions.flags()) == ["wonder"]


def test_a_project_folder_on_the_path_installs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path / "trap.py")
    entry = "[ludolf.extensions]\ntrap = trap:extension\n"
    _write(tmp_path / "trap-1.0.dist-info" / "entry_points.txt", entry)
    monkeypatch.chdir(tmp_path)
    assert list(installed(["", ".", str(tmp_path)])) == []
    monkeypatch.chdir("/")
    assert list(installed([str(tmp_path)])) == [tmp_path / "trap.py"]


def test_sources_of_a_project_on_the_path_install_nothing_and_its_environment_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = "[ludolf.extensions]\ntrap = trap:extension\n"
    for name in ("src", ".venv/lib/site-packages"):
        _write(tmp_path / name / "trap.py")
        _write(tmp_path / name / "trap-1.0.dist-info" / "entry_points.txt", entry)
    monkeypatch.chdir(tmp_path)
    assert list(installed([str(tmp_path / "src")])) == []
    place = tmp_path / ".venv/lib/site-packages"
    assert list(installed([str(place)])) == [place / "trap.py"]


# ---------------------------------------------------------------- loading


async def test_a_factory_may_be_async(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    source = "import asyncio\nasync def extension(api):\n await asyncio.sleep(0)\n api.flag('x')"
    assert await bench.load(source) == ()
    assert list(bench.extensions.flags()) == ["x"]


async def test_every_load_has_fresh_state_and_the_source_of_now(tmp_path: Path) -> None:
    source = "seen = []\ndef extension(api):\n seen.append(1)\n api.flag('n{}'.format(len(seen)))"
    first, second = Bench(tmp_path), Bench(tmp_path)
    await first.load(source)
    # Same length, same second: a cached form of the file would not be noticed as old.
    await second.load(source.replace("'n{}'", "'m{}'"))
    assert list(first.extensions.flags()) == ["n1"]
    assert list(second.extensions.flags()) == ["m1"]


async def test_nothing_is_written_beside_an_extension(tmp_path: Path) -> None:
    await Bench(tmp_path).load(EMPTY)
    assert [path.name for path in tmp_path.iterdir()] == ["x0.py"]


async def test_closing_lets_go_of_the_modules(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    before = _private_modules()
    await bench.load(EMPTY)
    assert len(_private_modules() - before) == 1
    await bench.extensions.close()
    assert _private_modules() == before


@pytest.mark.parametrize("main", ["__init__.py", "extension.py"])
async def test_a_folder_can_import_its_own_parts(main: str, tmp_path: Path) -> None:
    _write(tmp_path / "pack" / "part.py", "NAME = 'from-part'")
    source = "from .part import NAME\ndef extension(api): api.flag(NAME)"
    path = _write(tmp_path / "pack" / main, source)
    extensions = Extensions(_ignore)
    assert await extensions.load([ExtensionFile(path=path, package=path.parent)]) == ()
    assert list(extensions.flags()) == ["from-part"]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def extension(api): this is", "invalid syntax (x0.py, line 1)"),
        ("x = 1\ny = z", "name 'z' is not defined (x0.py, line 2)"),
        ("x = 1", NO_FACTORY),
        ("extension = 3", NO_FACTORY),
        ("def extension(api):\n raise RuntimeError('no')", "no (x0.py, line 2)"),
        ("raise SystemExit(3)", "tried to exit the program (code 3) (x0.py, line 1)"),
        (
            "import sys\ndef extension(api): sys.exit()",
            "tried to exit the program (code None) (x0.py, line 2)",
        ),
        (
            "def extension(api):\n api.on('tool_cal', print)",
            'Unknown event "tool_cal". Did you mean "tool_call"? (x0.py, line 2)',
        ),
        (
            "def extension(api): api.tool(parameters={'type': 'string'}, name='t')(lambda: 1)",
            'Tool "t" registered by extension "{path}" must define an object parameter schema.'
            " (x0.py, line 1)",
        ),
    ],
)
async def test_a_failing_extension_is_an_error_with_its_place(
    source: str, error: str, tmp_path: Path
) -> None:
    (found,) = await Bench(tmp_path).load(source)
    path = tmp_path / "x0.py"
    assert found.error == error.format(path=path)
    assert str(found).startswith(f'Failed to load extension "{path}": ')


async def test_what_a_failing_factory_registered_is_discarded(tmp_path: Path) -> None:
    source = """
def extension(api):
    api.flag("f")
    api.command("c")(print)
    api.on("agent_start", lambda event, ctx: 1 / 0)
    api.events.on("bell", lambda data: 1 / 0)
    api.provider("mine", base_url="http://x", api="openai-completions")
    @api.tool
    def t(): ...
    raise RuntimeError("late")
"""
    bench = Bench(tmp_path)
    await bench.load(source)
    extensions = bench.extensions
    assert (extensions.flags(), extensions.commands(), extensions.tools()) == ({}, (), {})
    assert not bench.runner.wants("agent_start")
    assert bench.host.providers.added == {}
    await bench.runner.emit(AgentStart())
    assert bench.reports == []


async def test_a_good_extension_loads_after_a_bad_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    errors = await bench.load("raise ValueError('bad')", "def extension(api): api.flag('good')")
    assert [Path(error.path).name for error in errors] == ["x0.py"]
    assert list(bench.extensions.flags()) == ["good"]


async def test_what_is_loaded_already_is_not_loaded_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.load("def extension(api): api.command('c')(print)")
    await bench.load("def extension(api): api.command('c')(print)")
    assert [item.name for item in bench.extensions.commands()] == ["c"]


async def test_missing_packages_are_named_with_the_command_that_installs_them(
    tmp_path: Path,
) -> None:
    block = (
        "# /// script\n# requires-python = '>=3.11'\n# dependencies = [\n"
        '#   "msgspec>=0.1",\n#   "surely-not-there[x]>=2",\n# ]\n# ///\n'
    )
    (error,) = await Bench(tmp_path).load(f"#!/usr/bin/env python\n{block}{EMPTY}")
    assert error.error == (
        "Missing packages: surely-not-there[x]>=2. "
        f'Install them with: {sys.executable} -m pip install "surely-not-there[x]>=2"'
    )


# ---------------------------------------------------------------- conflicts

NAMES = """
def extension(api):
    api.flag("f")
    @api.command("c", description="{0}")
    def c(args, ctx): api.set_session_name("{0}")
    @api.tool(name="t", description="{0}")
    def t(): ...
"""


async def test_of_two_tools_or_flags_of_one_name_the_first_wins(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    errors = await bench.load(NAMES.format("one"), NAMES.format("two"))
    first = tmp_path / "x0.py"
    assert {Path(error.path).name for error in errors} == {"x1.py"}
    assert [error.error for error in errors] == [
        f'Flag "--f" conflicts with {first}',
        f'Tool "t" conflicts with {first}',
    ]
    assert bench.extensions.tools()["t"].description == "one"


async def test_commands_of_one_name_are_all_kept_and_numbered(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.load(NAMES.format("one"), NAMES.format("two"))
    listed = [(item.name, item.description) for item in bench.extensions.commands()]
    assert listed == [("c:1", "one"), ("c:2", "two")]
    assert bench.extensions.find_command("/c") is None
    called = bench.extensions.find_command("/c:2 x")
    assert called is not None
    await bench.extensions.run_command(called)
    assert bench.host.session.name == "two"
