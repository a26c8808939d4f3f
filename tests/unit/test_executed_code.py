"""What is executed, what the digest of trust covers, and what is protected agree."""

import importlib.util
import json
import marshal
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ludolf.config.settings import executed
from ludolf.config.settings.executed import (
    NOTHING,
    CannotCheck,
    code_places,
    digest,
    files_below,
    links_to,
    project_code,
)
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles
from ludolf.extensions.extensions import Extensions
from ludolf.extensions.loader import find_extensions
from ludolf.extensions.sources import import_folders, imported_files

GOOD = "def extension(api): pass\n"
EVIL = "raise SystemExit('changed code ran')\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(agent=tmp_path / "u" / ".pi" / "agent", cwd=tmp_path / "repo", user=tmp_path / "u")
    home.agent.mkdir(parents=True)
    home.cwd.mkdir()
    return home


@pytest.fixture(autouse=True)
def _import_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def put(path: Path, text: str = GOOD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def link(path: Path, target: str | Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def settings(home: Home, **values: Any) -> Path:
    return put(home.project / "settings.json", json.dumps(values))


def own_settings(home: Home, **values: Any) -> Path:
    return put(home.agent / "settings.json", json.dumps(values))


def byte_code(path: Path, text: str) -> None:
    """Byte code that Python uses without looking at the source (an unchecked hash)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    path.write_bytes(head + marshal.dumps(compile(text, "helper.py", "exec")))


async def load(home: Home, *paths: str) -> tuple[set[Path], tuple[Any, ...]]:
    """Load all extensions; the files below the test's folder whose code ran, and the errors."""
    ran: set[str] = set()

    def trace(frame: FrameType, event: str, arg: object) -> None:
        ran.add(frame.f_code.co_filename)

    found = find_extensions(home, SettingsFiles(home, trusted=True), paths=paths)
    extensions = Extensions(lambda path, event, text, cause=None: None)
    sys.setprofile(trace)
    try:
        errors = await extensions.load(found.origins)
    finally:
        sys.setprofile(None)
    real = {Path(os.path.realpath(name)) for name in ran}
    return {path for path in real if path.is_relative_to(home.cwd.parent)}, errors


# ---------------------------------------------------------------- agreement


def _many_kinds(home: Home) -> None:
    put(home.project / "extensions" / "plain.py")
    put(home.project / "extensions" / "pack" / "__init__.py", "from .deep import part\n" + GOOD)
    put(home.project / "extensions" / "pack" / "deep" / "part.py", "")  # a namespace package
    put(home.project / "extensions" / "folder" / "extension.py", "from . import h\n" + GOOD)
    put(home.project / "extensions" / "folder" / "h.py", "")
    link(home.project / "extensions" / "file_link.py", put(home.cwd / "src" / "one.py"))
    put(home.cwd / "src" / "tool" / "__init__.py", "from . import helper\n" + GOOD)
    put(home.cwd / "src" / "tool" / "helper.py", "")
    link(home.project / "extensions" / "tool", "../../src/tool")
    link(home.cwd / "src" / "tool" / "linked.py", put(home.cwd / "far" / "away.py", ""))
    put(home.cwd / "src" / "tool" / "helper.py", "from . import linked\n")
    put(home.project / "agent" / "extensions" / "second.py")
    put(home.cwd / "ext" / "globbed.py")
    put(home.cwd / "lib" / "sibling.py", "")
    path = "import sys\nsys.path.insert(0, __file__.rsplit('/', 2)[0] + '/lib')\nimport sibling\n"
    put(home.cwd / "ext" / "imports.py", path + GOOD)
    settings(home, extensions=["../ext/*.py"])


async def test_all_that_a_project_executes_is_in_its_digest_or_stored_as_an_import(
    home: Home,
) -> None:
    _many_kinds(home)
    ran, errors = await load(home)
    assert errors == ()
    assert len(ran) == 13
    digested = {Path(os.path.realpath(f)) for top in project_code(home) for f in files_below(top)}
    assert ran <= digested | imported_files()
    assert ran - digested == {home.cwd / "lib" / "sibling.py"}


async def test_all_that_a_project_executes_is_protected(home: Home) -> None:
    _many_kinds(home)
    ran, _ = await load(home)
    places = (*code_places(home, SettingsFiles(home, trusted=True), os.environ), home.project)
    places = (*places, *import_folders())
    assert [path for path in ran if not any(map(path.is_relative_to, places))] == []


async def test_every_executed_file_changes_the_digest(home: Home) -> None:
    _many_kinds(home)
    ran, _ = await load(home)
    before = digest(home)
    for path in ran - {home.cwd / "lib" / "sibling.py"}:
        text = path.read_text()
        path.write_text(text + "#")
        assert digest(home) != before, path
        path.write_text(text)
        assert digest(home) == before


# ---------------------------------------------------------------- byte code


async def test_byte_code_of_a_helper_is_not_used(home: Home) -> None:
    put(home.project / "extensions" / "a" / "__init__.py", "from . import helper\n" + GOOD)
    helper = put(home.project / "extensions" / "a" / "helper.py", "")
    tag = sys.implementation.cache_tag
    byte_code(helper.parent / "__pycache__" / f"helper.{tag}.pyc", EVIL)
    ran, errors = await load(home)
    assert errors == ()
    assert helper in ran


async def test_byte_code_of_a_module_on_a_path_that_an_extension_adds_is_not_used(
    home: Home,
) -> None:
    helper = put(home.cwd / "lib" / "unusual_helper.py", "")
    tag = sys.implementation.cache_tag
    byte_code(helper.parent / "__pycache__" / f"unusual_helper.{tag}.pyc", EVIL)
    text = f"import sys\nsys.path.insert(0, {str(helper.parent)!r})\nimport unusual_helper\n"
    put(home.project / "extensions" / "a.py", text + GOOD)
    ran, errors = await load(home)
    assert errors == ()
    assert helper in ran


async def test_no_byte_code_is_written_next_to_helpers(home: Home) -> None:
    put(home.project / "extensions" / "a" / "__init__.py", "from . import helper\n" + GOOD)
    put(home.project / "extensions" / "a" / "helper.py", "")
    await load(home)
    assert not (home.project / "extensions" / "a" / "__pycache__").exists()


async def test_a_compiled_module_without_a_source_is_part_of_the_digest(home: Home) -> None:
    put(home.project / "extensions" / "a" / "__init__.py", "from . import helper\n" + GOOD)
    byte_code(home.project / "extensions" / "a" / "helper.pyc", "")
    before = digest(home)
    assert (await load(home))[1] == ()
    byte_code(home.project / "extensions" / "a" / "helper.pyc", EVIL)
    assert digest(home) != before


@pytest.mark.parametrize("name", ["node_modules", "__pycache__"])
async def test_what_the_digest_leaves_out_cannot_be_imported(home: Home, name: str) -> None:
    put(home.project / "extensions" / "a" / "__init__.py", f"from .{name} import x\n" + GOOD)
    put(home.project / "extensions" / "a" / name / "__init__.py", "")
    part = put(home.project / "extensions" / "a" / name / "x.py", "")
    before = digest(home)
    ran, (error,) = await load(home)
    assert "cannot import name 'x'" in error.error
    assert part not in ran
    part.write_text(EVIL)
    assert digest(home) == before


# ---------------------------------------------------------------- digest

Change = Callable[[Home], object]


def _globbed(home: Home) -> None:
    put(home.cwd / "ext" / "a.py")
    settings(home, extensions=["../ext/*.py"])


def _shell(home: Home) -> None:
    put(home.cwd / "sh", "#!/bin/sh\n")
    settings(home, shellPath="./sh")


def _linked_settings(home: Home) -> None:
    link(home.project / "settings.json", put(home.cwd / "shared.json", "{}"))


def _linked_folder(home: Home) -> None:
    put(home.cwd / "src" / "a.py")
    link(home.project / "extensions", "../src")


def _chain(home: Home) -> None:
    put(home.cwd / "real.py")
    put(home.cwd / "other.py", EVIL)
    link(home.cwd / "step.py", "real.py")
    link(home.project / "extensions" / "a.py", "../../step.py")


def _relink(home: Home) -> None:
    (home.cwd / "step.py").unlink()
    link(home.cwd / "step.py", "other.py")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_globbed, lambda home: put(home.cwd / "ext" / "a.py", EVIL)),
        (_globbed, lambda home: put(home.cwd / "ext" / "new.py")),
        (_shell, lambda home: put(home.cwd / "sh", "#!/bin/sh\nevil\n")),
        (_linked_settings, lambda home: put(home.cwd / "shared.json", '{"shellPath": "x"}')),
        (_linked_folder, lambda home: put(home.cwd / "src" / "b.py")),
        (_linked_folder, lambda home: put(home.cwd / "src" / "deep" / "__init__.py")),
        (_chain, lambda home: put(home.cwd / "real.py", EVIL)),
        (_chain, _relink),
        (lambda home: None, lambda home: put(home.project / "extensions" / "a.py")),
        (lambda home: None, lambda home: put(home.project / "agent/extensions/a.py")),
        (lambda home: None, lambda home: settings(home, shellPath="/bin/sh")),
    ],
)
def test_a_change_of_what_would_run_changes_the_digest(
    home: Home, before: Change, after: Change
) -> None:
    before(home)
    first = digest(home)
    after(home)
    assert digest(home) != first


