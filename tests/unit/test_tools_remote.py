"""Tools in a workplace give what the same tools give in a folder of this machine."""

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from ludolf.agent.tool import Tool, ToolContext, ToolFailure, ToolOutput
from ludolf.agent.workplace import Workplace
from ludolf.ai.messages import text_of
from ludolf.sdk import CommandWorkplace
from ludolf.tools import BuiltinToolOptions, BuiltinTools
from ludolf.tools.process_tree import WARDEN
from ludolf.tools.remote import remote_tools
from tests.samples import ignore, run_tool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "src" / "deep").mkdir(parents=True)
    (work / "build").mkdir()
    (work / ".git").mkdir()
    (work / ".git" / "config").write_text("needle\n")
    (work / ".gitignore").write_text("build/\n*.log\n")
    (work / "build" / "out.txt").write_text("needle\n")
    (work / "a.py").write_text("x\nneedle one\ny\nNeedle (two\nz\n")
    (work / "app.log").write_text("needle\n")
    (work / ".hidden").write_text("needle hidden\n")
    (work / "src" / "b c.py").write_text("import os\nneedle 12\n" + "w" * 600 + " needle\n")
    (work / "src" / "deep" / "d.txt").write_text("none\n")
    (work / "binary").write_bytes(b"\0\1needle\n")
    (work / "long.txt").write_text("line\n" * 3000)
    (work / "latin").write_bytes(b"caf\xe9\n")
    (work / "wide.txt").write_text("short\n" + "w" * 120_000)
    os.symlink("nowhere", work / "broken")
    _picture(work / "p.png")
    return work


def _picture(path: Path) -> None:
    from PIL import Image

    data = BytesIO()
    Image.new("RGB", (4, 3)).save(data, "PNG")
    path.write_bytes(data.getvalue())


def call(tool: Tool, cwd: Path, args: dict[str, Any]) -> ToolOutput | str:
    """The output, or the text of the failure."""

    async def run() -> ToolOutput:
        env = {"PATH": os.environ["PATH"]}
        ctx = ToolContext(call_id="c", cwd=cwd, report=ignore, environment=lambda: env)
        return await run_tool(tool, args, ctx)

    try:
        return asyncio.run(run())
    except ToolFailure as error:
        return str(error)


def both(folder: Path, name: str, **args: Any) -> tuple[Any, Any]:
    """Results of the local tool and of the remote one, each on its own copy of the folder."""
    options = BuiltinToolOptions(path=os.environ["PATH"])
    kept = folder.with_name("kept")
    shutil.copytree(folder, kept, symlinks=True)
    local = call(BuiltinTools(options)[name], folder, args)
    changed = folder.with_name("changed")
    folder.rename(changed)
    kept.rename(folder)
    remote = call(remote_tools(options, here(folder))[name], Path("/nowhere"), args)
    WARDEN.end_all()
    assert _content(changed) == _content(folder)
    return local, remote


def here(folder: Path) -> CommandWorkplace:
    # ripgrep is where the local tools find it too.
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    return CommandWorkplace(["env", f"PATH={path}"], str(folder))


def without_ripgrep(folder: Path) -> CommandWorkplace:
    programs = folder.with_name("bin")
    programs.mkdir()
    for name in ("sh", "grep", "find", "sort", "printf", "cat"):
        found = shutil.which(name)
        assert found is not None
        os.symlink(found, programs / name)
    return CommandWorkplace(["/usr/bin/env", f"PATH={programs}"], str(folder))


def _content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read", {"path": "a.py"}),
    ("read", {"path": "@a.py", "offset": 2, "limit": 2}),
    ("read", {"path": "long.txt"}),
    ("read", {"path": "wide.txt", "offset": 2}),
    ("read", {"path": "latin"}),
    ("read", {"path": "p.png"}),
    ("read", {"path": "src"}),
    ("read", {"path": "missing.txt"}),
    ("read", {"path": "a\0b"}),
    ("write", {"path": "new/deep/file.txt", "content": "gr\u00fc\u00dfe\n"}),
    ("write", {"path": "a.py", "content": "whole\n"}),
    ("write", {"path": "a.py", "content": ""}),
    ("write", {"path": "src", "content": "x"}),
    ("edit", {"path": "a.py", "edits": [{"oldText": "needle one", "newText": "pin"}]}),
    ("edit", {"path": "a.py", "edits": [{"oldText": "absent", "newText": "pin"}]}),
    ("edit", {"path": "latin", "edits": [{"oldText": "caf", "newText": "tea"}]}),
    ("edit", {"path": "missing", "edits": [{"oldText": "a", "newText": "b"}]}),
    ("ls", {}),
    ("ls", {"path": "src", "limit": 1}),
    ("ls", {"path": "build/none"}),
    ("ls", {"path": "a.py"}),
    ("grep", {"pattern": "needle"}),
    ("grep", {"pattern": "needle", "ignoreCase": True, "context": 1}),
    ("grep", {"pattern": "needle", "limit": 1}),
    ("grep", {"pattern": "needle", "glob": "*.py"}),
    ("grep", {"pattern": "(two", "literal": True}),
    ("grep", {"pattern": "(two"}),
    ("grep", {"pattern": r"needle \d+", "path": "src/b c.py"}),
    ("grep", {"pattern": "absent"}),
    ("grep", {"pattern": "x", "path": "missing"}),
    ("find", {"pattern": "*.py"}),
    ("find", {"pattern": "*.{py,txt}", "limit": 1}),
    ("find", {"pattern": "src/**/*.txt"}),
    ("find", {"pattern": "deep"}),
    ("find", {"pattern": "absent"}),
    ("find", {"pattern": "*", "path": "a.py"}),
    ("bash", {"command": "pwd; echo bad >&2; cat"}),
    ("bash", {"command": "true"}),
    ("bash", {"command": "echo out; exit 3"}),
    ("bash", {"command": "[[ a == a ]] && echo $((1 + 1)) > new.txt"}),
    ("bash", {"command": "echo early; sleep 60", "timeout": 0.5}),
]


