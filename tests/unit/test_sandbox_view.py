"""What tools and commands see of folders that the sandbox replaces, and of hidden files."""

import asyncio
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.agent.tool import Tool, ToolContext, ToolFailure, ToolOutput
from ludolf.ai.messages import text_of
from ludolf.tools.bash import BashTool
from ludolf.tools.grep import GrepTool
from ludolf.tools.ls import LsTool
from ludolf.tools.options import BuiltinToolOptions
from ludolf.tools.read import ReadTool
from ludolf.tools.sandbox.sandbox import Sandbox, Using
from ludolf.tools.write import WriteTool
from tests.samples import run_tool
from tests.unit.sandbox_place import SECRET, Place, Shell

MEANS = pytest.mark.parametrize("using", ["bwrap", "landlock"])


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="ludolf-test-") as root:
        made = Place(Path(root))
        try:
            yield made
        finally:
            made.close()


def _run(place: Place, sandbox: Sandbox, tool: Tool, **args: Any) -> str:
    async def ignore(partial: ToolOutput) -> None:
        del partial

    walls = sandbox.walls(place.work)
    environment = {"PATH": os.environ["PATH"], "HOME": str(place.home)}
    ctx = ToolContext(
        call_id="c", cwd=place.work, report=ignore, walls=walls, environment=lambda: environment
    )
    return text_of(asyncio.run(run_tool(tool, args, ctx)).content)


def _refusal(place: Place, sandbox: Sandbox, tool: Tool, **args: Any) -> str:
    with pytest.raises(ToolFailure) as error:
        _run(place, sandbox, tool, **args)
    return str(error.value)


# ---------------------------------------------------------------- private folders


def test_file_tools_see_the_private_tmp_that_commands_see(place: Place) -> None:
    sandbox = place.sandbox("bwrap")
    read = ReadTool(BuiltinToolOptions())
    with tempfile.NamedTemporaryFile("w", dir="/tmp") as other:
        other.write(SECRET)
        other.flush()
        (place.work / "file").symlink_to(other.name)
        (place.work / "folder").symlink_to("/tmp")
        os.symlink(other.name, sandbox.tmp.real / "inner")
        name = os.path.basename(other.name)
        for path in (
            other.name,
            "file",
            "/tmp/inner",
            f"folder/{name}",
            f"/proc/self/root/tmp/{name}",
        ):
            assert "ENOENT" in _refusal(place, sandbox, read, path=path)
        assert name not in _run(place, sandbox, LsTool(), path="folder")
        _run(place, sandbox, WriteTool(), path=other.name, content="mine")
        assert Path(other.name).read_text() == SECRET
        assert _run(place, sandbox, read, path="file") == "mine"
        assert Shell(place, sandbox).says(f"cat {other.name}") == "mine"


def test_file_tools_see_neither_services_nor_devices_nor_processes(place: Place) -> None:
    sandbox = place.sandbox("bwrap")
    (place.work / "link").symlink_to("/run")
    read = ReadTool(BuiltinToolOptions())
    for path in ("/run/x/token", "/var/run/x", "link/x", "/dev/shm/x", "/proc/1/cmdline"):
        assert "hidden by the sandbox" in _refusal(place, sandbox, read, path=path)
    for path in ("/run", "link", "/dev/shm", f"/proc/{os.getpid()}/fd"):
        assert "hidden by the sandbox" in _refusal(place, sandbox, LsTool(), path=path)
    assert "hidden" in _refusal(place, sandbox, WriteTool(), path="/dev/shm/x", content="x")


