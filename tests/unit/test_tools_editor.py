"""Tools with an editor: text that is not saved is read, edits reach the editor, limits hold."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ludolf.agent.tool import Tool, ToolContext, ToolFailure, Walls
from ludolf.ai.messages import text_of
from ludolf.tools.edit import EditTool
from ludolf.tools.editor_text import FORMATTED, MAX_EDITOR_BYTES, UNSAVED
from ludolf.tools.options import BuiltinToolOptions
from ludolf.tools.read import ReadTool
from ludolf.tools.write import WriteTool
from tests.samples import ignore, run_tool
from tests.unit.test_sandbox_files import Place

_PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 64


class Editor:
    """Holds texts in memory; `save` writes a text to disk, as editors do it."""

    def __init__(self, save: Callable[[Path, str], object] = Path.write_text) -> None:
        self.buffers: dict[Path, str] = {}
        self.asked: list[Path] = []
        self._save = save

    async def read(self, path: Path) -> str | None:
        self.asked.append(path)
        return self.buffers.get(path)

    async def write(self, path: Path, text: str) -> bool:
        self.asked.append(path)
        self.buffers[path] = text
        self._save(path, text)
        return True


class Desk:
    def __init__(self, root: Path, editor: Editor, walls: Walls | None = None) -> None:
        self.editor = editor
        agent = root / "agent"
        self.ctx = ToolContext(
            call_id="c", cwd=root, report=ignore, files=editor, agent_folder=agent, walls=walls
        )

    def run(self, tool: Tool, **args: Any) -> str:
        return text_of(asyncio.run(run_tool(tool, args, self.ctx)).content)

    def read(self, path: str) -> str:
        return self.run(ReadTool(BuiltinToolOptions()), path=path)

    def write(self, path: str, content: str) -> str:
        return self.run(WriteTool(), path=path, content=content)

    def edit(self, path: str, old: str, new: str) -> str:
        return self.run(EditTool(), path=path, edits=[{"oldText": old, "newText": new}])


def test_read_and_edit_see_text_that_is_not_saved(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("saved\n")
    desk = Desk(tmp_path, Editor())
    desk.editor.buffers[file] = "not saved\nyet\n"
    assert desk.read("a.txt") == "not saved\nyet\n"
    assert desk.edit("a.txt", "yet", "now") == "Successfully replaced 1 block(s) in a.txt."
    assert file.read_text() == desk.editor.buffers[file] == "not saved\nnow\n"


def test_write_passes_through_the_editor_and_makes_folders(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Editor())
    assert desk.write("new/a.txt", "text\n") == "Successfully wrote to new/a.txt"
    assert desk.editor.buffers == {tmp_path / "new" / "a.txt": "text\n"}


def test_the_model_learns_that_the_editor_formatted_or_did_not_save(tmp_path: Path) -> None:
    formats = Desk(tmp_path, Editor(lambda path, text: path.write_text(text.upper())))
    assert formats.write("a.txt", "text\n") == f"Successfully wrote to a.txt{FORMATTED}"
    assert formats.edit("a.txt", "text", "word").endswith(FORMATTED)
    keeps = Desk(tmp_path, Editor(lambda path, text: None))
    assert keeps.write("a.txt", "other\n").endswith(UNSAVED)
    assert keeps.write("b.txt", "other\n").endswith(UNSAVED)


def test_line_ends_and_the_mark_of_the_disk_survive_an_editor_that_hides_them(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    desk = Desk(tmp_path, Editor(lambda path, text: path.write_bytes(text.encode())))
    desk.editor.buffers[file] = "one\ntwo\n"
    assert desk.edit("a.txt", "two", "2") == "Successfully replaced 1 block(s) in a.txt."
    assert file.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n"


def test_a_link_inside_the_folder_is_named_by_its_target(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    (tmp_path / "link").symlink_to("a.txt")
    desk = Desk(tmp_path, Editor())
    desk.read("link")
    assert desk.editor.asked == [tmp_path / "a.txt"]


@pytest.mark.parametrize("name", ["image.png", "large.txt", "latin.txt", "agent/x.txt", "out"])
def test_other_files_never_reach_the_editor(tmp_path: Path, name: str) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside.txt"
    (work / "agent").mkdir(parents=True)
    outside.write_text("outside\n")
    (work / "out").symlink_to(outside)
    (work / "image.png").write_bytes(_PNG)
    (work / "large.txt").write_text("word\n" * (MAX_EDITOR_BYTES // 5 + 1))
    (work / "latin.txt").write_bytes(b"caf\xe9\n")
    (work / "agent" / "x.txt").write_text("own\n")
    desk = Desk(work, Editor())
    desk.read(name)
    desk.write(name, "new\n")
    assert desk.editor.asked == []
    assert (work / name).read_text() == "new\n"


def test_a_text_that_is_too_large_is_written_to_disk(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Editor())
    desk.write("a.txt", "x" * (MAX_EDITOR_BYTES + 1))
    assert desk.editor.asked == []
    assert (tmp_path / "a.txt").stat().st_size == MAX_EDITOR_BYTES + 1


def test_the_walls_of_a_sandbox_come_before_the_editor(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.work / "a.txt").write_text("text\n")
    (place.work / "keys").symlink_to(place.home / ".ssh" / "id")
    desk = Desk(place.work, Editor(), place.walls)
    desk.edit("a.txt", "text", "word")
    assert (place.work / "a.txt").read_text() == "word\n"
    desk.editor.asked.clear()
    with pytest.raises(ToolFailure, match="hidden by the sandbox"):
        desk.read("keys")
    with pytest.raises(ToolFailure, match="The sandbox protects"):
        desk.write(".git/hooks/pre-commit", "x")
    assert desk.editor.asked == []


def test_a_sandbox_that_is_read_only_lets_the_editor_write_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, "read-only")
    (place.work / "a.txt").write_text("text\n")
    desk = Desk(place.work, Editor(), place.walls)
    desk.editor.buffers[place.work / "a.txt"] = "not saved\n"
    assert desk.read("a.txt") == "not saved\n"
    with pytest.raises(ToolFailure, match="read-only"):
        desk.edit("a.txt", "not saved", "changed")
    assert desk.editor.buffers[place.work / "a.txt"] == "not saved\n"