def test_what_runs_nothing_leaves_the_digest_as_it_is(home: Home) -> None:
    put(home.project / "skills" / "s" / "SKILL.md", "text")
    put(home.cwd / "src" / "a.py")
    assert digest(home) == NOTHING
    put(home.project / "extensions" / "a" / "__init__.py")
    first = digest(home)
    put(home.project / "extensions" / "a" / "node_modules" / "x" / "index.js")
    put(home.project / "extensions" / "a" / "__pycache__" / "x.cpython-311.pyc")
    assert digest(home) == first


def test_a_pipe_a_device_and_a_ring_of_links_do_not_hold_up_the_digest(home: Home) -> None:
    folder = put(home.project / "extensions" / "a" / "__init__.py").parent
    os.mkfifo(folder / "pipe.py")
    link(folder / "endless.py", "/dev/zero")
    link(folder / "ring", ".")
    link(folder / "self.py", "self.py")
    link(folder / "up", home.cwd)
    assert digest(home) == digest(home)


@pytest.mark.parametrize("limit", ["files", "bytes"])
def test_code_without_a_limit_is_refused(
    home: Home, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        put(home.project / "extensions" / f"{number}.py")
    monkeypatch.setattr(executed, "MOST_FILES", 4 if limit == "files" else 100)
    monkeypatch.setattr(executed, "MOST_BYTES", 10 if limit == "bytes" else 10_000)
    with pytest.raises(CannotCheck):
        digest(home)


def test_a_sparse_giant_is_refused_at_once(home: Home) -> None:
    giant = put(home.project / "extensions" / "a.py")
    os.truncate(giant, 2**40)
    with pytest.raises(CannotCheck, match=r"a\.py is not used: it is larger than"):
        digest(home)


# ---------------------------------------------------------------- protected places


def _protected(home: Home, *paths: str, trusted: bool = True) -> set[str]:
    """Relative to the working folder."""
    found = code_places(home, SettingsFiles(home, trusted=trusted), os.environ, paths=paths)
    inside = [place for place in found if place.is_relative_to(home.cwd)]
    return {str(place.relative_to(home.cwd)) for place in inside}


def test_links_of_the_user_into_the_folder_protect_link_and_target(home: Home) -> None:
    put(home.cwd / "my" / "a.py")
    link(home.cwd / "step.py", "my/a.py")
    link(home.agent / "extensions" / "a.py", home.cwd / "step.py")
    assert _protected(home) == {"step.py", "my/a.py"}


def test_a_link_deep_in_a_package_of_the_user_is_followed(home: Home) -> None:
    put(home.agent / "extensions" / "pack" / "__init__.py")
    link(home.agent / "extensions" / "pack" / "deep" / "h.py", put(home.cwd / "lib" / "h.py"))
    assert _protected(home) == {"lib/h.py"}


def test_what_the_settings_of_the_user_name_is_protected(home: Home) -> None:
    put(home.cwd / "my" / "a.py")
    shell = put(home.cwd / "tools" / "sh")
    names = [str(home.cwd / "my" / "a.py"), str(home.cwd / "not" / "yet.py")]
    own_settings(home, extensions=[*names, str(home.cwd / "plug" / "*" / "x.py")], shellPath="./sh")
    expected = {"my/a.py", "not/yet.py", "plug", "sh"}
    assert _protected(home) == expected
    own_settings(home, extensions=names, shellPath=str(shell))
    assert "tools/sh" in _protected(home)


def test_the_configuration_of_the_user_is_protected_if_it_is_linked_into_the_folder(
    home: Home,
) -> None:
    link(home.agent / "settings.json", put(home.cwd / "dot" / "settings.json", "{}"))
    link(home.agent / "models.json", put(home.cwd / "dot" / "models.json", "{}"))
    assert _protected(home) == {"dot/settings.json", "dot/models.json"}


def test_files_that_key_commands_name_are_protected(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = put(home.cwd / "bin" / "key", "#!/bin/sh\n")
    key.chmod(0o755)
    put(home.cwd / "vault.py", "")
    models = {"providers": {"x": {"apiKey": f"!python3 {home.cwd}/vault.py --for x"}}}
    put(home.agent / "models.json", json.dumps(models))
    put(home.agent / "auth.json", json.dumps({"y": {"type": "api_key", "key": "!key"}}))
    monkeypatch.setenv("PATH", f"{home.cwd}/bin:{os.environ['PATH']}")
    assert _protected(home) == {"bin/key", "vault.py"}


def test_an_untrusted_project_names_nothing_and_a_trusted_one_does(home: Home) -> None:
    put(home.cwd / "ext" / "a.py")
    settings(home, extensions=["../ext/*.py", "../later.py", "bad\0name", "\ud800"])
    assert _protected(home, trusted=False) == set()
    assert _protected(home) == {"ext", "ext/a.py", "later.py"}


def test_extensions_of_the_command_line_are_protected(home: Home) -> None:
    put(home.cwd / "pack" / "__init__.py")
    assert _protected(home, "pack", "missing.py") == {"pack", "missing.py"}


def test_modules_that_python_loads_at_its_start_are_protected(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(home.cwd / "src")])
    assert _protected(home) == {"src/sitecustomize.py", "src/usercustomize.py"}


def test_every_link_on_the_way_is_named(tmp_path: Path) -> None:
    put(tmp_path / "real" / "deep" / "a.py")
    link(tmp_path / "one", "real")
    link(tmp_path / "real" / "two", "../one/deep")
    link(tmp_path / "three.py", tmp_path / "one" / "two" / "a.py")
    found = [str(path.relative_to(tmp_path)) for path in links_to(tmp_path / "three.py")]
    assert found == ["three.py", "one", "real/two", "one"]