@MEANS
def test_other_processes_of_the_user_keep_their_files_to_themselves(
    using: Using, place: Place
) -> None:
    mine = place.sandbox(using)
    other = Place(place.root / "other")
    theirs = other.sandbox(using)
    try:
        Shell(other, theirs).says('echo private > "$TMPDIR/mine"')
        spilt = theirs.output_folder / "pi-bash-1.log"
        spilt.write_text("private")
        own = mine.output_folder / "pi-bash-2.log"
        own.write_text("own")
        read, shell = ReadTool(BuiltinToolOptions()), Shell(place, mine)
        for path in (theirs.tmp.real / "mine", spilt):
            assert shell.fails(f"cat {path}")
            assert "private" not in _refusal(place, mine, read, path=str(path)).split(": ")[0]
        assert _run(place, mine, read, path=str(own)) == "own"
        assert shell.says(f"cat {own}") == "own"
        assert shell.fails(f"echo x > {own}")
    finally:
        spilt.unlink()
        own.unlink()
        other.close()


@MEANS
def test_a_folder_for_temporary_files_elsewhere_is_private_too(
    using: Using, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.root / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place.root / "tmp"))
    sandbox = place.sandbox(using)
    base = sandbox.tmp.base
    assert base.is_relative_to(place.root)
    (base / "left-1-x").write_text("private")
    shell = Shell(place, sandbox)
    assert shell.fails(f"cat {base}/left-1-x")
    assert "hidden" in _refusal(
        place, sandbox, ReadTool(BuiltinToolOptions()), path=f"{base}/left-1-x"
    )
    assert "9000" in _run(place, sandbox, BashTool(BuiltinToolOptions()), command="seq 1 9000")
    (output,) = sandbox.output_folder.iterdir()
    assert shell.says(f"tail -n 1 {output}") == "9000\n"


# ---------------------------------------------------------------- hidden files


@MEANS
def test_grep_gives_no_line_of_a_hidden_file_by_a_hard_link(using: Using, place: Place) -> None:
    os.link(place.home / ".ssh" / "id", place.work / "hard")
    (place.work / "soft").symlink_to("hard")
    (place.work / "mine").write_text("the-secret of mine\n")
    os.link(place.work / "mine", place.work / "mine2")
    sandbox = place.sandbox(using)
    for program in ("", None):
        grep = GrepTool(program)
        found = _run(place, sandbox, grep, pattern="the-secret")
        assert found.splitlines() == ["mine:1: the-secret of mine", "mine2:1: the-secret of mine"]
        for path in ("hard", "soft", "./hard"):
            assert "hides" in _refusal(place, sandbox, grep, pattern="the-secret", path=path)
        assert _run(place, sandbox, grep, pattern="of mine", path="mine2")
        assert "No matches" in _run(place, sandbox, grep, pattern="secret-key", context=2, limit=1)


def test_a_listing_says_nothing_about_the_target_of_a_link_into_a_hidden_place(
    place: Place,
) -> None:
    (place.home / ".ssh" / "folder").mkdir()
    for name in ("id", "folder", "missing"):
        (place.work / name).symlink_to(place.home / ".ssh" / name)
    (place.work / "open").symlink_to(place.outside)
    (place.work / "broken").symlink_to("nowhere")
    sandbox = place.sandbox("bwrap")
    shown = _run(place, sandbox, LsTool()).splitlines()
    assert [name for name in shown if not name.startswith(".")] == [
        "folder",
        "id",
        "missing",
        "open/",
    ]


def test_a_folder_that_becomes_a_link_is_never_listed_through(place: Place) -> None:
    """The folder and a link to a hidden one change places as fast as a thread can do it."""
    sandbox = place.sandbox("bwrap")
    names = [place.work / name for name in ("x", "y", "z")]
    names[0].mkdir()
    names[1].symlink_to(place.home / ".ssh")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for old, new in ((0, 2), (1, 0), (0, 1), (2, 0)):
                os.rename(names[old], names[new])

    thread = threading.Thread(target=swap)
    thread.start()
    listed: set[str] = set()
    try:
        for _ in range(200):
            try:
                listed.add(_run(place, sandbox, LsTool(), path="x"))
            except ToolFailure:
                continue
    finally:
        over.set()
        thread.join()
    assert listed <= {"(empty directory)"}
