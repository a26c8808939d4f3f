"""In the sandbox, neither tools nor commands change code that Ludolf runs outside it."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ludolf.base import dumps, loads
from tests.process.extending import told, write
from tests.process.harness import only
from tests.process.model_server import ModelServer
from tests.process.script import answer, bash, call
from tests.process.test_sandbox import WORKSPACE, Box
from tests.script_host import needs_node

GOOD = "def extension(api): pass\n"
EVIL = "open({!r}, 'w')\ndef extension(api): pass\n"


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="ludolf-test-") as folder:
        yield Path(folder)


def _settings(box: Box, **values: object) -> None:
    write(box.work / ".pi" / "settings.json", dumps(values).decode())


def _linked_folder(box: Box) -> str:
    write(box.work / "src" / "tool" / "__init__.py", GOOD)
    (box.work / ".pi" / "extensions").mkdir(parents=True)
    (box.work / ".pi" / "extensions" / "tool").symlink_to("../../src/tool")
    return "src/tool/__init__.py"


def _globbed(box: Box) -> str:
    write(box.work / "ext" / "a.py", GOOD)
    _settings(box, extensions=["../ext/*.py"])
    return "ext/a.py"


def _new_in_a_glob(box: Box) -> str:
    _globbed(box)
    return "ext/b.py"


def _named_by_the_user(box: Box) -> str:
    write(box.work / "my" / "a.py", GOOD)
    box.settings(sandbox={"using": "bwrap"}, extensions=[str(box.work / "my" / "a.py")])
    return "my/a.py"


def _linked_by_the_user(box: Box) -> str:
    write(box.work / "my" / "a.py", GOOD)
    (box.agent / "extensions").mkdir()
    (box.agent / "extensions" / "a.py").symlink_to(box.work / "my" / "a.py")
    return "my/a.py"


def _imported(box: Box) -> str:
    text = "import sys\nsys.path.insert(0, __file__.rsplit('/', 1)[0])\nimport guarded_helper\n"
    _named_by_the_user(box)
    write(box.work / "my" / "a.py", text + GOOD)
    write(box.work / "my" / "guarded_helper.py", "")
    return "my/guarded_helper.py"


def _imported_by_a_script(box: Box) -> str:
    text = 'import { text } from "../lib/helper";\nexport default () => text;\n'
    write(box.work / "my" / "a.ts", text)
    write(box.work / "lib" / "helper.ts", 'export const text = "good";\n')
    box.settings(sandbox={"using": "bwrap"}, extensions=[str(box.work / "my" / "a.ts")])
    return "lib/helper.ts"


def _installed_for_a_script(box: Box) -> str:
    _imported_by_a_script(box)
    write(box.work / "my" / "a.ts", 'import { text } from "kind";\nexport default () => text;\n')
    folder = box.work / "node_modules" / "kind"
    write(folder / "package.json", '{"type": "module", "main": "index.js"}')
    write(folder / "index.js", 'export const text = "good";\n')
    return "node_modules/kind/index.js"


def _shadowing(box: Box) -> str:
    """A package comes before a module of the same name, and this folder before all others."""
    _imported(box)
    return "my/guarded_helper/__init__.py"


@pytest.mark.parametrize("by", ["write", "bash"])
@pytest.mark.parametrize(
    "lay",
    [
        _linked_folder,
        _globbed,
        _new_in_a_glob,
        _named_by_the_user,
        _linked_by_the_user,
        _imported,
        _shadowing,
        pytest.param(_imported_by_a_script, marks=needs_node),
        pytest.param(_installed_for_a_script, marks=needs_node),
    ],
)
async def test_code_in_the_folder_cannot_be_changed(
    root: Path, lay: Callable[[Box], str], by: str
) -> None:
    with ModelServer() as server:
        box = Box(root, server, "bwrap")
        path = lay(box)
        before = (box.work / path).read_text() if (box.work / path).exists() else None
        evil = EVIL.format(str(box.outside / "evil"))
        command = f"mkdir -p $(dirname {path}); cat > {path} <<'X'\n{evil}X"
        change = bash(command) if by == "bash" else call("write", {"path": path, "content": evil})
        server.add(answer(change), answer("Done."))
        async with box.client(*WORKSPACE) as client:
            await client.ask("set_project_trust", trusted=True)
            await client.prompt_and_collect("Go", timeout=20)
        assert (box.work / path).exists() == (before is not None)
        assert before is None or (box.work / path).read_text() == before
        async with box.client(*WORKSPACE) as client:
            await client.ask("get_state")
    assert not (box.outside / "evil").exists()


async def test_under_landlock_changed_code_of_a_project_runs_neither_now_nor_later(
    root: Path,
) -> None:
    with ModelServer() as server:
        box = Box(root, server, "landlock")
        write(box.work / ".pi" / "extensions" / "a.py", GOOD)
        evil = EVIL.format(str(box.outside / "evil"))
        server.add(answer(bash(f"cat > .pi/extensions/a.py <<'X'\n{evil}X")), answer("Done."))
        async with box.client(*WORKSPACE, "--approve") as client:
            await client.prompt_and_collect("Go", timeout=20)
            await client.ask("new_session")
            await client.ask("reload")
            await client.ask("get_state")
        assert "evil" in (box.work / ".pi" / "extensions" / "a.py").read_text()
        assert any("no longer trusts" in one["message"] for one in only(told(box), "warning"))
        async with box.client(*WORKSPACE) as client:
            await client.ask("get_state")
    assert not (box.outside / "evil").exists()


def test_trust_that_pi_stored_is_bound_before_the_first_command(root: Path) -> None:
    """Also for a folder that has nothing to run yet; a killed program could not do it later."""
    with ModelServer() as server:
        box = Box(root, server)
        (box.agent / "trust.json").write_bytes(dumps({str(box.work): True}))
        server.add(answer("Hello."))
        assert box.run("-p", "Hi").code == 0
        stored = loads((box.agent / "trust-digests.json").read_bytes())
        assert stored[str(box.work)]["digest"] == ""
        write(box.work / ".pi" / "extensions" / "a.py", EVIL.format(str(box.outside / "evil")))
        server.add(answer("Hello."))
        assert "has changed since it was trusted" in box.run("-p", "Hi").stderr
    assert not (box.outside / "evil").exists()


@pytest.mark.parametrize("name", [".", "..", "*.py", "**/*.py"])
def test_a_folder_that_extensions_are_loaded_from_is_no_workspace(root: Path, name: str) -> None:
    with ModelServer() as server:
        box = Box(root, server)
        box.settings(extensions=[str(box.work / name)])
        done = box.run("-p", *WORKSPACE, "Go")
    assert done.code == 1
    assert "extensions are loaded from" in done.stderr
