"""Export a session to one HTML file, without following links or overwriting by default."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from ludolf.base import CommandError
from ludolf.page.packing import start_packing
from ludolf.page.page import OnProgress, render_page
from ludolf.page.page_model import story_of
from ludolf.page.summary import ToolSpecLike
from ludolf.session.tree import Session

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Buffer size: a long page is written in few steps.
_BUFFER = 1 << 18


def default_name(session: Session) -> str:
    """Return the default file name of an export.

    Raises:
        CommandError: the session has no file to derive the name from.
    """
    return f"ludolf-session-{_file_of(session).stem}.html"


def export_html(
    session: Session,
    target: Path | None = None,
    *,
    overwrite: bool = False,
    system_prompt: str | None = None,
    tools: Sequence[ToolSpecLike] = (),
    on_progress: OnProgress | None = None,
) -> Path:
    """Write the session as a page; return the path as the caller wrote it.

    Without a target, use the default name in the working directory, or the first free one with
    `-1`, `-2` …. Calls `on_progress` after each entry. Blocking: call it in a thread.

    Raises:
        CommandError: there is nothing to export, or the file cannot or must not be written.
    """
    file = _file_of(session)
    path = target if target is not None else Path(default_name(session))
    render = partial(render_page, system_prompt=system_prompt, tools=tools, on_progress=on_progress)
    pieces = _pieces(session, file, render)
    try:
        if overwrite:
            return _replace(path, pieces)
        return _create(_names(path) if target is None else iter((path,)), pieces)
    except OSError as problem:
        raise CommandError(f"Cannot write {path}: {problem.strerror}") from problem


def _pieces(session: Session, file: Path, render: Callable[..., Iterator[str]]) -> Iterator[str]:
    """Yield the page. Compression starts first, so that it ends before the rendering."""
    # The leaf is read before the entries: the path needs none that are written after it.
    leaf, entries = session.leaf, tuple(session.entries())
    with ThreadPoolExecutor(1, "ludolf-pack") as pool:
        lines = start_packing(pool, file, session.header, entries)
        yield from render(story_of(session.header, entries, leaf), lines=lines)


def _file_of(session: Session) -> Path:
    if session.path is None:
        raise CommandError("Cannot export in-memory session to HTML")
    if not session.saved:
        raise CommandError("Nothing to export yet - start a conversation first")
    return session.path


def _create(names: Iterator[Path], pieces: Iterator[str]) -> Path:
    """Write to the first name that is free."""
    taken: Path | None = None
    for name in names:
        try:
            descriptor = os.open(name, _NEW, 0o600)
        except FileExistsError:
            taken = name
            continue
        try:
            _fill(descriptor, pieces)
        except BaseException:
            name.unlink(missing_ok=True)
            raise
        return name
    raise CommandError(f"File exists: {taken}. Choose another name or ask to overwrite it.")


def _replace(target: Path, pieces: Iterator[str]) -> Path:
    """Write a temporary file next to the target and move it into place."""
    try:
        kind = os.lstat(target).st_mode
    except FileNotFoundError:
        kind = stat.S_IFREG
    if not stat.S_ISREG(kind):
        what = "a symbolic link" if stat.S_ISLNK(kind) else "not a regular file"
        raise CommandError(f"Not overwritten, since it is {what}: {target}")
    temporary = target.with_name(f".{target.name[:100]}.{os.urandom(4).hex()}.tmp")
    descriptor = os.open(temporary, _NEW, 0o600)
    try:
        _fill(descriptor, pieces)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return target


def _fill(descriptor: int, pieces: Iterator[str]) -> None:
    with open(descriptor, "wb", _BUFFER) as file:
        os.fchmod(file.fileno(), 0o600)
        for piece in pieces:
            file.write(piece.encode("utf-8", "replace"))


def _names(path: Path) -> Iterator[Path]:
    yield path
    for number in range(1, 1000):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")
