"""Text files that an editor holds: read and write them there where that is allowed."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from ludolf.agent.tool import ToolContext, ToolFailure, Walls
from ludolf.base import without_surrogates
from ludolf.tools.files import closing_file, make_folders, open_regular
from ludolf.tools.image_types import SNIFF_BYTES, sniff
from ludolf.tools.output import SPILL_PREFIX
from ludolf.tools.paths import real_path

MAX_EDITOR_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
FORMATTED = (
    "\n\n[The editor changed the text when it saved the file, so the file differs from what was "
    "written. Read it before you edit it again.]"
)
UNSAVED = (
    "\n\n[The editor has the new text, but has not saved it yet: until then commands see the old "
    "content of the file.]"
)


class _EditorFile(msgspec.Struct, frozen=True):
    """A file that may pass through the editor: its name there, and its content on disk."""

    path: Path
    disk: bytes | None


class _NotForEditor(Exception):
    """The file must be read from disk or written to it."""


async def read_in_editor(path: Path, ctx: ToolContext) -> bytes | None:
    """Return the text of a file as the editor holds it; None if the disk is to be used."""
    if ctx.files is None:
        return None
    file = await asyncio.to_thread(partial(_find, path, ctx, writes=False))
    text = None if file is None else await ctx.files.read(file.path)
    if file is None or text is None:
        return None
    data = without_surrogates(text).encode()
    if len(data) > MAX_EDITOR_BYTES:
        return None
    # Editors hide the byte order mark and the kind of line ends, which the disk has.
    return file.disk if file.disk is not None and _is_same(file.disk, data) else data


async def write_in_editor(path: Path, data: bytes, ctx: ToolContext) -> str | None:
    """Let the editor write a file. Returns a remark for the model, which may be empty.

    None if the disk is to be used, which has not been changed then.
    """
    if ctx.files is None or len(data) > MAX_EDITOR_BYTES:
        return None
    file = await asyncio.to_thread(partial(_find, path, ctx, writes=True))
    if file is None or not await ctx.files.write(file.path, data.decode()):
        return None
    return await asyncio.to_thread(partial(_remark, path, ctx.walls, file.disk, data))


def _remark(path: Path, walls: Walls | None, before: bytes | None, written: bytes) -> str:
    try:
        after = _content(path, walls)
    except _NotForEditor:
        return FORMATTED
    if after is not None and _is_same(after, written):
        return ""
    return UNSAVED if after == before else FORMATTED


def _is_same(one: bytes, other: bytes) -> bool:
    """Whether two texts differ at most in line ends and the byte order mark."""
    return one == other or _plain(one) == _plain(other)


def _plain(data: bytes) -> bytes:
    return data.removeprefix(_BOM).replace(b"\r\n", b"\n")


# ---------------------------------------------------------------- which files


def _find(path: Path, ctx: ToolContext, *, writes: bool) -> _EditorFile | None:
    """Return the file if it may pass through the editor.

    None for all others, also for those that tools may not use: access by disk names the cause.
    """
    try:
        inside = _inside_folder(path, ctx)
        content = _content(path, ctx.walls)
        if writes:
            _check_writable(path, ctx.walls)
        return _EditorFile(ctx.cwd / inside, content)
    except (_NotForEditor, ToolFailure, OSError):
        return None


def _inside_folder(path: Path, ctx: ToolContext) -> Path:
    """Return the path relative to the working folder, with links resolved."""
    real = Path(real_path(path)) if ctx.walls is None else ctx.walls.locate(path)
    folder = Path(real_path(ctx.cwd))
    if not real.is_relative_to(folder):
        raise _NotForEditor
    if any(real.is_relative_to(place) for place in _own_folders(real, folder, ctx)):
        raise _NotForEditor
    return real.relative_to(folder)


def _own_folders(real: Path, folder: Path, ctx: ToolContext) -> Iterator[Path]:
    """Yield the agent folder and the folders of complete command output."""
    from tempfile import gettempdir

    if ctx.agent_folder is not None:
        yield Path(real_path(ctx.agent_folder))
    if ctx.walls is not None:
        yield Path(real_path(ctx.walls.output_folder))
    base = Path(real_path(gettempdir()))
    if real.is_relative_to(base) and real != base:
        place = base / real.relative_to(base).parts[0]
        if place.name.startswith(SPILL_PREFIX) and not folder.is_relative_to(place):
            yield place


def _content(path: Path, walls: Walls | None) -> bytes | None:
    """Return the content of a small text file; None if there is no file."""
    try:
        file = open_regular(path, walls)
    except FileNotFoundError:
        return None
    with closing_file(file), open(file, "rb", closefd=False) as source:
        data = source.read(MAX_EDITOR_BYTES + 1)
    if len(data) > MAX_EDITOR_BYTES or b"\0" in data or sniff(data[:SNIFF_BYTES]):
        raise _NotForEditor
    with suppress(UnicodeDecodeError):
        data.decode()
        return data
    raise _NotForEditor


def _check_writable(path: Path, walls: Walls | None) -> None:
    """Check that a tool may write the file; make its folder if there are no walls."""
    if walls is not None:
        walls.check_writable(path)
        if not walls.locate(path).parent.is_dir():
            raise _NotForEditor
        return
    target = real_path(path)
    make_folders(os.path.dirname(target))
    if os.path.lexists(target) and not os.access(target, os.W_OK):
        raise _NotForEditor