@pytest.mark.parametrize(("name", "args"), CALLS)
def test_a_call_gives_the_same_result_and_the_same_files(
    folder: Path, name: str, args: dict[str, Any]
) -> None:
    local, remote = both(folder, name, **args)
    assert remote == local


@pytest.mark.parametrize("args", [args for name, args in CALLS if name == "grep"])
def test_grep_without_ripgrep_finds_the_same_lines_and_says_what_it_ignored(
    folder: Path, args: dict[str, Any]
) -> None:
    (folder / ".gitignore").unlink()  # which plain grep does not know
    shutil.rmtree(folder / "build")
    (folder / "app.log").unlink()
    options = BuiltinToolOptions(path=os.environ["PATH"])
    local = call(BuiltinTools(options)["grep"], folder, args)
    place = without_ripgrep(folder)
    remote = call(remote_tools(options, place)["grep"], folder, args)
    if isinstance(local, str):
        assert isinstance(remote, str)
        assert "regex parse error" in local or remote == local
        return
    assert isinstance(remote, ToolOutput)
    shown, expected = text_of(remote.content), text_of(local.content)
    assert shown.partition("\n\n[")[0] == expected.partition("\n\n[")[0]
    assert ("ripgrep is not installed there" in shown) == ("path" not in args)
    assert remote.details == local.details


def test_find_without_ripgrep_lists_ignored_files_too(folder: Path) -> None:
    place = without_ripgrep(folder)
    tool = remote_tools(BuiltinToolOptions(), place)["find"]
    result = call(tool, folder, {"pattern": "*{o,u}*t*"})
    assert isinstance(result, ToolOutput)
    assert text_of(result.content).splitlines()[:2] == ["build/out.txt", "long.txt"]
    assert "ripgrep is not installed there" in text_of(result.content)


def test_long_output_is_stored_where_the_model_can_read_it(folder: Path) -> None:
    tools = remote_tools(BuiltinToolOptions(), here(folder))
    result = call(tools["bash"], folder, {"command": "seq 9000"})
    assert isinstance(result, ToolOutput)
    path = result.details["fullOutputPath"]
    assert text_of(result.content).endswith(f"Full output: {path}]")
    again = call(tools["read"], folder, {"path": path, "limit": 2})
    assert isinstance(again, ToolOutput)
    assert text_of(again.content).startswith("1\n2\n\n[")
    os.unlink(path)


def test_a_home_folder_is_that_of_the_workplace(folder: Path) -> None:
    place = CommandWorkplace(["env", f"HOME={folder}"], "/")
    tool = remote_tools(BuiltinToolOptions(), place)["read"]
    result = call(tool, folder, {"path": "~/src/deep/d.txt"})
    assert isinstance(result, ToolOutput)
    assert text_of(result.content) == "none\n"


async def test_an_abort_ends_every_process_of_the_command_and_keeps_its_output(
    folder: Path,
) -> None:
    os.mkfifo(folder / "gate")
    tool = remote_tools(BuiltinToolOptions(), here(folder))["bash"]
    ready = asyncio.Event()

    async def report(partial: ToolOutput) -> None:
        if "started" in text_of(partial.content):
            ready.set()

    ctx = ToolContext(call_id="c", cwd=folder, report=report)
    command = "(exec 9>gate; echo started; sleep 600) & wait"
    gate = os.open(folder / "gate", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(gate, True)
    task = asyncio.get_running_loop().create_task(tool.execute({"command": command}, ctx))
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as aborted:
        await task
    assert aborted.value.args[0] == "started\n\n\nCommand aborted"
    # Its end is read when the last process that holds it open has ended.
    assert await asyncio.to_thread(os.read, gate, 1) == b""
    os.close(gate)


def test_a_command_line_for_a_remote_shell_is_quoted(folder: Path) -> None:
    # `sh -c` takes one command line, as ssh does.
    place = CommandWorkplace(["sh", "-c"], str(folder), quoted=True)
    tool = remote_tools(BuiltinToolOptions(), place)["bash"]
    result = call(tool, folder, {"command": "echo 'two  spaces' \"$((1 + 2))\""})
    assert isinstance(result, ToolOutput)
    assert text_of(result.content) == "two  spaces 3\n"


class Lost:
    """A workplace whose connection is lost."""

    cwd = "/work"

    async def read(self, path: str, most: int) -> bytes:
        raise FileNotFoundError(path)  # without a number

    async def write(self, path: str, data: bytes) -> None:
        raise ConnectionError("connection lost")

    async def run(
        self,
        argv: Sequence[str],
        take: Callable[[bytes], Awaitable[None]],
        timeout: float | None,
    ) -> int:
        raise ConnectionError("connection lost")


def test_a_lost_connection_is_an_error_result_of_every_tool(tmp_path: Path) -> None:
    place: Workplace = Lost()
    tools = remote_tools(BuiltinToolOptions(), place)
    assert call(tools["read"], tmp_path, {"path": "a"}) == (
        "ENOENT: no such file or directory, access '/work/a'"
    )
    assert call(tools["write"], tmp_path, {"path": "a", "content": ""}) == (
        "EIO: connection lost, open '/work/a'"
    )
    for name, args in (
        ("bash", {"command": "true"}),
        ("ls", {}),
        ("grep", {"pattern": "x"}),
        ("find", {"pattern": "x"}),
    ):
        text = call(tools[name], tmp_path, args)
        assert text == "Cannot run commands in /work: connection lost"
