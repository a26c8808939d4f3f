"""The write tool: whole files or nothing, in turn, where they belong."""

import asyncio
import os
import resource
import stat
import subprocess
from pathlib import Path

import pytest
from msgspec import UNSET

from ludolf.agent.tool import ToolContext, ToolFailure, ToolOutput
from ludolf.ai.messages import text_of
from ludolf.tools.files import replace_file, settle_in_thread
from ludolf.tools.paths import file_lock
from ludolf.tools.write import WriteTool
from tests.samples import ignore, run_tool


def write(cwd: Path, path: str, content: str) -> ToolOutput:
    tool = WriteTool()
    ctx = ToolContext(call_id="c", cwd=cwd, report=ignore)
    return asyncio.run(run_tool(tool, {"path": path, "content": content}, ctx))


def failure(cwd: Path, path: str) -> str:
    with pytest.raises(ToolFailure) as error:
        write(cwd, path, "x")
    return str(error.value)


def test_a_new_file_appears_with_its_folders(tmp_path: Path) -> None:
    result = write(tmp_path, "a/b/new.txt", "gr\u00fc\u00dfe\n")
    assert text_of(result.content) == "Successfully wrote to a/b/new.txt"
    assert result.details is UNSET
    assert (tmp_path / "a/b/new.txt").read_bytes() == "gr\u00fc\u00dfe\n".encode()
    assert os.listdir(tmp_path / "a/b") == ["new.txt"]


def test_the_mode_of_a_script_is_kept(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    write(tmp_path, "run.sh", "new")
    assert (script.read_text(), stat.S_IMODE(script.stat().st_mode)) == ("new", 0o750)


def test_a_new_file_obeys_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write(tmp_path, "new", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_link_is_followed_and_the_real_place_told(tmp_path: Path) -> None:
    work, target = tmp_path / "work", tmp_path / "secret.txt"
    work.mkdir()
    target.write_text("original")
    (work / "link.txt").symlink_to(target)
    result = write(work, "link.txt", "changed")
    assert text_of(result.content) == f"Successfully wrote to link.txt (real path: {target})"
    assert (work / "link.txt").is_symlink()
    assert target.read_text() == "changed"


def test_a_full_disk_leaves_the_old_content_whole(tmp_path: Path) -> None:
    target = tmp_path / "precious.txt"
    target.write_text("precious")
    _soft, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            replace_file(target, b"z" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert target.read_text() == "precious"
    assert os.listdir(tmp_path) == ["precious.txt"]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    assert failure(tmp_path, "fifo").startswith("Not a regular file: ")
    assert failure(tmp_path, ".") == (
        f"EISDIR: illegal operation on a directory, open '{tmp_path}'"
    )
    assert failure(tmp_path, "file/x") == f"EEXIST: file already exists, mkdir '{tmp_path}/file'"


def test_one_file_is_changed_by_one_at_a_time_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    order: list[str] = []

    async def hold(name: str, other: str | None) -> None:
        async with file_lock(tmp_path / name):
            order.append(f"{name} in")
            if other:
                async with file_lock(tmp_path / other):
                    order.append(f"{other} in")
            await asyncio.sleep(0)
            order.append(f"{name} out")

    async def scenario() -> None:
        await asyncio.gather(hold("file", "another"), hold("link", None))

    asyncio.run(scenario())
    assert order == ["file in", "another in", "file out", "link in", "link out"]


def test_a_cancelled_change_is_waited_for(tmp_path: Path) -> None:
    started, finish = tmp_path / "started", tmp_path / "finish"
    os.mkfifo(started)
    os.mkfifo(finish)

    def work() -> None:
        started.write_text("now")
        finish.read_text()
        (tmp_path / "done").touch()

    async def scenario() -> bool:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(settle_in_thread(work))
            await asyncio.to_thread(started.read_text)
            task.cancel()
            await asyncio.to_thread(finish.write_text, "go")
            try:
                await task
            except asyncio.CancelledError:
                return (tmp_path / "done").exists()
        return False

    assert asyncio.run(scenario())


def test_all_names_of_a_file_keep_the_same_content(tmp_path: Path) -> None:
    target, other = tmp_path / "one", tmp_path / "two"
    target.write_text("a long old text")
    target.chmod(0o751)
    os.link(target, other)
    for content in ("new", "a text that is longer than the old one was", ""):
        write(tmp_path, "one", content)
        assert (target.read_text(), other.read_text()) == (content, content)
    assert target.samefile(other)
    assert stat.S_IMODE(other.stat().st_mode) == 0o751
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


def test_a_full_disk_leaves_the_old_content_of_linked_files_whole(tmp_path: Path) -> None:
    target, other = tmp_path / "one", tmp_path / "two"
    target.write_text("old content")
    os.link(target, other)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        with pytest.raises(ToolFailure):
            write(tmp_path, "one", "x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (target.read_text(), other.read_text()) == ("old content", "old content")


def test_a_path_of_more_folders_than_python_recurses_is_made(tmp_path: Path) -> None:
    path = "a/" * 1100 + "f"
    write(tmp_path, path, "x")
    assert (tmp_path / path).read_text() == "x"
    subprocess.run(["rm", "-rf", "--", "a"], cwd=tmp_path, check=True)
